//! What an event is about, for readers that treat many types alike: indexes, counters, what is open.

use crate::id::{ApprovalId, AttemptId, ItemId, PromptId, QuestionId, TurnId};

/// The thing that an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    /// The session itself.
    Session,
    /// A prompt.
    Prompt(&'a PromptId),
    /// A turn.
    Turn(&'a TurnId),
    /// A model call.
    Attempt(&'a AttemptId),
    /// An item.
    Item(&'a ItemId),
    /// An approval.
    Approval(&'a ApprovalId),
    /// A question.
    Question(&'a QuestionId),
    /// Nothing that lasts: a notice.
    Notice,
}

/// What an event does to its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The subject begins; its id is new.
    Begins,
    /// The subject changes.
    Changes,
    /// Somebody wants the subject to end; the end is still to come.
    Cancels,
    /// The subject is over: it ended, got its outcome, or was taken back.
    Ends,
}

/// The subject of a body and its draft: the id is in one of the two.
macro_rules! subject {
    (Session, $draft:expr, $body:expr, $enum:ident $variant:ident) => {
        Some($crate::event::Subject::Session)
    };
    (Notice, $draft:expr, $body:expr, $enum:ident $variant:ident) => {
        Some($crate::event::Subject::Notice)
    };
    (Turn, $draft:expr, $body:expr, $enum:ident $variant:ident) => {
        $draft.turn.as_ref().map($crate::event::Subject::Turn)
    };
    (Attempt, $draft:expr, $body:expr, $enum:ident $variant:ident) => {
        $draft.attempt.as_ref().map($crate::event::Subject::Attempt)
    };
    (Item, $draft:expr, $body:expr, $enum:ident $variant:ident) => {
        $draft.item.as_ref().map($crate::event::Subject::Item)
    };
    (Prompt, $draft:expr, $body:expr, $enum:ident $variant:ident) => {
        if let $enum::$variant { prompt, .. } = $body {
            Some($crate::event::Subject::Prompt(prompt))
        } else {
            None
        }
    };
    (Approval, $draft:expr, $body:expr, $enum:ident $variant:ident) => {
        if let $enum::$variant { approval, .. } = $body {
            Some($crate::event::Subject::Approval(approval))
        } else {
            None
        }
    };
    (Question, $draft:expr, $body:expr, $enum:ident $variant:ident) => {
        if let $enum::$variant { question, .. } = $body {
            Some($crate::event::Subject::Question(question))
        } else {
            None
        }
    };
}

pub(super) use subject;
