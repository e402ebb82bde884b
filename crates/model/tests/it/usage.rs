//! Stories about tokens and money: the end of a turn never says less than its model calls did.

use crate::support::*;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use turnstream_model::check::{Checker, Law, Tail};
use turnstream_model::event::{Body, Cost, Outcome, StopReason, Usage};
use turnstream_model::id::Key;
use turnstream_model::machine::Machine;
use turnstream_model::signal::{Ending, Signal};

fn tokens(input: u64, output: u64) -> Usage {
    Usage { input: Some(input), output: Some(output), ..Usage::default() }
}

fn dollars(amount: f64) -> Cost {
    Cost { amount, currency: "USD".into(), extra: Map::new() }
}

fn call_done(key: &str, finish: &str, usage: Usage, cost: f64) -> Signal {
    let (usage, cost) = (Some(usage), Some(dollars(cost)));
    Signal::AttemptEnded { key: Key::from(key), finish: Some(finish.into()), usage, cost }
}

fn total(usage: Option<Usage>, cost: Option<Cost>) -> Signal {
    Signal::Usage { usage, cost, context: None }
}

/// What the end of the last turn says.
fn spent(session: &Session) -> (Option<Usage>, Option<Cost>) {
    let Some(Body::TurnEnded { usage, cost, summed, .. }) = session.ends().last() else { unreachable!() };
    assert!(summed, "every end of this version promises its sums");
    (usage.as_deref().cloned(), cost.clone())
}

#[test]
fn a_total_that_is_less_than_what_the_calls_took_gives_way_to_their_sum() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), attempt("m1"), call_done("m1", "tool-calls", tokens(5_000, 50), 0.5)]);
    // Another owner, whose agent counts from here on.
    session.machine = Machine::resume(session.fold.state());
    session.observe_all([attempt("m2"), call_done("m2", "stop", tokens(300, 3), 0.03)]);
    session.observe_all([total(Some(tokens(300, 3)), Some(dollars(0.03))), idle()]);
    assert_eq!(spent(&session), (Some(tokens(5_300, 53)), Some(dollars(0.53))));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_total_that_is_more_stands_because_subagents_are_in_it() {
    let mut session = Session::new();
    session.prompt("go");
    let mut all = tokens(5_300, 53);
    all.extra.insert("total".into(), json!(5_353));
    session.observe_all([busy(), attempt("m1"), call_done("m1", "stop", tokens(300, 3), 0.03)]);
    session.observe_all([total(Some(all.clone()), Some(dollars(0.53))), idle()]);
    assert_eq!(spent(&session), (Some(all), Some(dollars(0.53))));
}

#[test]
fn a_call_that_was_repeated_took_what_it_took() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), attempt("m1"), call_done("m1", "error", tokens(10, 1), 0.1)]);
    session.observe(Signal::Retrying { attempt: None, reason: None, until: None, message: None });
    session.observe_all([attempt("m1#2"), call_done("m1#2", "stop", tokens(20, 2), 0.2)]);
    assert_eq!(session.count("attempt.superseded"), 1);
    let ending = Ending { usage: Some(tokens(20, 2)), ..Ending::completed(StopReason::EndTurn) };
    session.observe(Signal::TurnDone { native_id: None, ending });
    assert_eq!(spent(&session), (Some(tokens(30, 3)), Some(dollars(0.3))));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn what_nobody_said_stays_unsaid() {
    let mut session = Session::new();
    session.prompt("one");
    session.observe_all([busy(), attempt("m1"), attempt_done("m1", "stop"), message("a"), done("a"), idle()]);
    assert_eq!(spent(&session), (None, None));
    session.prompt("two");
    let output = Usage { output: Some(7), ..Usage::default() };
    let input = Usage { input: Some(3), ..Usage::default() };
    session.observe_all([busy(), attempt("m2")]);
    session.observe(Signal::AttemptEnded {
        key: Key::from("m2"),
        finish: Some("stop".into()),
        usage: Some(output),
        cost: None,
    });
    session.observe_all([total(Some(input), None), message("b"), done("b"), idle()]);
    assert_eq!(
        spent(&session),
        (Some(tokens(3, 7)), None),
        "the other members stay absent, and so does the cost"
    );
    session.assert_lawful(Tail::Settled);
}

