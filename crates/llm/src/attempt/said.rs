//! What a stream says while it comes in, the same words for every wire format.

use super::{Anomaly, Finish, Item, ItemNo, Kept, ProviderError, Usage};

/// One thing that an attempt's stream said. Everything but [`Said::Committed`] may be shown and never acted on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// The completion began. Nothing semantic was delivered by this.
    Opened {
        /// The provider's id of the completion.
        id: Option<String>,
        /// The model that answers.
        model: Option<String>,
    },
    /// More of the answer.
    Text {
        /// Which item.
        item: ItemNo,
        /// The delta.
        text: String,
    },
    /// More of what the model thinks.
    Reasoning {
        /// Which item.
        item: ItemNo,
        /// The delta.
        text: String,
    },
    /// Something to be sent back with this reasoning.
    ReasoningKept {
        /// Which item.
        item: ItemNo,
        /// What.
        kept: Kept,
    },
    /// More of a refusal.
    Refusal {
        /// Which item.
        item: ItemNo,
        /// The delta.
        text: String,
    },
    /// A tool call began.
    CallBegan {
        /// Which item.
        item: ItemNo,
        /// The provider's id of the call.
        id: Option<String>,
        /// Which tool.
        name: String,
    },
    /// More of a call's arguments.
    CallArguments {
        /// Which item.
        item: ItemNo,
        /// The delta.
        text: String,
    },
    /// An item reached its protocol's end untainted. It is never taken back. A call is told so at the end of its step only,
    /// when it may run.
    Committed(Item),
    /// Token counts so far.
    Usage(Usage),
    /// Why the model stopped.
    Finish(Finish),
    /// The provider failed. The first such word counts; nothing follows it.
    ProviderFailed(ProviderError),
    /// A comment or ping: the transport lives, the model has made no progress.
    Alive,
    /// Bytes may have been lost. These items can no longer be committed from what was streamed of them.
    Tainted {
        /// The items that were open and are not known to be tainted yet.
        items: Vec<ItemNo>,
        /// Why.
        anomaly: Anomaly,
    },
}

impl Said {
    /// Whether the model made progress by it, for the clock on semantic progress.
    pub fn is_progress(&self) -> bool {
        match self {
            Self::Opened { .. }
            | Self::Text { .. }
            | Self::Reasoning { .. }
            | Self::ReasoningKept { .. }
            | Self::Refusal { .. }
            | Self::CallBegan { .. }
            | Self::CallArguments { .. }
            | Self::Committed(_)
            | Self::Finish(_) => true,
            Self::Usage(_) | Self::ProviderFailed(_) | Self::Alive | Self::Tainted { .. } => false,
        }
    }
}
