//! Unattended runs: a failed turn is continued after a wait, once, and only if the rules ask for it.

use crate::acts::*;
use crate::support::*;
use proptest::prelude::*;
use serde_json::{Value, json};
use turnstream_model::check::{Checker, Law, Tail};
use turnstream_model::event::{
    Because, Budget, By, Caps, Continuation, ErrorClass, OnFailure, OnLimit, Outcome, Released, StopReason,
    ToolStatus, TurnError, Unattended, Usage,
};
use turnstream_model::fold::{Activity, Fold};
use turnstream_model::id::{PromptId, TurnId};
use turnstream_model::machine::{Cancel, Cancelled, Machine, Refusal};
use turnstream_model::signal::{Ending, Signal};
use turnstream_model::time::Time;
use turnstream_model::unattended::{EndedTurn, MOST_FAILURES, Park, decide};

const HOUR: u64 = 3_600_000;

/// The classes that `on_failure` names.
const PASSING: &[ErrorClass] = &[
    ErrorClass::StreamCorrupt,
    ErrorClass::StreamSpliced,
    ErrorClass::Incomplete,
    ErrorClass::TransportLost,
    ErrorClass::Overloaded,
    ErrorClass::ProviderError,
];

/// The classes that `on_limit` names.
const LIMITS: &[ErrorClass] = &[ErrorClass::RateLimited, ErrorClass::QuotaExhausted, ErrorClass::Overloaded];

fn rules(on_limit: OnLimit, on_failure: OnFailure) -> Unattended {
    Unattended { on_limit, on_failure, continue_with: "Go on.".to_owned(), ..Unattended::default() }
}

/// A session that waits for limits and continues after failures.
fn patient() -> Session {
    let mut session = Session::new();
    let rules = rules(OnLimit::Wait, OnFailure::Continue);
    session.step(|machine, step| machine.set_unattended(rules, By::Client, step)).unwrap();
    session
}

fn error(class: ErrorClass, retry_at: Option<Time>) -> TurnError {
    TurnError { retry_at, ..TurnError::new(class, "e") }
}

/// A turn that the agent ends with this error.
fn fail(session: &mut Session, error: TurnError) {
    session.observe_all([busy(), message("m")]);
    session.observe(Signal::TurnDone { native_id: None, ending: Ending::failed(error) });
}

fn limited(session: &mut Session) -> Time {
    let until = session.now.plus_millis(5 * HOUR);
    fail(session, error(ErrorClass::RateLimited, Some(until)));
    until
}

fn resume_now(session: &mut Session) -> PromptId {
    let outcome = Released::Due;
    session.step(|machine, step| machine.continue_parked(outcome, By::Policy, step)).unwrap().prompt
}

fn send(session: &mut Session, prompt: &PromptId) {
    let native_id = Some(format!("native-{prompt}"));
    session.step(|machine, step| machine.send(prompt, native_id, step)).unwrap();
}

/// The same session after a crash: a machine that knows only the log.
fn resumed(session: Session) -> Session {
    let folded = Fold::of(&session.log).into_state();
    assert_eq!(folded, *session.fold.state());
    Session { machine: Machine::resume(&folded), ..session }
}

