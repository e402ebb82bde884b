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

/// The subject of a draft: its id is in the envelope or in the body.
macro_rules! subject {
    (Session, $draft:expr, $variant:ident) => {
        Some($crate::event::Subject::Session)
    };
    (Notice, $draft:expr, $variant:ident) => {
        Some($crate::event::Subject::Notice)
    };
    (Turn, $draft:expr, $variant:ident) => {
        $draft.turn.as_ref().map($crate::event::Subject::Turn)
    };
    (Attempt, $draft:expr, $variant:ident) => {
        $draft.attempt.as_ref().map($crate::event::Subject::Attempt)
    };
    (Item, $draft:expr, $variant:ident) => {
        $draft.item.as_ref().map($crate::event::Subject::Item)
    };
    (Prompt, $draft:expr, $variant:ident) => {
        if let Body::$variant { prompt, .. } = &$draft.body {
            Some($crate::event::Subject::Prompt(prompt))
        } else {
            None
        }
    };
    (Approval, $draft:expr, $variant:ident) => {
        if let Body::$variant { approval, .. } = &$draft.body {
            Some($crate::event::Subject::Approval(approval))
        } else {
            None
        }
    };
    (Question, $draft:expr, $variant:ident) => {
        if let Body::$variant { question, .. } = &$draft.body {
            Some($crate::event::Subject::Question(question))
        } else {
            None
        }
    };
}

pub(super) use subject;
