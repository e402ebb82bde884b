//! Sends a prompt. The answer 204 does not prove that it runs: only a sign of work does.

use super::outage::Outage;
use super::{Call, Conversation, PromptAnswer, SessionSnapshot, UNANSWERED, UnreadPart};
use crate::event::{Event, Kind};
use crate::request::Request;
use crate::translate::Translator;
use crate::turn_error::turn_error;
use serde_json::Value;
use std::time::Duration;
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;

/// How long a conversation waits before it asks the server or gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long a prompt waits for an unreachable server; then it is refused.
    pub connect: Duration,
    /// From the answer to a prompt to the first sign of work; then the server is asked.
    pub start: Duration,
    /// How long to wait for a session that refuses a prompt because it is busy.
    pub busy: Duration,
    /// From what looks like the end of a turn to the check whether it is.
    pub finished: Duration,
    /// Silence in a turn after which the server is asked whether it still runs.
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

/// If nothing starts within this time after an error, the error is why the prompt did not start.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// The pause before a prompt that did not reach the server is sent again. Not used during a known outage.
const RESEND_PAUSE: Duration = Duration::from_secs(1);

/// The time within which an aborted prompt shows whether it had started.
const AFTER_ABORT: Duration = Duration::from_secs(1);

/// A prompt that was sent, or is about to be, and shows no sign of work yet.
pub(super) struct SentPrompt {
    native_id: String,
    content: Vec<Value>,
    /// Whether it may be sent again if the server has stored it.
    is_repeatable: bool,
    tries: u32,
    /// Its request is in flight.
    in_flight: bool,
    /// It is not sent yet, for one of these reasons:
    /// - an abort of the turn before is in flight, and must not hit this prompt;
    /// - the newest messages are not known yet; a revert by another client takes effect with the next
    ///   prompt (s7);
    /// - the server cannot be reached.
    held: bool,
    /// The server cannot be reached: until when the prompt waits for it.
    reach_until: Option<Time>,
    /// The number of the first snapshot that can decide about this prompt.
    decided_by: Option<u64>,
    until: Option<Time>,
    /// The last error of opencode or of the transport.
    error: Option<TurnError>,
    /// It was refused because another prompt runs: until when it waits for that one.
    busy_until: Option<Time>,
    retried_busy: bool,
    /// The server accepted it while it was being stopped: until when its work may begin.
    comes_until: Option<Time>,
}

impl SentPrompt {
    /// When [`Conversation::tick_sent`] has something to do.
    pub(super) fn until(&self) -> Option<Time> {
        let reach = self.reach_until.filter(|_| !self.in_flight);
        [self.until, reach].into_iter().flatten().min()
    }

    /// The server cannot be reached: the prompt waits until then, or until an earlier limit. Returns the
    /// limit.
    pub(super) fn wait_for_server(&mut self, until: Time) -> Time {
        *self.reach_until.get_or_insert(until)
    }

    /// Its request is over, and tells whether the server can be reached. If not, the prompt waits until
    /// `limit`.
    fn note_answer(&mut self, answer: &PromptAnswer, limit: Time) {
        self.in_flight = false;
        match answer {
            PromptAnswer::Unsent(error) | PromptAnswer::Unclear(error) if is_transport(error) => {
                self.wait_for_server(limit);
            }
            PromptAnswer::Accepted
            | PromptAnswer::Busy
            | PromptAnswer::Refused(_)
            | PromptAnswer::Unsent(_)
            | PromptAnswer::Unclear(_) => self.reached(),
        }
    }

    /// The server answers again.
    pub(super) fn reached(&mut self) {
        self.reach_until = None;
    }

    /// The server has accepted it, and may still begin with it.
    pub(super) fn may_begin(&self, now: Time) -> bool {
        self.comes_until.is_some_and(|until| now < until)
    }

    /// It was sent, its request is over, and only the server knows what became of it.
    pub(super) fn is_undecided(&self) -> bool {
        !self.held && !self.in_flight && self.until.is_none()
    }

    /// The snapshot with this number decides what became of it.
    pub(super) fn decide_by(&mut self, number: u64) {
        self.decided_by = Some(number);
    }
}

impl Conversation {
    pub(super) fn send_now(&mut self, native_id: String, content: Vec<Value>) {
        self.translator.prompted(&native_id);
        let request = Request::of(&content);
        if request == Request::Compact {
            self.translator.prompted_to_compact();
        }
        self.spent = super::Spent::default();
        self.fetched.clear();
        // A held idle or a doubt belongs to the turn before.
        (self.resync.held_idle, self.resync.in_doubt, self.resync.unscoped_end) = (false, false, None);
        let (error, until, busy_until) = (None, None, None);
        let (tries, in_flight, retried_busy) = (1, false, false);
        self.sent = Some(SentPrompt {
            native_id,
            content,
            is_repeatable: request.is_repeatable(),
            tries,
            in_flight,
            held: false,
            reach_until: None,
            decided_by: None,
            until,
            error,
            busy_until,
            retried_busy,
            comes_until: None,
        });
        self.post();
    }

