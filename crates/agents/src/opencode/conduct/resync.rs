//! The server is asked what it has: after a gap, after a restart, when an end is in doubt. Content first, then the truth
//! about the turn.

use super::away::Away;
use super::prompt::is_transport;
use super::{Call, Conductor, Lacking, Shelf, UNANSWERED};
use crate::agent::Left;
use crate::link::{Fate, Observed};
use crate::opencode::event::Event;
use crate::opencode::fault::turn_error;
use crate::opencode::translate::{Found, Translator};
use std::collections::HashSet;
use std::sync::Arc;
use turnstream_model::event::{ApprovalOutcome, ErrorClass, NoticeCode, TurnError};
use turnstream_model::id::Key;
use turnstream_model::signal::{Signal, Truth};
use turnstream_model::time::Time;

/// A failed or aborted turn rests up to half a second before its last message is over (captures f1, g2); a message that a
/// killed server left is never over.
const EARLY_MILLIS: u64 = 500;
const EARLY_TIMES: u32 = 4;
/// A server that is being started again answers after some seconds.
const FAILED_MILLIS: u64 = 1_000;
const FAILED_TIMES: u32 = 20;
/// A server that answers what cannot be read does so again, as a rule.
const UNREAD_TIMES: u32 = 5;

impl Conductor {
    /// Asks the server, or once more when that is under way: its answer may be older than what made us ask.
    pub(super) fn ask_server(&mut self) {
        if self.resync.running {
            self.resync.again = true;
            return;
        }
        self.resync.running = true;
        self.resync.until = Some(self.now.plus_millis(UNANSWERED.as_millis() as u64));
        self.resync.number += 1;
        self.resync.asks = self.translator.open_asks().cloned().collect();
        self.resync.turn = self.translator.turn();
        self.resync.known = self.translator.known_messages();
        self.resync.past = self.translator.past_messages();
        self.resync.parts = self.translator.known_parts();
        let children: Vec<String> = self.translator.children().map(str::to_owned).collect();
        self.resync.children.clone_from(&children);
        self.calls.push_back(Call::Shelf { children });
    }

    pub(super) fn asked(&mut self, shelf: Result<Box<Shelf>, TurnError>, now: Time) {
        self.resync.running = false;
        self.resync.until = None;
        match shelf {
            // One that was asked for before the gap says nothing of it.
            Ok(_) | Err(_) if self.resync.again && self.waiting.is_some() => {}
            Ok(shelf) => {
                self.resync.unread = 0;
                self.resync.failed = 0;
                self.note_lacking(&shelf);
                self.take_shelf(&shelf, now);
                // What came meanwhile follows all that was missed: an idle among it would end the turn without the messages of
                // subagents that are only known by now.
                if !self.resync.again {
                    self.take_waiting(now);
                }
            }
            Err(error) => {
                self.not_asked(&error, now);
                self.take_waiting(now);
            }
        }
        if std::mem::take(&mut self.resync.again) {
            return self.ask_server();
        }
        // A turn that is about to be over is looked at once more.
        if self.resync.early.is_some() {
            return;
        }
        self.returned();
        if let Some(reason) = self.closing.take() {
            self.lose(reason);
        }
    }

    fn take_shelf(&mut self, shelf: &Shelf, now: Time) {
        let left = self.left.take();
        if let Some(left) = &left {
            self.take_up(left, shelf);
        }
        let ends = |event: &Arc<Event>| event.is_idle_of(self.translator.session());
        if shelf.busy || self.waiting.iter().flatten().any(ends) {
            self.translator.take_up_other(&shelf.messages);
        }
        let mut found = Found::default();
        self.translator.stored_turn(&shelf.messages, &mut found);
        for messages in &shelf.children {
            for message in messages {
                self.translator.stored(message, &mut found);
            }
        }
        if !shelf.lacks(Lacking::Messages) {
            self.forget_unstored(shelf, &mut found);
        }
        if std::mem::take(&mut self.is_older) {
            self.translator.remember(&shelf.messages);
        }
        self.take(found, now);
        self.take_asks(shelf, now);
        self.settle_sent(shelf, now);
        // Something came since the server was asked that a newer answer has to settle.
        if self.resync.again {
            self.left = left;
            return;
        }
        // Subagents that were found just now have messages too.
        if self.translator.children().any(|child| !self.resync.children.iter().any(|known| known == child)) {
            self.left = left;
            self.resync.again = true;
            return;
        }
        if !shelf.busy && self.translator.has_open_answer() && self.resync.early_times < EARLY_TIMES {
            self.left = left;
            self.resync.early_times += 1;
            self.resync.early = Some(now.plus_millis(EARLY_MILLIS));
            return;
        }
        self.resync.early_times = 0;
        if let Some(left) = left {
            self.settle_left(&left, shelf, now);
        }
        self.settle_truth(shelf, now);
    }

