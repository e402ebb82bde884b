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
    /// What it is.
    pub body: PartBody,
}

/// What a part is.
#[derive(Clone, Debug, PartialEq)]
pub enum PartBody {
    /// Text of the user or the model.
    Text(PartText),
    /// The model's thinking.
    Reasoning(PartText),
    /// A tool call.
    Tool(ToolCall),
    /// A model call begins.
    StepStart,
    /// A model call ended.
    StepFinish {
        /// Why the model stopped.
        finish: Option<String>,
        /// The tokens it took.
        tokens: Option<Tokens>,
        /// What it cost.
        cost: Option<f64>,
    },
    /// A file.
    File {
        /// Its name.
        name: Option<String>,
        /// What it is.
        mime: Option<String>,
    },
    /// Anything else, by its type: snapshot, patch, agent, subtask, retry, compaction.
    Other(String),
}

/// A text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartText {
    /// All of it once it is over; empty while it streams.
    pub text: Piece<'static>,
    /// Nothing will be added to it.
    pub over: bool,
    /// opencode wrote it in the user's name.
    pub synthetic: bool,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The tool; it may change to `invalid` when its arguments are read (capture j6).
    pub tool: String,
    /// The model's name of the call.
    pub call: String,
    /// Where it stands.
    pub state: ToolState,
}

/// Where a tool call stands.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ToolState {
    /// `pending`, `running`, `completed` or `error`.
    pub status: String,
    /// Its arguments; empty while it is pending.
    #[serde(default)]
    pub input: Value,
    /// Its result.
    pub output: Option<Value>,
    /// What went wrong.
    pub error: Option<String>,
    /// For a person.
    pub title: Option<String>,
    /// More about it: a subagent's session, the output so far, the exit code.
    #[serde(default)]
    pub metadata: Value,
}

impl ToolState {
    /// The session that does the work of this call.
    pub fn child(&self) -> Option<&str> {
        self.metadata.get("sessionId")?.as_str()
    }

    /// It will not change any more.
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
