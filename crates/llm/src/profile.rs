//! Provider profiles: how far each member of a provider's stream can be relied on.

/// What is known about the streams of one provider.
///
/// A profile decides which differences between two chunks mean two completions, and how a stream ends. The
/// default, [`Profile::UNKNOWN`], is for a provider about which nothing is known. In doubt it calls a stream
/// spliced or tainted. That costs a retry, while the opposite error would run a wrong tool call.
///
/// ```
/// use turnstream_llm::{DoneMarker, Profile};
///
/// let mine = Profile { name: "mine", done: DoneMarker::Always, ..Profile::UNKNOWN };
/// assert_eq!(Profile::named("openai"), Some(&Profile::OPENAI));
/// assert_ne!(mine, Profile::UNKNOWN);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The name used in the ledger, in logs and on the command line.
    pub name: &'static str,
    /// Whether the `id` of chat chunks is constant.
    pub id: Constancy,
    /// Whether the `created` of chat chunks is constant.
    pub created: Constancy,
    /// Whether the `system_fingerprint` of chat chunks is constant.
    pub fingerprint: Constancy,
    /// Which chat deltas carry a `role`.
    pub opening: Opening,
    /// Whether a chat stream ends with `[DONE]`.
    pub done: DoneMarker,
    /// What the `index` of a chat tool call means.
    pub call_index: CallIndex,
    /// What empty arguments of a chat tool call mean.
    pub empty_arguments: EmptyArguments,
    /// Whether `sequence_number` in events of the responses format can be relied on.
    pub sequence: Sequence,
    /// Whether `item_id` in events of the responses format is constant. `output_index` names the item too.
    pub item_id: Constancy,
    /// Whether the provider sends pings while the model is silent.
    pub pings: Pings,
    /// Finish reasons that mark the chunk's text as an error message (`error_finish`, qwen-code #1791).
    pub error_finishes: &'static [&'static str],
    /// Error objects that mean throttling although their type says otherwise (qwen-code #11215).
    pub throttles: &'static [Throttle],
}

/// How far a member that identifies a completion can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constancy {
    /// The same in every chunk that has it. Another value means another completion.
    Constant,
    /// Compared only where the chunks have no `id`: some providers give every chunk its own value.
    WithoutId,
    /// Varies within one completion, or is the same in all completions. Never compared.
    Varies,
}

/// Which chat deltas have a `role`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// The first delta, or all deltas. A role after a delta without one opens another completion.
    FirstOrAll,
    /// Any delta. A role proves nothing.
    Anywhere,
}

/// Whether a chat stream ends with `data: [DONE]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DoneMarker {
    /// Always. Without it the stream was cut, even after a finish.
    Always,
    /// Not always. A finish and a transport that ended in order are enough.
    Perhaps,
}

/// What the `index` of a chat tool call means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallIndex {
    /// Each call has its own index. Another id under the same index is a conflict (sglang #16371).
    Distinct,
    /// Calls may share an index. Another id begins another call.
    Shared,
}

/// What empty arguments of a chat tool call mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyArguments {
    /// The call is invalid: the only delta of its arguments may have been lost.
    Invalid,
    /// The call has no arguments: this provider omits `{}`.
    NoArguments,
}

/// Whether `sequence_number` can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sequence {
    /// The number is checked in every event that has one.
    Checked,
    /// The numbers are ignored.
    Ignored,
}

/// Whether a provider sends pings. It selects the client's silence timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pings {
    /// Comments or ping events arrive while the model works.
    Known,
    /// Not known.
    Unknown,
}

/// An error object that means throttling whatever its type says. Both fields must match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttle {
    /// The type of the error object.
    pub error_type: &'static str,
    /// Text that the object's message contains. Model output is never searched.
    pub message_contains: &'static str,
}

impl Profile {
    /// A provider about which nothing is known.
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

    /// OpenAI: constant id and time, and `[DONE]` at the end.
    pub const OPENAI: Self =
        Self { name: "openai", created: Constancy::Constant, done: DoneMarker::Always, ..Self::UNKNOWN };

    /// Anthropic: pings while the model works.
    pub const ANTHROPIC: Self = Self { name: "anthropic", pings: Pings::Known, ..Self::UNKNOWN };

    /// OpenRouter: comments while it waits for a provider (`: OPENROUTER PROCESSING`), and `[DONE]`.
    pub const OPENROUTER: Self =
        Self { name: "openrouter", pings: Pings::Known, done: DoneMarker::Always, ..Self::UNKNOWN };

    /// Qwen on DashScope: errors as the text of an answer, and throttling as an invalid request.
    pub const QWEN: Self = Self {
        name: "qwen",
        error_finishes: &["error_finish"],
        throttles: &[Throttle { error_type: "invalid_request_error", message_contains: "Too many requests" }],
        ..Self::UNKNOWN
    };

    /// A chat provider without usable ids. Time, fingerprint and role identify the completion.
    pub const WITHOUT_IDS: Self = Self { name: "without-ids", id: Constancy::Varies, ..Self::UNKNOWN };

    /// All built-in profiles.
    pub const ALL: [&'static Self; 6] =
        [&Self::UNKNOWN, &Self::OPENAI, &Self::ANTHROPIC, &Self::OPENROUTER, &Self::QWEN, &Self::WITHOUT_IDS];

    /// The built-in profile with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::UNKNOWN
    }
}
