//! Sessions, messages and errors as opencode writes them, in events and in answers to requests.

use serde::Deserialize;
use serde_json::{Map, Value};

/// A session.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SessionInfo {
    /// Its id.
    pub id: String,
    /// The session whose tool call made it.
    #[serde(rename = "parentID")]
    pub parent: Option<String>,
    /// Its title; the first one is made of a date.
    #[serde(default)]
    pub title: String,
    /// The directory it works in.
    #[serde(default)]
    pub directory: String,
    /// The mode it is in: `build`, `plan` and so on.
    pub agent: Option<String>,
    /// The model it uses.
    pub model: Option<SessionModel>,
}

/// The model of a session.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SessionModel {
    /// The model.
    pub id: String,
    /// Who offers it.
    #[serde(rename = "providerID")]
    pub provider: String,
}

/// What a session does. The list of all leaves out those that are idle.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Status {
    /// Nothing.
    Idle,
    /// It works.
    Busy,
    /// It waits before it repeats a model call.
    Retry {
        /// Which repeat.
        #[serde(default)]
        attempt: u32,
        /// What went wrong.
        #[serde(default)]
        message: String,
        /// When it goes on, in Unix milliseconds.
        next: Option<f64>,
    },
    /// A state that this version does not know.
    #[serde(other)]
    Unknown,
}

/// A message without its parts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct MessageInfo {
    /// Its id.
    pub id: String,
    /// Its session.
    #[serde(rename = "sessionID")]
    pub session: String,
    /// `user` or `assistant`.
    pub role: String,
    /// The user's message it answers.
    #[serde(rename = "parentID")]
    pub parent: Option<String>,
    /// When it was made and when it was done.
    #[serde(default)]
    pub time: MessageTime,
    /// The model that wrote it.
    #[serde(rename = "modelID")]
    pub model: Option<String>,
    /// Who offers that model.
    #[serde(rename = "providerID")]
    pub provider: Option<String>,
    /// What it cost.
    pub cost: Option<f64>,
    /// The tokens it took.
    pub tokens: Option<Tokens>,
    /// Why the model stopped.
    pub finish: Option<String>,
    /// What went wrong.
    pub error: Option<AgentError>,
    /// `true` for the summary of a compaction; a user's message has an object of changed files here.
    #[serde(default)]
    summary: Value,
}

impl MessageInfo {
    /// The model wrote it.
    pub fn is_assistant(&self) -> bool {
        self.role == "assistant"
    }

    /// It is the summary that replaces the history before it.
    pub fn is_summary(&self) -> bool {
        self.summary == Value::Bool(true)
    }

    /// Nothing will be added to it.
    pub fn is_over(&self) -> bool {
        self.time.completed.is_some() || self.error.is_some()
    }
}

/// When a message was made and when it was done, in Unix milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct MessageTime {
    /// Made.
    #[serde(default)]
    pub created: f64,
    /// Done.
    pub completed: Option<f64>,
}

/// Tokens of one model call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct Tokens {
    /// All of them, where the provider counted.
    pub total: Option<f64>,
    /// Read.
    #[serde(default)]
    pub input: f64,
    /// Written.
    #[serde(default)]
    pub output: f64,
    /// Thought.
    #[serde(default)]
    pub reasoning: f64,
    /// From and to the cache.
    #[serde(default)]
    pub cache: CacheTokens,
}

/// Tokens from and to a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct CacheTokens {
    /// Read from it.
    #[serde(default)]
    pub read: f64,
    /// Written to it.
    #[serde(default)]
    pub write: f64,
}

/// An error as opencode names it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct AgentError {
    /// `APIError`, `MessageAbortedError` and so on.
    pub name: String,
    /// More about it; it may hold the provider's headers and address, which are not shown.
    #[serde(default)]
    pub data: Map<String, Value>,
}

/// One line of the to-do list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Todo {
    /// What is to be done.
    pub content: String,
    /// `pending`, `in_progress`, `completed` or `cancelled`.
    pub status: String,
    /// `high`, `medium` or `low`.
    #[serde(default)]
    pub priority: String,
}
