//! `turnstream.toml`. Keys that are not known are refused, by name.

use super::ConfigError;
use super::duration;
use super::redaction::Redaction;
use super::retention::RetentionTable;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use turnstream_agents::scripted::Script;

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) listen: Option<SocketAddr>,
    pub(super) data: Option<PathBuf>,
    #[serde(default)]
    pub(super) roots: Vec<PathBuf>,
    pub(super) token: Option<String>,
    pub(super) import_mib: Option<u64>,
    #[serde(default)]
    pub(super) agents: BTreeMap<String, AgentTable>,
    #[serde(default)]
    pub(super) timeouts: Timeouts,
    #[serde(default)]
    pub(super) redaction: Redaction,
    #[serde(default)]
    pub(super) retention: RetentionTable,
}

/// One `[agents.NAME]`.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum AgentTable {
    Scripted(Scripted),
    Opencode(Box<Opencode>),
}

/// opencode, started here or found at an address.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Opencode {
    /// The program to start; `opencode` on the path if nothing is said.
    pub(crate) command: Option<PathBuf>,
    /// Variables of this process that it gets too, for example keys of providers.
    #[serde(default)]
    pub(crate) pass_env: Vec<String>,
    /// Variables it gets.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// The address of a server that runs already; then nothing is started.
    pub(crate) url: Option<String>,
    /// The variable of this process that holds that server's password.
    pub(crate) password_env: Option<String>,
    /// The file that holds it.
    pub(crate) password_file: Option<PathBuf>,
    /// That server's user name, if it has another than `opencode`.
    pub(crate) user: Option<String>,
    /// What one turn may take.
    #[serde(default)]
    pub(crate) budget: BudgetTable,
}

/// `[agents.NAME.budget]`: limits of one turn.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BudgetTable {
    /// Model calls.
    pub(crate) steps: Option<u32>,
    /// Time.
    pub(crate) time: Option<Span>,
    /// Tokens.
    pub(crate) tokens: Option<u64>,
    /// Dollars.
    pub(crate) cost: Option<f64>,
}

/// An agent that plays scripts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scripted {
    /// The delay between pieces of text.
    pub(crate) pace_ms: Option<u64>,
    /// A file with the script that is played for prompts that are none.
    #[serde(default, deserialize_with = "script")]
    pub(crate) script: Option<Script>,
}

/// `[timeouts]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Timeouts {
    pub(super) connect: Option<Span>,
    pub(super) start: Option<Span>,
    pub(super) inactivity: Option<Span>,
    pub(super) cancel: Option<Span>,
    pub(super) recovery: Option<Span>,
    pub(super) truth: Option<Span>,
    pub(super) approval: Option<Span>,
    pub(super) on_timeout: Option<OnTimeout>,
    pub(super) idle: Option<Span>,
    heartbeat: Option<Span>,
}

/// What becomes of an approval that nobody answered in time.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnTimeout {
    Reject,
    Cancel,
}

/// A time: `"30s"`, or a number of seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span(pub(crate) Duration);

impl Opencode {
    /// What cannot be meant together.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let starts = self.command.is_some() || !self.env.is_empty() || !self.pass_env.is_empty();
        let knocks = self.password_env.is_some() || self.password_file.is_some() || self.user.is_some();
        if self.url.is_some() && starts {
            Err("it is started (command, env, pass_env) or found at its url, not both; leave one out")
        } else if self.url.is_none() && knocks {
            Err(
                "password_env, password_file and user say nothing without url; leave them out, or give the url",
            )
        } else if self.password_env.is_some() && self.password_file.is_some() {
            Err("its password is in a variable or in a file, not both; leave one out")
        } else {
            Ok(())
        }
    }
}

impl File {
    pub(super) fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::Unreadable { path: path.to_owned(), error })?;
        toml::from_str(&text)
            .map_err(|error| ConfigError::Bad { path: path.to_owned(), problem: error.to_string() })
    }
}

impl Timeouts {
    /// How long a stream may be silent.
    pub(super) fn heartbeat(&self) -> Option<Duration> {
        self.heartbeat.map(|span| span.0)
    }

    /// `TURNSTREAM_TIMEOUTS_START` and so on are stronger than the file.
    pub(super) fn with_environment(
        mut self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let spans = [
            ("CONNECT", &mut self.connect),
            ("START", &mut self.start),
            ("INACTIVITY", &mut self.inactivity),
            ("CANCEL", &mut self.cancel),
            ("RECOVERY", &mut self.recovery),
            ("TRUTH", &mut self.truth),
            ("APPROVAL", &mut self.approval),
            ("IDLE", &mut self.idle),
            ("HEARTBEAT", &mut self.heartbeat),
        ];
        let bad = |variable, value, problem| ConfigError::Variable { variable, value, problem };
        for (name, span) in spans {
            let name = format!("TURNSTREAM_TIMEOUTS_{name}");
            if let Some(value) = variable(&name) {
                *span = Some(Span(duration::parse(&value).map_err(|problem| bad(name, value, problem))?));
            }
        }
        let name = "TURNSTREAM_TIMEOUTS_ON_TIMEOUT";
        if let Some(value) = variable(name) {
            self.on_timeout = Some(match value.as_str() {
                "reject" => OnTimeout::Reject,
                "cancel" => OnTimeout::Cancel,
                _ => return Err(bad(name.to_owned(), value, "it is reject or cancel".to_owned())),
            });
        }
        Ok(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "a time, for example \"500ms\", \"30s\", \"10m\", \"1h\" or a number of seconds"
        )]
        enum Written {
            Text(String),
            Seconds(u64),
        }
        match Written::deserialize(deserializer)? {
            Written::Text(text) => duration::parse(&text).map(Self).map_err(serde::de::Error::custom),
            Written::Seconds(seconds) => Ok(Self(Duration::from_secs(seconds))),
        }
    }
}

fn script<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Script>, D::Error> {
    let path = PathBuf::deserialize(deserializer)?;
    let wrong = |problem: String| serde::de::Error::custom(format!("script {}: {problem}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
    Script::from_json(&text).map(Some).map_err(|error| wrong(error.to_string()))
}
