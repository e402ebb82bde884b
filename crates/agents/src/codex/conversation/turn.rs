//! Where a turn begins and ends. `turn/completed` is the only end, once per turn, by thread and turn. The
//! status `idle` comes just before it, and never after a failure, so it says nothing.

use super::commands::{Request, SentPrompt};
use super::{Conversation, ENDED_KEPT, OpenTurn};
use crate::codex::outcome;
use crate::codex::usage;
use crate::codex::wire::{ErrorLine, PlanLine, TurnLine, UsageLine};
use crate::foreign_error::shorten;
use turnstream_model::event::{Field, ItemKind, ItemState, Origin, Outcome};
use turnstream_model::id::Key;
use turnstream_model::signal::{Ending, Finality, ItemSeen, Signal};

/// The finish of a model call that was counted as complete: the status of its response.
const COMPLETED: &str = "completed";

impl Conversation {
    /// The server has a prompt: in a new turn, or in the one that runs.
    pub(super) fn prompt_started(&mut self, prompt: SentPrompt, turn: String) {
        let SentPrompt { native_id, unwanted } = prompt;
        if self.has_ended(&turn) {
            return;
        }
        self.begin_turn(&turn, Some(native_id));
        if unwanted {
            self.interrupt();
        }
    }

    pub(super) fn turn_started(&mut self, line: &TurnLine) {
        if line.thread_id != self.thread {
            if let Some(child) = self.child(&line.thread_id) {
                child.busy = true;
            }
            return;
        }
        if !self.has_ended(&line.turn.id) {
            self.begin_turn(&line.turn.id, None);
            self.interrupt_again();
        }
    }

    pub(super) fn has_ended(&self, turn: &str) -> bool {
        self.ended.iter().any(|ended| ended == turn)
    }

