//! One line of a session's log. The JSON is the native wire's, member by member; see `docs/wire.md`.

mod decode;
mod encode;
mod kind;
mod line;
mod values;
mod vocabulary;

pub use decode::EventError;
pub use kind::{Kind, Known};
pub use line::Line;
pub use values::{
    ApprovalOption, Choice, Context, Cost, Question, Resolution, SessionPatch, Tool, TurnError, Usage,
};
pub use vocabulary::{
    ApprovalOutcome, By, ErrorClass, Field, ItemKind, ItemState, NoticeCode, OptionKind, Origin, Outcome,
    Permissions, QuestionOutcome, Role, StopReason, ToolKind, ToolStatus,
};

use crate::cursor::Seq;
use crate::id::{ApprovalId, AttemptId, ItemId, PromptId, QuestionId, SessionId, TurnId};
use crate::time::Time;
use serde_json::{Map, Value};

/// One line of the log: a draft with its place and time.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Contiguous per session from 1.
    pub seq: Seq,
    /// When it was appended.
    pub time: Time,
    /// What it says.
    pub draft: Draft,
}

/// An event that has no place in a log yet. The log alone gives places.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The turn it belongs to. Absent on background items and whatever is outside turns.
    pub turn: Option<TurnId>,
    /// The model call it belongs to, where the agent shows its calls.
    pub attempt: Option<AttemptId>,
    /// The item it is about.
    pub item: Option<ItemId>,
    /// The tool item whose subagent does this work.
    pub parent: Option<ItemId>,
    /// Opaque reference to the kept raw payload.
    pub native: Option<String>,
    /// The rest, by type.
    pub body: Body,
    /// Members this version does not know, kept so that a copy of a newer log loses nothing.
    pub extra: Map<String, Value>,
}

impl Draft {
    /// A draft with nothing but a body.
    pub fn new(body: Body) -> Self {
        Self { turn: None, attempt: None, item: None, parent: None, native: None, body, extra: Map::new() }
    }

    /// The event this becomes at its place.
    pub fn at(self, seq: Seq, time: Time) -> Event {
        Event { seq, time, draft: self }
    }
}

/// What the agent of a session is doing.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    /// No turn is open, and none is to come.
    Idle,
    /// A turn is open, or a prompt was sent and its turn is to come.
    Busy,
    /// A turn is open and waits for a person.
    Waiting,
    /// After a crash, the open turn is being settled.
    Recovering,
    /// A turn is open and waits to repeat a model call.
    Retrying {
        /// Which retry.
        attempt: Option<u32>,
        /// Why.
        reason: Option<ErrorClass>,
        /// When it goes on.
        until: Option<Time>,
        /// Why, in the agent's words.
        message: Option<String>,
    },
}

