//! A durable event: the only form in which readers receive events.

use bytes::Bytes;
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Event, EventError, Kind, Line};

/// A durable event with its JSON. Cloning shares the bytes. Only this crate can make one, from a successful
/// commit or from the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    seq: Seq,
    kind: Kind,
    json: Bytes,
}

impl Committed {
    pub(crate) fn new(seq: Seq, kind: Kind, json: Bytes) -> Self {
        Self { seq, kind, json }
    }

    /// Splits lines of JSON into events, starting at `from`. The first line is event `first`.
    pub(crate) fn of_lines(first: u64, lines: String, from: Seq) -> Vec<Self> {
        let lines = Bytes::from(lines);
        let mut events = Vec::new();
        let mut start = 0;
        for (offset, line) in lines.split(|byte| *byte == b'\n').enumerate() {
            let range = start..start + line.len();
            start = range.end + 1;
            let seq = Seq(first + offset as u64);
            if seq >= from {
                events.push(Self::new(seq, Kind::of_line(line), lines.slice(range)));
            }
        }
        events
    }

    /// The event's seq.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// The event's type.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The event as one line of JSON; every reader gets the same bytes.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// The event in the form that dialects read.
    pub fn line(&self) -> Line<'_> {
        Line::new(self.seq, &self.kind, &self.json)
    }

    /// Decodes the event.
    pub fn event(&self) -> Result<Event, EventError> {
        Event::from_json(&String::from_utf8_lossy(&self.json))
    }
}
