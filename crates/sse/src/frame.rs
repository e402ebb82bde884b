//! What a decoder hands out. Frames borrow from the read or from the decoder, so a small event costs no
//! copy; who keeps one longer copies what it needs and does not pin a whole read in memory.
//!
//! Ranges are byte offsets in the whole stream. They leave out the line endings that close the thing
//! (a comment's own, an event's blank line), because a CR ends a line at once and the LF that may follow
//! can be in the next read. Frames come in the order in which their ranges end.

use std::fmt;
use std::ops::Range;

/// One thing found in the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<'a> {
    /// An event with at least one `data` line.
    Event(Event<'a>),
    /// A block with `event`, `id` or `retry` but no `data` line. The specification updates the last event id
    /// and the retry time from it but dispatches nothing; `data` is empty.
    Undispatched(Event<'a>),
    /// A line that starts with a colon: a sign of life, not of progress.
    Comment(Comment<'a>),
    /// Something that should not be in a stream. Decoding goes on after it.
    Anomaly(Anomaly<'a>),
    /// What was left without its end when the input ended. Comes from [`Decoder::finish`](crate::Decoder::finish).
    Residue(Residue<'a>),
}

impl Frame<'_> {
    /// Where in the stream this frame is.
    pub fn range(&self) -> &Range<u64> {
        match self {
            Self::Event(event) | Self::Undispatched(event) => &event.range,
            Self::Comment(comment) => &comment.range,
            Self::Anomaly(anomaly) => &anomaly.range,
            Self::Residue(residue) => &residue.parsed.range,
        }
    }
}

/// A block of fields that a blank line ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event<'a> {
    /// The event type: the last `event` field, or `message` when there is none or it is empty.
    pub event: &'a str,
    /// The id of this event itself, when it has a valid one.
    pub id: Option<&'a str>,
    /// The stream's last event id after this event: what a reconnecting client sends as `Last-Event-ID`.
    pub last_id: &'a str,
    /// The reconnection time in milliseconds, when this event sets it.
    pub retry: Option<u64>,
    /// The `data` lines, joined with LF.
    pub data: Text<'a>,
    /// The bytes of the block as they came, from its first accepted field to the end of its last line. Comments and
    /// anomalous lines between fields are inside.
    pub raw: &'a [u8],
    /// Where `raw` is in the stream.
    pub range: Range<u64>,
}

/// A comment line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment<'a> {
    /// What follows the colon, without one leading space.
    pub text: Text<'a>,
    /// The line, with its colon.
    pub range: Range<u64>,
}

/// A departure from the format, with the bytes that show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anomaly<'a> {
    /// What is wrong.
    pub kind: AnomalyKind,
    /// The bytes in question; empty for [`AnomalyKind::Skipped`], which are not kept.
    pub raw: &'a [u8],
    /// Where they are in the stream.
    pub range: Range<u64>,
}

/// The kinds of [`Anomaly`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnomalyKind {
    /// A line without a colon that is no field name: HTML, plain text, a stray end of JSON.
    NotAField,
    /// A field name the specification does not know. A JSON body shows up as this.
    UnknownField,
    /// An `id` with a NUL byte, which the specification says to ignore.
    NulInId,
    /// A `retry` that is not a number of milliseconds in ASCII digits (or more than 64 bits of them).
    BadRetry,
    /// Invalid UTF-8 in the `data` of the event that follows with the same range, or in the value of
    /// an `event` or `id` line, which is then used with U+FFFD in its place.
    InvalidUtf8,
    /// An event or line exceeded the cap. `raw` is its beginning, as long as the cap; nothing of it is
    /// dispatched and its `id` is not taken over.
    Oversize,
    /// The rest of an oversize event, up to the next blank line or the end of input.
    Skipped,
}

impl AnomalyKind {
    /// A short name for tables and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotAField => "not a field",
            Self::UnknownField => "unknown field",
            Self::NulInId => "NUL in id",
            Self::BadRetry => "bad retry",
            Self::InvalidUtf8 => "invalid UTF-8",
            Self::Oversize => "oversize",
            Self::Skipped => "skipped",
        }
    }
}

/// An event, or a single line, that the input ended in the middle of. The specification discards it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Residue<'a> {
    /// The fields of its complete lines and, of a cut line, only `data`: a half id or type would be a wrong
    /// one. `raw` and `range` are everything that was left. Its `data` is [`Text::Broken`] without an anomaly before it if
    /// it is not UTF-8, since a cut in the middle of a character is one more way to be cut.
    pub parsed: Event<'a>,
    /// Where the input ended.
    pub cut: Cut,
}

/// Where the end of input left an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cut {
    /// Within a line: bytes are missing.
    InLine,
    /// After a complete line: perhaps only the blank line is missing.
    AfterLine,
}

/// Bytes that should be UTF-8, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text<'a> {
    /// They are.
    Utf8(&'a str),
    /// They are not.
    Broken(&'a [u8]),
}

impl<'a> Text<'a> {
    /// Checks the bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        std::str::from_utf8(bytes).map_or(Self::Broken(bytes), Self::Utf8)
    }

    /// The text, if it is valid UTF-8.
    pub fn utf8(&self) -> Option<&'a str> {
        match *self {
            Self::Utf8(text) => Some(text),
            Self::Broken(_) => None,
        }
    }

    /// The bytes as they came.
    pub fn bytes(&self) -> &'a [u8] {
        match *self {
            Self::Utf8(text) => text.as_bytes(),
            Self::Broken(bytes) => bytes,
        }
    }
}

/// Shows U+FFFD for what is not UTF-8.
impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Utf8(text) => f.pad(text),
            Self::Broken(bytes) => f.pad(&String::from_utf8_lossy(bytes)),
        }
    }
}
