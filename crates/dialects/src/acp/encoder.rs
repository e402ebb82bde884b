//! Turns events into ACP messages. Its state does not grow with the length of the conversation.

use super::asks::{Permission, Question};
use super::ending;
use super::event::{AcpEvent, Notice};
use super::items::Items;
use super::tag::{self, Void};
use agent_client_protocol_schema::v1::{
    ContentBlock, Cost as AcpCost, SessionInfoUpdate, SessionUpdate, TextContent, UsageUpdate,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::HashMap;
use turnstream_model::cursor::Seq;
use turnstream_model::event::{
    ApprovalOption, Body, Context, Cost, Draft, Event, SessionPatch, Subject, Tool,
};
use turnstream_model::id::{ApprovalId, ItemId, Key, PromptId, QuestionId, TurnId};

/// Encodes one session, for one or more clients that have received the same messages of it.
///
/// [`Encoder::new`] starts at the first event of a log. [`Encoder::resume`] starts after a state that the
/// client has already. [`Encoder::replay`] starts with a state that the client receives first. It keeps the
/// items of open turns, waiting prompts, and the sessions of subagents. It keeps no text but a plan's.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    /// The last event that was encoded. A repeated delivery adds nothing.
    pub(super) seq: Seq,
    pub(super) items: Items,
    pub(super) turns: HashMap<TurnId, OpenTurn>,
    /// The content of prompts that no turn has taken yet.
    pub(super) prompts: HashMap<PromptId, Vec<Value>>,
    pub(super) context: Option<Context>,
    /// The cost of all ended turns.
    pub(super) cost: Option<Cost>,
}

/// A turn whose terminator was not sent yet.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenTurn {
    pub(super) prompts: Vec<PromptId>,
    /// The finish reason of the last model call, in the provider's words.
    pub(super) finish: Option<String>,
}

impl Encoder {
    /// Starts at the first event of a log.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the messages for an event: often one, sometimes none. An event that was encoded before, or that
    /// the state contained, adds nothing.
    pub fn encode(&mut self, event: &Event, out: &mut Vec<AcpEvent>) {
        if event.seq <= self.seq {
            return;
        }
        self.seq = event.seq;
        self.apply(&event.draft, out);
    }

    /// Dispatches by what the event is about. A type without a message in ACP adds nothing: `prompt.sent`,
    /// `prompt.cancelling` and `turn.cancelling` show in what the agent does next.
    fn apply(&mut self, draft: &Draft, out: &mut Vec<AcpEvent>) {
        let Some((subject, _)) = draft.about() else { return };
        match subject {
            Subject::Item(item) => self.items.apply(item, draft, out),
            Subject::Session => self.session(&draft.body, out),
            Subject::Prompt(prompt) => self.prompt(prompt, draft, out),
            Subject::Turn(turn) => self.turn(turn, &draft.body, out),
            Subject::Attempt(_) => self.attempt(draft, out),
            Subject::Approval(approval) => self.approval(approval, draft, out),
            Subject::Question(question) => question_event(question, draft, out),
            Subject::Notice => notice(draft, out),
        }
    }

    fn session(&mut self, body: &Body, out: &mut Vec<AcpEvent>) {
        if let Body::SessionCreated { title: title @ Some(_), .. } = body {
            let patch = SessionPatch { title: title.clone(), ..SessionPatch::default() };
            self.session_updated(&patch, out);
        } else if let Body::SessionUpdated(patch) = body {
            self.session_updated(patch, out);
        } else if let Body::SessionStatus(status) = body {
            out.push(AcpEvent::Status(status.clone()));
        } else if let Body::SessionEnded { reason } = body {
            out.push(AcpEvent::SessionEnded { reason: reason.clone() });
        }
    }

    fn prompt(&mut self, prompt: &PromptId, draft: &Draft, out: &mut Vec<AcpEvent>) {
        if let Body::PromptAccepted { content, .. } = &draft.body {
            self.prompts.insert(prompt.clone(), content.clone());
        } else if let Body::PromptTaken { .. } = &draft.body {
            self.prompt_taken(draft.turn.as_ref(), prompt, out);
        } else if let Body::PromptWithdrawn { .. } = &draft.body {
            self.prompts.remove(prompt);
            out.push(AcpEvent::Withdrawn(prompt.clone()));
        }
    }

    fn turn(&mut self, turn: &TurnId, body: &Body, out: &mut Vec<AcpEvent>) {
        if let Body::TurnStarted { prompts, .. } = body {
            self.turn_started(turn, prompts);
        } else if let Body::TurnEnded { .. } = body {
            self.turn_ended(turn, body, out);
        }
    }

    fn attempt(&mut self, draft: &Draft, out: &mut Vec<AcpEvent>) {
        if let Body::AttemptStarted { .. } = &draft.body {
            self.note_finish(draft.turn.as_ref(), None);
        } else if let Body::AttemptEnded { finish, .. } = &draft.body {
            self.note_finish(draft.turn.as_ref(), finish.as_ref());
        }
        for item in draft.voided_items() {
            self.items.void(item, draft.turn.as_ref(), Void::Superseded, out);
        }
    }

    fn approval(&mut self, approval: &ApprovalId, draft: &Draft, out: &mut Vec<AcpEvent>) {
        if let Body::ApprovalRequested { tool, options, .. } = &draft.body {
            out.push(self.permission(approval, draft.item.as_ref(), tool.as_deref(), options));
        } else if let Body::ApprovalResolved { resolution, .. } = &draft.body {
            let (approval, outcome) = (approval.clone(), resolution.outcome);
            out.push(AcpEvent::PermissionSettled { approval, outcome });
        }
    }

