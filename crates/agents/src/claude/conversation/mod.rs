//! One conversation with a Claude Code process, without any I/O. Commands of the keeper and lines of the
//! agent go in; observations for the keeper and lines for the agent come out.
//!
//! | part | what it does |
//! |---|---|
//! | `lines` | reads a line and passes it to the part it is for |
//! | `turn` | where turns begin and end |
//! | `messages` | model calls and their content, streamed and whole |
//! | `users` | tool results, echoes of prompts, lines in the user's name |
//! | `asks` | permissions and questions |
//! | `replay` | a turn of the transcript, by the same rules |
//! | `commands` | what the keeper asks for, and the agent's answers to our requests |

mod asks;
mod commands;
mod lines;
mod messages;
mod replay;
#[cfg(test)]
mod tests;
mod turn;
mod users;

pub(super) use replay::{StoredStep, StoredTurn};

use super::outcome::AgentMessageError;
use super::plan::Plan;
use super::tools::Call;
use super::usage::{ProcessUsage, Totals};
use asks::OpenAsk;
use commands::Request;
use messages::Thread;
use serde_json::Value;
use std::collections::{HashMap, HashSet, VecDeque};
use turnstream_adapter::Observed;
use turnstream_model::event::{NoticeCode, SessionPatch, TurnError};
use turnstream_model::id::Key;
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;

/// The most gaps of a turn that are reported.
const MOST_GAPS: u32 = 64;

/// The session that a conversation is about.
pub struct ConversationSettings {
    /// The agent's id of the session.
    pub native_id: String,
}

/// The conversation with one process. Its end is the end of the process.
pub struct Conversation {
    observed: VecDeque<Observed>,
    lines: VecDeque<String>,
    /// The time of the current step.
    now: Time,
    turn: Option<OpenTurn>,
    /// Prompts that were written and have no turn yet.
    prompts: VecDeque<SentPrompt>,
    /// The background task whose end was announced while no turn was open: it wakes the agent.
    woken_by: Option<String>,
    /// The last model messages, of the main thread and of each subagent by its tool call.
    threads: HashMap<Option<String>, Thread>,
    /// Calls without a result.
    calls: HashMap<String, KnownCall>,
    /// Permissions and questions without an answer, by the agent's request id.
    asks: HashMap<String, OpenAsk>,
    /// Tasks that run, with their tool calls: subagents and commands.
    tasks: HashMap<String, String>,
    plan: Plan,
    /// The summary of this compaction follows.
    compaction: Option<Key>,
    /// Our requests without an answer.
    requests: HashMap<String, Request>,
    sent_requests: u64,
    usage: ProcessUsage,
    /// The tokens in the context after the last call.
    context_used: Option<u64>,
    model: Option<String>,
    last_result: String,
    /// When the limit of the subscription is over, while it is reached.
    limit_resets: Option<Time>,
    /// Types of lines that were reported as unknown.
    unknown: HashSet<String>,
    /// Gaps of the turn.
    gaps: u32,
}

/// A turn between its first sign and its result.
#[derive(Default)]
struct OpenTurn {
    /// The prompts it took.
    prompts: Vec<String>,
    /// The agent was asked to stop it.
    interrupted: bool,
    /// The history was summarised. The agent then prints old messages of its own again.
    compacted: bool,
    /// The agent did not stop it, because it had not begun with its prompt.
    interrupt_again: bool,
    /// Its calls that a person refused, or whose permission was withdrawn: they never ran.
    refused: HashSet<String>,
    /// An error that the agent wrote as a message. The result says whether the turn failed with it.
    error: Option<AgentMessageError>,
    plan: Option<Key>,
}

struct SentPrompt {
    native_id: String,
    /// The agent has repeated it, so it has read it.
    echoed: bool,
    /// It is to be stopped when it starts.
    unwanted: bool,
}

struct KnownCall {
    call: Call,
    parent: Option<String>,
}

impl Conversation {
    /// A conversation with a process that has just been started.
    pub fn new(settings: ConversationSettings) -> Self {
        let mut conversation = Self {
            observed: VecDeque::new(),
            lines: VecDeque::new(),
            now: Time::default(),
            turn: None,
            prompts: VecDeque::new(),
            woken_by: None,
            threads: HashMap::new(),
            calls: HashMap::new(),
            asks: HashMap::new(),
            tasks: HashMap::new(),
            plan: Plan::default(),
            compaction: None,
            requests: HashMap::new(),
            sent_requests: 0,
            usage: ProcessUsage::default(),
            context_used: None,
            model: None,
            last_result: String::new(),
            limit_resets: None,
            unknown: HashSet::new(),
            gaps: 0,
        };
        let native_id = Some(settings.native_id);
        conversation.signal(Signal::Session(SessionPatch { native_id, ..SessionPatch::default() }));
        conversation
    }

    /// The process begins with these totals.
    pub(super) fn count_from(&mut self, totals: Totals) {
        self.usage = ProcessUsage { totals, context_size: None };
    }

    /// What the process had counted at its last result.
    pub(super) fn totals(&self) -> Totals {
        self.usage.totals
    }

    /// The next observation for the keeper.
    pub fn next_observed(&mut self) -> Option<Observed> {
        self.observed.pop_front()
    }

    /// The next line for the agent, without its end.
    pub fn next_line(&mut self) -> Option<String> {
        self.lines.pop_front()
    }

    /// A line of this many bytes was too long to keep.
    pub fn oversized(&mut self, bytes: u64, now: Time) {
        self.now = now;
        self.gap(format!("a line of {bytes} bytes is too long, and was skipped"));
    }

    /// The process, or a pipe to it, has ended.
    pub fn exited(&mut self, error: TurnError) {
        self.flush_half_characters();
        self.signal(Signal::LinkLost(error));
    }

    /// Whether a subagent or a command works although no turn is open.
    pub fn works_in_background(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Something may be missing. An agent that prints garbage without end must not fill the log.
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

    fn write(&mut self, line: &Value) {
        self.lines.push_back(line.to_string());
    }
}
