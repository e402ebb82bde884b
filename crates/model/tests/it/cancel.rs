//! Stories about prompts that are cancelled after they were sent and before they have a turn.

use crate::support::*;
use serde_json::{Value, json};
use turnstream_model::check::{Checker, Law, Tail};
use turnstream_model::event::{Body, By, ErrorClass, Outcome, StopReason, TurnError};
use turnstream_model::fold::Activity;
use turnstream_model::id::{PromptId, TurnId};
use turnstream_model::machine::{Cancel, Cancelled, Machine, PromptState, Refusal};
use turnstream_model::signal::{Ending, Signal};

fn cancel(session: &mut Session, what: &Cancel) -> Result<Cancelled, Refusal> {
    session.step(|machine, step| machine.cancel(what, By::Client, step))
}

/// A session whose prompt was sent and then cancelled.
fn cancelled() -> (Session, PromptId) {
    let mut session = Session::new();
    let prompt = session.prompt("go");
    let what = Cancel::Prompt(prompt.clone());
    assert_eq!(
        cancel(&mut session, &what),
        Ok(Cancelled { turn: None, prompts: vec![prompt.clone()], parked: None })
    );
    (session, prompt)
}

fn refused(prompt: &PromptId, class: ErrorClass) -> Signal {
    Signal::PromptRefused { native_id: format!("native-{prompt}"), error: TurnError::new(class, "no") }
}

