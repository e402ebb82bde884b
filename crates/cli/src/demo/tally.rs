//! What the demo measured. The client's events are compared with the log, and the tool calls that were
//! run with those that may be run.

use super::script::{self, ToolCall};
use super::stage::{Left, Stage};
use crate::record::Record;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use turnstream_fake_provider::Request;
use turnstream_model::check::{Checker, Tail};

/// What was measured.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Events in the log of the gateway.
    pub(super) sent: usize,
    /// Events that the client received, repeated ones too.
    pub(super) received: usize,
    /// Events that the client did not receive.
    pub(super) lost: usize,
    /// Events that came once more.
    pub(super) duplicated: usize,
    /// Events that were not received as they are in the log.
    pub(super) changed: usize,
    /// The ends that the client received, of each turn that began.
    pub(super) ends: BTreeMap<String, usize>,
    pub(super) calls_run: usize,
    /// Calls that were run and were not in a whole answer, or were run twice.
    pub(super) wrong_calls: usize,
    /// Calls of whole answers that were not run.
    pub(super) calls_not_run: usize,
    pub(super) wrong_files: usize,
    pub(super) model_calls: usize,
    pub(super) broken_laws: usize,
    pub(super) left: Left,
}

impl Tally {
    pub(super) fn new(sent: Vec<Value>, received: Vec<Value>, stage: &Stage) -> Self {
        let requests: Vec<Request> = stage.model_calls();
        let runnable = script::runnable_calls(&stage.answers, &requests);
        let mut tally = Self::of_events(&sent, &received);
        tally.count_calls(&sent, runnable);
        tally.wrong_files = stage.wrong_files();
        tally.model_calls = requests.len();
        tally.broken_laws = broken_laws(&sent);
        tally
    }

    fn of_events(sent: &[Value], received: &[Value]) -> Self {
        let mut arrived: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
        for event in received {
            arrived.entry(seq(event)).or_default().push(event);
        }
        let is_other = |event: &&Value| arrived.get(&seq(event)).is_some_and(|copies| *copies[0] != **event);
        let known: BTreeSet<u64> = sent.iter().map(seq).collect();
        let started = of_type(sent, "turn.started");
        let ended: Vec<&str> = of_type(received, "turn.ended").collect();
        let ends = started.map(|turn| (turn.to_owned(), ended.iter().filter(|end| **end == turn).count()));
        Self {
            sent: sent.len(),
            received: received.len(),
            lost: known.iter().filter(|seq| !arrived.contains_key(seq)).count(),
            duplicated: received.len() - arrived.len(),
            changed: sent.iter().filter(is_other).count()
                + arrived.keys().filter(|seq| !known.contains(seq)).count(),
            ends: ends.collect(),
            ..Self::default()
        }
    }

    /// Compares the calls that the log shows as run with those that may be run.
    fn count_calls(&mut self, sent: &[Value], mut runnable: Vec<ToolCall>) {
        let run = calls_run(sent);
        self.calls_run = run.len();
        for call in run {
            match runnable.iter().position(|wanted| *wanted == call) {
                Some(place) => drop(runnable.swap_remove(place)),
                None => self.wrong_calls += 1,
            }
        }
        self.calls_not_run = runnable.len();
    }
}

fn seq(event: &Value) -> u64 {
    Record(event).number("seq").unwrap_or(0)
}

/// The turns of all events of a type.
fn of_type<'a>(events: &'a [Value], kind: &'static str) -> impl Iterator<Item = &'a str> {
    let events = events.iter().map(Record).filter(move |event| event.is("type", kind));
    events.map(|event| event.text("turn").exact())
}

/// The tool calls that began to run, with the last arguments that the log has of them.
fn calls_run(events: &[Value]) -> Vec<ToolCall> {
    let mut calls: BTreeMap<&str, (ToolCall, bool)> = BTreeMap::new();
    for event in events.iter().map(Record) {
        let tool = event.member("tool");
        if !tool.has("status") && !tool.has("input") {
            continue;
        }
        let ((name, input), has_run) = calls.entry(event.text("item").exact()).or_default();
        if let Some(known) = tool.some_text("name") {
            *name = known.exact().to_owned();
        }
        if tool.has("input") {
            *input = tool.member("input").0.clone();
        }
        *has_run |= ["in_progress", "completed"].contains(&tool.text("status").exact());
    }
    calls.into_values().filter(|(_, has_run)| *has_run).map(|(call, _)| call).collect()
}

fn broken_laws(events: &[Value]) -> usize {
    let mut checker = Checker::new();
    for event in events {
        checker.line(&event.to_string());
    }
    checker.finish(Tail::Settled).violations.len()
}

#[cfg(test)]
mod tests {
    use super::Tally;
    use serde_json::{Value, json};

    fn log() -> Vec<Value> {
        vec![
            json!({"seq": 1, "type": "turn.started", "turn": "t1"}),
            json!({"seq": 2, "type": "item.started", "item": "i1", "tool": {"name": "bash", "status": "pending"}}),
            json!({"seq": 3, "type": "item.updated", "item": "i1",
                "tool": {"input": {"command": "a"}, "status": "in_progress"}}),
            json!({"seq": 4, "type": "item.started", "item": "i2",
                "tool": {"name": "bash", "input": {"command": "b"}, "status": "pending"}}),
            json!({"seq": 5, "type": "turn.ended", "turn": "t1"}),
        ]
    }

    #[test]
    fn a_client_that_received_everything_once_has_lost_nothing() {
        let tally = Tally::of_events(&log(), &log());
        let expected =
            Tally { sent: 5, received: 5, ends: [("t1".to_owned(), 1)].into(), ..Tally::default() };
        assert_eq!(tally, expected);
    }

    #[test]
    fn lost_repeated_changed_and_invented_events_are_counted() {
        let mut received = log();
        received.remove(1);
        received.push(log()[4].clone());
        received[1] = json!({"seq": 3, "type": "other"});
        received.push(json!({"seq": 9, "type": "invented"}));
        let tally = Tally::of_events(&log(), &received);
        let ends = [("t1".to_owned(), 2)].into();
        let expected =
            Tally { sent: 5, received: 6, lost: 1, duplicated: 1, changed: 2, ends, ..Tally::default() };
        assert_eq!(tally, expected);
    }

    #[test]
    fn a_call_is_wrong_if_no_whole_answer_asked_for_it_or_if_it_ran_twice() {
        let call = |command: &str| ("bash".to_owned(), json!({"command": command}));
        let mut tally = Tally::default();
        tally.count_calls(&log(), vec![call("a"), call("b")]);
        assert_eq!((tally.calls_run, tally.wrong_calls, tally.calls_not_run), (1, 0, 1));
        let mut twice = log();
        twice.push(json!({"seq": 6, "item": "i3", "tool": {"name": "bash", "input": {"command": "a"},
            "status": "completed"}}));
        let mut tally = Tally::default();
        tally.count_calls(&twice, vec![call("a")]);
        assert_eq!((tally.calls_run, tally.wrong_calls, tally.calls_not_run), (2, 1, 0));
    }
}
