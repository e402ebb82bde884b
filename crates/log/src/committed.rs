//! An event that is durable: the only thing a reader is ever handed.

use bytes::Bytes;
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Event, EventError, Kind, Line};

/// A durable event, with the JSON that was written for it. Cloning shares the bytes. It can only be made by this crate,
/// from a commit that succeeded or from the store.
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

    /// The events of these lines from one on, the first line being event `first`.
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

    /// Its place in the log.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Its type.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// One line of JSON, the same bytes for every reader.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// It as a dialect gets it.
    pub fn line(&self) -> Line<'_> {
        Line::new(self.seq, &self.kind, &self.json)
    }

    /// The event itself.
    pub fn event(&self) -> Result<Event, EventError> {
        Event::from_json(&String::from_utf8_lossy(&self.json))
    }
}
