//! The sending of a prompt: an answer of 204 proves nothing, so what counts is a sign of work.

use super::away::Away;
use super::{Call, Conductor, Lacking, PromptAnswer, Shelf, UNANSWERED};
use crate::opencode::event::{Event, Kind};
use crate::opencode::fault::turn_error;
use crate::opencode::translate::Translator;
use serde_json::Value;
use std::time::Duration;
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long a prompt waits for a server that cannot be reached; then it is refused.
    pub connect: Duration,
    /// From the answer to a prompt to a sign of work; then the server is asked.
    pub start: Duration,
    /// How long a busy session is waited for when it refuses a prompt for that.
    pub busy: Duration,
    /// From what looks like the end of a turn to the question whether it was.
    pub finished: Duration,
    /// Silence in a turn until the server is asked whether it still runs.
    pub silent: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            start: Duration::from_secs(5),
            busy: Duration::from_secs(30),
            finished: Duration::from_secs(2),
            silent: Duration::from_secs(15),
        }
    }
}

/// An error explains a prompt that never started, if nothing starts soon after it.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// A prompt that did not reach the server is sent again after this, unless it is known to be away.
const AGAIN: Duration = Duration::from_secs(1);

/// A prompt that was stopped shows within this whether it had begun.
const AFTER_ABORT: Duration = Duration::from_secs(1);

/// A prompt that left and has shown no effect yet.
pub(super) struct Sent {
    native_id: String,
    content: Vec<Value>,
    tries: u32,
    /// It was sent and not answered yet.
    on_its_way: bool,
    /// It waits: an abort of the turn before is on its way, and must not hit this one; or what the session
    /// has is not known yet, and a revert by another client takes effect with the next prompt (capture s7);
    /// or the server cannot be reached.
    held: bool,
    /// The server could not be reached: until when that is waited for.
    reach: Option<Time>,
    /// The first answer of the server that is newer than the question about this prompt.
    asked: Option<u64>,
    until: Option<Time>,
    /// What opencode said went wrong, or the way to it.
    error: Option<TurnError>,
    /// It was refused because another runs; until when that is waited for.
    busy_until: Option<Time>,
    retried_busy: bool,
}

impl Sent {
    /// When something has to be done about it.
    pub(super) fn until(&self) -> Option<Time> {
        let reach = self.reach.filter(|_| !self.on_its_way);
        [self.until, reach].into_iter().flatten().min()
    }

    /// The server cannot be reached; the prompt waits for it until then, or until it was told before.
    pub(super) fn wait_for_server(&mut self, until: Time) -> Time {
        *self.reach.get_or_insert(until)
    }

    /// The server answers again.
    pub(super) fn reached(&mut self) {
        self.reach = None;
    }

    /// It left, was answered or not, and what became of it is asked for when the server is back.
    pub(super) fn is_undecided(&self) -> bool {
        !self.held && !self.on_its_way && self.until.is_none()
    }

    /// The answer with this number says what became of it.
    pub(super) fn ask_with(&mut self, number: u64) {
        self.asked = Some(number);
    }
}

impl Conductor {
    pub(super) fn send_now(&mut self, native_id: String, content: Vec<Value>) {
        self.translator.prompted(&native_id);
        self.spent = super::Spent::default();
        self.fetched.clear();
        // What was held or doubted was of the turn before.
        (self.resync.idle, self.resync.doubted, self.resync.unscoped) = (false, false, None);
        let (error, until, busy_until) = (None, None, None);
        let (tries, on_its_way, retried_busy) = (1, false, false);
        self.sent = Some(Sent {
            native_id,
            content,
            tries,
            on_its_way,
            held: false,
            reach: None,
            asked: None,
            until,
            error,
            busy_until,
            retried_busy,
        });
        self.post();
    }

