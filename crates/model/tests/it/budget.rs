//! Budgets: what turns use is counted, and at a cap the turn is stopped and the session takes no prompt.

use crate::acts::*;
use crate::support::*;
use proptest::prelude::*;
use serde_json::{Value, json};
use turnstream_model::check::{Checker, Law, Tail};
use turnstream_model::event::{
    Body, Budget, By, Cap, Caps, Cost, ErrorClass, Outcome, StopReason, Usage, Used,
};
use turnstream_model::fold::Fold;
use turnstream_model::id::Key;
use turnstream_model::machine::{Cancel, Machine, Refusal};
use turnstream_model::signal::{Ending, Signal};

fn tokens(count: u64) -> Option<Usage> {
    Some(Usage { input: Some(count - 1), cache_read: Some(1), ..Usage::default() })
}

fn dollars(amount: f64) -> Option<Cost> {
    Some(Cost { amount, currency: "USD".to_owned(), extra: serde_json::Map::new() })
}

fn call_ended(key: &str, finish: &str, usage: Option<Usage>, cost: Option<Cost>) -> Signal {
    Signal::AttemptEnded { key: Key::from(key), finish: Some(finish.to_owned()), usage, cost }
}

fn capped(turn: Caps, session: Caps) -> Session {
    let mut under_test = Session::new();
    set(&mut under_test, turn, session);
    under_test
}

fn set(under_test: &mut Session, turn: Caps, session: Caps) {
    let budget = Budget { turn, session };
    under_test.step(|machine, step| machine.set_budget(budget, By::Client, step)).unwrap();
}

fn steps(steps: u64) -> Caps {
    Caps { steps: Some(steps), ..Caps::default() }
}

/// How the last turn ended.
fn ending(session: &Session) -> (Outcome, Option<ErrorClass>) {
    match session.ends().last() {
        Some(Body::TurnEnded { outcome, error, .. }) => (*outcome, error.as_ref().map(|error| error.class)),
        other => panic!("{other:?}"),
    }
}

