//! How each event changes the state. An event about an unknown thing changes nothing.

use super::Fold;
use super::meter::Meter;
use super::state::{
    Activity, Approval, Asked, Attempt, BadEnd, Inherited, Item, ItemStage, Prompt, PromptStage, Resumed,
    Retry, Session, Turn,
};
use super::unattended::UnattendedState;
use super::user_message::UserMessage;
use crate::event::{
    ApprovalOption, Aside, Body, By, Continuation, Cost, Draft, Event, Field, ItemKind, NoticeCode, Question,
    Resolution, ResumeAs, SessionPatch, Status, Tool, Usage,
};
use crate::id::{ApprovalId, AttemptId, PromptId, QuestionId, TurnId};
use crate::time::Time;
use serde_json::Value;

impl Fold {
    /// Applies one event. The match names every type, so that the compiler reports a new one.
    pub(super) fn change(&mut self, event: &Event) {
        let Event { seq: _, time, draft } = event;
        self.state.session.apply(&draft.body, *time);
        match &draft.body {
            Body::SessionCreated { .. }
            | Body::SessionUpdated(_)
            | Body::SessionStatus(_)
            | Body::SessionResumed { .. }
            | Body::SessionEnded { .. } => {}
            Body::PromptAccepted { prompt, key, content } => {
                self.prompt_accepted(prompt, key.clone(), content, draft, *time);
            }
            Body::PromptSent { prompt, native_id, bare: _ } => {
                if let Some(queued) = self.queued(prompt) {
                    queued.state = PromptStage::Sent;
                    queued.native_id.clone_from(native_id);
                }
            }
            Body::PromptTaken { prompt } => self.prompt_taken(prompt, draft.turn.as_ref()),
            Body::PromptWithdrawn { prompt } => {
                self.prompt_settled(prompt, PromptStage::Withdrawn, None);
            }
            Body::TurnStarted { .. } => self.turn_started(draft, *time),
            Body::TurnEnded { .. } => {
                if let Some(turn) = self.turn_mut(draft.turn.as_ref()) {
                    turn.end(&draft.body, *time);
                }
            }
            Body::AttemptStarted { .. } => self.attempt_started(draft),
            Body::AttemptEnded { finish, usage, cost } => {
                if let Some(attempt) = self.attempt_mut(draft) {
                    attempt.ended = true;
                    attempt.finish.clone_from(finish);
                    attempt.usage = usage.as_deref().cloned();
                    attempt.cost.clone_from(cost);
                }
            }
            Body::AttemptSuperseded { by, .. } => self.attempt_superseded(draft, by),
            Body::ItemStarted { .. } => self.item_started(draft, *time),
            Body::ItemRemoved => self.remove_items(draft.voided_items()),
            Body::ItemDelta { .. }
            | Body::ItemReplaced { .. }
            | Body::ItemUpdated { .. }
            | Body::ItemEnded { .. }
            | Body::ItemRevised { .. } => {
                if let Some(item) = self.item_mut(draft.item.as_ref()) {
                    item.change(draft);
                }
            }
            Body::ApprovalRequested { approval, tool, options, native_id } => {
                self.approval_requested(approval, tool.clone(), options, native_id.clone(), draft, *time);
            }
            Body::ApprovalResolved { approval, resolution } => {
                self.approval_resolved(approval, resolution, draft);
            }
            Body::QuestionAsked { question, questions, native_id } => {
                self.question_asked(question, questions, native_id.clone(), draft, *time);
            }
            Body::QuestionAnswered { question, outcome, answers, key } => {
                let mut newest_first = self.state.questions.iter_mut().rev();
                if let Some(open) = newest_first.find(|open| open.question == *question) {
                    open.outcome = Some(*outcome);
                    open.actor.clone_from(&draft.actor);
                    open.answers.clone_from(answers);
                    open.key.clone_from(key);
                }
            }
            Body::Notice { code, .. } => self.noticed(*code),
            Body::Aside(aside) => self.change_aside(aside, draft),
            Body::Unknown { .. } => {}
        }
    }

    /// Applies an event of the second part of the table.
    fn change_aside(&mut self, aside: &Aside, draft: &Draft) {
        match aside {
            Aside::PromptCancelling { prompt, by } => {
                if let Some(queued) = self.queued(prompt) {
                    queued.cancelling.get_or_insert(*by);
                }
            }
            Aside::TurnCancelling { by } => {
                if let Some(turn) = self.turn_mut(draft.turn.as_ref()) {
                    turn.cancelling.get_or_insert(*by);
                }
            }
            Aside::PromptContinues { prompt, continuation } => self.prompt_continues(prompt, continuation),
            Aside::TurnContinues { continuation } => {
                if let Some(turn) = self.turn_mut(draft.turn.as_ref()) {
                    turn.continues = Some((**continuation).clone());
                }
            }
            // These change the session alone.
            Aside::BudgetSet { .. }
            | Aside::BudgetReached { .. }
            | Aside::BudgetUsed { .. }
            | Aside::SessionHandedOver { .. }
            | Aside::SessionInherited { .. }
            | Aside::UnattendedSet { .. }
            | Aside::UnattendedParked { .. }
            | Aside::UnattendedReleased { .. } => {}
        }
    }

