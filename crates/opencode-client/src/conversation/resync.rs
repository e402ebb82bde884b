//! Synchronises with the server by a snapshot: after a gap, after a restart, or when the end of a turn is
//! in doubt. Content is reported first, then whether the turn runs.

use super::outage::Outage;
use super::prompt::is_transport;
use super::{Call, Conversation, SessionSnapshot, UNANSWERED, UnreadPart};
use crate::event::Event;
use crate::info::AgentError;
use crate::translate::{Translated, Translator};
use crate::turn_error::turn_error;
use std::collections::HashSet;
use std::sync::Arc;
use turnstream_adapter::{Fate, Observed, OpenWork};
use turnstream_model::event::{ApprovalOutcome, ErrorClass, NoticeCode, TurnError};
use turnstream_model::id::{Key, TurnId};
use turnstream_model::signal::{ProbedStatus, Signal};
use turnstream_model::time::Time;

/// A failed or aborted turn is idle up to half a second before its last message is complete (captures f1,
/// g2). A message that a killed server left is never completed.
const INCOMPLETE_RETRY_MILLIS: u64 = 500;
const INCOMPLETE_RETRIES: u32 = 4;
/// A restarting server answers after some seconds.
const FAILED_RETRY_MILLIS: u64 = 1_000;
const FAILED_RETRIES: u32 = 20;
/// How often unreadable answers are asked for again. They usually stay unreadable.
const UNREADABLE_RETRIES: u32 = 5;

/// The state of the synchronisation with the server.
#[derive(Default)]
pub(super) struct Resync {
    /// A snapshot is in flight.
    pub(super) in_flight: bool,
    /// When the snapshot in flight is given up.
    pub(super) give_up_at: Option<Time>,
    /// Another snapshot is needed, because something happened since the last one was requested.
    pub(super) repeat: bool,
    /// When another snapshot is requested, because the last one was incomplete or failed.
    pub(super) retry_at: Option<Time>,
    /// How often an idle session had an incomplete message.
    incomplete_retries: u32,
    /// How often a snapshot failed that is worth waiting for.
    failures: u32,
    /// How often the answer was unreadable.
    unreadable: u32,
    /// Counts the requested snapshots.
    pub(super) number: u64,
    /// What was known when the snapshot was requested.
    turn: u64,
    known_messages: Vec<String>,
    past_messages: Vec<String>,
    /// Known parts, each with its message.
    known_parts: Vec<(String, String)>,
    children: Vec<String>,
    open_asks: HashSet<Key>,
    /// The parts that were reported as unreadable, until they are readable again.
    unread_parts: Vec<UnreadPart>,
    /// The turns of which the machine wants to know whether they run.
    pub(super) wanted_probes: Vec<TurnId>,
    /// An idle that is reported after the snapshot.
    pub(super) held_idle: bool,
    /// An end that names no session, with its error.
    pub(super) unscoped_end: Option<Option<AgentError>>,
    /// The snapshot was requested because of silence: if it is idle, the idle event was missed.
    pub(super) in_doubt: bool,
}

impl Conversation {
    /// Requests a snapshot. If one is in flight, requests another after it: that one may be too old.
    pub(super) fn request_snapshot(&mut self) {
        if self.resync.in_flight {
            self.resync.repeat = true;
            return;
        }
        self.resync.in_flight = true;
        self.resync.give_up_at = Some(self.now.plus_millis(UNANSWERED.as_millis() as u64));
        self.resync.number += 1;
        self.resync.open_asks = self.translator.open_asks().cloned().collect();
        self.resync.turn = self.translator.turn();
        self.resync.known_messages = self.translator.known_messages();
        self.resync.past_messages = self.translator.past_messages();
        self.resync.known_parts = self.translator.known_parts();
        let children: Vec<String> = self.translator.children().map(str::to_owned).collect();
        self.resync.children.clone_from(&children);
        self.calls.push_back(Call::Snapshot { children });
    }

