//! The open event: the fields since the last blank line.

use crate::carry_over::{CarryOver, Chunk, KEPT_CAPACITY, empty};
use crate::frame::{Event, Text};
use std::ops::Range;

/// The type of an event that does not name one.
pub(crate) const DEFAULT_TYPE: &str = "message";

/// The fields so far. Values refer to the stream's bytes where possible. Only several data lines are
/// copied, to join them, so a block needs at most twice its own bytes.
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
    /// One line: the place of its value in the stream.
    Line(Range<u64>),
    /// Several lines, in `joined`.
    Joined,
}

impl Block {
    /// Where the block began; set by the first accepted field.
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

    /// The number of bytes that were copied to join data lines.
    pub(crate) fn joined_len(&self) -> usize {
        self.joined.len()
    }

    /// The id set in this block.
    #[inline]
    pub(crate) fn id(&self) -> Option<&str> {
        self.has_id.then_some(self.id.as_str())
    }

    /// Extends an open block by a line of any kind.
    #[inline]
    pub(crate) fn extend_to(&mut self, end: u64) {
        self.range.end = end;
    }

    /// Opens the block: with an accepted field, or with a line that the end of input cuts.
    #[inline]
    pub(crate) fn accept(&mut self, line: &Range<u64>) {
        if !self.open {
            self.open = true;
            self.range = line.clone();
        }
    }

    /// Adds a data line. Its value is the last `value_len` bytes of the line.
    #[inline]
    pub(crate) fn push_data(
        &mut self,
        carried: &CarryOver,
        chunk: Chunk<'_>,
        line: &Range<u64>,
        value_len: usize,
    ) {
        self.accept(line);
        let value = line.end - value_len as u64..line.end;
        match &self.data {
            Data::Absent => {
                self.data = Data::Line(value);
                return;
            }
            Data::Line(first) => {
                self.joined.extend_from_slice(carried.slice(chunk, first));
                self.data = Data::Joined;
            }
            Data::Joined => {}
        }
        self.joined.push(b'\n');
        self.joined.extend_from_slice(carried.slice(chunk, &value));
    }

    /// Returns whether the value was valid UTF-8.
    pub(crate) fn set_event(&mut self, line: &Range<u64>, value: &[u8]) -> bool {
        self.accept(line);
        self.has_event = true;
        // Usually the type is that of the previous event.
        value == self.event.as_bytes() || set_lossy(&mut self.event, value)
    }

    /// Returns whether the value was valid UTF-8.
    pub(crate) fn set_id(&mut self, line: &Range<u64>, value: &[u8]) -> bool {
        self.accept(line);
        self.has_id = true;
        set_lossy(&mut self.id, value)
    }

    pub(crate) fn set_retry(&mut self, line: &Range<u64>, value: u64) {
        self.accept(line);
        self.retry = Some(value);
    }

    /// The block as an event. `carried` must cover its range.
    #[inline]
    pub(crate) fn event<'a>(
        &'a self,
        carried: &'a CarryOver,
        chunk: Chunk<'a>,
        last_id: &'a str,
    ) -> Event<'a> {
        let data = match &self.data {
            Data::Absent => Text::Utf8(""),
            Data::Line(value) => carried.text(chunk, value),
            Data::Joined => Text::new(&self.joined),
        };
        Event {
            event: if self.has_event && !self.event.is_empty() { &self.event } else { DEFAULT_TYPE },
            id: self.id(),
            last_id,
            retry: self.retry,
            data,
            raw: carried.slice(chunk, &self.range),
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

/// Decodes with U+FFFD for invalid UTF-8, as the specification says. Returns whether it was valid.
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
