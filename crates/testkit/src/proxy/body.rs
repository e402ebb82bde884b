//! Separates content and framing of a body, and finds its end.

use super::http::Framing;

/// The longest size line or trailer. A longer one counts as broken framing.
const LINE_CAP: usize = 64 * 1024;

/// A part of a body, as on the wire.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// Content.
    Content(Vec<u8>),
    /// The size line of a chunk with content.
    Size(Vec<u8>),
    /// The line end after the content of a chunk.
    ChunkEnd(Vec<u8>),
    /// The last chunk with its trailers.
    Last(Vec<u8>),
    /// Invalid framing, and everything after it.
    Broken(Vec<u8>),
}

/// Reads one body.
#[derive(Debug)]
pub(super) struct BodyReader {
    state: State,
    line: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Content(u64),
    ToClose,
    Size,
    Chunk(u64),
    ChunkEnd,
    Trailers,
    Done,
    /// The framing was invalid. The rest is passed on unchanged until the connection closes.
    Broken,
}

// === impl BodyReader ===

impl BodyReader {
    pub(super) fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Empty | Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Content(length),
            Framing::Chunked => State::Size,
            Framing::Close => State::ToClose,
        };
        Self { state, line: Vec::new() }
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads `bytes`, and returns how many belong to this body. The rest belongs to the next message.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> (Vec<Segment>, usize) {
        let mut segments = Vec::new();
        let mut used = 0;
        while used < bytes.len() && self.state != State::Done {
            used += self.step(&bytes[used..], &mut segments);
        }
        (segments, used)
    }

    /// Handles an upstream that ended early: returns the partial line.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.line)
    }

    fn step(&mut self, bytes: &[u8], segments: &mut Vec<Segment>) -> usize {
        match self.state {
            State::Content(left) | State::Chunk(left) => {
                let length = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                segments.push(Segment::Content(bytes[..length].to_vec()));
                let left = left - length as u64;
                self.state = match (self.state, left) {
                    (State::Chunk(_), 0) => State::ChunkEnd,
                    (State::Chunk(_), _) => State::Chunk(left),
                    (_, 0) => State::Done,
                    (_, _) => State::Content(left),
                };
                length
            }
            State::ToClose => {
                segments.push(Segment::Content(bytes.to_vec()));
                bytes.len()
            }
            State::Broken => {
                segments.push(Segment::Broken(bytes.to_vec()));
                bytes.len()
            }
            State::Size | State::ChunkEnd | State::Trailers => self.line(bytes, segments),
            State::Done => 0,
        }
    }

    /// Reads up to a line end, and handles the line when it is complete.
    fn line(&mut self, bytes: &[u8], segments: &mut Vec<Segment>) -> usize {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(bytes.len(), |end| end + 1);
        self.line.extend_from_slice(&bytes[..length]);
        if self.line.len() > LINE_CAP {
            self.state = State::Broken;
            segments.push(Segment::Broken(std::mem::take(&mut self.line)));
        } else if end.is_some() {
            self.whole_line(segments);
        }
        length
    }

    fn whole_line(&mut self, segments: &mut Vec<Segment>) {
        match self.state {
            State::Size => {
                let text = String::from_utf8_lossy(&self.line);
                let digits = text.split(';').next().unwrap_or_default().trim();
                match u64::from_str_radix(digits, 16) {
                    // The line of the last chunk stays with its trailers.
                    Ok(0) => self.state = State::Trailers,
                    Ok(size) => {
                        self.state = State::Chunk(size);
                        segments.push(Segment::Size(std::mem::take(&mut self.line)));
                    }
                    Err(_) => {
                        self.state = State::Broken;
                        segments.push(Segment::Broken(std::mem::take(&mut self.line)));
                    }
                }
            }
            State::Trailers => {
                let ended = self.line.ends_with(b"\n\r\n") || self.line.ends_with(b"\n\n");
                if ended {
                    self.state = State::Done;
                    segments.push(Segment::Last(std::mem::take(&mut self.line)));
                }
            }
            State::ChunkEnd if matches!(self.line.as_slice(), b"\r\n" | b"\n") => {
                self.state = State::Size;
                segments.push(Segment::ChunkEnd(std::mem::take(&mut self.line)));
            }
            State::ChunkEnd => {
                self.state = State::Broken;
                segments.push(Segment::Broken(std::mem::take(&mut self.line)));
            }
            State::Content(_) | State::ToClose | State::Chunk(_) | State::Done | State::Broken => {}
        }
    }
}

/// One chunk with this content.
pub(super) fn chunk(content: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{:x}\r\n", content.len()).into_bytes();
    bytes.extend_from_slice(content);
    bytes.extend_from_slice(b"\r\n");
    bytes
}

#[cfg(test)]
mod tests {
    use super::{BodyReader, Segment};
    use crate::proxy::http::Framing;

    /// The content, the last chunk, and the number of bytes that belong to the body.
    fn read(framing: Framing, pieces: &[&[u8]]) -> (Vec<u8>, Vec<u8>, usize, bool) {
        let mut reader = BodyReader::new(framing);
        let (mut content, mut last, mut wire, mut total) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for piece in pieces {
            let (segments, used) = reader.feed(piece);
            total += used;
            for segment in segments {
                match segment {
                    Segment::Content(bytes) => {
                        wire.extend_from_slice(&bytes);
                        content.extend(bytes);
                    }
                    Segment::Size(bytes) | Segment::ChunkEnd(bytes) | Segment::Broken(bytes) => {
                        wire.extend(bytes);
                    }
                    Segment::Last(bytes) => {
                        wire.extend_from_slice(&bytes);
                        last.extend(bytes);
                    }
                }
            }
        }
        if reader.is_done() {
            assert_eq!(wire, pieces.concat()[..total], "segments are the wire");
        }
        (content, last, total, reader.is_done())
    }

    #[test]
    fn a_chunked_body_is_read_at_every_split_and_ends_where_it_ends() {
        let body = b"5;ext=1\r\nhello\r\n1\r\n!\r\n0\r\ntrailer: x\r\n\r\n";
        let wire = [body.as_slice(), b"HTTP/1.1"].concat();
        let expected = (b"hello!".to_vec(), b"0\r\ntrailer: x\r\n\r\n".to_vec(), body.len(), true);
        for split in 0..=wire.len() {
            let (left, right) = wire.split_at(split);
            assert_eq!(read(Framing::Chunked, &[left, right]), expected, "split at {split}");
        }
    }

    #[test]
    fn a_body_with_a_length_ends_there() {
        assert_eq!(read(Framing::Length(3), &[b"a", b"bcd"]), (b"abc".to_vec(), vec![], 3, true));
        assert_eq!(read(Framing::Length(0), &[b"x"]), (vec![], vec![], 0, true));
    }

    #[test]
    fn a_body_without_framing_goes_on_to_the_close() {
        assert_eq!(read(Framing::Close, &[b"ab", b"c"]), (b"abc".to_vec(), vec![], 3, false));
    }

    #[test]
    fn broken_framing_is_passed_on_as_it_is() {
        let mut reader = BodyReader::new(Framing::Chunked);
        let (segments, used) = reader.feed(b"zz\r\nrest");
        assert_eq!(segments, [Segment::Broken(b"zz\r\n".to_vec()), Segment::Broken(b"rest".to_vec())]);
        assert_eq!(used, 8);
    }
}
