//! One conversation with opencode, without any I/O: events, answers, commands and the time go in; observations and calls
//! to make come out. What is said here holds for the real server and for a test that plays one.

mod away;
mod budget;
mod call;
mod meanwhile;
mod next;
mod prompt;
mod resync;
mod stop;

pub use budget::Budget;
pub use call::{Answer, Call, Lacking, PromptAnswer, Shelf};
pub use prompt::Pace;

use super::event::{Event, Kind};
use super::info::AgentError;
use super::translate::{Found, Translator, Want, deleted};
use crate::agent::Left;
use crate::link::{Command, Observed};
use away::Away;
use budget::Spent;
use meanwhile::Seen;
use next::Next;
use prompt::Sent;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use stop::Stop;
use turnstream_model::event::{ApprovalOutcome, QuestionOutcome, TurnError};
use turnstream_model::id::{Key, TurnId};
use turnstream_model::signal::{Need, Signal};
use turnstream_model::time::Time;

/// Events that may wait for the answer to what was missed before them.
const WAITING: usize = 50_000;

/// A call that is not answered for so long never is: the way to the server gives calls up well before.
pub(super) const UNANSWERED: Duration = Duration::from_secs(180);

/// How long a prompt waits for what the session had before: that is asked for to name what is taken back, no more.
const REMEMBERING: Duration = Duration::from_secs(5);

/// One conversation.
pub struct Conductor {
    translator: Translator,
    pace: Pace,
    budget: Budget,
    spent: Spent,
    observed: VecDeque<Observed>,
    calls: VecDeque<Call>,
    model: Option<String>,
    mode: Option<String>,
    /// The prompt that left and has shown no effect yet.
    sent: Option<Sent>,
    /// What the last owner left open, until it has been asked about.
    left: Option<Left>,
    /// The session is older than this conversation, and what it has is not known yet.
    is_older: bool,
    /// What the log has of it, until what came since is known.
    seen: Option<Seen>,
    /// What it has is being asked for; until when a prompt waits for that.
    remembering_until: Option<Time>,
    resync: Resync,
    /// The server cannot be reached for now.
    away: Option<Away>,
    /// Messages that were asked for, also without success, with what they were asked for: the same piece is no reason to
    /// ask again, and a part that came later is.
    fetched: HashSet<(String, Option<Key>)>,
    /// When the session or a subagent of it was last heard of.
    heard: Time,
    /// When this conversation was last told anything.
    now: Time,
    /// The stream is gone for good; said as soon as the server has been asked once more.
    closing: Option<TurnError>,
    /// The turn is being stopped.
    stop: Option<Stop>,
    /// Prompts that were cancelled before they had a turn: one that begins later is stopped then.
    unwanted: HashSet<String>,
    /// The prompt that waits until the one before it is stopped.
    next: Option<Next>,
    /// Aborts that have not been answered, and when the last of them is given up.
    aborting: u32,
    aborting_until: Option<Time>,
    /// Events that came while the server is asked what was missed before them. They follow its answer.
    waiting: Option<VecDeque<Arc<Event>>>,
}

/// Where the asking of the server stands.
#[derive(Default)]
struct Resync {
    running: bool,
    /// When the answer is not waited for any more.
    until: Option<Time>,
    /// It has to be done again, because something happened since it was begun.
    again: bool,
    /// The turn in which it was begun, and the messages and subagents that were known then.
    turn: u64,
    known: Vec<String>,
    /// The messages of turns that are long over that were remembered then.
    past: Vec<String>,
    /// The parts that were known then, each with its message.
    parts: Vec<(String, String)>,
    children: Vec<String>,
    /// The asks that were open then.
    asks: HashSet<Key>,
    /// Counts how often the server was asked.
    number: u64,
    /// How often it could not be asked about what another owner left.
    failed: u32,
    /// How often it answered, and nothing of it could be read.
    unread: u32,
    /// What was said to be unreadable, until it is readable again.
    lacking: Vec<Lacking>,
    /// It rests by its own word while an answer is not over: when it is asked again, and how often that was done.
    early: Option<Time>,
    early_times: u32,
    /// Turns whose truth is wanted.
    truths: Vec<TurnId>,
    /// An idle that waits for pieces whose wholes are being fetched.
    idle: bool,
    /// An end that does not say whose it is.
    unscoped: Option<Option<AgentError>>,
    /// Silence made us ask: an idle answer is the idle we missed.
    doubted: bool,
}

