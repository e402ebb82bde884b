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

const EXAMPLES: &str = "\
Examples:
  turnstream agents            what can be used, and what is wrong with what cannot
  turnstream agents --json     one JSON object per agent";

/// List the agents of the gateway, and why one cannot be used
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
    let version = agent["version"].as_str().map_or_else(String::new, |version| format!(" {version}"));
    let about = format!("{}{version}", member("about"));
    let problem = agent["problem"].as_str();
    let state = problem
        .map_or_else(String::new, |problem| format!("\n  cannot be used: {}", preview(problem, usize::MAX)));
    format!("{}{is_default}: {}{state}\n", preview(name, WIDEST), preview(&about, usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::line;
    use serde_json::json;

    #[test]
    fn an_agent_that_cannot_be_used_says_why() {
        let one = json!({"name": "a", "about": "opencode at x", "version": "1.0", "problem": "down\u{1b}"});
        assert_eq!(line(&one, Some("a")), "a (default): opencode at x 1.0\n  cannot be used: down\\u{1b}\n");
    }
}
