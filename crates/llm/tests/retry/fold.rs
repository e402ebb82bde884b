//! The law of superseding: the fold of all events of a call equals the fold of the surviving attempt.
//!
//! Tested over real sockets with every kind of damage. Also: no text of a model, a tool or a page changes
//! the class of a failure.

use crate::support::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use turnstream_fake_provider::{
    Asked, Chunk, Completion, CutBy, ErrorBody, Fault, Identity, Part, Step, WireFormat, render,
};
use turnstream_llm::client::{CallEvent, CallOutcome, Translator};
use turnstream_llm::retry::Consumer::{AttemptAware, PlainWire};
use turnstream_llm::{Format, Item, ItemNo, StreamEvent};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{
    Body, Draft, ErrorClass, Event, Field, ItemKind, ItemState, Origin, Outcome, Role, StopReason, Tool,
    TurnError,
};
use turnstream_model::fold::{self, Fold};
use turnstream_model::id::{AttemptId, Counters, ItemId};
use turnstream_model::machine::{Machine, Step as MachineStep};
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;
use turnstream_testkit::lawful::{Tail, assert_lawful};

/// A log of the events that a consumer got, as an agent on this crate would write it.
#[derive(Default)]
struct Log {
    events: Vec<Event>,
    open: Vec<ItemId>,
    attempt: Option<AttemptId>,
}

impl Log {
    fn add(&mut self, item: Option<&ItemId>, body: Body) {
        let (seq, attempt) = (Seq(self.events.len() as u64 + 1), self.attempt.clone());
        let draft = Draft { turn: Some("t1".into()), attempt, item: item.cloned(), ..Draft::new(body) };
        self.events.push(draft.at(seq, Time(1)));
    }

    fn begin(&mut self) {
        let created = Body::SessionCreated {
            session: "s".into(),
            agent: "builtin".to_owned(),
            cwd: "/w".to_owned(),
            title: None,
            key: None,
        };
        self.events.push(Draft::new(created).at(Seq(1), Time(1)));
        let started = Body::TurnStarted { origin: Origin::Agent, prompts: Vec::new(), native_id: None };
        self.add(None, started);
    }

    /// The item's id. A new item is started.
    fn item(&mut self, attempt: u32, item: ItemNo, kind: ItemKind, tool: Option<Tool>) -> ItemId {
        let id = id(attempt, item);
        let is_known = self.events.iter().any(|event| event.draft.item.as_ref() == Some(&id));
        if !is_known {
            let body = Body::ItemStarted {
                kind,
                role: (kind != ItemKind::Tool).then_some(Role::Assistant),
                synthetic: false,
                text: (kind != ItemKind::Tool).then(String::new),
                tool: tool.map(Box::new),
                native_id: None,
            };
            self.add(Some(&id), body);
            self.open.push(id.clone());
        }
        id
    }

    fn end(&mut self, state: ItemState) {
        for item in std::mem::take(&mut self.open) {
            let incomplete = state == ItemState::Abandoned;
            self.add(Some(&item), Body::ItemEnded { state, reason: None, incomplete, caused_by: None });
        }
        self.add(None, Body::AttemptEnded { finish: None, usage: None, cost: None });
        self.attempt = None;
    }

    fn told(&mut self, told: &CallEvent) {
        match told {
            CallEvent::AttemptStarted { attempt } => {
                self.attempt = Some(AttemptId::from(format!("a{attempt}")));
                self.add(None, Body::AttemptStarted { step: 1, model: None, native_id: None });
            }
            CallEvent::Superseded { attempt, by, items } => {
                let items: Vec<ItemId> = items.iter().map(|item| id(*attempt, *item)).collect();
                self.open.retain(|open| !items.contains(open));
                self.attempt = Some(AttemptId::from(format!("a{attempt}")));
                let by = AttemptId::from(format!("a{by}"));
                self.add(None, Body::AttemptSuperseded { by: by.clone(), items });
                self.attempt = Some(by);
            }
            CallEvent::Stream { attempt, event: said } => self.said(*attempt, said),
            CallEvent::Retrying { .. } | CallEvent::NotRecorded(_) => {}
            CallEvent::Ended { outcome: ending, .. } => self.ended(ending),
        }
    }

