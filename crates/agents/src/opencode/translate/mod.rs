//! The pure translator: events of opencode in, signals out. It knows what opencode's words mean, and nothing of turns:
//! those are the machine's. It asks for what it cannot know.

mod asks;
mod below;
mod messages;
mod past;
mod snapshot;
mod thread;
mod totals;

pub use snapshot::Stored;

use super::event::{Event, Kind};
use super::fault::{shorten, turn_error};
use super::info::{AgentError, SessionInfo, Status, Todo};
use past::Past;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use thread::{Author, Message, Place, Thread};
use totals::Totals;
use turnstream_model::event::{
    ErrorClass, Field, ItemKind, ItemState, NoticeCode, SessionPatch, StopReason, TurnError,
};
use turnstream_model::id::Key;
use turnstream_model::signal::{Finality, ItemSeen, Signal};
use turnstream_model::time::Time;

/// What the translator cannot know and the transport can find out.
#[derive(Clone, Debug, PartialEq)]
pub enum Want {
    /// A message, with its parts.
    Message {
        /// Its session.
        session: String,
        /// The message.
        message: String,
    },
    /// A subagent's session whose events are to come here too.
    Child(String),
    /// Somebody's turn ended, perhaps ours: the server has to be asked.
    Truth(Option<AgentError>),
}

/// What came of an event.
#[derive(Debug, Default)]
pub struct Found {
    /// What was observed, in order.
    pub signals: Vec<Signal>,
    /// What is missing.
    pub wants: Vec<Want>,
}

/// A prompt of ours.
struct Own {
    prompt: String,
    /// When opencode stored it; not known before anything of it was seen.
    created: Option<f64>,
}

/// The translator of one session and its subagents.
pub struct Translator {
    main: Thread,
    children: HashMap<String, Thread>,
    /// Messages of turns that are long over.
    past: Past,
    /// Messages that are prompts of ours: their text is in the log already.
    ours: HashSet<String>,
    totals: Totals,
    turn: u64,
    /// Model calls of the session itself in this turn.
    steps: u32,
    /// The first message of this turn.
    first: Option<String>,
    /// The prompt of ours that this turn is for.
    own: Option<Own>,
    /// The last finish of this turn.
    finish: Option<String>,
    /// Somebody refused a permission or a question since the last model call began.
    refused: bool,
    /// The session is at rest: the next answer begins another turn.
    rests: bool,
    /// It showed that it works, since this was last asked.
    evidence: bool,
    /// What is taken in is from the server's store.
    storing: bool,
    /// Our prompt was refused, and something of the turn that runs was left out before that was known.
    behind: bool,
    /// Asks that wait, with the session that asks.
    asks: HashMap<Key, String>,
    /// Types this version does not know, and how often they came.
    unknown: HashMap<String, u64>,
}

impl Translator {
    /// A translator for that session of opencode.
    pub fn new(session: &str) -> Self {
        Self {
            main: Thread::new(session, Place::Root, 1),
            children: HashMap::new(),
            past: Past::default(),
            ours: HashSet::new(),
            totals: Totals::default(),
            turn: 1,
            steps: 0,
            first: None,
            own: None,
            finish: None,
            refused: false,
            rests: true,
            evidence: false,
            storing: false,
            behind: false,
            asks: HashMap::new(),
            unknown: HashMap::new(),
        }
    }

    /// The session it is for.
    pub fn session(&self) -> &str {
        self.main.session()
    }

    /// A prompt leaves under this name: another turn begins.
    pub fn prompted(&mut self, message: &str) {
        // Sent again it is the same prompt, and the same turn.
        if self.own.as_ref().is_some_and(|own| own.prompt == message) {
            self.evidence = false;
            return;
        }
        self.ours.insert(message.to_owned());
        self.begin_turn();
        self.own = Some(Own { prompt: message.to_owned(), created: None });
        self.first = Some(message.to_owned());
        self.evidence = false;
    }

    /// Takes up a turn that another owner left open, by the names of its prompts and of its model calls.
    pub fn resume(&mut self, prompts: &[String], calls: &[Key]) {
        self.ours.extend(prompts.iter().cloned());
        self.rests &= prompts.is_empty();
        self.first = prompts.first().cloned();
        for call in calls {
            let (id, repeats) = match call.as_str().split_once('#') {
                Some((id, nth)) => (id, nth.parse::<u32>().unwrap_or(1).saturating_sub(1)),
                None => (call.as_str(), 0),
            };
            let message = self.main.message(id);
            message.author = Author::Assistant;
            message.begun = true;
            message.repeats = message.repeats.max(repeats);
            message.seen_steps = message.repeats + 1;
            self.first.get_or_insert_with(|| id.to_owned());
            self.steps += 1;
            self.rests = false;
        }
    }

