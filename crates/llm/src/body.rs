//! Bodies that are not event streams: detected by head and first bytes, kept up to a limit.

use crate::attempt::{Body, BodyKind};
use crate::head::Head;
use crate::profile::Profile;
use crate::wire::error;

/// The most bytes that are needed to tell a field of an event stream from other text.
const FIRST_BYTES: usize = 64;

/// The largest completion that is read although it was not streamed. The client stops there too.
const MOST_KEPT: usize = 1024 * 1024;

/// The kind of a body, judged by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyGuess {
    /// An event stream.
    Stream,
    /// Anything else.
    Body,
    /// Not enough bytes yet.
    Undecided,
}

/// The beginning of a body that is not decoded.
#[derive(Debug, Default)]
pub(crate) struct BodyPrefix {
    bytes: Vec<u8>,
    length: u64,
}

/// Judges the first bytes of a response with status 2xx.
///
/// Wrong content types are common (a stream as `text/plain`, a page as a stream). So the bytes decide, and
/// the content type only where the bytes do not.
pub(crate) fn guess(first: &[u8], head: &Head) -> BodyGuess {
    // A fixed number, so that the answer does not depend on the size of the first read.
    let judged = &first[..first.len().min(FIRST_BYTES)];
    let text = judged.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(judged).trim_ascii_start();
    let fields: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
    let more = judged.len() < FIRST_BYTES;
    match text.first() {
        Some(b'{' | b'[' | b'<' | 0x1F) => BodyGuess::Body,
        _ if fields.iter().any(|field| text.starts_with(field)) => BodyGuess::Stream,
        _ if more && fields.iter().any(|field| field.starts_with(text)) => BodyGuess::Undecided,
        // A partial byte order mark.
        _ if more && b"\xEF\xBB\xBF".starts_with(text) => BodyGuess::Undecided,
        // Not a field, but declared as a stream: damaged. The decoder will report it.
        _ if head.says_stream() => BodyGuess::Stream,
        _ => BodyGuess::Body,
    }
}

impl BodyPrefix {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let room = MOST_KEPT - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..room.min(bytes.len())]);
        self.length += bytes.len() as u64;
    }

    /// The whole body; nothing if it is too long.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.length == self.bytes.len() as u64 { &self.bytes } else { &[] }
    }

    /// The beginning of the body, with the error object and the title that it contains.
    pub(crate) fn into_body(mut self, profile: &Profile) -> Body {
        self.bytes.truncate(Body::LIMIT);
        let text = String::from_utf8_lossy(&self.bytes);
        let start = text.trim_start_matches('\u{FEFF}').trim_start();
        let kind = match start.as_bytes() {
            [b'{' | b'[', ..] => BodyKind::Json,
            [b'<', ..] => BodyKind::Html,
            _ if self.bytes.starts_with(b"\x1F\x8B") => BodyKind::Gzip,
            _ => BodyKind::Text,
        };
        let error = error::of_body(start, profile);
        let title = title(start);
        Body { kind, length: self.length, error, title, bytes: self.bytes }
    }
}

/// The title of an HTML page. It tells a person which proxy or portal answered.
fn title(page: &str) -> Option<String> {
    let lower = page.to_ascii_lowercase();
    let begin = lower.find("<title")?;
    let begin = begin + lower[begin..].find('>')? + 1;
    let end = begin + lower[begin..].find("</title")?;
    let title = page[begin..end].trim();
    (!title.is_empty()).then(|| error::beginning(title, 512).to_owned())
}