    pub(super) fn snapshot_answered(&mut self, snapshot: Result<Box<SessionSnapshot>, TurnError>, now: Time) {
        self.resync.in_flight = false;
        self.resync.give_up_at = None;
        match snapshot {
            // It was requested before the gap, and tells nothing about it.
            Ok(_) | Err(_) if self.resync.repeat && self.held_events.is_some() => {}
            Ok(snapshot) => {
                self.resync.unreadable = 0;
                self.resync.failures = 0;
                self.report_unread_parts(&snapshot);
                self.apply_snapshot(&snapshot, now);
                // Held events follow everything that was missed. An idle among them would end the turn
                // without the messages of subagents that only this snapshot named.
                if !self.resync.repeat {
                    self.release_held_events(now);
                }
            }
            Err(error) => {
                self.snapshot_failed(&error, now);
                self.release_held_events(now);
            }
        }
        if std::mem::take(&mut self.resync.repeat) {
            return self.request_snapshot();
        }
        // An incomplete message is checked again first.
        if self.resync.retry_at.is_some() {
            return;
        }
        self.server_answered();
        if let Some(reason) = self.closing.take() {
            self.report_link_lost(reason);
        }
    }

    fn apply_snapshot(&mut self, snapshot: &SessionSnapshot, now: Time) {
        let open_work = self.open_work.take();
        if let Some(open_work) = &open_work {
            self.report_taken_prompts(open_work, snapshot);
        }
        let ends = |event: &Arc<Event>| event.is_idle_of(self.translator.session());
        if snapshot.busy || self.held_events.iter().flatten().any(ends) {
            self.translator.accept_other_turn(&snapshot.messages);
        }
        let mut out = Translated::default();
        self.translator.stored_turn(&snapshot.messages, &mut out);
        for messages in &snapshot.children {
            for message in messages {
                self.translator.stored(message, &mut out);
            }
        }
        if !snapshot.lacks(UnreadPart::Messages) {
            self.forget_unstored(snapshot, &mut out);
        }
        if std::mem::take(&mut self.is_older) {
            self.translator.remember(&snapshot.messages);
        }
        self.report_all(out, now);
        self.report_asks(snapshot, now);
        self.settle_sent(snapshot, now);
        // Something happened since the snapshot was requested: a newer one decides.
        if self.resync.repeat {
            self.open_work = open_work;
            return;
        }
        // The messages of subagents that this snapshot named are needed too.
        if self.translator.children().any(|child| !self.resync.children.iter().any(|known| known == child)) {
            self.open_work = open_work;
            self.resync.repeat = true;
            return;
        }
        if !snapshot.busy
            && self.translator.has_open_answer()
            && self.resync.incomplete_retries < INCOMPLETE_RETRIES
        {
            self.open_work = open_work;
            self.resync.incomplete_retries += 1;
            self.resync.retry_at = Some(now.plus_millis(INCOMPLETE_RETRY_MILLIS));
            return;
        }
        self.resync.incomplete_retries = 0;
        if let Some(open_work) = open_work {
            self.finish_recovery(&open_work, snapshot, now);
        }
        self.report_probed_status(snapshot, now);
    }

    /// Reports removals: what was known and is not stored any more.
    fn forget_unstored(&mut self, snapshot: &SessionSnapshot, out: &mut Translated) {
        // Only messages that were known when the snapshot was requested: newer ones may be too new for it.
        let stored: HashSet<&str> = snapshot.messages.iter().map(|stored| stored.info.id.as_str()).collect();
        for id in
            std::mem::take(&mut self.resync.known_messages).iter().filter(|id| !stored.contains(id.as_str()))
        {
            self.translator.forget(id, out);
        }
        // Of earlier turns only what is newer than the oldest stored message: a server that does not return
        // everything leaves out the oldest. Ids ascend with time.
        let oldest = stored.iter().min().copied();
        let is_gone =
            |id: &&String| oldest.is_some_and(|oldest| id.as_str() > oldest) && !stored.contains(id.as_str());
        for id in std::mem::take(&mut self.resync.past_messages).iter().filter(is_gone) {
            self.translator.forget(id, out);
        }
        // Another client may have removed a single part (capture s7).
        for (message, part) in std::mem::take(&mut self.resync.known_parts) {
            let stored = snapshot.messages.iter().find(|stored| stored.info.id == message);
            if stored.is_some_and(|stored| stored.parts.iter().all(|stored| stored.id != part)) {
                self.translator.forget_part(&part, out);
            }
        }
    }

    /// Reports each part that could not be read, once.
    fn report_unread_parts(&mut self, snapshot: &SessionSnapshot) {
        for (part, problem) in &snapshot.unread_parts {
            if !self.resync.unread_parts.contains(part) {
                let message = format!("what opencode has of the session could not be read: {problem}");
                self.report(Signal::Notice { code: NoticeCode::Corrupt, message, detail: None });
            }
        }
        self.resync.unread_parts = snapshot.unread_parts.iter().map(|(part, _)| *part).collect();
    }

