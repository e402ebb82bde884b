//! The stopping of a turn. opencode takes an abort for what runs at that moment: one that comes before its prompt, or
//! before the prompt has begun, stops nothing and is not remembered.

use super::{Call, Conductor, UNANSWERED};
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::id::Key;
use turnstream_model::signal::{Ending, Signal};
use turnstream_model::time::Time;

/// From an abort to the question whether it was heard.
const AGAIN_MILLIS: u64 = 1_000;
/// Aborts of one turn.
const MOST: u32 = 10;
/// How many of them for a prompt that the server does not show.
const EARLY: u32 = 5;

/// A turn that is being stopped.
#[derive(Default)]
pub(super) struct Stop {
    /// When it is told again; not while its prompt is on the way.
    again: Option<Time>,
    told: u32,
    /// It began for a prompt that was cancelled before.
    is_unwanted: bool,
}

impl Stop {
    /// When something has to be done about it.
    pub(super) fn until(&self) -> Option<Time> {
        self.again
    }
}

impl Conductor {
    /// Stops what the keeper knows of: the turn, or a prompt that has not left.
    pub(super) fn cancel(&mut self, now: Time) {
        let is_of_next = self.stop.as_ref().is_some_and(|stop| !stop.is_unwanted);
        if !(is_of_next && self.refuse_next(Self::stopped_unstarted())) {
            self.stop(now);
        }
    }

    /// Stops the turn, as soon as there is one.
    pub(super) fn stop(&mut self, now: Time) {
        if self.refuse_waiting() || self.stop.is_some() {
            return;
        }
        self.stop = Some(Stop::default());
        if !self.is_prompt_on_its_way() {
            self.abort(now);
            self.look_after_abort(now);
        }
    }

    /// Stops a prompt that had no turn yet when this was said. What another one does is left alone.
    pub(super) fn stop_prompt(&mut self, prompt: String, now: Time) {
        if self.is_next(&prompt) {
            self.refuse_next(Self::stopped_unstarted());
            return;
        }
        let runs = self.translator.is_for(&prompt) && !self.translator.rests();
        if self.is_sent(&prompt) || (self.sent.is_none() && runs) {
            self.stop(now);
        }
        self.unwanted.insert(prompt);
    }

    /// A prompt that was cancelled begins, perhaps after that was thought to be over. It is stopped, unless that would hit
    /// another.
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

    /// Says that a turn begins for a prompt that the keeper has given up, so that it is not taken for the one that waits.
    pub(super) fn say_unwanted_began(&mut self) {
        self.stop.iter_mut().for_each(|stop| stop.is_unwanted = true);
        let prompts = vec!["a cancelled one".to_owned()];
        self.say(Signal::TurnBegan { origin: None, prompts, native_id: None });
    }

    /// True while a prompt that is to stop may reach the server after all, and another one waits for it.
    pub(super) fn may_still_come(&self) -> bool {
        self.has_next() && self.stop.as_ref().is_some_and(|stop| stop.told < EARLY)
    }

    /// The prompt that was to stop has not begun. If the server had it, that is looked at once more.
    pub(super) fn never_begun(&mut self) {
        self.stop.take_if(|stop| stop.told == 0);
        self.still_stopping(self.now);
    }

    /// The end of a turn that a cancelled prompt began, however opencode ends it.
    pub(super) fn unwanted_end(&self) -> Option<Signal> {
        let stop = self.stop.as_ref().filter(|stop| stop.is_unwanted);
        stop.map(|_| Signal::TurnDone { native_id: None, ending: Ending::cancelled() })
    }

    /// Tells opencode to stop.
    pub(super) fn abort(&mut self, now: Time) {
        let Some(stop) = &mut self.stop else { return };
        stop.told += 1;
        stop.again = Some(now.plus_millis(AGAIN_MILLIS));
        self.call_abort(now);
    }

    fn call_abort(&mut self, now: Time) {
        self.aborting += 1;
        self.aborting_until = Some(now.plus_millis(UNANSWERED.as_millis() as u64));
        self.calls.push_back(Call::Abort);
    }

    /// An abort is at the server: what is sent now comes after it.
    pub(super) fn abort_answered(&mut self) {
        self.aborting = self.aborting.saturating_sub(1);
        if self.aborting == 0 {
            self.aborts_over();
        }
    }

    /// No abort is on its way any more: a prompt that waited for that leaves.
    pub(super) fn aborts_over(&mut self) {
        (self.aborting, self.aborting_until) = (0, None);
        self.post_held();
    }

    /// True while an abort may still hit whatever runs when it arrives.
    pub(super) fn is_aborting(&self) -> bool {
        self.aborting > 0
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.is_some()
    }

    /// What a prompt ends with that was stopped before it began.
    pub(super) fn stopped_unstarted() -> TurnError {
        TurnError::new(ErrorClass::Cancelled, "the prompt was cancelled before opencode began with it")
    }

    /// Whether the abort was heard has to be seen; if not, the server is asked.
    pub(super) fn tick_stop(&mut self, now: Time) {
        let Some(stop) = &mut self.stop else { return };
        if stop.again.take_if(|until| now >= *until).is_none() {
            return;
        }
        if self.translator.rests() {
            return self.stopped();
        }
        self.resync.doubted = true;
        self.ask_server();
    }

    /// The prompt has begun. If it was to be stopped before its request was answered, now there is something to stop.
    pub(super) fn begun(&mut self, now: Time) {
        if self.stop.as_ref().is_some_and(|stop| stop.told == 0) {
            self.abort(now);
        }
    }

    /// Whether it was heard could not be asked: it is asked again.
    pub(super) fn still_stopping(&mut self, now: Time) {
        if let Some(stop) = self.stop.as_mut().filter(|stop| stop.told > 0) {
            stop.again.get_or_insert(now.plus_millis(AGAIN_MILLIS));
        }
    }

    /// The server still works on it.
    pub(super) fn not_stopped(&mut self, now: Time) {
        if self.stop.as_ref().is_some_and(|stop| stop.again.is_none() && (1..MOST).contains(&stop.told)) {
            self.abort(now);
        }
    }

    /// It rests: what it asked needs no answer any more. opencode keeps the asks of an aborted turn open for ever, whoever
    /// aborted it (captures d5, m3).
    pub fn stopped(&mut self) {
        self.stop = None;
        let open: Vec<Key> = self.translator.open_asks().cloned().collect();
        for key in open {
            self.translator.forget_ask(&key);
            self.calls.push_back(Call::Refuse(key));
        }
    }
}
