//! One event of a log, as a dialect receives it.

use super::{Event, EventError, Kind};
use crate::cursor::Seq;
use std::cell::OnceCell;

/// A committed event: its place, its type, its bytes, and the event itself if a reader asks for it.
///
/// The event is parsed from the bytes only when it is asked for, so a dialect that copies bytes parses
/// nothing.
#[derive(Debug)]
pub struct Line<'a> {
    seq: Seq,
    kind: &'a Kind,
    json: &'a [u8],
    event: OnceCell<Event>,
}

impl<'a> Line<'a> {
    /// The line of one event. `json` is one JSON object without a line feed.
    pub fn new(seq: Seq, kind: &'a Kind, json: &'a [u8]) -> Self {
        Self { seq, kind, json, event: OnceCell::new() }
    }

    /// Its place in the log.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Its type.
    pub fn kind(&self) -> &'a Kind {
        self.kind
    }

    /// The bytes that were committed: one JSON object.
    pub fn json(&self) -> &'a [u8] {
        self.json
    }

    /// The event. The bytes are parsed at most once.
    pub fn event(&self) -> Result<&Event, EventError> {
        if let Some(event) = self.event.get() {
            return Ok(event);
        }
        let event = Event::from_json(&String::from_utf8_lossy(self.json))?;
        Ok(self.event.get_or_init(|| event))
    }
}
