//! Over signal sequences that nobody thought of: what the machine writes is shown once, whole, and under
//! the right name.

use super::client::Screen;
use super::judge::Judge;
use super::session::Session;
use super::{encode, state_at};
use proptest::prelude::*;
use serde_json::json;
use turnstream_dialects::acp::{AcpEvent, Encoder};
use turnstream_model::check::Tail;
use turnstream_model::event::{
    ApprovalOutcome, By, Context, Cost, ErrorClass, Field, ItemKind, ItemState, QuestionOutcome, ResumeAs,
    Role, SessionPatch, StopReason, Tool, ToolKind, ToolStatus, TurnError, Usage,
};
use turnstream_model::fold::Fold;
use turnstream_model::id::Key;
use turnstream_model::machine::{Cancel, Machine};
use turnstream_model::signal::{Ending, Finality, ItemSeen, Need, ProbedStatus, Signal};

#[derive(Clone, Debug)]
pub(super) enum Act {
    Observe(Box<Signal>),
    Prompt,
    Cancel,
    Withdraw,
    Pass(u64),
    Resume,
    Crash,
}

fn key(prefix: &'static str) -> impl Strategy<Value = Key> {
    (0..3u8).prop_map(move |n| Key::from(format!("{prefix}{n}")))
}

fn any_key() -> impl Strategy<Value = Key> {
    prop_oneof![key("text"), key("tool"), key("plan")]
}

fn one_of<T: Copy + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
    proptest::sample::select(all)
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]{0,3}", Just("é\u{1F600}\"\n\u{0}".to_owned()), Just("- [x] a\n- b".to_owned())]
}

fn error() -> impl Strategy<Value = TurnError> {
    (one_of(ErrorClass::ALL), proptest::option::of(prop_oneof![Just(200u16), Just(429), Just(503)])).prop_map(
        |(class, status)| TurnError {
            status,
            request_id: Some("req_1".into()),
            ..TurnError::new(class, "é".repeat(300))
        },
    )
}

fn tool() -> impl Strategy<Value = Tool> {
    (one_of(&["bash", "read", "edit", "task", "odd"]), one_of(ToolStatus::ALL), 0..3u8, any::<bool>())
        .prop_map(|(name, status, n, odd)| {
            let path = format!("/{n}");
            let diff = json!({"type": "diff", "path": path, "oldText": "o", "newText": "n"});
            let odd_content = vec![json!({"type": "unheard"}), json!({"type": "diff", "path": 3})];
            let place = if odd { json!({"line": 1}) } else { json!({"path": path, "line": n}) };
            let child = ("subagent_session".to_owned(), json!(format!("child{n}")));
            Tool {
                name: Some(name.to_owned()),
                kind: Some(ToolKind::Edit),
                title: Some(format!("{name} {n}")),
                status: Some(status),
                input: Some(json!({"filePath": path, "oldString": "o", "newString": "n"})),
                output: (status == ToolStatus::Completed).then(|| json!({"output": "done"})),
                content: Some(if odd { odd_content } else { vec![diff] }),
                locations: Some(vec![place]),
                extra: (name == "task").then_some(child).into_iter().collect(),
            }
        })
}

