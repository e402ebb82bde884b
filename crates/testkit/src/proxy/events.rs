//! Splits SSE bytes at blank lines, and keeps every byte.

use std::borrow::Cow;

/// A larger block is passed on without matching, so that memory stays bounded.
const BLOCK_CAP: usize = 16 << 20;

/// One block of an event stream, with its blank line.
#[derive(Clone, Copy, Debug)]
pub struct SseEvent<'a> {
    /// The bytes of the upstream, with the blank line.
    pub bytes: &'a [u8],
    /// Its number in the response, from 1. Comment blocks count too.
    pub number: u64,
}

/// Splits a stream into blocks, with LF, CRLF or CR as line ends, in any pieces.
#[derive(Debug)]
pub(super) struct Splitter {
    buffer: Vec<u8>,
    scanned: usize,
    line_is_empty: bool,
    after_cr: bool,
    /// A blank line ended with CR. An LF that belongs to it may follow.
    blank_cr: bool,
    /// The block has lines that end with CRLF, so its blank line will too.
    crlf: bool,
    /// The beginning of this block was passed on already.
    begun: bool,
}

/// The output of the splitter.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) bytes: Vec<u8>,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A complete event, which can be matched and edited.
    Event,
    /// The end of an event whose beginning was passed on already.
    Rest,
    /// The beginning of an event above the cap.
    Beginning,
    /// A blank line without an event before it.
    Blank,
}

// === impl SseEvent ===

impl SseEvent<'_> {
    /// The last `event` field, or the empty string.
    pub fn name(&self) -> Cow<'_, str> {
        self.fields("event").last().map_or(Cow::Borrowed(""), String::from_utf8_lossy)
    }

    /// The `data` fields, joined by line feeds.
    pub fn data(&self) -> String {
        let lines: Vec<_> = self.fields("data").map(String::from_utf8_lossy).collect();
        lines.join("\n")
    }

    /// The last `id` field, or the empty string.
    pub fn id(&self) -> Cow<'_, str> {
        self.fields("id").last().map_or(Cow::Borrowed(""), String::from_utf8_lossy)
    }

    fn fields<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s [u8]> {
        self.bytes.split(|byte| matches!(byte, b'\n' | b'\r')).filter_map(move |line| {
            let value = line.strip_prefix(name.as_bytes())?.strip_prefix(b":")?;
            Some(value.strip_prefix(b" ").unwrap_or(value))
        })
    }
}

// === impl Splitter ===

impl Default for Splitter {
    fn default() -> Self {
        Self {
            buffer: Vec::new(),
            scanned: 0,
            line_is_empty: true,
            after_cr: false,
            blank_cr: false,
            crlf: false,
            begun: false,
        }
    }
}

impl Splitter {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete block, or the available part of a block above the cap.
    pub(super) fn next_block(&mut self) -> Option<Block> {
        while let Some(byte) = self.buffer.get(self.scanned).copied() {
            if self.blank_cr && byte != b'\n' {
                return Some(self.take());
            }
            self.scanned += 1;
            match byte {
                b'\n' if self.blank_cr => return Some(self.take()),
                b'\n' if self.after_cr => {
                    self.after_cr = false;
                    self.crlf = true;
                }
                b'\n' if self.line_is_empty => return Some(self.take()),
                b'\n' => self.line_is_empty = true,
                b'\r' => {
                    self.blank_cr = self.line_is_empty;
                    self.line_is_empty = true;
                    self.after_cr = true;
                }
                _ => {
                    self.line_is_empty = false;
                    self.after_cr = false;
                }
            }
        }
        // Waiting for an LF would delay every event of a stream with CR alone.
        if self.blank_cr && !self.crlf {
            return Some(self.take());
        }
        (self.buffer.len() > BLOCK_CAP).then(|| Block { bytes: self.pass(), kind: Kind::Beginning })
    }

    /// All bytes, when blocks are not needed. The beginnings of blocks are still tracked.
    pub(super) fn pass(&mut self) -> Vec<u8> {
        let mut passed = Vec::new();
        if self.buffer.len() <= BLOCK_CAP {
            while let Some(block) = self.next_block() {
                passed.extend(block.bytes);
            }
        }
        self.begun |= !self.buffer.is_empty();
        self.scanned = 0;
        passed.append(&mut self.buffer);
        passed
    }