    // === prompts ===

    fn prompt_accepted(
        &mut self,
        prompt: &PromptId,
        key: Option<String>,
        content: &[Value],
        draft: &Draft,
        time: Time,
    ) {
        self.state.counters.prompts += 1;
        self.state.queue.push(Prompt {
            prompt: prompt.clone(),
            key,
            actor: draft.actor.clone(),
            content: content.to_vec(),
            state: PromptStage::Waiting,
            native_id: None,
            cancelling: None,
            turn: None,
            continues: None,
            time,
        });
    }

    /// The prompt is the next one to be sent.
    fn prompt_continues(&mut self, prompt: &PromptId, continuation: &Continuation) {
        let queue = &mut self.state.queue;
        let Some(index) = queue.iter().position(|queued| queued.prompt == *prompt) else { return };
        let mut queued = queue.remove(index);
        queued.continues = Some(continuation.clone());
        let is_waiting = |other: &Prompt| other.state == PromptStage::Waiting;
        let first = queue.iter().position(is_waiting).unwrap_or(queue.len());
        queue.insert(first, queued);
    }

    fn queued(&mut self, prompt: &PromptId) -> Option<&mut Prompt> {
        self.state.queue.iter_mut().find(|queued| queued.prompt == *prompt)
    }

    fn prompt_taken(&mut self, prompt: &PromptId, turn: Option<&TurnId>) {
        let cancelling: Option<By> = self.queued(prompt).and_then(|queued| queued.cancelling);
        self.prompt_settled(prompt, PromptStage::Taken, turn);
        if let Some(turn) = self.turn_mut(turn) {
            turn.cancelling = turn.cancelling.or(cancelling);
            if !turn.prompts.contains(prompt) {
                turn.prompts.push(prompt.clone());
            }
        }
    }

    fn prompt_settled(&mut self, prompt: &PromptId, state: PromptStage, turn: Option<&TurnId>) {
        if let Some(index) = self.state.queue.iter().position(|queued| queued.prompt == *prompt) {
            let queued = self.state.queue.remove(index);
            self.state.prompts.push(Prompt { state, turn: turn.cloned(), ..queued });
        }
    }

    // === turns and attempts ===

    fn turn_started(&mut self, draft: &Draft, time: Time) {
        let (Some(id), Body::TurnStarted { origin, prompts, native_id }) = (&draft.turn, &draft.body) else {
            return;
        };
        self.state.counters.turns += 1;
        self.turns.insert(id.clone(), self.state.turns.len());
        self.state.turns.push(Turn {
            turn: id.clone(),
            origin: *origin,
            prompts: prompts.clone(),
            native_id: native_id.clone(),
            started: time,
            model: self.state.session.model.clone(),
            mode: self.state.session.mode.clone(),
            attempts: Vec::new(),
            continues: None,
            cancelling: None,
            ended: None,
            outcome: None,
            stop_reason: None,
            usage: None,
            cost: None,
            error: None,
        });
    }

    fn attempt_started(&mut self, draft: &Draft) {
        let (Some(id), Body::AttemptStarted { step, model, native_id }) = (&draft.attempt, &draft.body)
        else {
            return;
        };
        self.state.counters.attempts += 1;
        let after = draft.turn.as_ref().and_then(|turn| UserMessage::last_in(turn, &self.state));
        if let Some(turn) = self.turn_mut(draft.turn.as_ref()) {
            turn.attempts.push(Attempt {
                attempt: id.clone(),
                step: *step,
                model: model.clone(),
                native_id: native_id.clone(),
                after,
                ended: false,
                finish: None,
                usage: None,
                cost: None,
                superseded_by: None,
            });
        }
    }

    fn attempt_mut(&mut self, draft: &Draft) -> Option<&mut Attempt> {
        let id = draft.attempt.as_ref()?;
        let turn = self.turn_mut(draft.turn.as_ref())?;
        turn.attempts.iter_mut().find(|attempt| attempt.attempt == *id)
    }

    fn attempt_superseded(&mut self, draft: &Draft, by: &AttemptId) {
        if draft.attempt.is_none() || self.turn_mut(draft.turn.as_ref()).is_none() {
            return;
        }
        if let Some(attempt) = self.attempt_mut(draft) {
            attempt.ended = true;
            attempt.superseded_by = Some(by.clone());
        }
        self.remove_items(draft.voided_items());
    }