    /// Reports open permissions and questions. Those of an idle session are ignored: opencode keeps them
    /// after an abort.
    fn report_asks(&mut self, snapshot: &SessionSnapshot, now: Time) {
        let is_ours = |session: &str| {
            session == self.translator.session() || self.translator.children().any(|child| child == session)
        };
        let mut asked: Vec<Event> = Vec::new();
        if snapshot.busy {
            let permissions = snapshot.permissions.iter().filter(|ask| is_ours(&ask.session));
            asked.extend(permissions.cloned().map(Event::permission));
            let questions = snapshot.questions.iter().filter(|ask| is_ours(&ask.session));
            asked.extend(questions.cloned().map(Event::question));
        }
        let mut open: Vec<Key> = self.translator.open_asks().cloned().collect();
        open.retain(|key| {
            if snapshot.lacks(UnreadPart::Asks) {
                return false;
            }
            // One that came after the snapshot was requested may be too new for it.
            if !self.resync.open_asks.contains(key) {
                return false;
            }
            let permission = snapshot.permissions.iter().any(|ask| ask.id == key.as_str());
            !permission && !snapshot.questions.iter().any(|ask| ask.id == key.as_str())
        });
        // They were answered in the gap.
        for key in open {
            self.translator.forget_ask(&key);
            let outcome = ApprovalOutcome::Cancelled;
            self.report(Signal::AskClosed { key: key.clone(), outcome });
            let outcome = turnstream_model::event::QuestionOutcome::Cancelled;
            self.report(Signal::QuestionClosed { key, outcome, answers: None });
        }
        for event in asked {
            let mut out = Translated::default();
            self.translator.observe(&Arc::new(event), &mut out);
            self.report_all(out, now);
        }
    }

    // === recovery ===

    /// Reports the prompts of [`OpenWork`] that the server has taken.
    fn report_taken_prompts(&mut self, open_work: &OpenWork, snapshot: &SessionSnapshot) {
        if open_work.turn.is_some() && open_work.calls.is_empty() && open_work.prompts.is_empty() {
            self.translator.assume_last_turn(&snapshot.messages);
        }
        for prompt in &open_work.prompts {
            if self.fate(prompt, snapshot) == Fate::Taken {
                self.report(Signal::PromptTaken(prompt.clone()));
            }
        }
    }

    /// Reports the fate of every prompt, whether the turn runs, and that all was reported.
    fn finish_recovery(&mut self, open_work: &OpenWork, snapshot: &SessionSnapshot, now: Time) {
        for prompt in &open_work.prompts {
            let fate = self.fate(prompt, snapshot);
            self.observed.push_back(Observed::Fate { native_id: prompt.clone(), fate });
        }
        self.resync.wanted_probes.extend(open_work.turn.clone());
        self.report_probed_status(snapshot, now);
        self.observed.push_back(Observed::CaughtUp);
    }

    /// The fate of a prompt. One that is stored while the session is idle counts as never seen: sent again
    /// under the same ids it runs once (capture u3).
    fn fate(&self, prompt: &str, snapshot: &SessionSnapshot) -> Fate {
        let is_stored = snapshot.messages.iter().any(|stored| stored.info.id == prompt);
        let is_answered = Translator::is_answered(&snapshot.messages, prompt);
        if snapshot.lacks(UnreadPart::Messages) {
            // If it were sent again, it might run twice.
            return if snapshot.busy { Fate::Taken } else { Fate::Unknown };
        }
        if is_answered || (is_stored && snapshot.busy) { Fate::Taken } else { Fate::NeverSeen }
    }

    // === whether the turn runs ===

