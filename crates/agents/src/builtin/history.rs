//! The conversation of a session, read from the records of its journal. Pure.

use super::journal::{Compaction, Content, End, Item, Record, Step};
use super::tools::{Call, Rule, ToolResult};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use turnstream_llm::ItemNo;
use turnstream_llm::client::Translator;
use turnstream_model::event::{Field, ItemKind, ItemState, Role, Tool, ToolStatus};
use turnstream_model::id::{Key, TurnId};
use turnstream_model::signal::{Ending, Finality, ItemSeen, Signal};

/// Why a tool has no result that anyone knows.
pub(super) const UNKNOWN: &str =
    "[The gateway was stopped while this ran. Nobody knows whether it is done: look before you repeat it.]";
/// The result of a call that was never run.
const NOT_RUN: &str = "[This was not run: the turn ended before.]";
/// Stands for results that the model no longer sees.
const LEFT_OUT: &str = "[left out, because the conversation was too long]";

/// All turns of a session.
#[derive(Default)]
pub(super) struct History {
    turns: Vec<Turn>,
    begun: HashSet<Key>,
    results: HashMap<Key, ToolResult>,
    unknown: HashSet<Key>,
    rules: Vec<Rule>,
    compaction: Option<Compaction>,
    compactions: usize,
}

/// One turn: a prompt and what followed.
pub(super) struct Turn {
    /// The id of the prompt.
    pub(super) id: String,
    pub(super) content: Vec<Value>,
    pub(super) steps: Vec<Step>,
    pub(super) end: Option<End>,
}

/// A call of a step.
#[derive(Clone, Debug)]
pub(super) struct PlannedCall {
    /// The key of its item.
    pub(super) key: Key,
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) redacted: bool,
}

