//! Carries the bytes of an unfinished event or line over from one read to the next.

use crate::frame::Text;
use crate::utf8_buffer::Utf8Buffer;
use std::ops::Range;

/// A larger buffer is freed after its event, so that one huge event does not occupy an idle connection.
pub(crate) const KEPT_CAPACITY: usize = 64 * 1024;

/// The current read, and the stream offset of its first byte.
#[derive(Clone, Copy)]
pub(crate) struct Chunk<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) at: u64,
}

impl<'a> Chunk<'a> {
    /// The offset after the read.
    #[inline]
    pub(crate) fn end(self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    /// The bytes of a range in this read. Offsets within a read fit `usize`, since its length does.
    #[inline]
    pub(crate) fn slice(self, range: Range<u64>) -> &'a [u8] {
        &self.bytes[(range.start - self.at) as usize..(range.end - self.at) as usize]
    }

    /// The bytes from an offset in this read to its end.
    #[inline]
    pub(crate) fn from(self, offset: u64) -> &'a [u8] {
        &self.bytes[(offset - self.at) as usize..]
    }
}

/// Empty, or everything from the start of the open event (or line) to the beginning of the current read,
/// and more after `cover`.
#[derive(Debug, Default)]
pub(crate) struct CarryOver {
    buffer: Utf8Buffer,
    at: u64,
}

impl CarryOver {
    /// Makes a range contiguous that starts in an earlier read. A range that starts in this read already is.
    #[inline]
    pub(crate) fn cover(&mut self, chunk: Chunk<'_>, range: &Range<u64>) {
        if range.start < chunk.at {
            self.extend_to(chunk, range.end);
            self.buffer.settle();
        }
    }

    /// Keeps everything from `start` to the end of the read. Repeating it changes nothing.
    pub(crate) fn keep(&mut self, chunk: Chunk<'_>, start: u64) {
        if self.buffer.len() == 0 {
            self.at = start;
        }
        self.extend_to(chunk, chunk.end());
    }

    fn extend_to(&mut self, chunk: Chunk<'_>, end: u64) {
        let have = self.at + self.buffer.len() as u64;
        if have < end {
            self.buffer.extend(chunk.slice(have..end));
        }
    }

    /// The bytes of a covered range.
    #[inline]
    pub(crate) fn slice<'a>(&'a self, chunk: Chunk<'a>, range: &Range<u64>) -> &'a [u8] {
        if range.start < chunk.at {
            &self.buffer.bytes()[self.place(range)]
        } else {
            chunk.slice(range.clone())
        }
    }

    /// The bytes of a covered range, checked for UTF-8 unless the result is known.
    #[inline]
    pub(crate) fn text<'a>(&'a self, chunk: Chunk<'a>, range: &Range<u64>) -> Text<'a> {
        let known = if range.start < chunk.at { self.buffer.text() } else { None };
        match known.and_then(|text| text.get(self.place(range))) {
            Some(text) => Text::Utf8(text),
            None => Text::new(self.slice(chunk, range)),
        }
    }

    fn place(&self, range: &Range<u64>) -> Range<usize> {
        (range.start - self.at) as usize..(range.end - self.at) as usize
    }

    pub(crate) fn len(&self) -> usize {
        self.buffer.len()
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.buffer.clear();
    }
}

/// Empties a buffer, and frees its memory if it is large.
#[inline]
pub(crate) fn empty(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEPT_CAPACITY {
        *buffer = Vec::new();
    } else {
        buffer.clear();
    }
}