/// What an event says, by type. Ids that name the event's place are in [`Draft`].
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "members are those of the wire reference, under the same names")]
pub enum Body {
    /// `session.created`
    SessionCreated {
        session: SessionId,
        agent: String,
        cwd: String,
        title: Option<String>,
        key: Option<String>,
    },
    /// `session.updated`
    SessionUpdated(Box<SessionPatch>),
    /// `session.status`
    SessionStatus(Status),
    /// `prompt.accepted`
    PromptAccepted { prompt: PromptId, key: Option<String>, content: Vec<Value> },
    /// `prompt.sent`: durable before the bytes leave for the agent
    PromptSent { prompt: PromptId, native_id: Option<String> },
    /// `prompt.taken`
    PromptTaken { prompt: PromptId },
    /// `prompt.withdrawn`
    PromptWithdrawn { prompt: PromptId },
    /// `prompt.cancelling`: somebody wants a sent prompt to stop; its turn is still to come, and ends cancelled
    PromptCancelling { prompt: PromptId, by: By },
    /// `turn.started`
    TurnStarted { origin: Origin, prompts: Vec<PromptId>, native_id: Option<String> },
    /// `turn.cancelling`: somebody wants the turn to end; its end is still to come
    TurnCancelling { by: By },
    /// `attempt.started`
    AttemptStarted { step: u32, model: Option<String>, native_id: Option<String> },
    /// `item.started`
    ItemStarted {
        kind: ItemKind,
        role: Option<Role>,
        synthetic: bool,
        text: Option<String>,
        tool: Option<Box<Tool>>,
        native_id: Option<String>,
    },
    /// `item.delta`
    ItemDelta { field: Field, text: String },
    /// `item.replaced`
    ItemReplaced { field: Field, text: String },
    /// `item.updated`; the draft's `parent` may set the item's parent later
    ItemUpdated { tool: Option<Box<Tool>> },
    /// `item.ended`
    ItemEnded { state: ItemState, reason: Option<String>, incomplete: bool, caused_by: Option<String> },
    /// `item.revised`: an ended item was corrected; `late` when its turn had ended too
    ItemRevised { late: bool, state: Option<ItemState>, text: Option<String>, tool: Option<Box<Tool>> },
    /// `item.removed`
    ItemRemoved,
    /// `attempt.ended`
    AttemptEnded { finish: Option<String>, usage: Option<Box<Usage>>, cost: Option<Cost> },
    /// `attempt.superseded`
    AttemptSuperseded { by: AttemptId, items: Vec<ItemId> },
    /// `approval.requested`
    ApprovalRequested {
        approval: ApprovalId,
        tool: Option<Box<Tool>>,
        options: Vec<ApprovalOption>,
        native_id: Option<String>,
    },
    /// `approval.resolved`
    ApprovalResolved { approval: ApprovalId, resolution: Box<Resolution> },
    /// `question.asked`
    QuestionAsked { question: QuestionId, questions: Vec<Question>, native_id: Option<String> },
    /// `question.answered`
    QuestionAnswered {
        question: QuestionId,
        outcome: QuestionOutcome,
        answers: Option<Map<String, Value>>,
        key: Option<String>,
    },
    /// `turn.ended`; `summed` when `usage` and `cost` are at least the sums of the turn's attempts
    TurnEnded {
        outcome: Outcome,
        stop_reason: Option<StopReason>,
        usage: Option<Box<Usage>>,
        cost: Option<Cost>,
        summed: bool,
        error: Option<Box<TurnError>>,
    },
    /// `notice`
    Notice { code: NoticeCode, message: String, detail: Option<Value> },
    /// `session.ended`
    SessionEnded { reason: String },
    /// A type this version does not know; its members are in the draft's `extra`.
    Unknown { r#type: String },
}

impl Body {
    /// The event's type on the wire.
    pub fn type_name(&self) -> &str {
        match self {
            Self::SessionCreated { .. } => Known::SessionCreated.as_str(),
            Self::SessionUpdated(_) => Known::SessionUpdated.as_str(),
            Self::SessionStatus(_) => Known::SessionStatus.as_str(),
            Self::PromptAccepted { .. } => Known::PromptAccepted.as_str(),
            Self::PromptSent { .. } => Known::PromptSent.as_str(),
            Self::PromptTaken { .. } => Known::PromptTaken.as_str(),
            Self::PromptWithdrawn { .. } => Known::PromptWithdrawn.as_str(),
            Self::PromptCancelling { .. } => Known::PromptCancelling.as_str(),
            Self::TurnStarted { .. } => Known::TurnStarted.as_str(),
            Self::TurnCancelling { .. } => Known::TurnCancelling.as_str(),
            Self::AttemptStarted { .. } => Known::AttemptStarted.as_str(),
            Self::ItemStarted { .. } => Known::ItemStarted.as_str(),
            Self::ItemDelta { .. } => Known::ItemDelta.as_str(),
            Self::ItemReplaced { .. } => Known::ItemReplaced.as_str(),
            Self::ItemUpdated { .. } => Known::ItemUpdated.as_str(),
            Self::ItemEnded { .. } => Known::ItemEnded.as_str(),
            Self::ItemRevised { .. } => Known::ItemRevised.as_str(),
            Self::ItemRemoved => Known::ItemRemoved.as_str(),
            Self::AttemptEnded { .. } => Known::AttemptEnded.as_str(),
            Self::AttemptSuperseded { .. } => Known::AttemptSuperseded.as_str(),
            Self::ApprovalRequested { .. } => Known::ApprovalRequested.as_str(),
            Self::ApprovalResolved { .. } => Known::ApprovalResolved.as_str(),
            Self::QuestionAsked { .. } => Known::QuestionAsked.as_str(),
            Self::QuestionAnswered { .. } => Known::QuestionAnswered.as_str(),
            Self::TurnEnded { .. } => Known::TurnEnded.as_str(),
            Self::Notice { .. } => Known::Notice.as_str(),
            Self::SessionEnded { .. } => Known::SessionEnded.as_str(),
            Self::Unknown { r#type } => r#type,
        }
    }

    /// The same as a value.
    pub fn kind(&self) -> Kind {
        Kind::named(self.type_name())
    }
}
