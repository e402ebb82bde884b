//! Bodies that are no event stream: recognised by the head and the first bytes, kept up to a limit.

use crate::attempt::{Body, BodyKind};
use crate::head::Head;
use crate::profile::Profile;
use crate::wire::error;

/// How many bytes are needed at most to tell a field from other text.
const FIRST_BYTES: usize = 64;

/// What the first bytes of a body say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looks {
    /// An event stream.
    Stream,
    /// Something else.
    Body,
    /// Not enough bytes yet.
    Undecided,
}

/// A body that is kept and not decoded.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    bytes: Vec<u8>,
    length: u64,
}

/// Judges the first bytes of an answer with a good status. A wrong content type is common (a stream as `text/plain`, a page as a stream), so the bytes
/// decide, and the head only where they do not.
pub(crate) fn looks(first: &[u8], head: &Head) -> Looks {
    // Never more than these, or the answer would depend on how much came in the first read.
    let judged = &first[..first.len().min(FIRST_BYTES)];
    let text = judged.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(judged).trim_ascii_start();
    let fields: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
    let more = judged.len() < FIRST_BYTES;
    match text.first() {
        Some(b'{' | b'[' | b'<' | 0x1F) => Looks::Body,
        _ if fields.iter().any(|field| text.starts_with(field)) => Looks::Stream,
        _ if more && fields.iter().any(|field| field.starts_with(text)) => Looks::Undecided,
        // Half a byte order mark.
        _ if more && b"\xEF\xBB\xBF".starts_with(text) => Looks::Undecided,
        // Not a field, under a header that says stream: a damaged stream, which the decoder will show.
        _ if head.says_stream() => Looks::Stream,
        _ => Looks::Body,
    }
}

impl Kept {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let room = Body::LIMIT - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..room.min(bytes.len())]);
        self.length += bytes.len() as u64;
    }

    /// The body with what can be read of it.
    pub(crate) fn body(self, profile: &Profile) -> Body {
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

/// The title of a page, for the person who has to find out whose page it is.
fn title(page: &str) -> Option<String> {
    let lower = page.to_ascii_lowercase();
    let begin = lower.find("<title")?;
    let begin = begin + lower[begin..].find('>')? + 1;
    let end = begin + lower[begin..].find("</title")?;
    let title = page[begin..end].trim();
    (!title.is_empty()).then(|| error::beginning(title, 512).to_owned())
}
