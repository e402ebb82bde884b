//! `[redaction]`: what counts as a secret. Secrets that the configuration itself holds always do.

use super::agent::AgentTable;
use super::{ConfigError, Opencode};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use turnstream_redact::{LONGEST_LITERAL, Pattern, Rules, SHORTEST_LITERAL};

/// `[redaction]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct Redaction {
    /// `false` keeps everything as it is said, secrets too.
    pub(super) enabled: Option<bool>,
    /// Kinds of secrets that are left alone.
    #[serde(default)]
    without: Vec<String>,
    /// More patterns.
    #[serde(default)]
    patterns: Vec<PatternTable>,
    /// Values that never reach the log.
    #[serde(default)]
    literals: Vec<LiteralTable>,
}

/// One `[[redaction.patterns]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct PatternTable {
    name: String,
    regex: String,
    /// What every match begins with, where that is distinctive: text behind it is never released before it is decided.
    prefix: Option<String>,
}

/// One `[[redaction.literals]]`: a value, or where it is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct LiteralTable {
    name: String,
    value: Option<String>,
    env: Option<String>,
    file: Option<PathBuf>,
}

impl LiteralTable {
    fn read(&self) -> Result<String, String> {
        match (&self.value, &self.env, &self.file) {
            (Some(value), None, None) => Ok(value.clone()),
            (None, Some(variable), None) => {
                std::env::var(variable).map_err(|error| format!("variable {variable}: {error}"))
            }
            (None, None, Some(path)) => std::fs::read_to_string(path)
                .map(|text| text.trim_end_matches(['\r', '\n']).to_owned())
                .map_err(|error| format!("{}: {error}", path.display())),
            _ => Err("say where it is: one of value, env or file".to_owned()),
        }
    }
}

impl Redaction {
    /// The rules, with the secrets that this configuration hands to the gateway and its agents.
    pub(super) fn rules(
        &self,
        token: Option<&str>,
        agents: &BTreeMap<String, AgentTable>,
    ) -> Result<Rules, ConfigError> {
        let enabled = match std::env::var("TURNSTREAM_REDACTION_ENABLED").ok().as_deref() {
            None => self.enabled.unwrap_or(true),
            Some("true") => true,
            Some("false") => false,
            Some(value) => {
                let (variable, value) = ("TURNSTREAM_REDACTION_ENABLED".to_owned(), value.to_owned());
                let problem = "it is true or false".to_owned();
                return Err(ConfigError::Variable { variable, value, problem });
            }
        };
        if !enabled {
            return Ok(Rules::none());
        }
        let wrong = |what: String, problem: String| ConfigError::Redaction { what, problem };
        let mut builder = Rules::builder();
        for kind in &self.without {
            builder = builder
                .without(kind)
                .map_err(|error| wrong(format!("without {kind:?}"), error.to_string()))?;
        }
        for PatternTable { name, regex, prefix } in &self.patterns {
            let pattern = Pattern { name: name.clone(), regex: regex.clone(), prefix: prefix.clone() };
            builder = builder
                .pattern(pattern)
                .map_err(|error| wrong(format!("pattern {name:?}"), error.to_string()))?;
        }
        for table in &self.literals {
            let what = || format!("literal {:?}", table.name);
            let value = table.read().map_err(|problem| wrong(what(), problem))?;
            builder =
                builder.literal(&table.name, &value).map_err(|error| wrong(what(), error.to_string()))?;
        }
        for (name, value) in handed_over(token, agents) {
            let what = || format!("the value of {name}");
            builder = builder.literal(&name, &value).map_err(|error| wrong(what(), error.to_string()))?;
        }
        Ok(builder.build())
    }
}

/// Secrets that the gateway and its agents are given anyway, with a name for the marker. One that is too short to be told
/// from ordinary text cannot be caught; of a very long one its beginning is.
fn handed_over(token: Option<&str>, agents: &BTreeMap<String, AgentTable>) -> Vec<(String, String)> {
    let mut given: Vec<(String, String)> = Vec::new();
    given.extend(token.map(|token| ("token".to_owned(), token.to_owned())));
    for table in agents.values() {
        match table {
            AgentTable::Scripted(_) => {}
            AgentTable::Opencode(table) => given.extend(opencode(table)),
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
    let passed = table.pass_env.iter().filter(|name| is_secret(name)).chain(&table.password_env);
    let passed = passed.filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)));
    let set = table.env.iter().filter(|(name, _)| is_secret(name));
    // One that cannot be read is reported by the agent, which needs it more.
    let password = table.password_file.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
    let password = password.map(|text| ("password".to_owned(), text.trim().to_owned()));
    passed.chain(set.map(|(name, value)| (name.clone(), value.clone()))).chain(password).collect()
}

/// The name of a variable as a marker takes it.
fn marker(variable: &str) -> String {
    let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '_' };
    variable.to_lowercase().chars().map(plain).take(32).collect()
}

/// A variable whose name says that its value is one.
fn is_secret(variable: &str) -> bool {
    let name = variable.to_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"].iter().any(|word| name.contains(word))
}