fn signal() -> impl Strategy<Value = Signal> {
    let usage = |n| Usage { input: Some(n), output: Some(1), ..Usage::default() };
    let finish =
        || proptest::option::of(one_of(&["stop", "tool-calls", "length", "content-filter", "error"]));
    prop_oneof![
        4 => Just(Signal::TurnBegan { origin: None, prompts: vec![], native_id: None }),
        3 => key("call").prop_map(|key| Signal::AttemptBegan { key, model: None }),
        3 => (key("call"), finish(), 0..9u64).prop_map(move |(key, finish, n)| Signal::AttemptEnded {
            key, finish: finish.map(str::to_owned), usage: Some(usage(n)), cost: None,
        }),
        2 => Just(Signal::Retrying { attempt: Some(1), reason: Some(ErrorClass::Overloaded), until: None, message: None }),
        6 => (key("text"), one_of(&[ItemKind::Message, ItemKind::Reasoning, ItemKind::File, ItemKind::Compaction]),
              proptest::option::of(one_of(Role::ALL)), proptest::option::weighted(0.3, key("tool")), any::<bool>())
            .prop_map(|(key, kind, role, parent, synthetic)| {
                Signal::ItemSeen(ItemSeen { key, kind, role, parent, synthetic })
            }),
        2 => (key("plan"), proptest::option::weighted(0.3, key("tool"))).prop_map(|(key, parent)| {
            Signal::ItemSeen(ItemSeen { key, kind: ItemKind::Plan, role: None, parent, synthetic: false })
        }),
        12 => (any_key(), text()).prop_map(|(key, text)| Signal::TextDelta { key, field: Field::Text, text }),
        3 => (key("tool"), one_of(&[Field::Input, Field::Output]), text())
            .prop_map(|(key, field, text)| Signal::TextDelta { key, field, text }),
        5 => (any_key(), text(), any::<bool>()).prop_map(|(key, text, last)| Signal::TextSnapshot {
            key, field: Field::Text, text, finality: if last { Finality::Final } else { Finality::SoFar },
        }),
        7 => (key("tool"), proptest::option::weighted(0.2, key("tool")), tool())
            .prop_map(|(key, parent, tool)| {
                let parent = parent.filter(|parent| *parent != key);
                Signal::ToolSeen { key, parent, tool }
            }),
        5 => (any_key(), one_of(ItemState::ALL))
            .prop_map(|(key, state)| Signal::ItemEnded { key, state, reason: None }),
        1 => any_key().prop_map(Signal::ItemRemoved),
        2 => (key("ask"), proptest::option::of(key("tool")), proptest::option::of(tool()))
            .prop_map(|(key, item, tool)| Signal::Ask { key, item, tool, options: vec![] }),
        1 => (key("ask"), one_of(ApprovalOutcome::ALL))
            .prop_map(|(key, outcome)| Signal::AskClosed { key, outcome }),
        1 => key("que").prop_map(|key| Signal::Question { key, item: None, questions: vec![] }),
        1 => (key("que"), one_of(QuestionOutcome::ALL))
            .prop_map(|(key, outcome)| Signal::QuestionClosed { key, outcome, answers: None }),
        1 => (0..9u64).prop_map(|n| Signal::Usage {
            usage: None,
            cost: Some(Cost { amount: 0.25, currency: "USD".into(), extra: Default::default() }),
            context: Some(Context { used: Some(n), size: Some(100), extra: Default::default() }),
        }),
        1 => Just(Signal::Session(SessionPatch {
            title: Some("T".into()), model: Some("m".into()), native_id: Some("native".into()), ..SessionPatch::default()
        })),
        2 => error().prop_map(Signal::Failed),
        5 => proptest::option::of(one_of(StopReason::ALL)).prop_map(|stop_reason| Signal::TurnIdle { stop_reason }),
        1 => error().prop_map(|error| Signal::TurnDone { native_id: None, ending: Ending::lost(error) }),
        1 => Just(Signal::Gap("cut".to_owned())),
        1 => error().prop_map(Signal::LinkLost),
    ]
}

pub(super) fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        30 => signal().prop_map(|signal| Act::Observe(Box::new(signal))),
        3 => Just(Act::Prompt),
        1 => Just(Act::Cancel),
        1 => Just(Act::Withdraw),
        2 => prop_oneof![Just(1), Just(2_000), Just(30_000)].prop_map(Act::Pass),
        1 => Just(Act::Resume),
        1 => Just(Act::Crash),
    ];
    proptest::collection::vec(act, 1..80)
}

pub(super) fn play(acts: &[Act]) -> Session {
    let mut session = Session::new();
    for act in acts {
        match act.clone() {
            Act::Observe(signal) => session.observe(*signal),
            Act::Prompt => drop(session.prompt("go")),
            Act::Cancel => drop(session.step(|machine, step| machine.cancel(&Cancel::Any, By::Client, step))),
            Act::Withdraw => {
                let content = vec![json!({"type": "text", "text": "never mind"}), json!({"type": "odd"})];
                let prompt =
                    session.step(|machine, step| machine.accept(None, content, step)).unwrap().prompt;
                session.step(|machine, step| machine.withdraw(&prompt, step)).unwrap();
            }
            Act::Pass(millis) => session.pass(millis),
            Act::Resume => {
                drop(session.step(|machine, step| machine.resume_session(ResumeAs::Transcript, step)));
            }
            Act::Crash => {
                session.machine = Machine::resume(session.fold.state());
                session.ids = session.fold.state().counters;
                session.needs.clear();
            }
        }
        for need in std::mem::take(&mut session.needs) {
            if let Need::StatusProbe(turn) = need {
                session.observe(Signal::StatusProbed { turn, status: ProbedStatus::Idle });
            }
        }
    }
    session
}

