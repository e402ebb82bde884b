//! The row of one attempt: what was known before the request left, and how it ended.

use super::AttemptName;
use crate::event::{ErrorClass, Usage};
use crate::id::{AttemptId, TurnId};
use crate::time::Time;
use crate::words::words;
use serde::{Deserialize, Serialize};

/// What is known before a request leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// Its name.
    pub name: AttemptName,
    /// Which model call of the turn it is for, from 1. A retry has the same step.
    pub step: u32,
    /// The configured route to the provider.
    pub route: String,
    /// The wire format: `chat`, `responses` or `messages`.
    pub format: String,
    /// The model asked for.
    pub model: String,
    /// SHA-256 of the request's body in hex. It shows that two requests are equal, without keeping their
    /// content.
    pub request: String,
    /// When.
    pub started: Time,
}

words! {
    /// How an attempt ended.
    pub enum Verdict {
        /// The answer came whole.
        Complete = "complete",
        /// It failed after a complete tool call. What was complete counts, the rest does not.
        Truncated = "truncated",
        /// It failed.
        Failed = "failed",
        /// Nobody wanted it any more.
        Cancelled = "cancelled",
        /// Its owner stopped before it ended. It may have been answered and billed.
        Unknown = "unknown",
    }
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// How it ended.
    pub verdict: Verdict,
    /// The class of the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ErrorClass>,
    /// The error message, redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The HTTP status, if an answer began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's name of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Headers of the answer that a provider asks for when something went wrong, redacted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// The finish reason, in the provider's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<String>,
    /// Its tokens and cost, as far as known.
    pub tokens: Tokens,
    /// What the decoder found in the bytes.
    pub findings: Findings,
    /// When.
    pub ended: Time,
    /// The bytes, if it went wrong. Kept apart from the row.
    #[serde(skip)]
    pub evidence: Option<Evidence>,
}

/// What an attempt cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tokens {
    /// As the provider says.
    Reported(Usage),
    /// The provider did not report it. Estimated from what was delivered, at about four bytes per token; at
    /// least this was billed.
    Estimated(Usage),
    /// Unknown: nothing was delivered or reported. This is not zero, because the prompt may have been read.
    Unknown,
}

/// What a decoder saw in the bytes of one attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// Bytes of the body.
    pub bytes: u64,
    /// Events in them.
    pub events: u64,
    /// Damage that was mended without loss, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<Count>,
    /// Damage that was not, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anomalies: Vec<Count>,
    /// The completions whose parts are in the body, in order. More than one is a splice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub completions: Vec<Completion>,
    /// Tool calls that came whole: they may have been run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub committed: Vec<String>,
    /// What was begun and is not whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Loss>,
}

/// How often something was seen, and where first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Its name.
    pub what: String,
    /// How often.
    pub times: u64,
    /// The byte of the body at which it was seen first, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
}

/// One completion in a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// The provider's id of it; none where it gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The byte at which it begins.
    pub from: u64,
    /// The byte at which it ends.
    pub to: u64,
    /// It came to its protocol's end.
    pub whole: bool,
}

/// Something that was begun and is not whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// `text`, `reasoning`, or the name of a tool.
    pub what: String,
    /// Bytes of it that came.
    pub bytes: u64,
    /// It may be shown with a mark. An incomplete call is not shown.
    pub shown: bool,
}

/// The bytes of an attempt that went wrong: redacted, and without the text of deltas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The beginning.
    pub head: Vec<u8>,
    /// Bytes of the body between the two that were not kept.
    pub omitted: u64,
    /// The end; empty when all of it is in the head.
    pub tail: Vec<u8>,
}

/// A row as it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// What was known before.
    #[serde(flatten)]
    pub begun: Begun,
    /// How it ended; none while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Ended>,
    /// It has no end, and nobody is left to give it one.
    #[serde(default)]
    pub orphaned: bool,
    /// The attempt of the session that it belongs to, if an agent has made the request by a proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<AgentAttempt>,
}

/// An attempt in the log of a session, as the adapter of an agent has reported it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentAttempt {
    /// The turn.
    pub turn: TurnId,
    /// The attempt.
    pub attempt: AttemptId,
}

// === impl Attempt ===

impl Attempt {
    /// What became of it; none while it runs.
    pub fn verdict(&self) -> Option<Verdict> {
        match (&self.end, self.orphaned) {
            (Some(end), _) => Some(end.verdict),
            (None, true) => Some(Verdict::Unknown),
            (None, false) => None,
        }
    }
}

// === impl Evidence ===

impl Evidence {
    /// Bytes kept.
    pub fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// True when nothing was kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
