//! Cuts a body into the frames of an event stream, without changing a byte.

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use turnstream_llm::{Format, repaired_payloads};
use turnstream_sse::{Decoder, Frame, Text};

/// Collects bytes until a frame is whole: fields and the blank line after them.
#[derive(Default)]
pub(crate) struct Splitter {
    pending: BytesMut,
    /// Where the search for a blank line goes on.
    searched: usize,
}

/// What a proxy needs to know of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// Nothing but comments and blank lines, or a ping.
    KeepAlive,
    /// The end marker of chat completions.
    Done,
    /// One JSON payload.
    Payload,
    /// Anything else.
    Other,
}

impl Splitter {
    /// Adds bytes of the body.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next whole frame, with its blank line.
    pub(crate) fn next_frame(&mut self) -> Option<Bytes> {
        let bytes = &self.pending[..];
        let mut at = self.searched;
        while at < bytes.len() {
            let first = line_end(bytes, at);
            if let Some(first) = first
                && let Some(second) = line_end(bytes, at + first)
            {
                // A `\r` at the end of the bytes may be half of a `\r\n`.
                let end = at + first + second;
                if bytes[end - 1] == b'\r' && end == bytes.len() {
                    break;
                }
                self.searched = 0;
                return Some(self.pending.split_to(end).freeze());
            }
            at += 1;
        }
        self.searched = bytes.len().saturating_sub(4);
        None
    }

    /// The bytes after the last whole frame.
    pub(crate) fn rest(&mut self) -> Bytes {
        self.searched = 0;
        self.pending.split().freeze()
    }

    /// The number of bytes that wait for the end of their frame.
    pub(crate) fn waiting(&self) -> usize {
        self.pending.len()
    }
}

/// The length of a line end at this place.
fn line_end(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at)? {
        b'\n' => Some(1),
        b'\r' if bytes.get(at + 1) == Some(&b'\n') => Some(2),
        b'\r' => Some(1),
        _ => None,
    }
}

/// How keep-alive events begin.
const PINGS: [&[u8]; 2] = [b"event: ping\n", b"event: keepalive\n"];

/// What a frame is.
pub(crate) fn kind(frame: &[u8]) -> FrameKind {
    if PINGS.iter().any(|ping| frame.starts_with(ping)) {
        return FrameKind::KeepAlive;
    }
    match data(frame) {
        None if frame.iter().all(|byte| byte.is_ascii_whitespace()) || frame.starts_with(b":") => {
            FrameKind::KeepAlive
        }
        None => FrameKind::Other,
        Some(data) if data.trim() == "[DONE]" => FrameKind::Done,
        Some(data) if serde_json::from_str::<serde::de::IgnoredAny>(&data).is_ok() => FrameKind::Payload,
        Some(_) => FrameKind::Other,
    }
}

/// The data of the only event in a frame.
fn data(frame: &[u8]) -> Option<String> {
    let mut decoder = Decoder::new();
    let text = |frame: Frame<'_>| match frame {
        Frame::Event(event) => match event.data {
            Text::Utf8(data) => Some(data.to_owned()),
            Text::Broken(_) => None,
        },
        Frame::Residue(residue) => match residue.parsed.data {
            Text::Utf8(data) if !data.is_empty() => Some(data.to_owned()),
            Text::Utf8(_) | Text::Broken(_) => None,
        },
        Frame::Undispatched(_) | Frame::Comment(_) | Frame::Anomaly(_) => None,
    };
    let mut found = None;
    let mut frames = decoder.feed(frame);
    while let Some(frame) = frames.next_frame() {
        found = found.or(text(frame));
    }
    drop(frames);
    if found.is_some() { found } else { text(decoder.finish()?) }
}

/// A frame that a plain reader could not read, written anew with the same payloads. The reader has said that
/// nothing is lost.
pub(crate) fn rewritten(format: Format, frame: &[u8]) -> Option<Bytes> {
    #[derive(Deserialize)]
    struct Named {
        r#type: Option<String>,
    }
    let payloads = repaired_payloads(&data(frame)?)?;
    let mut written = String::new();
    for payload in payloads {
        let named = match format {
            Format::Chat => None,
            Format::Responses | Format::Messages => serde_json::from_str::<Named>(&payload).ok(),
        };
        if let Some(name) = named.and_then(|named| named.r#type) {
            written.push_str(&format!("event: {name}\n"));
        }
        for line in payload.lines() {
            written.push_str(&format!("data: {line}\n"));
        }
        written.push('\n');
    }
    Some(Bytes::from(written))
}

/// The last frame of a body, with the blank line that is missing. `None` if it is half a frame.
pub(crate) fn completed(rest: &[u8]) -> Option<Bytes> {
    match kind(rest) {
        FrameKind::Done | FrameKind::Payload => {
            let end: &[u8] = if rest.ends_with(b"\n") || rest.ends_with(b"\r") { b"\n" } else { b"\n\n" };
            Some([rest, end].concat().into())
        }
        FrameKind::KeepAlive | FrameKind::Other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{FrameKind, Splitter, completed, kind, rewritten};
    use turnstream_llm::Format;

    fn frames(body: &[u8], size: usize) -> (Vec<Vec<u8>>, Vec<u8>) {
        let mut splitter = Splitter::default();
        let mut frames = Vec::new();
        for chunk in body.chunks(size) {
            splitter.push(chunk);
            while let Some(frame) = splitter.next_frame() {
                frames.push(frame.to_vec());
            }
        }
        (frames, splitter.rest().to_vec())
    }

    #[test]
    fn frames_do_not_depend_on_the_split_and_lose_no_byte() {
        let body = b"data: 1\n\nevent: a\r\ndata: 2\r\n\r\n: c\n\ndata: 3\r\rdata: 4\n\n\ndata: half\n";
        let whole = frames(body, body.len());
        for size in 1..body.len() {
            let cut = frames(body, size);
            assert_eq!([cut.0.concat(), cut.1.clone()].concat(), body, "{size}");
            let payloads = |frames: &[Vec<u8>]| -> Vec<Vec<u8>> {
                let data = frames.iter().filter(|frame| kind(frame) != FrameKind::KeepAlive);
                data.map(|frame| frame.trim_ascii().to_vec()).collect()
            };
            assert_eq!(payloads(&cut.0), payloads(&whole.0), "{size}");
        }
        assert_eq!(whole.1.trim_ascii(), b"data: half");
    }

    #[test]
    fn kinds_and_repairs() {
        assert_eq!(kind(b": keep-alive\n\n"), FrameKind::KeepAlive);
        assert_eq!(kind(b"data: [DONE] \n\n"), FrameKind::Done);
        assert_eq!(kind(b"event: a\ndata: {\"a\":1}\n\n"), FrameKind::Payload);
        assert_eq!(kind(b"data: {\"a\n\n"), FrameKind::Other);
        let glued = b"event: a\ndata: {\"type\":\"a\"}\nevent: b\ndata: {\"type\":\"b\"}\n\n";
        let separate = rewritten(Format::Messages, glued).unwrap();
        assert_eq!(
            &separate[..],
            b"event: a\ndata: {\"type\":\"a\"}\n\nevent: b\ndata: {\"type\":\"b\"}\n\n"
        );
        assert_eq!(completed(b"data: {}\n").as_deref(), Some(&b"data: {}\n\n"[..]));
        assert_eq!(completed(b"data: [DO"), None);
    }
}
