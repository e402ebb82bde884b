//! What an adapter observed at an agent. A signal is evidence; the machine decides what it means.

use crate::event::{
    ApprovalOption, ApprovalOutcome, Context, Cost, ErrorClass, Field, ItemKind, ItemState, NoticeCode,
    Origin, Outcome, Question, QuestionOutcome, Role, SessionPatch, StopReason, Tool, TurnError, Usage,
};
use crate::id::{Key, TurnId};
use crate::time::Time;
use serde_json::{Map, Value};

/// One observation. Every [`Key`] is unique within the session: an adapter prefixes the native session
/// where the agent reuses ids across its own sessions.
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
        /// The reason.
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
        /// The number of the retry.
        attempt: Option<u32>,
        /// The class of the error that is retried.
        reason: Option<ErrorClass>,
        /// When the call is repeated.
        until: Option<Time>,
        /// The error in the agent's words.
        message: Option<String>,
    },
    /// A message, reasoning, plan, file or compaction began. A repeated signal may add the parent.
    ItemSeen(ItemSeen),
    /// An item grew.
    TextDelta {
        /// The item.
        key: Key,
        /// The text that grew.
        field: Field,
        /// What was added.
        text: String,
    },
    /// An item's whole text.
    TextSnapshot {
        /// The item.
        key: Key,
        /// The text it is.
        field: Field,
        /// The whole text.
        text: String,
        /// Whether more may come.
        finality: Finality,
    },
    /// A tool call began or changed. The statuses `completed` and `failed` end it.
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
        /// Its final state.
        state: ItemState,
        /// A short reason.
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
        /// How it was settled.
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
        /// How it was settled.
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
    /// The agent reports idle, without naming the turn that ended. An adapter whose agent also reports ends
    /// sends only those: Codex reports idle just before it reports the end.
    TurnIdle {
        /// Why it stopped, where it says so.
        stop_reason: Option<StopReason>,
    },
    /// The agent says that a turn ended, and how.
    TurnDone {
        /// The agent's id of the turn, if it has one.
        native_id: Option<String>,
        /// How it ended.
        ending: Ending,
    },
    /// The answer to [`Need::StatusProbe`], with the turn it was asked for.
    StatusProbed {
        /// The turn of the need.
        turn: TurnId,
        /// What the agent says.
        status: ProbedStatus,
    },
    /// Something may have been missed. The adapter sends what it can fetch next, and last the answer to the
    /// [`Need::StatusProbe`] that follows from this.
    Gap(String),
    /// The agent, or the connection to it, is lost for good. Prompts that were sent and not taken stay
    /// open: the keeper has to find out whether they ran.
    LinkLost(TurnError),
    /// Something that only becomes a notice in the log.
    Notice {
        /// What it is about.
        code: NoticeCode,
        /// For a person.
        message: String,
        /// For a program.
        detail: Option<Value>,
    },
}

/// Whether a text snapshot is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finality {
    /// The text at some moment, perhaps an old one. opencode's REST API returns an empty text while it
    /// streams, so a shorter snapshot proves nothing.
    SoFar,
    /// The final text, even if it is shorter than what was streamed.
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
    /// Tokens of the whole turn. The sum of its model calls is used if that is more.
    pub usage: Option<Usage>,
    /// Cost of the whole turn. The sum of its model calls is used if that is more.
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

    /// It failed.
    pub fn failed(error: TurnError) -> Self {
        let error = Some(error);
        Self { outcome: Outcome::Failed, stop_reason: None, usage: None, cost: None, error }
    }

    /// The same end for a turn that was cancelled before it began: the outcome is `cancelled`. The error
    /// stays if it says more than that.
    pub(crate) fn into_cancelled(self) -> Self {
        let says_more =
            |error: &TurnError| !matches!(error.class, ErrorClass::Cancelled | ErrorClass::NotStarted);
        let error = self.error.filter(says_more);
        Self { outcome: Outcome::Cancelled, stop_reason: None, error, ..self }
    }

    /// Nobody can know any more how it ended.
    pub fn lost(error: TurnError) -> Self {
        let error = Some(error);
        Self { outcome: Outcome::Lost, stop_reason: None, usage: None, cost: None, error }
    }
}

/// The answer of an agent that was asked whether it works: a status probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbedStatus {
    /// No turn is running.
    Idle,
    /// A turn is running.
    Busy,
}

/// A fact that the machine is missing. The transport fetches it and answers with a [`Signal`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// What is this item? Answered by [`Signal::ItemSeen`] or [`Signal::ToolSeen`].
    Item(Key),
    /// Is a turn running? Answered by [`Signal::StatusProbed`].
    StatusProbe(TurnId),
}