    /// What is known and the server does not have any more was taken back.
    fn forget_unstored(&mut self, shelf: &Shelf, found: &mut Found) {
        // What came to be known since the server was asked may be too new for its answer.
        let stored: HashSet<&str> = shelf.messages.iter().map(|stored| stored.info.id.as_str()).collect();
        for id in std::mem::take(&mut self.resync.known).iter().filter(|id| !stored.contains(id.as_str())) {
            self.translator.forget(id, found);
        }
        // Of those that are long over only what is newer than the oldest that is there: a server that does not hand out
        // everything leaves out the oldest. Names ascend with time.
        let oldest = stored.iter().min().copied();
        let is_gone =
            |id: &&String| oldest.is_some_and(|oldest| id.as_str() > oldest) && !stored.contains(id.as_str());
        for id in std::mem::take(&mut self.resync.past).iter().filter(is_gone) {
            self.translator.forget(id, found);
        }
        // Another client may have taken back a part alone (capture s7).
        for (message, part) in std::mem::take(&mut self.resync.parts) {
            let stored = shelf.messages.iter().find(|stored| stored.info.id == message);
            if stored.is_some_and(|stored| stored.parts.iter().all(|stored| stored.id != part)) {
                self.translator.forget_part(&part, found);
            }
        }
    }

    /// Says what could not be read, once.
    fn note_lacking(&mut self, shelf: &Shelf) {
        for (part, problem) in &shelf.lacking {
            if !self.resync.lacking.contains(part) {
                let message = format!("what opencode has of the session could not be read: {problem}");
                self.say(Signal::Notice { code: NoticeCode::Corrupt, message, detail: None });
            }
        }
        self.resync.lacking = shelf.lacking.iter().map(|(part, _)| *part).collect();
    }

    /// Asks that wait. Those of a session that rests are dead: opencode keeps them, and they are not asked again.
    fn take_asks(&mut self, shelf: &Shelf, now: Time) {
        let is_ours = |session: &str| {
            session == self.translator.session() || self.translator.children().any(|child| child == session)
        };
        let mut asked: Vec<Event> = Vec::new();
        if shelf.busy {
            let permissions = shelf.permissions.iter().filter(|ask| is_ours(&ask.session));
            asked.extend(permissions.cloned().map(Event::permission));
            let questions = shelf.questions.iter().filter(|ask| is_ours(&ask.session));
            asked.extend(questions.cloned().map(Event::question));
        }
        let mut open: Vec<Key> = self.translator.open_asks().cloned().collect();
        open.retain(|key| {
            if shelf.lacks(Lacking::Asks) {
                return false;
            }
            // One that came since the server was asked may be too new for its answer.
            if !self.resync.asks.contains(key) {
                return false;
            }
            let permission = shelf.permissions.iter().any(|ask| ask.id == key.as_str());
            !permission && !shelf.questions.iter().any(|ask| ask.id == key.as_str())
        });
        // Somebody answered while we did not hear it.
        for key in open {
            self.translator.forget_ask(&key);
            let outcome = ApprovalOutcome::Cancelled;
            self.say(Signal::AskClosed { key: key.clone(), outcome });
            let outcome = turnstream_model::event::QuestionOutcome::Cancelled;
            self.say(Signal::QuestionClosed { key, outcome, answers: None });
        }
        for event in asked {
            let mut found = Found::default();
            self.translator.observe(&Arc::new(event), &mut found);
            self.take(found, now);
        }
    }

    // === what another owner left ===

    fn take_up(&mut self, left: &Left, shelf: &Shelf) {
        if left.turn.is_some() && left.calls.is_empty() && left.prompts.is_empty() {
            self.translator.assume_last_turn(&shelf.messages);
        }
        for prompt in &left.prompts {
            if self.fate(prompt, shelf) == Fate::Taken {
                self.say(Signal::PromptTaken(prompt.clone()));
            }
        }
    }

    fn settle_left(&mut self, left: &Left, shelf: &Shelf, now: Time) {
        for prompt in &left.prompts {
            let fate = self.fate(prompt, shelf);
            self.observed.push_back(Observed::Fate { native_id: prompt.clone(), fate });
        }
        self.resync.truths.extend(left.turn.clone());
        self.settle_truth(shelf, now);
        self.observed.push_back(Observed::CaughtUp);
    }

    /// A prompt that is stored and that nobody works on is as good as never seen: sent again under the same names it
    /// runs once (capture u3).
    fn fate(&self, prompt: &str, shelf: &Shelf) -> Fate {
        let is_stored = shelf.messages.iter().any(|stored| stored.info.id == prompt);
        let is_answered = Translator::is_answered(&shelf.messages, prompt);
        if shelf.lacks(Lacking::Messages) {
            // Sent again it might run again.
            return if shelf.busy { Fate::Taken } else { Fate::Unknown };
        }
        if is_answered || (is_stored && shelf.busy) { Fate::Taken } else { Fate::NeverSeen }
    }

    // === the truth ===