    /// Reports whether the turn runs, or ends it.
    fn report_probed_status(&mut self, snapshot: &SessionSnapshot, now: Time) {
        let busy = snapshot.busy;
        if self.resync.turn != self.translator.turn() {
            // The snapshot is about the turn before.
            self.resync.repeat |= !self.resync.wanted_probes.is_empty();
            (self.resync.in_doubt, self.resync.unscoped_end, self.resync.held_idle) = (false, None, false);
            return;
        }
        if busy {
            self.not_stopped(now);
        }
        let status = if busy { ProbedStatus::Busy } else { ProbedStatus::Idle };
        let in_doubt = std::mem::take(&mut self.resync.in_doubt);
        let unscoped_end = self.resync.unscoped_end.take();
        let is_ending = in_doubt || unscoped_end.is_some() || !self.resync.wanted_probes.is_empty();
        // If the messages cannot be read, it is not known whether the answer was finished.
        if !busy && is_ending && !snapshot.lacks(UnreadPart::Messages) && self.is_abandoned() {
            let message =
                "opencode no longer works on the turn and never finished its answer; was it restarted?";
            self.report(Signal::Failed(TurnError::new(ErrorClass::AgentExited, message)));
        }
        if !busy && !self.translator.is_at_rest() && self.sent.is_none() {
            if let Some(Some(error)) = unscoped_end.as_ref().filter(|_| !self.spent.is_over()) {
                self.report(Signal::Failed(turn_error(error)));
            }
            if in_doubt || unscoped_end.is_some() {
                let mut out = Translated::default();
                self.translator.end_turn(&mut out);
                for signal in out.signals {
                    self.end_turn(signal);
                }
            }
        }
        if std::mem::take(&mut self.resync.held_idle) {
            // The stop reason may have come with the snapshot.
            self.end_turn(Signal::TurnIdle { stop_reason: self.translator.stop_reason() });
        }
        for turn in std::mem::take(&mut self.resync.wanted_probes) {
            if status == ProbedStatus::Idle {
                self.spent.over().into_iter().for_each(|error| self.report(Signal::Failed(error)));
                self.flush_half_characters();
            }
            self.report(Signal::StatusProbed { turn, status });
        }
    }

    /// True if the turn started and its answer is missing, incomplete, or due after a tool call. A killed
    /// server leaves a session like that (capture u).
    fn is_abandoned(&self) -> bool {
        let runs = !self.translator.is_at_rest() && self.sent.is_none();
        let translator = &self.translator;
        let unanswered =
            translator.has_open_answer() || translator.steps() == 0 || translator.is_between_calls();
        runs && unanswered && !self.is_stopping() && !self.spent.is_over()
    }

    /// True if the session was deleted in a gap.
    fn is_gone(error: &TurnError) -> bool {
        error.status == Some(404)
    }

    fn snapshot_failed(&mut self, error: &TurnError, now: Time) {
        if Self::is_gone(error) && self.open_work.is_none() {
            return self.report_deleted();
        }
        self.still_stopping(now);
        // Without an answer the open work would be lost, so it is worth waiting for. So is a server whose
        // stream was just reconnected. Without a stream, the snapshot is requested after the reconnect.
        let is_worth_it =
            self.open_work.is_some() || (self.outage == Some(Outage::Answer) && is_transport(error));
        if is_worth_it && self.resync.failures < FAILED_RETRIES && self.closing.is_none() {
            self.resync.failures += 1;
            self.resync.retry_at = Some(now.plus_millis(FAILED_RETRY_MILLIS));
            return;
        }
        if let Some(open_work) = self.open_work.take() {
            // Only the server knew.
            for prompt in open_work.prompts {
                self.observed.push_back(Observed::Fate { native_id: prompt, fate: Fate::Unknown });
            }
            self.observed.push_back(Observed::CaughtUp);
        }
        self.give_up_sent(error, now);
        if self.retry_or_fail_unreadable(error, now) {
            return;
        }
        if std::mem::take(&mut self.resync.held_idle) {
            // The stop reason may have come with the snapshot.
            self.end_turn(Signal::TurnIdle { stop_reason: self.translator.stop_reason() });
        }
        // The machine has its own deadlines for facts that do not come.
        self.resync.wanted_probes.clear();
        self.resync.unscoped_end = None;
        self.resync.in_doubt = false;
    }

    /// The answers of the server are unreadable, both status and messages. After some retries the turn
    /// fails. Returns true if it is asked again.
    fn retry_or_fail_unreadable(&mut self, error: &TurnError, now: Time) -> bool {
        let wanted = self.resync.in_doubt
            || self.resync.unscoped_end.is_some()
            || !self.resync.wanted_probes.is_empty();
        let runs = !self.translator.is_at_rest() && self.sent.is_none();
        // A refusal has a status and may pass. A held idle is the end of the turn.
        let is_unread = error.class == ErrorClass::AgentError && error.status.is_none();
        if !is_unread || !wanted || !runs || self.resync.held_idle || self.closing.is_some() {
            self.resync.unreadable = 0;
            return false;
        }
        self.resync.unreadable += 1;
        if self.resync.unreadable < UNREADABLE_RETRIES {
            self.resync.retry_at = Some(now.plus_millis(FAILED_RETRY_MILLIS));
            return true;
        }
        self.resync.unreadable = 0;
        self.report(Signal::Failed(error.clone()));
        let mut out = Translated::default();
        self.translator.end_turn(&mut out);
        out.signals.into_iter().for_each(|signal| self.end_turn(signal));
        false
    }
}
