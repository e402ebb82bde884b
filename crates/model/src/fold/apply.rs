//! What each event does to the state. An event about something unknown does nothing.

use super::Fold;
use super::state::{
    Activity, Approval, Asked, Attempt, Item, ItemStage, Prompt, PromptStage, Retry, Session, Turn,
};
use crate::event::{Body, Draft, Event, Field, ItemKind, NoticeCode, Status, Tool};
use crate::id::{PromptId, TurnId};
use crate::time::Time;

impl Fold {
    pub(super) fn take_in(&mut self, event: &Event) {
        let Event { seq: _, time, draft } = event;
        match &draft.body {
            Body::SessionCreated { .. }
            | Body::SessionUpdated(_)
            | Body::SessionStatus(_)
            | Body::SessionEnded { .. } => self.state.session.take_in(&draft.body, *time),
            Body::PromptAccepted { .. }
            | Body::PromptSent { .. }
            | Body::PromptTaken { .. }
            | Body::PromptCancelling { .. }
            | Body::PromptWithdrawn { .. } => self.prompt(draft, *time),
            Body::TurnStarted { .. } | Body::TurnCancelling { .. } | Body::TurnEnded { .. } => {
                self.turn(draft, *time);
            }
            Body::AttemptStarted { .. } | Body::AttemptEnded { .. } | Body::AttemptSuperseded { .. } => {
                self.attempt(draft);
            }
            Body::ItemStarted { .. } => self.item_started(draft, *time),
            Body::ItemRemoved => {
                if let Some(item) = &draft.item {
                    self.remove_items(std::slice::from_ref(item));
                }
            }
            Body::ItemDelta { .. }
            | Body::ItemReplaced { .. }
            | Body::ItemUpdated { .. }
            | Body::ItemEnded { .. }
            | Body::ItemRevised { .. } => {
                if let Some(item) = self.item_mut(draft.item.as_ref()) {
                    item.change(draft);
                }
            }
            Body::ApprovalRequested { .. } | Body::ApprovalResolved { .. } => self.approval(draft, *time),
            Body::QuestionAsked { .. } | Body::QuestionAnswered { .. } => self.question(draft, *time),
            Body::Notice { code, .. } => match code {
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
            },
            Body::Unknown { .. } => {}
        }
    }

    fn prompt(&mut self, draft: &Draft, time: Time) {
        match &draft.body {
            Body::PromptAccepted { prompt, key, content } => {
                self.state.counters.prompts += 1;
                self.state.queue.push(Prompt {
                    prompt: prompt.clone(),
                    key: key.clone(),
                    content: content.clone(),
                    state: PromptStage::Waiting,
                    native_id: None,
                    cancelling: None,
                    turn: None,
                    time,
                });
            }
            Body::PromptSent { prompt, native_id } => {
                if let Some(queued) = self.state.queue.iter_mut().find(|queued| queued.prompt == *prompt) {
                    queued.state = PromptStage::Sent;
                    queued.native_id.clone_from(native_id);
                }
            }
            Body::PromptCancelling { prompt, by } => {
                if let Some(queued) = self.state.queue.iter_mut().find(|queued| queued.prompt == *prompt) {
                    queued.cancelling.get_or_insert(*by);
                }
            }
            Body::PromptTaken { prompt } => {
                let queued = self.state.queue.iter().find(|queued| queued.prompt == *prompt);
                let cancelling = queued.and_then(|queued| queued.cancelling);
                self.settle_prompt(prompt, PromptStage::Taken, draft.turn.as_ref());
                if let Some(turn) = self.turn_mut(draft.turn.as_ref()) {
                    turn.cancelling = turn.cancelling.or(cancelling);
                    if !turn.prompts.contains(prompt) {
                        turn.prompts.push(prompt.clone());
                    }
                }
            }
            Body::PromptWithdrawn { prompt } => self.settle_prompt(prompt, PromptStage::Withdrawn, None),
            _ => {}
        }
    }

