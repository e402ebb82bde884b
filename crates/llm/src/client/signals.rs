//! Translates the events of a model call into signals of the turn machine. Pure.
//!
//! During a wait the session has the status `retrying`, with the end of the wait, its reason and a message.
//! When an attempt starts, the machine voids what the failed one has shown. So items stay open until the
//! call is over: a complete item is not final while its attempt can still be repeated.

use super::call_event::{CallEvent, CallOutcome};
use super::{ModelCall, ledger_row};
use crate::attempt::{FinishMeaning, Item, ItemNo, Outcome, StreamEvent, ToolCallKind};
use serde_json::Value;
use std::collections::BTreeSet;
use turnstream_model::event::{
    ErrorClass, Field, ItemKind, ItemState, NoticeCode, Role, StopReason, Tool, ToolStatus, TurnError,
};
use turnstream_model::id::{Key, TurnId};
use turnstream_model::signal::{self, Finality, ItemSeen, Signal};

/// Translates the events of one call into signals. A resumed call needs a new translator.
#[derive(Clone, Debug)]
pub struct Translator {
    turn: TurnId,
    model: String,
    /// The items of the running attempt.
    items: BTreeSet<ItemNo>,
}

impl Translator {
    /// A translator for this call.
    pub fn new(call: &ModelCall) -> Self {
        Self { turn: call.turn.clone(), model: call.model.clone(), items: BTreeSet::new() }
    }

    /// The turn machine's key of an attempt.
    pub fn attempt_key(turn: &TurnId, attempt: u32) -> Key {
        Key::from(format!("{turn}/{attempt}"))
    }

    /// The turn machine's key of an item. Whoever runs a tool call reports its progress under this key.
    pub fn item_key(turn: &TurnId, attempt: u32, item: ItemNo) -> Key {
        Key::from(format!("{turn}/{attempt}/{}", item.0))
    }

    /// The signals of one event.
    pub fn signals(&mut self, event: &CallEvent) -> Vec<Signal> {
        match event {
            CallEvent::AttemptStarted { attempt } => {
                self.items.clear();
                let key = Self::attempt_key(&self.turn, *attempt);
                vec![Signal::AttemptBegan { key, model: Some(self.model.clone()) }]
            }
            // The machine voids the earlier attempt when the next one starts.
            CallEvent::Superseded { .. } => Vec::new(),
            CallEvent::Stream { attempt, event } => self.stream_event(*attempt, event),
            CallEvent::Retrying { attempt, reason, until, wait: _, message } => vec![Signal::Retrying {
                attempt: Some(*attempt),
                reason: Some(*reason),
                until: Some(*until),
                message: Some(message.clone()).filter(|message| !message.is_empty()),
            }],
            CallEvent::NotRecorded(unkept) => {
                vec![Signal::Notice { code: NoticeCode::Degraded, message: unkept.to_string(), detail: None }]
            }
            CallEvent::Ended { outcome, attempt, .. } => self.call_ended(outcome, *attempt),
        }
    }

    fn stream_event(&mut self, attempt: u32, event: &StreamEvent) -> Vec<Signal> {
        match event {
            StreamEvent::Text { item, text } | StreamEvent::Refusal { item, text } => {
                self.grown(attempt, *item, ItemKind::Message, text)
            }
            StreamEvent::Reasoning { item, text } => self.grown(attempt, *item, ItemKind::Reasoning, text),
            StreamEvent::CallStarted { item, name, .. } => {
                let tool =
                    Tool { name: Some(name.clone()), status: Some(ToolStatus::Pending), ..Tool::default() };
                self.items.insert(*item);
                vec![self.tool(attempt, *item, tool)]
            }
            StreamEvent::CallArguments { item, text } => {
                let key = Self::item_key(&self.turn, attempt, *item);
                vec![Signal::TextDelta { key, field: Field::Input, text: text.clone() }]
            }
            StreamEvent::Committed(item) => self.committed(attempt, item),
            StreamEvent::Opened { .. }
            | StreamEvent::ReasoningData { .. }
            | StreamEvent::Unread { .. }
            | StreamEvent::Usage(_)
            | StreamEvent::Finish(_)
            | StreamEvent::ProviderFailed(_)
            | StreamEvent::KeepAlive
            | StreamEvent::Tainted { .. } => Vec::new(),
        }
    }

    fn grown(&mut self, attempt: u32, item: ItemNo, kind: ItemKind, text: &str) -> Vec<Signal> {
        let mut signals = self.seen(attempt, item, kind);
        let key = Self::item_key(&self.turn, attempt, item);
        signals.push(Signal::TextDelta { key, field: Field::Text, text: text.to_owned() });
        signals
    }

    /// Announces an item, once.
    fn seen(&mut self, attempt: u32, item: ItemNo, kind: ItemKind) -> Vec<Signal> {
        let key = Self::item_key(&self.turn, attempt, item);
        let role = Some(Role::Assistant);
        let seen = ItemSeen { key, kind, role, parent: None, synthetic: false };
        if self.items.insert(item) { vec![Signal::ItemSeen(seen)] } else { Vec::new() }
    }

