//! Ids made by Turnstream: strings that are never reused and never define an order. The agent's own ids are
//! [`Key`]s.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// Defines a string id that is cheap to clone: one event carries several.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The id as it is on the wire.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(id: &str) -> Self {
                Self(id.into())
            }
        }

        impl From<String> for $name {
            fn from(id: String) -> Self {
                Self(id.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let id = String::deserialize(deserializer)?;
                if id.is_empty() {
                    return Err(serde::de::Error::custom("an id must not be empty"));
                }
                Ok(Self(id.into()))
            }
        }
    )+};
}

ids! {
    /// A conversation with one agent in one working directory.
    SessionId,
    /// User input that was accepted.
    PromptId,
    /// One exchange.
    TurnId,
    /// One model call.
    AttemptId,
    /// One thing in a turn.
    ItemId,
    /// The agent waiting for a permission.
    ApprovalId,
    /// The agent waiting for an answer.
    QuestionId,
    /// The agent's own id of something, made unique within the session by the adapter.
    Key,
}

/// What an id is for. Each kind is counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    /// For a [`PromptId`].
    Prompt,
    /// For a [`TurnId`].
    Turn,
    /// For an [`AttemptId`].
    Attempt,
    /// For an [`ItemId`].
    Item,
    /// For an [`ApprovalId`].
    Approval,
    /// For a [`QuestionId`].
    Question,
}

/// Where the machine gets new ids. An implementor never gives the same id twice in one session, not even
/// after a restart.
pub trait Ids {
    /// A fresh id of that kind.
    fn fresh(&mut self, kind: IdKind) -> String;
}

/// Ids by counting: `t1`, `i1`, `i2`. The fold counts what was started, so that a restart continues where
/// the log ended. An id that was given but never appended was never visible, and may be given again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Prompts accepted so far.
    pub prompts: u64,
    /// Turns started so far.
    pub turns: u64,
    /// Attempts started so far.
    pub attempts: u64,
    /// Items started so far.
    pub items: u64,
    /// Approvals requested so far.
    pub approvals: u64,
    /// Questions asked so far.
    pub questions: u64,
}

impl Ids for Counters {
    fn fresh(&mut self, kind: IdKind) -> String {
        let (prefix, count) = match kind {
            IdKind::Prompt => ('p', &mut self.prompts),
            IdKind::Turn => ('t', &mut self.turns),
            IdKind::Attempt => ('a', &mut self.attempts),
            IdKind::Item => ('i', &mut self.items),
            IdKind::Approval => ('q', &mut self.approvals),
            IdKind::Question => ('u', &mut self.questions),
        };
        *count += 1;
        format!("{prefix}{count}")
    }
}
