//! What an adapter observed at an agent. A signal carries evidence; only the machine decides what it means.

use crate::event::{
    ApprovalOption, ApprovalOutcome, Context, Cost, ErrorClass, Field, ItemKind, ItemState, NoticeCode,
    Origin, Outcome, Question, QuestionOutcome, Role, SessionPatch, StopReason, Tool, TurnError, Usage,
};
use crate::id::{Key, TurnId};
use crate::time::Time;
use serde_json::{Map, Value};

/// One observation. Every [`Key`] is unique within the session: an adapter prefixes the native session where the
/// agent reuses ids across its own sessions.
#[derive(Clone, Debug, PartialEq)]
pub enum Signal {
    /// The agent shows that it works.
    TurnBegan {
        /// Who made it start, where the agent says so.
        origin: Option<Origin>,
        /// Native ids of the prompts it names; empty when it names none.
        prompts: Vec<String>,
        /// The agent's own id of the turn, where it has one.
        native_id: Option<String>,
    },
    /// The agent shows that it has this prompt, by the native id it was sent with.
    PromptTaken(String),
    /// The agent will not run this prompt.
    PromptRefused {
        /// The id it was sent with.
        native_id: String,
        /// Why.
        error: TurnError,
    },
    /// A model call began.
    AttemptBegan {
        /// The agent's name of the call.
        key: Key,
        /// The model.
        model: Option<String>,
    },
    /// A model call ended.
    AttemptEnded {
        /// The agent's name of the call.
        key: Key,
        /// The finish as the provider wrote it; `tool_calls` announces another call.
        finish: Option<String>,
        /// What it cost in tokens.
        usage: Option<Usage>,
        /// What it cost in money.
        cost: Option<Cost>,
    },
    /// The agent repeats a model call: what the open one produced so far is void.
    Retrying {
        /// Which retry.
        attempt: Option<u32>,
        /// Why.
        reason: Option<ErrorClass>,
        /// When it goes on.
        until: Option<Time>,
        /// Why, in the agent's words.
        message: Option<String>,
    },
    /// A message, reasoning, plan, file or compaction is there. Repeating it may add the parent.
    ItemSeen(ItemSeen),
    /// An item grew.
    TextDelta {
        /// The item.
        key: Key,
        /// Which of its texts.
        field: Field,
        /// What was added.
        text: String,
    },
    /// An item's whole text.
    TextSnapshot {
        /// The item.
        key: Key,
        /// Which of its texts.
        field: Field,
        /// All of it.
        text: String,
        /// Whether more may come.
        finality: Finality,
    },
    /// A tool call is there, or changed. `completed` and `failed` end it.
    ToolSeen {
        /// The call.
        key: Key,
        /// The tool item whose subagent makes the call.
        parent: Option<Key>,
        /// What is known of it.
        tool: Tool,
    },
    /// An item ended.
    ItemEnded {
        /// The item.
        key: Key,
        /// How.
        state: ItemState,
        /// Why, in a word.
        reason: Option<String>,
    },
    /// The agent took an item back.
    ItemRemoved(Key),
    /// The agent asks for a permission.
    Ask {
        /// The agent's name of the ask.
        key: Key,
        /// The call it is for, where it is known.
        item: Option<Key>,
        /// The call as the ask shows it.
        tool: Option<Tool>,
        /// What may be answered.
        options: Vec<ApprovalOption>,
    },
    /// An ask was settled at the agent, by another of its clients or by withdrawal.
    AskClosed {
        /// The agent's name of the ask.
        key: Key,
        /// How.
        outcome: ApprovalOutcome,
    },
    /// The agent asks a person something.
    Question {
        /// The agent's name of it.
        key: Key,
        /// The call that asks, where it is known.
        item: Option<Key>,
        /// What is asked.
        questions: Vec<Question>,
    },
    /// A question was settled at the agent.
    QuestionClosed {
        /// The agent's name of it.
        key: Key,
        /// How.
        outcome: QuestionOutcome,
        /// The answers, where known.
        answers: Option<Map<String, Value>>,
    },
    /// Tokens or money of the turn so far. Members that are present replace.
    Usage {
        /// Tokens of the turn.
        usage: Option<Usage>,
        /// Cost of the turn.
        cost: Option<Cost>,
        /// How full the context is.
        context: Option<Context>,
    },
    /// Something about the session changed.
    Session(SessionPatch),
    /// The agent reported an error. It does not end the turn: its idle does.
    Failed(TurnError),
    /// The agent says that it is idle, without saying which turn ended. An adapter whose agent also states ends sends
    /// only those: Codex goes idle just before it says how the turn ended.
    TurnIdle {
        /// Why it stopped, where it says so.
        stop_reason: Option<StopReason>,
    },
    /// The agent says that a turn ended, and how.
    TurnDone {
        /// Which, where the agent names its turns.
        native_id: Option<String>,
        /// How.
        ending: Ending,
    },
    /// The answer to [`Need::Truth`], with the turn it was asked for.
    Truth {
        /// The turn of the need.
        turn: TurnId,
        /// What the agent says.
        truth: Truth,
    },
    /// Something may have been missed. The adapter sends what it can fetch next, and last the answer to the
    /// [`Need::Truth`] that follows from this.
    Gap(String),
    /// The agent or the way to it is gone for good. Prompts that were sent and never taken stay so: whether they ran
    /// is for their keeper to find out.
    LinkLost(TurnError),
    /// Worth a line in the log and nothing else.
    Notice {
        /// What it is about.
        code: NoticeCode,
        /// For a person.
        message: String,
        /// For a program.
        detail: Option<Value>,
    },
}

