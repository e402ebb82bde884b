//! What a conversation asks of the server, and what it is answered.

use crate::opencode::event::{PermissionAsk, QuestionAsk};
use crate::opencode::translate::Stored;
use serde_json::{Map, Value};
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::id::Key;

/// A call to make.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Run a prompt, under names of ours, so that a repeat is no second prompt.
    Prompt {
        /// The message.
        message: String,
        /// ACP content blocks.
        content: Vec<Value>,
        /// `provider/model`.
        model: Option<String>,
        /// opencode's agent.
        mode: Option<String>,
    },
    /// Stop what runs in the session.
    Abort,
    /// Fetch one message.
    Message {
        /// Its session.
        session: String,
        /// The message.
        message: String,
    },
    /// Fetch all the server has of the session: status, messages, subagents' messages, open asks.
    Shelf {
        /// The subagents' sessions that are known.
        children: Vec<String>,
    },
    /// Fetch the newest messages of the session, to know what is taken back of them later.
    Past,
    /// Answer a permission.
    Reply {
        /// The ask.
        key: Key,
        /// `once`, `always` or `reject`.
        reply: String,
        /// What the person said with it.
        message: Option<String>,
    },
    /// Answer a question, or decline to.
    Answer {
        /// The ask.
        key: Key,
        /// The answers by the place of their question.
        answers: Option<Map<String, Value>>,
    },
    /// Refuse an ask whose turn is over; it may be a permission or a question.
    Refuse(Key),
    /// Let the events of this subagent's session come here too.
    Adopt(String),
}

impl Call {
    /// What a call is answered with that broke off or took too long; `None` for one that needs no answer.
    pub fn unanswered(&self) -> Option<Answer> {
        match self {
            Self::Prompt { message, .. } => {
                let answer = PromptAnswer::Unclear(Self::unanswered_error());
                Some(Answer::Prompt(message.clone(), answer))
            }
            Self::Abort => Some(Answer::Abort),
            Self::Message { .. } => Some(Answer::Message(None)),
            Self::Shelf { .. } => Some(Answer::Shelf(Err(Self::unanswered_error()))),
            Self::Past => Some(Answer::Past(Vec::new())),
            Self::Reply { .. } | Self::Answer { .. } | Self::Refuse(_) | Self::Adopt(_) => None,
        }
    }

    pub(super) fn unanswered_error() -> TurnError {
        TurnError::new(ErrorClass::Timeout, "a call to opencode broke off, or was not answered in time")
    }
}

/// What came of a call. The others need no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To [`Call::Prompt`] with this message.
    Prompt(String, PromptAnswer),
    /// To [`Call::Abort`], whatever came of it: it will not hit anything any more.
    Abort,
    /// To [`Call::Message`]; nothing when there is none or it could not be had.
    Message(Option<Box<Stored>>),
    /// To [`Call::Past`]; nothing when they could not be had.
    Past(Vec<Stored>),
    /// To [`Call::Shelf`].
    Shelf(Result<Box<Shelf>, TurnError>),
}

/// What the server said to a prompt.
#[derive(Clone, Debug, PartialEq)]
pub enum PromptAnswer {
    /// It has it. That proves nothing: opencode stores prompts that it then ignores.
    Accepted,
    /// Another prompt runs. This version never says so; others do.
    Busy,
    /// It will not run it.
    Refused(TurnError),
    /// No connection could be made: it has not seen it.
    Unsent(TurnError),
    /// Nobody knows whether it has it.
    Unclear(TurnError),
}

/// All the server has of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shelf {
    /// It works.
    pub busy: bool,
    /// Its messages, in order.
    pub messages: Vec<Stored>,
    /// The messages of its subagents' sessions.
    pub children: Vec<Vec<Stored>>,
    /// Permissions that wait.
    pub permissions: Vec<PermissionAsk>,
    /// Questions that wait.
    pub questions: Vec<QuestionAsk>,
    /// What was answered and could not be read, with the problem. Nothing is known of it.
    pub lacking: Vec<(Lacking, String)>,
}

/// A part of a [`Shelf`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacking {
    /// Whether it works; taken from its messages.
    Status,
    /// Its messages.
    Messages,
    /// Messages of a subagent.
    Subagents,
    /// Permissions or questions.
    Asks,
}

impl Shelf {
    /// True when nothing is known of that.
    pub fn lacks(&self, part: Lacking) -> bool {
        self.lacking.iter().any(|(lacking, _)| *lacking == part)
    }
}