    /// True when this prompt was the last one to leave.
    pub fn is_for(&self, prompt: &str) -> bool {
        self.own.as_ref().is_some_and(|own| own.prompt == prompt)
    }

    /// Whether the session showed that it works since it was prompted.
    pub fn has_evidence(&self) -> bool {
        self.evidence
    }

    /// Whether anything was seen of the prompt itself, and not only that somebody works.
    pub fn has_own_evidence(&self) -> bool {
        self.own.as_ref().is_none_or(|own| own.created.is_some())
    }

    /// The prompt was refused because another runs: what is seen now is that one's work. True when something of it was
    /// taken for late news of an earlier turn, and has to be had from the server.
    pub fn behind_another(&mut self) -> bool {
        self.own = None;
        self.first = None;
        self.evidence = false;
        let turn = self.turn;
        self.behind = self.main.messages.values().any(|message| {
            message.turn == turn && (message.author == Author::Past || !message.held.is_empty())
        });
        self.behind
    }

    /// The turn that the refused prompt waits for is the last of the session: what was seen of it counts after all.
    pub fn take_up_other(&mut self, messages: &[Stored]) {
        if !std::mem::take(&mut self.behind) {
            return;
        }
        self.assume_last_turn(messages);
        let begins =
            messages.iter().position(|stored| self.first.as_deref() == Some(stored.info.id.as_str()));
        for stored in begins.into_iter().flat_map(|first| &messages[first..]) {
            let known = self.main.message(&stored.info.id);
            if known.author == Author::Past {
                known.author = Author::Unknown;
            }
        }
    }

    /// True when nothing of the turn is known to run: no step is open and none is announced. That a message is over may
    /// not have been heard.
    pub fn looks_finished(&self) -> bool {
        let waits_for_tools = matches!(self.finish.as_deref(), Some("tool-calls" | "unknown"));
        let steps = |message: &Message| message.stepping && !message.over && message.turn == self.turn;
        let is_stepping = self.main.messages.values().any(steps);
        !self.rests && self.finish.is_some() && !waits_for_tools && !is_stepping
    }

    /// True when the last model call asked for tools and nobody refused one: another call is due.
    pub fn is_between_calls(&self) -> bool {
        self.finish.as_deref() == Some("tool-calls") && !self.refused
    }

    /// Somebody refused what was asked: the turn stops at that call (captures d2, e2), or goes on (d3).
    pub fn refuse(&mut self) {
        self.refused = true;
    }

    /// True while an answer is not over.
    pub fn has_open_answer(&self) -> bool {
        self.main.open_answers().next().is_some()
    }

    /// True between the end of a turn and the next sign of work.
    pub fn rests(&self) -> bool {
        self.rests
    }

    /// Counts the turns that began.
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// Model calls of this turn.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// Tokens of this turn, subagents included.
    pub fn tokens(&self) -> u64 {
        self.totals.tokens()
    }

    /// Cost of this turn in dollars, subagents included.
    pub fn cost(&self) -> f64 {
        self.totals.cost()
    }

    /// Which message of which session has this item, if any piece of it came.
    pub fn message_of(&self, key: &Key) -> Option<(String, String)> {
        let threads = std::iter::once(&self.main).chain(self.children.values());
        threads
            .filter_map(|thread| Some((thread.session().to_owned(), thread.message_of(key)?.to_owned())))
            .next()
    }

    /// Messages that have to be fetched before the end of the turn can be believed.
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

    /// True when the end of something was not heard, although its message is over.
    pub fn has_unended(&self) -> bool {
        self.main.has_unended()
    }

    /// The subagents' sessions that are known.
    pub fn children(&self) -> impl Iterator<Item = &str> {
        self.children.keys().map(String::as_str)
    }

    /// The session that an open ask came from.
    pub fn asked_by(&self, key: &Key) -> Option<&str> {
        self.asks.get(key).map(String::as_str)
    }

    /// Asks that nobody has answered.
    pub fn open_asks(&self) -> impl Iterator<Item = &Key> {
        self.asks.keys()
    }

    /// An ask needs nothing more.
    pub fn forget_ask(&mut self, key: &Key) {
        self.asks.remove(key);
    }