    /// Another prompt runs, and this one was refused for that.
    pub(super) fn waits_for_another(&self) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.busy_until.is_some())
    }

    /// Sends what waited, if nothing else is to be waited for.
    pub(super) fn post_held(&mut self) {
        if self.sent.as_mut().is_some_and(|sent| std::mem::take(&mut sent.held)) {
            self.post();
        }
    }

    /// The server has not said yet whether it takes the prompt, and nothing of it was seen.
    pub(super) fn may_be_refused(&self) -> bool {
        self.is_prompt_on_its_way() && !self.translator.has_own_evidence()
    }

    /// This prompt left, and nothing of it was seen.
    pub(super) fn is_sent(&self, prompt: &str) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.native_id == prompt)
    }

    /// An abort was called for a prompt that the server has and has not begun with: soon it can be asked what came of it.
    pub(super) fn look_after_abort(&mut self, now: Time) {
        if let Some(until) = self.sent.as_mut().and_then(|sent| sent.until.as_mut()) {
            *until = now.plus_millis(AFTER_ABORT.as_millis() as u64).min(*until);
        }
    }

    pub(super) fn is_prompt_on_its_way(&self) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.on_its_way)
    }

    /// A prompt that waits for another to end is not sent any more; true when there was one. What runs is not its own.
    pub(super) fn refuse_waiting(&mut self) -> bool {
        let waits = self.sent.as_ref().is_some_and(|sent| sent.busy_until.is_some() || sent.held);
        if waits {
            self.refuse(Self::stopped_unstarted());
        }
        waits
    }

    fn post(&mut self) {
        let is_away = self.is_away();
        let waits = self.is_aborting() || self.remembering_until.is_some() || is_away;
        let limit = self.reach_until();
        if let Some(sent) = &mut self.sent {
            if is_away {
                sent.wait_for_server(limit);
            }
            let Sent { native_id, content, on_its_way, held, asked, until, .. } = sent;
            *asked = None;
            *held = waits;
            if waits {
                *until = None;
                return;
            }
            *on_its_way = true;
            *until = Some(self.now.plus_millis(UNANSWERED.as_millis() as u64));
            self.calls.push_back(Call::Prompt {
                message: native_id.clone(),
                content: content.clone(),
                model: self.model.clone(),
                mode: self.mode.clone(),
            });
        }
    }

    pub(super) fn prompt_answered(&mut self, message: &str, answer: PromptAnswer, now: Time) {
        let start = self.pace.start.as_millis() as u64;
        let busy = self.pace.busy.as_millis() as u64;
        let is_stopping = self.is_stopping();
        let limit = self.reach_until();
        let Some(sent) = self.sent.as_mut().filter(|sent| sent.native_id == message) else { return };
        sent.on_its_way = false;
        match &answer {
            PromptAnswer::Unsent(error) | PromptAnswer::Unclear(error) if is_transport(error) => {
                sent.wait_for_server(limit);
            }
            PromptAnswer::Accepted
            | PromptAnswer::Busy
            | PromptAnswer::Refused(_)
            | PromptAnswer::Unsent(_)
            | PromptAnswer::Unclear(_) => sent.reached(),
        }
        match answer {
            PromptAnswer::Accepted | PromptAnswer::Unclear(_) if is_stopping => {
                sent.until = Some(now.plus_millis(AFTER_ABORT.as_millis() as u64));
                self.abort(now);
            }
            PromptAnswer::Busy | PromptAnswer::Unsent(_) if is_stopping => {
                self.refuse(Self::stopped_unstarted());
            }
            PromptAnswer::Accepted => {
                sent.until = Some(now.plus_millis(start));
                if self.translator.has_evidence() {
                    // It was seen that somebody works, and now whose work it is.
                    let prompts = vec![message.to_owned()];
                    self.say(Signal::TurnBegan { origin: None, prompts, native_id: None });
                    self.note_evidence(now);
                }
            }
            PromptAnswer::Busy if sent.retried_busy => {
                let message = "opencode says that another prompt runs, and did so after waiting too";
                self.refuse(TurnError::new(ErrorClass::NotStarted, message));
            }
            PromptAnswer::Busy => {
                sent.busy_until = Some(now.plus_millis(busy));
                sent.until = sent.busy_until;
                self.observed_busy();
                if self.translator.behind_another() {
                    let reason = "what another client's turn did before our prompt was refused was left out";
                    self.miss(reason.to_owned());
                }
            }
            PromptAnswer::Refused(error) => {
                // Perhaps because the session is gone: the server knows.
                let is_gone = error.status == Some(404);
                self.refuse(error);
                if is_gone {
                    self.ask_server();
                }
            }
            PromptAnswer::Unsent(error) => {
                sent.error = Some(error);
                sent.held = true;
                sent.until = Some(now.plus_millis(AGAIN.as_millis() as u64));
            }
            PromptAnswer::Unclear(error) => {
                sent.error = Some(error);
                sent.until = Some(now);
            }
        }
    }

    fn observed_busy(&mut self) {
        let message = "opencode refused the prompt because another one runs; it is sent again when that ends";
        let code = turnstream_model::event::NoticeCode::Late;
        self.say(Signal::Notice { code, message: message.to_owned(), detail: None });
    }

    fn refuse(&mut self, error: TurnError) {
        if let Some(sent) = self.sent.take() {
            self.say(Signal::PromptRefused { native_id: sent.native_id, error });
            self.never_begun();
        }
    }

    /// opencode reports some errors of a prompt it accepted as an event and nothing else (p-errors: unknown agent).
    pub(super) fn note_error(&mut self, event: &Event, now: Time) {
        let is_ours = event.session() == Some(self.translator.session());
        // An error before it left is of the turn before.
        let Some(sent) = self.sent.as_mut().filter(|sent| is_ours && !sent.held) else { return };
        match &event.kind {
            Kind::Error(Some(error)) if !self.translator.has_evidence() => {
                sent.error.get_or_insert_with(|| turn_error(error));
                sent.until = Some(now.plus_millis(AFTER_ERROR.as_millis() as u64));
            }
            // What ran before is over: now it can be sent again.
            Kind::Idle if sent.busy_until.is_some() => self.retry_busy(),
            _ => {}
        }
    }

    /// Sends a prompt again that was refused because another ran: what was seen meanwhile was that one's work.
    fn retry_busy(&mut self) {
        if let Some(sent) = &mut self.sent {
            (sent.busy_until, sent.until, sent.retried_busy) = (None, None, true);
            self.translator.prompted(&sent.native_id);
            self.post();
        }
    }

    /// A sign of work: the prompt has begun.
    pub(super) fn note_evidence(&mut self, now: Time) {
        if self.translator.has_evidence() && !self.translator.rests() {
            self.spent.begin(now);
        }
        // What is seen before it left is not its work, and what is seen before it was answered may be somebody else's.
        let own = self.translator.has_own_evidence();
        let may_be_others = |sent: &Sent| sent.busy_until.is_some() || sent.held || (sent.on_its_way && !own);
        let waits = self.sent.as_ref().is_some_and(may_be_others);
        if self.translator.has_evidence() && !waits && self.sent.take().is_some() {
            self.begun(now);
        }
    }

    pub(super) fn tick_sent(&mut self, now: Time) {
        let lacks_stream = self.away == Some(Away::Stream);
        let Some(sent) = &mut self.sent else { return };
        if sent.reach.is_some_and(|until| now >= until) && !sent.on_its_way {
            return self.not_reached();
        }
        if sent.until.is_none_or(|until| now < until) {
            return;
        }
        if sent.held {
            return self.post_held();
        }
        if sent.busy_until.is_some() {
            return self.retry_busy();
        }
        if sent.on_its_way {
            let (prompt, error) = (sent.native_id.clone(), Call::unanswered_error());
            return self.prompt_answered(&prompt, PromptAnswer::Unclear(error), now);
        }
        sent.until = None;
        // It is asked about when there is somebody to ask.
        if lacks_stream {
            return;
        }
        // An answer that is on its way already may be older than the prompt.
        sent.asked = Some(self.resync.number + 1);
        self.ask_server();
    }

    /// What the server has shows whether it ever had the prompt, and whether it does anything with it.
    pub(super) fn settle_sent(&mut self, shelf: &Shelf, now: Time) {
        let number = self.resync.number;
        let may_still_come = self.may_still_come();
        let Some(sent) = &mut self.sent else { return };
        if sent.asked.is_none_or(|asked| number < asked) {
            return;
        }
        let is_stored = shelf.messages.iter().any(|stored| stored.info.id == sent.native_id);
        let is_answered = Translator::is_answered(&shelf.messages, &sent.native_id);
        let unread = shelf.lacking.iter().find(|(part, _)| *part == Lacking::Messages);
        if let Some((_, problem)) = unread.filter(|_| !shelf.busy) {
            let error = TurnError::new(ErrorClass::AgentError, problem.clone());
            self.give_up_sent(&error, now);
        } else if is_answered || shelf.busy {
            let prompts = vec![sent.native_id.clone()];
            self.sent = None;
            self.spent.begin(now);
            self.stop_if_unwanted(&prompts, now);
            self.say(Signal::TurnBegan { origin: None, prompts, native_id: None });
        } else if !is_stored && may_still_come {
            // Beside the next prompt it would run with it.
            (sent.asked, sent.until) = (None, Some(now.plus_millis(AFTER_ABORT.as_millis() as u64)));
            self.abort(now);
        } else if self.stop.is_some() {
            // Sent again it would run.
            self.refuse(Self::stopped_unstarted());
        } else if sent.tries == 1 && sent.error.as_ref().is_none_or(is_transport) {
            sent.tries = 2;
            self.post();
        } else {
            let said = sent.error.take();
            let message = "opencode took the prompt, also when it was sent again, and never began";
            self.refuse(said.unwrap_or_else(|| TurnError::new(ErrorClass::NotStarted, message)));
        }
    }

    /// The server cannot be asked about it. One that is being started again is asked later.
    pub(super) fn give_up_sent(&mut self, error: &TurnError, now: Time) {
        let (number, limit) = (self.resync.number, self.reach_until());
        let may_wait = self.closing.is_none() && is_transport(error);
        let Some(sent) = self.sent.as_mut().filter(|sent| sent.asked.is_some_and(|asked| number >= asked))
        else {
            return;
        };
        if may_wait && now < sent.wait_for_server(limit) {
            sent.asked = None;
            sent.until = Some(now.plus_millis(AGAIN.as_millis() as u64));
            return;
        }
        self.refuse(unknown_fate(error));
    }

    /// The server was away for as long as a prompt waits.
    fn not_reached(&mut self) {
        let Some(sent) = &mut self.sent else { return };
        let waited = self.pace.connect;
        let last = sent.error.take().map(|error| format!(": {}", error.message)).unwrap_or_default();
        let message = format!("opencode could not be reached within {waited:?}{last}");
        let error = TurnError::new(ErrorClass::Unreachable, message);
        let was_unsent = sent.held;
        self.refuse(if was_unsent { error } else { unknown_fate(&error) });
    }
}

fn unknown_fate(error: &TurnError) -> TurnError {
    let mut error = error.clone();
    error.message = format!("whether opencode has the prompt cannot be found out: {}", error.message);
    error
}

pub(super) fn is_transport(error: &TurnError) -> bool {
    matches!(error.class, ErrorClass::TransportLost | ErrorClass::Unreachable | ErrorClass::Timeout)
}
