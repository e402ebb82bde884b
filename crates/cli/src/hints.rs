//! Commands that a person can copy into another terminal, in any directory, and that work there.

use crate::choose::{Candidate, choose};
use crate::client::reachable;
use crate::config::{Config, Place};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The commands, one per line. `place` is what flags and variables said: another terminal has only what is
/// printed.
pub(crate) fn of(config: &Config, place: &Place, address: SocketAddr, agents: Vec<Candidate>) -> Vec<String> {
    let program = program(std::env::args_os().next().map(PathBuf::from));
    let reach = reach(config, place);
    let mut run = format!("{program} run \"Hello\"");
    if let Some(root) = config.settings.roots.first() {
        run += &format!(" --cwd {}", quoted(&whole(root)));
    }
    if let Some(agent) = needed_agent(config.default_agent.as_deref(), agents) {
        run += &format!(" --agent {agent}");
    }
    let second = match config.token {
        None => format!("curl http://{}/v1/health", reachable(address)),
        // A token is not printed: the commands find it where this one did.
        Some(_) => format!("{program} sessions{reach}"),
    };
    vec![run + &reach, second]
}

/// Whether the commands need a variable that this process was given.
pub(crate) fn need_token(place: &Place) -> bool {
    place.token.is_some()
}

/// The flags without which another command would look somewhere else.
fn reach(config: &Config, place: &Place) -> String {
    let mut flags = String::new();
    if let Some(file) = &place.config {
        flags += &format!(" --config {}", quoted(&whole(file)));
    }
    // A relative one in the file is relative to wherever a command is started.
    if place.data.is_some() || config.data.is_relative() {
        flags += &format!(" --data {}", quoted(&whole(&config.data)));
    }
    flags
}

/// The agent that has to be named, where none would be taken unnamed.
fn needed_agent(default: Option<&str>, agents: Vec<Candidate>) -> Option<String> {
    let usable = agents.iter().filter(|one| one.problem.is_none());
    let first = usable.clone().find(|one| !one.scripted).or_else(|| usable.clone().next());
    let first = first.map(|one| one.name.clone());
    choose(default, agents).err().and(first)
}

/// How this program is called: by its name if it was found on the path, else by where it is.
fn program(called: Option<PathBuf>) -> String {
    match called.filter(|path| path.components().count() > 1) {
        Some(path) => quoted(&whole(&path)),
        None => "turnstream".to_owned(),
    }
}

fn whole(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%".contains(&byte);
    if text.bytes().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::{program, quoted};
    use std::path::{Path, PathBuf};

    #[test]
    fn a_path_stays_one_word_of_a_shell() {
        assert_eq!(quoted(Path::new("/srv/work-1")), "/srv/work-1");
        assert_eq!(quoted(Path::new("/it's $HOME")), r"'/it'\''s $HOME'");
        assert_eq!(program(Some(PathBuf::from("turnstream"))), "turnstream");
        assert!(program(Some(PathBuf::from("./turnstream"))).starts_with('/'));
    }
}