/// The prompt has one turn, and that is cancelled.
fn assert_cancelled_once(session: &Session) {
    let turns = &session.fold.state().turns;
    let ends: Vec<_> = turns.iter().map(|turn| (turn.outcome, turn.cancelling)).collect();
    assert_eq!(ends, [(Some(Outcome::Cancelled), Some(By::Client))], "{}", session.show());
    assert_eq!(session.count("prompt.cancelling"), 1);
    assert_eq!(session.count("turn.cancelling"), 0);
    assert_eq!(session.fold.state().session.status, Activity::Idle);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_session_is_busy_from_the_sending_of_a_prompt_to_the_end_of_its_turn() {
    let mut session = Session::new();
    assert_eq!(session.fold.state().session.status, Activity::Idle);
    session.prompt("go");
    assert_eq!(session.fold.state().session.status, Activity::Busy);
    session.observe_all([busy(), message("a"), done("a")]);
    assert_eq!(session.fold.state().session.status, Activity::Busy);
    session.observe(idle());
    assert_eq!(session.fold.state().session.status, Activity::Idle);
    assert_eq!(session.count("session.status"), 2, "busy and idle, once each: {}", session.show());
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_prompt_that_is_cancelled_and_never_begins_has_a_turn_that_is_cancelled() {
    for class in [ErrorClass::Cancelled, ErrorClass::NotStarted] {
        let (mut session, prompt) = cancelled();
        session.observe(refused(&prompt, class));
        assert_cancelled_once(&session);
        assert_eq!(session.fold.state().turns[0].error, None, "nothing went wrong");
    }
    let (mut session, prompt) = cancelled();
    session.step(|machine, step| machine.never_started(&prompt, step)).unwrap();
    assert_cancelled_once(&session);
}

#[test]
fn a_prompt_that_is_cancelled_and_begins_all_the_same_is_cancelled_however_it_ends() {
    let ends = [
        idle(),
        Signal::TurnDone { native_id: None, ending: Ending::completed(StopReason::EndTurn) },
        Signal::TurnDone { native_id: None, ending: Ending::cancelled() },
        Signal::TurnDone {
            native_id: None,
            ending: Ending::failed(TurnError::new(ErrorClass::Auth, "no key")),
        },
        Signal::LinkLost(TurnError::new(ErrorClass::AgentExited, "gone")),
    ];
    for end in ends {
        let (mut session, _) = cancelled();
        session.observe_all([busy(), message("a"), delta("a", "Hello"), done("a")]);
        assert!(session.machine.is_cancelling());
        session.observe(end.clone());
        assert_cancelled_once(&session);
        let Body::TurnEnded { stop_reason, error, .. } = session.ends()[0] else { unreachable!() };
        assert_eq!(*stop_reason, None);
        let said = error.as_ref().map(|error| error.class);
        let wanted = match end {
            Signal::TurnDone { ending, .. } => ending.error.map(|error| error.class),
            Signal::LinkLost(error) => Some(error.class),
            _ => None,
        };
        assert_eq!(said, wanted, "what else went wrong is kept");
    }
}

#[test]
fn a_cancelled_prompt_of_which_nobody_knows_whether_it_ran_is_cancelled_and_says_so() {
    let (mut session, prompt) = cancelled();
    let lost = Ending::lost(TurnError::new(ErrorClass::AgentExited, "who knows"));
    session.step(|machine, step| machine.end_prompt(&prompt, lost, step)).unwrap();
    assert_cancelled_once(&session);
    assert_eq!(session.fold.state().turns[0].error.as_ref().unwrap().message, "who knows");
}

#[test]
fn a_cancel_of_a_prompt_is_said_once_and_may_be_repeated_until_its_turn_has_ended() {
    let (mut session, prompt) = cancelled();
    let what = Cancel::Prompt(prompt.clone());
    for what in [&what, &Cancel::Any] {
        let again = cancel(&mut session, what).unwrap();
        assert_eq!(again, Cancelled { turn: None, prompts: vec![prompt.clone()], parked: None });
    }
    session.observe_all([busy(), message("a")]);
    let turn = Some(TurnId::from("t1"));
    let again = cancel(&mut session, &what).unwrap();
    assert_eq!(again, Cancelled { turn: turn.clone(), prompts: vec![prompt.clone()], parked: None });
    assert_eq!(cancel(&mut session, &Cancel::Any), Ok(Cancelled { turn, prompts: vec![], parked: None }));
    session.observe_all([done("a"), idle()]);
    assert_cancelled_once(&session);
    let late = cancel(&mut session, &what).unwrap_err();
    assert_eq!(late, Refusal::NotSent { prompt, state: None });
}

#[test]
fn a_prompt_in_the_queue_is_not_touched_by_a_cancel_of_whatever_runs() {
    let mut session = Session::new();
    let waiting = session.step(|machine, step| machine.accept(None, vec![], step)).unwrap().prompt;
    assert_eq!(cancel(&mut session, &Cancel::Any), Err(Refusal::NothingRuns));
    let state = Some(PromptState::Waiting);
    let refusal = Refusal::NotSent { prompt: waiting.clone(), state };
    assert_eq!(cancel(&mut session, &Cancel::Prompt(waiting.clone())), Err(refusal));
    session.step(|machine, step| machine.send(&waiting, Some("n".into()), step)).unwrap();
    let behind = session.step(|machine, step| machine.accept(None, vec![], step)).unwrap().prompt;
    assert_eq!(cancel(&mut session, &Cancel::Any).unwrap().prompts, [waiting]);
    session.observe(Signal::PromptRefused {
        native_id: "n".into(),
        error: TurnError::new(ErrorClass::Cancelled, "stopped"),
    });
    assert_eq!(session.machine.next_prompt(), Some(behind));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_prompt_that_waits_behind_anothers_turn_is_cancelled_without_that_turn() {
    let mut session = Session::new();
    session.observe(Signal::TurnBegan {
        origin: None,
        prompts: vec!["somebody's".into()],
        native_id: Some("T".into()),
    });
    let prompt = session.prompt("go");
    let what = Cancel::Prompt(prompt.clone());
    assert_eq!(cancel(&mut session, &what).unwrap().turn, None);
    assert!(!session.machine.is_cancelling());
    session.observe_all([refused(&prompt, ErrorClass::Cancelled), message("a"), done("a"), idle()]);
    let outcomes: Vec<_> = session.fold.state().turns.iter().map(|turn| turn.outcome).collect();
    assert_eq!(outcomes, [Some(Outcome::Completed), Some(Outcome::Cancelled)]);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn the_next_owner_knows_of_a_cancelled_prompt_at_every_step() {
    // Killed before its turn began.
    let (mut session, prompt) = cancelled();
    session.machine = Machine::resume(session.fold.state());
    let native = Some(format!("native-{prompt}"));
    assert_eq!(session.machine.cancelling_prompts(), [(prompt.clone(), native)]);
    assert_eq!(cancel(&mut session, &Cancel::Any).unwrap().prompts, [prompt]);
    session.step(Machine::begin_recovery);
    session.step(Machine::end_recovery);
    assert_eq!(session.fold.state().session.status, Activity::Busy, "it has no turn yet");
    session.observe(busy());
    // And killed after it began.
    session.machine = Machine::resume(session.fold.state());
    assert!(session.machine.is_cancelling());
    session.observe_all([message("a"), done("a")]);
    session.observe(Signal::TurnDone { native_id: None, ending: Ending::completed(StopReason::EndTurn) });
    let turns = &session.fold.state().turns;
    assert_eq!((turns.len(), turns[0].outcome), (1, Some(Outcome::Cancelled)));
    session.assert_lawful(Tail::Settled);
}

/// The laws that break when one line of a good log is changed.
fn laws(session: &Session, damage: impl Fn(&mut Vec<Value>)) -> Vec<Law> {
    let mut lines: Vec<Value> =
        session.log.iter().map(|event| serde_json::from_str(&event.to_json()).unwrap()).collect();
    damage(&mut lines);
    let mut checker = Checker::new();
    for (index, line) in lines.iter_mut().enumerate() {
        line["seq"] = json!(index + 1);
        checker.line(&line.to_string());
    }
    checker.finish(Tail::Settled).violations.into_iter().map(|violation| violation.law).collect()
}

#[test]
fn the_checker_holds_a_cancelled_prompt_to_a_cancelled_turn() {
    let (mut session, _) = cancelled();
    session.observe_all([busy(), message("a"), done("a"), idle()]);
    let at = |lines: &[Value], r#type: &str| lines.iter().position(|line| line["type"] == r#type).unwrap();
    assert_eq!(laws(&session, |_| ()), []);
    let completed = laws(&session, |lines| {
        let end = at(lines, "turn.ended");
        lines[end]["outcome"] = json!("completed");
        lines[end]["stop_reason"] = json!("end_turn");
    });
    assert_eq!(completed, [Law::Prompt]);
    let twice = laws(&session, |lines| {
        let said = at(lines, "prompt.cancelling");
        lines.insert(said, lines[said].clone());
    });
    assert_eq!(twice, [Law::Prompt]);
    let unsent = laws(&session, |lines| {
        let (said, sent) = (at(lines, "prompt.cancelling"), at(lines, "prompt.sent"));
        lines.swap(said, sent);
    });
    assert!(unsent.contains(&Law::Prompt), "{unsent:?}");
    let by_nobody = laws(&session, |lines| {
        let said = at(lines, "prompt.cancelling");
        lines[said]["by"] = json!("nobody");
    });
    assert_eq!(by_nobody, [Law::Shape]);
    let idle_in_between = laws(&session, |lines| {
        let said = at(lines, "prompt.cancelling");
        lines.insert(said, json!({"time": 1, "type": "session.status", "status": "idle"}));
    });
    assert_eq!(idle_in_between, [Law::Session]);
}

#[test]
fn a_log_of_an_earlier_version_may_be_idle_while_a_prompt_is_sent() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), message("a"), done("a"), idle()]);
    let old = laws(&session, |lines| {
        let shown = lines.iter().position(|line| line["status"] == "busy").unwrap();
        lines[shown]["status"] = json!("idle");
    });
    assert_eq!(old, []);
}
