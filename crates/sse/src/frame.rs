//! The frames that a decoder returns.
//!
//! Frames borrow from the read or from the decoder, so a small event is not copied. To keep a frame, copy
//! what you need.
//!
//! Ranges are byte offsets in the whole stream. They exclude the line endings that close a frame: a CR ends
//! a line at once, and the LF after it may be in the next read. Frames are in the order in which their
//! ranges end.

use std::fmt;
use std::ops::Range;

/// One frame of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<'a> {
    /// An event with at least one `data` line.
    Event(Event<'a>),
    /// A block with `event`, `id` or `retry` but no `data` line. By the specification it updates the last
    /// event id and the retry time, and dispatches nothing. `data` is empty.
    Undispatched(Event<'a>),
    /// A comment: a line that starts with a colon. It shows that the connection lives.
    Comment(Comment<'a>),
    /// Something that should not be in a stream. Decoding continues after it.
    Anomaly(Anomaly<'a>),
    /// An incomplete event or line at the end of the input, returned by
    /// [`Decoder::finish`](crate::Decoder::finish).
    Residue(Residue<'a>),
}

impl Frame<'_> {
    /// The frame's place in the stream.
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
    /// The bytes of the block, from its first accepted field to the end of its last line. Comments and
    /// anomalous lines between fields are included.
    pub raw: &'a [u8],
    /// The place of `raw` in the stream.
    pub range: Range<u64>,
}

/// A comment line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment<'a> {
    /// The text after the colon, without one leading space.
    pub text: Text<'a>,
    /// The line, with its colon.
    pub range: Range<u64>,
}

/// A violation of the format, with its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anomaly<'a> {
    /// What is wrong.
    pub kind: AnomalyKind,
    /// The bytes; empty for [`AnomalyKind::Skipped`].
    pub raw: &'a [u8],
    /// Their place in the stream.
    pub range: Range<u64>,
}

/// The kinds of [`Anomaly`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnomalyKind {
    /// A line without a colon that is not a field name: HTML, plain text, a stray end of JSON.
    NotAField,
    /// An unknown field name. A JSON body is reported as this.
    UnknownField,
    /// An `id` with a NUL byte, which the specification says to ignore.
    NulInId,
    /// A `retry` that is not a number of milliseconds in ASCII digits (or more than 64 bits of them).
    BadRetry,
    /// Invalid UTF-8. In `data`, the event follows with the same range. In an `event` or `id` line, the
    /// value is used with U+FFFD.
    InvalidUtf8,
    /// An event or line above the cap. `raw` is its beginning, as long as the cap. Nothing of it is
    /// dispatched, and its `id` is ignored.
    Oversize,
    /// The rest of an oversize event, up to the next blank line or the end of input.
    Skipped,
}

impl AnomalyKind {
    /// The name used in tables and logs.
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

/// An incomplete event or line at the end of the input. The specification discards it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Residue<'a> {
    /// The fields of its complete lines, and of a cut line only `data`: half an id or type would be wrong.
    ///
    /// `raw` and `range` cover everything. If `data` is cut within a character it is [`Text::Broken`],
    /// without an anomaly before it.
    pub parsed: Event<'a>,
    /// Where the input was cut.
    pub cut: Cut,
}

/// Where the input was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cut {
    /// Within a line: bytes are missing.
    InLine,
    /// After a complete line: perhaps only the blank line is missing.
    AfterLine,
}

/// Bytes that should be UTF-8, and were checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text<'a> {
    /// Valid text.
    Utf8(&'a str),
    /// Invalid bytes.
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

    /// The bytes as received.
    pub fn bytes(&self) -> &'a [u8] {
        match *self {
            Self::Utf8(text) => text.as_bytes(),
            Self::Broken(bytes) => bytes,
        }
    }
}

/// Shows U+FFFD for invalid UTF-8.
impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Utf8(text) => f.pad(text),
            Self::Broken(bytes) => f.pad(&String::from_utf8_lossy(bytes)),
        }
    }
}
