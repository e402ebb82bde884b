//! The bytes of an attempt that went wrong, as they may be kept.
//!
//! Three rules. The size is capped: the beginning and the end stay, since openings and faults are there. Text of a model
//! is replaced by its length: a secret can be split over two deltas, where no redactor finds it. What is left, the
//! structure, ids, finishes and words of errors, passes the redactor.

mod line;
mod payload;

use std::collections::VecDeque;
use turnstream_model::attempts::Evidence;
use turnstream_redact::Rules;

/// Bytes kept of the beginning, and as many of the end.
const CAP: usize = 32 * 1024;

/// Keeps the beginning and the end of a body while it comes in.
#[derive(Debug, Default)]
pub struct Recorder {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted: u64,
}

/// What a body was read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An event stream: every line that is not a field that we know may be torn text of a model.
    Stream,
    /// Something else: an error body, a page. Only what is JSON can be text of a model.
    Document,
}

impl Recorder {
    /// Takes more of the body.
    pub fn add(&mut self, bytes: &[u8]) {
        let room = CAP - self.head.len();
        let (head, rest) = bytes.split_at(bytes.len().min(room));
        self.head.extend_from_slice(head);
        let fresh = &rest[rest.len().saturating_sub(CAP)..];
        let excess = (self.tail.len() + fresh.len()).saturating_sub(CAP);
        self.tail.drain(..excess.min(self.tail.len()));
        self.tail.extend(fresh);
        self.omitted += (rest.len() - fresh.len() + excess) as u64;
    }

    /// What may be kept of it.
    pub fn evidence(self, kind: Kind, rules: &Rules) -> Evidence {
        let Self { mut head, tail, omitted } = self;
        let mut tail = Vec::from(tail);
        if omitted == 0 {
            head.append(&mut tail);
        }
        let safe = |bytes: &[u8]| rules.redact_bytes(&line::without_text(bytes, kind)).into_owned();
        Evidence { head: safe(&head), omitted, tail: safe(&tail) }
    }
}