    fn settle_prompt(&mut self, prompt: &PromptId, state: PromptStage, turn: Option<&TurnId>) {
        if let Some(index) = self.state.queue.iter().position(|queued| queued.prompt == *prompt) {
            let queued = self.state.queue.remove(index);
            self.state.prompts.push(Prompt { state, turn: turn.cloned(), ..queued });
        }
    }

    fn turn(&mut self, draft: &Draft, time: Time) {
        let Some(id) = &draft.turn else { return };
        match &draft.body {
            Body::TurnStarted { origin, prompts, native_id } => {
                self.state.counters.turns += 1;
                self.turns.insert(id.clone(), self.state.turns.len());
                self.state.turns.push(Turn {
                    turn: id.clone(),
                    origin: *origin,
                    prompts: prompts.clone(),
                    native_id: native_id.clone(),
                    started: time,
                    attempts: Vec::new(),
                    cancelling: None,
                    ended: None,
                    outcome: None,
                    stop_reason: None,
                    usage: None,
                    cost: None,
                    error: None,
                });
            }
            Body::TurnCancelling { by } => {
                if let Some(turn) = self.turn_mut(Some(id)) {
                    turn.cancelling.get_or_insert(*by);
                }
            }
            Body::TurnEnded { outcome, stop_reason, usage, cost, summed: _, error } => {
                if let Some(turn) = self.turn_mut(Some(id)) {
                    turn.ended = Some(time);
                    turn.outcome = Some(*outcome);
                    turn.stop_reason = *stop_reason;
                    turn.usage = usage.as_deref().cloned();
                    turn.cost.clone_from(cost);
                    turn.error = error.as_deref().cloned();
                }
            }
            _ => {}
        }
    }

    fn attempt(&mut self, draft: &Draft) {
        let Some(id) = &draft.attempt else { return };
        if let Body::AttemptStarted { .. } = draft.body {
            self.state.counters.attempts += 1;
        }
        let Some(turn) = self.turn_mut(draft.turn.as_ref()) else { return };
        match &draft.body {
            Body::AttemptStarted { step, model, native_id } => turn.attempts.push(Attempt {
                attempt: id.clone(),
                step: *step,
                model: model.clone(),
                native_id: native_id.clone(),
                ended: false,
                finish: None,
                usage: None,
                cost: None,
                superseded_by: None,
            }),
            Body::AttemptEnded { finish, usage, cost } => {
                if let Some(attempt) = turn.attempts.iter_mut().find(|attempt| attempt.attempt == *id) {
                    attempt.ended = true;
                    attempt.finish.clone_from(finish);
                    attempt.usage = usage.as_deref().cloned();
                    attempt.cost.clone_from(cost);
                }
            }
            Body::AttemptSuperseded { by, items } => {
                if let Some(attempt) = turn.attempts.iter_mut().find(|attempt| attempt.attempt == *id) {
                    attempt.ended = true;
                    attempt.superseded_by = Some(by.clone());
                }
                self.remove_items(items);
            }
            _ => {}
        }
    }

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

    fn approval(&mut self, draft: &Draft, time: Time) {
        match &draft.body {
            Body::ApprovalRequested { approval, tool, options, native_id } => {
                self.state.counters.approvals += 1;
                self.state.approvals.push(Approval {
                    approval: approval.clone(),
                    turn: draft.turn.clone(),
                    item: draft.item.clone(),
                    tool: tool.clone(),
                    options: options.clone(),
                    native_id: native_id.clone(),
                    outcome: None,
                    by: None,
                    option: None,
                    message: None,
                    key: None,
                    time,
                });
            }
            Body::ApprovalResolved { approval, resolution } => {
                let mut newest_first = self.state.approvals.iter_mut().rev();
                if let Some(open) = newest_first.find(|open| open.approval == *approval) {
                    open.outcome = Some(resolution.outcome);
                    open.by = Some(resolution.by);
                    open.option.clone_from(&resolution.option);
                    open.message.clone_from(&resolution.message);
                    open.key.clone_from(&resolution.key);
                }
            }
            _ => {}
        }
    }

