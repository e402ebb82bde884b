//! The commands of the first screen. They work in another terminal, in any directory.

use crate::agent_choice::{Candidate, choose};
use crate::client::reachable;
use crate::config::{Config, Place};
use crate::shell::quoted_path;
use std::net::SocketAddr;
use std::path::PathBuf;
use turnstream_server::{Auth, Origin};

/// The commands. Flags and variables of this process (`place`) are repeated, because another terminal does
/// not have them.
pub(crate) fn of(config: &Config, place: &Place, address: SocketAddr, agents: Vec<Candidate>) -> Vec<String> {
    let program = program(std::env::args_os().next().map(PathBuf::from));
    let reach = reach(config, place);
    let mut run = format!("{program} run \"Hello\"");
    if let Some(root) = config.settings.roots.first() {
        run += &format!(" --cwd {}", quoted_path(root));
    }
    if let Some(agent) = needed_agent(config.default_agent.as_deref(), agents) {
        run += &format!(" --agent {agent}");
    }
    let base = config
        .public_url
        .as_ref()
        .map_or_else(|| format!("http://{}", reachable(address)), Origin::to_string);
    // A token is never printed: the command reads it from the configuration or the data directory.
    let token = match config.auth {
        Auth::None => String::new(),
        Auth::Token(_) | Auth::File(_) => format!(" -H \"Authorization: Bearer $({program} token{reach})\""),
    };
    vec![run + &reach, format!("curl{token} {base}/v1/sessions")]
}

/// Whether the commands need the variable with the token.
pub(crate) fn need_token(place: &Place) -> bool {
    place.token.is_some()
}

/// The flags that a command needs to find this gateway.
fn reach(config: &Config, place: &Place) -> String {
    let mut flags = String::new();
    if let Some(file) = &place.config {
        flags += &format!(" --config {}", quoted_path(file));
    }
    // A relative path in the file depends on where a command is started.
    if place.data.is_some() || config.data.is_relative() {
        flags += &format!(" --data {}", quoted_path(&config.data));
    }
    flags
}

/// The agent to name with `--agent`, if `run` would not choose one by itself.
fn needed_agent(default: Option<&str>, agents: Vec<Candidate>) -> Option<String> {
    let usable = agents.iter().filter(|one| one.problem.is_none());
    let first = usable.clone().find(|one| !one.scripted).or_else(|| usable.clone().next());
    let first = first.map(|one| one.name.clone());
    choose(default, agents).err().and(first)
}

/// How to call this program: by its name if it was found on `PATH`, else by its path.
fn program(called: Option<PathBuf>) -> String {
    match called.filter(|path| path.components().count() > 1) {
        Some(path) => quoted_path(&path),
        None => "turnstream".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::program;
    use std::path::PathBuf;

    #[test]
    fn a_program_that_was_not_found_on_the_path_is_named_by_its_own_path() {
        assert_eq!(program(Some(PathBuf::from("turnstream"))), "turnstream");
        assert!(program(Some(PathBuf::from("./turnstream"))).starts_with('/'));
    }
}
