//! The translator: events and stored messages of opencode in, signals out. It does no I/O.
//!
//! It knows what opencode's messages mean. It keeps track of the turn that runs, to tell late news of the
//! turn before from news of this one. Whether a turn has ended is decided by the turn machine, not here.
//! What it cannot know, it asks for as a [`Want`].
//!
//! | file | task |
//! |---|---|
//! | `session` | status, idle, errors and to-do lists of the session |
//! | `turn` | the turn that runs |
//! | `messages` | messages and their parts: model calls and items |
//! | `asks` | permissions and questions |
//! | `subagents` | the sessions of subagents |
//! | `snapshot` | stored messages, read after a gap or a restart |
//! | `thread` | what is known of the messages and parts of one session |
//! | `usage`, `past_messages` | tokens and cost of a turn; messages of earlier turns |

mod asks;
mod messages;
mod past_messages;
mod session;
mod snapshot;
mod subagents;
mod thread;
mod turn;
mod usage;

pub use session::deleted;
pub use snapshot::Stored;
pub(crate) use snapshot::readable;

use super::event::{Event, Kind};
use super::info::{AgentError, Status};
use past_messages::PastMessages;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use thread::{Thread, ThreadPlace};
use turnstream_model::event::{ItemState, NoticeCode};
use turnstream_model::id::Key;
use turnstream_model::signal::Signal;
use usage::TurnUsage;

/// A fact that the translator lacks and the server knows.
#[derive(Clone, Debug, PartialEq)]
pub enum Want {
    /// A message, with its parts.
    Message {
        /// The session of the message.
        session: String,
        /// The id of the message.
        message: String,
    },
    /// The events of this subagent's session.
    Child(String),
    /// Whether the turn runs: an end came that names no session, with this error.
    StatusProbe(Option<AgentError>),
}

/// The result of one event.
#[derive(Debug, Default)]
pub struct Translated {
    /// The signals, in order.
    pub signals: Vec<Signal>,
    /// The facts that are missing.
    pub wants: Vec<Want>,
}

/// The prompt of the gateway that the turn is for.
struct OwnPrompt {
    prompt: String,
    /// When opencode stored it; `None` until a sign of it was seen.
    created: Option<f64>,
    /// It asks for a compaction, whose message gets an id of opencode: this one, once it was seen.
    compaction: Option<Option<String>>,
}

impl OwnPrompt {
    fn new(prompt: &str) -> Self {
        Self { prompt: prompt.to_owned(), created: None, compaction: None }
    }

    /// Whether its message has this id at opencode.
    fn is_message(&self, id: &str) -> bool {
        self.prompt == id || self.compaction.as_ref().is_some_and(|known| known.as_deref() == Some(id))
    }
}

/// The translator for one session and its subagents.
pub struct Translator {
    main: Thread,
    children: HashMap<String, Thread>,
    /// Messages of earlier turns.
    past: PastMessages,
    /// Messages that are prompts of the gateway. Their text is already in the log.
    ours: HashSet<String>,
    usage: TurnUsage,
    /// The number of the turn.
    turn: u64,
    /// Model calls of the session itself in this turn.
    steps: u32,
    /// The first message of this turn.
    first: Option<String>,
    /// The prompt that this turn is for.
    own: Option<OwnPrompt>,
    /// The last finish reason of this turn.
    finish: Option<String>,
    /// A permission or a question was refused since the last model call started.
    refused: bool,
    /// No turn runs: the next answer starts one.
    at_rest: bool,
    /// The session showed a sign of work since the prompt was sent.
    evidence: bool,
    /// A stored message is being read, not an event.
    reading_stored: bool,
    /// The prompt was refused as busy, and content of the running turn was ignored before.
    ignored_other: bool,
    /// Open permissions and questions, with the session that asks.
    asks: HashMap<Key, String>,
    /// Unknown event types, with how often they came.
    unknown: HashMap<String, u64>,
}

impl Translator {
    /// A translator for that session of opencode.
    pub fn new(session: &str) -> Self {
        Self {
            main: Thread::new(session, ThreadPlace::Root, 1),
            children: HashMap::new(),
            past: PastMessages::default(),
            ours: HashSet::new(),
            usage: TurnUsage::default(),
            turn: 1,
            steps: 0,
            first: None,
            own: None,
            finish: None,
            refused: false,
            at_rest: true,
            evidence: false,
            reading_stored: false,
            ignored_other: false,
            asks: HashMap::new(),
            unknown: HashMap::new(),
        }
    }

