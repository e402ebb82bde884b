//! Sessions, messages and errors, as opencode writes them in events and answers.

use serde::Deserialize;
use serde_json::{Map, Value};

/// A session.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SessionInfo {
    /// Its id.
    pub id: String,
    /// The session whose tool call created it.
    #[serde(rename = "parentID")]
    pub parent: Option<String>,
    /// Its title. The first one is a date.
    #[serde(default)]
    pub title: String,
    /// The directory it works in.
    #[serde(default)]
    pub directory: String,
    /// Its mode: `build`, `plan` or another.
    pub agent: Option<String>,
    /// The model it uses.
    pub model: Option<SessionModel>,
}

/// The model of a session.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SessionModel {
    /// The model.
    pub id: String,
    /// Its provider.
    #[serde(rename = "providerID")]
    pub provider: String,
}

/// The status of a session. The list of all sessions leaves out idle ones.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Status {
    /// Idle.
    Idle,
    /// Working.
    Busy,
    /// Waiting before a model call is repeated.
    Retry {
        /// The number of the retry.
        #[serde(default)]
        attempt: u32,
        /// What went wrong.
        #[serde(default)]
        message: String,
        /// When it continues, in Unix milliseconds.
        next: Option<f64>,
    },
    /// An unknown status.
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
    /// The user message that it answers.
    #[serde(rename = "parentID")]
    pub parent: Option<String>,
    /// When it was created and completed.
    #[serde(default)]
    pub time: MessageTime,
    /// The model that wrote it.
    #[serde(rename = "modelID")]
    pub model: Option<String>,
    /// The provider of the model.
    #[serde(rename = "providerID")]
    pub provider: Option<String>,
    /// Its cost in dollars.
    pub cost: Option<f64>,
    /// Its tokens.
    pub tokens: Option<Tokens>,
    /// The finish reason of the model.
    pub finish: Option<String>,
    /// What went wrong.
    pub error: Option<AgentError>,
    /// `true` for the summary of a compaction; a user's message has an object of changed files here.
    #[serde(default)]
    summary: Value,
}

impl MessageInfo {
    /// True for a message of the model.
    pub fn is_assistant(&self) -> bool {
        self.role == "assistant"
    }

    /// True for the summary of a compaction.
    pub fn is_summary(&self) -> bool {
        self.summary == Value::Bool(true)
    }

    /// True if it is complete.
    pub fn is_over(&self) -> bool {
        self.time.completed.is_some() || self.error.is_some()
    }
}

/// When a message was created and completed, in Unix milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct MessageTime {
    /// Created.
    #[serde(default)]
    pub created: f64,
    /// Completed.
    pub completed: Option<f64>,
}

/// Tokens of one model call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct Tokens {
    /// All tokens, if the provider counted them.
    pub total: Option<f64>,
    /// Input tokens.
    #[serde(default)]
    pub input: f64,
    /// Output tokens.
    #[serde(default)]
    pub output: f64,
    /// Reasoning tokens.
    #[serde(default)]
    pub reasoning: f64,
    /// Cache tokens.
    #[serde(default)]
    pub cache: CacheTokens,
}

/// Tokens read from and written to a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct CacheTokens {
    /// Read tokens.
    #[serde(default)]
    pub read: f64,
    /// Written tokens.
    #[serde(default)]
    pub write: f64,
}

/// An error as opencode names it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct AgentError {
    /// `APIError`, `MessageAbortedError` and so on.
    pub name: String,
    /// Details. They may hold the provider's headers and address, which are not shown.
    #[serde(default)]
    pub data: Map<String, Value>,
}

/// One line of the to-do list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Todo {
    /// The text.
    pub content: String,
    /// `pending`, `in_progress`, `completed` or `cancelled`.
    pub status: String,
    /// `high`, `medium` or `low`.
    #[serde(default)]
    pub priority: String,
}