/// One entry of the conversation as a model sees it.
pub(super) enum Entry<'a> {
    /// ACP content blocks of a prompt.
    User(&'a [Value]),
    Step(&'a Step),
    /// The results of the calls of a step: id, text, and whether it failed.
    Results(Vec<(String, &'a str, bool)>),
}

impl History {
    pub(super) fn of(records: Vec<Record>) -> Self {
        let mut history = Self::default();
        for record in records {
            history.apply(record);
        }
        history
    }

    pub(super) fn apply(&mut self, record: Record) {
        match record {
            Record::Prompt { id, content } => {
                if self.turn(&id).is_none() {
                    self.turns.push(Turn { id, content, steps: Vec::new(), end: None });
                }
            }
            Record::Step { turn, step } => {
                if let Some(turn) = self.turns.iter_mut().find(|known| known.id == turn) {
                    turn.steps.push(step);
                }
            }
            Record::Always { rule } => self.rules.push(rule),
            Record::ToolBegan { key } => {
                self.begun.insert(key);
            }
            Record::ToolDone { key, result } => {
                self.results.entry(key).or_insert(result);
            }
            Record::ToolUnknown { key } => {
                self.unknown.insert(key);
            }
            Record::Compacted { compaction } => {
                self.compaction = Some(compaction);
                self.compactions += 1;
            }
            Record::Ended { turn, end } => {
                if let Some(turn) = self.turns.iter_mut().find(|known| known.id == turn) {
                    turn.end.get_or_insert(end);
                }
            }
        }
    }

    pub(super) fn turn(&self, id: &str) -> Option<&Turn> {
        self.turns.iter().find(|turn| turn.id == id)
    }

    /// The turns without an end, in their order.
    pub(super) fn unfinished(&self) -> Vec<String> {
        self.turns.iter().filter(|turn| turn.end.is_none()).map(|turn| turn.id.clone()).collect()
    }

    pub(super) fn allows(&self, rule: &Rule) -> bool {
        self.rules.contains(rule)
    }

    /// How often the conversation was shortened.
    pub(super) fn compactions(&self) -> usize {
        self.compactions
    }

    /// The first call of a turn's last step that has no outcome.
    pub(super) fn next_call(&self, id: &str) -> Option<PlannedCall> {
        let step = self.turn(id)?.steps.last()?;
        calls(id, step)
            .find(|call| !self.results.contains_key(&call.key) && !self.unknown.contains(&call.key))
    }

    /// Whether a tool was begun, in this gateway or an earlier one.
    pub(super) fn has_begun(&self, key: &Key) -> bool {
        self.begun.contains(key)
    }

    // === what the model sees ===

    /// The conversation up to the end of this turn.
    pub(super) fn entries(&self, id: &str) -> Vec<Entry<'_>> {
        let mut entries = Vec::new();
        let last = self.turns.iter().position(|turn| turn.id == id).unwrap_or(0);
        let compacted = self.compaction.as_ref();
        let cut = compacted.and_then(|cut| self.turns.iter().position(|turn| turn.id == cut.turn));
        for (place, turn) in self.turns.iter().enumerate().take(last + 1) {
            if compacted.is_some_and(|cut| cut.drops_turns) && cut.is_some_and(|cut| place < cut) {
                continue;
            }
            entries.push(Entry::User(&turn.content));
            for (number, step) in turn.steps.iter().enumerate() {
                let is_left_out = match (compacted, cut) {
                    (Some(compacted), Some(cut)) => place < cut || (place == cut && number < compacted.steps),
                    _ => false,
                };
                entries.push(Entry::Step(step));
                let results: Vec<_> = calls(&turn.id, step)
                    .zip(call_ids(step))
                    .map(|(call, id)| {
                        let (text, is_failed) = self.result(&call.key);
                        (id, if is_left_out { LEFT_OUT } else { text }, is_failed)
                    })
                    .collect();
                if !results.is_empty() {
                    entries.push(Entry::Results(results));
                }
            }
        }
        entries
    }

    fn result(&self, key: &Key) -> (&str, bool) {
        match self.results.get(key) {
            Some(result) => (&result.text, result.is_failed),
            None if self.unknown.contains(key) || self.begun.contains(key) => (UNKNOWN, true),
            None => (NOT_RUN, true),
        }
    }

    /// The next way to make the conversation shorter, if there is one: first without older results of tools,
    /// then without earlier turns and with no results.
    pub(super) fn shorter(&self, id: &str) -> Option<Compaction> {
        let place = self.turns.iter().position(|turn| turn.id == id)?;
        let turn = &self.turns[place];
        let steps = turn.steps.len();
        let has_calls = |steps: &[Step]| steps.iter().any(|step| call_ids(step).next().is_some());
        let is_done = |drops_turns: bool, steps: usize| {
            self.compaction
                .as_ref()
                .is_some_and(|done| done.turn == id && (done.drops_turns, done.steps) >= (drops_turns, steps))
        };
        let older = self.turns[..place].iter().any(|turn| has_calls(&turn.steps));
        let before_last = steps.saturating_sub(1);
        let compaction = |steps, drops_turns| Some(Compaction { turn: id.to_owned(), steps, drops_turns });
        if (older || has_calls(&turn.steps[..before_last])) && !is_done(false, before_last) {
            return compaction(before_last, false);
        }
        if (place > 0 || has_calls(&turn.steps)) && !is_done(true, steps) {
            return compaction(steps, true);
        }
        None
    }

    // === what the log shows ===

    /// Everything that is known of a turn, as signals.
    pub(super) fn signals(&self, turn: &Turn) -> Vec<Signal> {
        let native_id = Some(turn.id.clone());
        let origin = Some(turnstream_model::event::Origin::Prompt);
        let mut signals = vec![Signal::TurnBegan { origin, prompts: vec![turn.id.clone()], native_id }];
        for step in &turn.steps {
            signals.extend(step_signals(&turn.id, step));
            signals.extend(calls(&turn.id, step).map(|call| self.call_signal(call)));
        }
        if let Some(end) = &turn.end {
            signals.extend(self.not_run(&turn.id));
            signals.push(end_signal(&turn.id, end));
        }
        signals
    }

    /// The calls of a turn that were never begun, as they are when it ends.
    pub(super) fn not_run(&self, id: &str) -> Vec<Signal> {
        let step = self.turn(id).and_then(|turn| turn.steps.last());
        let calls = step.into_iter().flat_map(|step| calls(id, step));
        let is_open = |key: &Key| !self.results.contains_key(key) && !self.begun.contains(key);
        let ended = calls.filter(|call| is_open(&call.key)).map(|call| {
            let (state, reason) = (ItemState::Abandoned, Some("not_run".to_owned()));
            Signal::ItemEnded { key: call.key, state, reason }
        });
        ended.collect()
    }

    /// What became of a call.
    fn call_signal(&self, call: PlannedCall) -> Signal {
        let key = call.key;
        if let Some(result) = self.results.get(&key) {
            return Signal::ToolSeen { key, parent: None, tool: result.shown() };
        }
        if self.unknown.contains(&key) {
            let reason = Some("gateway_stopped".to_owned());
            return Signal::ItemEnded { key, state: ItemState::Unknown, reason };
        }
        let tool = Tool { status: Some(ToolStatus::Pending), ..Tool::default() };
        Signal::ToolSeen { key, parent: None, tool }
    }
}

/// The end of a turn.
pub(super) fn end_signal(turn: &str, end: &End) -> Signal {
    let ending = match end {
        End::Completed(stop) => Ending::completed(*stop),
        End::Cancelled => Ending::cancelled(),
        End::Failed(error) => Ending::failed(error.clone()),
        End::Lost(error) => Ending::lost(error.clone()),
    };
    Signal::TurnDone { native_id: Some(turn.to_owned()), ending }
}

/// The calls of a step.
pub(super) fn calls<'a>(turn: &str, step: &'a Step) -> impl Iterator<Item = PlannedCall> + use<'a> {
    let turn = TurnId::from(turn);
    step.items.iter().filter_map(move |item| match &item.content {
        Content::Call { name, arguments, redacted } => Some(PlannedCall {
            key: Translator::item_key(&turn, step.attempt, ItemNo(item.number)),
            name: name.clone(),
            arguments: arguments.clone(),
            redacted: *redacted,
        }),
        Content::Message { .. } | Content::Reasoning { .. } | Content::Other { .. } => None,
    })
}

