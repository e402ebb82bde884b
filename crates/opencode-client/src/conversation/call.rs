//! The calls that a conversation makes to the server, and their answers.

use crate::event::{PermissionAsk, QuestionAsk};
use crate::translate::Stored;
use serde_json::{Map, Value};
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::id::Key;

/// A call to make. Calls may run concurrently.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Send a prompt. Its ids are chosen here, so that opencode takes a repeated call as the same prompt.
    Prompt {
        /// The id of the user message.
        message: String,
        /// ACP content blocks.
        content: Vec<Value>,
        /// `provider/model`.
        model: Option<String>,
        /// opencode's agent.
        mode: Option<String>,
    },
    /// Abort what runs in the session.
    Abort,
    /// Fetch one message.
    Message {
        /// The session of the message.
        session: String,
        /// The id of the message.
        message: String,
    },
    /// Fetch the whole session: status, messages, messages of subagents, open permissions and questions.
    Snapshot {
        /// The sessions of the subagents that are known.
        children: Vec<String>,
    },
    /// Fetch the newest messages of the session. A later removal names only the message, and the log knows
    /// parts.
    NewestMessages,
    /// Answer a permission.
    Reply {
        /// The id of the permission.
        key: Key,
        /// `once`, `always` or `reject`.
        reply: String,
        /// A message of the person to the agent.
        message: Option<String>,
    },
    /// Answer a question, or reject it.
    Answer {
        /// The id of the question.
        key: Key,
        /// Answers by the index of their question; `None` rejects.
        answers: Option<Map<String, Value>>,
    },
    /// Reject a permission or question whose turn is over.
    Refuse(Key),
    /// Subscribe to the events of this subagent's session. Needs no request.
    Adopt(String),
}

impl Call {
    /// The name of the call, for log lines.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Prompt { .. } => "prompt",
            Self::Abort => "abort",
            Self::Message { .. } => "message",
            Self::Snapshot { .. } => "snapshot",
            Self::NewestMessages => "newest_messages",
            Self::Reply { .. } => "reply",
            Self::Answer { .. } => "answer",
            Self::Refuse(_) => "refuse",
            Self::Adopt(_) => "adopt",
        }
    }

    /// The answer to give when the call failed or timed out; `None` for a call that needs no answer.
    pub fn unanswered(&self) -> Option<Answer> {
        match self {
            Self::Prompt { message, .. } => {
                let answer = PromptAnswer::Unclear(Self::unanswered_error());
                Some(Answer::Prompt(message.clone(), answer))
            }
            Self::Abort => Some(Answer::Abort),
            Self::Message { .. } => Some(Answer::Message(None)),
            Self::Snapshot { .. } => Some(Answer::Snapshot(Err(Self::unanswered_error()))),
            Self::NewestMessages => Some(Answer::NewestMessages(Vec::new())),
            Self::Reply { .. } | Self::Answer { .. } | Self::Refuse(_) | Self::Adopt(_) => None,
        }
    }

    pub(super) fn unanswered_error() -> TurnError {
        TurnError::new(ErrorClass::Timeout, "a call to opencode broke off, or was not answered in time")
    }
}

/// The answer to a call. Calls without a variant here need no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To [`Call::Prompt`] with this message id.
    Prompt(String, PromptAnswer),
    /// To [`Call::Abort`], also if it failed. The abort has no effect after this.
    Abort,
    /// To [`Call::Message`]; `None` if the server has no such message or the call failed.
    Message(Option<Box<Stored>>),
    /// To [`Call::NewestMessages`]; empty if the call failed.
    NewestMessages(Vec<Stored>),
    /// To [`Call::Snapshot`].
    Snapshot(Result<Box<SessionSnapshot>, TurnError>),
}

/// The server's answer to a prompt.
#[derive(Clone, Debug, PartialEq)]
pub enum PromptAnswer {
    /// Accepted. This does not prove that the prompt runs: opencode stores prompts that it then ignores.
    Accepted,
    /// Refused with 409, because another prompt runs. opencode 1.18.33 never answers so; other versions do.
    Busy,
    /// The server refuses to run it.
    Refused(TurnError),
    /// The connection could not be made: the server has not seen the prompt.
    Unsent(TurnError),
    /// It is not known whether the server has the prompt.
    Unclear(TurnError),
}

/// Everything the server knows of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionSnapshot {
    /// The session is working.
    pub busy: bool,
    /// Its messages, in order.
    pub messages: Vec<Stored>,
    /// The messages of its subagents' sessions.
    pub children: Vec<Vec<Stored>>,
    /// Open permissions.
    pub permissions: Vec<PermissionAsk>,
    /// Open questions.
    pub questions: Vec<QuestionAsk>,
    /// The parts whose answers could not be read, each with the problem.
    pub unread_parts: Vec<(UnreadPart, String)>,
}

/// A part of a [`SessionSnapshot`] that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadPart {
    /// The status; [`SessionSnapshot::busy`] was derived from the messages instead.
    Status,
    /// The messages.
    Messages,
    /// The messages of a subagent.
    Subagents,
    /// Permissions or questions.
    Asks,
}

impl SessionSnapshot {
    /// True if that part could not be read.
    pub fn lacks(&self, part: UnreadPart) -> bool {
        self.unread_parts.iter().any(|(unread, _)| *unread == part)
    }
}
