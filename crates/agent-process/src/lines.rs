//! Reads lines of an agent, each with a bounded length. Bytes that are no text, and lines that are too long,
//! do not stop it.

use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The size of one read.
const PIECE: usize = 64 * 1024;
/// A larger buffer is given back once it is empty.
const KEPT: usize = 1024 * 1024;

/// A reader of lines.
#[derive(Debug)]
pub struct LineReader<R> {
    source: R,
    buffer: Vec<u8>,
    /// Bytes at the beginning of the buffer that were returned.
    used: usize,
    /// Bytes behind those that have no line end.
    searched: usize,
    limit: usize,
    /// The bytes of the line that is being skipped, if it is longer than the limit.
    skipped: Option<u64>,
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// The line without its end. The last one may lack its end.
    Whole(&'a [u8]),
    /// A line of so many bytes, which is longer than the limit and was skipped.
    Oversized(u64),
}

/// Where a line was found.
enum Found {
    Whole { start: usize, end: usize },
    Oversized(u64),
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Reads lines of at most `limit` bytes.
    pub fn new(source: R, limit: usize) -> Self {
        Self { source, buffer: Vec::new(), used: 0, searched: 0, limit, skipped: None }
    }

    /// The next line; `None` at the end. Safe to drop and call again.
    pub async fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let found = loop {
            if let Some(found) = self.find() {
                break found;
            }
            self.make_room();
            self.buffer.reserve(PIECE);
            if self.source.read_buf(&mut self.buffer).await? == 0 {
                match self.rest() {
                    Some(found) => break found,
                    None => return Ok(None),
                }
            }
        };
        Ok(Some(match found {
            Found::Whole { start, end } => Line::Whole(trimmed(&self.buffer[start..end])),
            Found::Oversized(bytes) => Line::Oversized(bytes),
        }))
    }

    /// A line whose end is in the buffer.
    fn find(&mut self) -> Option<Found> {
        let fresh = &self.buffer[self.used + self.searched..];
        let Some(at) = fresh.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len() - self.used;
            if self.searched > self.limit || self.skipped.is_some() {
                *self.skipped.get_or_insert(0) += self.searched as u64;
                self.used = self.buffer.len();
                self.searched = 0;
            }
            return None;
        };
        let (start, end) = (self.used, self.used + self.searched + at);
        self.used = end + 1;
        self.searched = 0;
        let length = (end - start) as u64;
        match self.skipped.take() {
            Some(skipped) => Some(Found::Oversized(skipped + length)),
            None if end - start > self.limit => Some(Found::Oversized(length)),
            None => Some(Found::Whole { start, end }),
        }
    }

    /// The last line, which has no end.
    fn rest(&mut self) -> Option<Found> {
        let (start, end) = (self.used, self.buffer.len());
        self.used = end;
        self.searched = 0;
        match self.skipped.take() {
            Some(skipped) => Some(Found::Oversized(skipped)),
            None => (end > start).then_some(Found::Whole { start, end }),
        }
    }

    /// Removes what was returned from the buffer.
    fn make_room(&mut self) {
        if self.used == 0 {
            return;
        }
        self.buffer.drain(..self.used);
        self.used = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT {
            self.buffer = Vec::new();
        }
    }
}

/// Without the carriage return of a line end in two characters.
fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that gives its bytes in pieces of this size.
    struct Pieces(Vec<u8>, usize, usize);

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            _context: &mut std::task::Context<'_>,
            room: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            let (at, size) = (self.1, self.2.min(room.remaining()));
            let end = (at + size).min(self.0.len());
            room.put_slice(&self.0[at..end]);
            self.1 = end;
            std::task::Poll::Ready(Ok(()))
        }
    }

    /// All lines; a skipped one as its length.
    async fn lines(text: &[u8], piece: usize, limit: usize) -> Vec<Result<Vec<u8>, u64>> {
        let mut reader = LineReader::new(Pieces(text.to_owned(), 0, piece), limit);
        let mut lines = Vec::new();
        while let Some(line) = reader.next().await.unwrap() {
            lines.push(match line {
                Line::Whole(line) => Ok(line.to_owned()),
                Line::Oversized(bytes) => Err(bytes),
            });
        }
        lines
    }

    #[tokio::test]
    async fn lines_are_the_same_however_they_are_cut_and_long_ones_are_skipped() {
        let text =
            b"one\n\r\n\xff\xfe garbage\r\n0123456789ABCDEF\ntwo\n0123456789012345678901234567890\nrest";
        let whole = |line: &[u8]| Ok(line.to_owned());
        let expected = [
            whole(b"one"),
            whole(b""),
            whole(b"\xff\xfe garbage"),
            whole(b"0123456789ABCDEF"),
            whole(b"two"),
            Err(31),
            whole(b"rest"),
        ];
        for piece in 1..text.len() + 1 {
            assert_eq!(lines(text, piece, 16).await, expected, "pieces of {piece}");
        }
    }

    #[tokio::test]
    async fn a_line_of_100_megabytes_is_skipped_in_bounded_memory() {
        let mut text = vec![b'x'; 100 << 20];
        text.extend_from_slice(b"\nafter\n");
        let mut reader = LineReader::new(Pieces(text, 0, PIECE), 1 << 20);
        assert_eq!(reader.next().await.unwrap(), Some(Line::Oversized(100 << 20)));
        assert!(reader.buffer.capacity() < 4 << 20, "{}", reader.buffer.capacity());
        assert_eq!(reader.next().await.unwrap(), Some(Line::Whole(b"after")));
        assert_eq!(reader.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn an_oversized_line_without_an_end_is_told_at_the_end() {
        assert_eq!(lines(&[b'x'; 40], 7, 16).await, [Err(40)]);
    }
}
