//! A call as a session shows it: through the turn machine into the real log.
//!
//! A wait is the status `retrying` with its end. It survives a kill, until it is cancelled or over.

use crate::support::*;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use turnstream_fake_provider::{
    Asked, Chunk, Completion, CutBy, Fault, Identity, Part, Provider, Refusal, RetryAfter, Script, Step,
    WireFormat, render,
};
use turnstream_llm::Format;
use turnstream_llm::client::{CallEvent, CallOutcome, ModelCall, RunningCall, Timeouts, Translator};
use turnstream_llm::retry::Consumer::AttemptAware;
use turnstream_llm::wait::Clock;
use turnstream_log::{Appender, Attempts, Log, Options};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{By, Draft, ErrorClass, Outcome};
use turnstream_model::fold::{Activity, ItemStage, Retry, State};
use turnstream_model::id::{Counters, SessionId};
use turnstream_model::machine::{Cancel, Machine, Step as MachineStep};
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;
use turnstream_testkit::crash::{KillPoint, Program, role};
use turnstream_testkit::lawful::{Tail, assert_lawful};

const HOURS_15: u64 = 55_852;
const SESSION: &str = "ses_1";

/// A session as its keeper has it: a turn machine and an appender.
struct Keeper {
    log: Log,
    appender: Appender,
    machine: Machine,
    ids: Counters,
}

impl Keeper {
    /// A new session with a turn.
    async fn new(directory: &Path) -> Self {
        let log = Log::open(directory, &Options::default()).unwrap().log;
        let appender = log.create(&SESSION.into()).await.unwrap();
        let mut keeper = Self { log, appender, machine: Machine::new(), ids: Counters::default() };
        let session = SessionId::from(SESSION);
        let create = |machine: &mut Machine, step: &mut MachineStep<'_>| {
            machine.create(session, "builtin".into(), "/srv/work".into(), None, None, step)
        };
        keeper.step(create).await.unwrap();
        let content = vec![json!({"type": "text", "text": "Hi"})];
        let accepted = keeper.step(|machine, step| machine.accept(None, content, step)).await.unwrap();
        keeper.step(|machine, step| machine.send(&accepted.prompt, None, step)).await.unwrap();
        keeper.observe(Signal::TurnBegan { origin: None, prompts: Vec::new(), native_id: None }).await;
        keeper
    }

    /// Continues the session of another process.
    async fn resume(directory: &Path) -> Self {
        let log = Log::open(directory, &Options::default()).unwrap().log;
        let appender = log.claim(&SESSION.into()).await.unwrap();
        let state = log.snapshot(&SESSION.into()).unwrap().state;
        Self { appender, machine: Machine::resume(&state), ids: state.counters, log }
    }

    async fn step<T>(&mut self, act: impl FnOnce(&mut Machine, &mut MachineStep<'_>) -> T) -> T {
        let (mut drafts, mut needs): (Vec<Draft>, _) = (Vec::new(), Vec::new());
        let mut step = MachineStep { now: START, ids: &mut self.ids, drafts: &mut drafts, needs: &mut needs };
        let result = act(&mut self.machine, &mut step);
        if !drafts.is_empty() {
            self.appender.append(drafts, START).await.unwrap().await.unwrap();
        }
        result
    }

    async fn observe(&mut self, signal: Signal) {
        self.step(|machine, step| machine.observe(signal, step)).await;
    }

    /// Applies one event of a call, and makes its events durable.
    async fn show(&mut self, translator: &mut Translator, told: &CallEvent) {
        for signal in translator.signals(told) {
            self.observe(signal).await;
        }
        if let CallEvent::Ended { outcome: ending, .. } = told
            && let Some(ending) = ending.turn_ending()
        {
            self.observe(Signal::TurnDone { native_id: None, ending }).await;
        }
    }

    /// Applies all events of a call.
    async fn show_all(&mut self, call: &ModelCall, mut running: RunningCall) -> CallOutcome {
        let mut translator = Translator::new(call);
        let showing = async {
            while let Some(told) = running.next().await {
                self.show(&mut translator, &told).await;
                if let CallEvent::Ended { outcome: ending, .. } = told {
                    return *ending;
                }
            }
            panic!("it did not end");
        };
        tokio::time::timeout(Duration::from_secs(300), showing).await.unwrap()
    }

    fn state(&self) -> State {
        self.log.snapshot(&SESSION.into()).unwrap().state
    }

    fn retry(&self) -> Option<Retry> {
        self.state().session.retry
    }

    /// The whole log, after the law checker accepted it.
    fn lawful(&self, tail: Tail) -> Vec<String> {
        let events = self.log.read(&SESSION.into(), Seq(0), usize::MAX).unwrap();
        let lines: Vec<String> =
            events.iter().map(|event| serde_json::to_string(&event.event().unwrap()).unwrap()).collect();
        assert_lawful(lines.iter().map(String::as_str), tail);
        lines
    }
}

