//! `turnstream agents`: lists the agents.

use super::VerbError;
use crate::client::{Reach, connect};
use crate::escape::{self, preview};
use crate::out;
use serde_json::Value;
use std::io;
use std::process::ExitCode;

/// The widest name.
const WIDEST: usize = 32;

/// How many models or modes of an agent are listed.
const LISTED: usize = 12;

const EXAMPLES: &str = "\
Examples:
  turnstream agents            what can be used, and what is wrong with what cannot
  turnstream agents --json     one JSON object per agent";

/// List the agents of the gateway, configured or found on PATH, and why one cannot be used
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print one JSON object per agent instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, VerbError> {
    let connected = connect(&args.reach, None).await?;
    let listed = connected.client.get("/v1/agents").await;
    connected.end().await;
    let listed = listed?;
    let agents = listed["agents"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text: String = match args.json {
        true => agents.iter().map(|agent| format!("{}\n", escape::json(&agent.to_string()))).collect(),
        false => agents.iter().map(|agent| line(agent, listed["default"].as_str())).collect(),
    };
    match out::print(&escape::text(&text)) {
        // The reader closed the pipe, for example `head`.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn line(agent: &Value, default: Option<&str>) -> String {
    let member = |name: &str| agent[name].as_str().unwrap_or_default();
    let name = member("name");
    let is_default = if Some(name) == default { " (default)" } else { "" };
    let version = agent["version"].as_str();
    let version = version.map_or_else(String::new, |version| format!(" {}", preview(version, WIDEST)));
    let (name, about) = (preview(name, WIDEST), preview(member("about"), usize::MAX));
    let mut text = format!("{name}{version}{is_default}: {about}\n");
    let mut more = |what: &str, value: &str| {
        if !value.is_empty() {
            text += &format!("  {what}: {}\n", preview(value, usize::MAX));
        }
    };
    let is_discovered = agent["discovered"] == true;
    more(if is_discovered { "found on PATH" } else { "program" }, member("path"));
    // It has no program.
    if is_discovered && agent["kind"] == "builtin" {
        more("offered because", "[llm.routes] has an entry");
    }
    more("login", &member("login").replace('_', " "));
    more("models", &choices(&agent["models"]));
    more("modes", &choices(&agent["modes"]));
    more("notice", member("notice"));
    more("cannot be used", member("problem"));
    text
}

/// The first models or modes.
fn choices(list: &Value) -> String {
    let ids: Vec<&str> = list.as_array().into_iter().flatten().filter_map(|one| one["id"].as_str()).collect();
    let more = ids.len().saturating_sub(LISTED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", ids.iter().take(LISTED).copied().collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::line;
    use serde_json::json;

    #[test]
    fn an_agent_that_cannot_be_used_says_why() {
        let one = json!({"name": "a", "about": "opencode at x", "version": "1.0", "problem": "down\u{1b}"});
        assert_eq!(line(&one, Some("a")), "a 1.0 (default): opencode at x\n  cannot be used: down\\u{1b}\n");
    }

    #[test]
    fn the_built_in_agent_says_why_it_is_offered() {
        let one = json!({"name": "builtin", "kind": "builtin", "about": "x", "discovered": true});
        assert_eq!(line(&one, None), "builtin: x\n  offered because: [llm.routes] has an entry\n");
    }

    #[test]
    fn an_agent_that_was_found_says_where_and_what_it_offers() {
        let models: Vec<_> = (1..=14).map(|number| json!({"id": format!("m{number}")})).collect();
        let one = json!({"name": "claude", "about": "Claude Code", "discovered": true, "path": "/bin/claude",
            "login": "logged_in", "models": models, "modes": [{"id": "plan"}], "notice": "new"});
        assert_eq!(
            line(&one, None),
            "claude: Claude Code\n  found on PATH: /bin/claude\n  login: logged in\n  \
             models: m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12 and 2 more\n  modes: plan\n  notice: new\n"
        );
    }
}
