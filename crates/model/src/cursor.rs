//! Cursors: a reader's position in a log (`GENERATION:SEQ`) or in the frames of a dialect
//! (`GENERATION:SEQ.K`), and the first frame of a stream, which answers a cursor.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Position of an event in its session's log: contiguous from 1. 0 is before the first event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// The position after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Changes when a log's history is not a continuation of what clients saw.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Generation(String);

impl Generation {
    /// Letters, digits, `_` and `-`; so that a cursor can be split at its colon and put in a header.
    pub fn new(name: impl Into<String>) -> Result<Self, CursorError> {
        let name = name.into();
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.is_empty() || !name.bytes().all(fits) {
            return Err(CursorError::Generation(name));
        }
        Ok(Self(name))
    }

    /// The name as it is on the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Generation {
    type Error = CursorError;

    fn try_from(name: String) -> Result<Self, CursorError> {
        Self::new(name)
    }
}

impl From<Generation> for String {
    fn from(generation: Generation) -> Self {
        generation.0
    }
}

/// A reader's position: the last event it has. A bare number means the current generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The generation the position belongs to; `None` for whatever is current.
    pub generation: Option<Generation>,
    /// The last event seen.
    pub seq: Seq,
}

/// A cursor that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CursorError {
    /// The part after the colon is not a sequence number.
    #[error("cursor {0:?} is not GENERATION:SEQ or SEQ, for example g1:41 or 41")]
    Seq(String),
    /// The part before the colon is not a generation.
    #[error("generation {0:?} must be made of letters, digits, '_' and '-', for example g1")]
    Generation(String),
    /// The part after the dot is not a number of frames, or what is before it is no event.
    #[error("cursor {0:?} is not GENERATION:SEQ.K, for example g1:41.2")]
    Frame(String),
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let (generation, seq) = match text.split_once(':') {
            Some((generation, seq)) => (Some(Generation::new(generation)?), seq),
            None => (None, text),
        };
        // `parse` would take "+1"; a cursor is digits only.
        let digits = !seq.is_empty() && seq.bytes().all(|byte| byte.is_ascii_digit());
        match seq.parse() {
            Ok(seq) if digits => Ok(Self { generation, seq: Seq(seq) }),
            _ => Err(CursorError::Seq(text.to_owned())),
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(generation) = &self.generation {
            write!(f, "{}:", generation.as_str())?;
        }
        self.seq.fmt(f)
    }
}

/// A reader's position in a stream of frames. A dialect may make several frames of one event.
/// `GENERATION:SEQ.K` is the position of a reader that has the first K frames of event SEQ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameCursor {
    /// The last event of which the reader has every frame.
    pub cursor: Cursor,
    /// How many frames of the event after it the reader has. `None` for a cursor that names whole events.
    pub frames: Option<u32>,
}

impl From<Cursor> for FrameCursor {
    fn from(cursor: Cursor) -> Self {
        Self { cursor, frames: None }
    }
}

impl FromStr for FrameCursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let Some((event, frames)) = text.rsplit_once('.') else { return Ok(text.parse::<Cursor>()?.into()) };
        let bad = || CursorError::Frame(text.to_owned());
        let mut cursor: Cursor = event.parse().map_err(|_| bad())?;
        let digits = !frames.is_empty() && frames.bytes().all(|byte| byte.is_ascii_digit());
        let frames = frames.parse().ok().filter(|_| digits).ok_or_else(bad)?;
        // There is no event 0, so it has no frames.
        cursor.seq = Seq(cursor.seq.0.checked_sub(1).ok_or_else(bad)?);
        Ok(Self { cursor, frames: Some(frames) })
    }
}

/// The reason why a stream cannot continue at a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResetReason {
    /// It belongs to another generation.
    Generation,
    /// It is ahead of the log.
    BeyondHead,
    /// Retention removed events after it.
    Trimmed,
    /// Only of dialects that keep state: it is older than the running turn, so the conversation so far
    /// follows instead.
    OlderTurn,
}

/// The first frame of every stream. It says whether the stream continues at the cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum CursorOutcome {
    /// Events `from..=to` follow, then live ones.
    Replayed {
        /// The log's generation.
        generation: Generation,
        /// First event that follows.
        from: Seq,
        /// Last event of the replay.
        to: Seq,
        /// Last event of the log.
        head: Seq,
    },
    /// Nothing was missed.
    CaughtUp {
        /// The log's generation.
        generation: Generation,
        /// Last event of the log.
        head: Seq,
    },
    /// The stream cannot continue at the cursor. It goes on at `oldest`, and the client reloads the snapshot.
    Reset {
        /// The log's generation.
        generation: Generation,
        /// The reason.
        reason: ResetReason,
        /// First event that is still kept.
        oldest: Seq,
        /// Last event of the log.
        head: Seq,
    },
}