fn events(session: &Session, r#type: &str) -> Vec<Value> {
    let lines = session.log.iter().map(|event| serde_json::from_str::<Value>(&event.to_json()).unwrap());
    lines.filter(|event| event["type"] == r#type).collect()
}

/// The same session after a crash: a machine that knows only the log.
fn resumed(session: Session) -> Session {
    let folded = Fold::of(&session.log).into_state();
    assert_eq!(folded, *session.fold.state());
    Session { machine: Machine::resume(&folded), ..session }
}

#[test]
fn a_turn_that_asks_for_a_step_beyond_its_cap_is_stopped_and_fails() {
    let mut session = capped(steps(2), Caps::default());
    session.prompt("Go");
    session.observe_all([attempt("a1"), attempt_done("a1", "tool_use"), attempt("a2")]);
    assert_eq!(session.stops, 0, "two steps are allowed");
    session.observe(attempt_done("a2", "tool_use"));
    assert_eq!((session.stops, session.count("turn.cancelling")), (1, 1));
    session.observe_all([attempt("a3"), attempt_done("a3", "tool_use")]);
    assert_eq!((session.stops, session.count("budget.reached")), (1, 1), "it is told once");
    session.observe(Signal::TurnDone { native_id: None, ending: Ending::cancelled() });
    assert_eq!(ending(&session), (Outcome::Failed, Some(ErrorClass::Budget)));
    let reached = events(&session, "budget.reached").remove(0);
    assert_eq!(
        (&reached["scope"], &reached["cap"], &reached["used"]["steps"], &reached["caps"]["steps"]),
        (&json!("turn"), &json!("steps"), &json!(2), &json!(2))
    );
    assert_eq!(reached["turn"], "t1");
    session.prompt("The next turn has its own steps");
    session.assert_lawful(Tail::Live);
}

#[test]
fn a_turn_whose_last_call_reaches_a_cap_completes() {
    for caps in [steps(1), Caps { tokens: Some(10), ..Caps::default() }] {
        let mut session = capped(caps, Caps::default());
        session.prompt("Go");
        session.observe_all([attempt("a1"), call_ended("a1", "end_turn", tokens(50), None)]);
        session.observe(Signal::TurnDone { native_id: None, ending: Ending::completed(StopReason::EndTurn) });
        assert_eq!((session.stops, ending(&session)), (0, (Outcome::Completed, None)));
        session.assert_lawful(Tail::Settled);
    }
}

#[test]
fn tokens_and_cost_of_calls_stop_the_turn_at_its_next_call() {
    let cost = Caps { cost: Some(0.25), ..Caps::default() };
    let all = Caps { tokens: Some(100), ..Caps::default() };
    for (caps, usage, price, cap) in [(all, tokens(100), None, "tokens"), (cost, None, dollars(0.3), "cost")]
    {
        let mut session = capped(caps, Caps::default());
        session.prompt("Go");
        session.observe_all([attempt("a1"), call_ended("a1", "stop", usage, price)]);
        assert_eq!(session.stops, 0);
        session.observe(attempt("a2"));
        assert_eq!((session.stops, &events(&session, "budget.reached")[0]["cap"]), (1, &json!(cap)));
        session.observe(Signal::TurnIdle { stop_reason: None });
        session.observe(attempt_done("a2", "stop"));
        assert_eq!(ending(&session), (Outcome::Failed, Some(ErrorClass::Budget)));
        session.assert_lawful(Tail::Settled);
    }
}

#[test]
fn what_an_agent_tells_of_its_subagents_counts_and_other_currencies_do_not() {
    let mut session = capped(Caps { tokens: Some(500), cost: Some(1.0), ..Caps::default() }, Caps::default());
    session.prompt("Go");
    let euros = Some(Cost { currency: "EUR".to_owned(), ..dollars(9.0).unwrap() });
    session.observe_all([attempt("a1"), call_ended("a1", "stop", tokens(10), euros), attempt("a2")]);
    assert_eq!(session.stops, 0);
    session.observe(Signal::Usage { usage: tokens(600), cost: None, context: None });
    session.observe_all([attempt_done("a2", "tool-calls")]);
    assert_eq!((session.stops, &events(&session, "budget.reached")[0]["used"]["tokens"]), (1, &json!(600)));
    assert!(
        events(&session, "budget.reached")[0]["used"].get("cost").is_none(),
        "euros were told, not dollars"
    );
}

#[test]
fn the_time_of_a_turn_stands_still_while_a_person_is_asked() {
    let mut session = capped(Caps { time: Some(10_000), ..Caps::default() }, Caps::default());
    session.prompt("Go");
    session.observe(attempt("a1"));
    session.pass(9_000);
    assert_eq!(session.stops, 0);
    session.observe(Signal::Ask { key: Key::from("q"), item: None, tool: None, options: Vec::new() });
    session.pass(3_600_000);
    assert_eq!((session.stops, session.machine.deadline()), (0, None), "a person takes an hour");
    let resolution = turnstream_model::event::Resolution::new(
        turnstream_model::event::ApprovalOutcome::AllowOnce,
        By::Client,
    );
    session.step(|machine, step| machine.resolve(&"q1".into(), resolution, step)).unwrap();
    assert_eq!(session.machine.deadline(), Some(session.now.plus_millis(1_000)));
    session.pass(999);
    assert_eq!(session.stops, 0);
    session.pass(1);
    assert_eq!((session.stops, session.machine.deadline()), (1, None));
    let used = &events(&session, "budget.reached")[0]["used"];
    assert_eq!(used["time"], 10_000);
    session.observe(Signal::TurnDone { native_id: None, ending: Ending::cancelled() });
    assert_eq!(ending(&session), (Outcome::Failed, Some(ErrorClass::Budget)));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_session_at_its_cap_takes_and_sends_no_prompt_until_it_is_raised() {
    let mut session = capped(Caps::default(), steps(1));
    let waiting = session.step(|machine, step| machine.accept(None, vec![], step)).unwrap().prompt;
    session.prompt("Go");
    session.observe_all([attempt("a1"), attempt_done("a1", "end_turn")]);
    session.observe(Signal::TurnDone { native_id: None, ending: Ending::completed(StopReason::EndTurn) });
    assert_eq!(ending(&session), (Outcome::Completed, None));
    let refused = session.step(|machine, step| machine.accept(None, vec![], step)).unwrap_err();
    let (used, limit) = ("1 step".to_owned(), "1 step".to_owned());
    assert_eq!(refused, Refusal::Capped { cap: Cap::Steps, used, limit });
    assert_eq!(session.machine.next_prompt(), None, "the prompt in the queue waits");
    assert!(session.machine.is_resting() && !session.machine.is_quiet());

    session = resumed(session);
    assert!(session.step(|machine, step| machine.send(&waiting, None, step)).is_err());
    set(&mut session, Caps::default(), Caps { cost: Some(3.0), ..Caps::default() });
    assert_eq!(session.machine.next_prompt(), Some(waiting));
    let types = session.types();
    assert_eq!(types.last(), Some(&"budget.set"));
    let used = events(&session, "budget.used").remove(0);
    assert_eq!((&used["last"]["steps"], &used["used"]["steps"]), (&json!(1), &json!(1)));
    session.assert_lawful(Tail::Live);
}

#[test]
fn a_cap_below_what_is_used_is_reached_at_once() {
    let mut session = capped(Caps::default(), Caps { tokens: Some(100), ..Caps::default() });
    session.prompt("Go");
    session.observe_all([attempt("a1"), call_ended("a1", "end_turn", tokens(60), None)]);
    session.observe(Signal::TurnDone { native_id: None, ending: Ending::completed(StopReason::EndTurn) });
    assert!(!session.machine.is_capped());
    set(&mut session, Caps::default(), Caps { tokens: Some(60), ..Caps::default() });
    assert!(session.machine.is_capped());
    set(&mut session, Caps::default(), Caps { tokens: Some(60), ..Caps::default() });
    assert_eq!(
        (session.count("budget.set"), session.count("budget.reached")),
        (2, 1),
        "equal caps say nothing"
    );
    set(&mut session, Caps::default(), Caps { tokens: Some(61), ..Caps::default() });
    assert!(!session.machine.is_capped());
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_turn_that_the_agent_begins_in_a_session_at_its_cap_is_stopped() {
    let mut session = capped(Caps::default(), steps(1));
    session.prompt("Go");
    session.observe_all([attempt("a1"), attempt_done("a1", "end_turn")]);
    session.observe(Signal::TurnDone { native_id: None, ending: Ending::completed(StopReason::EndTurn) });
    session.observe(message("m"));
    assert_eq!((session.stops, session.machine.is_cancelling()), (1, true));
}

#[test]
fn a_prompt_may_have_caps_of_its_own_and_the_next_turn_has_not() {
    let mut session = capped(steps(1), Caps::default());
    let prompt = session.step(|machine, step| {
        let prompt = machine.accept(None, vec![], step).unwrap().prompt;
        machine.cap_prompt(&prompt, steps(3), By::Client, step);
        prompt
    });
    session.step(|machine, step| machine.send(&prompt, None, step)).unwrap();
    session.observe_all([attempt("a1"), attempt_done("a1", "tool_use"), attempt("a2")]);
    session = resumed(session);
    session.observe_all([attempt_done("a2", "tool_use"), attempt("a3")]);
    assert_eq!(session.stops, 0);
    session.observe(attempt_done("a3", "tool_use"));
    assert_eq!(session.stops, 1);
    session.observe(Signal::TurnDone { native_id: None, ending: Ending::cancelled() });
    session.prompt("Next");
    session.observe_all([attempt("b1"), attempt_done("b1", "tool_use")]);
    assert_eq!(session.stops, 2);
    session.assert_lawful(Tail::Live);
}

#[test]
fn a_crash_after_a_cap_was_reached_forgets_nothing() {
    let mut session = capped(steps(1), Caps { tokens: Some(1_000), ..Caps::default() });
    session.prompt("Go");
    session.observe_all([attempt("a1"), call_ended("a1", "tool_use", tokens(40), None)]);
    assert_eq!(session.stops, 1);
    session = resumed(session);
    session.observe(Signal::TurnDone { native_id: None, ending: Ending::cancelled() });
    assert_eq!(ending(&session), (Outcome::Failed, Some(ErrorClass::Budget)));
    let meter = session.fold.state().session.budget.clone().unwrap();
    assert_eq!(meter.used, Used { steps: Some(1), time: 0, tokens: Some(40), cost: None });
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_turn_that_a_client_cancels_is_cancelled_and_not_over_its_budget() {
    let mut session = capped(steps(1), Caps::default());
    session.prompt("Go");
    session.observe(attempt("a1"));
    session.step(|machine, step| machine.cancel(&Cancel::Any, By::Client, step)).unwrap();
    session.observe(attempt_done("a1", "tool_use"));
    assert_eq!(session.stops, 0);
    session.observe(Signal::TurnDone { native_id: None, ending: Ending::cancelled() });
    assert_eq!(ending(&session), (Outcome::Cancelled, None));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_session_without_a_budget_says_nothing_about_one() {
    let mut session = Session::new();
    set(&mut session, Caps::default(), Caps::default());
    session.prompt("Go");
    session.observe_all([attempt("a1"), attempt_done("a1", "end_turn")]);
    session.observe(Signal::TurnDone { native_id: None, ending: Ending::completed(StopReason::EndTurn) });
    assert!(!session.types().iter().any(|name| name.starts_with("budget.")));
    assert_eq!(session.fold.state().session.budget, None);
}

#[test]
fn the_checker_finds_a_prompt_beyond_the_cap_of_a_session() {
    let line = |seq: u64, rest: &str| format!(r#"{{"seq":{seq},"time":1,{rest}}}"#);
    let reached =
        r#""type":"budget.reached","scope":"session","cap":"steps","used":{"steps":2},"caps":{"steps":2}"#;
    let log = [
        r#""type":"session.created","session":"s","agent":"a","cwd":"/w""#,
        r#""type":"prompt.accepted","prompt":"p1","content":[]"#,
        reached,
        r#""type":"prompt.sent","prompt":"p1""#,
        r#""type":"prompt.accepted","prompt":"p2","content":[]"#,
        reached,
        r#""type":"budget.set","prompt":"p2","budget":{},"by":"client""#,
        r#""type":"prompt.accepted","prompt":"p3","content":[]"#,
        r#""type":"budget.set","budget":{"session":{"steps":3}},"by":"client""#,
        r#""type":"prompt.accepted","prompt":"p4","content":[]"#,
        r#""type":"budget.reached","scope":"session","cap":"steps","used":{"steps":2},"caps":{"steps":3}"#,
        r#""type":"budget.reached","scope":"turn","cap":"time","used":{"time":3},"caps":{"time":3}"#,
    ];
    let mut checker = Checker::new();
    for (seq, rest) in (1..).zip(log) {
        checker.line(&line(seq, rest));
    }
    let found = checker.finish(Tail::Live).violations;
    let broken: Vec<(u64, Law)> = found.iter().map(|found| (found.seq.unwrap(), found.law)).collect();
    assert_eq!(broken, [4, 5, 6, 8, 11, 12].map(|seq| (seq, Law::Budget)), "{found:#?}");
}

fn some_caps() -> impl Strategy<Value = Caps> {
    let count = || proptest::option::of(1..6u64);
    let time = proptest::option::of(prop_oneof![Just(1), Just(2_500), Just(40_000)]);
    let cost = proptest::option::of((1..9u32).prop_map(|tenths| f64::from(tenths) / 10.0));
    (count(), time, count(), cost).prop_map(|(steps, time, tokens, cost)| Caps { steps, time, tokens, cost })
}

/// Anything that can happen to a session, with changes of its budget in between.
fn some_acts_with_budgets() -> impl Strategy<Value = Vec<(Act, Option<Budget>)>> {
    let budget = (some_caps(), some_caps()).prop_map(|(turn, session)| Budget { turn, session });
    let budgets = proptest::collection::vec(proptest::option::weighted(0.15, budget), 80);
    (some_acts(), budgets).prop_map(|(acts, budgets)| acts.into_iter().zip(budgets).collect())
}

fn play_with_budgets(acts: &[(Act, Option<Budget>)]) -> Session {
    let mut session = Session::new();
    for (one, budget) in acts {
        if let Some(budget) = budget {
            session.step(|machine, step| machine.set_budget(budget.clone(), By::Client, step)).unwrap();
        }
        // A client would be refused.
        if !(matches!(one, Act::Prompt) && session.machine.is_capped()) {
            act(&mut session, one.clone());
        }
    }
    session
}

proptest! {
    #[test]
    fn no_budget_breaks_a_law_and_the_log_alone_knows_it(acts in some_acts_with_budgets()) {
        let mut session = play_with_budgets(&acts);
        session.assert_lawful(Tail::Live);
        let state = session.fold.state().clone();
        let stored = serde_json::to_string(&state).unwrap();
        prop_assert_eq!(&serde_json::from_str::<turnstream_model::fold::State>(&stored).unwrap(), &state);
        let next = Machine::resume(&state);
        prop_assert_eq!(next.is_capped(), session.machine.is_capped());
        prop_assert_eq!(next.budget(), session.machine.budget());
        // Time that is up is acted upon: no deadline stays in the past.
        session.pass(60_000);
        session.pass(60_000);
        let meter = session.fold.state().session.budget.clone();
        let late = meter.and_then(|meter| meter.time_is_up()).filter(|deadline| *deadline < session.now);
        prop_assert!(late.is_none() || session.machine.is_cancelling() || session.machine.open_turn().is_none());
        let gone = turnstream_model::event::TurnError::new(ErrorClass::AgentExited, "gone");
        session.observe(Signal::LinkLost(gone));
        session.assert_lawful(Tail::Settled);
    }
}
