//! One conversation with a Codex app-server, without any I/O. Commands of the keeper and messages of the
//! server go in; observations for the keeper and messages for the server come out.
//!
//! | part | what it does |
//! |---|---|
//! | `opening` | the first requests of a connection: the server, and its thread |
//! | `lines` | reads a message and passes it to the part it is for |
//! | `turn` | where turns begin and end |
//! | `items` | texts and tool calls, of the thread and of its subagents |
//! | `asks` | permissions and questions |
//! | `elicitation` | requests of MCP servers: permissions for their tools, and forms |
//! | `commands` | what the keeper asks for, and the server's answers to our requests |
//! | `resync` | compares the thread with the log: after a restart, a lost connection or a gap |
//! | `children` | resumes the threads of subagents on a new connection |

mod asks;
mod children;
mod commands;
mod elicitation;
mod items;
mod lines;
mod opening;
mod resync;
#[cfg(test)]
mod tests;
mod turn;

pub(super) use opening::{Opening, OpeningError};

use super::limits::RateLimits;
use super::usage::ThreadUsage;
use super::wire::TurnFailure;
use crate::unknown::Unknown;
use asks::OpenAsk;
use commands::{Request, SentPrompt};
use items::{KnownItem, Leftover};
use resync::Recovery;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use turnstream_adapter::{Choice, McpServer, Observed};
use turnstream_model::event::{NoticeCode, TurnError, Usage};
use turnstream_model::id::{Key, TurnId};
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;

/// The most gaps of a turn that are reported.
const MOST_GAPS: u32 = 64;
/// How many ended turns are remembered. Later messages about them are late.
const ENDED_KEPT: usize = 16;

/// The settings of the session.
#[derive(Clone, Debug, Default)]
pub struct ConversationSettings {
    /// The working directory.
    pub cwd: String,
    /// The model, if one was chosen.
    pub model: Option<String>,
    /// The mode, if one was chosen.
    pub mode: Option<String>,
    /// The MCP servers of the session.
    pub mcp: Vec<McpServer>,
}

/// The conversation about one thread, over one connection after the other.
pub struct Conversation {
    settings: ConversationSettings,
    /// Members that point the thread at a route of the gateway, or null.
    route: Value,
    opening: Opening,
    /// A thread that cannot be resumed had no turn yet: a new one takes its place.
    begins_anew: bool,
    observed: VecDeque<Observed>,
    lines: VecDeque<String>,
    /// The time of the current step.
    now: Time,
    /// The id of the thread; empty until it is known.
    thread: String,
    /// The file in which Codex keeps the thread.
    thread_file: Option<String>,
    /// Our requests without an answer, by our ids.
    requests: HashMap<u64, Request>,
    sent_requests: u64,
    /// Prompts whose connection broke before the server had answered.
    unanswered: Vec<SentPrompt>,
    turn: Option<OpenTurn>,
    /// The last turns that have ended.
    ended: VecDeque<String>,
    /// Items of open turns.
    items: HashMap<String, KnownItem>,
    /// Commands that went on when their turn ended, by turn and item.
    leftover: HashMap<String, Leftover>,
    /// Threads of subagents.
    children: HashMap<String, ChildThread>,
    /// The last call that started a subagent.
    last_spawn: Option<Key>,
    /// Permissions and questions without an answer, by the server's request id.
    asks: HashMap<String, OpenAsk>,
    usage: ThreadUsage,
    /// The limits of the account.
    limits: RateLimits,
    /// A model or mode that was chosen since the last turn.
    changed: Changed,
    models: Vec<Choice>,
    recovery: Option<Recovery>,
    /// Status probes of the keeper that wait for an answer of the server.
    probes: Vec<TurnId>,
    /// Messages that wait until the thread was compared with the log.
    held: Option<Vec<Vec<u8>>>,
    /// What was reported of the turn as unknown.
    unknown: Unknown,
    /// Gaps of the turn.
    gaps: u32,
}

