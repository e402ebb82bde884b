//! Unattended runs: a failed turn is continued by the rules of the session, once, over restarts, kills and
//! clocks that jump.

use crate::support::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use turnstream_gateway::{
    BudgetChange, CapsChange, Change, FakeClock, Gateway, NewSession, RequestError, Settings,
    UnattendedChange,
};
use turnstream_model::event::{Because, ErrorClass, OnFailure, OnLimit, Unattended};
use turnstream_model::fold::{Activity, ItemStage, PromptStage, Snapshot};
use turnstream_model::id::SessionId;
use turnstream_model::machine::Refusal;
use turnstream_testkit::crash::{CrashError, KillPoint, Program, role};
use turnstream_testkit::lawful::Tail;

const HOUR: Duration = Duration::from_secs(3_600);

/// A continuation that leaves a line in a file, so that a second one is seen.
fn leaves_a_line() -> String {
    let effect = json!({"append": {"path": "runs", "text": "continued\n"}});
    json!({"script": [{"do": "tool", "effect": effect}, {"do": "text", "text": "done"}]}).to_string()
}

fn waits() -> UnattendedChange {
    UnattendedChange {
        on_limit: Some(OnLimit::Wait),
        continue_with: Some(leaves_a_line()),
        ..UnattendedChange::default()
    }
}

fn continues() -> UnattendedChange {
    UnattendedChange { on_limit: None, on_failure: Some(OnFailure::Continue), ..waits() }
}

async fn with_rules(gateway: &Gateway, home: &Home, agent: &str, unattended: UnattendedChange) -> SessionId {
    let new = NewSession { unattended, ..new_session(home, agent) };
    id_of(&gateway.create(new).await.unwrap())
}

fn limit(millis: u128) -> Value {
    let millis = u64::try_from(millis).unwrap();
    json!([{"do": "text", "text": "half"},
           {"do": "fail", "class": "rate_limited", "message": "later", "retry_in_ms": millis}])
}

fn failure(class: ErrorClass) -> Value {
    json!([{"do": "text", "text": "half"}, {"do": "fail", "class": class, "message": "broken"}])
}

fn is_parked(snapshot: &Snapshot) -> bool {
    let unattended = snapshot.state.session.unattended.as_ref();
    unattended.is_some_and(|unattended| unattended.parked.is_some())
}

async fn parked(gateway: &Gateway, id: &SessionId) -> Snapshot {
    let snapshot = until(gateway, id, "the wait", is_parked).await;
    assert_eq!(snapshot.state.session.status, Activity::Retrying);
    snapshot
}

