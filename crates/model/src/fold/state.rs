//! The state of a session after its events so far, as a snapshot shows it.

use super::meter::Meter;
use super::trim::SpentKey;
use super::unattended::UnattendedState;
use super::user_message::UserMessage;
use crate::cursor::{Generation, Seq};
use crate::event::{
    Actor, ApprovalOption, ApprovalOutcome, By, Context, Continuation, Cost, ErrorClass, ItemKind, ItemState,
    Origin, Outcome, Permissions, Question, QuestionOutcome, ResumeAs, Role, StopReason, Tool, TurnError,
    Usage,
};
use crate::id::{ApprovalId, AttemptId, Counters, ItemId, PromptId, QuestionId, SessionId, TurnId};
use crate::time::Time;
use crate::words::words;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The fold at `seq`. With the events after `seq` it gives the same as all events together (L4).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The last event in it.
    pub seq: Seq,
    /// The session.
    pub session: Session,
    /// Turns in the order of their start.
    #[serde(default)]
    pub turns: Vec<Turn>,
    /// Items in the order of their start; superseded and removed ones are not here.
    #[serde(default)]
    pub items: Vec<Item>,
    /// Every approval, open and settled.
    #[serde(default)]
    pub approvals: Vec<Approval>,
    /// Every question, open and settled.
    #[serde(default)]
    pub questions: Vec<Asked>,
    /// Prompts without an outcome.
    #[serde(default)]
    pub queue: Vec<Prompt>,
    /// Prompts with an outcome.
    #[serde(default)]
    pub prompts: Vec<Prompt>,
    /// A promise is weakened at the moment; the last notice said so.
    #[serde(default)]
    pub degraded: bool,
    /// How many of each were started, for ids that are never reused.
    #[serde(default)]
    pub counters: Counters,
    /// Keys of prompts that retention has taken out, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spent: Vec<SpentKey>,
    /// When the last event happened that retention has taken out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trimmed: Option<Time>,
}

/// A fold as a client gets it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The log's generation.
    pub generation: Generation,
    /// The fold.
    #[serde(flatten)]
    pub state: State,
}

words! {
    /// What the agent of a session is doing.
    pub enum Activity {
        /// No turn is open.
        Idle = "idle",
        /// A turn is open.
        Busy = "busy",
        /// A turn waits for a person.
        Waiting = "waiting",
        /// After a crash, what was open is being settled.
        Recovering = "recovering",
        /// A turn waits to repeat a model call, or the session waits to continue a turn.
        Retrying = "retrying",
    }
}

/// The session itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Its id, once it is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<SessionId>,
    /// Its agent.
    #[serde(default)]
    pub agent: String,
    /// Where it works.
    #[serde(default)]
    pub cwd: String,
    /// For a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The model in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The agent's mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The agent's own id of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_id: Option<String>,
    /// How full the context is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    /// How permission requests are handled. The default is that a person decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// Whether secrets in prompts are redacted. The default is yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redact_prompts: Option<bool>,
    /// The client's own key of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The names of its own MCP servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp: Vec<String>,
    /// How it went on when its agent had last forgotten it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<Resumed>,
    /// The session from whose finished items it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Inherited>,
    /// The sessions that go on from its finished items.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handed_over: Vec<SessionId>,
    /// The last prompt was sent without the text or transcript that waits for one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bare_prompt: bool,
    /// Its budget, and what it has used of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Box<Meter>>,
    /// How it goes on after a limit or a failure, and whether it waits for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unattended: Option<Box<UnattendedState>>,
    /// The tokens of all turns that have ended, also of those that retention has taken out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
    /// Their cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// How its last turn ended, if not well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<BadEnd>,
    /// What the agent is doing.
    pub status: Activity,
    /// Why and until when it waits, while `retrying`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// When it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Time>,
    /// Why it ended, once it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            id: None,
            agent: String::new(),
            cwd: String::new(),
            title: None,
            model: None,
            mode: None,
            native_id: None,
            context: None,
            permissions: None,
            redact_prompts: None,
            key: None,
            mcp: Vec::new(),
            resumed: None,
            from: None,
            handed_over: Vec::new(),
            bare_prompt: false,
            budget: None,
            unattended: None,
            usage: None,
            cost: None,
            last: None,
            status: Activity::Idle,
            retry: None,
            created: None,
            ended: None,
        }
    }
}

/// How a turn ended that was not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadEnd {
    /// `cancelled`, `failed` or `lost`.
    pub outcome: Outcome,
    /// The class of its error, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ErrorClass>,
}

impl BadEnd {
    /// `None` for a turn that was completed.
    pub(super) fn of(outcome: Outcome, error: Option<&TurnError>) -> Option<Self> {
        match outcome {
            Outcome::Completed => None,
            Outcome::Cancelled | Outcome::Failed | Outcome::Lost => {
                Some(Self { outcome, class: error.map(|error| error.class) })
            }
        }
    }
}

