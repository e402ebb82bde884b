//! `[redaction]`: what counts as a secret. Secrets in the configuration itself always count.

use super::agent::AgentTable;
use super::keys::keys;
use super::{ConfigError, Opencode};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::env::VarError;
use std::ffi::OsString;
use std::path::PathBuf;
use turnstream_provider::{Access, Routes};
use turnstream_redact::{LONGEST_LITERAL, Pattern, RuleError, Rules, SHORTEST_LITERAL};

keys! {
    /// `[redaction]`.
    pub(super) struct Redaction in "redaction" {
        /// `false` keeps every text as it is, secrets included. Default: `true`.
        enabled: bool = "true", variable;
        /// Kinds of secrets that are not redacted. [privacy.md](privacy.md) lists the kinds.
        without: Vec<String> = "[\"jwt\"]", file;
    }
    tables {
        patterns: Vec<PatternTable>;
        literals: Vec<LiteralTable>;
    }
}

/// One `[[redaction.patterns]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct PatternTable {
    name: String,
    regex: String,
    /// How every match begins. Text after it is held back until it is known whether it matches.
    prefix: Option<String>,
}

/// One `[[redaction.literals]]`: a value, or where it is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct LiteralTable {
    name: String,
    value: Option<String>,
    env: Option<String>,
    file: Option<PathBuf>,
}

/// Why the value of a literal cannot be read. It never holds a part of the value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LiteralError {
    #[error("variable {0} is not set")]
    Unset(String),
    #[error("the value of variable {0} is not UTF-8")]
    NotText(String),
    #[error("{}: {error}", path.display())]
    File {
        path: PathBuf,
        #[source]
        error: std::io::Error,
    },
    #[error("say where it is: one of value, env or file")]
    Nowhere,
}

impl LiteralTable {
    fn read(&self) -> Result<String, LiteralError> {
        match (&self.value, &self.env, &self.file) {
            (Some(value), None, None) => Ok(value.clone()),
            (None, Some(variable), None) => std::env::var(variable).map_err(|error| match error {
                VarError::NotPresent => LiteralError::Unset(variable.clone()),
                // It holds the value, which is a secret.
                VarError::NotUnicode(_) => LiteralError::NotText(variable.clone()),
            }),
            (None, None, Some(path)) => std::fs::read_to_string(path)
                .map(|text| text.trim_end_matches(['\r', '\n']).to_owned())
                .map_err(|error| LiteralError::File { path: path.clone(), error }),
            _ => Err(LiteralError::Nowhere),
        }
    }
}

/// Secrets that the gateway makes itself: its tokens, login codes and tickets, and the part of a path by
/// which an agent uses a route. For each its name, how it begins, and the rest.
const OWN_SECRETS: [(&str, &str, &str); 4] = [
    ("turnstream_token", "tst_", "[A-Za-z0-9_-]{43}"),
    ("turnstream_login", "tsl_", "[A-Za-z0-9_-]{43}"),
    ("turnstream_ticket", "tsq_", "[A-Za-z0-9_-]{43}"),
    ("turnstream_route", "tsr_", "[0-9a-f]{32}[as][0-9a-f]*"),
];

impl Redaction {
    /// The rules, with the secrets that the gateway and its agents get from this configuration.
    pub(super) fn rules(
        &self,
        token: Option<&str>,
        agents: &BTreeMap<String, AgentTable>,
        routes: &Routes,
    ) -> Result<Rules, ConfigError> {
        if self.enabled == Some(false) {
            return Ok(Rules::none());
        }
        let wrong = |what: String, problem: RuleError| ConfigError::Rule { what, problem };
        let mut builder = Rules::builder();
        for kind in self.without.iter().flatten() {
            builder = builder.without(kind).map_err(|error| wrong(format!("without {kind:?}"), error))?;
        }
        for PatternTable { name, regex, prefix } in &self.patterns {
            let pattern = Pattern { name: name.clone(), regex: regex.clone(), prefix: prefix.clone() };
            builder = builder.pattern(pattern).map_err(|error| wrong(format!("pattern {name:?}"), error))?;
        }
        for table in &self.literals {
            let what = || format!("literal {:?}", table.name);
            let value = table.read().map_err(|problem| ConfigError::Literal { what: what(), problem })?;
            builder = builder.literal(&table.name, &value).map_err(|error| wrong(what(), error))?;
        }
        for (name, prefix, rest) in OWN_SECRETS {
            let regex = format!("{prefix}{rest}");
            let pattern = Pattern { name: name.to_owned(), regex, prefix: Some(prefix.to_owned()) };
            builder = builder.pattern(pattern).map_err(|error| wrong(name.to_owned(), error))?;
        }
        for (name, value) in handed_over(token, agents, routes) {
            let what = || format!("the value of {name}");
            builder = builder.literal(&name, &value).map_err(|error| wrong(what(), error))?;
        }
        Ok(builder.build())
    }
}

/// Secrets that the gateway and its agents are given anyway, each with a name for the marker. A value that is
/// too short to be told from ordinary text is left out. Of a very long one, only the beginning is redacted.
fn handed_over(
    token: Option<&str>,
    agents: &BTreeMap<String, AgentTable>,
    routes: &Routes,
) -> Vec<(String, String)> {
    let mut given: Vec<(String, String)> = Vec::new();
    given.extend(token.map(|token| ("token".to_owned(), token.to_owned())));
    given.extend(routes.iter().filter_map(|route| {
        let (Access::Configured(source) | Access::PassThrough(source)) = &route.access else { return None };
        // A request reports a key that cannot be read.
        Some((format!("route_{}", route.name), source.read().ok()?.expose().to_owned()))
    }));
    for table in agents.values() {
        match table {
            AgentTable::Scripted(_) | AgentTable::NotYet(_) => {}
            AgentTable::Opencode(table) => given.extend(opencode(table)),
            AgentTable::Claude(table) | AgentTable::Codex(table) => {
                given.extend(secrets(&table.passed, &table.env))
            }
            AgentTable::Acp(table) => given.extend(secrets(&table.passed, &table.env)),
            AgentTable::Builtin(table) => given.extend(secrets(&[], &table.env)),
        }
    }
    given.retain(|(_, value)| value.len() >= SHORTEST_LITERAL);
    for (name, value) in &mut given {
        *name = marker(name);
        value.truncate(value.floor_char_boundary(LONGEST_LITERAL));
    }
    given
}

/// Keys of providers and passwords that opencode is given.
fn opencode(table: &Opencode) -> Vec<(String, String)> {
    let mut given = secrets(&table.passed, &table.env);
    given
        .extend(table.password_env.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?))));
    // The agent reports a file that cannot be read when it needs the password.
    let password = table.password_file.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
    given.extend(password.map(|text| ("password".to_owned(), text.trim().to_owned())));
    given
}

/// The variables of an agent whose names say that they hold secrets.
fn secrets(passed: &[(OsString, OsString)], set: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let passed = passed.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    let set = set.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let secret = passed.chain(set).filter(|(name, _)| is_secret(name));
    secret.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The name of a variable in the form that a redaction marker allows.
fn marker(variable: &str) -> String {
    let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '_' };
    variable.to_lowercase().chars().map(plain).take(32).collect()
}

/// Whether the name of a variable or a key says that its value is a secret.
pub(super) fn is_secret(variable: &str) -> bool {
    let name = variable.to_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"].iter().any(|word| name.contains(word))
}
