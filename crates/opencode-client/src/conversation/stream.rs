//! The event stream: what events, gaps and idles mean for the conversation.

use super::{Call, Conversation, Spent, foreign_turns};
use crate::event::{Event, Kind};
use crate::translate::{Translated, Want};
use std::sync::Arc;
use std::time::Duration;
use turnstream_model::event::TurnError;
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;

/// The most events that are held while a snapshot is requested.
const MOST_HELD_EVENTS: usize = 50_000;

/// How long a prompt waits for the newest messages, if they are only needed to recognise removals.
const HISTORY_LIMIT: Duration = Duration::from_secs(5);

impl Conversation {
    /// The stream is open. `gap` says why events may have been missed since it was last open.
    pub fn connected(&mut self, gap: Option<String>, now: Time) {
        (self.last_activity, self.now) = (now, now);
        if let Some(reason) = gap {
            self.stream_reconnected();
            self.report_gap(reason);
        } else if self.open_work.is_some() {
            self.held_events.get_or_insert_default();
            self.request_snapshot();
        } else if std::mem::take(&mut self.is_older) {
            let limit = if self.logged.is_some() { foreign_turns::COMPARE_LIMIT } else { HISTORY_LIMIT };
            self.history_until = Some(now.plus_millis(limit.as_millis() as u64));
            self.calls.push_back(Call::NewestMessages);
        }
    }

    /// Events were missed: requests a snapshot, and holds later events until it was applied.
    pub(super) fn report_gap(&mut self, reason: String) {
        self.report(Signal::Gap(reason));
        self.held_events.get_or_insert_default();
        self.request_snapshot();
    }

    /// The stream is closed for good. A last snapshot is requested: a turn that has ended meanwhile gets
    /// its real end.
    pub fn closed(&mut self, reason: TurnError) {
        self.closing = Some(reason);
        self.resync.in_doubt = true;
        self.request_snapshot();
    }

    /// Handles one event.
    pub fn event(&mut self, event: &Arc<Event>, now: Time) {
        self.now = now;
        if !matches!(event.kind, Kind::Heartbeat | Kind::Connected) {
            self.last_activity = now;
        }
        if let Some(held) = self.held_events.as_mut().filter(|held| held.len() < MOST_HELD_EVENTS) {
            return held.push_back(Arc::clone(event));
        }
        // Held events come first, also when there are too many of them.
        self.release_held_events(now);
        self.handle_event(event, now);
    }

    fn handle_event(&mut self, event: &Arc<Event>, now: Time) {
        let mut out = Translated::default();
        self.translator.observe(event, &mut out);
        self.note_error(event, now);
        self.report_all(out, now);
    }

    /// Handles the held events: the snapshot was applied, or could not be read.
    pub(super) fn release_held_events(&mut self, now: Time) {
        for event in self.held_events.take().into_iter().flatten() {
            self.handle_event(&event, now);
        }
    }

    /// Reports signals, fetches what is missing, and notes what they tell of the prompt.
    pub(super) fn report_all(&mut self, out: Translated, now: Time) {
        for signal in out.signals {
            self.report_checked(signal, now);
        }
        for want in out.wants {
            match want {
                Want::Message { session, message } => self.fetch(session, message, None),
                Want::Child(child) => self.calls.push_back(Call::Adopt(child)),
                Want::StatusProbe(error) => {
                    self.resync.unscoped_end = Some(error);
                    self.request_snapshot();
                }
            }
        }
        self.note_evidence(now);
        self.check_budget(now);
    }

    /// Reports a signal, unless the state of the prompt says that it means something else.
    fn report_checked(&mut self, signal: Signal, now: Time) {
        match signal {
            Signal::TurnIdle { .. } => self.handle_idle(signal),
            // Another client's prompt runs, and ours waits for it: the turn is not ours.
            Signal::TurnBegan { origin, prompts, native_id }
                if prompts.is_empty() && self.waits_for_another() =>
            {
                let prompts = vec!["another client's".to_owned()];
                self.report(Signal::TurnBegan { origin, prompts, native_id });
            }
            // A turn runs. Whether it is for our prompt shows when that is answered, or with its first item.
            Signal::TurnBegan { prompts, .. } if prompts.is_empty() && self.may_be_refused() => {}
            // A turn runs that is not for the waiting prompt. Its first model call shows whose it is.
            Signal::TurnBegan { prompts, .. } if prompts.is_empty() && self.has_waiting_prompt() => {}
            Signal::Failed(_) if self.spent.is_over() => {}
            Signal::TurnBegan { prompts, origin, native_id } => {
                self.stop_if_unwanted(&prompts, now);
                self.report(Signal::TurnBegan { prompts, origin, native_id });
            }
            // The call was over when it was first seen, so the start of its turn was not reported yet.
            Signal::AttemptBegan { .. } if self.has_waiting_prompt() => {
                self.report_unwanted_turn();
                self.report(signal);
            }
            signal => self.report(signal),
        }
    }

    /// The session is idle. The end of a turn drops what it cannot place. So the idle is held if deltas
    /// came without their part, if the end of an item was missed, or if a snapshot is pending.
    fn handle_idle(&mut self, idle: Signal) {
        let pending = self.resync.in_flight || self.resync.repeat || self.resync.retry_at.is_some();
        let incomplete = !self.translator.unintroduced().is_empty() || self.translator.has_unended();
        if pending || self.resync.held_idle || incomplete {
            self.resync.held_idle = true;
            if self.resync.retry_at.is_none() {
                self.request_snapshot();
            }
            return;
        }
        self.end_turn(idle);
    }

    /// Reports the end of a turn.
    pub(super) fn end_turn(&mut self, idle: Signal) {
        if let Some(error) = self.spent.over() {
            self.report(Signal::Failed(error));
        }
        let is_at_rest = self.translator.is_at_rest();
        if is_at_rest {
            self.flush_half_characters();
        }
        // The turn of a cancelled prompt ends at once: the next prompt must not become part of it.
        self.report(self.unwanted_end().filter(|_| is_at_rest).unwrap_or(idle));
        if is_at_rest {
            self.spent = Spent::default();
            self.stopped();
        }
    }

    /// The turn ends, and with it every open text: half a character at the end of one becomes U+FFFD.
    pub(super) fn flush_half_characters(&mut self) {
        let mut out = Translated::default();
        self.translator.flush_half_characters(&mut out);
        out.signals.into_iter().for_each(|signal| self.report(signal));
    }
}