    /// A turn begins if it is not the open one. It takes this prompt.
    pub(super) fn begin_turn(&mut self, id: &str, prompt: Option<String>) {
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.id == id) {
            if let Some(prompt) = prompt.filter(|prompt| !turn.prompts.contains(prompt)) {
                turn.prompts.push(prompt.clone());
                self.signal(Signal::PromptTaken(prompt));
            }
            return;
        }
        if let Some(missed) = self.turn.take() {
            // Its end was missed.
            self.forget_items(&self.thread.clone());
            self.note_ended(missed.id);
        }
        let is_sent = self.requests.values().any(|request| matches!(request, Request::StartTurn(_)));
        // A queue of Codex, or another client, begins turns too.
        let origin = (prompt.is_none() && !is_sent).then_some(Origin::Agent);
        let prompts: Vec<String> = prompt.into_iter().collect();
        let native_id = Some(id.to_owned());
        self.report_counted_only();
        self.signal(Signal::TurnBegan { origin, prompts: prompts.clone(), native_id });
        self.gaps = 0;
        self.turn = Some(OpenTurn::new(id, prompts));
    }

    /// The end of a turn, of the thread or of a subagent.
    pub(super) fn turn_completed(&mut self, line: &TurnLine) {
        let TurnLine { thread_id, turn } = line;
        if *thread_id != self.thread {
            return self.child_ended(thread_id);
        }
        if self.has_ended(&turn.id) {
            return;
        }
        // A turn that ends before anything else was seen of it.
        self.begin_turn(&turn.id, None);
        let failure = self.turn.as_ref().and_then(|turn| turn.failure.clone());
        if let Some(mut ending) = outcome::ending(turn, failure.as_ref()) {
            if let Some(error) = &mut ending.error {
                self.limits.complete(error, self.now);
            }
            self.end_turn(ending);
        }
    }

    /// Ends the open turn.
    pub(super) fn end_turn(&mut self, mut ending: Ending) {
        let Some(turn) = self.turn.take() else { return };
        ending.usage = turn.usage;
        if let Some(key) = turn.plan {
            let (state, reason) = (ItemState::Completed, None);
            self.signal(Signal::ItemEnded { key, state, reason });
        }
        if ending.outcome != Outcome::Lost {
            self.keep_leftover_commands();
        }
        self.forget_items(&self.thread.clone());
        self.end_asks(&turn.id);
        let native_id = Some(turn.id.clone());
        self.note_ended(turn.id);
        self.report_counted_only();
        self.signal(Signal::TurnDone { native_id, ending });
    }

    fn note_ended(&mut self, turn: String) {
        self.ended.push_back(turn);
        if self.ended.len() > ENDED_KEPT {
            self.ended.pop_front();
        }
    }

    /// An error is not the end. With `willRetry` the model call is repeated, else the end follows.
    pub(super) fn error(&mut self, line: ErrorLine) {
        if line.thread_id != self.thread || self.has_ended(&line.turn_id) {
            return;
        }
        self.begin_turn(&line.turn_id, None);
        if !line.will_retry {
            if let Some(turn) = &mut self.turn {
                turn.failure = Some(line.error);
            }
            return;
        }
        // What the call has shown so far is void, and its ids may come again (capture g_cut_fin_then_ok).
        self.forget_texts();
        if let Some(turn) = &mut self.turn {
            turn.call_is_open = false;
        }
        let details = line.error.additional_details.as_deref();
        let message = details.map_or_else(
            || line.error.message.clone(),
            |details| format!("{}: {details}", line.error.message),
        );
        self.signal(Signal::Retrying {
            attempt: None,
            reason: outcome::class_of_retry(&line.error),
            until: None,
            message: Some(shorten(&message)),
        });
    }

    /// A model call shows something: it has begun.
    pub(super) fn begin_call(&mut self) {
        let Some(turn) = self.turn.as_mut().filter(|turn| !turn.call_is_open) else { return };
        turn.call_is_open = true;
        turn.calls += 1;
        let key = turn.call_key();
        self.signal(Signal::AttemptBegan { key, model: self.settings.model.clone() });
    }

    /// Tokens of a model call, which has ended then.
    pub(super) fn token_usage(&mut self, line: &UsageLine) {
        let report = &line.token_usage;
        if line.thread_id != self.thread {
            let call = self.child(&line.thread_id).and_then(|child| child.usage.count(report));
            if let (Some(turn), Some(call)) = (&mut self.turn, call) {
                turn.usage.get_or_insert_default().add(&call.usage);
            }
            return;
        }
        // After a resumption the totals of earlier turns are repeated.
        if self.turn.as_ref().is_none_or(|turn| turn.id != line.turn_id) {
            return self.usage.resume(report.total);
        }
        if let Some(call) = self.usage.count(report) {
            self.begin_call();
            if let Some(turn) = &mut self.turn {
                turn.call_is_open = false;
                turn.usage.get_or_insert_default().add(&call.usage);
                let (key, usage) = (turn.call_key(), Some(call.usage));
                let finish = call.complete.then(|| COMPLETED.to_owned());
                self.signal(Signal::AttemptEnded { key, finish, usage, cost: None });
            }
        }
        if let Some(context) = usage::context(report) {
            self.signal(Signal::Usage { usage: None, cost: None, context: Some(context) });
        }
    }

    /// Shows the task list. There is one per turn, which is replaced.
    pub(super) fn plan_updated(&mut self, line: &PlanLine) {
        let is_ours = line.thread_id.as_ref().is_none_or(|thread| *thread == self.thread);
        let is_open = self.turn.as_ref().is_some_and(|turn| turn.id == line.turn_id);
        if !is_ours || !is_open {
            return;
        }
        let key = Key::from(format!("{}:tasks", line.turn_id));
        if let Some(turn) = &mut self.turn {
            turn.plan = Some(key.clone());
        }
        let mark = |status: &str| match status {
            "completed" => 'x',
            "inProgress" => '~',
            _ => ' ',
        };
        let steps = line.plan.iter().map(|step| format!("- [{}] {}", mark(&step.status), step.step));
        let text = steps.collect::<Vec<_>>().join("\n");
        let (kind, role, parent, synthetic) = (ItemKind::Plan, None, None, false);
        self.signal(Signal::ItemSeen(ItemSeen { key: key.clone(), kind, role, parent, synthetic }));
        let (field, finality) = (Field::Text, Finality::Final);
        self.signal(Signal::TextSnapshot { key, field, text, finality });
    }
}

// === impl OpenTurn ===

impl OpenTurn {
    pub(super) fn new(id: &str, prompts: Vec<String>) -> Self {
        Self {
            id: id.to_owned(),
            prompts,
            interrupt_again: false,
            calls: 0,
            call_is_open: false,
            failure: None,
            usage: None,
            plan: None,
        }
    }

    /// The name of the last model call. Codex does not name them.
    fn call_key(&self) -> Key {
        Key::from(format!("{}:call-{}", self.id, self.calls))
    }
}
