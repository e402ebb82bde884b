//! One conversation with an ACP agent, without any I/O. Commands of the keeper and lines of the agent go in;
//! observations for the keeper, lines for the agent, and calls for the gateway come out.
//!
//! | part | what it does |
//! |---|---|
//! | `lines` | reads a line and passes it to the part it is for |
//! | `handshake` | `initialize`, and the session: new, resumed or loaded |
//! | `history` | what of a loaded session is in the log already |
//! | `turn` | where turns begin and end |
//! | `updates` | messages, thoughts, tool calls, plans, usage |
//! | `tool_keys` | the keys of tool calls |
//! | `asks` | permissions |
//! | `forms` | questions |
//! | `options` | the models and modes that the agent offers |
//! | `commands` | what the keeper asks for |

mod asks;
mod commands;
mod forms;
mod handshake;
mod history;
mod lines;
mod options;
#[cfg(test)]
mod tests;
mod tool_keys;
mod turn;
mod updates;

pub(super) use handshake::{Capabilities, Refusal, SessionState};
pub(super) use lines::Call;

use super::wire::RpcError;
use crate::unknown::Unknown;
use asks::OpenAsk;
use commands::Request;
use forms::OpenForm;
use history::History;
use options::Options;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet, VecDeque};
use tool_keys::Called;
use turn::{OpenPrompt, Spending};
use turnstream_adapter::{LoggedPart, Observed};
use turnstream_model::event::{NoticeCode, TurnError};
use turnstream_model::id::Key;
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;
use updates::TextItem;

/// The most gaps of a turn that are reported.
const MOST_GAPS: u32 = 64;
/// The agent, in notices.
const SENDER: &str = "the agent";

/// The session that a conversation is about.
#[derive(Clone, Debug, Default)]
pub struct ConversationSettings {
    /// The absolute path of the working directory.
    pub cwd: String,
    /// The agent's id of the session that is to go on; `None` for a new one.
    pub native_id: Option<String>,
    /// The model to use, if one was chosen.
    pub model: Option<String>,
    /// The mode to use, if one was chosen.
    pub mode: Option<String>,
    /// The session's MCP servers, as ACP has them.
    pub mcp: Vec<Value>,
    /// A word that no other process of the session has. It makes ids unique that agents count from zero.
    pub epoch: String,
    /// The conversation that the log has.
    pub known: Vec<LoggedPart>,
}

/// The conversation with one process. Its end is the end of the process.
pub struct Conversation {
    settings: ConversationSettings,
    observed: VecDeque<Observed>,
    lines: VecDeque<String>,
    calls: VecDeque<Call>,
    session: SessionState,
    capabilities: Capabilities,
    options: Options,
    /// Our requests without an answer.
    requests: HashMap<String, Request>,
    sent_requests: u64,
    /// The prompt whose response is awaited.
    prompt: Option<OpenPrompt>,
    /// Prompts that wait for that response: an agent may never answer a second one (codex-acp 0.16.0).
    waiting: VecDeque<(String, Vec<Value>)>,
    /// The text that grows.
    text: Option<TextItem>,
    /// Texts of the last turn that has ended. A cancelled message may go on after the response.
    ended_texts: VecDeque<TextItem>,
    /// The last turn was cancelled.
    was_cancelled: bool,
    /// Ids that were given to things without one.
    named: u64,
    /// The plan of the turn.
    plan: Option<Key>,
    /// Calls of a turn that nobody asked for, without their ends.
    running_tools: HashSet<String>,
    /// What running calls have printed, where the agent streams it.
    outputs: HashMap<String, String>,
    /// What a session that goes on has in the log.
    history: History,
    /// The turns that were begun here.
    turns: u64,
    /// The tool calls of this process, by the agent's ids.
    tool_keys: HashMap<String, Called>,
    /// Permissions without an answer, by our key.
    asks: HashMap<Key, OpenAsk>,
    /// Questions without an answer, by our key.
    forms: HashMap<Key, OpenForm>,
    spending: Spending,
    /// What was reported of the turn as unknown.
    unknown: Unknown,
    /// Gaps of the turn.
    gaps: u32,
    /// The next status probe asks because of a gap, and not because of silence.
    probed_for_gap: bool,
}

