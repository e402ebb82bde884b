//! The events that a reader produces while a stream is read.

use super::{Anomaly, Finish, Item, ItemNo, ProviderError, ReasoningData, Usage};

/// One event of a provider's stream, the same for all wire formats.
///
/// Only [`StreamEvent::Committed`] may be acted on. Everything else is for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEvent {
    /// The completion began. It has no content yet.
    Opened {
        /// The provider's id of the completion.
        id: Option<String>,
        /// The model that answers.
        model: Option<String>,
    },
    /// More text of the answer.
    Text {
        /// The item that grows.
        item: ItemNo,
        /// The delta.
        text: String,
    },
    /// More of the model's reasoning.
    Reasoning {
        /// The item that grows.
        item: ItemNo,
        /// The delta.
        text: String,
    },
    /// Opaque data of a reasoning item, to be sent back with the next request.
    ReasoningData {
        /// The reasoning item.
        item: ItemNo,
        /// The data.
        kept: ReasoningData,
    },
    /// More text of a refusal.
    Refusal {
        /// The item that grows.
        item: ItemNo,
        /// The delta.
        text: String,
    },
    /// A tool call began.
    CallStarted {
        /// The item of the call.
        item: ItemNo,
        /// The provider's id of the call.
        id: Option<String>,
        /// The name of the tool.
        name: String,
    },
    /// More of a call's arguments.
    CallArguments {
        /// The item of the call.
        item: ItemNo,
        /// The delta.
        text: String,
    },
    /// A delta of a kind that is not read. The committed item has it too.
    Unread {
        /// The item that grows.
        item: ItemNo,
        /// The delta, as JSON.
        raw: String,
    },
    /// An item is complete and nothing of it was lost. It is never taken back.
    ///
    /// Calls are committed at the end of their step, all together, and only if they may run.
    Committed(Item),
    /// Token counts so far.
    Usage(Usage),
    /// The model stopped, for this reason.
    Finish(Finish),
    /// The provider reported a failure. The first report counts; no event follows it.
    ProviderFailed(ProviderError),
    /// A comment or ping: the connection lives, the model has made no progress.
    KeepAlive,
    /// Bytes may have been lost. What was streamed of these items can no longer be committed.
    Tainted {
        /// Open items that were not reported as tainted before.
        items: Vec<ItemNo>,
        /// The damage, with its place in the body.
        anomaly: Anomaly,
    },
}

impl StreamEvent {
    /// Whether the model made progress. The progress timeout of the client restarts with such an event.
    pub fn is_progress(&self) -> bool {
        match self {
            Self::Opened { .. }
            | Self::Text { .. }
            | Self::Reasoning { .. }
            | Self::ReasoningData { .. }
            | Self::Refusal { .. }
            | Self::CallStarted { .. }
            | Self::CallArguments { .. }
            | Self::Unread { .. }
            | Self::Committed(_)
            | Self::Finish(_) => true,
            Self::Usage(_) | Self::ProviderFailed(_) | Self::KeepAlive | Self::Tainted { .. } => false,
        }
    }
}