    fn said(&mut self, attempt: u32, said: &StreamEvent) {
        let delta = |field, text: &str| Body::ItemDelta { field, text: text.to_owned() };
        match said {
            StreamEvent::Text { item, text } | StreamEvent::Refusal { item, text } => {
                let item = self.item(attempt, *item, ItemKind::Message, None);
                self.add(Some(&item), delta(Field::Text, text));
            }
            StreamEvent::Reasoning { item, text } => {
                let item = self.item(attempt, *item, ItemKind::Reasoning, None);
                self.add(Some(&item), delta(Field::Text, text));
            }
            StreamEvent::CallStarted { item, name, .. } => {
                let tool = Tool { name: Some(name.clone()), ..Tool::default() };
                self.item(attempt, *item, ItemKind::Tool, Some(tool));
            }
            StreamEvent::CallArguments { item, text } => {
                let item = self.item(attempt, *item, ItemKind::Tool, None);
                self.add(Some(&item), delta(Field::Input, text));
            }
            StreamEvent::Committed(Item::Call(call)) => {
                let item = id(attempt, call.item);
                let input = serde_json::from_str(&call.arguments).ok();
                let tool = Some(Box::new(Tool { input, ..Tool::default() }));
                self.add(Some(&item), Body::ItemUpdated { tool });
            }
            StreamEvent::Opened { .. }
            | StreamEvent::ReasoningData { .. }
            | StreamEvent::Committed(_)
            | StreamEvent::Unread { .. }
            | StreamEvent::Usage(_)
            | StreamEvent::Finish(_)
            | StreamEvent::ProviderFailed(_)
            | StreamEvent::KeepAlive
            | StreamEvent::Tainted { .. } => {}
        }
    }

    fn ended(&mut self, ending: &CallOutcome) {
        let (state, outcome, error) = match ending {
            CallOutcome::Complete(_) => (ItemState::Completed, Outcome::Completed, None),
            CallOutcome::Truncated { .. } => (ItemState::Completed, Outcome::Completed, None),
            CallOutcome::Failed { failure, .. } => {
                (ItemState::Abandoned, Outcome::Failed, Some(failure.error(None)))
            }
            CallOutcome::Cancelled => (ItemState::Abandoned, Outcome::Cancelled, None),
            CallOutcome::NotRecorded(unkept) => {
                let error = TurnError::new(ErrorClass::Internal, unkept.to_string());
                (ItemState::Abandoned, Outcome::Failed, Some(error))
            }
        };
        self.end(state);
        let stop_reason = (outcome == Outcome::Completed).then_some(StopReason::EndTurn);
        let error = error.map(Box::new);
        self.add(
            None,
            Body::TurnEnded { outcome, stop_reason, usage: None, cost: None, summed: true, error },
        );
    }
}

fn id(attempt: u32, item: ItemNo) -> ItemId {
    ItemId::from(format!("i{}", attempt * 1000 + item.0))
}

fn log_of<'a>(told: impl IntoIterator<Item = &'a CallEvent>) -> Log {
    let mut log = Log::default();
    log.begin();
    told.into_iter().for_each(|told| log.told(told));
    log
}