/// Whether a snapshot is the last word on a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finality {
    /// The text at some moment, perhaps an old one: opencode's REST answers with an empty text while it streams,
    /// so a shorter snapshot of this kind proves nothing.
    SoFar,
    /// The text as it stays, also when it is shorter than what was streamed.
    Final,
}

/// An item that is not a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemSeen {
    /// The agent's name of it.
    pub key: Key,
    /// What it is.
    pub kind: ItemKind,
    /// Whose message it is.
    pub role: Option<Role>,
    /// The tool item whose subagent wrote it.
    pub parent: Option<Key>,
    /// The agent wrote it in the user's name.
    pub synthetic: bool,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// The outcome.
    pub outcome: Outcome,
    /// Why it stopped; only with [`Outcome::Completed`].
    pub stop_reason: Option<StopReason>,
    /// Tokens of the whole turn. The sum of its model calls stands where that is more.
    pub usage: Option<Usage>,
    /// Cost of the whole turn. The sum of its model calls stands where that is more.
    pub cost: Option<Cost>,
    /// What went wrong.
    pub error: Option<TurnError>,
}

impl Ending {
    /// The agent finished.
    pub fn completed(stop_reason: StopReason) -> Self {
        let stop_reason = Some(stop_reason);
        Self { outcome: Outcome::Completed, stop_reason, usage: None, cost: None, error: None }
    }

    /// It was asked to stop.
    pub fn cancelled() -> Self {
        Self { outcome: Outcome::Cancelled, stop_reason: None, usage: None, cost: None, error: None }
    }

    /// It broke.
    pub fn failed(error: TurnError) -> Self {
        let error = Some(error);
        Self { outcome: Outcome::Failed, stop_reason: None, usage: None, cost: None, error }
    }

    /// The same for whoever wanted it to stop before it began: it is cancelled. An error stays if it says more than that.
    pub(crate) fn into_cancelled(self) -> Self {
        let says_more =
            |error: &TurnError| !matches!(error.class, ErrorClass::Cancelled | ErrorClass::NotStarted);
        let error = self.error.filter(says_more);
        Self { outcome: Outcome::Cancelled, stop_reason: None, error, ..self }
    }

    /// Nobody can know any more.
    pub fn lost(error: TurnError) -> Self {
        let error = Some(error);
        Self { outcome: Outcome::Lost, stop_reason: None, usage: None, cost: None, error }
    }
}

/// What the agent itself says of the session when it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// No turn is running.
    Idle,
    /// A turn is running.
    Busy,
}

/// A fact that is missing. The transport fetches it and answers with a [`Signal`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// What is this item? Answered by [`Signal::ItemSeen`] or [`Signal::ToolSeen`].
    Item(Key),
    /// Is a turn running? Answered by [`Signal::Truth`].
    Truth(TurnId),
}
