//! What every decoder test needs: owned frames to compare, feeding in pieces, and the fixtures.
#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod property;

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use turnstream_sse::{AnomalyKind, Cut, Decoder, Event, Frame, Text};

/// An owned [`Frame`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    Event(Fields),
    Undispatched(Fields),
    Comment { text: Vec<u8>, range: Range<u64> },
    Anomaly { kind: AnomalyKind, raw: Vec<u8>, range: Range<u64> },
    Residue { parsed: Fields, cut: Cut },
}

/// An owned [`Event`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) event: String,
    pub(crate) id: Option<String>,
    pub(crate) last_id: String,
    pub(crate) retry: Option<u64>,
    pub(crate) data: Vec<u8>,
    pub(crate) utf8: bool,
    pub(crate) raw: Vec<u8>,
    pub(crate) range: Range<u64>,
}

impl From<Event<'_>> for Fields {
    fn from(event: Event<'_>) -> Self {
        Self {
            event: event.event.to_owned(),
            id: event.id.map(str::to_owned),
            last_id: event.last_id.to_owned(),
            retry: event.retry,
            data: event.data.bytes().to_vec(),
            utf8: event.data.utf8().is_some(),
            raw: event.raw.to_vec(),
            range: event.range,
        }
    }
}

impl From<Frame<'_>> for Seen {
    fn from(frame: Frame<'_>) -> Self {
        match frame {
            Frame::Event(event) => Self::Event(event.into()),
            Frame::Undispatched(event) => Self::Undispatched(event.into()),
            Frame::Comment(comment) => {
                Self::Comment { text: comment.text.bytes().to_vec(), range: comment.range }
            }
            Frame::Anomaly(anomaly) => {
                Self::Anomaly { kind: anomaly.kind, raw: anomaly.raw.to_vec(), range: anomaly.range }
            }
            Frame::Residue(residue) => Self::Residue { parsed: residue.parsed.into(), cut: residue.cut },
        }
    }
}

impl Fields {
    fn same(&self, event: &Event<'_>) -> bool {
        self.range == event.range
            && self.raw == event.raw
            && self.data == event.data.bytes()
            && self.utf8 == event.data.utf8().is_some()
            && self.event == event.event
            && self.id.as_deref() == event.id
            && self.last_id == event.last_id
            && self.retry == event.retry
    }
}

impl Seen {
    /// Equality without making the frame an owned one, for the tests that compare millions.
    pub(crate) fn same(&self, frame: &Frame<'_>) -> bool {
        match (self, frame) {
            (Self::Event(a), Frame::Event(b)) | (Self::Undispatched(a), Frame::Undispatched(b)) => a.same(b),
            (Self::Comment { text, range }, Frame::Comment(b)) => text == b.text.bytes() && *range == b.range,
            (Self::Anomaly { kind, raw, range }, Frame::Anomaly(b)) => {
                *kind == b.kind && raw == b.raw && *range == b.range
            }
            (Self::Residue { parsed, cut }, Frame::Residue(b)) => *cut == b.cut && parsed.same(&b.parsed),
            _ => false,
        }
    }
}

/// The short form that the rule table is written in.
impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(fields) => write!(f, "event {fields}"),
            Self::Undispatched(fields) => write!(f, "undispatched {fields}"),
            Self::Comment { text, range } => write!(f, "comment {:?} {range:?}", Text::new(text).to_string()),
            Self::Anomaly { kind, range, .. } => write!(f, "anomaly {} {range:?}", kind.name()),
            Self::Residue { parsed, cut } => write!(f, "residue {cut:?} {parsed}"),
        }
    }
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.event, Text::new(&self.data).to_string())?;
        match &self.id {
            Some(id) => write!(f, " id={id:?}")?,
            None if self.last_id.is_empty() => {}
            None => write!(f, " last={:?}", self.last_id)?,
        }
        if let Some(retry) = self.retry {
            write!(f, " retry={retry}")?;
        }
        write!(f, " {:?}", self.range)
    }
}

/// Decodes pieces of one stream to its end.
pub(crate) fn decode<'a>(mut decoder: Decoder, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Seen> {
    let mut seen = Vec::new();
    for piece in pieces {
        let mut frames = decoder.feed(piece);
        while let Some(frame) = frames.next_frame() {
            seen.push(frame.into());
        }
    }
    seen.extend(decoder.finish().map(Seen::from));
    seen
}

/// Decodes a stream given in one read.
pub(crate) fn decode_whole(input: &[u8]) -> Vec<Seen> {
    decode(Decoder::new(), [input])
}

/// Checks that pieces of one stream give exactly these frames.
#[track_caller]
pub(crate) fn expect_same<'a>(
    expected: &[Seen],
    mut decoder: Decoder,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    what: impl fmt::Display,
) {
    let mut count = 0;
    let mut check = |frame: &Frame<'_>| {
        let same = expected.get(count).is_some_and(|seen| seen.same(frame));
        assert!(same, "{what}: frame {count}: expected {:?}, got {frame:?}", expected.get(count));
        count += 1;
    };
    for piece in pieces {
        let mut frames = decoder.feed(piece);
        while let Some(frame) = frames.next_frame() {
            check(&frame);
        }
    }
    if let Some(frame) = decoder.finish() {
        check(&frame);
    }
    assert_eq!(count, expected.len(), "{what}: frames are missing");
}

/// A file below `fixtures/`.
pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let path = fixtures().join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every captured opencode stream, by name.
pub(crate) fn captured_streams() -> Vec<(String, Vec<u8>)> {
    let folder = fixtures().join("opencode");
    let mut streams: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a readable folder").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".sse"))
        .map(|name| (name.clone(), fixture(&format!("opencode/{name}"))))
        .collect();
    streams.sort();
    assert!(!streams.is_empty(), "no captures in {}", folder.display());
    streams
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}
