//! The parts of a message as opencode writes them.

use super::info::Tokens;
use serde::Deserialize;
use serde_json::Value;
use turnstream_json::Piece;

/// One part of a message.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Raw")]
pub struct Part {
    /// Its id.
    pub id: String,
    /// Its message.
    pub message: String,
    /// Its session.
    pub session: String,
    /// Its content.
    pub body: PartBody,
}

/// The content of a part.
#[derive(Clone, Debug, PartialEq)]
pub enum PartBody {
    /// Text of the user or the model.
    Text(PartText),
    /// Reasoning of the model.
    Reasoning(PartText),
    /// A tool call.
    Tool(ToolCall),
    /// A model call starts.
    StepStart,
    /// A model call ended.
    StepFinish {
        /// The finish reason of the model.
        finish: Option<String>,
        /// Its tokens.
        tokens: Option<Tokens>,
        /// Its cost in dollars.
        cost: Option<f64>,
    },
    /// A file.
    File {
        /// Its name.
        name: Option<String>,
        /// Its media type.
        mime: Option<String>,
    },
    /// Anything else, by its type: snapshot, patch, agent, subtask, retry, compaction.
    Other(String),
}

/// A text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartText {
    /// The whole text once it is complete; empty while it streams.
    pub text: Piece<'static>,
    /// It is complete.
    pub over: bool,
    /// opencode wrote it in the user's name.
    pub synthetic: bool,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The name of the tool. It changes to `invalid` if its arguments cannot be read (capture j6).
    pub tool: String,
    /// The model's id of the call.
    pub call: String,
    /// Its state.
    pub state: ToolState,
}

/// The state of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ToolState {
    /// `pending`, `running`, `completed` or `error`.
    pub status: String,
    /// Its arguments. Empty while it is pending.
    #[serde(default)]
    pub input: Value,
    /// Its result.
    pub output: Option<Value>,
    /// What went wrong.
    pub error: Option<String>,
    /// Its title for people.
    pub title: Option<String>,
    /// Details: the session of a subagent, the output so far, the exit code.
    #[serde(default)]
    pub metadata: Value,
}

impl ToolState {
    /// The session of the subagent of this call.
    pub fn child(&self) -> Option<&str> {
        self.metadata.get("sessionId")?.as_str()
    }

    /// True if it has finished.
    pub fn is_over(&self) -> bool {
        matches!(self.status.as_str(), "completed" | "error")
    }
}

#[derive(Deserialize)]
struct Raw {
    id: String,
    #[serde(rename = "messageID")]
    message: String,
    #[serde(rename = "sessionID")]
    session: String,
    r#type: String,
    #[serde(default, deserialize_with = "turnstream_json::owned")]
    text: Piece<'static>,
    #[serde(default)]
    synthetic: bool,
    time: Option<Span>,
    tool: Option<String>,
    #[serde(rename = "callID")]
    call: Option<String>,
    state: Option<ToolState>,
    reason: Option<String>,
    tokens: Option<Tokens>,
    cost: Option<f64>,
    filename: Option<String>,
    mime: Option<String>,
}

#[derive(Deserialize)]
struct Span {
    end: Option<f64>,
}

impl From<Raw> for Part {
    fn from(raw: Raw) -> Self {
        let Raw { id, message, session, r#type, text, synthetic, time, tool, call, state, .. } = raw;
        let over = time.and_then(|time| time.end).is_some();
        let body = match (r#type.as_str(), tool, state) {
            ("text", _, _) => PartBody::Text(PartText { text, over, synthetic }),
            ("reasoning", _, _) => PartBody::Reasoning(PartText { text, over, synthetic }),
            ("tool", Some(tool), Some(state)) => {
                PartBody::Tool(ToolCall { tool, call: call.unwrap_or_else(|| id.clone()), state })
            }
            ("step-start", _, _) => PartBody::StepStart,
            ("step-finish", _, _) => {
                PartBody::StepFinish { finish: raw.reason, tokens: raw.tokens, cost: raw.cost }
            }
            ("file", _, _) => PartBody::File { name: raw.filename, mime: raw.mime },
            _ => PartBody::Other(r#type),
        };
        Self { id, message, session, body }
    }
}
