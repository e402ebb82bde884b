//! `turnstream.toml`: the keys at the top and `[timeouts]`. An unknown key is refused by name.

use super::access::{AuthChoice, Origins, PublicUrl};
use super::agent::AgentTable;
use super::chat::ChatTable;
use super::duration::Span;
use super::keys::{FromVariable, keys};
use super::limits::Limits;
use super::llm::LlmTable;
use super::redaction::Redaction;
use super::retention::RetentionTable;
use super::{ConfigError, TokenText, toml_errors, variables};
use crate::diagnostics::{Collector, LogFilter, LogFormat};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

keys! {
    /// The whole file.
    pub(super) struct File in "" {
        /// The address to listen on. Default: `127.0.0.1:4180`.
        listen: ListenAddress = "\"127.0.0.1:4180\"", flag;
        /// The data directory. Default: `turnstream` in the user's data directory
        /// (`$XDG_DATA_HOME`, `~/.local/share`; on macOS `~/Library/Application Support`).
        data: PathBuf = "\"/home/me/turnstream\"", flag;
        /// Sessions may work only in these directories and below.
        /// The flag can be repeated; the variable separates them with colons.
        /// Default: the directory in which turnstream was started.
        roots: Roots = "[\"/srv/work\"]", flag;
        /// `token`: every request needs a token. `none`: nobody needs one, only on loopback.
        /// Default: `token`.
        auth: AuthChoice = "\"token\"", variable;
        /// The token that clients must send. Anything but loopback needs one with 128 bits.
        /// Default: a random one, made at the first start and kept in the data directory.
        /// `turnstream token` prints it.
        token: TokenText = "\"4f1d0c9b7a6e5d3c2b1a09f8e7d6c5b4\"", flag;
        /// The address that clients see, if the gateway is behind a proxy: scheme and host.
        /// It decides the links that are printed, and its name is accepted as `Host`.
        public_url: PublicUrl = "\"https://agents.example\"", variable;
        /// Other origins whose web pages may use the gateway.
        origins: Origins = "[\"https://app.example\"]", file;
        /// An address of its own for `/metrics`, where no token is needed.
        /// Default: none; `/metrics` is at `listen`, and needs the token.
        metrics_listen: ListenAddress = "\"127.0.0.1:9180\"", variable;
        /// An address of its own for opencode's API, for clients that cannot take a path.
        /// Default: none; the API is below `/opencode` at `listen`.
        opencode_listen: ListenAddress = "\"127.0.0.1:4096\"", variable;
        /// The address of an `opencode serve` without a password, whose web page `opencode_listen` shows.
        /// Default: none; there is no web page.
        opencode_ui: ListenAddress = "\"127.0.0.1:4097\"", variable;
        /// The largest file that can be imported, in MiB.
        import_mib: u64 = "4096", flag, zero "refuse every import" "allow 4096 MiB";
        /// `false` leaves out the demo agent `scripted`, unless `[agents.scripted]` is given.
        /// Default: `true`.
        demo: bool = "true", variable;
        /// `false` leaves out agents that are found on `PATH` and not configured. Default: `true`.
        /// [agents.md](agents.md) lists them.
        discover: bool = "true", flag;
        /// The agent of `turnstream run` without `--agent`.
        default_agent: String = "\"opencode\"", variable;
        /// Which log lines `turnstream serve` prints: a level for all targets, and levels for single ones.
        /// The variable `RUST_LOG` wins. Default: `info`.
        log: LogFilter = "\"info,turnstream_log=debug\"", variable;
        /// How log lines are written: `human`, or `json` with one object per line. Default: `human`.
        log_format: LogFormat = "\"json\"", variable;
        /// The address of an OpenTelemetry collector, which gets the spans of turns and model calls
        /// (OTLP over HTTP). Default: none.
        otlp: Collector = "\"http://127.0.0.1:4318\"", variable;
    }
    tables {
        agents: BTreeMap<String, AgentTable>;
        chat: ChatTable;
        timeouts: Timeouts;
        redaction: Redaction;
        retention: RetentionTable;
        limits: Limits;
        llm: LlmTable;
    }
}