/// The items of a session after these events, without ids, and the log itself.
fn session_of<'a>(told: impl IntoIterator<Item = &'a CallEvent>) -> (Vec<Content>, Vec<String>) {
    let (mut machine, mut ids, mut events) = (Machine::new(), Counters::default(), Vec::new());
    let mut translator = Translator::new(&call("http://127.0.0.1", Format::Chat, AttemptAware));
    let created = |machine: &mut Machine, step: &mut MachineStep<'_>| {
        machine.create("s".into(), "builtin".into(), "/w".into(), None, None, step).unwrap();
        machine.observe(Signal::TurnBegan { origin: None, prompts: Vec::new(), native_id: None }, step);
    };
    let mut step = |act: &mut dyn FnMut(&mut Machine, &mut MachineStep<'_>)| {
        let (mut drafts, mut needs) = (Vec::new(), Vec::new());
        act(
            &mut machine,
            &mut MachineStep { now: Time(1), ids: &mut ids, drafts: &mut drafts, needs: &mut needs },
        );
        for draft in drafts {
            events.push(draft.at(Seq(events.len() as u64 + 1), Time(1)));
        }
        assert_eq!(needs, []);
    };
    step(&mut { created });
    for told in told {
        for signal in translator.signals(told) {
            step(&mut |machine, step| machine.observe(signal.clone(), step));
        }
        if let CallEvent::Ended { outcome: ending, .. } = told
            && let Some(ending) = ending.turn_ending()
        {
            let done = Signal::TurnDone { native_id: None, ending };
            step(&mut |machine, step| machine.observe(done.clone(), step));
        }
    }
    let items = Fold::of(&events).into_state().items;
    let content =
        items.into_iter().map(|item| (item.kind, item.text, item.tool, item.state, item.incomplete));
    (content.collect(), events.iter().map(|event| serde_json::to_string(event).unwrap()).collect())
}

/// An item without its id.
type Content = (ItemKind, Option<String>, Option<Box<Tool>>, fold::ItemStage, bool);

fn items_of(log: &Log) -> Vec<fold::Item> {
    Fold::of(&log.events).into_state().items
}

/// The attempt of an event.
fn attempt_of(told: &CallEvent) -> Option<u32> {
    match told {
        CallEvent::AttemptStarted { attempt } | CallEvent::Stream { attempt, .. } => Some(*attempt),
        CallEvent::Superseded { .. } | CallEvent::Retrying { .. } | CallEvent::NotRecorded(_) => None,
        CallEvent::Ended { attempt, .. } => Some(*attempt),
    }
}

fn any_completion() -> impl Strategy<Value = Completion> {
    let text = "[a-z ]{1,60}";
    let part = prop_oneof![
        text.prop_map(|text| Part::text(&text)),
        text.prop_map(|text| Part::reasoning(&text)),
        text.prop_map(|text| Part::tool_call("edit", json!({"text": text}))),
    ];
    // Text at the end, since reasoning alone is an empty answer.
    (prop::collection::vec(part, 0..3), text).prop_map(|(mut parts, text)| {
        parts.insert(0, Part::text(&text));
        Completion::of(parts)
    })
}

/// Random damage in a body of this many bytes and events.
fn damage(kind: u8, place: f64, bytes: usize, events: usize) -> Fault {
    let after = ((bytes as f64 * place) as usize).clamp(1, bytes - 1);
    let event = ((events as f64 * place) as usize).min(events - 1);
    match kind {
        0 => Fault::Cut { after, by: CutBy::Rst },
        1 => Fault::Cut { after, by: CutBy::Fin },
        2 => Fault::Splice { after, second: Completion::text("Of another completion.") },
        3 => Fault::Error { at_event: event, error: ErrorBody::new("overloaded_error", "m") },
        _ => Fault::Insert { before_event: event, bytes: "data: {\"id\":\"c\n\n".into() },
    }
}

fn wire(format: Format) -> WireFormat {
    match format {
        Format::Chat => WireFormat::Chat,
        Format::Responses => WireFormat::Responses,
        Format::Messages => WireFormat::Messages,
    }
}

fn size(completion: &Completion, format: Format) -> (usize, usize) {
    let asked = Asked { model: "m".to_owned(), stream: true, include_usage: true, ..Asked::default() };
    let identity = Identity { serial: 0, created: START.0 / 1000, asked };
    let answer = render(wire(format), &Step::new(completion.clone()), &identity).unwrap();
    let bytes = answer.chunks.iter().map(|chunk| match chunk {
        Chunk::Write { bytes, .. } => bytes.len(),
        Chunk::Stall(_) => 0,
    });
    (bytes.sum(), answer.chunks.len())
}

