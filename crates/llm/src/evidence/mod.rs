//! The bytes of a failed attempt that may be stored.
//!
//! - The size is capped. The beginning and the end are kept, since openings and faults are there.
//! - Text of a model is replaced by its length. A secret can be split over two deltas, where no redactor
//!   finds it.
//! - Damage can put any text in the place of a name. So only words of the wire formats are kept as they are.
//! - The result passes the redactor.

mod line;
mod payload;
mod vocabulary;

use std::collections::VecDeque;
use turnstream_model::attempts::Evidence;
use turnstream_redact::{Rules, Stream};

/// The kept bytes of the beginning, and of the end.
const CAP: usize = 32 * 1024;

/// Records the beginning and the end of a body while it is received.
#[derive(Debug, Default)]
pub struct Recorder {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted: u64,
}

/// How a body was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// As an event stream. Every line that is not a known field may be torn text of a model.
    Stream,
    /// Not as a stream, under status 2xx. All of it may be text of a model.
    Answer,
    /// Not as a stream, under another status: an error body, a page, plain text of a proxy. JSON,
    /// stream-like text and binary data may still come from a model.
    Document,
}

impl Recorder {
    /// Records more of the body.
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

    /// The bytes that may be stored.
    pub fn evidence(self, kind: Kind, rules: &Rules) -> Evidence {
        let Self { mut head, tail, omitted } = self;
        let mut tail = Vec::from(tail);
        if omitted == 0 {
            head.append(&mut tail);
        }
        let kind = match kind {
            Kind::Stream => line::Kind::Stream,
            Kind::Answer => match document(&head) {
                line::Kind::Stream => line::Kind::Stream,
                line::Kind::Json | line::Kind::Document => line::Kind::Json,
            },
            Kind::Document => document(&head),
        };
        let (head, tail) = (line::without_text(&head, kind), line::without_text(&tail, kind));
        if omitted == 0 {
            return Evidence { head: rules.redact_bytes(&head).into_owned(), omitted, tail };
        }
        // The beginning may end within a secret, and the end may start within one.
        let (mut broken_off, mut begun) = (Stream::new(rules), Stream::in_the_middle(rules));
        let (mut safe_head, mut safe_tail) = (String::new(), String::new());
        broken_off.push(&String::from_utf8_lossy(&head), &mut safe_head);
        broken_off.settle(&mut safe_head);
        begun.push(&String::from_utf8_lossy(&tail), &mut safe_tail);
        begun.finish(&mut safe_tail);
        Evidence { head: safe_head.into_bytes(), omitted, tail: safe_tail.into_bytes() }
    }
}

/// The kind of a body that was not read as a stream. Only its beginning tells, since the end may start
/// within a text.
fn document(head: &[u8]) -> line::Kind {
    let start = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head).trim_ascii_start();
    let is_data = |line: &[u8]| line.starts_with(b"data:");
    // The kept bytes may end within a character.
    let is_binary = std::str::from_utf8(start).is_err_and(|error| error.error_len().is_some());
    match start.first() {
        Some(b'{' | b'[' | b'"') => line::Kind::Json,
        // A stream under an error status, or after a stray line. A page has no such line. A stream that
        // lost its beginning may start with any text of a model, even `<`.
        _ if start.split(|byte| matches!(byte, b'\n' | b'\r')).any(is_data) => line::Kind::Stream,
        Some(b'<') => line::Kind::Document,
        // Compressed data may be text of a model.
        _ if is_binary => line::Kind::Json,
        // The rest of a torn event.
        _ if start.windows(2).any(|pair| matches!(pair, b"\"}" | b"\":")) => line::Kind::Json,
        _ => line::Kind::Document,
    }
}
