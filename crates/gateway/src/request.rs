//! What clients ask of a session, and what they get.

use crate::error::RequestError;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::event::{ApprovalOutcome, Permissions, QuestionOutcome};
use turnstream_model::fold::Session;
use turnstream_model::id::{ApprovalId, PromptId, QuestionId};
use turnstream_model::machine::{Accepted, Cancel, Cancelled};

/// Input for the agent.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPrompt {
    /// ACP content blocks; not empty.
    pub content: Vec<Value>,
    /// A repeated request with the same key is the same prompt.
    pub key: Option<String>,
}

/// What is to change of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// For a person.
    pub title: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The agent's mode.
    pub mode: Option<String>,
    /// What becomes of asks from now on.
    pub permissions: Option<Permissions>,
}

/// An answer to an approval.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolveApproval {
    /// `allow_once`, `allow_always` or `reject`.
    pub outcome: ApprovalOutcome,
    /// Which of the offered answers.
    pub option: Option<String>,
    /// For the agent.
    pub message: Option<String>,
    /// After a refusal the turn is to stop.
    pub stop: bool,
    /// A repeated request with the same key is the same answer.
    pub key: Option<String>,
}

/// An answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerQuestion {
    /// `answered` or `rejected`.
    pub outcome: QuestionOutcome,
    /// The answers by the question's id.
    pub answers: Option<Map<String, Value>>,
    /// A repeated request with the same key is the same answer.
    pub key: Option<String>,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionInfo {
    /// Its generation.
    pub generation: Generation,
    /// Its last event.
    pub head: Seq,
    /// What it is.
    #[serde(flatten)]
    pub session: Session,
}

pub(crate) type Reply<T> = oneshot::Sender<Result<T, RequestError>>;

/// A request on its way to the keeper.
pub(crate) enum Request {
    Prompt(NewPrompt, Reply<Accepted>),
    Withdraw(PromptId, Reply<()>),
    Cancel(Cancel, Reply<Cancelled>),
    Resolve(ApprovalId, ResolveApproval, Reply<()>),
    Answer(QuestionId, AnswerQuestion, Reply<()>),
    Change(Change, Reply<()>),
    End(String, Reply<()>),
    /// Ends it unless something is open in it; says whether it did.
    EndIfQuiet(String, Reply<bool>),
}

impl Request {
    pub(crate) fn refuse(self, error: RequestError) {
        // Whoever asked may have gone away.
        match self {
            Self::Prompt(_, reply) => drop(reply.send(Err(error))),
            Self::Cancel(_, reply) => drop(reply.send(Err(error))),
            Self::EndIfQuiet(_, reply) => drop(reply.send(Err(error))),
            Self::Withdraw(_, reply)
            | Self::Resolve(_, _, reply)
            | Self::Answer(_, _, reply)
            | Self::Change(_, reply)
            | Self::End(_, reply) => drop(reply.send(Err(error))),
        }
    }
}