impl Conductor {
    /// A conversation in that session of opencode.
    pub fn new(session: &str, pace: Pace, budget: Budget, now: Time) -> Self {
        Self {
            translator: Translator::new(session),
            pace,
            budget,
            spent: Spent::default(),
            observed: VecDeque::new(),
            calls: VecDeque::new(),
            model: None,
            mode: None,
            sent: None,
            left: None,
            is_older: false,
            seen: None,
            remembering_until: None,
            resync: Resync::default(),
            away: None,
            fetched: HashSet::new(),
            heard: now,
            now,
            closing: None,
            stop: None,
            unwanted: HashSet::new(),
            next: None,
            aborting: 0,
            aborting_until: None,
            waiting: None,
        }
    }

    /// Uses this model and mode from the next prompt on.
    pub fn choose(&mut self, model: Option<String>, mode: Option<String>) {
        self.model = model.or(self.model.take());
        self.mode = mode.or(self.mode.take());
    }

    /// Takes up what another owner left open; the server is asked as soon as the stream is there.
    pub fn recover(&mut self, left: Left) {
        self.translator.resume(&left.taken, &left.calls);
        for prompt in &left.prompts {
            self.translator.prompted(prompt);
        }
        self.left = Some(left);
    }

    /// The session was there before: what others take back of it has to be known by its parts.
    pub fn continue_session(&mut self) {
        self.is_older = true;
    }

    /// What is to be told to the keeper next.
    pub fn observed(&mut self) -> Option<Observed> {
        self.observed.pop_front()
    }

    /// The next call to make. Calls may be made at the same time.
    pub fn call(&mut self) -> Option<Call> {
        // Here, and not where the stop ends: everything that comes of that end is taken in by now.
        self.send_next();
        self.calls.pop_front()
    }

