//! A cancel is durable, told to the agent once, and meant for one turn.

use crate::puppet::*;
use crate::support::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::Receiver;
use turnstream_agents::demo::{DemoAgent, DemoConfig};
use turnstream_agents::{Agent, Command, Connecting, Description, Link, Observed, Observer, Start};
use turnstream_gateway::{Gateway, OnTimeout, RequestError, ResolveApproval, Settings};
use turnstream_log::{Log, Options};
use turnstream_model::event::{ApprovalOutcome, By, ItemKind, Role};
use turnstream_model::id::{Key, SessionId, TurnId};
use turnstream_model::machine::Refusal;
use turnstream_model::signal::{Ending, ItemSeen, ProbedStatus, Signal};
use turnstream_testkit::crash::{KillPoint, Program, role};

const HOME: &str = "TURNSTREAM_GATEWAY_TEST_HOME";

/// An agent that outlives the gateway and never hears a cancel, as if the crash always came first.
struct Deaf(DemoAgent);

impl Agent for Deaf {
    fn describe(&self) -> Description {
        self.0.describe()
    }

    fn connect(&self, start: Start) -> Connecting<'_> {
        Box::pin(async move {
            let mut link = self.0.connect(start).await?;
            Ok(Link::spawn(|mut commands: Receiver<Command>, observer: Observer| async move {
                loop {
                    tokio::select! {
                        command = commands.recv() => match command {
                            Some(Command::Cancel) => {}
                            Some(command) => drop(link.tell(command).await),
                            None => return,
                        },
                        observed = link.observe() => match observed {
                            Some(observed) => drop(observer.observed(observed).await),
                            None => return,
                        },
                    }
                }
            }))
        })
    }

    fn outlives_gateway(&self) -> bool {
        true
    }
}

/// The child of the test below: a turn that stalls is cancelled, and the child killed when that is answered.
#[test]
fn child_that_cancels() {
    if role().as_deref() != Some("cancels") {
        return;
    }
    let home = PathBuf::from(std::env::var(HOME).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let config =
            DemoConfig { memory: Some(home.join("memory")), pace: Duration::ZERO, ..DemoConfig::default() };
        let deaf = Arc::new(Deaf(DemoAgent::new(config))) as Arc<dyn Agent>;
        let settings = Settings { roots: vec![home.join("work")], ..Settings::default() };
        let agents = BTreeMap::from([("lasting".to_owned(), deaf)]);
        let gateway = Gateway::open(&home.join("data"), settings, agents).await.unwrap();
        let id = id_of(&gateway.create(new_session_in(&home.join("work"), "lasting")).await.unwrap());
        prompt(&gateway, &id, json!([{"do": "text", "text": "half"}, {"do": "stall"}])).await;
        prompt(&gateway, &id, json!([{"do": "text", "text": "after"}])).await;
        until(&gateway, &id, "the text", |snapshot| said(snapshot) == ["half"]).await;
        let cancelled = gateway.cancel(&id, Cancel::Any).await.unwrap();
        println!("CANCELLED {}", cancelled.turn.unwrap());
        std::future::pending::<()>().await;
    });
}

#[test]
fn a_cancel_that_was_answered_reaches_the_agent_after_a_kill() {
    let home = Home::new();
    let program = Program::this_test("cancel::child_that_cancels", "cancels").unwrap();
    program.env(HOME, home.path("")).run(&KillPoint::line("CANCELLED t1", 1)).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let log = Log::open(&home.path("data"), &Options::default()).unwrap().log;
        let id: SessionId = log.sessions().unwrap().remove(0);
        let turn = log.snapshot(&id).unwrap().state.turns.remove(0);
        assert_eq!((turn.outcome, turn.cancelling), (None, Some(By::Client)));
        log.close().await;

        let gateway = home.open().await;
        let snapshot = settled(&gateway, &id, 2).await;
        assert_eq!(outcomes(&snapshot), ["cancelled", "completed end_turn"]);
        assert_eq!(said(&snapshot), ["half", "after"]);
        home.close(gateway).await;
    });
}

/// Plays a turn that never ends by itself, and counts what it is told.
async fn endless(
    start: Start,
    mut commands: Receiver<Command>,
    observer: Observer,
    go_on: Arc<Notify>,
    cancels: Arc<AtomicUsize>,
    obeys: bool,
) {
    if let Some(left) = start.open_work {
        go_on.notified().await;
        let turn = left.turn.unwrap();
        let _ = observer.signal(Signal::StatusProbed { turn, status: ProbedStatus::Busy }).await;
        let _ = observer.observed(Observed::CaughtUp).await;
    }
    while let Some(command) = commands.recv().await {
        match command {
            Command::Prompt { native_id, .. } => {
                began(&observer, "n1", &[&native_id]).await;
                says(&observer, "m1").await;
            }
            Command::Cancel => {
                cancels.fetch_add(1, Ordering::SeqCst);
                if obeys {
                    let ending = Ending::cancelled();
                    let done = Signal::TurnDone { native_id: Some("n1".to_owned()), ending };
                    let _ = observer.signal(done).await;
                }
            }
            _ => {}
        }
    }
}