    pub(super) fn permission(
        &self,
        approval: &ApprovalId,
        item: Option<&ItemId>,
        tool: Option<&Tool>,
        options: &[ApprovalOption],
    ) -> AcpEvent {
        let tag = item.map(|item| self.items.tag_of(item)).unwrap_or_default();
        AcpEvent::Permission(Box::new(Permission::new(approval, item, tool, options, tag)))
    }

    pub(super) fn turn_started(&mut self, turn: &TurnId, prompts: &[PromptId]) {
        for prompt in prompts {
            if let Some(content) = self.prompts.get(prompt) {
                self.items.remember_prompt(turn, content);
            }
        }
        self.turns.entry(turn.clone()).or_default().prompts.extend(prompts.iter().cloned());
    }

    pub(super) fn prompt_taken(&mut self, turn: Option<&TurnId>, prompt: &PromptId, out: &mut Vec<AcpEvent>) {
        let content = self.prompts.remove(prompt).unwrap_or_default();
        if let Some(turn) = turn {
            let open = self.turns.entry(turn.clone()).or_default();
            if !open.prompts.contains(prompt) {
                open.prompts.push(prompt.clone());
                self.items.remember_prompt(turn, &content);
            }
        }
        for value in &content {
            out.push(AcpEvent::Prompt { prompt: prompt.clone(), block: Box::new(block(value)) });
        }
    }

    fn note_finish(&mut self, turn: Option<&TurnId>, finish: Option<&String>) {
        if let Some(open) = turn.and_then(|turn| self.turns.get_mut(turn)) {
            open.finish = finish.cloned();
        }
    }

    fn turn_ended(&mut self, turn: &TurnId, body: &Body, out: &mut Vec<AcpEvent>) {
        let Body::TurnEnded { cost, .. } = body else { return };
        let OpenTurn { prompts, finish } = self.turns.remove(turn).unwrap_or_default();
        if let Some(cost) = cost {
            self.add_cost(cost);
            self.show_usage(out);
        }
        self.items.end_turn(turn);
        out.extend(ending::terminator(turn, prompts, finish.as_deref(), body));
    }

    pub(super) fn session_updated(&mut self, patch: &SessionPatch, out: &mut Vec<AcpEvent>) {
        // Clients need not know whether prompts are redacted.
        let SessionPatch { title, model, mode, native_id, context, permissions, redact_prompts: _ } = patch;
        if let Some(native_id) = native_id {
            self.items.subagents.session = Some(Key::from(native_id.as_str()));
        }
        let members = [
            ("model", model.as_deref()),
            ("mode", mode.as_deref()),
            ("permissions", permissions.map(|permissions| permissions.as_str())),
        ];
        let ours: Map<String, Value> = members
            .into_iter()
            .filter_map(|(member, value)| Some((member.to_owned(), Value::from(value?))))
            .collect();
        if title.is_some() || !ours.is_empty() {
            let mut info = SessionInfoUpdate::new();
            if let Some(title) = title {
                info = info.title(title.clone());
            }
            let meta = if ours.is_empty() { None } else { tag::meta(&ours) };
            push_update(SessionUpdate::SessionInfoUpdate(info.meta(meta)), out);
        }
        if let Some(context) = context {
            self.context = Some(context.clone());
            self.show_usage(out);
        }
    }

    pub(super) fn add_cost(&mut self, cost: &Cost) {
        match &mut self.cost {
            Some(total) if total.currency == cost.currency => total.amount += cost.amount,
            // Different currencies cannot be added; the newest cost is at least right for its turn.
            other => *other = Some(cost.clone()),
        }
    }

    /// Adds how full the context is, if both numbers are known: ACP has no message for one alone.
    pub(super) fn show_usage(&self, out: &mut Vec<AcpEvent>) {
        let Some(Context { used: Some(used), size: Some(size), .. }) = self.context else { return };
        let finite = self.cost.as_ref().filter(|cost| cost.amount.is_finite());
        let cost = finite.map(|cost| AcpCost::new(cost.amount, cost.currency.clone()));
        push_update(SessionUpdate::UsageUpdate(UsageUpdate::new(used, size).cost(cost)), out);
    }
}

fn question_event(question: &QuestionId, draft: &Draft, out: &mut Vec<AcpEvent>) {
    let question = question.clone();
    if let Body::QuestionAsked { questions, .. } = &draft.body {
        let (item, questions) = (draft.item.clone(), questions.clone());
        out.push(AcpEvent::Question(Box::new(Question { question, item, questions })));
    } else if let Body::QuestionAnswered { outcome, .. } = &draft.body {
        out.push(AcpEvent::QuestionSettled { question, outcome: *outcome });
    }
}

fn notice(draft: &Draft, out: &mut Vec<AcpEvent>) {
    if let Body::Notice { code, message, detail } = &draft.body {
        out.push(AcpEvent::Notice(Box::new(Notice {
            code: *code,
            message: message.clone(),
            detail: detail.clone(),
            turn: draft.turn.clone(),
            item: draft.item.clone(),
        })));
    }
}

/// An update that is not about the work of a subagent.
pub(super) fn push_update(update: SessionUpdate, out: &mut Vec<AcpEvent>) {
    out.push(AcpEvent::Update { update: Box::new(update), parent: None });
}

/// A block of a prompt. One that is not valid ACP is shown as its JSON.
fn block(value: &Value) -> ContentBlock {
    ContentBlock::deserialize(value)
        .unwrap_or_else(|_| ContentBlock::Text(TextContent::new(value.to_string())))
}
