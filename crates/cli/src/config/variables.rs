//! The `TURNSTREAM_…` variables that exist. An unknown one is refused: it is probably a spelling mistake, and
//! would otherwise change nothing without a word.

use super::ConfigError;
use super::file::{File, Timeouts};
use super::keys::{Key, PREFIX, Source};
use super::limits::Limits;
use super::redaction::Redaction;
use super::retention::RetentionTable;
use clap::CommandFactory;
use std::collections::BTreeSet;

/// Not for users: set for agents, and by this project's tests and benchmarks.
const OWN: [&str; 9] =
    ["AGENT", "OPENCODE", "FAILPOINT", "FULL", "AGENTS", "SEED", "UPDATE", "BENCH_SECONDS", "BENCH_PEER"];

/// The same, by prefix.
const OWN_BEGINNINGS: [&str; 2] = ["DISK_", "TEST_"];

/// Refuses an unknown variable. One that the configuration names is known: it holds a password or a
/// literal, or is passed on to an agent.
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
    let tables = [File::KEYS, Timeouts::KEYS, Redaction::KEYS, RetentionTable::KEYS, Limits::KEYS];
    let keys = tables.into_iter().flatten().filter(|key| key.source == Source::Variable);
    let mut known: BTreeSet<String> = keys.map(Key::variable).collect();
    // clap knows the variables of flags.
    for command in crate::Cli::command().get_subcommands() {
        let names = command.get_arguments().filter_map(clap::Arg::get_env);
        known.extend(names.filter_map(|name| name.to_str()).map(str::to_owned));
    }
    known
}

/// The known name that was probably meant: at most one letter in three differs.
fn nearest(name: &str, known: &BTreeSet<String>) -> Option<String> {
    let slips = (name.len().saturating_sub(PREFIX.len()) / 3).clamp(1, 3);
    let near = known.iter().map(|other| (distance(name, other), other)).min();
    near.filter(|(distance, _)| *distance <= slips).map(|(_, other)| other.clone())
}

/// The edit distance: letters inserted, removed, replaced, or swapped with the next one.
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