/// A session that goes on although its agent had forgotten it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// What was chosen.
    pub r#as: ResumeAs,
    /// The agent's id of what it had forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgot: Option<String>,
    /// When it was chosen. Everything that happened before has an earlier time.
    pub time: Time,
    /// The agent is yet to be given the transcript: it goes out with the next prompt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
}

/// The session that another one goes on from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inherited {
    /// Its id.
    pub session: SessionId,
    /// Its agent.
    pub agent: String,
    /// The agent is yet to be given its finished items: they go out with the next prompt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
}

/// A wait for a repeated model call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// Which retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The class of the error that is retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ErrorClass>,
    /// When the call is repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// The error in the agent's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

words! {
    /// How far a prompt has come.
    pub enum PromptStage {
        /// In the queue.
        Waiting = "waiting",
        /// Sent to the agent.
        Sent = "sent",
        /// In a turn.
        Taken = "taken",
        /// Taken out of the queue.
        Withdrawn = "withdrawn",
    }
}

/// User input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// Its id.
    pub prompt: PromptId,
    /// The client's own key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The client that sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
    /// What was said.
    pub content: Vec<Value>,
    /// How far it has come.
    pub state: PromptStage,
    /// The agent's id of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_id: Option<String>,
    /// Who wanted it to stop after it was sent and before it had a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelling: Option<By>,
    /// The turn that took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The turn that it continues, and why. The gateway made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<Continuation>,
    /// When it was accepted.
    pub time: Time,
}

/// One exchange.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Its id.
    pub turn: TurnId,
    /// Who made it start.
    pub origin: Origin,
    /// The prompts in it.
    pub prompts: Vec<PromptId>,
    /// The agent's own id of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_id: Option<String>,
    /// When it started.
    pub started: Time,
    /// The model of the session when it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The agent's mode when it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Its model calls.
    #[serde(default)]
    pub attempts: Vec<Attempt>,
    /// The turn that it continues, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<Continuation>,
    /// Who asked for its end, before it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelling: Option<By>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// How it ended; absent while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Why it stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// Its tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Its cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TurnError>,
}

/// One model call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its id.
    pub attempt: AttemptId,
    /// Which step of the turn.
    pub step: u32,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The agent's own id of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_id: Option<String>,
    /// The last message of the user before it. Absent if that is the prompt that the turn began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<UserMessage>,
    /// It has ended or was superseded.
    #[serde(default)]
    pub ended: bool,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<String>,
    /// Its tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Its cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The call that repeated and replaced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<AttemptId>,
}

words! {
    /// The state of an item.
    pub enum ItemStage {
        /// Open.
        Streaming = "streaming",
        /// Whole.
        Completed = "completed",
        /// It reported a failure.
        Failed = "failed",
        /// Cut off.
        Abandoned = "abandoned",
        /// It may or may not have happened.
        Unknown = "unknown",
    }
}

impl From<ItemState> for ItemStage {
    fn from(state: ItemState) -> Self {
        match state {
            ItemState::Completed => Self::Completed,
            ItemState::Failed => Self::Failed,
            ItemState::Abandoned => Self::Abandoned,
            ItemState::Unknown => Self::Unknown,
        }
    }
}

/// One thing in a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Its id.
    #[serde(rename = "item")]
    pub id: ItemId,
    /// Its turn; background work has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// Its model call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptId>,
    /// The tool item whose subagent made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ItemId>,
    /// What it is.
    pub kind: ItemKind,
    /// Whose message it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The agent wrote it in the user's name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub synthetic: bool,
    /// Its text so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A tool's arguments as the model writes them, until they are known whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// A tool's output as it appears.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Box<Tool>>,
    /// The agent's own id of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_id: Option<String>,
    /// Where it stands.
    pub state: ItemStage,
    /// Why it ended so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Some of it may be missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// What made it end so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caused_by: Option<String>,
    /// It was corrected after its turn had ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
    /// When it started.
    pub time: Time,
}

/// The agent waiting for a permission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// Its id.
    pub approval: ApprovalId,
    /// Its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The call it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<ItemId>,
    /// The call as the ask showed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Box<Tool>>,
    /// What may be answered.
    #[serde(default)]
    pub options: Vec<ApprovalOption>,
    /// The agent's own id of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_id: Option<String>,
    /// How it was settled; absent while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ApprovalOutcome>,
    /// By whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<By>,
    /// The client that answered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
    /// Which of the offered answers it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// What the person said with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The client's own key of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// When it was asked.
    pub time: Time,
}

/// The agent waiting for an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Its id.
    pub question: QuestionId,
    /// Its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The call that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<ItemId>,
    /// What is asked.
    pub questions: Vec<Question>,
    /// The agent's own id of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_id: Option<String>,
    /// How it was settled; absent while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<QuestionOutcome>,
    /// The client that answered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
    /// What was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Map<String, Value>>,
    /// The client's own key of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// When it was asked.
    pub time: Time,
}
