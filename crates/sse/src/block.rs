//! The event being built: the fields of the lines since the last blank line.

use crate::frame::{Event, Text};
use crate::hold::{Chunk, Hold, KEPT_CAPACITY, empty};
use std::ops::Range;

/// The type of an event that does not name one.
pub(crate) const DEFAULT_TYPE: &str = "message";

/// Fields so far. Values live in the stream's bytes where possible; only several data lines are copied,
/// to be joined, so that a block costs at most twice its own bytes.
#[derive(Debug, Default)]
pub(crate) struct Block {
    open: bool,
    range: Range<u64>,
    data: Data,
    joined: Vec<u8>,
    event: String,
    has_event: bool,
    id: String,
    has_id: bool,
    retry: Option<u64>,
}

#[derive(Debug, Default)]
enum Data {
    #[default]
    Absent,
    /// One line: its value's place in the stream.
    Line(Range<u64>),
    /// Several, in `joined`.
    Joined,
}

impl Block {
    /// Where the block began, once a field was accepted.
    #[inline]
    pub(crate) fn start(&self) -> Option<u64> {
        self.open.then_some(self.range.start)
    }

    #[inline]
    pub(crate) fn range(&self) -> &Range<u64> {
        &self.range
    }

    #[inline]
    pub(crate) fn has_data(&self) -> bool {
        !matches!(self.data, Data::Absent)
    }

    /// How many bytes were copied to join data lines.
    pub(crate) fn joined_len(&self) -> usize {
        self.joined.len()
    }

    /// The id set in this block.
    #[inline]
    pub(crate) fn id(&self) -> Option<&str> {
        self.has_id.then_some(self.id.as_str())
    }

    /// A line, whatever it is, belongs to the block if that is open.
    #[inline]
    pub(crate) fn extend_to(&mut self, end: u64) {
        self.range.end = end;
    }

    /// An accepted field opens the block, and so does whatever line the end of input cuts.
    #[inline]
    pub(crate) fn accept(&mut self, line: &Range<u64>) {
        if !self.open {
            self.open = true;
            self.range = line.clone();
        }
    }

    /// A data line. `value_len` bytes at the end of the line are its value.
    #[inline]
    pub(crate) fn push_data(&mut self, hold: &Hold, chunk: Chunk<'_>, line: &Range<u64>, value_len: usize) {
        self.accept(line);
        let value = line.end - value_len as u64..line.end;
        match &self.data {
            Data::Absent => {
                self.data = Data::Line(value);
                return;
            }
            Data::Line(first) => {
                self.joined.extend_from_slice(hold.slice(chunk, first));
                self.data = Data::Joined;
            }
            Data::Joined => {}
        }
        self.joined.push(b'\n');
        self.joined.extend_from_slice(hold.slice(chunk, &value));
    }

    /// Tells whether the value was valid UTF-8.
    pub(crate) fn set_event(&mut self, line: &Range<u64>, value: &[u8]) -> bool {
        self.accept(line);
        self.has_event = true;
        // Mostly it is the type that the event before had.
        value == self.event.as_bytes() || set_lossy(&mut self.event, value)
    }

    /// Tells whether the value was valid UTF-8.
    pub(crate) fn set_id(&mut self, line: &Range<u64>, value: &[u8]) -> bool {
        self.accept(line);
        self.has_id = true;
        set_lossy(&mut self.id, value)
    }

    pub(crate) fn set_retry(&mut self, line: &Range<u64>, value: u64) {
        self.accept(line);
        self.retry = Some(value);
    }

    /// The block as an event; its range must be covered by `hold`.
    #[inline]
    pub(crate) fn event<'a>(&'a self, hold: &'a Hold, chunk: Chunk<'a>, last_id: &'a str) -> Event<'a> {
        let data = match &self.data {
            Data::Absent => Text::Utf8(""),
            Data::Line(value) => hold.text(chunk, value),
            Data::Joined => Text::new(&self.joined),
        };
        Event {
            event: if self.has_event && !self.event.is_empty() { &self.event } else { DEFAULT_TYPE },
            id: self.id(),
            last_id,
            retry: self.retry,
            data,
            raw: hold.slice(chunk, &self.range),
            range: self.range.clone(),
        }
    }

    #[inline]
    pub(crate) fn reset(&mut self) {
        self.open = false;
        self.data = Data::Absent;
        self.has_id = false;
        self.retry = None;
        self.has_event = false;
        empty(&mut self.joined);
        if self.event.capacity() + self.id.capacity() > KEPT_CAPACITY {
            self.event = String::new();
            self.id = String::new();
        }
    }
}

/// Decodes as the specification does, with U+FFFD for what is not UTF-8, and tells whether it was.
fn set_lossy(text: &mut String, value: &[u8]) -> bool {
    text.clear();
    if let Ok(value) = std::str::from_utf8(value) {
        text.push_str(value);
        return true;
    }
    let mut valid = true;
    for chunk in value.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
            valid = false;
        }
    }
    valid
}