#[test]
fn money_of_two_currencies_is_neither_added_nor_compared() {
    let euros = |amount| Cost { currency: "EUR".into(), ..dollars(amount) };
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), attempt("m1"), call_done("m1", "stop", tokens(1, 1), 5.0)]);
    session.observe_all([total(None, Some(euros(1.0))), message("a"), done("a"), idle()]);
    assert_eq!(spent(&session).1, Some(euros(1.0)));
    session.assert_lawful(Tail::Settled);
}

/// The log of a turn with two calls, with its end changed.
fn judged(change: impl Fn(&mut Value)) -> Vec<Law> {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), attempt("m1"), call_done("m1", "error", tokens(10, 1), 0.1)]);
    session.observe(Signal::Retrying { attempt: None, reason: None, until: None, message: None });
    session.observe_all([attempt("m1#2"), call_done("m1#2", "stop", tokens(20, 2), 0.2), idle()]);
    assert_eq!(session.fold.state().turns[0].outcome, Some(Outcome::Completed));
    let mut checker = Checker::new();
    for event in &session.log {
        let mut line: Value = serde_json::from_str(&event.to_json()).unwrap();
        if line["type"] == "turn.ended" {
            change(&mut line);
        }
        checker.line(&line.to_string());
    }
    checker.finish(Tail::Settled).violations.into_iter().map(|violation| violation.law).collect()
}

#[test]
fn the_checker_adds_up_the_calls_itself() {
    assert_eq!(judged(|_| ()), []);
    assert_eq!(judged(|end| end["usage"]["input"] = json!(29)), [Law::Usage]);
    assert_eq!(judged(|end| end["usage"]["input"] = json!(31)), []);
    assert_eq!(judged(|end| end["cost"]["amount"] = json!(0.2)), [Law::Usage]);
    assert_eq!(judged(|end| drop(end["usage"].as_object_mut().unwrap().remove("output"))), [Law::Usage]);
    assert_eq!(judged(|end| drop(end.as_object_mut().unwrap().remove("usage"))), [Law::Usage; 2]);
    assert_eq!(judged(|end| drop(end.as_object_mut().unwrap().remove("cost"))), [Law::Usage]);
    assert_eq!(judged(|end| end["summed"] = json!("yes")), [Law::Shape]);
}

#[test]
fn a_log_of_an_earlier_version_is_not_held_to_a_promise_it_does_not_make() {
    let earlier = judged(|end| {
        end.as_object_mut().unwrap().remove("summed");
        end["usage"]["input"] = json!(20);
        end["cost"]["amount"] = json!(0.2);
    });
    assert_eq!(earlier, []);
}

proptest! {
    #[test]
    fn the_end_is_at_least_the_sum_whatever_the_agent_says(
        calls in proptest::collection::vec((0..50u64, 0..50u64, 0..50u32), 1..6),
        said in proptest::option::of((0..300u64, 0..300u64, 0..300u32)),
        crash in any::<prop::sample::Index>(),
    ) {
        let mut session = Session::new();
        session.prompt("go");
        session.observe(busy());
        for (n, (input, output, cents)) in calls.iter().enumerate() {
            if crash.index(calls.len()) == n {
                session.machine = Machine::resume(session.fold.state());
            }
            let key = format!("m{n}");
            session.observe(attempt(&key));
            session.observe(call_done(&key, "stop", tokens(*input, *output), f64::from(*cents) / 100.0));
        }
        if let Some((input, output, cents)) = said {
            session.observe(total(Some(tokens(input, output)), Some(dollars(f64::from(cents) / 100.0))));
        }
        session.observe_all([message("a"), done("a"), idle()]);
        let (usage, cost) = spent(&session);
        let sum = |of: fn(&(u64, u64, u32)) -> u64| calls.iter().map(of).sum::<u64>();
        let (input, output, cents) = said.unwrap_or_default();
        prop_assert_eq!(usage, Some(tokens(sum(|call| call.0).max(input), sum(|call| call.1).max(output))));
        let wanted = sum(|call| call.2.into()).max(cents.into());
        prop_assert!((cost.unwrap().amount * 100.0 - wanted as f64).abs() < 1e-6);
        session.assert_lawful(Tail::Settled);
    }
}