    fn settle_truth(&mut self, shelf: &Shelf, now: Time) {
        let busy = shelf.busy;
        if self.resync.turn != self.translator.turn() {
            // The answer is about the turn before.
            self.resync.again |= !self.resync.truths.is_empty();
            (self.resync.doubted, self.resync.unscoped, self.resync.idle) = (false, None, false);
            return;
        }
        if busy {
            self.not_stopped(now);
        }
        let truth = if busy { Truth::Busy } else { Truth::Idle };
        let doubted = std::mem::take(&mut self.resync.doubted);
        let unscoped = self.resync.unscoped.take();
        let is_ending = doubted || unscoped.is_some() || !self.resync.truths.is_empty();
        // Of an answer that cannot be read nobody knows whether it was finished.
        if !busy && is_ending && !shelf.lacks(Lacking::Messages) && self.is_given_up() {
            let message =
                "opencode no longer works on the turn and never finished its answer; was it restarted?";
            self.say(Signal::Failed(TurnError::new(ErrorClass::AgentExited, message)));
        }
        if !busy && !self.translator.rests() && self.sent.is_none() {
            if let Some(Some(error)) = unscoped.as_ref().filter(|_| !self.spent.is_over()) {
                self.say(Signal::Failed(turn_error(error)));
            }
            if doubted || unscoped.is_some() {
                let mut found = Found::default();
                self.translator.rest(&mut found);
                for signal in found.signals {
                    self.end_by(signal);
                }
            }
        }
        if std::mem::take(&mut self.resync.idle) {
            // Why it stopped may have come with the answer.
            self.end_by(Signal::TurnIdle { stop_reason: self.translator.stop_reason() });
        }
        for turn in std::mem::take(&mut self.resync.truths) {
            if truth == Truth::Idle {
                self.spent.over().into_iter().for_each(|error| self.say(Signal::Failed(error)));
                self.end_halves();
            }
            self.say(Signal::Truth { turn, truth });
        }
    }

    /// The turn began and has no answer that is over, or only one whose tools were not refused: that is what a server
    /// leaves that was killed (capture u).
    fn is_given_up(&self) -> bool {
        let runs = !self.translator.rests() && self.sent.is_none();
        let translator = &self.translator;
        let unanswered =
            translator.has_open_answer() || translator.steps() == 0 || translator.is_between_calls();
        runs && unanswered && !self.is_stopping() && !self.spent.is_over()
    }

    /// The server has no such session any more: it was deleted while its events were not heard.
    fn is_gone(error: &TurnError) -> bool {
        error.status == Some(404)
    }

    fn not_asked(&mut self, error: &TurnError, now: Time) {
        if Self::is_gone(error) && self.left.is_none() {
            return self.deleted();
        }
        self.still_stopping(now);
        // What another owner left is lost if nobody can say what became of it: it is worth some patience. So
        // is a server whose stream is there again. One without a stream is asked when it has one.
        let is_worth_it = self.left.is_some() || (self.away == Some(Away::Answer) && is_transport(error));
        if is_worth_it && self.resync.failed < FAILED_TIMES && self.closing.is_none() {
            self.resync.failed += 1;
            self.resync.early = Some(now.plus_millis(FAILED_MILLIS));
            return;
        }
        if let Some(left) = self.left.take() {
            // Only the server could have said it.
            for prompt in left.prompts {
                self.observed.push_back(Observed::Fate { native_id: prompt, fate: Fate::Unknown });
            }
            self.observed.push_back(Observed::CaughtUp);
        }
        self.give_up_sent(error, now);
        if self.end_unread(error, now) {
            return;
        }
        if std::mem::take(&mut self.resync.idle) {
            // Why it stopped may have come with the answer.
            self.end_by(Signal::TurnIdle { stop_reason: self.translator.stop_reason() });
        }
        // The machine has deadlines of its own for what is not answered.
        self.resync.truths.clear();
        self.resync.unscoped = None;
        self.resync.doubted = false;
    }

    /// The server answers and nothing of that can be read, neither what it does nor what it has: asked often enough, the
    /// turn ends by that. True when it is asked again.
    fn end_unread(&mut self, error: &TurnError, now: Time) -> bool {
        let wanted = self.resync.doubted || self.resync.unscoped.is_some() || !self.resync.truths.is_empty();
        let runs = !self.translator.rests() && self.sent.is_none();
        // A refusal has a status, and may pass; an idle that was heard is the end.
        let is_unread = error.class == ErrorClass::AgentError && error.status.is_none();
        if !is_unread || !wanted || !runs || self.resync.idle || self.closing.is_some() {
            self.resync.unread = 0;
            return false;
        }
        self.resync.unread += 1;
        if self.resync.unread < UNREAD_TIMES {
            self.resync.early = Some(now.plus_millis(FAILED_MILLIS));
            return true;
        }
        self.resync.unread = 0;
        self.say(Signal::Failed(error.clone()));
        let mut found = Found::default();
        self.translator.rest(&mut found);
        found.signals.into_iter().for_each(|signal| self.end_by(signal));
        false
    }
}
