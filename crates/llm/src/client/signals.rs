//! What a session learns of a call: everything that a consumer is told, in the signals of the turn machine. Pure.
//!
//! A wait becomes the status `retrying` with its end, its reason and what the provider said, as long as the wait lasts. The
//! machine voids what the failed attempt has shown when the next one begins, so items stay open until the call is over: what is
//! whole is not final while the attempt that it belongs to can still be repeated.

use super::running::{Ending, Told};
use super::{Call, row};
use crate::attempt::{CallKind, Item, ItemNo, Meaning, Outcome, Said};
use serde_json::Value;
use std::collections::BTreeSet;
use turnstream_model::event::{
    ErrorClass, Field, ItemKind, ItemState, NoticeCode, Role, StopReason, Tool, ToolStatus, TurnError,
};
use turnstream_model::id::{Key, TurnId};
use turnstream_model::signal::{self, Finality, ItemSeen, Signal};

/// Turns what is told of one call into signals. A call that is resumed has a new one.
#[derive(Clone, Debug)]
pub struct Translator {
    turn: TurnId,
    model: String,
    /// The items of the attempt that runs.
    items: BTreeSet<ItemNo>,
}

impl Translator {
    /// For this call.
    pub fn new(call: &Call) -> Self {
        Self { turn: call.turn.clone(), model: call.model.clone(), items: BTreeSet::new() }
    }

    /// The machine's name of an attempt.
    pub fn attempt_key(turn: &TurnId, attempt: u32) -> Key {
        Key::from(format!("{turn}/{attempt}"))
    }

    /// The machine's name of an item, by which the one who runs a call goes on with it.
    pub fn item_key(turn: &TurnId, attempt: u32, item: ItemNo) -> Key {
        Key::from(format!("{turn}/{attempt}/{}", item.0))
    }

    /// What the machine is to observe.
    pub fn signals(&mut self, told: &Told) -> Vec<Signal> {
        match told {
            Told::Began { attempt } => {
                self.items.clear();
                let key = Self::attempt_key(&self.turn, *attempt);
                vec![Signal::AttemptBegan { key, model: Some(self.model.clone()) }]
            }
            // The machine has done that when the attempt began.
            Told::Superseded { .. } => Vec::new(),
            Told::Said { attempt, said } => self.said(*attempt, said),
            Told::Retrying { attempt, reason, until, wait: _, message } => vec![Signal::Retrying {
                attempt: Some(*attempt),
                reason: Some(*reason),
                until: Some(*until),
                message: Some(message.clone()).filter(|message| !message.is_empty()),
            }],
            Told::Unkept(unkept) => {
                vec![Signal::Notice { code: NoticeCode::Degraded, message: unkept.to_string(), detail: None }]
            }
            Told::Ended { ending, attempt, .. } => self.ended(ending, *attempt),
        }
    }

    fn said(&mut self, attempt: u32, said: &Said) -> Vec<Signal> {
        match said {
            Said::Text { item, text } | Said::Refusal { item, text } => {
                self.grown(attempt, *item, ItemKind::Message, text)
            }
            Said::Reasoning { item, text } => self.grown(attempt, *item, ItemKind::Reasoning, text),
            Said::CallBegan { item, name, .. } => {
                let tool =
                    Tool { name: Some(name.clone()), status: Some(ToolStatus::Pending), ..Tool::default() };
                self.items.insert(*item);
                vec![self.tool(attempt, *item, tool)]
            }
            Said::CallArguments { item, text } => {
                let key = Self::item_key(&self.turn, attempt, *item);
                vec![Signal::TextDelta { key, field: Field::Input, text: text.clone() }]
            }
            Said::Committed(item) => self.committed(attempt, item),
            Said::Opened { .. }
            | Said::ReasoningKept { .. }
            | Said::Usage(_)
            | Said::Finish(_)
            | Said::ProviderFailed(_)
            | Said::Alive
            | Said::Tainted { .. } => Vec::new(),
        }
    }

    fn grown(&mut self, attempt: u32, item: ItemNo, kind: ItemKind, text: &str) -> Vec<Signal> {
        let mut signals = self.seen(attempt, item, kind);
        let key = Self::item_key(&self.turn, attempt, item);
        signals.push(Signal::TextDelta { key, field: Field::Text, text: text.to_owned() });
        signals
    }

    /// That there is such an item, once.
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
                    CallKind::Function => turnstream_json::from_str(&call.arguments).ok(),
                    CallKind::Custom => Some(Value::from(call.arguments.as_str())),
                };
                let tool = Tool { name: Some(call.name.clone()), input, ..Tool::default() };
                self.items.insert(call.item);
                return vec![self.tool(attempt, call.item, tool)];
            }
            // Nobody here knows what it is.
            Item::Other { .. } => return Vec::new(),
        };
        // Some providers think and show nothing of it.
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

    fn ended(&mut self, ending: &Ending, attempt: u32) -> Vec<Signal> {
        let key = Self::attempt_key(&self.turn, attempt);
        let end = |finish: &str| Signal::AttemptEnded {
            key: key.clone(),
            finish: Some(finish.to_owned()),
            usage: None,
            cost: None,
        };
        match ending {
            Ending::Complete(outcome) => {
                let finish = outcome.finish.as_ref().map(|finish| finish.raw.clone());
                let mut signals = self.settled(attempt, outcome);
                let usage = outcome.usage.map(row::reported);
                signals.push(Signal::AttemptEnded { key, finish, usage, cost: None });
                signals
            }
            Ending::Truncated { outcome, .. } => {
                let mut signals = self.settled(attempt, outcome);
                let (finish, usage) = (Some("tool_calls".to_owned()), outcome.usage.map(row::reported));
                signals.push(Signal::AttemptEnded { key, finish, usage, cost: None });
                signals
            }
            Ending::Failed { failure, retry_at } => {
                vec![end("error"), Signal::Failed(failure.error(*retry_at))]
            }
            Ending::Cancelled => vec![end("cancelled")],
            Ending::Unkept(unkept) => {
                vec![end("error"), Signal::Failed(TurnError::new(ErrorClass::Internal, unkept.to_string()))]
            }
        }
    }

    /// The ends of all items but the calls that are now to run.
    fn settled(&mut self, attempt: u32, outcome: &Outcome) -> Vec<Signal> {
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

impl Ending {
    /// How the turn ends by it; none while there are calls to run.
    pub fn of_turn(&self) -> Option<signal::Ending> {
        Some(match self {
            Self::Complete(outcome) if outcome.runnable().is_empty() => {
                let stop = match outcome.finish.as_ref().map(|finish| finish.meaning) {
                    Some(Meaning::Length) => StopReason::MaxTokens,
                    Some(Meaning::ContentFilter) => StopReason::Refusal,
                    Some(
                        Meaning::Stop
                        | Meaning::ToolCalls
                        | Meaning::Paused
                        | Meaning::Failed
                        | Meaning::Unknown,
                    )
                    | None => StopReason::EndTurn,
                };
                signal::Ending::completed(stop)
            }
            Self::Complete(_) | Self::Truncated { .. } => return None,
            Self::Failed { failure, retry_at } => signal::Ending::failed(failure.error(*retry_at)),
            Self::Cancelled => signal::Ending::cancelled(),
            Self::Unkept(unkept) => {
                signal::Ending::failed(TurnError::new(ErrorClass::Internal, unkept.to_string()))
            }
        })
    }
}
