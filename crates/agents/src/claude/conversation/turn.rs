//! Where a turn begins and ends. `result` is the only end, once per turn; the states that the agent reports
//! are only used where a result was missed.

use super::{Conversation, OpenTurn};
use crate::claude::outcome;
use crate::claude::usage::Used;
use crate::claude::wire::Line;
use turnstream_model::event::{ErrorClass, ItemState, NoticeCode, Origin, Outcome, TurnError};
use turnstream_model::signal::Signal;

impl Conversation {
    /// The agent works: a turn begins if none is open. It belongs to background work that has just ended, or
    /// else to the prompt that was sent first.
    pub(super) fn begin_turn(&mut self) {
        if self.turn.is_some() {
            return;
        }
        let is_echoed = self.prompts.front().is_some_and(|prompt| prompt.echoed);
        let woken_by = self.woken_by.take().filter(|_| !is_echoed);
        let prompt = if woken_by.is_none() { self.prompts.pop_front() } else { None };
        let origin = prompt.is_none().then_some(Origin::Agent);
        let unwanted = prompt.as_ref().is_some_and(|prompt| prompt.unwanted);
        let taken: Vec<String> = prompt.map(|prompt| prompt.native_id).into_iter().collect();
        // The task is the prompt of such a turn. A prompt that was sent meanwhile waits for its own turn.
        let prompts = woken_by.map_or_else(|| taken.clone(), |task| vec![task]);
        self.signal(Signal::TurnBegan { origin, prompts, native_id: None });
        self.gaps = 0;
        self.turn = Some(OpenTurn { prompts: taken, ..OpenTurn::default() });
        if unwanted {
            self.interrupt();
        }
    }

    /// The end of a turn.
    pub(super) fn result(&mut self, line: &Line<'_>) {
        if !line.uuid.is_empty() && line.uuid == self.last_result {
            return;
        }
        self.last_result = line.uuid.to_string();
        let used = self.usage.turn(line, self.model.as_deref());
        // A turn that fails before anything else has only its result (capture k_resume_unknown_session).
        if self.turn.is_none() && !self.prompts.is_empty() {
            self.woken_by = None;
            self.begin_turn();
        }
        if self.turn.is_none() {
            let message = "the agent reported the end of a turn when none was open".to_owned();
            return self.notice(NoticeCode::Late, message);
        }
        self.end_turn(line, used);
    }

    /// Ends the open turn as its result says. It used so many tokens and dollars.
    pub(super) fn end_turn(&mut self, line: &Line<'_>, (usage, cost): Used) {
        let Some(turn) = &self.turn else { return };
        let mut ending = outcome::ending(line, turn.error.as_ref(), turn.interrupted);
        (ending.usage, ending.cost) = (usage, cost);
        if let Some(error) = ending.error.as_mut().filter(|error| error.class == ErrorClass::RateLimited) {
            error.retry_at = self.limit_resets.filter(|at| *at > self.now);
        }
        if ending.outcome == Outcome::Failed {
            self.forget_error();
        }
        self.end_work(ending.outcome);
        self.report_context();
        self.signal(Signal::TurnDone { native_id: None, ending });
    }

    /// The agent is idle. After a result that says nothing new.
    pub(super) fn state_idle(&mut self) {
        if self.turn.is_some() {
            // The result was missed.
            self.end_work(Outcome::Lost);
            self.signal(Signal::TurnIdle { stop_reason: None });
        } else if let Some(prompt) = self.prompts.pop_front_if(|prompt| prompt.echoed) {
            // An echo and an idle without work (captures i_duplicate_uuid_prompt, k_resume_duplicate_uuid).
            let message = "Claude Code has already received this prompt and does not run it again; send it \
                           as a new prompt";
            let error = TurnError::new(ErrorClass::NotStarted, message);
            self.signal(Signal::PromptRefused { native_id: prompt.native_id, error });
        }
    }

    /// Ends what is open in the turn, as far as the agent has shown its end.
    pub(super) fn end_work(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Completed | Outcome::Failed => self.end_main_message(),
            // Content that was being written is cut off.
            Outcome::Cancelled | Outcome::Lost => self.cut_main_message(),
        }
        self.end_compaction();
        self.report_error();
        if let Some(key) = self.turn.take().and_then(|turn| turn.plan) {
            let (state, reason) = (ItemState::Completed, None);
            self.signal(Signal::ItemEnded { key, state, reason });
        }
        self.forget_finished();
    }

    /// Forgets what belongs to the turn that has ended. Subagents in the background go on.
    fn forget_finished(&mut self) {
        let Self { calls, threads, asks, tasks, .. } = self;
        let goes_on =
            |call: &Option<String>| call.as_ref().is_some_and(|call| tasks.values().any(|task| task == call));
        calls.retain(|_, known| goes_on(&known.parent));
        threads.retain(|call, _| goes_on(call));
        asks.retain(|_, ask| ask.is_of(calls));
    }

    /// The turn went on, or ended otherwise, after an error that the agent wrote as a message.
    pub(super) fn report_error(&mut self) {
        if let Some(error) = self.turn.as_mut().and_then(|turn| turn.error.take()) {
            let said = outcome::shorten(&error.message);
            self.notice(NoticeCode::Gap, format!("the agent reported an error: {said}"));
        }
    }

    fn forget_error(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.error = None;
        }
    }

    /// The summary of a compaction is complete, or does not come.
    pub(super) fn end_compaction(&mut self) {
        if let Some(key) = self.compaction.take() {
            let (state, reason) = (ItemState::Completed, None);
            self.signal(Signal::ItemEnded { key, state, reason });
        }
    }
}
