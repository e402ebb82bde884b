//! One conversation with opencode, without any I/O. Events, answers, commands and the time go in;
//! observations and calls come out. So a test that plays a server drives the same code as a real server.
//!
//! | file | task |
//! |---|---|
//! | `stream` | the event stream: events, gaps, idles |
//! | `command` | the keeper's commands |
//! | `prompt`, `waiting_prompt` | sending a prompt and waiting for a sign of work |
//! | `stop` | stopping a turn |
//! | `resync` | asking the server for a snapshot and applying it |
//! | `outage` | a server that cannot be reached |
//! | `foreign_turns` | turns of other clients that the log lacks |
//! | `budget` | limits of one turn |
//! | `call` | the calls and their answers |

mod budget;
mod call;
mod command;
mod foreign_turns;
mod outage;
mod prompt;
mod resync;
mod stop;
mod stream;
mod waiting_prompt;

pub use budget::Budget;
pub use call::{Answer, Call, PromptAnswer, SessionSnapshot, UnreadPart};
pub use prompt::Pace;

use super::event::Event;
use super::translate::{Translated, Translator, deleted};
use budget::Spent;
use foreign_turns::LoggedMessages;
use outage::Outage;
use prompt::SentPrompt;
use resync::Resync;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use stop::Stop;
use turnstream_adapter::{Observed, OpenWork};
use turnstream_model::event::TurnError;
use turnstream_model::id::Key;
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;
use waiting_prompt::WaitingPrompt;

/// A call without an answer for this long is given up. The connection gives up its calls well before.
pub(super) const UNANSWERED: Duration = Duration::from_secs(180);

/// One conversation.
pub struct Conversation {
    translator: Translator,
    pace: Pace,
    budget: Budget,
    spent: Spent,
    observed: VecDeque<Observed>,
    calls: VecDeque<Call>,
    model: Option<String>,
    mode: Option<String>,
    /// The prompt that was sent and shows no sign of work yet.
    sent: Option<SentPrompt>,
    /// The prompt that waits until the turn before it has stopped.
    waiting_prompt: Option<WaitingPrompt>,
    /// What was open when the last link ended, until the server has answered about it.
    open_work: Option<OpenWork>,
    /// The session is older than this conversation, and its messages are not known yet.
    is_older: bool,
    /// The messages that the log knows, until they were compared with those of the server.
    logged: Option<LoggedMessages>,
    /// The newest messages were requested: until when a prompt waits for them.
    history_until: Option<Time>,
    resync: Resync,
    outage: Option<Outage>,
    /// The messages that were fetched, also without success, each with the item it was fetched for. The
    /// same item is no reason to fetch a message again.
    fetched: HashSet<(String, Option<Key>)>,
    /// When the session or a subagent of it last showed activity.
    last_activity: Time,
    now: Time,
    /// The stream is closed for good. Reported after a last snapshot.
    closing: Option<TurnError>,
    /// The turn is being stopped.
    stop: Option<Stop>,
    /// Prompts that were cancelled before they had a turn. One that starts later is stopped then.
    unwanted: HashSet<String>,
    /// Aborts in flight, and when the last of them is given up.
    aborting: u32,
    aborting_until: Option<Time>,
    /// Events that arrived while a snapshot was requested for what was missed before them. They are handled
    /// after it.
    held_events: Option<VecDeque<Arc<Event>>>,
}

