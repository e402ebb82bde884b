//! `turnstream.toml`. Keys that are not known are refused, by name.

use super::agent::AgentTable;
use super::duration;
use super::redaction::Redaction;
use super::retention::RetentionTable;
use super::{ConfigError, variables, wording};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default, deserialize_with = "listen")]
    pub(super) listen: Option<SocketAddr>,
    pub(super) data: Option<PathBuf>,
    #[serde(default, deserialize_with = "roots")]
    pub(super) roots: Vec<PathBuf>,
    pub(super) token: Option<String>,
    pub(super) import_mib: Option<u64>,
    pub(super) default_agent: Option<String>,
    #[serde(default)]
    pub(super) agents: BTreeMap<String, AgentTable>,
    #[serde(default)]
    pub(super) timeouts: Timeouts,
    #[serde(default)]
    pub(super) redaction: Redaction,
    #[serde(default)]
    pub(super) retention: RetentionTable,
}

/// What a client needs of the file.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ContactKeys {
    pub(super) data: Option<PathBuf>,
    pub(super) token: Option<String>,
}

/// `[timeouts]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
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

/// What is in the file, and refuses variables of the environment that nobody reads.
pub(super) fn read<T: Default + DeserializeOwned>(path: Option<&Path>) -> Result<T, ConfigError> {
    let Some(path) = path else {
        variables::check("")?;
        return Ok(T::default());
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError::Unreadable { path: path.to_owned(), error })?;
    variables::check(&text)?;
    toml::from_str(&text)
        .map_err(|error| ConfigError::Bad { path: path.to_owned(), problem: wording::of_file(&text, &error) })
}

/// An address to listen on, as a file, a flag or a variable says it.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let wrong = |_| format!("{text:?} is no address to listen on; write it like 127.0.0.1:4180");
    text.parse().map_err(wrong)
}

fn listen<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    address(&text).map(Some).map_err(serde::de::Error::custom)
}

/// Refuses an empty list: by the letter it allows nothing, while no list means the current directory.
fn roots<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
    let roots = Vec::<PathBuf>::deserialize(deserializer)?;
    if roots.is_empty() {
        return Err(serde::de::Error::custom(
            "an empty list leaves sessions no directory to work in; leave roots out for the directory \
             turnstream is started in, or name one like \"/srv/work\"",
        ));
    }
    Ok(roots)
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
                let parsed = duration::parse(&value).and_then(Span::new);
                *span = Some(parsed.map_err(|problem| bad(name, value, problem))?);
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

impl Span {
    /// A time that can be waited for.
    fn new(time: Duration) -> Result<Self, String> {
        if time.is_zero() {
            return Err("0 would be over before it began; leave it out for the default".to_owned());
        }
        Ok(Self(time))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        duration::deserialize(deserializer).and_then(|time| Self::new(time).map_err(serde::de::Error::custom))
    }
}