fn events(session: &Session, r#type: &str) -> Vec<Value> {
    let lines = session.log.iter().map(|event| serde_json::from_str::<Value>(&event.to_json()).unwrap());
    lines.filter(|event| event["type"] == r#type).collect()
}

fn status(session: &Session) -> Activity {
    session.fold.state().session.status
}

#[test]
fn a_limit_parks_the_session_and_the_prompt_and_the_turn_say_why_they_exist() {
    let mut session = patient();
    session.prompt("work");
    let until = limited(&mut session);
    let parked = session.fold.state().session.unattended.clone().unwrap().parked.unwrap();
    assert_eq!((parked.until, parked.continuation.of.as_str()), (until, "t1"));
    assert_eq!(status(&session), Activity::Retrying);
    let retry = session.fold.state().session.retry.clone().unwrap();
    assert_eq!((retry.until, retry.reason), (Some(until), Some(ErrorClass::RateLimited)));
    let types = session.types();
    assert_eq!(types[types.len() - 3..], ["turn.ended", "unattended.parked", "session.status"]);
    assert_eq!(session.machine.next_prompt(), None);

    let mut session = resumed(session);
    let prompt = resume_now(&mut session);
    assert_eq!(session.machine.next_prompt(), Some(prompt.clone()));
    let queued = session.fold.state().queue[0].clone();
    assert_eq!(queued.content, [json!({"type": "text", "text": "Go on."})]);
    let mut session = resumed(session);
    send(&mut session, &prompt);
    let mut session = resumed(session);
    session.observe_all([busy(), message("m2"), done("m2"), idle()]);
    let state = session.fold.state();
    let continuation = Continuation {
        of: TurnId::from("t1"),
        because: Because::Limit,
        reason: ErrorClass::RateLimited,
        failures: 0,
        limits: 1,
        since: Some(parked.time),
    };
    assert_eq!(state.turns[1].continues, Some(continuation.clone()));
    assert_eq!(state.prompts[1].continues, Some(continuation));
    assert_eq!((status(&session), session.count("prompt.continues")), (Activity::Idle, 1));
    let statuses: Vec<_> = events(&session, "session.status").iter().map(|it| it["status"].clone()).collect();
    assert_eq!(statuses, ["busy", "retrying", "busy", "idle"]);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn without_rules_or_without_a_time_a_limit_is_a_failure() {
    for (rules, retry_at) in [
        (Unattended::default(), Some(Time(u64::MAX))),
        (rules(OnLimit::Wait, OnFailure::Fail), None),
        (rules(OnLimit::Fail, OnFailure::Continue), Some(Time(0))),
        (rules(OnLimit::Wait, OnFailure::Continue), Some(Time(u64::MAX))),
    ] {
        let mut session = Session::new();
        session.step(|machine, step| machine.set_unattended(rules, By::Client, step)).unwrap();
        session.prompt("work");
        fail(&mut session, error(ErrorClass::RateLimited, retry_at));
        assert_eq!((status(&session), session.count("unattended.parked")), (Activity::Idle, 0));
        session.assert_lawful(Tail::Settled);
    }
}

#[test]
fn a_failure_is_continued_three_times_and_then_stays() {
    let mut session = patient();
    session.prompt("work");
    for number in 1..=MOST_FAILURES {
        fail(&mut session, error(ErrorClass::StreamCorrupt, None));
        let parked = session.machine.parked().unwrap().clone();
        assert_eq!((parked.continuation.failures, parked.continuation.because), (number, Because::Failure));
        let prompt = resume_now(&mut session);
        send(&mut session, &prompt);
        session = resumed(session);
    }
    fail(&mut session, error(ErrorClass::StreamCorrupt, None));
    assert_eq!((session.machine.parked(), status(&session)), (None, Activity::Idle));
    // A client's prompt begins a new row.
    session.prompt("again");
    fail(&mut session, error(ErrorClass::StreamCorrupt, None));
    assert_eq!(session.machine.parked().unwrap().continuation.failures, 1);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_turn_that_completes_begins_a_new_row() {
    let mut session = patient();
    session.prompt("work");
    for _ in 0..2 {
        fail(&mut session, error(ErrorClass::ProviderError, None));
        let prompt = resume_now(&mut session);
        send(&mut session, &prompt);
    }
    session.observe_all([busy(), message("m9"), done("m9"), idle()]);
    session.prompt("more");
    fail(&mut session, error(ErrorClass::ProviderError, None));
    assert_eq!(session.machine.parked().unwrap().continuation.failures, 1);
}

#[test]
fn a_failure_with_a_tool_that_may_have_run_is_not_continued() {
    let mut session = patient();
    session.prompt("work");
    session.observe_all([busy(), tool("c", ToolStatus::InProgress)]);
    let ending = Ending::failed(error(ErrorClass::ProviderError, None));
    session.observe(Signal::TurnDone { native_id: None, ending });
    assert_eq!((session.machine.parked(), status(&session)), (None, Activity::Idle));
}

#[test]
fn an_unclassified_error_is_continued_only_if_the_agent_itself_answers() {
    let mut answering = patient();
    answering.prompt("work");
    fail(&mut answering, error(ErrorClass::AgentError, None));
    assert!(answering.machine.parked().is_some());
    let mut silent = patient();
    silent.prompt("work");
    silent.observe_all([busy(), message("m")]);
    let (turn, ending) = (TurnId::from("t1"), Ending::failed(error(ErrorClass::AgentError, None)));
    silent.step(|machine, step| machine.end_open_turn(&turn, ending, step)).unwrap();
    assert_eq!(silent.machine.parked(), None);
}

#[test]
fn a_cancelled_turn_is_not_continued_whatever_the_agent_says() {
    let mut session = patient();
    session.prompt("work");
    session.observe_all([busy(), message("m")]);
    session.step(|machine, step| machine.cancel(&Cancel::Any, By::Client, step)).unwrap();
    let retry_at = Some(session.now.plus_millis(HOUR));
    let ending = Ending::failed(error(ErrorClass::RateLimited, retry_at));
    session.observe(Signal::TurnDone { native_id: None, ending });
    assert_eq!(session.machine.parked(), None);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_wait_is_cancelled_by_its_turn_or_without_a_name_and_then_nothing_is_left_to_cancel() {
    for what in [Cancel::Any, Cancel::Turn(TurnId::from("t1"))] {
        let mut session = patient();
        session.prompt("work");
        limited(&mut session);
        let cancelled = session.step(|machine, step| machine.cancel(&what, By::Client, step)).unwrap();
        let parked = Some(TurnId::from("t1"));
        assert_eq!(cancelled, Cancelled { parked, ..Cancelled::default() });
        assert_eq!(status(&session), Activity::Idle);
        assert_eq!(events(&session, "unattended.released")[0]["outcome"], "cancelled");
        let again = session.step(|machine, step| machine.cancel(&Cancel::Any, By::Client, step));
        assert_eq!(again, Err(Refusal::NothingRuns));
        let outcome = Released::Woken;
        let woken = session.step(|machine, step| machine.continue_parked(outcome, By::Client, step));
        assert_eq!(woken, Err(Refusal::NotParked));
        session.assert_lawful(Tail::Settled);
    }
}

#[test]
fn a_continuation_that_was_not_sent_yet_is_cancelled_and_prompts_of_people_stay() {
    for what in [Cancel::Any, Cancel::Turn(TurnId::from("t1"))] {
        let mut session = patient();
        session.prompt("work");
        limited(&mut session);
        let (outcome, by) = (Released::Woken, By::Client);
        let woken = session.step(|machine, step| machine.continue_parked(outcome, by, step)).unwrap();
        let cancelled = session.step(|machine, step| machine.cancel(&what, By::Client, step)).unwrap();
        assert_eq!(cancelled, Cancelled { parked: Some(TurnId::from("t1")), ..Cancelled::default() });
        assert_eq!(events(&session, "prompt.withdrawn")[0]["prompt"], json!(woken.prompt));
        assert_eq!(status(&session), Activity::Idle);
        let again = session.step(|machine, step| machine.cancel(&Cancel::Any, By::Client, step));
        assert_eq!(again, Err(Refusal::NothingRuns));
        session.assert_lawful(Tail::Settled);
    }
}

#[test]
fn a_prompt_of_a_client_takes_the_place_of_the_continuation() {
    let mut session = patient();
    session.prompt("work");
    limited(&mut session);
    session.prompt("do something else");
    assert_eq!(session.machine.parked(), None);
    assert_eq!(events(&session, "unattended.released")[0]["outcome"], "prompt");
    session.observe_all([busy(), message("m2"), done("m2"), idle()]);
    assert_eq!(session.count("prompt.continues"), 0);
    let statuses: Vec<_> = events(&session, "session.status").iter().map(|it| it["status"].clone()).collect();
    assert_eq!(statuses, ["busy", "retrying", "busy", "idle"]);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn the_continuation_goes_before_prompts_that_waited() {
    let mut session = patient();
    session.prompt("work");
    let content = vec![json!({"type": "text", "text": "and then"})];
    let later = session.step(|machine, step| machine.accept(None, content, step)).unwrap().prompt;
    limited(&mut session);
    assert_eq!(session.machine.next_prompt(), None, "the queue waits too");
    let refused = session.step(|machine, step| machine.send(&later, None, step));
    assert_eq!(refused, Err(Refusal::Parked));
    let prompt = resume_now(&mut session);
    let mut session = resumed(session);
    assert_eq!(session.machine.next_prompt(), Some(prompt.clone()));
    send(&mut session, &prompt);
    session.observe_all([busy(), message("m2"), done("m2"), idle()]);
    assert_eq!(session.machine.next_prompt(), Some(later));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn rules_that_no_longer_ask_for_it_end_the_wait() {
    let mut session = patient();
    session.prompt("work");
    limited(&mut session);
    let fail = rules(OnLimit::Fail, OnFailure::Continue);
    session.step(|machine, step| machine.set_unattended(fail, By::Client, step)).unwrap();
    assert_eq!((session.machine.parked(), status(&session)), (None, Activity::Idle));
    assert_eq!(events(&session, "unattended.released")[0]["outcome"], "rules");
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_session_at_its_cap_is_not_parked_and_a_cap_that_comes_later_ends_the_wait() {
    let budget =
        |tokens| Budget { session: Caps { tokens: Some(tokens), ..Caps::default() }, turn: Caps::default() };
    let used = |session: &mut Session| {
        let usage = Some(Usage { input: Some(100), ..Usage::default() });
        session.observe_all([busy(), attempt("a")]);
        session.observe(Signal::Usage { usage, cost: None, context: None });
        let retry_at = Some(session.now.plus_millis(HOUR));
        let ending = Ending::failed(error(ErrorClass::RateLimited, retry_at));
        session.observe(Signal::TurnDone { native_id: None, ending });
    };
    let mut capped = patient();
    capped.step(|machine, step| machine.set_budget(budget(100), By::Client, step)).unwrap();
    capped.prompt("work");
    used(&mut capped);
    assert_eq!((capped.machine.parked(), status(&capped)), (None, Activity::Idle));
    capped.assert_lawful(Tail::Settled);

    let mut later = patient();
    later.step(|machine, step| machine.set_budget(budget(1_000), By::Client, step)).unwrap();
    later.prompt("work");
    used(&mut later);
    assert!(later.machine.parked().is_some());
    later.step(|machine, step| machine.set_budget(budget(50), By::Client, step)).unwrap();
    assert_eq!((later.machine.parked(), status(&later)), (None, Activity::Idle));
    assert_eq!(events(&later, "unattended.released")[0]["outcome"], "budget");
    later.assert_lawful(Tail::Settled);
}

#[test]
fn a_session_that_ends_waits_no_more() {
    let mut session = patient();
    session.prompt("work");
    limited(&mut session);
    session.step(|machine, step| machine.end_session("deleted".into(), step)).unwrap();
    assert_eq!(session.machine.parked(), None);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn the_checker_finds_a_turn_that_is_continued_twice_and_a_prompt_sent_meanwhile() {
    let mut session = patient();
    session.prompt("work");
    limited(&mut session);
    resume_now(&mut session);
    let mut lines: Vec<Value> =
        session.log.iter().map(|event| serde_json::from_str(&event.to_json()).unwrap()).collect();
    let laws = |lines: &[Value]| {
        let mut checker = Checker::new();
        for (index, line) in lines.iter().enumerate() {
            let mut line = line.clone();
            line["seq"] = json!(index + 1);
            checker.line(&line.to_string());
        }
        let violations = checker.finish(Tail::Live).violations;
        violations.into_iter().map(|violation| (violation.law, violation.message)).collect::<Vec<_>>()
    };
    assert_eq!(laws(&lines), []);
    let (mut accepted, mut continues) = (lines[lines.len() - 2].clone(), lines[lines.len() - 1].clone());
    accepted["prompt"] = json!("p9");
    continues["prompt"] = json!("p9");
    let released = lines[lines.len() - 3].clone();
    let parked = lines.iter().find(|line| line["type"] == "unattended.parked").unwrap().clone();
    lines.extend([parked, released, accepted, continues]);
    let told = "prompt p9 continues turn t1 again".to_owned();
    assert_eq!(laws(&lines), [(Law::Continuation, told)]);
}

/// How a turn ended, and what the session had done before.
type AnyTurn = (Outcome, ErrorClass, Option<u64>, [bool; 5], Option<(u32, u32, u64)>);

fn any_turn() -> impl Strategy<Value = AnyTurn> {
    (
        one_of(Outcome::ALL),
        one_of(ErrorClass::ALL),
        proptest::option::of(0..20 * 24 * HOUR),
        any::<[bool; 5]>(),
        proptest::option::of((0..6u32, 0..9u32, 0..8 * 24 * HOUR)),
    )
}

proptest! {
    /// Each sentence of the rules, for any turn.
    #[test]
    fn the_rules_hold_for_every_turn(
        (outcome, class, retry_in, flags, before) in any_turn(),
        waits in any::<bool>(),
        continues in any::<bool>(),
        window in 1..10 * 24 * HOUR,
    ) {
        let now = Time(1_794_700_000_000);
        let [is_prompted, is_cancelled, has_unknown_tool, has_worked, agent_answers] = flags;
        let id = TurnId::from("t7");
        let before = before.map(|(failures, limits, ago)| Continuation {
            of: TurnId::from("t6"),
            because: Because::Limit,
            reason: ErrorClass::RateLimited,
            failures,
            limits,
            since: (limits > 0).then(|| Time(now.0 - ago)),
        });
        let retry_at = retry_in.map(|millis| now.plus_millis(millis));
        let failed = error(class, retry_at);
        let turn = EndedTurn {
            id: &id, outcome, error: Some(&failed), is_prompted, is_cancelled, has_unknown_tool, has_worked,
            agent_answers, continues: before.as_ref(),
        };
        let rules = Unattended {
            on_limit: if waits { OnLimit::Wait } else { OnLimit::Fail },
            on_failure: if continues { OnFailure::Continue } else { OnFailure::Fail },
            limit_window: window,
            ..Unattended::default()
        };
        let Some(Park { until, continuation }) = decide(&turn, &rules, now) else {
            // What the issue asks for is not left out.
            let begun = before.as_ref().filter(|it| it.limits > 0 && !has_worked).and_then(|it| it.since);
            let is_in_window = |at: Time| at <= begun.unwrap_or(now).plus_millis(window);
            let is_limit = waits && LIMITS.contains(&class) && retry_at.is_some_and(is_in_window)
                && is_in_window(now.plus_millis(300_000));
            let passes = PASSING.contains(&class) || (class == ErrorClass::AgentError && agent_answers);
            let may_fail = before.as_ref().is_none_or(|it| it.failures < MOST_FAILURES);
            let near = retry_at.is_none_or(|at| at <= now.plus_millis(window));
            let is_failure = continues && passes && may_fail && near;
            let ours = outcome == Outcome::Failed && is_prompted && !is_cancelled && !has_unknown_tool;
            prop_assert!(!(ours && (is_limit || is_failure)), "{turn:?}");
            return Ok(());
        };
        prop_assert!(outcome == Outcome::Failed && is_prompted && !is_cancelled && !has_unknown_tool);
        prop_assert!(until > now);
        prop_assert_eq!(&continuation.of, &id);
        prop_assert_eq!(continuation.reason, class);
        match continuation.because {
            Because::Limit => {
                prop_assert!(waits && LIMITS.contains(&class));
                prop_assert!(retry_at.is_some_and(|at| until >= at));
                let since = continuation.since.unwrap();
                prop_assert!(until <= since.plus_millis(window) && since <= now);
                prop_assert!(continuation.limits > 0);
            }
            Because::Failure => {
                prop_assert!(continues);
                prop_assert!(PASSING.contains(&class) || (class == ErrorClass::AgentError && agent_answers));
                prop_assert!((1..=MOST_FAILURES).contains(&continuation.failures));
            }
        }
    }

    /// A run of failures ends, whatever the classes and times are.
    #[test]
    fn a_row_of_turns_without_work_comes_to_an_end(
        ends in proptest::collection::vec((one_of(ErrorClass::ALL), proptest::option::of(0..HOUR)), 1..200),
    ) {
        let rules = Unattended { limit_window: 6 * HOUR, ..rules(OnLimit::Wait, OnFailure::Continue) };
        let (mut now, mut before) = (Time(1_794_700_000_000), None::<Continuation>);
        let begun = now;
        for (class, retry_in) in ends {
            let failed = error(class, retry_in.map(|millis| now.plus_millis(millis)));
            let id = TurnId::from("t1");
            let turn = EndedTurn {
                id: &id, outcome: Outcome::Failed, error: Some(&failed), is_prompted: true, is_cancelled: false,
                has_unknown_tool: false, has_worked: false, agent_answers: true, continues: before.as_ref(),
            };
            let Some(park) = decide(&turn, &rules, now) else { break };
            now = park.until;
            before = Some(park.continuation);
        }
        // Waits for limits are bounded by the window, and so are the pauses between them.
        prop_assert!(now <= begun.plus_millis(7 * HOUR + u64::from(MOST_FAILURES) * 2 * HOUR), "{now:?}");
    }

    #[test]
    fn any_session_with_these_rules_is_lawful(acts in some_acts(), wakes in proptest::collection::vec(0..3u8, 120)) {
        let mut session = patient();
        let mut wakes = wakes.into_iter().cycle();
        for one in acts {
            act(&mut session, one);
            if session.machine.can_continue() && wakes.next() == Some(0) {
                let outcome = Released::Due;
                let prompt = session.step(|machine, step| machine.continue_parked(outcome, By::Policy, step));
                if let Ok(accepted) = prompt {
                    session.machine = Machine::resume(&Fold::of(&session.log).into_state());
                    send(&mut session, &accepted.prompt);
                }
            }
        }
        session.assert_lawful(Tail::Live);
        let ended = session.step(|machine, step| machine.end_session("over".into(), step));
        prop_assert!(ended.is_ok());
        session.assert_lawful(Tail::Settled);
    }
}

#[test]
fn a_completed_turn_is_never_continued() {
    let mut session = patient();
    session.prompt("work");
    session.observe_all([busy(), message("m"), done("m")]);
    let ending = Ending::completed(StopReason::Refusal);
    session.observe(Signal::TurnDone { native_id: None, ending });
    assert_eq!(session.machine.parked(), None);
}
