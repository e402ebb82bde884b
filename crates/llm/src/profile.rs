//! What a provider is known to do: the facts that decide which differences between two chunks mean two completions.
//!
//! The default fits a provider nobody has looked at. It errs towards calling a stream spliced or tainted: that costs
//! a retry, the other error runs a wrong call.

/// What is known of a provider's streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// For ledgers and logs.
    pub name: &'static str,
    /// The `id` of chat chunks.
    pub id: Constancy,
    /// The `created` of chat chunks.
    pub created: Constancy,
    /// The `system_fingerprint` of chat chunks.
    pub fingerprint: Constancy,
    /// Where chat deltas carry a `role`.
    pub opening: Opening,
    /// Whether a chat stream ends in `[DONE]`.
    pub done: DoneMarker,
    /// What the `index` of a chat tool call means.
    pub call_index: CallIndex,
    /// What a chat tool call without any argument text means.
    pub empty_arguments: EmptyArguments,
    /// Whether the events of responses carry `sequence_number`.
    pub sequence: Sequence,
    /// The `item_id` of the events of responses, which name an item by its `output_index`, too.
    pub item_id: Constancy,
    /// Whether a quiet stream shows signs of life.
    pub pings: Pings,
    /// Finish reasons whose chunk carries an error text where an answer would be (`error_finish`, qwen-code #1791).
    pub error_finishes: &'static [&'static str],
    /// Error objects that are throttling under a wrong type (qwen-code #11215).
    pub throttles: &'static [Throttle],
}

/// How far a member that names a completion can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constancy {
    /// The same in every chunk that has it; another value is another completion.
    Constant,
    /// Evidence only where the chunks have no `id`: some providers stamp every chunk anew.
    WithoutId,
    /// Differs within one completion, or is the same in all of them. Never compared.
    Varies,
}

/// Which chat deltas have a `role`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// The first, or all of them. A role behind a delta without one opens another completion.
    FirstOrAll,
    /// Any. A role is no evidence.
    Anywhere,
}

/// Whether a chat stream ends in `data: [DONE]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DoneMarker {
    /// Always: without it the stream was cut, even behind a finish.
    Always,
    /// Often enough not: a finish and a transport that ended in order are an end.
    Perhaps,
}

/// What the `index` of a chat tool call means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallIndex {
    /// Each call has its own. Another id under the same index is a conflict (sglang #16371).
    Distinct,
    /// All calls may have the same; another id begins another call.
    Shared,
}

/// What a chat tool call means whose arguments are the empty text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyArguments {
    /// Not JSON, so not a call: the only delta may have been lost.
    Invalid,
    /// This provider writes `{}` so.
    NoArguments,
}

/// Whether events carry `sequence_number`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sequence {
    /// Where an event has one it is checked.
    Checked,
    /// The numbers mean nothing.
    Ignored,
}

/// Whether a quiet stream shows signs of life, for the clock on transport silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pings {
    /// Comments or ping events come while the model thinks.
    Known,
    /// Nobody knows.
    Unknown,
}

/// An error object that is throttling whatever its type says. Both must fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttle {
    /// The type that the object has.
    pub error_type: &'static str,
    /// What its message contains. The message of an error object, never the text of a model.
    pub message_contains: &'static str,
}

impl Profile {
    /// A provider nobody has looked at.
    pub const UNKNOWN: Self = Self {
        name: "unknown",
        id: Constancy::Constant,
        created: Constancy::WithoutId,
        fingerprint: Constancy::WithoutId,
        opening: Opening::FirstOrAll,
        done: DoneMarker::Perhaps,
        call_index: CallIndex::Distinct,
        empty_arguments: EmptyArguments::Invalid,
        sequence: Sequence::Checked,
        item_id: Constancy::Constant,
        pings: Pings::Unknown,
        error_finishes: &[],
        throttles: &[],
    };

    /// OpenAI itself: one id, one time, and `[DONE]` at the end.
    pub const OPENAI: Self =
        Self { name: "openai", created: Constancy::Constant, done: DoneMarker::Always, ..Self::UNKNOWN };

    /// Anthropic itself: pings while it thinks.
    pub const ANTHROPIC: Self = Self { name: "anthropic", pings: Pings::Known, ..Self::UNKNOWN };

    /// OpenRouter: comments while it waits for a provider (`: OPENROUTER PROCESSING`), `[DONE]` at the end.
    pub const OPENROUTER: Self =
        Self { name: "openrouter", pings: Pings::Known, done: DoneMarker::Always, ..Self::UNKNOWN };

    /// Qwen on DashScope: an error as the content of an answer, and throttling as an invalid request.
    pub const QWEN: Self = Self {
        name: "qwen",
        error_finishes: &["error_finish"],
        throttles: &[Throttle { error_type: "invalid_request_error", message_contains: "Too many requests" }],
        ..Self::UNKNOWN
    };

    /// A chat provider that sends no usable id: the time, the fingerprint and the role are all there is.
    pub const WITHOUT_IDS: Self = Self { name: "without-ids", id: Constancy::Varies, ..Self::UNKNOWN };

    /// The built-in ones.
    pub const ALL: [&'static Self; 6] =
        [&Self::UNKNOWN, &Self::OPENAI, &Self::ANTHROPIC, &Self::OPENROUTER, &Self::QWEN, &Self::WITHOUT_IDS];

    /// The built-in profile of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::UNKNOWN
    }
}