    /// Types that came and are not known, with how often.
    pub fn unknown_types(&self) -> &HashMap<String, u64> {
        &self.unknown
    }

    /// Takes in one event.
    pub fn observe(&mut self, event: &Arc<Event>, found: &mut Found) {
        // By far the most frequent one.
        if let Kind::Delta(delta) = &event.kind
            && event.session() == Some(self.main.session())
        {
            return self.delta(delta, None, found);
        }
        match event.session() {
            None => self.unscoped(event, found),
            Some(session) if session == self.main.session() => self.of_main(event, found),
            Some(session) => {
                let session = session.to_owned();
                self.of_child(&session, event, found);
            }
        }
    }

    fn unscoped(&mut self, event: &Event, found: &mut Found) {
        match &event.kind {
            Kind::Error(error) => found.wants.push(Want::Truth(error.clone())),
            Kind::Idle | Kind::Status(Status::Idle) => found.wants.push(Want::Truth(None)),
            Kind::Unknown(name) => self.note_unknown(name, found),
            _ => {}
        }
    }

    fn note_unknown(&mut self, name: &str, found: &mut Found) {
        let count = self.unknown.entry(name.to_owned()).or_default();
        *count += 1;
        if *count == 1 {
            let message =
                format!("opencode sent events of the type {name:?}, which this version does not know");
            found.signals.push(Signal::Notice { code: NoticeCode::UnknownEvent, message, detail: None });
        }
    }

    // === the session itself ===

    fn of_main(&mut self, event: &Arc<Event>, found: &mut Found) {
        let idle_said = std::mem::take(&mut self.main.idle_said);
        match &event.kind {
            Kind::Status(status) => self.status(status, found),
            // The pair is one idle: taken as two, the second would confirm the first.
            Kind::Idle if idle_said => {}
            Kind::Idle => self.idle(found),
            Kind::Error(error) => {
                if let Some(error) = error.as_ref().filter(|error| !is_finish(error)) {
                    found.signals.push(Signal::Failed(turn_error(error)));
                }
            }
            Kind::SessionCreated(info) | Kind::SessionUpdated(info) => session_changed(info, found),
            Kind::SessionDeleted => found.signals.extend(deleted()),
            Kind::Unknown(name) => self.note_unknown(name, found),
            Kind::Message(info) => self.message(info, None, found),
            Kind::Part(part) => self.part(part, None, found),
            Kind::Delta(delta) => self.delta(delta, None, found),
            Kind::MessageRemoved { message } => self.message_removed(message, None, found),
            Kind::PartRemoved { part } => self.part_removed(part, None, found),
            Kind::PermissionAsked(_)
            | Kind::PermissionReplied { .. }
            | Kind::QuestionAsked(_)
            | Kind::QuestionReplied { .. }
            | Kind::QuestionRejected { .. } => self.ask(event, None, found),
            Kind::Todos(todos) => self.todos(todos, found),
            Kind::Connected | Kind::Heartbeat | Kind::Disposed | Kind::Other(_) => {}
        }
    }

    fn status(&mut self, status: &Status, found: &mut Found) {
        match status {
            Status::Idle => {
                self.main.idle_said = true;
                self.idle(found);
            }
            Status::Busy => {
                self.evidence = true;
                found.signals.push(Signal::TurnBegan { origin: None, prompts: Vec::new(), native_id: None });
                self.repeat_begins(found);
            }
            Status::Unknown => {}
            Status::Retry { attempt, message: words, next } => {
                self.evidence = true;
                let open: Vec<String> = self.main.open_answers().map(str::to_owned).collect();
                let mut is_new = open.is_empty();
                for id in open {
                    let message = self.main.message(&id);
                    // One that is known already comes again when the server was ahead of its stream.
                    let is_known = *attempt > 0 && *attempt <= message.repeats;
                    if !is_known && message.ahead.is_none() {
                        message.repeat_due = true;
                        is_new = true;
                        self.main.void_texts(&id, found);
                    }
                }
                if !is_new {
                    return;
                }
                let until = next.map(|next| Time(next as u64));
                found.signals.push(Signal::Retrying {
                    attempt: Some(*attempt),
                    reason: None,
                    until,
                    message: Some(shorten(words)).filter(|words| !words.is_empty()),
                });
            }
        }
    }

    /// The server says that the session rests.
    pub fn rest(&mut self, found: &mut Found) {
        self.main.give_up_answers();
        self.idle(found);
        self.rests = true;
    }