/// What a client needs of the file.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ContactKeys {
    pub(super) data: Option<PathBuf>,
    pub(super) token: Option<TokenText>,
    pub(super) auth: Option<AuthChoice>,
}

keys! {
    /// `[timeouts]`.
    pub(super) struct Timeouts in "timeouts" {
        /// Until an agent is connected. A prompt waits as long for an agent that restarts.
        connect: Span = "\"30s\"", variable;
        /// Until an agent shows that it has begun with a prompt.
        start: Span = "\"60s\"", variable;
        /// The longest silence in a turn.
        inactivity: Span = "\"30m\"", variable;
        /// Until a cancelled turn has ended. After that the agent is stopped by force.
        cancel: Span = "\"10s\"", variable;
        /// Until turns that a restart left open are settled. After that they end `lost`.
        recovery: Span = "\"60s\"", variable;
        /// Until an agent answers a status probe of the gateway.
        truth: Span = "\"10s\"", variable;
        /// How long an approval or a question waits for a person. Default: for ever.
        approval: Span = "\"1h\"", variable;
        /// The answer to an approval or a question after that time: `reject` or `cancel`.
        on_timeout: OnTimeout = "\"reject\"", variable;
        /// Until the agent of a quiet session is stopped.
        idle: Span = "\"10m\"", variable;
        /// The time between two heartbeats of a silent event stream.
        heartbeat: Span = "\"15s\"", variable;
    }
}

/// The address to listen on.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListenAddress(pub(super) SocketAddr);

/// The directories in which sessions may work. Never empty.
#[derive(Clone, Debug)]
pub(super) struct Roots(pub(super) Vec<PathBuf>);

/// The answer to an approval that nobody answered in time.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnTimeout {
    Reject,
    Cancel,
}

/// Reads the file, and refuses unknown `TURNSTREAM_…` variables.
pub(super) fn read<T: Default + DeserializeOwned>(path: Option<&Path>) -> Result<T, ConfigError> {
    let Some(path) = path else {
        variables::check("")?;
        return Ok(T::default());
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError::Unreadable { path: path.to_owned(), error })?;
    variables::check(&text)?;
    toml::from_str(&text).map_err(|error| ConfigError::Bad {
        path: path.to_owned(),
        problem: toml_errors::of_file(&text, &error),
    })
}

/// Parses an address to listen on, from a file, a flag or a variable.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let wrong = |_| format!("{text:?} is no address to listen on; write it like 127.0.0.1:4180");
    text.parse().map_err(wrong)
}

impl<'de> Deserialize<'de> for ListenAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        address(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Roots {
    /// Refuses an empty list: by the letter it allows nothing, while no list means the current directory.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let roots = Vec::<PathBuf>::deserialize(deserializer)?;
        if roots.is_empty() {
            return Err(serde::de::Error::custom(
                "an empty list leaves sessions no directory to work in; leave roots out for the directory \
                 turnstream is started in, or name one like \"/srv/work\"",
            ));
        }
        Ok(Self(roots))
    }
}

impl FromVariable for ListenAddress {
    fn from_variable(text: &str) -> Result<Self, String> {
        address(text).map(Self)
    }
}

impl FromVariable for OnTimeout {
    fn from_variable(text: &str) -> Result<Self, String> {
        match text {
            "reject" => Ok(Self::Reject),
            "cancel" => Ok(Self::Cancel),
            _ => Err("it must be reject or cancel".to_owned()),
        }
    }
}

impl FromVariable for LogFilter {
    fn from_variable(text: &str) -> Result<Self, String> {
        text.parse()
    }
}

impl FromVariable for LogFormat {
    fn from_variable(text: &str) -> Result<Self, String> {
        match text {
            "human" => Ok(Self::Human),
            "json" => Ok(Self::Json),
            _ => Err("it must be human or json".to_owned()),
        }
    }
}

impl FromVariable for Collector {
    fn from_variable(text: &str) -> Result<Self, String> {
        text.parse()
    }
}
