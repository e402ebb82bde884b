//! Damage of a stream: anomalies that taint, repairs without loss, and signs of a second completion.

use std::ops::Range;

/// A loss of bytes, or something that may hide one. Every anomaly taints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anomaly {
    /// What is wrong.
    pub kind: AnomalyKind,
    /// Its place in the body, in bytes.
    pub range: Range<u64>,
}

/// The kinds of [`Anomaly`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnomalyKind {
    /// Bytes that are not an event stream: an HTML page in the middle, half a line.
    NotSse,
    /// An event that is not UTF-8.
    InvalidUtf8,
    /// An event above the size limit.
    Oversize,
    /// An event whose JSON breaks off.
    Truncated,
    /// Half an event with another one behind it in the same payload.
    Glued,
    /// An event that is not JSON.
    Unparseable,
    /// JSON of a shape that the format does not have.
    UnknownShape,
    /// The body ended within an event.
    Residue,
    /// A delta for an item that was never opened or is closed.
    NoSuchItem,
    /// An item opened twice, or out of order.
    OpenedTwice,
    /// Two calls under one index, or two names for one call.
    Conflict,
    /// Items that are open at the end of the completion.
    LeftOpen,
    /// Content after the finish.
    AfterFinish,
    /// A second opening of the completion, under the same id.
    SecondOpening,
    /// A choice other than the first. Requests ask for one choice.
    OtherChoice,
    /// A gap in the sequence numbers.
    Gap,
    /// An event that follows one with a higher number.
    OutOfOrder,
    /// An item that was received complete twice, with different content.
    Contradiction,
    /// More content than one attempt may have.
    TooMuch,
}

/// A repair by which nothing was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Repair {
    /// Several complete payloads in one event: a blank line was missing (eventsource-parser #31).
    MissingBlankLine,
    /// The last event is complete, but its blank line is missing.
    MissingLastLine,
    /// `NaN` or `Infinity` outside of strings, read as null.
    NotANumber,
    /// A second finish. The first one counts.
    RepeatedFinish,
    /// Choices that are null.
    NullChoices,
    /// An empty id or name in a continuation, read as absent.
    EmptyMember,
    /// A tool delta without an index, placed by its id or as the only open call.
    MissingIndex,
    /// An event with a number that was seen before.
    DuplicateEvent,
    /// An item that was read from the protocol's repetition of it.
    Healed,
    /// A call without arguments, read as `{}` because the format or profile says so.
    EmptyArguments,
}

/// How often each [`Repair`] was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repairs([u32; Repair::ALL.len()]);

/// A sign that the stream holds more than one completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpliceFinding {
    /// The evidence.
    pub evidence: SpliceEvidence,
    /// The place where the second completion begins, in bytes of the body.
    pub at: u64,
    /// The id of the second completion, where it can be read.
    pub second_id: Option<String>,
}

/// The evidence for a second completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpliceEvidence {
    /// Half an event, followed in the same payload by a complete event of another completion.
    Glue,
    /// Another `id`.
    Id,
    /// Another `created`.
    Created,
    /// Another `system_fingerprint`.
    Fingerprint,
    /// A second chunk with a role.
    Role,
    /// A second `message_start` or `response.created`.
    Start,
    /// Sequence numbers that begin again.
    SequenceReset,
    /// Events after the terminal one. The first completion is not affected.
    AfterEnd,
}

impl AnomalyKind {
    /// A short name for tables and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotSse => "not an event stream",
            Self::InvalidUtf8 => "invalid UTF-8",
            Self::Oversize => "oversize",
            Self::Truncated => "truncated event",
            Self::Glued => "glued events",
            Self::Unparseable => "unparseable",
            Self::UnknownShape => "unknown shape",
            Self::Residue => "residue",
            Self::NoSuchItem => "no such item",
            Self::OpenedTwice => "opened twice",
            Self::Conflict => "conflict",
            Self::LeftOpen => "left open",
            Self::AfterFinish => "after the finish",
            Self::SecondOpening => "second opening",
            Self::OtherChoice => "another choice",
            Self::Gap => "sequence gap",
            Self::OutOfOrder => "out of order",
            Self::Contradiction => "contradiction",
            Self::TooMuch => "too much",
        }
    }
}

impl Repair {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::MissingBlankLine,
        Self::MissingLastLine,
        Self::NotANumber,
        Self::RepeatedFinish,
        Self::NullChoices,
        Self::EmptyMember,
        Self::MissingIndex,
        Self::DuplicateEvent,
        Self::Healed,
        Self::EmptyArguments,
    ];

    /// A short name for tables and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::MissingBlankLine => "missing blank line",
            Self::MissingLastLine => "missing last line",
            Self::NotANumber => "not a number",
            Self::RepeatedFinish => "repeated finish",
            Self::NullChoices => "null choices",
            Self::EmptyMember => "empty member",
            Self::MissingIndex => "missing index",
            Self::DuplicateEvent => "duplicate event",
            Self::Healed => "healed",
            Self::EmptyArguments => "empty arguments",
        }
    }
}

impl Repairs {
    /// Counts one repair.
    pub fn count(&mut self, repair: Repair) {
        let count = &mut self.0[repair as usize];
        *count = count.saturating_add(1);
    }

    /// How often this repair was made.
    pub fn of(&self, repair: Repair) -> u32 {
        self.0[repair as usize]
    }

    /// The number of all repairs.
    pub fn total(&self) -> u32 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The repairs that were made, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Repair, u32)> + '_ {
        Repair::ALL.into_iter().map(|repair| (repair, self.of(repair))).filter(|(_, count)| *count > 0)
    }
}

impl SpliceEvidence {
    /// A short name for tables and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Glue => "glue",
            Self::Id => "id",
            Self::Created => "created",
            Self::Fingerprint => "fingerprint",
            Self::Role => "role",
            Self::Start => "start",
            Self::SequenceReset => "sequence reset",
            Self::AfterEnd => "after the end",
        }
    }
}