    /// True if the prompt was refused because another one runs.
    pub(super) fn waits_for_another(&self) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.busy_until.is_some())
    }

    /// Sends a held prompt, if no other reason holds it.
    pub(super) fn post_held(&mut self) {
        if self.sent.as_mut().is_some_and(|sent| std::mem::take(&mut sent.held)) {
            self.post();
        }
    }

    /// True if the server has not accepted the prompt yet, and no sign of it was observed.
    pub(super) fn may_be_refused(&self) -> bool {
        self.is_prompt_in_flight() && !self.translator.has_own_evidence()
    }

    /// True if this prompt was sent and shows no sign of work yet.
    pub(super) fn is_sent(&self, prompt: &str) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.native_id == prompt)
    }

    /// An abort was sent for a prompt that has not started: the server is asked soon what came of it.
    pub(super) fn check_soon(&mut self, now: Time) {
        if let Some(until) = self.sent.as_mut().and_then(|sent| sent.until.as_mut()) {
            *until = now.plus_millis(AFTER_ABORT.as_millis() as u64).min(*until);
        }
    }

    pub(super) fn is_prompt_in_flight(&self) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.in_flight)
    }

    /// Refuses a prompt that is held or waits for a busy session. Returns whether there was one.
    pub(super) fn refuse_unsent(&mut self) -> bool {
        let waits = self.sent.as_ref().is_some_and(|sent| sent.busy_until.is_some() || sent.held);
        if waits {
            self.refuse(Self::stopped_unstarted());
        }
        waits
    }

    fn post(&mut self) {
        let is_away = self.is_away();
        let waits = self.is_aborting() || self.history_until.is_some() || is_away;
        let limit = self.reach_until();
        if let Some(sent) = &mut self.sent {
            if is_away {
                sent.wait_for_server(limit);
            }
            let SentPrompt { native_id, content, in_flight, held, decided_by, until, .. } = sent;
            *decided_by = None;
            *held = waits;
            if waits {
                *until = None;
                return;
            }
            *in_flight = true;
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
        sent.note_answer(&answer, limit);
        if matches!(answer, PromptAnswer::Accepted) && is_stopping {
            sent.comes_until = Some(now.plus_millis(start));
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
                    // Work was observed before, and now it is known to be for this prompt.
                    let prompts = vec![message.to_owned()];
                    self.report(Signal::TurnBegan { origin: None, prompts, native_id: None });
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
                self.report_busy();
                if self.translator.behind_another() {
                    let reason = "what another client's turn did before our prompt was refused was left out";
                    self.report_gap(reason.to_owned());
                }
            }
            PromptAnswer::Refused(error) => {
                // The session may be gone: the snapshot tells.
                let is_gone = error.status == Some(404);
                self.refuse(error);
                if is_gone {
                    self.request_snapshot();
                }
            }
            PromptAnswer::Unsent(error) => {
                sent.error = Some(error);
                sent.held = true;
                sent.until = Some(now.plus_millis(RESEND_PAUSE.as_millis() as u64));
            }
            PromptAnswer::Unclear(error) => {
                sent.error = Some(error);
                sent.until = Some(now);
            }
        }
    }

    fn report_busy(&mut self) {
        let message = "opencode refused the prompt because another one runs; it is sent again when that ends";
        let code = turnstream_model::event::NoticeCode::Late;
        self.report(Signal::Notice { code, message: message.to_owned(), detail: None });
    }

    fn refuse(&mut self, error: TurnError) {
        if let Some(sent) = self.sent.take() {
            self.report(Signal::PromptRefused { native_id: sent.native_id, error });
            self.stopped_unstarted_prompt();
        }
    }

    /// Notes an error event. For some accepted prompts it is the only report (capture p-errors: unknown
    /// agent).
    pub(super) fn note_error(&mut self, event: &Event, now: Time) {
        let is_ours = event.session() == Some(self.translator.session());
        // An error before the prompt was sent belongs to the turn before.
        let Some(sent) = self.sent.as_mut().filter(|sent| is_ours && !sent.held) else { return };
        match &event.kind {
            Kind::Error(Some(error)) if !self.translator.has_evidence() => {
                sent.error.get_or_insert_with(|| turn_error(error));
                sent.until = Some(now.plus_millis(AFTER_ERROR.as_millis() as u64));
            }
            // The other prompt is done: this one can be sent again.
            Kind::Idle if sent.busy_until.is_some() => self.retry_busy(),
            _ => {}
        }
    }

    /// Sends a prompt again that was refused as busy. Work observed meanwhile belonged to the other prompt.
    fn retry_busy(&mut self) {
        if let Some(sent) = &mut self.sent {
            (sent.busy_until, sent.until, sent.retried_busy) = (None, None, true);
            self.translator.prompted(&sent.native_id);
            self.post();
        }
    }

    /// A sign of work means that the prompt has started.
    pub(super) fn note_evidence(&mut self, now: Time) {
        if self.translator.has_evidence() && !self.translator.is_at_rest() {
            self.spent.begin(now);
        }
        // Work before the prompt was sent is not for it; work before it was accepted may be for another
        // prompt.
        let own = self.translator.has_own_evidence();
        let may_be_others =
            |sent: &SentPrompt| sent.busy_until.is_some() || sent.held || (sent.in_flight && !own);
        let waits = self.sent.as_ref().is_some_and(may_be_others);
        if self.translator.has_evidence() && !waits && self.sent.take().is_some() {
            self.prompt_started(now);
        }
    }

    pub(super) fn tick_sent(&mut self, now: Time) {
        let lacks_stream = self.outage == Some(Outage::Stream);
        let Some(sent) = &mut self.sent else { return };
        if sent.reach_until.is_some_and(|until| now >= until) && !sent.in_flight {
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
        if sent.in_flight {
            let (prompt, error) = (sent.native_id.clone(), Call::unanswered_error());
            return self.prompt_answered(&prompt, PromptAnswer::Unclear(error), now);
        }
        sent.until = None;
        // During an outage the server is asked after the reconnect.
        if lacks_stream {
            return;
        }
        // A snapshot that is already in flight may be older than the prompt.
        sent.decided_by = Some(self.resync.number + 1);
        self.request_snapshot();
    }

    /// Decides about the prompt by a snapshot: whether the server has it, and whether it works on it.
    pub(super) fn settle_sent(&mut self, snapshot: &SessionSnapshot, now: Time) {
        let number = self.resync.number;
        let may_still_come = self.may_still_come(now);
        let Some(sent) = &mut self.sent else { return };
        if sent.decided_by.is_none_or(|first| number < first) {
            return;
        }
        let stored_as = self.translator.stored_as(&sent.native_id);
        let is_stored = snapshot.messages.iter().any(|stored| stored.info.id == stored_as);
        let is_answered = Translator::is_answered(&snapshot.messages, stored_as);
        let may_repeat = sent.tries == 1 && (sent.is_repeatable || !is_stored);
        let unread = snapshot.unread_parts.iter().find(|(part, _)| *part == UnreadPart::Messages);
        if let Some((_, problem)) = unread.filter(|_| !snapshot.busy) {
            let error = TurnError::new(ErrorClass::AgentError, problem.clone());
            self.give_up_sent(&error, now);
        } else if is_answered || snapshot.busy {
            let prompts = vec![sent.native_id.clone()];
            self.sent = None;
            self.spent.begin(now);
            self.stop_if_unwanted(&prompts, now);
            self.report(Signal::TurnBegan { origin: None, prompts, native_id: None });
        } else if !is_stored && may_still_come {
            // It would become part of the turn of the waiting prompt.
            (sent.decided_by, sent.until) = (None, Some(now.plus_millis(AFTER_ABORT.as_millis() as u64)));
            self.abort_early(now);
        } else if self.stop.is_some() {
            // It must not be sent again.
            self.refuse(Self::stopped_unstarted());
        } else if may_repeat && sent.error.as_ref().is_none_or(is_transport) {
            sent.tries = 2;
            self.post();
        } else {
            let said = sent.error.take();
            let message = "opencode took the prompt, also when it was sent again, and never began";
            self.refuse(said.unwrap_or_else(|| TurnError::new(ErrorClass::NotStarted, message)));
        }
    }

    /// The server could not be asked about the prompt. After a transport error it is asked again.
    pub(super) fn give_up_sent(&mut self, error: &TurnError, now: Time) {
        let (number, limit) = (self.resync.number, self.reach_until());
        let may_wait = self.closing.is_none() && is_transport(error);
        let Some(sent) =
            self.sent.as_mut().filter(|sent| sent.decided_by.is_some_and(|first| number >= first))
        else {
            return;
        };
        if may_wait && now < sent.wait_for_server(limit) {
            sent.decided_by = None;
            sent.until = Some(now.plus_millis(RESEND_PAUSE.as_millis() as u64));
            return;
        }
        self.refuse(unknown_fate(error));
    }

    /// The server was unreachable for [`Pace::connect`].
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