    fn take(&mut self) -> Block {
        let bytes: Vec<u8> = self.buffer.drain(..self.scanned).collect();
        let blank = bytes.iter().all(|byte| matches!(byte, b'\n' | b'\r'));
        let kind = match (self.begun, blank) {
            (true, _) => Kind::Rest,
            (false, true) => Kind::Blank,
            (false, false) => Kind::Event,
        };
        let block = Block { bytes, kind };
        // An LF after this CR belongs to the same blank line, and must not make a second one.
        let after_cr = block.bytes.last() == Some(&b'\r');
        *self = Self { buffer: std::mem::take(&mut self.buffer), after_cr, ..Self::default() };
        block
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Splitter, SseEvent};

    fn blocks(pieces: &[&[u8]]) -> Vec<String> {
        let mut splitter = Splitter::default();
        let mut found = Vec::new();
        for piece in pieces {
            splitter.push(piece);
            while let Some(block) = splitter.next_block() {
                found.push(String::from_utf8(block.bytes).unwrap());
            }
        }
        found.push(String::from_utf8(splitter.pass()).unwrap());
        found
    }

    #[test]
    fn every_line_end_makes_the_same_blocks_at_every_split() {
        let text = "event: a\ndata: 1\n\n: ping\n\ndata: 2\ndata: 3\n\ndata: cut";
        for line_end in ["\n", "\r\n", "\r"] {
            let stream = text.replace('\n', line_end);
            let expected: Vec<String> =
                ["event: a\ndata: 1\n\n", ": ping\n\n", "data: 2\ndata: 3\n\n", "data: cut"]
                    .map(|block| block.replace('\n', line_end))
                    .to_vec();
            assert_eq!(blocks(&[stream.as_bytes()]), expected);
            for split in 0..=stream.len() {
                let (left, right) = stream.as_bytes().split_at(split);
                assert_eq!(blocks(&[left, right]), expected, "{line_end:?} split at {split}");
            }
            let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
            assert_eq!(blocks(&bytes), expected, "{line_end:?} byte by byte");
        }
    }

    #[test]
    fn with_cr_alone_a_block_is_given_out_when_its_blank_line_is_there() {
        let mut splitter = Splitter::default();
        splitter.push(b"data: 1\r\r");
        assert_eq!(splitter.next_block().unwrap().bytes, b"data: 1\r\r");
    }

    #[test]
    fn a_block_that_had_begun_before_blocks_were_wanted_is_not_editable() {
        let mut splitter = Splitter::default();
        splitter.push(b"data: 1\n\nda");
        assert_eq!(splitter.pass(), b"data: 1\n\nda");
        splitter.push(b"ta: 2\n\ndata: 3\n\n");
        let block = splitter.next_block().unwrap();
        assert_eq!((block.bytes.as_slice(), block.kind), (b"ta: 2\n\n".as_slice(), Kind::Rest));
        let block = splitter.next_block().unwrap();
        assert_eq!((block.bytes.as_slice(), block.kind), (b"data: 3\n\n".as_slice(), Kind::Event));
    }

    #[test]
    fn a_block_larger_than_the_cap_is_passed_on() {
        let mut splitter = Splitter::default();
        splitter.push(&vec![b'x'; super::BLOCK_CAP + 1]);
        let block = splitter.next_block().unwrap();
        assert_eq!((block.bytes.len(), block.kind), (super::BLOCK_CAP + 1, Kind::Beginning));
        splitter.push(b"y\n\ndata: 1\n\n");
        assert_eq!(splitter.next_block().unwrap().bytes, b"y\n\n");
        assert_eq!(splitter.next_block().unwrap().kind, Kind::Event);
    }

    #[test]
    fn fields_are_read_as_the_specification_says() {
        let event =
            SseEvent { bytes: b"event: x\r\nid:7\r\ndata: a\r\ndata:b\r\n: data: no\r\n\r\n", number: 1 };
        assert_eq!((&*event.name(), &*event.id(), &*event.data()), ("x", "7", "a\nb"));
    }
}