    // === items ===

    fn item_started(&mut self, draft: &Draft, time: Time) {
        let (Some(id), Body::ItemStarted { kind, role, synthetic, text, tool, native_id }) =
            (&draft.item, &draft.body)
        else {
            return;
        };
        self.state.counters.items += 1;
        self.items.insert(id.clone(), self.state.items.len());
        self.state.items.push(Item {
            id: id.clone(),
            turn: draft.turn.clone(),
            attempt: draft.attempt.clone(),
            parent: draft.parent.clone(),
            kind: *kind,
            role: *role,
            synthetic: *synthetic,
            text: text.clone(),
            input: None,
            output: None,
            tool: tool.clone(),
            native_id: native_id.clone(),
            state: ItemStage::Streaming,
            reason: None,
            incomplete: false,
            caused_by: None,
            late: false,
            time,
        });
    }

    // === approvals, questions and notices ===

    fn approval_requested(
        &mut self,
        approval: &ApprovalId,
        tool: Option<Box<Tool>>,
        options: &[ApprovalOption],
        native_id: Option<String>,
        draft: &Draft,
        time: Time,
    ) {
        self.state.counters.approvals += 1;
        self.state.approvals.push(Approval {
            approval: approval.clone(),
            turn: draft.turn.clone(),
            item: draft.item.clone(),
            tool,
            options: options.to_vec(),
            native_id,
            outcome: None,
            by: None,
            actor: None,
            option: None,
            message: None,
            key: None,
            time,
        });
    }

    fn approval_resolved(&mut self, approval: &ApprovalId, resolution: &Resolution, draft: &Draft) {
        let mut newest_first = self.state.approvals.iter_mut().rev();
        if let Some(open) = newest_first.find(|open| open.approval == *approval) {
            open.outcome = Some(resolution.outcome);
            open.by = Some(resolution.by);
            open.actor.clone_from(&draft.actor);
            open.option.clone_from(&resolution.option);
            open.message.clone_from(&resolution.message);
            open.key.clone_from(&resolution.key);
        }
    }

    fn question_asked(
        &mut self,
        question: &QuestionId,
        questions: &[Question],
        native_id: Option<String>,
        draft: &Draft,
        time: Time,
    ) {
        self.state.counters.questions += 1;
        self.state.questions.push(Asked {
            question: question.clone(),
            turn: draft.turn.clone(),
            item: draft.item.clone(),
            questions: questions.to_vec(),
            native_id,
            outcome: None,
            actor: None,
            answers: None,
            key: None,
            time,
        });
    }

    fn noticed(&mut self, code: NoticeCode) {
        match code {
            NoticeCode::Degraded => self.state.degraded = true,
            NoticeCode::Healed => self.state.degraded = false,
            NoticeCode::Gap
            | NoticeCode::Repaired
            | NoticeCode::Corrupt
            | NoticeCode::UnexpectedPermission
            | NoticeCode::Budget
            | NoticeCode::Late
            | NoticeCode::UnknownEvent
            | NoticeCode::Forgotten => {}
        }
    }
}

impl Session {
    /// Changes the session by an event about it. Of other events, those change it that its budget counts,
    /// the ends of turns, and the agent's first work after a resume or a handover.
    pub fn apply(&mut self, body: &Body, time: Time) {
        Meter::follow(&mut self.budget, body, time);
        if let Body::SessionCreated { session: id, agent, cwd, title, key } = body {
            *self = Self {
                id: Some(id.clone()),
                agent: agent.clone(),
                cwd: cwd.clone(),
                title: title.clone(),
                key: key.clone(),
                created: Some(time),
                ..Self::default()
            };
        } else if let Body::SessionUpdated(patch) = body {
            self.update(patch);
        } else if let Body::SessionStatus(status) = body {
            (self.status, self.retry) = activity(status);
        } else if let Body::SessionResumed { r#as, forgot } = body {
            self.native_id = None;
            self.resumed = Some(Resumed {
                r#as: *r#as,
                forgot: forgot.clone(),
                time,
                pending: *r#as == ResumeAs::Transcript,
            });
        } else if let Body::TurnEnded { outcome, usage, cost, error, .. } = body {
            self.add_use(usage.as_deref(), cost.as_ref());
            self.last = BadEnd::of(*outcome, error.as_deref());
        } else if let Body::SessionEnded { reason } = body {
            self.ended = Some(reason.clone());
        } else if let Body::PromptSent { bare, .. } = body {
            self.bare_prompt = *bare;
        } else if let Body::ItemStarted { .. } | Body::AttemptStarted { .. } = body {
            self.agent_worked();
        } else if let Body::Aside(Aside::SessionHandedOver { to, agent: _ }) = body {
            if !self.handed_over.contains(to) {
                self.handed_over.push(to.clone());
            }
        } else if let Body::Aside(Aside::SessionInherited { from, agent, entries, .. }) = body {
            let (session, agent, pending) = (from.clone(), agent.clone(), *entries > 0);
            self.from = Some(Inherited { session, agent, pending });
        } else if let Body::Aside(aside) = body {
            UnattendedState::follow(&mut self.unattended, aside, time);
        }
    }