fn limited() -> Step {
    let refusal = Refusal::new(429, "rate_limit_error", "Slow down, please.");
    Step::new(refusal.retry_after(RetryAfter::Seconds(HOURS_15)))
}

fn has(lines: &[String], r#type: &str) -> usize {
    let member = format!("\"type\":\"{type}\"", r#type = r#type);
    lines.iter().filter(|line| line.contains(&member)).count()
}

// === kill ===

const CHILD: &str = "visible::a_child_that_asks";
const DIRECTORY: &str = "TURNSTREAM_TEST_DIRECTORY";
const PROVIDER: &str = "TURNSTREAM_TEST_PROVIDER";

/// The child: starts a call, shows the wait, and prints when that is durable.
#[tokio::test]
async fn a_child_that_asks() {
    if role().is_none() {
        return;
    }
    let directory = std::env::var(DIRECTORY).unwrap();
    let mut keeper = Keeper::new(Path::new(&directory)).await;
    let attempts = Attempts::open(Path::new(&directory)).unwrap();
    let client = client(attempts, Timeouts::default(), Arc::new(StoppedClock(START)));
    let call = call(&std::env::var(PROVIDER).unwrap(), Format::Chat, AttemptAware);
    let mut translator = Translator::new(&call);
    let mut running = client.start(call);
    while let Some(told) = running.next().await {
        keeper.show(&mut translator, &told).await;
        if let CallEvent::Retrying { until, .. } = told {
            println!("frame waits {}", until.0);
        }
    }
}

/// A session that was killed in a wait of 15 hours, and the end of the wait.
async fn killed_while_waiting(steps: impl IntoIterator<Item = Step>) -> (TempDir, Provider, Time) {
    let provider = Provider::start(Script::new(steps)).await.unwrap();
    let directory = TempDir::new().unwrap();
    let mut program = Program::this_test(CHILD, "ask")
        .unwrap()
        .env(DIRECTORY, directory.path())
        .env(PROVIDER, provider.base_url());
    let seen = program.run(&KillPoint::line("frame waits ", 1)).unwrap();
    let until = Time(seen.lines("frame waits ")[0].parse().unwrap());
    (directory, provider, until)
}

fn shown(until: Time) -> Option<Retry> {
    Some(Retry {
        attempt: Some(2),
        reason: Some(ErrorClass::RateLimited),
        until: Some(until),
        message: Some("Slow down, please.".to_owned()),
    })
}

fn client_at(directory: &Path, wall: Time) -> turnstream_llm::client::Client {
    let clock: Arc<dyn Clock> = Arc::new(StoppedClock(wall));
    client(Attempts::open(directory).unwrap(), Timeouts::default(), clock)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_wait_is_shown_with_its_end_over_a_kill_and_then_goes_on() {
    let (directory, provider, until) = killed_while_waiting([limited(), Step::text("At last.")]).await;
    let mut keeper = Keeper::resume(directory.path()).await;
    assert_eq!(keeper.state().session.status, Activity::Retrying);
    assert_eq!(keeper.retry(), shown(until));

    let client = client_at(directory.path(), until);
    let asked = call(&provider.base_url(), Format::Chat, AttemptAware);
    let (_, resumed) = client.resume_all(|_| Some(asked.clone())).await.unwrap().remove(0);
    assert!(matches!(keeper.show_all(&asked, resumed).await, CallOutcome::Complete(_)));
    let state = keeper.state();
    assert_eq!((state.session.status, keeper.retry()), (Activity::Idle, None));
    assert_eq!(state.turns[0].outcome, Some(Outcome::Completed));
    assert_eq!(state.items.iter().find_map(|item| item.text.as_deref()), Some("At last."));
    assert_eq!(state.turns[0].attempts.iter().map(|attempt| attempt.step).collect::<Vec<_>>(), [1, 1]);
    let lines = keeper.lawful(Tail::Settled);
    assert_eq!((has(&lines, "attempt.superseded"), provider.calls().len()), (1, 2));
    let retrying = lines.iter().filter(|line| line.contains("\"retrying\"")).count();
    assert_eq!(retrying, 1, "one wait is said once: {lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_in_between_shows_the_wait_again() {
    let (directory, _provider, until) = killed_while_waiting([limited()]).await;
    let mut keeper = Keeper::resume(directory.path()).await;
    keeper.step(|machine, step| machine.begin_recovery(step)).await;
    assert_eq!(keeper.state().session.status, Activity::Recovering);
    keeper.step(|machine, step| machine.end_recovery(step)).await;
    assert_eq!(keeper.retry(), shown(until));
    keeper.lawful(Tail::Live);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_wait_that_is_cancelled_after_a_kill_ends_its_turn() {
    let (directory, provider, until) = killed_while_waiting([limited(), Step::text("Never.")]).await;
    let mut keeper = Keeper::resume(directory.path()).await;
    let client = client_at(directory.path(), Time(until.0 - 3_600_000));
    let asked = call(&provider.base_url(), Format::Chat, AttemptAware);
    let (_, resumed) = client.resume_all(|_| Some(asked.clone())).await.unwrap().remove(0);
    assert_eq!(keeper.retry(), shown(until));
    keeper.step(|machine, step| machine.cancel(&Cancel::Any, By::Client, step)).await.unwrap();
    resumed.cancel();
    assert_eq!(keeper.show_all(&asked, resumed).await, CallOutcome::Cancelled);
    let state = keeper.state();
    assert_eq!((state.session.status, keeper.retry()), (Activity::Idle, None));
    assert_eq!(state.turns[0].outcome, Some(Outcome::Cancelled));
    keeper.lawful(Tail::Settled);
    assert_eq!(client.parked().await.unwrap(), Vec::new());
    assert_eq!(provider.calls().len(), 1);
}

// === other events ===

#[tokio::test]
async fn a_clock_that_is_set_during_a_wait_is_seen_in_the_session() {
    let hour = 3_600_000;
    let clock = Arc::new(HandClock::new([(hour, Happening::Jump(20 * hour as i64))]));
    let bench = bench_with([limited(), Step::text("At last.")], Timeouts::default(), clock).await;
    let directory = TempDir::new().unwrap();
    let mut keeper = Keeper::new(directory.path()).await;
    let asked = call(&bench.provider.base_url(), Format::Chat, AttemptAware);
    keeper.show_all(&asked, bench.client.start(asked.clone())).await;
    let lines = keeper.lawful(Tail::Settled);
    let untils: Vec<u64> = lines
        .iter()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["until"].as_u64())
        .collect();
    assert_eq!(untils.len(), 2);
    assert_eq!(untils[1] - untils[0], 20 * hour);
}

/// The events of an answer, for the first request.
fn events(format: WireFormat, step: &Step) -> Vec<String> {
    let asked = Asked { model: "m".to_owned(), stream: true, include_usage: true, ..Asked::default() };
    let identity = Identity { serial: 0, created: START.0 / 1000, asked };
    let chunks = render(format, step, &identity).unwrap().chunks.into_iter();
    let text = chunks.filter_map(|chunk| match chunk {
        Chunk::Write { bytes, .. } => Some(String::from_utf8(bytes).unwrap()),
        Chunk::Stall(_) => None,
    });
    text.collect()
}

#[tokio::test]
async fn what_a_broken_attempt_has_shown_is_void_in_the_session_also_what_was_whole() {
    let formats = [
        (Format::Chat, WireFormat::Chat),
        (Format::Responses, WireFormat::Responses),
        (Format::Messages, WireFormat::Messages),
    ];
    for (format, wire) in formats {
        let parts = [Part::reasoning("Hm."), Part::text("First."), Part::tool_call("edit", json!({"a": 1}))];
        let broken = Step::new(Completion::of(parts));
        // After the start of the call. In the responses format the message is complete by then.
        let events = events(wire, &broken);
        let began = events.iter().position(|event| event.contains("edit")).unwrap();
        let after = events[..=began].iter().map(String::len).sum();
        let whole = events[..=began].iter().any(|event| event.contains("response.output_item.done"));
        assert_eq!(whole, format == Format::Responses);
        let bench = bench([broken.fault(Fault::Cut { after, by: CutBy::Rst }), Step::text("Second.")]).await;
        let directory = TempDir::new().unwrap();
        let mut keeper = Keeper::new(directory.path()).await;
        let asked = call(&bench.provider.base_url(), format, AttemptAware);
        assert!(matches!(
            keeper.show_all(&asked, bench.client.start(asked.clone())).await,
            CallOutcome::Complete(_)
        ));
        let lines = keeper.lawful(Tail::Settled);
        let superseded = lines.iter().find(|line| line.contains("attempt.superseded")).unwrap();
        let superseded: serde_json::Value = serde_json::from_str(superseded).unwrap();
        assert_eq!(superseded["items"].as_array().unwrap().len(), 3, "{format:?}: {superseded}");
        let items: Vec<_> = keeper.state().items.into_iter().map(|item| (item.text, item.state)).collect();
        assert_eq!(items, [(Some("Second.".to_owned()), ItemStage::Completed)], "{format:?}");
    }
}

#[tokio::test]
async fn calls_stay_open_for_the_one_who_runs_them_and_the_turn_with_them() {
    for format in Format::ALL {
        let parts = [Part::text("I edit."), Part::tool_call("edit", json!({"path": "a.rs"}))];
        let bench = bench([Step::new(Completion::of(parts))]).await;
        let directory = TempDir::new().unwrap();
        let mut keeper = Keeper::new(directory.path()).await;
        let asked = call(&bench.provider.base_url(), format, AttemptAware);
        let ending = keeper.show_all(&asked, bench.client.start(asked.clone())).await;
        assert_eq!(ending.turn_ending(), None);
        keeper.lawful(Tail::Live);
        let state = keeper.state();
        assert_eq!((state.session.status, state.turns[0].outcome), (Activity::Busy, None));
        let CallOutcome::Complete(outcome) = ending else { panic!("{ending:?}") };
        let key = Translator::item_key(&"t1".into(), 1, outcome.runnable()[0].item);
        let item = state.items.iter().find(|item| item.native_id.as_deref() == Some(key.as_str())).unwrap();
        assert_eq!(item.state, ItemStage::Streaming);
        assert_eq!(item.tool.as_ref().unwrap().input, Some(json!({"path": "a.rs"})));
    }
}

#[tokio::test]
async fn a_failure_ends_the_turn_with_its_class() {
    let bench = bench([Step::new(Refusal::new(401, "authentication_error", "m"))]).await;
    let directory = TempDir::new().unwrap();
    let mut keeper = Keeper::new(directory.path()).await;
    let asked = call(&bench.provider.base_url(), Format::Messages, AttemptAware);
    keeper.show_all(&asked, bench.client.start(asked.clone())).await;
    keeper.lawful(Tail::Settled);
    let turn = &keeper.state().turns[0];
    assert_eq!(turn.outcome, Some(Outcome::Failed));
    assert_eq!(
        turn.error.as_ref().map(|error| (error.class, error.status)),
        Some((ErrorClass::Auth, Some(401)))
    );
}