    fn committed(&mut self, attempt: u32, item: &Item) -> Vec<Signal> {
        let (kind, text) = match item {
            Item::Message { text, .. } => (ItemKind::Message, text),
            Item::Reasoning { text, .. } => (ItemKind::Reasoning, text),
            Item::Call(call) => {
                let input = match call.kind {
                    ToolCallKind::Function => turnstream_json::from_str(&call.arguments).ok(),
                    ToolCallKind::Custom => Some(Value::from(call.arguments.as_str())),
                };
                let tool = Tool { name: Some(call.name.clone()), input, ..Tool::default() };
                self.items.insert(call.item);
                return vec![self.tool(attempt, call.item, tool)];
            }
            // An item of an unknown kind has no signal.
            Item::Other { .. } => return Vec::new(),
        };
        // Some providers show no text of their reasoning.
        if text.is_empty() && !self.items.contains(&item.number()) {
            return Vec::new();
        }
        let mut signals = self.seen(attempt, item.number(), kind);
        let key = Self::item_key(&self.turn, attempt, item.number());
        let text = text.clone();
        signals.push(Signal::TextSnapshot { key, field: Field::Text, text, finality: Finality::Final });
        signals
    }

    fn tool(&self, attempt: u32, item: ItemNo, tool: Tool) -> Signal {
        Signal::ToolSeen { key: Self::item_key(&self.turn, attempt, item), parent: None, tool }
    }

    fn call_ended(&mut self, outcome: &CallOutcome, attempt: u32) -> Vec<Signal> {
        let key = Self::attempt_key(&self.turn, attempt);
        let end = |finish: &str| Signal::AttemptEnded {
            key: key.clone(),
            finish: Some(finish.to_owned()),
            usage: None,
            cost: None,
        };
        match outcome {
            CallOutcome::Complete(outcome) => {
                let finish = outcome.finish.as_ref().map(|finish| finish.raw.clone());
                let mut signals = self.end_items(attempt, outcome);
                let usage = outcome.usage.map(ledger_row::reported);
                signals.push(Signal::AttemptEnded { key, finish, usage, cost: None });
                signals
            }
            CallOutcome::Truncated { outcome, .. } => {
                let mut signals = self.end_items(attempt, outcome);
                let (finish, usage) =
                    (Some("tool_calls".to_owned()), outcome.usage.map(ledger_row::reported));
                signals.push(Signal::AttemptEnded { key, finish, usage, cost: None });
                signals
            }
            CallOutcome::Failed { failure, retry_at } => {
                vec![end("error"), Signal::Failed(failure.error(*retry_at))]
            }
            CallOutcome::Cancelled => vec![end("cancelled")],
            CallOutcome::NotRecorded(unkept) => {
                vec![end("error"), Signal::Failed(TurnError::new(ErrorClass::Internal, unkept.to_string()))]
            }
        }
    }

    /// Ends all items, except the calls that may run now.
    fn end_items(&mut self, attempt: u32, outcome: &Outcome) -> Vec<Signal> {
        let runnable: BTreeSet<ItemNo> = outcome.runnable().iter().map(|call| call.item).collect();
        let is_whole = |item: &ItemNo| {
            outcome.committed.iter().any(|whole| whole.number() == *item && whole.call().is_none())
        };
        let over = std::mem::take(&mut self.items).into_iter().filter(|item| !runnable.contains(item));
        let ends = over.map(|item| {
            let key = Self::item_key(&self.turn, attempt, item);
            let (state, reason) = match is_whole(&item) {
                true => (ItemState::Completed, None),
                false => (ItemState::Abandoned, Some("not_whole".to_owned())),
            };
            Signal::ItemEnded { key, state, reason }
        });
        ends.collect()
    }
}

impl CallOutcome {
    /// How the turn ends with this outcome; `None` if there are tool calls to run.
    pub fn turn_ending(&self) -> Option<signal::Ending> {
        Some(match self {
            Self::Complete(outcome) if outcome.runnable().is_empty() => {
                let stop = match outcome.finish.as_ref().map(|finish| finish.meaning) {
                    Some(FinishMeaning::Length) => StopReason::MaxTokens,
                    Some(FinishMeaning::ContentFilter) => StopReason::Refusal,
                    Some(
                        FinishMeaning::Stop
                        | FinishMeaning::ToolCalls
                        | FinishMeaning::Paused
                        | FinishMeaning::Failed
                        | FinishMeaning::Unknown,
                    )
                    | None => StopReason::EndTurn,
                };
                signal::Ending::completed(stop)
            }
            Self::Complete(_) | Self::Truncated { .. } => return None,
            Self::Failed { failure, retry_at } => signal::Ending::failed(failure.error(*retry_at)),
            Self::Cancelled => signal::Ending::cancelled(),
            Self::NotRecorded(unkept) => {
                signal::Ending::failed(TurnError::new(ErrorClass::Internal, unkept.to_string()))
            }
        })
    }
}