    fn question(&mut self, draft: &Draft, time: Time) {
        match &draft.body {
            Body::QuestionAsked { question, questions, native_id } => {
                self.state.counters.questions += 1;
                self.state.questions.push(Asked {
                    question: question.clone(),
                    turn: draft.turn.clone(),
                    item: draft.item.clone(),
                    questions: questions.clone(),
                    native_id: native_id.clone(),
                    outcome: None,
                    answers: None,
                    key: None,
                    time,
                });
            }
            Body::QuestionAnswered { question, outcome, answers, key } => {
                let mut newest_first = self.state.questions.iter_mut().rev();
                if let Some(open) = newest_first.find(|open| open.question == *question) {
                    open.outcome = Some(*outcome);
                    open.answers.clone_from(answers);
                    open.key.clone_from(key);
                }
            }
            _ => {}
        }
    }
}

impl Session {
    /// Takes in an event about the session itself; any other changes nothing.
    pub fn take_in(&mut self, body: &Body, time: Time) {
        match body {
            Body::SessionCreated { session: id, agent, cwd, title, key } => {
                *self = Self {
                    id: Some(id.clone()),
                    agent: agent.clone(),
                    cwd: cwd.clone(),
                    title: title.clone(),
                    key: key.clone(),
                    created: Some(time),
                    ..Self::default()
                };
            }
            Body::SessionUpdated(patch) => {
                let set = |old: &mut Option<String>, new: &Option<String>| {
                    if new.is_some() {
                        old.clone_from(new);
                    }
                };
                set(&mut self.title, &patch.title);
                set(&mut self.model, &patch.model);
                set(&mut self.mode, &patch.mode);
                set(&mut self.native_id, &patch.native_id);
                self.context = patch.context.clone().or(self.context.take());
                self.permissions = patch.permissions.or(self.permissions);
                self.redact_prompts = patch.redact_prompts.or(self.redact_prompts);
            }
            Body::SessionStatus(status) => {
                (self.status, self.retry) = match status {
                    Status::Idle => (Activity::Idle, None),
                    Status::Busy => (Activity::Busy, None),
                    Status::Waiting => (Activity::Waiting, None),
                    Status::Recovering => (Activity::Recovering, None),
                    Status::Retrying { attempt, reason, until, message } => {
                        let message = message.clone();
                        let retry = Retry { attempt: *attempt, reason: *reason, until: *until, message };
                        (Activity::Retrying, Some(retry))
                    }
                };
            }
            Body::SessionEnded { reason } => self.ended = Some(reason.clone()),
            _ => {}
        }
    }
}

impl Item {
    fn change(&mut self, draft: &Draft) {
        match &draft.body {
            Body::ItemDelta { field, text } => self.field(*field).push_str(text),
            Body::ItemReplaced { field, text } => self.field(*field).clone_from(text),
            Body::ItemUpdated { tool } => {
                if draft.parent.is_some() {
                    self.parent.clone_from(&draft.parent);
                }
                self.merge_tool(tool.as_deref());
            }
            Body::ItemEnded { state, reason, incomplete, caused_by } => {
                self.state = (*state).into();
                self.reason.clone_from(reason);
                self.incomplete = *incomplete;
                self.caused_by.clone_from(caused_by);
            }
            Body::ItemRevised { late, state, text, tool } => {
                self.late |= *late;
                if let Some(state) = state {
                    self.state = (*state).into();
                }
                if let Some(text) = text {
                    self.text = Some(text.clone());
                    // A revision is the agent's last word on the text: nothing of it is missing any more.
                    self.incomplete = false;
                    self.reason = None;
                }
                self.merge_tool(tool.as_deref());
            }
            _ => {}
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