proptest! {
    #[test]
    fn every_message_is_the_protocols_and_the_screen_shows_the_fold(acts in acts()) {
        let session = play(&acts);
        session.assert_lawful(Tail::Live);
        let out = encode(&session.log);
        for event in &out {
            Judge::get().check(event);
        }
        let screen = Screen::of(&out);
        screen.assert_shows(session.fold.state());
        let ended = session.fold.state().turns.iter().filter(|turn| turn.ended.is_some());
        let want: Vec<String> = ended.map(|turn| turn.turn.to_string()).collect();
        prop_assert_eq!(screen.ended, want);
    }

    #[test]
    fn nothing_of_a_turn_follows_its_terminator_as_an_update(acts in acts()) {
        let session = play(&acts);
        session.assert_lawful(Tail::Live);
        let mut encoder = Encoder::new();
        let mut over = std::collections::HashSet::new();
        for event in &session.log {
            let mut out = Vec::new();
            encoder.encode(event, &mut out);
            let is_over = event.draft.turn.as_ref().is_some_and(|turn| over.contains(turn));
            for message in out {
                prop_assert!(!is_over || message.clone().into_update().is_none(), "{:?}", message);
                if message.is_terminator() {
                    over.insert(event.draft.turn.clone().unwrap());
                }
            }
        }
    }

    #[test]
    fn what_a_subagent_does_is_tagged(acts in acts()) {
        let session = play(&acts);
        session.assert_lawful(Tail::Live);
        let mut encoder = Encoder::new();
        let mut fold = Fold::new();
        for event in &session.log {
            fold.apply(event);
            let mut out = Vec::new();
            encoder.encode(event, &mut out);
            let Some(item) = event.draft.item.as_ref().and_then(|item| fold.item(item)) else { continue };
            for message in out {
                if matches!(message, AcpEvent::Chunk(_) | AcpEvent::ToolText(_) | AcpEvent::Item(_)) {
                    prop_assert_eq!(message.parent(), item.parent.as_ref());
                }
            }
        }
    }

    #[test]
    fn a_client_that_comes_later_sees_the_same(acts in acts(), cut in any::<proptest::sample::Index>()) {
        let session = play(&acts);
        session.assert_lawful(Tail::Live);
        let (before, after) = session.log.split_at(cut.index(session.log.len()));
        let mut out = Vec::new();
        let mut encoder = Encoder::replay(&state_at(before), &mut out);
        prop_assert!(!out.iter().any(AcpEvent::is_terminator));
        for event in after {
            encoder.encode(event, &mut out);
        }
        for event in &out {
            Judge::get().check(event);
        }
        let late = Screen::of(&out);
        late.assert_shows(session.fold.state());
        prop_assert_eq!(late.for_comparison(), Screen::of(&encode(&session.log)).for_comparison());
    }

    #[test]
    fn a_client_that_comes_back_is_told_what_it_missed_and_nothing_else(acts in acts(), cut in any::<proptest::sample::Index>()) {
        let session = play(&acts);
        session.assert_lawful(Tail::Live);
        let cut = cut.index(session.log.len());
        let mut encoder = Encoder::resume(&state_at(&session.log[..cut]));
        let mut out = Vec::new();
        for event in &session.log {
            encoder.encode(event, &mut out);
        }
        let mut live = Encoder::new();
        let mut want = Vec::new();
        for event in &session.log[..cut] {
            live.encode(event, &mut Vec::new());
        }
        for event in &session.log[cut..] {
            live.encode(event, &mut want);
        }
        prop_assert_eq!(out, want);
    }
}