    /// Nothing more comes of the texts that are open: half a character that one of them ends with stays half a one.
    pub fn end_halves(&mut self, found: &mut Found) {
        self.main.end_halves(found);
        let mut children: Vec<&mut Thread> = self.children.values_mut().collect();
        children.sort_by(|one, other| one.session().cmp(other.session()));
        children.into_iter().for_each(|child| child.end_halves(found));
    }

    /// The session rests, or says so: whether a turn is over is not for us to say.
    fn idle(&mut self, found: &mut Found) {
        // A call that asked for tools announces another: an idle before that is not its own.
        let announced = matches!(self.finish.as_deref(), Some("tool-calls"));
        // One before anything of the turn was seen is not its own either.
        let began = self.steps > 0 && !announced;
        self.rests |= began && self.main.open_answers().next().is_none();
        found.signals.push(Signal::TurnIdle { stop_reason: self.stop_reason() });
    }

    /// Why the turn would have stopped if it stopped here.
    pub fn stop_reason(&self) -> Option<StopReason> {
        Some(match self.finish.as_deref()? {
            "length" => StopReason::MaxTokens,
            "content-filter" => StopReason::Refusal,
            // It stops at a call only when a person refused it (captures d2, e2).
            "tool-calls" => StopReason::Rejected,
            _ => StopReason::EndTurn,
        })
    }

    fn begin_turn(&mut self) {
        self.turn += 1;
        self.steps = 0;
        self.first = None;
        self.own = None;
        (self.finish, self.refused) = (None, false);
        self.rests = false;
        self.totals = Totals::default();
        for (message, parts) in self.main.begin_turn(self.turn) {
            self.past.note(&message, parts);
        }
        let turn = self.turn;
        self.children.retain(|_, thread| thread.turn + 1 >= turn);
    }

    fn todos(&mut self, todos: &[Todo], found: &mut Found) {
        let line = |todo: &Todo| {
            let (mark, note) = match todo.status.as_str() {
                "completed" => ('x', ""),
                "in_progress" => ('~', ""),
                "cancelled" => ('x', " (cancelled)"),
                _ => (' ', ""),
            };
            format!("- [{mark}] {}{note}", todo.content)
        };
        let text = todos.iter().map(line).collect::<Vec<_>>().join("\n");
        // One list for the whole turn: each turn shows where it stood.
        let key = Key::from(format!("todos#{}", self.turn_name()));
        let (kind, role, parent, synthetic) = (ItemKind::Plan, None, None, false);
        found.signals.push(Signal::ItemSeen(ItemSeen { key: key.clone(), kind, role, parent, synthetic }));
        found.signals.push(Signal::TextSnapshot { key, field: Field::Text, text, finality: Finality::Final });
    }

    /// A name of this turn that is the same after a restart.
    fn turn_name(&self) -> &str {
        self.first.as_deref().unwrap_or_else(|| self.main.session())
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

/// What is told when another client has deleted the session: the next link gets a new one.
pub fn deleted() -> [Signal; 2] {
    let message = "the session was deleted in opencode by another client; the next prompt gets a new one, which does not \
                   know what was said before";
    let notice = Signal::Notice { code: NoticeCode::Forgotten, message: message.to_owned(), detail: None };
    [notice, Signal::LinkLost(TurnError::new(ErrorClass::AgentError, message))]
}

fn session_changed(info: &SessionInfo, found: &mut Found) {
    // The first title is a date; the model gives the session its name later.
    let is_named = !info.title.is_empty() && !info.title.starts_with("New session - ");
    let patch = SessionPatch {
        title: is_named.then(|| info.title.clone()),
        model: info.model.as_ref().map(|model| format!("{}/{}", model.provider, model.id)),
        mode: info.agent.clone(),
        ..SessionPatch::default()
    };
    if !patch.is_empty() {
        found.signals.push(Signal::Session(patch));
    }
}

/// The model stopped for a reason of its own, which opencode calls an error: the message says the same as its finish.
fn is_finish(error: &AgentError) -> bool {
    matches!(error.name.as_str(), "ContentFilterError" | "MessageOutputLengthError")
}

/// The value of a member that is a text.
fn text_of(value: Option<&Value>) -> Option<&str> {
    value?.as_str()
}

/// The end of a part whose model call is repeated: nobody removes it.
fn retried(key: Key) -> Signal {
    Signal::ItemEnded { key, state: ItemState::Abandoned, reason: Some("retried".to_owned()) }
}
