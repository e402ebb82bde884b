//! Stops a turn.
//!
//! An abort of opencode stops what runs at that moment. One that arrives before the prompt has started
//! stops nothing and is not remembered.

use super::{Call, Conversation, UNANSWERED};
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::id::Key;
use turnstream_model::signal::{Ending, Signal};
use turnstream_model::time::Time;

/// The time from an abort to the check whether it had an effect.
const CHECK_MILLIS: u64 = 1_000;
/// The most aborts of one turn.
const MOST_ABORTS: u32 = 10;
/// The most aborts for a prompt that the server does not have yet.
const MOST_EARLY_ABORTS: u32 = 5;

/// A turn that is being stopped.
#[derive(Default)]
pub(super) struct Stop {
    /// When the effect of the last abort is checked. `None` while the prompt is being sent.
    check_at: Option<Time>,
    aborts: u32,
    /// The turn runs for a prompt that was cancelled before it started.
    is_unwanted: bool,
}

impl Stop {
    /// When [`Conversation::tick_stop`] has something to do.
    pub(super) fn until(&self) -> Option<Time> {
        self.check_at
    }

    /// True while aborts are sent for a prompt that the server does not have yet.
    fn is_early(&self) -> bool {
        self.aborts < MOST_EARLY_ABORTS
    }
}

impl Conversation {
    /// Stops the turn, or refuses a prompt that was not sent yet.
    pub(super) fn cancel(&mut self, now: Time) {
        let is_for_waiting = self.stop.as_ref().is_some_and(|stop| !stop.is_unwanted);
        if !(is_for_waiting && self.refuse_waiting_prompt(Self::stopped_unstarted())) {
            self.stop(now);
        }
    }

    /// Stops the turn as soon as there is one.
    pub(super) fn stop(&mut self, now: Time) {
        if self.refuse_unsent() || self.stop.is_some() {
            return;
        }
        self.stop = Some(Stop::default());
        if !self.is_prompt_in_flight() {
            self.abort(now);
            self.check_soon(now);
        }
    }

    /// Stops a prompt that had no turn yet when the keeper cancelled it. Other prompts go on.
    pub(super) fn stop_prompt(&mut self, prompt: String, now: Time) {
        if self.is_waiting_prompt(&prompt) {
            self.refuse_waiting_prompt(Self::stopped_unstarted());
            return;
        }
        let runs = self.translator.is_for(&prompt) && !self.translator.is_at_rest();
        if self.is_sent(&prompt) || (self.sent.is_none() && runs) {
            self.stop(now);
        }
        self.unwanted.insert(prompt);
    }

    /// Stops a turn of a cancelled prompt, which may have started late. Not if the abort could hit another
    /// prompt.
    pub(super) fn stop_if_unwanted(&mut self, begun: &[String], now: Time) {
        if !begun.iter().any(|prompt| self.unwanted.contains(prompt)) {
            return;
        }
        if self.stop.is_none() && self.sent.is_none() {
            self.stop = Some(Stop::default());
            self.abort(now);
        }
        self.stop.iter_mut().for_each(|stop| stop.is_unwanted = true);
    }

    /// Reports that a turn starts for a cancelled prompt, so that it is not taken for the turn of the
    /// waiting one.
    pub(super) fn report_unwanted_turn(&mut self) {
        self.stop.iter_mut().for_each(|stop| stop.is_unwanted = true);
        let prompts = vec!["a cancelled one".to_owned()];
        self.report(Signal::TurnBegan { origin: None, prompts, native_id: None });
    }

    /// True while the stopped prompt may still reach the server or begin there, and another prompt waits
    /// for that.
    pub(super) fn may_still_come(&self, now: Time) -> bool {
        let may_begin = self.sent.as_ref().is_some_and(|sent| sent.may_begin(now));
        self.has_waiting_prompt() && self.stop.as_ref().is_some_and(|stop| may_begin || stop.is_early())
    }