#[test]
fn the_fold_of_all_attempts_is_the_fold_of_the_one_that_survived() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let broken = (any_completion(), 0_u8..5, 0.02_f64..0.98);
    let cases = (prop::collection::vec(broken, 1..3), any_completion(), 0_usize..3, any::<bool>());
    let mut runner = TestRunner::new(Config { cases: 60, ..Config::default() });
    let ran = runner.run(&cases, |(broken, good, format, is_aware)| {
        let format = Format::ALL[format];
        let mut steps: Vec<Step> = Vec::new();
        for (completion, kind, place) in &broken {
            let (bytes, events) = size(completion, format);
            steps.push(Step::new(completion.clone()).fault(damage(*kind, *place, bytes, events)));
        }
        steps.push(Step::new(good).always());
        let consumer = if is_aware { AttemptAware } else { PlainWire };
        let told = runtime.block_on(async {
            let bench = bench(steps).await;
            let told = bench.run(format, consumer).await;
            // As many requests on the wire as attempts in the ledger.
            bench.rows().await;
            told
        });
        if is_aware {
            let log = log_of(&told);
            let lines: Vec<String> =
                log.events.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
            assert_lawful(lines.iter().map(String::as_str), Tail::Settled);
            let last = told.last().and_then(attempt_of);
            let survivor = log_of(told.iter().filter(|told| attempt_of(told) == last));
            prop_assert_eq!(items_of(&log), items_of(&survivor));
            // The same through the turn machine.
            let (items, lines) = session_of(&told);
            let has_calls = matches!(ending(&told), CallOutcome::Complete(outcome) if !outcome.runnable().is_empty())
                || matches!(ending(&told), CallOutcome::Truncated { .. });
            let tail = if has_calls { Tail::Live } else { Tail::Settled };
            assert_lawful(lines.iter().map(String::as_str), tail);
            prop_assert_eq!(items, session_of(told.iter().filter(|told| attempt_of(told) == last)).0);
        }
        // A plain consumer got the text of at most one attempt, and no partial call.
        if !is_aware {
            let mut texts: Vec<u32> = Vec::new();
            for told in &told {
                if let CallEvent::Stream { attempt, event: StreamEvent::Text { .. } | StreamEvent::CallArguments { .. } } = told {
                    texts.push(*attempt);
                }
            }
            texts.dedup();
            prop_assert!(texts.len() <= 1, "text of attempts {:?}", texts);
        }
        Ok(())
    });
    ran.unwrap();
}

#[test]
fn no_text_of_a_model_or_of_its_calls_changes_what_a_failure_is_called() {
    let telling = [
        "Tool execution aborted",
        "You have hit your usage limit",
        "429 Too Many Requests",
        "insufficient_quota",
        r#"{"error":{"type":"insufficient_quota","code":"insufficient_quota"}}"#,
        "data: {\"error\":{\"code\":524}}\n\n",
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n",
        "context_length_exceeded",
        "<title>502 Bad Gateway</title>",
    ];
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for format in Format::ALL {
        for kind in 0..5 {
            let verdict = |text: &str| {
                let parts = [
                    Part::reasoning(text),
                    Part::text(text),
                    Part::tool_call("edit", json!({"output": text, "stderr": text})),
                ];
                let completion = Completion::of(parts);
                let (bytes, events) = size(&completion, format);
                let fault = damage(kind, 0.6, bytes, events);
                runtime.block_on(async {
                    let bench = bench([Step::new(completion).fault(fault), Step::text("Good.")]).await;
                    bench.run(format, AttemptAware).await;
                    bench.verdicts().await[0].1
                })
            };
            let plain = verdict("Some text of a model, as long as the others are.");
            for text in telling {
                let told = verdict(text);
                // A cut by FIN is within an event or after one, depending on the length of the text.
                let same = |class| match class {
                    Some(ErrorClass::Incomplete | ErrorClass::StreamCorrupt) if kind == 1 => None,
                    other => other,
                };
                assert_eq!(same(told), same(plain), "{format:?}, damage {kind}, {text:?}");
            }
        }
    }
}
