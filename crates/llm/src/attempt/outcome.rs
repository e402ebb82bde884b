//! How an attempt ended, with everything that the retry rules, the ledger and a person who looks into it need.

use super::{Anomaly, Body, Call, Finding, Finish, Item, ProviderError, Repairs, Usage, Withheld};
use std::ops::Range;

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub ended: Ended,
    /// How the transport ended, as the caller told.
    pub transport: Transport,
    /// Why the model stopped, if it said so.
    pub finish: Option<Finish>,
    /// Items that are whole, in the order of the completion.
    pub committed: Vec<Item>,
    /// Calls that were begun and are not among them.
    pub withheld: Vec<Withheld>,
    /// What the caller may have shown.
    pub delivered: Delivered,
    /// What was lost, in order, at most [`Outcome::MOST_ANOMALIES`].
    pub anomalies: Vec<Anomaly>,
    /// How many anomalies there were.
    pub anomaly_count: u32,
    /// Repairs that lost nothing.
    pub repairs: Repairs,
    /// Which completion this was, and what pointed to another one.
    pub identity: Identity,
    /// Token counts; `None` if the provider gave none.
    pub usage: Option<Usage>,
    /// What was left of an event when the body ended.
    pub residue: Option<Residue>,
    /// Text of the answer that has the look of a tool call (`<tool_call>`, link-assistant #264). It is only text.
    pub call_in_text: bool,
    /// Body bytes.
    pub bytes: u64,
    /// Events that were decoded.
    pub events: u64,
    /// From where on the body was only counted, because the attempt was over.
    pub ignored_from: Option<u64>,
}

/// How an attempt ended, the strongest reason first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The terminal marker came, and nothing that the completion consists of was lost.
    Complete,
    /// The provider said that it failed.
    Failed(ProviderError),
    /// A second completion began in the same body. Nothing of it was read.
    Spliced,
    /// Bytes were lost, whether or not a terminal marker came.
    Corrupt,
    /// The body ended without the terminal marker, and nothing else was wrong.
    Incomplete,
    /// The body was no event stream.
    NotAStream(Body),
}

/// How the transport ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// As its framing says.
    Clean,
    /// With an error: a reset, an end within a chunk, a stream error of HTTP/2.
    Broken,
    /// We stopped reading: cancelled, or a deadline passed.
    Stopped,
}

/// What of an attempt may have been shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delivered {
    /// Reasoning.
    pub reasoning: bool,
    /// Text of the answer, or a refusal.
    pub text: bool,
    /// Calls that were begun and are not committed.
    pub open_calls: u32,
    /// Calls that are committed.
    pub committed_calls: u32,
}

/// The row of the retry matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Furthest {
    /// Nothing that means anything: headers, comments, an opening chunk.
    Nothing,
    /// Reasoning only.
    Reasoning,
    /// Text.
    Text,
    /// A call was begun; none is committed.
    OpenCall,
    /// A call is committed, and may run: never restart.
    CommittedCall,
}

/// Which completion it was.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// The provider's id.
    pub id: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// When the provider says it began, in seconds since 1970.
    pub created: Option<u64>,
    /// The provider's fingerprint of its system.
    pub fingerprint: Option<String>,
    /// Signs of another completion in the same body.
    pub findings: Vec<Finding>,
}

/// The rest of an event that the body ended within.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Residue {
    /// Where it is in the body.
    pub range: Range<u64>,
    /// Its beginning, at most [`Residue::LIMIT`] bytes.
    pub bytes: Vec<u8>,
}

impl Outcome {
    /// How many anomalies are listed.
    pub const MOST_ANOMALIES: usize = 64;

    /// The calls that may run: those committed. Calls are committed at the end of their step, all or none, and not under a
    /// finish with which none may run. A step that was cut is truncated to those that were whole before.
    pub fn runnable(&self) -> Vec<&Call> {
        self.committed.iter().filter_map(Item::call).collect()
    }
}

impl Residue {
    /// How much of it is kept.
    pub const LIMIT: usize = 4 * 1024;
}

impl Delivered {
    /// The row of the retry matrix.
    pub fn furthest(&self) -> Furthest {
        if self.committed_calls > 0 {
            Furthest::CommittedCall
        } else if self.open_calls > 0 {
            Furthest::OpenCall
        } else if self.text {
            Furthest::Text
        } else if self.reasoning {
            Furthest::Reasoning
        } else {
            Furthest::Nothing
        }
    }
}
