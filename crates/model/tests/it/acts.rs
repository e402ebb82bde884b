//! Anything that can happen to a session, for property tests.
#![allow(unreachable_pub, reason = "shared by several test modules")]

use crate::support::*;
use proptest::prelude::*;
use serde_json::json;
use turnstream_model::event::{
    ApprovalOutcome, By, Cost, ErrorClass, Field, ItemKind, ItemState, Origin, QuestionOutcome, Resolution,
    ResumeAs, Role, StopReason, Tool, ToolStatus, TurnError, Usage,
};
use turnstream_model::id::{ApprovalId, Key, PromptId, QuestionId, TurnId};
use turnstream_model::machine::{Cancel, Machine};
use turnstream_model::signal::{Ending, Finality, ItemSeen, Need, ProbedStatus, Signal};

/// Anything that can happen to a session.
#[derive(Clone, Debug)]
pub enum Act {
    Observe(Box<Signal>),
    Prompt,
    Queue,
    SendOldest,
    Withdraw(u8),
    Cancel(Cancel),
    NeverStarted(u8),
    Resolve(u8, ApprovalOutcome),
    Answer(u8, QuestionOutcome),
    AnswerNeeds(ProbedStatus),
    Pass(u64),
    /// The agent has forgotten the session, which goes on.
    Resume(ResumeAs),
    /// The owner dies and another one takes the session up from its log.
    Crash,
}

fn key(prefix: &'static str) -> impl Strategy<Value = Key> {
    (0..4u8).prop_map(move |n| Key::from(format!("{prefix}{n}")))
}

fn some_text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-c]{1,3}", Just("é\u{1F600}".to_owned())]
}

pub fn one_of<T: Copy + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
    proptest::sample::select(all)
}

pub fn some_error() -> impl Strategy<Value = TurnError> {
    one_of(ErrorClass::ALL).prop_map(|class| TurnError::new(class, "e"))
}

pub fn some_ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        one_of(StopReason::ALL).prop_map(Ending::completed),
        Just(Ending::cancelled()),
        some_error().prop_map(Ending::failed),
        some_error().prop_map(Ending::lost),
    ]
}

fn item_key() -> impl Strategy<Value = Key> {
    prop_oneof![key("item"), key("tool")]
}

fn some_signal() -> impl Strategy<Value = Signal> {
    let native = || proptest::option::of((0..3u8).prop_map(|n| format!("U{n}")));
    let prompt = || (1..4u8).prop_map(|n| format!("native-p{n}"));
    let usage =
        || proptest::option::of((0..9u64).prop_map(|n| Usage { output: Some(n), ..Usage::default() }));
    let cost = || {
        let currency = prop_oneof![4 => Just("USD"), 1 => Just("EUR")];
        proptest::option::of((0..9u32, currency).prop_map(|(n, currency)| Cost {
            amount: f64::from(n) / 10.0,
            currency: currency.to_owned(),
            extra: serde_json::Map::new(),
        }))
    };
    prop_oneof![
        4 => (proptest::option::of(one_of(Origin::ALL)), proptest::collection::vec(prompt(), 0..2), native())
            .prop_map(|(origin, prompts, native_id)| Signal::TurnBegan { origin, prompts, native_id }),
        1 => prompt().prop_map(Signal::PromptTaken),
        1 => (prompt(), some_error()).prop_map(|(native_id, error)| Signal::PromptRefused { native_id, error }),
        3 => key("call").prop_map(|key| Signal::AttemptBegan { key, model: None }),
        3 => (key("call"), proptest::option::of(prop_oneof!["stop", "tool_calls"]), usage(), cost())
            .prop_map(|(key, finish, usage, cost)| Signal::AttemptEnded { key, finish, usage, cost }),
        2 => Just(Signal::Retrying { attempt: Some(1), reason: None, until: None, message: None }),
        6 => (key("item"), one_of(ItemKind::ALL), proptest::option::of(one_of(Role::ALL)),
              proptest::option::weighted(0.2, key("tool")), any::<bool>())
            .prop_map(|(key, kind, role, parent, synthetic)| {
                let kind = if kind == ItemKind::Tool { ItemKind::Plan } else { kind };
                Signal::ItemSeen(ItemSeen { key, kind, role, parent, synthetic })
            }),
        12 => (key("item"), some_text())
            .prop_map(|(key, text)| Signal::TextDelta { key, field: Field::Text, text }),
        2 => (key("tool"), one_of(&[Field::Input, Field::Output]), some_text())
            .prop_map(|(key, field, text)| Signal::TextDelta { key, field, text }),
        4 => (key("item"), some_text(), any::<bool>()).prop_map(|(key, text, last)| Signal::TextSnapshot {
            key, field: Field::Text, text, finality: if last { Finality::Final } else { Finality::SoFar },
        }),
        6 => (key("tool"), proptest::option::weighted(0.2, item_key()), proptest::option::of(one_of(ToolStatus::ALL)),
              0..3u8)
            .prop_map(|(key, parent, status, n)| {
                let parent = parent.filter(|parent| *parent != key && parent.as_str().starts_with("tool"));
                let tool = Tool { status, input: Some(json!({"n": n})), ..Tool::default() };
                Signal::ToolSeen { key, parent, tool }
            }),
        5 => (item_key(), one_of(ItemState::ALL))
            .prop_map(|(key, state)| Signal::ItemEnded { key, state, reason: None }),
        1 => item_key().prop_map(Signal::ItemRemoved),
        2 => (key("ask"), proptest::option::of(item_key()))
            .prop_map(|(key, item)| Signal::Ask { key, item, tool: None, options: vec![] }),
        1 => (key("ask"), one_of(ApprovalOutcome::ALL))
            .prop_map(|(key, outcome)| Signal::AskClosed { key, outcome }),
        1 => (key("que"), proptest::option::of(item_key()))
            .prop_map(|(key, item)| Signal::Question { key, item, questions: vec![] }),
        1 => (key("que"), one_of(QuestionOutcome::ALL))
            .prop_map(|(key, outcome)| Signal::QuestionClosed { key, outcome, answers: None }),
        1 => (usage(), cost()).prop_map(|(usage, cost)| Signal::Usage { usage, cost, context: None }),
        2 => some_error().prop_map(Signal::Failed),
        5 => proptest::option::of(one_of(StopReason::ALL)).prop_map(|stop_reason| Signal::TurnIdle { stop_reason }),
        2 => (native(), some_ending()).prop_map(|(native_id, ending)| Signal::TurnDone { native_id, ending }),
        1 => (1..4u8, any::<bool>()).prop_map(|(n, busy)| Signal::StatusProbed {
            turn: TurnId::from(format!("t{n}")), status: if busy { ProbedStatus::Busy } else { ProbedStatus::Idle },
        }),
        1 => Just(Signal::Gap("cut".to_owned())),
        1 => some_error().prop_map(Signal::LinkLost),
    ]
}