impl CursorOutcome {
    /// Decides for a log that keeps `oldest..=head` (an empty log has `oldest` 1 and `head` 0).
    pub fn decide(cursor: &Cursor, generation: &Generation, oldest: Seq, head: Seq) -> Self {
        let generation = generation.clone();
        let reset = |generation, reason| Self::Reset { generation, reason, oldest, head };
        if cursor.generation.as_ref().is_some_and(|theirs| *theirs != generation) {
            reset(generation, ResetReason::Generation)
        } else if cursor.seq > head {
            reset(generation, ResetReason::BeyondHead)
        } else if cursor.seq == head {
            Self::CaughtUp { generation, head }
        } else if cursor.seq.next() < oldest {
            reset(generation, ResetReason::Trimmed)
        } else {
            Self::Replayed { generation, from: cursor.seq.next(), to: head, head }
        }
    }

    /// The frame's JSON: the members of the outcome with `"type":"stream"`.
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Frame<'a> {
            r#type: &'static str,
            #[serde(flatten)]
            outcome: &'a CursorOutcome,
        }
        // Strings and numbers only: there is nothing in it that serde_json can refuse.
        serde_json::to_string(&Frame { r#type: "stream", outcome: self }).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generation(name: &str) -> Generation {
        Generation::new(name).unwrap()
    }

    #[test]
    fn a_cursor_reads_back_as_it_was_written() {
        for text in ["g1:41", "41", "0", "a-b_C:0"] {
            assert_eq!(text.parse::<Cursor>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_bad_cursor_is_refused_with_its_text() {
        for text in ["", "x", "g1:", "g1:x", "g 1:4", ":4", "+4", "-1", "g1:4:5", "99999999999999999999"] {
            let error = text.parse::<Cursor>().unwrap_err().to_string();
            assert!(error.contains("for example"), "{text}: {error}");
        }
    }

    #[test]
    fn a_cursor_of_frames_names_the_event_before_and_how_many_it_has_of_the_next() {
        let read =
            |text: &str| text.parse::<FrameCursor>().map(|read| (read.cursor.to_string(), read.frames));
        assert_eq!(read("g1:41"), Ok(("g1:41".to_owned(), None)));
        assert_eq!(read("g1:41.2"), Ok(("g1:40".to_owned(), Some(2))));
        assert_eq!(read("1.0"), Ok(("0".to_owned(), Some(0))));
        for text in ["0.1", "g1:0.1", "g1:4.", "g1:4.x", "g1:4.+1", "4.1.2", ".1", "g.1:4", "4.99999999999"] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains("for example") && error.contains(&format!("{text:?}")), "{text}: {error}");
        }
    }

    #[test]
    fn every_cursor_has_its_outcome() {
        let g1 = generation("g1");
        let decide = |text: &str, oldest, head| {
            CursorOutcome::decide(&text.parse().unwrap(), &g1, Seq(oldest), Seq(head)).to_json()
        };
        let table = [
            (
                decide("0", 1, 41),
                r#"{"type":"stream","outcome":"replayed","generation":"g1","from":1,"to":41,"head":41}"#,
            ),
            (
                decide("g1:41", 1, 41),
                r#"{"type":"stream","outcome":"caught_up","generation":"g1","head":41}"#,
            ),
            (decide("0", 1, 0), r#"{"type":"stream","outcome":"caught_up","generation":"g1","head":0}"#),
            (
                decide("g1:42", 1, 41),
                r#"{"type":"stream","outcome":"reset","generation":"g1","reason":"beyond_head","oldest":1,"head":41}"#,
            ),
            (
                decide("g0:4", 1, 9),
                r#"{"type":"stream","outcome":"reset","generation":"g1","reason":"generation","oldest":1,"head":9}"#,
            ),
            (
                decide("g1:2", 5, 9),
                r#"{"type":"stream","outcome":"reset","generation":"g1","reason":"trimmed","oldest":5,"head":9}"#,
            ),
            (
                decide("g1:4", 5, 9),
                r#"{"type":"stream","outcome":"replayed","generation":"g1","from":5,"to":9,"head":9}"#,
            ),
        ];
        for (got, want) in table {
            assert_eq!(got, want);
        }
    }
}