    /// When [`Conductor::tick`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        let quiet = self.quiet_until();
        let sent = self.sent.as_ref().and_then(Sent::until);
        let stop = self.stop.as_ref().and_then(Stop::until);
        let next = self.next.as_ref().map(Next::until);
        let unanswered = [self.resync.until, self.aborting_until, self.remembering_until, next];
        let own = [quiet, sent, stop, self.resync.early, self.spent.until(&self.budget)];
        own.into_iter().chain(unanswered).flatten().min()
    }

    /// The sessions of subagents that are known.
    pub fn children(&self) -> impl Iterator<Item = &str> {
        self.translator.children()
    }

    // === the stream ===

    /// The stream is there; with a gap when it was there before, and something may have been missed since.
    pub fn connected(&mut self, gap: Option<String>, now: Time) {
        (self.heard, self.now) = (now, now);
        if let Some(reason) = gap {
            self.returning();
            self.miss(reason);
        } else if self.left.is_some() {
            self.waiting.get_or_insert_default();
            self.ask_server();
        } else if std::mem::take(&mut self.is_older) {
            let limit = if self.seen.is_some() { meanwhile::ASKED } else { REMEMBERING };
            self.remembering_until = Some(now.plus_millis(limit.as_millis() as u64));
            self.calls.push_back(Call::Past);
        }
    }

    /// Something was missed: the server is asked for it, and what comes meanwhile comes after it.
    fn miss(&mut self, reason: String) {
        self.say(Signal::Gap(reason));
        self.waiting.get_or_insert_default();
        self.ask_server();
    }

    /// The stream is gone for good. The server is asked once more: a turn that ended meanwhile has its real end.
    pub fn closed(&mut self, reason: TurnError) {
        self.closing = Some(reason);
        self.resync.doubted = true;
        self.ask_server();
    }

    /// Takes in one event.
    pub fn event(&mut self, event: &Arc<Event>, now: Time) {
        self.now = now;
        if !matches!(event.kind, Kind::Heartbeat | Kind::Connected) {
            self.heard = now;
        }
        if let Some(waiting) = self.waiting.as_mut().filter(|waiting| waiting.len() < WAITING) {
            return waiting.push_back(Arc::clone(event));
        }
        // Those that wait come first, also when there are too many of them.
        self.take_waiting(now);
        self.take_event(event, now);
    }

    fn take_event(&mut self, event: &Arc<Event>, now: Time) {
        let mut found = Found::default();
        self.translator.observe(event, &mut found);
        self.note_error(event, now);
        self.take(found, now);
    }

    /// The server has said what was missed, or cannot.
    fn take_waiting(&mut self, now: Time) {
        for event in self.waiting.take().into_iter().flatten() {
            self.take_event(&event, now);
        }
    }

    /// Signals go out, what is missing is fetched, and what was learned of the prompt is noted.
    fn take(&mut self, found: Found, now: Time) {
        for signal in found.signals {
            match signal {
                Signal::TurnIdle { .. } => self.idle(signal),
                // Another client's prompt runs, and ours waits for it: the turn is not ours.
                Signal::TurnBegan { origin, prompts, native_id }
                    if prompts.is_empty() && self.waits_for_another() =>
                {
                    let prompts = vec!["another client's".to_owned()];
                    self.say(Signal::TurnBegan { origin, prompts, native_id });
                }
                // Somebody works; whether that is our prompt is known when it is answered, or something of it comes.
                Signal::TurnBegan { prompts, .. } if prompts.is_empty() && self.may_be_refused() => {}
                // Somebody works, and that is not the prompt that waits. Whose work it is shows with its first model call.
                Signal::TurnBegan { prompts, .. } if prompts.is_empty() && self.has_next() => {}
                Signal::Failed(_) if self.spent.is_over() => {}
                Signal::TurnBegan { prompts, origin, native_id } => {
                    self.stop_if_unwanted(&prompts, now);
                    self.say(Signal::TurnBegan { prompts, origin, native_id });
                }
                // One that was over when it was first seen: nobody has said that its turn began.
                Signal::AttemptBegan { .. } if self.has_next() => {
                    self.say_unwanted_began();
                    self.say(signal);
                }
                signal => self.say(signal),
            }
        }
        for want in found.wants {
            match want {
                Want::Message { session, message } => self.fetch(session, message, None),
                Want::Child(child) => self.calls.push_back(Call::Adopt(child)),
                Want::Truth(error) => {
                    self.resync.unscoped = Some(error);
                    self.ask_server();
                }
            }
        }
        self.note_evidence(now);
        self.check_budget(now);
    }

    /// The session says that it rests. If pieces came without their whole, the end of something was not heard, or what was
    /// missed in a gap is being asked for, that comes first: the end of a turn gives up what it cannot place.
    fn idle(&mut self, idle: Signal) {
        let asks = self.resync.running || self.resync.again || self.resync.early.is_some();
        let lacks = !self.translator.unintroduced().is_empty() || self.translator.has_unended();
        if asks || self.resync.idle || lacks {
            self.resync.idle = true;
            if self.resync.early.is_none() {
                self.ask_server();
            }
            return;
        }
        self.end_by(idle);
    }

    fn end_by(&mut self, idle: Signal) {
        if let Some(error) = self.spent.over() {
            self.say(Signal::Failed(error));
        }
        let rests = self.translator.rests();
        if rests {
            self.end_halves();
        }
        // The turn of a cancelled prompt is over at once: the next prompt must not become a part of it.
        self.say(self.unwanted_end().filter(|_| rests).unwrap_or(idle));
        if rests {
            self.spent = Spent::default();
            self.stopped();
        }
    }

    /// The turn ends, and with it every text that is open.
    fn end_halves(&mut self) {
        let mut found = Found::default();
        self.translator.end_halves(&mut found);
        found.signals.into_iter().for_each(|signal| self.say(signal));
    }

    fn fetch(&mut self, session: String, message: String, piece: Option<Key>) {
        if self.fetched.insert((message.clone(), piece)) {
            self.calls.push_back(Call::Message { session, message });
        }
    }

    fn say(&mut self, signal: Signal) {
        self.observed.push_back(Observed::Signal(signal));
    }

    // === commands ===

    /// Does what the keeper says.
    pub fn command(&mut self, command: Command, now: Time) {
        self.now = now;
        match command {
            Command::Prompt { native_id, content } => self.send(native_id, content),
            Command::Cancel => self.cancel(now),
            Command::CancelPrompt(prompt) => self.stop_prompt(prompt, now),
            Command::Approve { key, outcome, option, message } => {
                self.translator.forget_ask(&key);
                let reply = match (option.as_deref(), outcome) {
                    (Some(reply @ ("once" | "always" | "reject")), _) => reply,
                    (_, ApprovalOutcome::AllowOnce) => "once",
                    (_, ApprovalOutcome::AllowAlways) => "always",
                    (_, ApprovalOutcome::Reject)
                    | (_, ApprovalOutcome::Cancelled)
                    | (_, ApprovalOutcome::Expired)
                    | (_, ApprovalOutcome::Lost) => "reject",
                };
                if reply == "reject" {
                    self.translator.refuse();
                }
                self.calls.push_back(Call::Reply { key, reply: reply.to_owned(), message });
            }
            Command::Answer { key, outcome, answers } => {
                self.translator.forget_ask(&key);
                let answers = answers.filter(|_| outcome == QuestionOutcome::Answered);
                if answers.is_none() {
                    self.translator.refuse();
                }
                self.calls.push_back(Call::Answer { key, answers });
            }
            Command::Change { model, mode, permissions: _ } => self.choose(model, mode),
            Command::Fetch(Need::Item(key)) => {
                if let Some((session, message)) = self.translator.message_of(&key) {
                    self.fetch(session, message, Some(key));
                }
            }
            Command::Fetch(Need::Truth(turn)) => {
                self.resync.truths.push(turn);
                // What is being asked for already will do: a gap asks, and then the machine wants the truth.
                if !self.resync.running {
                    self.ask_server();
                }
            }
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time) {
        self.now = now;
        self.tick_unanswered(now);
        self.tick_sent(now);
        self.tick_stop(now);
        self.tick_next(now);
        self.check_budget(now);
        if self.resync.early.is_some_and(|until| now >= until) {
            self.resync.early = None;
            self.ask_server();
        }
        if self.quiet_until().is_some_and(|until| now >= until) {
            self.heard = now;
            self.resync.doubted = true;
            self.ask_server();
        }
    }

    /// Calls that were never answered are over.
    fn tick_unanswered(&mut self, now: Time) {
        if self.aborting_until.is_some_and(|until| now >= until) {
            self.aborts_over();
        }
        if self.remembering_until.is_some_and(|until| now >= until) {
            self.remembered();
        }
        if self.resync.until.is_some_and(|until| now >= until) {
            self.asked(Err(Call::unanswered_error()), now);
        }
    }

    /// What the session had before is known, or not waited for any more: a prompt that waited for that leaves.
    fn remembered(&mut self) {
        self.remembering_until = None;
        self.give_up_catching_up();
        self.post_held();
    }

    /// When silence makes us ask: soon after what looks like the end, else after a while.
    fn quiet_until(&self) -> Option<Time> {
        let waits = self.translator.rests()
            || self.sent.is_some()
            || self.resync.running
            || self.resync.early.is_some();
        let millis = match self.translator.looks_finished() {
            true => self.pace.finished,
            false => self.pace.silent,
        };
        (!waits).then(|| self.heard.plus_millis(millis.as_millis() as u64))
    }

    /// Takes in the answer to a call.
    pub fn answer(&mut self, answer: Answer, now: Time) {
        self.now = now;
        match answer {
            Answer::Prompt(message, answer) => self.prompt_answered(&message, answer, now),
            Answer::Abort => self.abort_answered(),
            Answer::Message(message) => {
                let mut found = Found::default();
                if let Some(message) = message {
                    self.translator.stored(&message, &mut found);
                }
                self.take(found, now);
            }
            Answer::Past(messages) => {
                self.catch_up(&messages, now);
                self.remembered();
            }
            Answer::Shelf(shelf) => self.asked(shelf, now),
        }
    }

    /// The session is not there any more. Said once: the link ends with it.
    fn deleted(&mut self) {
        deleted().into_iter().for_each(|signal| self.say(signal));
    }

    /// The way to the agent is gone.
    fn lose(&mut self, error: TurnError) {
        self.end_halves();
        self.say(Signal::LinkLost(error));
    }
}