    /// The session it is for.
    pub fn session(&self) -> &str {
        self.main.session()
    }

    /// The session and the message of an item, if anything of it was seen.
    pub fn message_of(&self, key: &Key) -> Option<(String, String)> {
        let threads = std::iter::once(&self.main).chain(self.children.values());
        threads
            .filter_map(|thread| Some((thread.session().to_owned(), thread.message_of(key)?.to_owned())))
            .next()
    }

    /// Messages that must be fetched before an idle can end the turn: parts or deltas came without them.
    pub fn unintroduced(&self) -> Vec<Want> {
        let threads = std::iter::once(&self.main).chain(self.children.values());
        let mut wants: Vec<Want> = Vec::new();
        for thread in threads {
            for message in thread.unintroduced() {
                let want =
                    Want::Message { session: thread.session().to_owned(), message: message.to_owned() };
                if !wants.contains(&want) {
                    wants.push(want);
                }
            }
        }
        wants
    }

    /// True if the end of a part was missed: its message is complete.
    pub fn has_unended(&self) -> bool {
        self.main.has_unended()
    }

    /// The sessions of the subagents that are known.
    pub fn children(&self) -> impl Iterator<Item = &str> {
        self.children.keys().map(String::as_str)
    }

    /// The session that an open permission or question came from.
    pub fn asked_by(&self, key: &Key) -> Option<&str> {
        self.asks.get(key).map(String::as_str)
    }

    /// Open permissions and questions.
    pub fn open_asks(&self) -> impl Iterator<Item = &Key> {
        self.asks.keys()
    }

    /// Drops a permission or question that is settled.
    pub fn forget_ask(&mut self, key: &Key) {
        self.asks.remove(key);
    }

    /// The unknown event types, with how often they came.
    pub fn unknown_types(&self) -> &HashMap<String, u64> {
        &self.unknown
    }

    /// Translates one event.
    pub fn observe(&mut self, event: &Arc<Event>, out: &mut Translated) {
        // By far the most frequent event.
        if let Kind::Delta(delta) = &event.kind
            && event.session() == Some(self.main.session())
        {
            return self.delta(delta, None, out);
        }
        match event.session() {
            None => self.unscoped(event, out),
            Some(session) if session == self.main.session() => self.of_main(event, out),
            Some(session) => {
                let session = session.to_owned();
                self.of_child(&session, event, out);
            }
        }
    }

    fn unscoped(&mut self, event: &Event, out: &mut Translated) {
        match &event.kind {
            Kind::Error(error) => out.wants.push(Want::StatusProbe(error.clone())),
            Kind::Idle | Kind::Status(Status::Idle) => out.wants.push(Want::StatusProbe(None)),
            Kind::Unknown(name) => self.note_unknown(name, out),
            _ => {}
        }
    }

    fn note_unknown(&mut self, name: &str, out: &mut Translated) {
        let count = self.unknown.entry(name.to_owned()).or_default();
        *count += 1;
        if *count == 1 {
            let message =
                format!("opencode sent events of the type {name:?}, which this version does not know");
            out.signals.push(Signal::Notice { code: NoticeCode::UnknownEvent, message, detail: None });
        }
    }

    fn thread(&self, child: Option<&str>) -> Option<&Thread> {
        match child {
            Some(child) => self.children.get(child),
            None => Some(&self.main),
        }
    }

    fn thread_mut(&mut self, child: Option<&str>) -> &mut Thread {
        match child.and_then(|child| self.children.get_mut(child)) {
            Some(thread) => thread,
            None => &mut self.main,
        }
    }
}

/// True if opencode reports a finish reason of the model as an error. The message has it as its finish too.
fn is_finish(error: &AgentError) -> bool {
    matches!(error.name.as_str(), "ContentFilterError" | "MessageOutputLengthError")
}

/// A value as text.
fn text_of(value: Option<&Value>) -> Option<&str> {
    value?.as_str()
}

/// The end of a part whose model call is repeated: opencode does not remove it.
fn retried(key: Key) -> Signal {
    Signal::ItemEnded { key, state: ItemState::Abandoned, reason: Some("retried".to_owned()) }
}
