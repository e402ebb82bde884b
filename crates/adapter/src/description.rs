//! What the list of agents tells about one agent.

use serde::Serialize;
use std::path::PathBuf;

/// One agent in the list of agents. An agent without a [`problem`](Description::problem) can be used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// The kind, as in the configuration: `scripted`, `opencode`, `claude`, `codex`.
    pub kind: &'static str,
    /// One line for a person.
    pub about: String,
    /// Its version, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Why it cannot be used, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// It plays a script: no model is behind it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub scripted: bool,
    /// The one command that solves the problem, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// Something to know about an agent that can be used, for example that its version was not tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
    /// Where its program was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// No configuration names it: it was found on `PATH`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub discovered: bool,
    /// Whether it is logged in, for an agent that has a login.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<Login>,
    /// The models that a session can choose, as far as known. Others may exist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<Choice>,
    /// The modes that a session can choose, as far as known. Others may exist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<Choice>,
    /// The commands that a prompt can begin with, without their slash, as far as known. `compact` shortens
    /// the conversation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<Choice>,
    /// It runs a shell command of a person: a prompt whose first block is a text with `_meta.shell` true.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shell: bool,
}

/// Whether an agent is logged in at its provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Login {
    /// It has credentials. Whether the provider accepts them is not known.
    LoggedIn,
    /// It has none.
    LoggedOut,
    /// It cannot be told without reading secrets.
    Unknown,
}

/// A model, a mode or a command of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// The value for `model` or `mode` of a session, or the name of a command.
    pub id: String,
    /// One line for a person, if there is more to say than the id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
}

impl Description {
    /// An agent that can be used, of which no more is known.
    pub fn new(kind: &'static str, about: impl Into<String>) -> Self {
        Self {
            kind,
            about: about.into(),
            version: None,
            problem: None,
            scripted: false,
            fix: None,
            notice: None,
            path: None,
            discovered: false,
            login: None,
            models: Vec::new(),
            modes: Vec::new(),
            commands: Vec::new(),
            shell: false,
        }
    }
}

impl Choice {
    /// A choice whose id says it all.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), about: None }
    }
}
