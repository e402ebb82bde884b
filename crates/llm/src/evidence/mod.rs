//! The bytes of an attempt that went wrong, as they may be kept.
//!
//! Three rules. The size is capped: the beginning and the end stay, since openings and faults are there. Text of a model
//! is replaced by its length: a secret can be split over two deltas, where no redactor finds it. Damage can put any text
//! where a name was, so only words of the wire formats stay as they are. What is left passes the redactor.

mod line;
mod payload;
mod vocabulary;

use std::collections::VecDeque;
use turnstream_model::attempts::Evidence;
use turnstream_redact::{Rules, Stream};

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
    /// Something else under a status that says it is an answer. A model may have written all of it.
    Answer,
    /// Something else under any other status: an error body, a page, a word of a proxy. What is JSON, looks like a stream
    /// or is no text can be a model's all the same.
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
        // The beginning may break off within a secret, and the end may begin within one.
        let (mut broken_off, mut begun) = (Stream::new(rules), Stream::in_the_middle(rules));
        let (mut safe_head, mut safe_tail) = (String::new(), String::new());
        broken_off.push(&String::from_utf8_lossy(&head), &mut safe_head);
        broken_off.settle(&mut safe_head);
        begun.push(&String::from_utf8_lossy(&tail), &mut safe_tail);
        begun.finish(&mut safe_tail);
        Evidence { head: safe_head.into_bytes(), omitted, tail: safe_tail.into_bytes() }
    }
}

/// What a body that was not read as a stream is, by its beginning, since its end may begin within a text.
fn document(head: &[u8]) -> line::Kind {
    let start = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head).trim_ascii_start();
    let is_data = |line: &[u8]| line.starts_with(b"data:");
    // The end of what was kept may be within a character.
    let is_binary = std::str::from_utf8(start).is_err_and(|error| error.error_len().is_some());
    match start.first() {
        Some(b'{' | b'[' | b'"') => line::Kind::Json,
        // A stream under an error status, or behind a line that does not belong there. A page has no such line; a
        // stream that lost its beginning may begin with any text of a model, `<` too.
        _ if start.split(|byte| matches!(byte, b'\n' | b'\r')).any(is_data) => line::Kind::Stream,
        Some(b'<') => line::Kind::Document,
        // Compressed, it would still be the text of a model.
        _ if is_binary => line::Kind::Json,
        // The rest of one torn event.
        _ if start.windows(2).any(|pair| matches!(pair, b"\"}" | b"\":")) => line::Kind::Json,
        _ => line::Kind::Document,
    }
}