/// Makes the keeper read its clocks, and returns when it has done what they say.
async fn look_at_the_clock(gateway: &Gateway, id: &SessionId) {
    for title in ["one look", "another look"] {
        let change = Change { title: Some(title.to_owned()), ..Change::default() };
        gateway.change(id, change).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_waited_for_and_its_turn_is_continued_once() {
    let home = Home::new();
    let gateway = home.open().await;
    for agent in ["scripted", "lasting"] {
        let id = with_rules(&gateway, &home, agent, waits()).await;
        prompt(&gateway, &id, limit(100)).await;
        let snapshot = settled(&gateway, &id, 2).await;
        assert_eq!(outcomes(&snapshot), ["failed rate_limited", "completed end_turn"]);
        let [first, second] = &snapshot.state.turns[..] else { panic!("{snapshot:#?}") };
        let continuation = second.continues.as_ref().unwrap();
        assert_eq!((&continuation.of, continuation.because), (&first.turn, Because::Limit));
        assert_eq!(snapshot.state.prompts[1].continues.as_ref(), Some(continuation));
        let waited = second.started.0 - first.ended.unwrap().0;
        assert!(waited >= 1_000, "a time that is almost over is not asked for at once: {waited} ms");
    }
    assert_eq!(home.lines_of("runs"), ["continued"; 2]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_default_and_without_a_time_nothing_is_continued() {
    let home = Home::new();
    let gateway = home.open().await;
    let without_time = failure(ErrorClass::RateLimited);
    for (rules, script) in [(UnattendedChange::default(), limit(100)), (waits(), without_time)] {
        let id = with_rules(&gateway, &home, "scripted", rules).await;
        prompt(&gateway, &id, script).await;
        let snapshot = settled(&gateway, &id, 1).await;
        assert_eq!(outcomes(&snapshot), ["failed rate_limited"]);
        assert!(!is_parked(&snapshot));
    }
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_classes_of_the_rules_are_continued_and_no_others() {
    let home = Home::new();
    let gateway = home.open().await;
    let passing = [
        ErrorClass::StreamCorrupt,
        ErrorClass::StreamSpliced,
        ErrorClass::Incomplete,
        ErrorClass::TransportLost,
        ErrorClass::Overloaded,
        ErrorClass::ProviderError,
        ErrorClass::AgentError,
    ];
    let id = with_rules(&gateway, &home, "scripted", continues()).await;
    let mut turns = 0;
    for class in ErrorClass::ALL.iter().filter(|class| **class != ErrorClass::Cancelled) {
        turns += 1;
        prompt(&gateway, &id, failure(*class)).await;
        if passing.contains(class) {
            let snapshot = parked(&gateway, &id).await;
            assert_eq!(snapshot.state.session.retry.unwrap().reason, Some(*class));
            let cancelled = gateway.cancel(&id, Cancel::Any).await.unwrap();
            assert_eq!(cancelled.parked.as_ref(), snapshot.state.turns.last().map(|turn| &turn.turn));
        }
        let snapshot = settled(&gateway, &id, turns).await;
        assert_eq!(outcomes(&snapshot).pop(), Some(format!("failed {class}")));
        assert!(!is_parked(&snapshot), "{class}");
    }
    assert!(home.lines_of("runs").is_empty());
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_continued_at_most_three_times() {
    let home = Home::new();
    let gateway = home.open().await;
    let again = json!({"script": failure(ErrorClass::StreamCorrupt)}).to_string();
    let rules = UnattendedChange { continue_with: Some(again), ..continues() };
    let id = with_rules(&gateway, &home, "scripted", rules).await;
    prompt(&gateway, &id, failure(ErrorClass::StreamCorrupt)).await;
    for number in 1..=3 {
        let snapshot = until(&gateway, &id, "the wait", |snapshot| {
            is_parked(snapshot) && snapshot.state.turns.len() == number
        })
        .await;
        let retry = snapshot.state.session.retry.unwrap();
        assert_eq!(retry.attempt, u32::try_from(number).ok());
        // The pauses grow; nobody waits for them here.
        gateway.wake_parked(&id).await.unwrap();
    }
    let snapshot = settled(&gateway, &id, 4).await;
    assert_eq!(outcomes(&snapshot), ["failed stream_corrupt"; 4]);
    assert_eq!(gateway.wake_parked(&id).await, Err(Refusal::NotParked.into()));
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_turn_is_not_continued() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = with_rules(&gateway, &home, "scripted", continues()).await;
    prompt(&gateway, &id, json!([{"do": "text", "text": "half"}, {"do": "stall"}])).await;
    until(&gateway, &id, "the turn", |snapshot| snapshot.state.open_turn().is_some()).await;
    gateway.cancel(&id, Cancel::Any).await.unwrap();
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["cancelled"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_survives_restarts_and_the_continuation_goes_before_the_queue() {
    let mut home = Home::new();
    let clock = FakeClock::new();
    home.settings.clock = clock.clone().into();
    let gateway = home.open().await;
    let id = with_rules(&gateway, &home, "lasting", waits()).await;
    prompt(
        &gateway,
        &id,
        json!([{"do": "sleep", "ms": 300},
        {"do": "fail", "class": "quota_exhausted", "message": "later", "retry_in_ms": 18_000_000}]),
    )
    .await;
    let later = prompt(&gateway, &id, json!([{"do": "text", "text": "later"}])).await;
    let before = parked(&gateway, &id).await;
    home.close(gateway).await;

    clock.pass(HOUR * 2);
    let gateway = home.open().await;
    assert_eq!(gateway.session(&id).unwrap().session.status, Activity::Retrying, "it is never shown as idle");
    look_at_the_clock(&gateway, &id).await;
    let snapshot = parked(&gateway, &id).await;
    assert_eq!(snapshot.state.session.retry, before.state.session.retry);
    assert_eq!(snapshot.state.queue[0].state, PromptStage::Waiting, "the queue waits too");
    home.close(gateway).await;

    clock.pass(HOUR * 3 + Duration::from_secs(1));
    let gateway = home.open().await;
    let snapshot = settled(&gateway, &id, 3).await;
    assert_eq!(outcomes(&snapshot), ["failed quota_exhausted", "completed end_turn", "completed end_turn"]);
    assert_eq!(snapshot.state.turns[2].prompts, [later]);
    assert_eq!(home.lines_of("runs"), ["continued"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wall_clock_that_jumps_does_not_end_a_wait_and_time_that_passes_does() {
    let mut home = Home::new();
    let clock = FakeClock::new();
    home.settings.clock = clock.clone().into();
    let gateway = home.open().await;
    let id = with_rules(&gateway, &home, "scripted", waits()).await;
    prompt(&gateway, &id, limit((HOUR * 5).as_millis())).await;
    parked(&gateway, &id).await;
    clock.jump(HOUR * 24 * 200);
    look_at_the_clock(&gateway, &id).await;
    assert!(is_parked(&gateway.snapshot(&id).await.unwrap()));
    clock.pass(HOUR * 5 + Duration::from_secs(1));
    look_at_the_clock(&gateway, &id).await;
    let snapshot = settled(&gateway, &id, 2).await;
    assert_eq!(outcomes(&snapshot), ["failed rate_limited", "completed end_turn"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_beyond_the_window_and_a_session_at_its_cap_fail() {
    let home = Home::new();
    let gateway = home.open().await;
    let window = UnattendedChange { limit_window: Some(60_000), ..waits() };
    let id = with_rules(&gateway, &home, "scripted", window).await;
    prompt(&gateway, &id, limit(61_000)).await;
    let snapshot = settled(&gateway, &id, 1).await;
    assert!(!is_parked(&snapshot));

    let session = CapsChange { steps: Some(Some(1)), ..CapsChange::default() };
    let budget = BudgetChange { session, ..BudgetChange::default() };
    let new = NewSession { unattended: waits(), budget, ..new_session(&home, "scripted") };
    let id = id_of(&gateway.create(new).await.unwrap());
    let fail = json!({"do": "fail", "class": "rate_limited", "message": "later", "retry_in_ms": 5_000});
    prompt(&gateway, &id, json!([{"do": "attempt"}, fail])).await;
    let snapshot = settled(&gateway, &id, 1).await;
    assert!(!is_parked(&snapshot), "{snapshot:#?}");
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_of_a_client_and_other_rules_end_a_wait() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = with_rules(&gateway, &home, "scripted", waits()).await;
    prompt(&gateway, &id, limit(HOUR.as_millis())).await;
    parked(&gateway, &id).await;
    prompt(&gateway, &id, json!([{"do": "text", "text": "instead"}])).await;
    let snapshot = settled(&gateway, &id, 2).await;
    assert_eq!(said(&snapshot).pop().as_deref(), Some("instead"));
    prompt(&gateway, &id, limit(HOUR.as_millis())).await;
    parked(&gateway, &id).await;
    let unattended = UnattendedChange { on_limit: Some(OnLimit::Fail), ..UnattendedChange::default() };
    let change = Change { unattended, ..Change::default() };
    let changed = gateway.change(&id, change).await.unwrap();
    assert_eq!(changed.session.unattended.unwrap().rules.on_limit, OnLimit::Fail);
    let snapshot = settled(&gateway, &id, 3).await;
    assert!(!is_parked(&snapshot));
    assert!(home.lines_of("runs").is_empty());
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_come_from_the_configuration_of_the_agent_and_from_requests() {
    let mut home = Home::new();
    let configured =
        Unattended { on_limit: OnLimit::Wait, limit_window: HOUR_MILLIS, ..Unattended::default() };
    home.settings.unattended.insert("scripted".to_owned(), configured.clone());
    let gateway = home.open().await;
    let rules = |id: &SessionId| gateway.session(id).unwrap().session.unattended.map(|it| it.rules);
    let plain = session(&gateway, &home, "scripted").await;
    assert_eq!(rules(&plain), Some(configured.clone()));
    let unattended = UnattendedChange { limit_window: Some(5), ..UnattendedChange::default() };
    let chosen = with_rules(&gateway, &home, "scripted", unattended).await;
    assert_eq!(rules(&chosen), Some(Unattended { limit_window: 5, ..configured }));
    assert_eq!(rules(&session(&gateway, &home, "lasting").await), None);
    let bad = UnattendedChange { limit_window: Some(0), ..UnattendedChange::default() };
    let refused = gateway.create(NewSession { unattended: bad, ..new_session(&home, "scripted") }).await;
    assert!(matches!(refused, Err(RequestError::BadUnattended { member: "limit_window", .. })));
    home.close(gateway).await;
}

const HOUR_MILLIS: u64 = 3_600_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_session_releases_its_agent_and_is_not_removed_as_quiet() {
    let mut home = Home::new();
    home.settings.idle = Duration::from_millis(200);
    let gateway = home.open().await;
    let id = with_rules(&gateway, &home, "scripted", waits()).await;
    prompt(&gateway, &id, limit(HOUR.as_millis())).await;
    parked(&gateway, &id).await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(120);
    while gateway.live_agents().live > 0 {
        assert!(tokio::time::Instant::now() < deadline, "the link stays up");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    gateway.wake_parked(&id).await.unwrap();
    let snapshot = settled(&gateway, &id, 2).await;
    assert_eq!(outcomes(&snapshot), ["failed rate_limited", "completed end_turn"]);
    home.close(gateway).await;
}

// === kills ===

const HOME: &str = "TURNSTREAM_GATEWAY_TEST_HOME";
const AGENT: &str = "TURNSTREAM_GATEWAY_TEST_AGENT";

/// Steps between the end of the turn and the end of its continuation.
const POINTS: [(&str, u64); 8] = [
    ("keeper.append", 4),
    ("keeper.append", 7),
    ("log.before_sync", 5),
    ("log.after_sync", 6),
    ("log.published", 7),
    ("keeper.durable", 2),
    ("keeper.told", 2),
    ("keeper.continued", 1),
];

fn settings(home: &Path) -> Settings {
    Settings { roots: vec![home.join("work")], ..Settings::default() }
}

async fn the_session(gateway: &Gateway, home: &Path, agent: &str) -> SessionId {
    let key = Some("the one".to_owned());
    let new = NewSession { key, unattended: waits(), ..new_session_in(&home.join("work"), agent) };
    id_of(&gateway.create(new).await.unwrap())
}

/// The child of the test below: a turn that reaches a limit, and its continuation.
#[test]
fn child_that_waits() {
    if role().as_deref() != Some("waits") {
        return;
    }
    let home = PathBuf::from(std::env::var(HOME).unwrap());
    let agent = std::env::var(AGENT).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let gateway = open(&home, settings(&home)).await;
        let id = the_session(&gateway, &home, &agent).await;
        loop {
            match gateway.prompt(&id, keyed("work", limit(300))).await {
                Ok(_) => break,
                Err(RequestError::Recovering(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
                Err(error) => panic!("{error}"),
            }
        }
        settled(&gateway, &id, 1).await;
        println!("DONE");
        // Without a close, as a kill: what is not on disk by now is lost.
        std::process::exit(0);
    });
}

#[test]
fn a_turn_is_continued_once_whenever_the_gateway_is_killed() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let rounds = if is_full() { 12 } else { 1 };
    for (agent, (point, times)) in
        ["lasting", "scripted"].iter().flat_map(|agent| POINTS.map(|at| (agent, at)))
    {
        for more in 0..rounds {
            let home = killed_at(agent, point, times + more);
            child(home.path(), agent).run(&KillPoint::line("DONE", 1)).unwrap();
            runtime.block_on(judge_continuation(home.path(), agent, point));
        }
    }
}

fn child(home: &Path, agent: &str) -> Program {
    let program = Program::this_test("unattended::child_that_waits", "waits").unwrap();
    program.env(HOME, home).env(AGENT, agent)
}

/// The home of a child that was killed when it was at `point` for that many times.
///
/// A busy machine commits several events at once, and reaches a place less often. If the child is done
/// before, the last time it was there is tried instead.
fn killed_at(agent: &str, point: &str, times: u64) -> tempfile::TempDir {
    for times in (1..=times).rev() {
        let home = laid_out();
        match child(home.path(), agent).run(&KillPoint::failpoint(point, times)) {
            Ok(_) => return home,
            Err(CrashError::EndedEarly { seen, .. }) if !seen.lines("DONE").is_empty() => {}
            Err(error) => panic!("{agent}, {point} {times}: {error}"),
        }
    }
    panic!("{agent} is never at {point}")
}

/// The turn was continued once, or it was lost with its agent and not continued. Nothing ran twice.
async fn judge_continuation(home: &Path, agent: &str, point: &str) {
    let gateway = open(home, settings(home)).await;
    let id = the_session(&gateway, home, agent).await;
    let snapshot = settled(&gateway, &id, 1).await;
    gateway.close().await;
    judge(&home.join("data"), Tail::Settled).await;
    let outcomes = outcomes(&snapshot);
    let continued = snapshot.state.prompts.iter().filter(|prompt| prompt.continues.is_some()).count();
    let runs = std::fs::read_to_string(home.join("work/runs")).unwrap_or_default().lines().count();
    let told = format!("{agent} killed at {point}: {outcomes:?}, {continued} continued, {runs} ran");
    if agent == "lasting" || outcomes[0].starts_with("failed") {
        assert_eq!(outcomes[0], "failed rate_limited", "{told}");
        assert_eq!((continued, outcomes.len()), (1, 2), "{told}");
    } else {
        assert_eq!((continued, outcomes.len()), (0, 1), "{told}");
    }
    assert!(runs <= 1, "{told}");
    if agent == "lasting" {
        assert_eq!(outcomes[1], "completed end_turn", "{told}");
        // A tool that had begun when the gateway was killed is not run again (L12).
        let unknown = snapshot.state.items.iter().filter(|item| item.state == ItemStage::Unknown).count();
        assert!(runs == 1 || unknown == 1, "{told}, {unknown} unknown");
    }
}