impl Conversation {
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
            waiting_prompt: None,
            open_work: None,
            is_older: false,
            logged: None,
            history_until: None,
            resync: Resync::default(),
            outage: None,
            fetched: HashSet::new(),
            last_activity: now,
            now,
            closing: None,
            stop: None,
            unwanted: HashSet::new(),
            aborting: 0,
            aborting_until: None,
            held_events: None,
        }
    }

    /// Uses this model and mode from the next prompt on. `None` changes nothing.
    pub fn choose(&mut self, model: Option<String>, mode: Option<String>) {
        self.model = model.or(self.model.take());
        self.mode = mode.or(self.mode.take());
    }

    /// Recovers what was open when the last link ended. The server is asked as soon as the stream is open.
    pub fn recover(&mut self, open_work: OpenWork) {
        self.translator.resume(&open_work.taken, &open_work.calls);
        for prompt in &open_work.prompts {
            self.translator.prompted(prompt);
        }
        self.open_work = Some(open_work);
    }

    /// The session is older than this conversation. Its newest messages are requested, because a later
    /// removal names only the message, and the log knows parts.
    pub fn continue_session(&mut self) {
        self.is_older = true;
    }

    /// The next observation for the keeper.
    pub fn next_observed(&mut self) -> Option<Observed> {
        self.observed.pop_front()
    }

    /// The next call to make. Calls may run concurrently.
    pub fn next_call(&mut self) -> Option<Call> {
        // Here, and not where the stop ends: by now everything that follows from that end was handled.
        self.send_waiting_prompt();
        self.calls.pop_front()
    }

    /// When [`Conversation::tick`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        let own = [
            self.quiet_until(),
            self.sent.as_ref().and_then(SentPrompt::until),
            self.stop.as_ref().and_then(Stop::until),
            self.resync.retry_at,
            self.spent.until(&self.budget),
            self.resync.give_up_at,
            self.aborting_until,
            self.history_until,
            self.waiting_prompt.as_ref().map(WaitingPrompt::until),
        ];
        own.into_iter().flatten().min()
    }

    /// The sessions of the subagents that are known.
    pub fn children(&self) -> impl Iterator<Item = &str> {
        self.translator.children()
    }

    /// Handles everything whose time has come.
    pub fn tick(&mut self, now: Time) {
        self.now = now;
        self.tick_unanswered(now);
        self.tick_sent(now);
        self.tick_stop(now);
        self.tick_waiting_prompt(now);
        self.check_budget(now);
        if self.resync.retry_at.is_some_and(|until| now >= until) {
            self.resync.retry_at = None;
            self.request_snapshot();
        }
        if self.quiet_until().is_some_and(|until| now >= until) {
            self.last_activity = now;
            self.resync.in_doubt = true;
            self.request_snapshot();
        }
    }

    /// Gives up calls that were never answered.
    fn tick_unanswered(&mut self, now: Time) {
        if self.aborting_until.is_some_and(|until| now >= until) {
            self.aborts_done();
        }
        if self.history_until.is_some_and(|until| now >= until) {
            self.history_known();
        }
        if self.resync.give_up_at.is_some_and(|until| now >= until) {
            self.snapshot_answered(Err(Call::unanswered_error()), now);
        }
    }

    /// The newest messages are known, or no longer waited for: a prompt that waited for them is sent.
    fn history_known(&mut self) {
        self.history_until = None;
        self.give_up_catching_up();
        self.post_held();
    }

    /// When silence is a reason to ask the server: soon after what looks like the end of a turn, else later.
    fn quiet_until(&self) -> Option<Time> {
        let waits = self.translator.is_at_rest()
            || self.sent.is_some()
            || self.resync.in_flight
            || self.resync.retry_at.is_some();
        let millis = match self.translator.looks_finished() {
            true => self.pace.finished,
            false => self.pace.silent,
        };
        (!waits).then(|| self.last_activity.plus_millis(millis.as_millis() as u64))
    }

    /// Handles the answer to a call.
    pub fn answer(&mut self, answer: Answer, now: Time) {
        self.now = now;
        match answer {
            Answer::Prompt(message, answer) => self.prompt_answered(&message, answer, now),
            Answer::Abort => self.abort_answered(),
            Answer::Message(message) => {
                let mut out = Translated::default();
                if let Some(message) = message {
                    self.translator.stored(&message, &mut out);
                }
                self.report_all(out, now);
            }
            Answer::NewestMessages(messages) => {
                self.catch_up(&messages, now);
                self.history_known();
            }
            Answer::Snapshot(snapshot) => self.snapshot_answered(snapshot, now),
        }
    }

    fn fetch(&mut self, session: String, message: String, item: Option<Key>) {
        if self.fetched.insert((message.clone(), item)) {
            self.calls.push_back(Call::Message { session, message });
        }
    }

    fn report(&mut self, signal: Signal) {
        self.observed.push_back(Observed::Signal(signal));
    }

    /// The session was deleted. The link ends with it.
    fn report_deleted(&mut self) {
        deleted().into_iter().for_each(|signal| self.report(signal));
    }

    /// The agent cannot be reached any more.
    fn report_link_lost(&mut self, error: TurnError) {
        self.flush_half_characters();
        self.report(Signal::LinkLost(error));
    }
}
