//! Agents that need no configuration: those on `PATH`, and the built-in one if there is a route.

use super::agent::{Acp, AgentTable, Builtin, Opencode, Started};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use turnstream_agents::program::{self, Adapter, Found, KnownAgent};
use turnstream_provider::Routes;

/// Adds the agents that are found on this `PATH`, under the names of their commands. What the configuration
/// names is left alone, and is not offered a second time.
pub(super) fn add(agents: &mut BTreeMap<String, AgentTable>, path: &OsStr) {
    for found in program::discover(path) {
        let name = found.known.name();
        if !agents.contains_key(&name) && !agents.values().any(|table| is_same(table, &found)) {
            agents.insert(name, table(found));
        }
    }
}

/// Adds the built-in agent if there is a route and the configuration names none.
pub(super) fn add_builtin(agents: &mut BTreeMap<String, AgentTable>, routes: &Routes) {
    let is_builtin = |table: &AgentTable| matches!(table, AgentTable::Builtin(_));
    if !routes.is_empty() && !agents.values().any(is_builtin) {
        agents.entry("builtin".to_owned()).or_insert_with(|| AgentTable::Builtin(Builtin::discovered()));
    }
}

/// The same agent, as if the configuration had its kind and its command.
fn table(found: Found) -> AgentTable {
    match found.known.adapter {
        Adapter::Opencode => AgentTable::Opencode(Box::new(Opencode::discovered(found.path))),
        Adapter::Claude => AgentTable::Claude(Started::discovered(found.known, found.path)),
        Adapter::Codex => AgentTable::Codex(Started::discovered(found.known, found.path)),
        Adapter::Acp(arguments) => AgentTable::Acp(Acp::discovered(found, arguments)),
        Adapter::NotYet => AgentTable::NotYet(found),
    }
}

/// Whether an agent of the configuration has the kind and the program of one that was found.
fn is_same(table: &AgentTable, found: &Found) -> bool {
    match table {
        AgentTable::Scripted(_) | AgentTable::Builtin(_) => false,
        AgentTable::Opencode(table) => {
            table.url.is_none() && starts(&program::OPENCODE, table.command.as_deref(), found)
        }
        AgentTable::Claude(table) => starts(&program::CLAUDE, table.command.as_deref(), found),
        AgentTable::Codex(table) => starts(&program::CODEX, table.command.as_deref(), found),
        AgentTable::Acp(table) => starts(table.known, Some(&table.command), found),
        AgentTable::NotYet(other) => std::ptr::eq(other.known, found.known),
    }
}

fn starts(known: &KnownAgent, command: Option<&Path>, found: &Found) -> bool {
    let is_command = |command: &Path| {
        let real = |path: &Path| path.canonicalize().ok();
        command == Path::new(known.command) || (real(command).is_some() && real(command) == real(&found.path))
    };
    std::ptr::eq(known, found.known) && command.is_none_or(is_command)
}

#[cfg(test)]
mod tests {
    use super::add;
    use crate::config::agent::AgentTable;
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    /// The names of all agents, and which of them were found, with this configuration.
    fn listed(directory: &Path, file: &str) -> Vec<(String, bool)> {
        let mut agents: BTreeMap<String, AgentTable> = toml::from_str(file).unwrap();
        add(&mut agents, directory.as_os_str());
        let listed = |(name, table): (String, AgentTable)| (name, table.is_discovered());
        agents.into_iter().map(listed).collect()
    }

    #[test]
    fn what_the_configuration_names_is_not_offered_a_second_time() {
        let home = tempfile::tempdir().unwrap();
        for name in ["claude", "opencode", "goose"] {
            let path = home.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let names = |file: &str, expected: &[(&str, bool)]| {
            let expected: Vec<(String, bool)> =
                expected.iter().map(|(name, found)| ((*name).to_owned(), *found)).collect();
            assert_eq!(listed(home.path(), file), expected, "{file}");
        };
        let acp = ("opencode-acp", true);
        names("", &[("claude", true), ("goose", true), ("opencode", true), acp]);
        names(
            "[mine]\nkind = \"claude\"\n[opencode]\nkind = \"scripted\"",
            &[("goose", true), ("mine", false), ("opencode", false), acp],
        );
        names(
            "[mine]\nkind = \"acp\"\ncommand = [\"opencode\", \"acp\"]",
            &[("claude", true), ("goose", true), ("mine", false), ("opencode", true)],
        );
        let path = home.path().join("claude");
        names(
            &format!("[mine]\nkind = \"claude\"\ncommand = {path:?}\n"),
            &[("goose", true), ("mine", false), ("opencode", true), acp],
        );
        names(
            "[mine]\nkind = \"claude\"\ncommand = \"/elsewhere/claude\"\n\
             [remote]\nkind = \"opencode\"\nurl = \"http://127.0.0.1:1\"",
            &[("claude", true), ("goose", true), ("mine", false), ("opencode", true), acp, ("remote", false)],
        );
    }
}