fn some_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        30 => some_signal().prop_map(|signal| Act::Observe(Box::new(signal))),
        3 => Just(Act::Prompt),
        1 => Just(Act::Queue),
        1 => Just(Act::SendOldest),
        1 => (1..4u8).prop_map(Act::Withdraw),
        1 => Just(Act::Cancel(Cancel::Any)),
        1 => (1..4u8).prop_map(|n| Act::Cancel(Cancel::Prompt(PromptId::from(format!("p{n}"))))),
        1 => (1..4u8).prop_map(Act::NeverStarted),
        1 => (1..4u8, one_of(ApprovalOutcome::ALL)).prop_map(|(n, outcome)| Act::Resolve(n, outcome)),
        1 => (1..3u8, one_of(QuestionOutcome::ALL)).prop_map(|(n, outcome)| Act::Answer(n, outcome)),
        2 => any::<bool>().prop_map(|busy| Act::AnswerNeeds(if busy { ProbedStatus::Busy } else { ProbedStatus::Idle })),
        2 => prop_oneof![Just(1), Just(2_000), Just(30_000)].prop_map(Act::Pass),
        1 => one_of(ResumeAs::ALL).prop_map(Act::Resume),
        1 => Just(Act::Crash),
    ]
}

pub fn act(session: &mut Session, act: Act) {
    match act {
        Act::Observe(signal) => session.observe(*signal),
        Act::Prompt => drop(session.prompt("go")),
        Act::Queue => drop(session.step(|machine, step| machine.accept(None, vec![], step))),
        Act::SendOldest => {
            let waiting = session.fold.state().queue.first().map(|prompt| prompt.prompt.clone());
            if let Some(prompt) = waiting {
                let native_id = Some(format!("native-{prompt}"));
                // Refused when it was sent before, which is as good.
                let _ = session.step(|machine, step| machine.send(&prompt, native_id, step));
            }
        }
        Act::Withdraw(n) => {
            let prompt = PromptId::from(format!("p{n}"));
            let _ = session.step(|machine, step| machine.withdraw(&prompt, step));
        }
        Act::Cancel(what) => {
            let _ = session.step(|machine, step| machine.cancel(&what, By::Client, step));
        }
        Act::NeverStarted(n) => {
            let prompt = PromptId::from(format!("p{n}"));
            let _ = session.step(|machine, step| machine.never_started(&prompt, step));
        }
        Act::Resolve(n, outcome) => {
            let approval = ApprovalId::from(format!("q{n}"));
            let _ = session
                .step(|machine, step| machine.resolve(&approval, Resolution::new(outcome, By::Client), step));
        }
        Act::Answer(n, outcome) => {
            let question = QuestionId::from(format!("u{n}"));
            let _ = session.step(|machine, step| machine.answer(&question, outcome, None, None, step));
        }
        Act::AnswerNeeds(status) => {
            for need in std::mem::take(&mut session.needs) {
                match need {
                    Need::StatusProbe(turn) => session.observe(Signal::StatusProbed { turn, status }),
                    Need::Item(key) => session.observe(Signal::ItemSeen(ItemSeen {
                        key,
                        kind: ItemKind::Message,
                        role: Some(Role::Assistant),
                        parent: None,
                        synthetic: false,
                    })),
                }
            }
        }
        Act::Pass(millis) => session.pass(millis),
        Act::Resume(choice) => drop(session.step(|machine, step| machine.resume_session(choice, step))),
        Act::Crash => {
            session.machine = Machine::resume(session.fold.state());
            session.ids = session.fold.state().counters;
            session.needs.clear();
        }
    }
}

pub fn play(acts: &[Act]) -> Session {
    let mut session = Session::new();
    for one in acts {
        act(&mut session, one.clone());
    }
    session
}

pub fn some_acts() -> impl Strategy<Value = Vec<Act>> {
    proptest::collection::vec(some_act(), 1..80)
}
