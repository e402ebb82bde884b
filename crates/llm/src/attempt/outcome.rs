//! The outcome of an attempt: what the retry rules, the ledger and `inspect` need to know.

use super::{
    Anomaly, Body, Finish, Item, ProviderError, Repairs, SpliceFinding, ToolCall, Usage, WithheldCall,
};
use std::ops::Range;

/// The outcome of one attempt, returned by [`Reader::end`](crate::Reader::end).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How the stream ended.
    pub ended: StreamEnd,
    /// How the transport ended, as given by the caller.
    pub transport: Transport,
    /// Why the model stopped, if the provider said so.
    pub finish: Option<Finish>,
    /// Complete items, in the order of the completion.
    pub committed: Vec<Item>,
    /// Tool calls that began and are not committed.
    pub withheld: Vec<WithheldCall>,
    /// What a consumer of the events may have shown.
    pub delivered: Delivered,
    /// The damage, in order, at most [`Outcome::MOST_ANOMALIES`] entries.
    pub anomalies: Vec<Anomaly>,
    /// The number of anomalies, unlisted ones included.
    pub anomaly_count: u32,
    /// Repairs by which nothing was lost.
    pub repairs: Repairs,
    /// The identity of the completion, and signs of a second one.
    pub identity: Identity,
    /// Token counts; `None` if the provider gave none.
    pub usage: Option<Usage>,
    /// The partial event at the end of the body.
    pub residue: Option<Residue>,
    /// The answer's text looks like a tool call (`<tool_call>`, link-assistant #264). It stays text.
    pub call_in_text: bool,
    /// Bytes of the body.
    pub bytes: u64,
    /// Decoded events.
    pub events: u64,
    /// The offset from which the body was only counted, because the attempt was over.
    pub ignored_from: Option<u64>,
}

/// How a stream ended. If several variants apply, the first of this list is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEnd {
    /// The terminal marker came, and nothing of the completion was lost.
    Complete,
    /// The provider reported a failure.
    Failed(ProviderError),
    /// A second completion began in the same body. Nothing of the second one was read.
    Spliced,
    /// Bytes were lost, with or without a terminal marker.
    Corrupt,
    /// The body ended without the terminal marker, and was otherwise sound.
    Incomplete,
    /// The body is not an event stream.
    NotAStream(Body),
}

/// How the transport ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// In order, by the rules of its framing.
    Clean,
    /// With an error: a reset, or an end within a chunk.
    Broken,
    /// The caller stopped reading: a cancellation or a timeout.
    Stopped,
}

/// What a consumer may have shown of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delivered {
    /// Reasoning.
    pub reasoning: bool,
    /// Text of the answer, or a refusal.
    pub text: bool,
    /// Tool calls that began and are not committed.
    pub open_calls: u32,
    /// Committed tool calls.
    pub committed_calls: u32,
}

/// How far an attempt got: the row of the retry table in [`retry`](crate::retry).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Furthest {
    /// No content: headers, comments, an opening chunk.
    Nothing,
    /// Reasoning only.
    Reasoning,
    /// Text.
    Text,
    /// A tool call began; none is committed.
    OpenCall,
    /// A tool call is committed and may have run, so the attempt is never repeated.
    CommittedCall,
}

/// The identity of a completion.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// The provider's id.
    pub id: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// The provider's start time, in seconds since 1970.
    pub created: Option<u64>,
    /// The provider's fingerprint of its system.
    pub fingerprint: Option<String>,
    /// Signs of a second completion in the same body.
    pub findings: Vec<SpliceFinding>,
}

/// A partial event at the end of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Residue {
    /// Its place in the body, in bytes.
    pub range: Range<u64>,
    /// Its beginning, at most [`Residue::LIMIT`] bytes.
    pub bytes: Vec<u8>,
}

impl Outcome {
    /// The largest number of listed anomalies.
    pub const MOST_ANOMALIES: usize = 64;

    /// The tool calls that may run, which are the committed ones.
    ///
    /// The calls of a step are committed together at its end, or none of them is. A step that was cut is
    /// truncated to the calls that were complete before the cut.
    pub fn runnable(&self) -> Vec<&ToolCall> {
        self.committed.iter().filter_map(Item::call).collect()
    }
}

impl Residue {
    /// The largest number of bytes that are kept.
    pub const LIMIT: usize = 4 * 1024;
}

impl Delivered {
    /// How far the attempt got.
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
