//! The variables of the environment that turnstream knows. One that only looks like ours is a mistake that
//! nobody would notice: what it was to change stays as it was.

use super::{ConfigError, DEFAULT_AGENT};
use clap::CommandFactory;
use std::collections::BTreeSet;

const PREFIX: &str = "TURNSTREAM_";

/// Of `[timeouts]` and `[retention]`.
const TABLES: [(&str, &[&str]); 2] = [
    (
        "TIMEOUTS",
        &[
            "CONNECT",
            "START",
            "INACTIVITY",
            "CANCEL",
            "RECOVERY",
            "TRUTH",
            "APPROVAL",
            "ON_TIMEOUT",
            "IDLE",
            "HEARTBEAT",
        ],
    ),
    (
        "RETENTION",
        &["MAX_AGE", "MAX_BYTES", "MAX_TURNS", "SESSION_MAX_AGE", "MAX_SESSIONS", "TOTAL_BYTES", "EVERY"],
    ),
];

/// Not for users: what agents are started with, and what this project's own tests and benchmarks set.
const OWN: [&str; 8] =
    ["OPENCODE", "FAILPOINT", "FULL", "AGENTS", "SEED", "UPDATE", "BENCH_SECONDS", "BENCH_PEER"];

/// The same, by how they begin.
const OWN_BEGINNINGS: [&str; 2] = ["DISK_", "TEST_"];

/// Refuses a variable that nobody reads. One that stands in the text of the configuration is read there: as
/// that of a password, of a literal, or to be passed on.
pub(super) fn check(configuration: &str) -> Result<(), ConfigError> {
    let known = known();
    for (name, _) in std::env::vars_os() {
        let Some(name) = name.to_str() else { continue };
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        let is_own = OWN.contains(&rest) || OWN_BEGINNINGS.iter().any(|begin| rest.starts_with(begin));
        let is_named =
            configuration.contains(&format!("\"{name}\"")) || configuration.contains(&format!("'{name}'"));
        if !is_own && !is_named && !known.contains(name) {
            let near = nearest(name, &known);
            return Err(ConfigError::UnknownVariable { name: name.to_owned(), near });
        }
    }
    Ok(())
}

fn known() -> BTreeSet<String> {
    let mut known = BTreeSet::from([DEFAULT_AGENT.to_owned(), format!("{PREFIX}REDACTION_ENABLED")]);
    for (table, keys) in TABLES {
        known.extend(keys.iter().map(|key| format!("{PREFIX}{table}_{key}")));
    }
    // The flags know theirs themselves.
    for command in crate::Cli::command().get_subcommands() {
        let names = command.get_arguments().filter_map(clap::Arg::get_env);
        known.extend(names.filter_map(|name| name.to_str()).map(str::to_owned));
    }
    known
}

/// The known name that is only a slip away: one letter in three may be wrong.
fn nearest(name: &str, known: &BTreeSet<String>) -> Option<String> {
    let slips = (name.len().saturating_sub(PREFIX.len()) / 3).clamp(1, 3);
    let near = known.iter().map(|other| (distance(name, other), other)).min();
    near.filter(|(distance, _)| *distance <= slips).map(|(_, other)| other.clone())
}

/// How many letters have to be put in, left out, replaced, or swapped with the next, to make one of the other.
fn distance(one: &str, other: &str) -> usize {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut before_last = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for line in 0..one.len() {
        let mut row = vec![line + 1];
        for column in 0..other.len() {
            let replaced = last[column] + usize::from(one[line] != other[column]);
            let mut least = replaced.min(last[column + 1] + 1).min(row[column] + 1);
            let is_swapped =
                line > 0 && column > 0 && one[line] == other[column - 1] && one[line - 1] == other[column];
            if is_swapped {
                least = least.min(before_last[column - 1] + 1);
            }
            row.push(least);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::{distance, known, nearest};

    #[test]
    fn a_slip_is_told_from_another_word() {
        let known = known();
        assert!(known.contains("TURNSTREAM_LISTEN") && known.contains("TURNSTREAM_URL"));
        assert_eq!(nearest("TURNSTREAM_LISEN", &known).as_deref(), Some("TURNSTREAM_LISTEN"));
        assert_eq!(
            nearest("TURNSTREAM_RETENTION_MAX_AGES", &known).as_deref(),
            Some("TURNSTREAM_RETENTION_MAX_AGE")
        );
        assert_eq!(nearest("TURNSTREAM_ULR", &known).as_deref(), Some("TURNSTREAM_URL"));
        for other in ["COLOUR_SCHEME", "FOO", "PORT", "PATH", ""] {
            assert_eq!(nearest(&format!("TURNSTREAM_{other}"), &known), None, "{other}");
        }
        assert_eq!([distance("", "ab"), distance("abc", "abc"), distance("abc", "axcd")], [2, 0, 2]);
        assert_eq!([distance("abcd", "acbd"), distance("ab", "ba"), distance("ab", "")], [1, 1, 2]);
    }
}