/// The ids of the calls of a step. A provider that gives none gets ours.
pub(super) fn call_ids(step: &Step) -> impl Iterator<Item = String> + use<'_> {
    let calls = step.items.iter().filter(|item| matches!(item.content, Content::Call { .. }));
    calls.map(|item| call_id(step, item))
}

/// The id of a call.
pub(super) fn call_id(step: &Step, item: &Item) -> String {
    item.id.clone().unwrap_or_else(|| format!("call_{}_{}", step.attempt, item.number))
}

/// What the log has to show of a complete step, before its tools run.
fn step_signals(turn: &str, step: &Step) -> Vec<Signal> {
    let turn = TurnId::from(turn);
    let attempt = Translator::attempt_key(&turn, step.attempt);
    let model = Some(step.model.clone());
    let mut signals = vec![Signal::AttemptBegan { key: attempt.clone(), model }];
    for item in &step.items {
        let key = Translator::item_key(&turn, step.attempt, ItemNo(item.number));
        let (kind, text) = match &item.content {
            Content::Message { text } => (ItemKind::Message, text),
            Content::Reasoning { text, .. } => (ItemKind::Reasoning, text),
            Content::Call { name, arguments, .. } => {
                let tool = Tool { name: Some(name.clone()), ..described(name, arguments) };
                signals.push(Signal::ToolSeen { key, parent: None, tool });
                continue;
            }
            Content::Other { .. } => continue,
        };
        // Some providers show no text of their reasoning.
        if text.is_empty() {
            continue;
        }
        let role = Some(Role::Assistant);
        let seen = ItemSeen { key: key.clone(), kind, role, parent: None, synthetic: false };
        let (field, finality, text) = (Field::Text, Finality::Final, text.clone());
        signals.push(Signal::ItemSeen(seen));
        signals.push(Signal::TextSnapshot { key: key.clone(), field, text, finality });
        signals.push(Signal::ItemEnded { key, state: ItemState::Completed, reason: None });
    }
    let (finish, usage) = (step.finish.clone(), step.usage.clone());
    signals.push(Signal::AttemptEnded { key: attempt, finish, usage, cost: None });
    signals
}

/// A call as the log shows it, with its arguments.
pub(super) fn described(name: &str, arguments: &str) -> Tool {
    let input = turnstream_json::from_str(arguments).ok();
    let tool = Call::parse(name, arguments).map(|call| call.describe()).unwrap_or_default();
    Tool { input, ..tool }
}
