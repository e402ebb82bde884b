//! Provider profiles: how far each member of a provider's stream can be relied on.

mod built_in;
mod settings;

pub use settings::{ProfileError, ProfileSettings};

use serde::Deserialize;
use std::borrow::Cow;

/// A text of a profile: built in, or from a configuration.
pub type Word = Cow<'static, str>;

/// What is known about the streams of one provider.
///
/// A profile decides which differences between two chunks mean two completions, and how a stream ends. The
/// default, [`Profile::UNKNOWN`], is for a provider about which nothing is known. In doubt it calls a stream
/// spliced or tainted. That costs a retry, while the opposite error would run a wrong tool call.
///
/// ```
/// use turnstream_llm::{DoneMarker, Profile};
///
/// let mine = Profile { name: "mine".into(), done: DoneMarker::Always, ..Profile::UNKNOWN };
/// assert_eq!(Profile::named("openai"), Some(&Profile::OPENAI));
/// assert_ne!(mine, Profile::UNKNOWN);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The name used in the ledger, in logs and on the command line.
    pub name: Word,
    /// Whether the `id` of chat chunks is constant.
    pub id: ChunkId,
    /// Whether the `created` of chat chunks is constant.
    pub created: Constancy,
    /// Whether the `system_fingerprint` of chat chunks is constant.
    pub fingerprint: Constancy,
    /// Which chat deltas carry a `role`.
    pub opening: Opening,
    /// How a chat stream ends.
    pub done: DoneMarker,
    /// What the `index` of a chat tool call means.
    pub call_index: CallIndex,
    /// What empty arguments of a tool call mean.
    pub empty_arguments: EmptyArguments,
    /// Whether `sequence_number` in events of the responses format can be relied on.
    pub sequence: Sequence,
    /// Whether `response.id` in events of the responses format is constant. Without it the time counts.
    pub response_id: Constancy,
    /// Whether `item_id` in events of the responses format is constant. `output_index` names the item too.
    pub item_id: Constancy,
    /// Whether the provider sends pings while the model is silent.
    pub pings: Pings,
    /// Finish reasons that mark the chunk's text as an error message (`error_finish`, qwen-code #1791).
    pub error_finishes: Cow<'static, [Word]>,
    /// Error objects that mean throttling although their type says otherwise (qwen-code #11215).
    pub throttles: Cow<'static, [Throttle]>,
    /// Texts in the message of a 4xx by which this provider, and nothing else, says that the request is
    /// longer than the model's context.
    pub overflows: Cow<'static, [Word]>,
}

/// How far the `id` of chat chunks can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChunkId {
    /// The same in every chunk that has it. Another value means another completion.
    Constant,
    /// The same in every chunk except the first, which a gateway writes itself.
    AfterFirst,
    /// Constant, or another value in every chunk: the first two chunks tell. In the second case a repeated
    /// value means another completion.
    ConstantOrPerChunk,
    /// Never compared.
    Varies,
}

/// How far a member that identifies a completion can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Constancy {
    /// The same in every chunk that has it. Another value means another completion.
    Constant,
    /// Compared only where the chunks have no `id`: some providers give every chunk its own value.
    WithoutId,
    /// Varies within one completion, or is the same in all completions. Never compared.
    Varies,
}

/// Which chat deltas have a `role`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Opening {
    /// The first delta, or all deltas. A role after a delta without one opens another completion.
    FirstOrAll,
    /// Any delta. A role proves nothing.
    Anywhere,
}

/// How a chat stream ends: with `data: [DONE]`, a finish, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DoneMarker {
    /// Always. Without it the stream was cut, even after a finish.
    Always,
    /// Not always. A finish and a transport that ended in order are enough.
    Perhaps,
    /// Always, and the provider sends no finish: the marker alone is the end.
    WithoutFinish,
}

/// What the `index` of a chat tool call means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallIndex {
    /// Each call has its own index. Another id under the same index is a conflict (sglang #16371).
    Distinct,
    /// As `Distinct`, but calls that arrive whole in one delta may share an index, if their chunks have the
    /// same id.
    SharedByWhole,
    /// Calls may share an index. Another id begins another call.
    Shared,
}

/// What empty arguments of a tool call mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EmptyArguments {
    /// The call is invalid: the only delta of its arguments may have been lost.
    Invalid,
    /// The call has no arguments, if nothing else is wrong with the stream and its finish announces calls.
    NoArguments,
}

/// Whether `sequence_number` can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sequence {
    /// The number is checked in every event that has one.
    Checked,
    /// The numbers are ignored.
    Ignored,
}

/// Whether a provider sends pings. It selects the client's silence timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pings {
    /// Comments or ping events arrive while the model works.
    Known,
    /// Not known.
    Unknown,
}

/// An error object that means throttling whatever its type says. Both fields must match.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throttle {
    /// The type of the error object.
    pub error_type: Word,
    /// Text that the object's message contains. Model output is never searched.
    pub message_contains: Word,
}

impl Default for Profile {
    fn default() -> Self {
        Self::UNKNOWN
    }
}
