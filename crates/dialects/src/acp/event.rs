//! The messages that the encoder makes.

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
    /// Text of a message: by far the most frequent message.
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
    /// `$/cancel_request`: the permission was settled.
    PermissionSettled {
        /// The approval.
        approval: ApprovalId,
        /// How it was settled.
        outcome: ApprovalOutcome,
    },
    /// `_turnstream/question`, or `elicitation/create` for clients that have forms.
    Question(Box<Question>),
    /// `$/cancel_request`: the question was settled.
    QuestionSettled {
        /// The question.
        question: QuestionId,
        /// How it was settled.
        outcome: QuestionOutcome,
    },
    /// The turn ended with a stop reason. Exactly one `End` or `Error` comes per turn, after all of its
    /// updates.
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
        /// The reason, in a word.
        reason: String,
    },
    /// `_turnstream/keep_alive`. The encoder has no clock and never makes it; the caller does.
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
    /// Whose text it is.
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

/// A change of a file, a compaction or a subagent's plan.
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
    /// It started.
    Started,
    /// Its text grew.
    Delta(String),
    /// Its text is this and nothing else.
    Replaced(String),
    /// It turns out to be the work of a subagent.
    Moved,
    /// It ended.
    Ended(Ended),
    /// It is not part of the conversation any more.
    Void(Void),
}

/// A change of an item after the terminator of its turn, or after its own end if it has no turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// The item.
    pub item: ItemId,
    /// What the item is; absent if it ended long ago.
    pub was: Option<EndedItem>,
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

/// What an ended item is. Clients never saw an item that was empty when its turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedItem {
    /// What it is.
    pub kind: ItemKind,
    /// Whose message it is.
    pub role: Option<Role>,
    /// The tool call whose subagent made it.
    pub parent: Option<ItemId>,
    /// How it ended.
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

    /// The tool call whose subagent did this. Callers can use it to leave out the work of subagents.
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