    /// Aborts a prompt that the server does not have yet. After some aborts the server is only asked:
    /// the rest is kept for the time when the prompt runs.
    pub(super) fn abort_early(&mut self, now: Time) {
        match self.stop.as_ref().is_some_and(Stop::is_early) {
            true => self.abort(now),
            false => self.still_stopping(now),
        }
    }

    /// The stopped prompt was refused. If an abort was sent for it, its effect is checked once more.
    pub(super) fn stopped_unstarted_prompt(&mut self) {
        self.stop.take_if(|stop| stop.aborts == 0);
        self.still_stopping(self.now);
    }

    /// The end of a turn of a cancelled prompt: cancelled, whatever opencode reports.
    pub(super) fn unwanted_end(&self) -> Option<Signal> {
        let stop = self.stop.as_ref().filter(|stop| stop.is_unwanted);
        stop.map(|_| Signal::TurnDone { native_id: None, ending: Ending::cancelled() })
    }

    /// Sends an abort.
    pub(super) fn abort(&mut self, now: Time) {
        let Some(stop) = &mut self.stop else { return };
        stop.aborts += 1;
        stop.check_at = Some(now.plus_millis(CHECK_MILLIS));
        self.call_abort(now);
    }

    fn call_abort(&mut self, now: Time) {
        self.aborting += 1;
        self.aborting_until = Some(now.plus_millis(UNANSWERED.as_millis() as u64));
        self.calls.push_back(Call::Abort);
    }

    /// The server has processed an abort. Prompts that are sent now are safe from it.
    pub(super) fn abort_answered(&mut self) {
        self.aborting = self.aborting.saturating_sub(1);
        if self.aborting == 0 {
            self.aborts_done();
        }
    }

    /// No abort is in flight any more: a held prompt is sent.
    pub(super) fn aborts_done(&mut self) {
        (self.aborting, self.aborting_until) = (0, None);
        self.post_held();
    }

    /// True while an abort is in flight. It would hit whatever runs when it arrives.
    pub(super) fn is_aborting(&self) -> bool {
        self.aborting > 0
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.is_some()
    }

    /// The error of a prompt that was stopped before it started.
    pub(super) fn stopped_unstarted() -> TurnError {
        TurnError::new(ErrorClass::Cancelled, "the prompt was cancelled before opencode began with it")
    }

    /// Checks whether the abort had an effect. If that was not observed, asks the server.
    pub(super) fn tick_stop(&mut self, now: Time) {
        let Some(stop) = &mut self.stop else { return };
        if stop.check_at.take_if(|until| now >= *until).is_none() {
            return;
        }
        if self.translator.is_at_rest() {
            return self.stopped();
        }
        self.resync.in_doubt = true;
        self.request_snapshot();
    }

    /// The prompt has started. If it was cancelled while its request was in flight, it is aborted now.
    pub(super) fn prompt_started(&mut self, now: Time) {
        if self.stop.as_ref().is_some_and(|stop| stop.aborts == 0) {
            self.abort(now);
        }
    }

    /// The server could not be asked whether the abort had an effect: asks again later.
    pub(super) fn still_stopping(&mut self, now: Time) {
        if let Some(stop) = self.stop.as_mut().filter(|stop| stop.aborts > 0) {
            stop.check_at.get_or_insert(now.plus_millis(CHECK_MILLIS));
        }
    }

    /// The server still works on the turn: aborts again.
    pub(super) fn not_stopped(&mut self, now: Time) {
        if self
            .stop
            .as_ref()
            .is_some_and(|stop| stop.check_at.is_none() && (1..MOST_ABORTS).contains(&stop.aborts))
        {
            self.abort(now);
        }
    }

    /// The turn has ended. Rejects its open permissions and questions: opencode keeps those of an aborted
    /// turn open for ever (captures d5, m3).
    pub fn stopped(&mut self) {
        self.stop = None;
        let open: Vec<Key> = self.translator.open_asks().cloned().collect();
        for key in open {
            self.translator.forget_ask(&key);
            self.calls.push_back(Call::Refuse(key));
        }
    }
}
