//! Faults between a provider and its client, as real providers, proxies and runtimes cause them.

use crate::reply::{Bytes, Completion, ErrorBody};
use serde::{Deserialize, Serialize};

/// One fault. Events are counted from 0, and bytes are bytes of the body, after the faults before this one
/// were applied. A split event still counts as one. Bytes that a fault inserts count as one event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// The connection ends after this many bytes of the body.
    Cut {
        /// Body bytes that still get through.
        after: usize,
        /// How it ends.
        by: CutBy,
    },
    /// After this many bytes a second completion follows from its start, under another id. Bun up to 1.3.13
    /// does exactly this when a keep-alive socket dies (oven-sh/bun #28706).
    Splice {
        /// Bytes of the first completion that still get through.
        after: usize,
        /// The completion of the replayed request.
        second: Completion,
    },
    /// The connection stays open and nothing, or nothing but comments, comes.
    Stall {
        /// Body bytes before it.
        after: usize,
        /// Milliseconds it lasts, at most 10 minutes. Default: until the client leaves.
        #[serde(default)]
        lasts_ms: Option<u64>,
        /// Milliseconds between comments. Default: silence.
        #[serde(default)]
        comment_every_ms: Option<u64>,
    },
    /// The format's own in-band error takes the place of this event, and the stream ends in order after it.
    Error {
        /// The first event that is not sent.
        at_event: usize,
        /// What it says.
        error: ErrorBody,
    },
    /// The blank line after this event is missing, so that it runs into the next one.
    MissingBlankLine {
        /// The event without its end.
        after_event: usize,
    },
    /// This event is sent twice.
    Duplicate {
        /// The event.
        event: usize,
    },
    /// A comment, as keepalives are.
    Comment {
        /// The event it precedes.
        before_event: usize,
        /// What follows the colon.
        text: String,
    },
    /// Any bytes: a page of HTML in mid-stream, half an event.
    Insert {
        /// The event they precede.
        before_event: usize,
        /// The bytes.
        bytes: Bytes,
    },
}

/// How a connection ends before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CutBy {
    /// FIN: the client reads an end of file.
    Fin,
    /// RST: the client reads `ECONNRESET`.
    Rst,
}

/// A pause in a body that is not between two deltas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// Milliseconds, or until the client leaves.
    pub lasts_ms: Option<u64>,
    /// Milliseconds between comments, or silence.
    pub comment_every_ms: Option<u64>,
}