/// The turn that runs.
struct OpenTurn {
    id: String,
    /// The prompts it took.
    prompts: Vec<String>,
    /// A stop came too early for the server, or was lost, and is repeated.
    interrupt_again: bool,
    /// Model calls so far, with those of an earlier link.
    calls: usize,
    /// A model call has shown something, and was not counted yet.
    call_is_open: bool,
    /// What went wrong last.
    failure: Option<TurnFailure>,
    /// The tokens of all calls, subagents included.
    usage: Option<Usage>,
    /// The task list.
    plan: Option<Key>,
}

/// The thread of a subagent.
#[derive(Default)]
struct ChildThread {
    /// The call that started it.
    parent: Option<Key>,
    /// It works.
    busy: bool,
    /// This connection hears of it.
    heard: bool,
    usage: ThreadUsage,
}

#[derive(Default)]
struct Changed {
    model: Option<String>,
    mode: Option<String>,
}

impl Conversation {
    /// A conversation without a connection.
    pub fn new(settings: ConversationSettings) -> Self {
        Self {
            settings,
            route: Value::Null,
            opening: Opening::Closed,
            begins_anew: false,
            observed: VecDeque::new(),
            lines: VecDeque::new(),
            now: Time::default(),
            thread: String::new(),
            thread_file: None,
            requests: HashMap::new(),
            sent_requests: 0,
            unanswered: Vec::new(),
            turn: None,
            ended: VecDeque::new(),
            items: HashMap::new(),
            leftover: HashMap::new(),
            children: HashMap::new(),
            last_spawn: None,
            asks: HashMap::new(),
            usage: ThreadUsage::default(),
            limits: RateLimits::default(),
            changed: Changed::default(),
            models: Vec::new(),
            recovery: None,
            probes: Vec::new(),
            held: None,
            unknown: Unknown::default(),
            gaps: 0,
        }
    }

    /// The next observation for the keeper.
    pub fn next_observed(&mut self) -> Option<Observed> {
        self.observed.pop_front()
    }

    /// The next message for the server.
    pub fn next_line(&mut self) -> Option<String> {
        self.lines.pop_front()
    }

    /// A prompt cannot be sent.
    pub(super) fn refuse(&mut self, native_id: String, error: TurnError) {
        self.signal(Signal::PromptRefused { native_id, error });
    }

    /// The server is gone.
    pub fn exited(&mut self, error: TurnError) {
        self.report_counted_only();
        self.signal(Signal::LinkLost(error));
    }

    /// Whether a subagent or a command works although no turn is open.
    pub fn works_in_background(&self) -> bool {
        self.awaits_leftover() || self.children.values().any(|child| child.busy)
    }

    /// The id of the thread, and the file in which Codex keeps it. Empty until the thread is open.
    pub(super) fn thread(&self) -> (&str, Option<&str>) {
        (&self.thread, self.thread_file.as_deref())
    }

    /// The models that the server offers.
    pub(super) fn models(&self) -> &[Choice] {
        &self.models
    }

    /// Something may be missing. A server that prints garbage without end must not fill the log.
    fn gap(&mut self, reason: String) {
        self.gaps += 1;
        match self.gaps {
            1..MOST_GAPS => self.signal(Signal::Gap(reason)),
            MOST_GAPS => {
                self.signal(Signal::Gap(format!("{reason}; further ones of this turn are not told")))
            }
            _ => {}
        }
    }

    fn signal(&mut self, signal: Signal) {
        self.observed.push_back(Observed::Signal(signal));
    }

    fn notice(&mut self, code: NoticeCode, message: String) {
        self.signal(Signal::Notice { code, message, detail: None });
    }

    fn request(&mut self, method: &str, params: Value, request: Request) {
        let id = self.sent_requests;
        self.sent_requests += 1;
        self.write(&json!({"id": id, "method": method, "params": params}));
        self.requests.insert(id, request);
    }

    fn write(&mut self, message: &Value) {
        self.lines.push_back(message.to_string());
    }
}
