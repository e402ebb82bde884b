//! The items of a completion once they are whole, and the calls that did not get there.

/// The number of an item within its attempt, in the order in which they showed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemNo(pub u32);

/// An item that reached its protocol's end untainted. Only these may be executed, kept as history or indexed (L7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// Text of the answer, or of a refusal.
    Message {
        /// Which item.
        item: ItemNo,
        /// All of it. Where it differs from the deltas shown before, this is right (L6).
        text: String,
    },
    /// What the model thought.
    Reasoning {
        /// Which item.
        item: ItemNo,
        /// All of it; empty where the provider shows nothing.
        text: String,
        /// What the provider wants to see again in the next request.
        kept: Vec<Kept>,
    },
    /// A tool call that may run: its step is over, and ended in a way that lets it.
    Call(Call),
    /// An item of a kind that we do not read: a server's own tool, an image.
    Other {
        /// Which item.
        item: ItemNo,
        /// Its `type`.
        kind: String,
        /// Its JSON as it came.
        raw: String,
    },
}

/// A tool call, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Which item.
    pub item: ItemNo,
    /// The provider's id, to be named in the answer. Some providers give none.
    pub id: Option<String>,
    /// Which tool.
    pub name: String,
    /// The arguments exactly as they came: a JSON object, or any text for [`CallKind::Custom`].
    pub arguments: String,
    /// What the arguments are.
    pub kind: CallKind,
}

/// What the arguments of a call are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// A JSON object.
    Function,
    /// Free text (`custom_tool_call` of responses).
    Custom,
}

/// Parts of reasoning that must go back to the provider unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// The signature of a thinking block.
    Signature(String),
    /// The data of a redacted thinking block.
    Redacted(String),
    /// The `encrypted_content` of a reasoning item.
    Encrypted(String),
    /// One `reasoning_details` array of a chat chunk, as JSON.
    Details(String),
}

/// A call that was begun and is not committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withheld {
    /// Which item.
    pub item: ItemNo,
    /// Which tool, as far as the stream said.
    pub name: String,
    /// Why not.
    pub why: Why,
}

/// Why a call is not committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Bytes of it may have been lost.
    Tainted,
    /// The stream ended before it did.
    Open,
    /// Its arguments are not a JSON object, or half a character of them was lost.
    BadArguments,
    /// The model stopped for a reason under which no call of the step runs: length, a filter, an unknown word.
    Finish,
    /// It is whole, but another call of the same step is not.
    Sibling,
}

impl Item {
    /// Which item it is.
    pub fn number(&self) -> ItemNo {
        match self {
            Self::Message { item, .. } | Self::Reasoning { item, .. } | Self::Other { item, .. } => *item,
            Self::Call(call) => call.item,
        }
    }

    /// The call, if it is one.
    pub fn call(&self) -> Option<&Call> {
        match self {
            Self::Call(call) => Some(call),
            Self::Message { .. } | Self::Reasoning { .. } | Self::Other { .. } => None,
        }
    }
}