    fn add_use(&mut self, usage: Option<&Usage>, cost: Option<&Cost>) {
        if let Some(usage) = usage {
            self.usage.get_or_insert_default().add(usage);
        }
        match (&mut self.cost, cost) {
            (Some(sum), Some(cost)) => sum.add(cost),
            (sum @ None, cost) => sum.clone_from(&cost.cloned()),
            (Some(_), None) => {}
        }
    }

    /// The agent showed work, so it has the last prompt and the transcript that was sent with it.
    fn agent_worked(&mut self) {
        if self.bare_prompt {
            return;
        }
        if let Some(resumed) = &mut self.resumed {
            resumed.pending = false;
        }
        if let Some(from) = &mut self.from {
            from.pending = false;
        }
    }

    fn update(&mut self, patch: &SessionPatch) {
        let SessionPatch { title, model, mode, native_id, context, permissions, redact_prompts, mcp } = patch;
        let texts = [(&mut self.title, title), (&mut self.model, model), (&mut self.mode, mode)].into_iter();
        for (old, new) in texts.chain([(&mut self.native_id, native_id)]) {
            if new.is_some() {
                old.clone_from(new);
            }
        }
        self.context = context.clone().or(self.context.take());
        self.permissions = permissions.or(self.permissions);
        self.redact_prompts = redact_prompts.or(self.redact_prompts);
        if let Some(mcp) = mcp {
            self.mcp.clone_from(mcp);
        }
    }
}

fn activity(status: &Status) -> (Activity, Option<Retry>) {
    match status {
        Status::Idle => (Activity::Idle, None),
        Status::Busy => (Activity::Busy, None),
        Status::Waiting => (Activity::Waiting, None),
        Status::Recovering => (Activity::Recovering, None),
        Status::Retrying { attempt, reason, until, message } => {
            let message = message.clone();
            let retry = Retry { attempt: *attempt, reason: *reason, until: *until, message };
            (Activity::Retrying, Some(retry))
        }
    }
}

impl Turn {
    fn end(&mut self, body: &Body, time: Time) {
        if let Body::TurnEnded { outcome, stop_reason, usage, cost, summed: _, error } = body {
            self.ended = Some(time);
            self.outcome = Some(*outcome);
            self.stop_reason = *stop_reason;
            self.usage = usage.as_deref().cloned();
            self.cost.clone_from(cost);
            self.error = error.as_deref().cloned();
        }
    }
}

impl Item {
    /// Changes the item by an event about it.
    fn change(&mut self, draft: &Draft) {
        if let Body::ItemDelta { field, text } = &draft.body {
            self.field(*field).push_str(text);
        } else if let Body::ItemReplaced { field, text } = &draft.body {
            self.field(*field).clone_from(text);
        } else if let Body::ItemUpdated { tool } = &draft.body {
            if draft.parent.is_some() {
                self.parent.clone_from(&draft.parent);
            }
            self.merge_tool(tool.as_deref());
        } else if let Body::ItemEnded { state, reason, incomplete, caused_by } = &draft.body {
            self.state = (*state).into();
            self.reason.clone_from(reason);
            self.incomplete = *incomplete;
            self.caused_by.clone_from(caused_by);
        } else if let Body::ItemRevised { late, state, text, tool } = &draft.body {
            self.late |= *late;
            if let Some(state) = state {
                self.state = (*state).into();
            }
            if let Some(text) = text {
                self.text = Some(text.clone());
                // A revision has the whole text, so nothing is missing any more.
                self.incomplete = false;
                self.reason = None;
            }
            self.merge_tool(tool.as_deref());
        }
    }

    fn merge_tool(&mut self, patch: Option<&Tool>) {
        if let Some(patch) = patch {
            self.tool.get_or_insert_default().merge(patch);
            if patch.input.is_some() && self.kind == ItemKind::Tool {
                self.input = None;
            }
        }
    }

    fn field(&mut self, field: Field) -> &mut String {
        let text = match field {
            Field::Text => &mut self.text,
            Field::Input => &mut self.input,
            Field::Output => &mut self.output,
        };
        text.get_or_insert_default()
    }
}
