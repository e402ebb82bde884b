//! What leaves the encoder: one value per ACP message.

use super::asks::{Permission, Question};
use super::ending::{End, Fault};
use super::tag::{Ended, Tag, Void};
use agent_client_protocol_schema::v1::{
    ContentBlock, ContentChunk, MessageId, SessionUpdate, ToolCallUpdate,
};
use agent_client_protocol_schema::v1::{TextContent, ToolCallUpdateFields};
use serde_json::Value;
use turnstream_model::event::{
    ApprovalOutcome, ItemKind, ItemState, NoticeCode, QuestionOutcome, Role, Status,
};
use turnstream_model::id::{ApprovalId, ItemId, PromptId, QuestionId, TurnId};

/// One message to a client. [`AcpEvent::write_json`] gives its JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum AcpEvent {
    /// Text of a message: by far the most frequent.
    Chunk(Chunk),
    /// One block of a prompt, when a turn took it. The client that sent the prompt has it already.
    Prompt {
        /// The prompt.
        prompt: PromptId,
        /// What the user said.
        block: Box<ContentBlock>,
    },
    /// Arguments or output of a running tool call, as they appear.
    ToolText(ToolText),
    /// Any other `session/update`.
    Update {
        /// The update, its `_meta` included.
        update: Box<SessionUpdate>,
        /// The tool call whose subagent did this.
        parent: Option<ItemId>,
    },
    /// `_turnstream/item`: an item for which ACP has no place.
    Item(Box<ItemNote>),
    /// `_turnstream/revised`: an item changed after its turn's terminator.
    Revised(Box<Revision>),
    /// `session/request_permission`
    Permission(Box<Permission>),
    /// The permission is not asked for any more.
    PermissionSettled {
        /// Which.
        approval: ApprovalId,
        /// How.
        outcome: ApprovalOutcome,
    },
    /// `_turnstream/question`, or `elicitation/create` for clients that have forms.
    Question(Box<Question>),
    /// The question is not asked any more.
    QuestionSettled {
        /// Which.
        question: QuestionId,
        /// How.
        outcome: QuestionOutcome,
    },
    /// The turn ended with a stop reason. Exactly one `End` or `Error` comes per turn, after all of its updates.
    End(Box<End>),
    /// The turn ended with an error.
    Error(Box<Fault>),
    /// A prompt left the queue without a turn: its request is answered `cancelled`.
    Withdrawn(PromptId),
    /// `_turnstream/status`
    Status(Status),
    /// `_turnstream/notice`
    Notice(Box<Notice>),
    /// `_turnstream/session_ended`
    SessionEnded {
        /// Why.
        reason: String,
    },
    /// `_turnstream/keep_alive`: nothing happened. The encoder never makes it; the caller has the clock.
    KeepAlive,
}

/// Whose text it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkKind {
    /// `user_message_chunk`
    User,
    /// `agent_message_chunk`
    Agent,
    /// `agent_thought_chunk`
    Thought,
}

/// More text of one message. Chunks of one item are one message; texts of different items never are.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// Whose.
    pub kind: ChunkKind,
    /// The item, which is ACP's `messageId`.
    pub item: ItemId,
    /// What was added; empty when only the tag says something.
    pub text: String,
    /// What ACP cannot say.
    pub tag: Tag,
}

/// A `tool_call_update` that consists of its tag.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolText {
    /// The item, which is ACP's `toolCallId`.
    pub item: ItemId,
    /// The text.
    pub tag: Tag,
}

/// News of a file, a compaction or a subagent's plan.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemNote {
    /// The item.
    pub item: ItemId,
    /// What it is.
    pub kind: ItemKind,
    /// What ACP cannot say.
    pub tag: Tag,
    /// What happened to it.
    pub news: ItemNews,
}

/// What happened to an item.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemNews {
    /// It is there.
    Started,
    /// Its text grew.
    Delta(String),
    /// Its text is this and nothing else.
    Replaced(String),
    /// It turns out to be a subagent's.
    Moved,
    /// It ended.
    Ended(Ended),
    /// It is not part of the conversation any more.
    Void(Void),
}

