//! Requests of clients to a session, and their answers.

use crate::budget::{BudgetChange, CapsChange};
use crate::error::RequestError;
use crate::unattended::UnattendedChange;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::event::{Actor, ApprovalOutcome, Permissions, QuestionOutcome, ResumeAs};
use turnstream_model::fold::Session;
use turnstream_model::id::{ApprovalId, PromptId, QuestionId, SessionId};
use turnstream_model::machine::{Accepted, Cancel, Cancelled};

/// A new prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPrompt {
    /// ACP content blocks, at least one.
    pub content: Vec<Value>,
    /// A repeated request with the same key is the same prompt.
    pub key: Option<String>,
    /// The caps of its turn, where they differ from those of the session's turns.
    pub budget: CapsChange,
}

impl NewPrompt {
    /// A prompt without a key and without caps of its own.
    pub fn new(content: Vec<Value>) -> Self {
        Self { content, key: None, budget: CapsChange::default() }
    }
}

/// A change of a session. Members that are `None` stay as they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// The title in lists.
    pub title: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The agent's mode.
    pub mode: Option<String>,
    /// How approvals are decided from now on.
    pub permissions: Option<Permissions>,
    /// How the session goes on after a limit or a failure.
    pub unattended: UnattendedChange,
}

/// An answer to an approval.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolveApproval {
    /// `allow_once`, `allow_always` or `reject`.
    pub outcome: ApprovalOutcome,
    /// The id of one of the offered options.
    pub option: Option<String>,
    /// A message to the agent.
    pub message: Option<String>,
    /// With `reject`: also cancel the turn.
    pub stop: bool,
    /// A repeated request with the same key is the same answer.
    pub key: Option<String>,
}

/// An answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerQuestion {
    /// `answered` or `rejected`.
    pub outcome: QuestionOutcome,
    /// The answers, by the ids of the questions.
    pub answers: Option<Map<String, Value>>,
    /// A repeated request with the same key is the same answer.
    pub key: Option<String>,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionInfo {
    /// The generation of its log.
    pub generation: Generation,
    /// Its last event.
    pub head: Seq,
    /// Its members and its status.
    #[serde(flatten)]
    pub session: Session,
}

pub(crate) type Reply<T> = oneshot::Sender<Result<T, RequestError>>;

/// Answers a request. A client that has disconnected does not receive it, which changes nothing.
pub(crate) fn answer<T>(reply: Reply<T>, result: Result<T, RequestError>) {
    drop(reply.send(result));
}

/// A request on its way to the keeper, and the client that sent it.
pub(crate) struct ClientRequest {
    /// `None` if the client has no name, or the gateway itself makes the request.
    pub(crate) actor: Option<Actor>,
    pub(crate) request: Request,
}

/// What a request asks for.
pub(crate) enum Request {
    Prompt(NewPrompt, Reply<Accepted>),
    Withdraw(PromptId, Reply<()>),
    Cancel(Cancel, Reply<Cancelled>),
    Resolve(ApprovalId, ResolveApproval, Reply<()>),
    Answer(QuestionId, AnswerQuestion, Reply<()>),
    Change(Change, Reply<()>),
    /// Continue a failed turn now, and not when its time has come.
    Wake(Reply<Accepted>),
    /// Change the caps of the session.
    Budget(BudgetChange, Reply<()>),
    /// Another session, of this agent, goes on from this one.
    HandOver(SessionId, String, Reply<()>),
    /// Go on with a session that the agent has forgotten.
    Resume(ResumeAs, Reply<()>),
    End(String, Reply<()>),
    /// Ends the session if nothing is open in it; answers whether it did.
    EndIfQuiet(String, Reply<bool>),
}

impl Request {
    /// Whether it is a cancel of just this.
    pub(crate) fn cancels(&self, what: &Cancel) -> bool {
        matches!(self, Self::Cancel(other, _) if other == what)
    }

    pub(crate) fn refuse(self, error: RequestError) {
        match self {
            Self::Prompt(_, reply) | Self::Wake(reply) => answer(reply, Err(error)),
            Self::Cancel(_, reply) => answer(reply, Err(error)),
            Self::EndIfQuiet(_, reply) => answer(reply, Err(error)),
            Self::Withdraw(_, reply)
            | Self::Resolve(_, _, reply)
            | Self::Answer(_, _, reply)
            | Self::Change(_, reply)
            | Self::Budget(_, reply)
            | Self::HandOver(_, _, reply)
            | Self::Resume(_, reply)
            | Self::End(_, reply) => answer(reply, Err(error)),
        }
    }
}
