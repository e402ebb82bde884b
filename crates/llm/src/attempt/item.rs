//! Complete items of a completion, and tool calls that are withheld.

/// The number of an item within its attempt, in order of appearance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemNo(pub u32);

/// An item that is complete and of which nothing was lost.
///
/// Only such items may be executed, kept as history or indexed (law L7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// Text of the answer, or of a refusal.
    Message {
        /// The item's number.
        item: ItemNo,
        /// The full text. Where it differs from the deltas, this text is right (law L6).
        text: String,
        /// What was received beside the text.
        extra: Extra,
    },
    /// Reasoning of the model.
    Reasoning {
        /// The item's number.
        item: ItemNo,
        /// The full text. Empty if the provider shows none.
        text: String,
        /// Opaque data that belongs into the next request.
        kept: Vec<ReasoningData>,
        /// What was received beside text and data.
        extra: Extra,
    },
    /// A tool call that may run: its step is over, and ended with a finish that allows calls.
    Call(ToolCall),
    /// An item of a kind that is passed on unread, such as a server-side tool or an image.
    Other {
        /// The item's number.
        item: ItemNo,
        /// Its `type`.
        kind: String,
        /// Its JSON as received.
        raw: String,
        /// What was received after that.
        extra: Extra,
    },
}

/// What was received of an item beside its content, for a request that repeats the item.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Extra {
    /// The provider's id of the item (`rs_…`, `msg_…`, `fc_…`). The id of a call is [`ToolCall::id`].
    pub id: Option<String>,
    /// JSON objects as received, in order: deltas of unknown types, and members that are not read, such as
    /// citations, or Google's `thought_signature`.
    pub unread: Vec<String>,
}

/// A complete tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The item's number.
    pub item: ItemNo,
    /// The provider's id, which the tool's result must name. Some providers give none.
    pub id: Option<String>,
    /// The name of the tool.
    pub name: String,
    /// The arguments as received: a JSON object, or any text for [`ToolCallKind::Custom`].
    pub arguments: String,
    /// The kind of the arguments.
    pub kind: ToolCallKind,
    /// What was received beside these.
    pub extra: Extra,
}

/// The kind of a call's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolCallKind {
    /// A JSON object.
    Function,
    /// Free text (`custom_tool_call` of responses).
    Custom,
}

/// Opaque reasoning data that must go back to the provider unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReasoningData {
    /// The signature of a thinking block.
    Signature(String),
    /// The data of a redacted thinking block.
    Redacted(String),
    /// The `encrypted_content` of a reasoning item.
    Encrypted(String),
    /// One `reasoning_details` array of a chat chunk, as JSON.
    Details(String),
}

/// A tool call that began and was not committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithheldCall {
    /// The item's number.
    pub item: ItemNo,
    /// The name of the tool, as far as it was received.
    pub name: String,
    /// The reason.
    pub reason: WithheldReason,
}

/// The reason why a call is not committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithheldReason {
    /// Bytes of the call may have been lost.
    Tainted,
    /// The stream ended before the call did.
    Open,
    /// The arguments are not a JSON object, or half a character of them was lost.
    BadArguments,
    /// No call of the step runs under this finish: length, a content filter or an unknown word.
    Finish,
    /// The call is complete, but another call of the same step is not.
    Sibling,
}

impl ToolCall {
    /// Whether both are the same call. What was received beside it may differ.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let Self { item, id, name, arguments, kind, extra: _ } = self;
        (*item, *kind) == (other.item, other.kind)
            && (id, name, arguments) == (&other.id, &other.name, &other.arguments)
    }
}

impl Item {
    /// The item's number.
    pub fn number(&self) -> ItemNo {
        match self {
            Self::Message { item, .. } | Self::Reasoning { item, .. } | Self::Other { item, .. } => *item,
            Self::Call(call) => call.item,
        }
    }

    /// The tool call, if the item is one.
    pub fn call(&self) -> Option<&ToolCall> {
        match self {
            Self::Call(call) => Some(call),
            Self::Message { .. } | Self::Reasoning { .. } | Self::Other { .. } => None,
        }
    }
}