async fn endless_gateway(home: &Home, obeys: bool) -> (Gateway, Arc<Notify>, Arc<AtomicUsize>) {
    let (go_on, cancels) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (gate, count) = (go_on.clone(), cancels.clone());
    let gateway = stage(home, true, move |start, commands, observer| {
        endless(start, commands, observer, gate.clone(), count.clone(), obeys)
    })
    .await;
    (gateway, go_on, cancels)
}

#[tokio::test(flavor = "multi_thread")]
async fn however_many_cancel_a_turn_it_is_said_and_told_once() {
    let mut home = Home::new();
    home.settings.cancel = Duration::from_secs(3);
    let (gateway, _, cancels) = endless_gateway(&home, false).await;
    let id = session(&gateway, &home, "puppet").await;
    prompt(&gateway, &id, json!([])).await;
    until(&gateway, &id, "the text", |snapshot| said(snapshot) == ["hello"]).await;
    let turn = TurnId::from("t1");
    let named = Cancel::Turn(turn);
    let both = tokio::join!(gateway.cancel(&id, Cancel::Any), gateway.cancel(&id, named.clone()));
    assert_eq!(both, (Ok(cancelled("t1")), Ok(cancelled("t1"))));
    assert_eq!(gateway.cancel(&id, named).await, Ok(cancelled("t1")));
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["cancelled"], "it did not stop and was stopped");
    assert_eq!(cancels.load(Ordering::SeqCst), 1);
    home.close(gateway).await;
    let said = lines(&home, &id).await;
    assert_eq!(said.iter().filter(|line| line.contains("turn.cancelling")).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_while_the_session_recovers_is_told_when_the_agent_has_been_asked() {
    let home = Home::new();
    let (gateway, _, cancels) = endless_gateway(&home, true).await;
    let id = session(&gateway, &home, "puppet").await;
    prompt(&gateway, &id, json!([])).await;
    until(&gateway, &id, "the text", |snapshot| said(snapshot) == ["hello"]).await;
    gateway.close().await;
    assert_eq!(cancels.load(Ordering::SeqCst), 0);

    let (gateway, go_on, cancels) = endless_gateway(&home, true).await;
    for _ in 0..2 {
        assert_eq!(gateway.cancel(&id, Cancel::Any).await, Ok(cancelled("t1")));
    }
    let snapshot = gateway.snapshot(&id).await.unwrap();
    assert_eq!(snapshot.state.turns[0].cancelling, Some(By::Client));
    assert_eq!(cancels.load(Ordering::SeqCst), 0, "it is being asked what it has");
    go_on.notify_one();
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["cancelled"]);
    assert_eq!(cancels.load(Ordering::SeqCst), 1);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_of_a_turn_that_has_just_ended_leaves_the_next_one_alone() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    for round in 1..=30_u32 {
        prompt(&gateway, &id, json!([{"do": "text", "text": "one"}])).await;
        prompt(&gateway, &id, json!([{"do": "text", "text": "two"}, {"do": "sleep", "ms": 5}])).await;
        let (first, second) = (2 * round - 1, 2 * round);
        let turn = TurnId::from(format!("t{first}"));
        until(&gateway, &id, "the first turn", |snapshot| snapshot.state.turns.len() >= first as usize).await;
        // Sometimes it is still open, sometimes it has just ended, sometimes the next one has begun.
        tokio::time::sleep(Duration::from_micros(u64::from(round) * 150)).await;
        let cancelled = gateway.cancel(&id, Cancel::Turn(turn.clone())).await;
        let snapshot = settled(&gateway, &id, second as usize).await;
        let ends = outcomes(&snapshot);
        assert_eq!(ends[second as usize - 1], "completed end_turn", "round {round}: {cancelled:?}");
        match cancelled {
            Ok(named) => assert_eq!(named.turn, Some(turn)),
            Err(RequestError::Refused(Refusal::TurnNotOpen { asked, .. })) => {
                assert_eq!((asked, ends[first as usize - 1].as_str()), (Some(turn), "completed end_turn"));
            }
            Err(error) => panic!("{error}"),
        }
    }
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_after_a_cancel_hears_that_the_turn_took_it_along() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "lasting").await;
    let effect = json!({"append": {"path": "runs", "text": "ran\n"}});
    prompt(&gateway, &id, json!([{"do": "tool", "ask": true, "effect": effect}])).await;
    let snapshot = until(&gateway, &id, "the ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
    let ask = snapshot.state.approvals[0].approval.clone();
    gateway.cancel(&id, Cancel::Any).await.unwrap();
    settled(&gateway, &id, 1).await;
    let refused = gateway.resolve(&id, &ask, allow()).await.unwrap_err();
    let outcome = ApprovalOutcome::Cancelled;
    assert_eq!(refused, Refusal::ApprovalSettled { approval: ask, outcome }.into());
    assert_eq!(home.lines_of("runs"), Vec::<String>::new());
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_stops_its_turn_is_durable_as_a_whole() {
    let home = Home::new();
    let play = |start: Start, mut commands: Receiver<Command>, observer: Observer| async move {
        let again = start.open_work.is_some();
        if let Some(left) = start.open_work {
            let turn = left.turn.unwrap();
            let _ = observer.signal(Signal::StatusProbed { turn, status: ProbedStatus::Busy }).await;
            let _ = observer.observed(Observed::CaughtUp).await;
        }
        while let Some(command) = commands.recv().await {
            match command {
                Command::Prompt { native_id, .. } => {
                    began(&observer, "n1", &[&native_id]).await;
                    let _ = observer.signal(ask("q")).await;
                }
                // What the first link is told gets lost with it.
                Command::Cancel if again => {
                    let ending = Ending::cancelled();
                    let _ = observer.signal(Signal::TurnDone { native_id: None, ending }).await;
                }
                _ => {}
            }
        }
    };
    let gateway = stage(&home, true, play).await;
    let id = session(&gateway, &home, "puppet").await;
    prompt(&gateway, &id, json!([])).await;
    let snapshot = until(&gateway, &id, "the ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
    let ask = snapshot.state.approvals[0].approval.clone();
    let stop = ResolveApproval { stop: true, ..answer(ApprovalOutcome::Reject) };
    gateway.resolve(&id, &ask, stop).await.unwrap();
    gateway.close().await;
    let gateway = stage(&home, true, play).await;
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["cancelled"]);
    home.close(gateway).await;
}

/// A turn with a tool; then another, in which the first one's subagent asks for something.
async fn a_background_ask(_: Start, mut commands: Receiver<Command>, observer: Observer) {
    let mut turns = 0;
    while let Some(command) = commands.recv().await {
        match command {
            Command::Prompt { native_id, .. } => {
                turns += 1;
                began(&observer, &native_id, &[&native_id]).await;
                if turns == 1 {
                    let tool = turnstream_model::event::Tool {
                        name: Some("task".to_owned()),
                        status: Some(turnstream_model::event::ToolStatus::Completed),
                        ..Default::default()
                    };
                    let _ = observer
                        .signal(Signal::ToolSeen { key: Key::from("tool"), parent: None, tool })
                        .await;
                    let _ = observer.signal(done(&native_id)).await;
                    continue;
                }
                let child = ItemSeen {
                    key: Key::from("child"),
                    parent: Some(Key::from("tool")),
                    kind: ItemKind::Message,
                    role: Some(Role::Assistant),
                    synthetic: false,
                };
                let _ = observer.signal(Signal::ItemSeen(child)).await;
                let item = Some(Key::from("child"));
                let ask = Signal::Ask { key: Key::from("q"), item, tool: None, options: Vec::new() };
                let _ = observer.signal(ask).await;
            }
            Command::Approve { .. } => {
                says(&observer, "m2").await;
                tokio::time::sleep(Duration::from_millis(200)).await;
                let _ = observer
                    .signal(Signal::TurnDone {
                        native_id: None,
                        ending: Ending::completed(turnstream_model::event::StopReason::EndTurn),
                    })
                    .await;
            }
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ask_of_the_background_that_nobody_answers_does_not_cancel_the_open_turn() {
    let mut home = Home::new();
    home.settings.approval = Some(Duration::from_millis(100));
    home.settings.on_timeout = OnTimeout::Cancel;
    let gateway = stage(&home, false, a_background_ask).await;
    let id = session(&gateway, &home, "puppet").await;
    prompt(&gateway, &id, json!([])).await;
    prompt(&gateway, &id, json!([])).await;
    let snapshot = settled(&gateway, &id, 2).await;
    let ask = &snapshot.state.approvals[0];
    assert_eq!((&ask.turn, ask.outcome), (&None, Some(ApprovalOutcome::Expired)));
    assert_eq!(outcomes(&snapshot), ["completed end_turn", "completed end_turn"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_stops_does_not_stop_a_turn_that_did_not_ask() {
    let home = Home::new();
    let gateway = stage(&home, false, a_background_ask).await;
    let id = session(&gateway, &home, "puppet").await;
    prompt(&gateway, &id, json!([])).await;
    prompt(&gateway, &id, json!([])).await;
    let snapshot = until(&gateway, &id, "the ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
    let ask = snapshot.state.approvals[0].approval.clone();
    let stop = ResolveApproval { stop: true, ..answer(ApprovalOutcome::Reject) };
    gateway.resolve(&id, &ask, stop).await.unwrap();
    let snapshot = settled(&gateway, &id, 2).await;
    assert_eq!(snapshot.state.turns[1].cancelling, None);
    assert_eq!(outcomes(&snapshot), ["completed end_turn", "completed end_turn"]);
    home.close(gateway).await;
}
