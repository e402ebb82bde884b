//! One line of a session's log. The JSON is the native wire's, member by member; see `docs/wire.md`.

mod actor;
mod budget;
mod decode;
mod describe;
mod encode;
mod json;
mod kind;
mod line;
mod redact;
mod status;
mod subject;
mod table;
mod unattended;
mod values;
mod vocabulary;
mod weight;

pub use actor::Actor;
pub use budget::{Budget, CAPPED_CURRENCY, Cap, Caps, Scope, Used};
pub(crate) use budget::{all_tokens, capped_amount};
pub use decode::EventError;
pub use describe::{Description, MemberDescription, MemberKind, Presence, Redacted};
pub use kind::Kind;
pub use line::Line;
pub use redact::{Redact, Secrets};
pub use status::Status;
pub use subject::{Effect, Subject};
pub use table::{Aside, Body, Known, Shown};
pub use unattended::{
    Because, CONTINUATION_PROMPT, Continuation, LIMIT_WINDOW_MILLIS, OnFailure, OnLimit, Released, Unattended,
};
pub use values::{
    ApprovalOption, Choice, Context, Cost, Question, Resolution, SessionPatch, Tool, TurnError, Usage,
};
pub use vocabulary::{
    ApprovalOutcome, By, ErrorClass, Field, ItemKind, ItemState, NoticeCode, OptionKind, Origin, Outcome,
    Permissions, QuestionOutcome, ResumeAs, Role, StopReason, ToolKind, ToolStatus,
};
pub use weight::Weigh;

use crate::cursor::Seq;
use crate::id::{AttemptId, ItemId, TurnId};
use crate::time::Time;
use serde_json::{Map, Value};

/// One line of the log: a draft with its place and time.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its place: 1, 2, 3, … per session.
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
    /// Opaque reference to the raw payload, where that is kept.
    pub native: Option<String>,
    /// The client whose request made the event, where that is known.
    pub actor: Option<Actor>,
    /// The rest, by type.
    pub body: Body,
    /// Members this version does not know, kept so that a copy of a newer log loses nothing.
    pub extra: Map<String, Value>,
}

impl Draft {
    /// A draft with nothing but a body.
    pub fn new(body: Body) -> Self {
        Self {
            turn: None,
            attempt: None,
            item: None,
            parent: None,
            native: None,
            actor: None,
            body,
            extra: Map::new(),
        }
    }

    /// The event this becomes at its place.
    pub fn at(self, seq: Seq, time: Time) -> Event {
        Event { seq, time, draft: self }
    }

    /// What the event is about, and what it does to that. `None` for an unknown type.
    pub fn about(&self) -> Option<(Subject<'_>, Effect)> {
        self.body.about(self)
    }

    /// True when the agent did something. News about the session, notices, and somebody's wish to stop it
    /// are none.
    pub fn is_activity(&self) -> bool {
        match self.about() {
            Some((Subject::Session | Subject::Notice, _)) => false,
            Some((
                Subject::Prompt(_)
                | Subject::Turn(_)
                | Subject::Attempt(_)
                | Subject::Item(_)
                | Subject::Approval(_)
                | Subject::Question(_),
                effect,
            )) => effect != Effect::Cancels,
            // A newer version's type: the agent did something that this version cannot name.
            None => true,
        }
    }

    /// The items that are void from this event on: the agent took them back, or repeated the call they
    /// belong to.
    pub fn voided_items(&self) -> &[ItemId] {
        if let Body::AttemptSuperseded { items, .. } = &self.body {
            items
        } else if let Body::ItemRemoved = &self.body {
            self.item.as_slice()
        } else {
            &[]
        }
    }
}