/// A change of something whose turn, or which itself, is over for ACP.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// The item.
    pub item: ItemId,
    /// What it is and whose; absent for something that was over long ago.
    pub was: Option<Over>,
    /// Its turn.
    pub turn: Option<TurnId>,
    /// Its state now.
    pub state: Option<ItemState>,
    /// Its whole text now.
    pub text: Option<String>,
    /// What changed of the call.
    pub tool: Option<Box<ToolCallUpdate>>,
    /// It is not part of the conversation any more.
    pub void: Option<Void>,
}

/// What an item was, for whoever never saw it: one that was empty when its turn ended was never shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Over {
    /// What it is.
    pub kind: ItemKind,
    /// Whose message it is.
    pub role: Option<Role>,
    /// The tool call whose subagent made it.
    pub parent: Option<ItemId>,
    /// How it ended; one that was never shown was never marked either.
    pub state: Option<ItemState>,
}

/// A notice of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// What it is about.
    pub code: NoticeCode,
    /// For a person.
    pub message: String,
    /// For a program.
    pub detail: Option<Value>,
    /// The turn it is about.
    pub turn: Option<TurnId>,
    /// The item it is about.
    pub item: Option<ItemId>,
}

impl ChunkKind {
    /// ACP's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user_message_chunk",
            Self::Agent => "agent_message_chunk",
            Self::Thought => "agent_thought_chunk",
        }
    }
}

impl AcpEvent {
    /// True for the one message that ends a turn.
    pub fn is_terminator(&self) -> bool {
        matches!(self, Self::End(_) | Self::Error(_))
    }

    /// The tool call whose subagent did this: for callers that leave subagents out.
    pub fn parent(&self) -> Option<&ItemId> {
        match self {
            Self::Chunk(chunk) => chunk.tag.parent.as_ref(),
            Self::ToolText(text) => text.tag.parent.as_ref(),
            Self::Item(note) => note.tag.parent.as_ref(),
            Self::Update { parent, .. } => parent.as_ref(),
            Self::Revised(revision) => revision.was.as_ref().and_then(|was| was.parent.as_ref()),
            Self::Prompt { .. }
            | Self::Permission(_)
            | Self::PermissionSettled { .. }
            | Self::Question(_)
            | Self::QuestionSettled { .. }
            | Self::End(_)
            | Self::Error(_)
            | Self::Withdrawn(_)
            | Self::Status(_)
            | Self::Notice(_)
            | Self::SessionEnded { .. }
            | Self::KeepAlive => None,
        }
    }

    /// The protocol's own type, where the message is a `session/update`.
    pub fn into_update(self) -> Option<SessionUpdate> {
        match self {
            Self::Chunk(Chunk { kind, item, text, tag }) => {
                let content = ContentBlock::Text(TextContent::new(text));
                let chunk = ContentChunk::new(content).message_id(MessageId::new(item.as_str()));
                Some(kind.update(chunk.meta(tag.to_meta())))
            }
            Self::Prompt { prompt, block } => {
                let chunk = ContentChunk::new(*block).message_id(MessageId::new(prompt.as_str()));
                Some(SessionUpdate::UserMessageChunk(chunk))
            }
            Self::ToolText(ToolText { item, tag }) => {
                let update = ToolCallUpdate::new(item.as_str().to_owned(), ToolCallUpdateFields::new());
                Some(SessionUpdate::ToolCallUpdate(update.meta(tag.to_meta())))
            }
            Self::Update { update, .. } => Some(*update),
            Self::Item(_)
            | Self::Revised(_)
            | Self::Permission(_)
            | Self::PermissionSettled { .. }
            | Self::Question(_)
            | Self::QuestionSettled { .. }
            | Self::End(_)
            | Self::Error(_)
            | Self::Withdrawn(_)
            | Self::Status(_)
            | Self::Notice(_)
            | Self::SessionEnded { .. }
            | Self::KeepAlive => None,
        }
    }
}

impl ChunkKind {
    fn update(self, chunk: ContentChunk) -> SessionUpdate {
        match self {
            Self::User => SessionUpdate::UserMessageChunk(chunk),
            Self::Agent => SessionUpdate::AgentMessageChunk(chunk),
            Self::Thought => SessionUpdate::AgentThoughtChunk(chunk),
        }
    }
}