impl Conversation {
    /// A conversation with a process that has just been started. Its first line is ready.
    pub fn new(mut settings: ConversationSettings) -> Self {
        let is_new = settings.native_id.is_none();
        let known = std::mem::take(&mut settings.known);
        let mut conversation = Self {
            settings,
            observed: VecDeque::new(),
            lines: VecDeque::new(),
            calls: VecDeque::new(),
            session: SessionState::Opening,
            capabilities: Capabilities::default(),
            options: Options::default(),
            requests: HashMap::new(),
            sent_requests: 0,
            prompt: None,
            waiting: VecDeque::new(),
            text: None,
            ended_texts: VecDeque::new(),
            was_cancelled: false,
            named: 0,
            plan: None,
            running_tools: HashSet::new(),
            outputs: HashMap::new(),
            history: History::new(!is_new, known),
            turns: 0,
            tool_keys: HashMap::new(),
            asks: HashMap::new(),
            forms: HashMap::new(),
            spending: Spending::of_session(is_new),
            unknown: Unknown::default(),
            gaps: 0,
            probed_for_gap: false,
        };
        conversation.initialize();
        conversation
    }

    /// The next observation for the keeper.
    pub fn next_observed(&mut self) -> Option<Observed> {
        self.observed.pop_front()
    }

    /// The next line for the agent, without its end.
    pub fn next_line(&mut self) -> Option<String> {
        self.lines.pop_front()
    }

    /// The next request of the agent that the gateway serves.
    pub(super) fn next_call(&mut self) -> Option<Call> {
        self.calls.pop_front()
    }

    /// A line of this many bytes was too long to keep.
    pub fn oversized(&mut self, bytes: u64, _now: Time) {
        self.gap(format!("a line of {bytes} bytes is too long, and was skipped"));
    }

    /// The process, or a pipe to it, has ended.
    pub fn exited(&mut self, error: TurnError) {
        self.end_history();
        self.flush_half_character();
        self.report_counted_only();
        self.signal(Signal::LinkLost(error));
    }

    /// Something may be missing. An agent that prints garbage without end must not fill the log.
    fn gap(&mut self, reason: String) {
        self.gaps += 1;
        self.probed_for_gap = true;
        match self.gaps {
            1..MOST_GAPS => self.signal(Signal::Gap(reason)),
            MOST_GAPS => {
                self.signal(Signal::Gap(format!("{reason}; further ones of this turn are not told")))
            }
            _ => {}
        }
    }

    /// Reports something unknown of this agent. The history is not reported again.
    fn unknown(&mut self, what: &str, raw: Value) {
        if self.history.is_replay() {
            return;
        }
        if let Some(notice) = self.unknown.notice(SENDER, what, raw) {
            self.signal(notice);
        }
    }

    /// Reports how much that is not known was only counted.
    fn report_counted_only(&mut self) {
        if let Some(notice) = self.unknown.end_turn(SENDER) {
            self.signal(notice);
        }
    }

    fn signal(&mut self, signal: Signal) {
        self.observed.push_back(Observed::Signal(signal));
    }

    fn notice(&mut self, code: NoticeCode, message: String) {
        self.signal(Signal::Notice { code, message, detail: None });
    }

    /// An id for something that has none.
    fn fresh_name(&mut self, what: &str) -> String {
        self.named += 1;
        format!("{}:{what}:{}", self.settings.epoch, self.named)
    }

    // === lines for the agent ===

    fn request(&mut self, method: &str, params: Value, request: Request) {
        self.sent_requests += 1;
        // A text: the ids of agents are often numbers from zero.
        let id = format!("turnstream-{}", self.sent_requests);
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.lines.push_back(line.to_string());
        self.requests.insert(id, request);
    }

    fn notify(&mut self, method: &str, params: Value) {
        let line = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.lines.push_back(line.to_string());
    }

    /// Answers a request of the agent.
    pub(super) fn respond(&mut self, id: &Value, result: Result<Value, RpcError>) {
        let line = match result {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(RpcError { code, message, data: _ }) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
            }
        };
        self.lines.push_back(line.to_string());
    }
}
