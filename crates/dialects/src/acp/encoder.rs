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
use turnstream_model::event::{ApprovalOption, Body, Context, Cost, Draft, Event, SessionPatch, Tool};
use turnstream_model::id::{ApprovalId, ItemId, Key, PromptId, TurnId};

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

    /// Every type has an arm, so that a new one is not forgotten here. `session.resumed`, `prompt.sent` and
    /// the asides have no message in ACP: they show in what the agent does next.
    fn apply(&mut self, draft: &Draft, out: &mut Vec<AcpEvent>) {
        let turn = draft.turn.as_ref();
        match &draft.body {
            Body::SessionCreated { title, .. } => {
                let patch = SessionPatch { title: title.clone(), ..SessionPatch::default() };
                self.session_updated(&patch, out);
            }
            Body::SessionUpdated(patch) => self.session_updated(patch, out),
            Body::SessionStatus(status) => out.push(AcpEvent::Status(status.clone())),
            Body::SessionEnded { reason } => out.push(AcpEvent::SessionEnded { reason: reason.clone() }),
            Body::PromptAccepted { prompt, content, .. } => {
                self.prompts.insert(prompt.clone(), content.clone());
            }
            Body::PromptTaken { prompt } => self.prompt_taken(turn, prompt, out),
            Body::PromptWithdrawn { prompt } => {
                self.prompts.remove(prompt);
                out.push(AcpEvent::Withdrawn(prompt.clone()));
            }
            Body::TurnStarted { prompts, .. } => self.turn_started(turn, prompts),
            Body::TurnEnded { cost, .. } => self.turn_ended(turn, cost.as_ref(), &draft.body, out),
            Body::AttemptStarted { .. } => self.note_finish(turn, None),
            Body::AttemptEnded { finish, .. } => self.note_finish(turn, finish.as_ref()),
            Body::AttemptSuperseded { items, .. } => {
                for item in items {
                    self.items.void(item, turn, Void::Superseded, out);
                }
            }
            Body::ItemStarted { .. }
            | Body::ItemDelta { .. }
            | Body::ItemReplaced { .. }
            | Body::ItemUpdated { .. }
            | Body::ItemEnded { .. }
            | Body::ItemRevised { .. }
            | Body::ItemRemoved => self.items.apply(draft, out),
            Body::ApprovalRequested { approval, tool, options, .. } => {
                out.push(self.permission(approval, draft.item.as_ref(), tool.as_deref(), options));
            }
            Body::ApprovalResolved { approval, resolution } => {
                let (approval, outcome) = (approval.clone(), resolution.outcome);
                out.push(AcpEvent::PermissionSettled { approval, outcome });
            }
            Body::QuestionAsked { question, questions, .. } => {
                let (question, item, questions) = (question.clone(), draft.item.clone(), questions.clone());
                out.push(AcpEvent::Question(Box::new(Question { question, item, questions })));
            }
            Body::QuestionAnswered { question, outcome, .. } => {
                out.push(AcpEvent::QuestionSettled { question: question.clone(), outcome: *outcome });
            }
            Body::Notice { code, message, detail } => {
                let (message, detail) = (message.clone(), detail.clone());
                let (turn, item) = (draft.turn.clone(), draft.item.clone());
                out.push(AcpEvent::Notice(Box::new(Notice { code: *code, message, detail, turn, item })));
            }
            // The agent's id of the session is void.
            Body::SessionResumed { .. } => self.items.subagents.session = None,
            Body::PromptSent { .. } | Body::Aside(_) | Body::Unknown { .. } => {}
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

    pub(super) fn turn_started(&mut self, turn: Option<&TurnId>, prompts: &[PromptId]) {
        let Some(turn) = turn else { return };
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

    fn turn_ended(
        &mut self,
        turn: Option<&TurnId>,
        cost: Option<&Cost>,
        body: &Body,
        out: &mut Vec<AcpEvent>,
    ) {
        let Some(turn) = turn else { return };
        let OpenTurn { prompts, finish } = self.turns.remove(turn).unwrap_or_default();
        if let Some(cost) = cost {
            self.add_cost(cost);
            self.show_usage(out);
        }
        self.items.end_turn(turn);
        out.extend(ending::terminator(turn, prompts, finish.as_deref(), body));
    }

    pub(super) fn session_updated(&mut self, patch: &SessionPatch, out: &mut Vec<AcpEvent>) {
        // Clients need not know whether prompts are redacted. ACP's clients name MCP servers themselves.
        let SessionPatch { title, model, mode, native_id, context, permissions, redact_prompts: _, mcp: _ } =
            patch;
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

/// An update that is not about the work of a subagent.
pub(super) fn push_update(update: SessionUpdate, out: &mut Vec<AcpEvent>) {
    out.push(AcpEvent::Update { update: Box::new(update), parent: None });
}

/// A block of a prompt. One that is not valid ACP is shown as its JSON.
fn block(value: &Value) -> ContentBlock {
    ContentBlock::deserialize(value)
        .unwrap_or_else(|_| ContentBlock::Text(TextContent::new(value.to_string())))
}
