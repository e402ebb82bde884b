//! A disk that is full or fails, for a while and for good.

use crate::support::*;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use turnstream_gateway::{Change, Limits, RequestError, Settings};
use turnstream_testkit::crash::{KillPoint, Program, Seen, role};
use turnstream_testkit::disk::{FaultDisk, Faults};
use turnstream_testkit::lawful::Tail;

const HOME: &str = "TURNSTREAM_GATEWAY_TEST_HOME";

/// The child of the test below: a long turn, and prompts as they are refused and accepted while the disk is
/// full.
#[test]
fn child_on_a_full_disk() {
    if role().as_deref() != Some("full") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let home = PathBuf::from(std::env::var(HOME).unwrap());
        let settings = Settings { roots: vec![home.join("work")], ..Settings::default() };
        let gateway = open(&home, settings).await;
        let new = new_session_in(&home.join("work"), "scripted");
        let id = id_of(&gateway.create(new).await.unwrap());
        let steps = json!([{"do": "burst", "count": 2000, "bytes": 40, "per_second": 500}]);
        gateway.prompt(&id, script(steps)).await.unwrap();
        until(&gateway, &id, "some text", |snapshot| !said(snapshot).is_empty()).await;
        println!("TALKING");
        let mut watch = gateway.health();
        let deadline = std::time::Instant::now() + Duration::from_secs(300);
        let mut refused = 0;
        while std::time::Instant::now() < deadline {
            let health = gateway.health();
            if std::mem::discriminant(&health) != std::mem::discriminant(&watch) {
                println!("HEALTH {}", format!("{health:?}").split([' ', '{']).next().unwrap_or_default());
                watch = health;
            }
            if matches!(watch, turnstream_log::Health::Degraded { .. }) && refused == 0 {
                let error = gateway.prompt(&id, script(json!([]))).await.unwrap_err();
                assert!(matches!(error, RequestError::Degraded(_)), "{error}");
                refused = 1;
                println!("REFUSED {error}");
            }
            if refused == 1 && matches!(watch, turnstream_log::Health::Sound) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let snapshot = settled(&gateway, &id, 1).await;
        println!("TURN {} {}", outcomes(&snapshot)[0], said(&snapshot)[0].len());
        gateway.close().await;
    });
}

#[test]
fn a_full_disk_stops_nothing_for_good_and_loses_nothing() {
    break_and_heal(Faults::full());
}

#[test]
fn a_disk_that_fails_stops_nothing_for_good_and_loses_nothing() {
    break_and_heal(Faults::broken());
}

fn break_and_heal(faults: Faults) {
    let home = laid_out();
    let disk = FaultDisk::new(home.path().join("data")).unwrap();
    let mut program = child(home.path());
    disk.arm(program.command_mut()).unwrap();
    let mut running = program.start(&KillPoint::Exit).unwrap();
    running.wait_for(&KillPoint::line("TALKING", 1)).unwrap();
    disk.set(faults).unwrap();
    running.wait_for(&KillPoint::line("REFUSED", 1)).unwrap();
    disk.set(Faults::none()).unwrap();
    let seen = running.finish(&KillPoint::Exit).unwrap();
    assert_eq!(seen.lines("TURN "), ["completed end_turn 80000"], "{seen:?}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(judge(&home.path().join("data"), Tail::Settled));
}

fn child(home: &Path) -> Program {
    Program::this_test("faults::child_on_a_full_disk", "full").unwrap().env(HOME, home)
}

/// The child of the tests below: on a disk that fails for good it answers, or closes, and tells how long
/// that took.
#[test]
fn child_on_a_broken_disk() {
    let Some(role) = role().filter(|role| role.starts_with("broken-")) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let home = PathBuf::from(std::env::var(HOME).unwrap());
        let settings = Settings { roots: vec![home.join("work")], ..Settings::default() };
        let gateway = open(&home, settings).await;
        let new = new_session_in(&home.join("work"), "scripted");
        let id = id_of(&gateway.create(new.clone()).await.unwrap());
        let other = id_of(&gateway.create(new).await.unwrap());
        gateway.prompt(&other, script(json!([{"do": "tool", "ask": true}]))).await.unwrap();
        let waits = until(&gateway, &other, "the ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
        let steps = json!([{"do": "burst", "count": 20000, "bytes": 40, "per_second": 500}]);
        gateway.prompt(&id, script(steps)).await.unwrap();
        until(&gateway, &id, "some text", |snapshot| !said(snapshot).is_empty()).await;
        println!("TALKING");
        while !matches!(gateway.health(), turnstream_log::Health::Degraded { .. }) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        println!("DEGRADED");
        if role == "broken-asks" {
            let ask = waits.state.approvals[0].approval.clone();
            let began = std::time::Instant::now();
            let answered =
                tokio::time::timeout(Duration::from_secs(300), gateway.resolve(&other, &ask, allow())).await;
            println!("ANSWER {:?} after {:?}", answered, began.elapsed());
            let began = std::time::Instant::now();
            let answered =
                tokio::time::timeout(Duration::from_secs(300), gateway.cancel(&other, Cancel::Any)).await;
            println!("CANCEL {:?} after {:?}", answered, began.elapsed());
        } else {
            let began = std::time::Instant::now();
            gateway.close().await;
            println!("CLOSED {}", began.elapsed().as_millis());
        }
        std::process::exit(0);
    });
}

/// The file that tells a child that its disk is broken.
const BROKEN: &str = "broken";

/// The child of the test below: its keeper waits for the disk to keep an answer when a cancel comes.
#[test]
fn child_that_cancels_on_a_broken_disk() {
    if role().as_deref() != Some("stops") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let home = PathBuf::from(std::env::var(HOME).unwrap());
        let settings = Settings { roots: vec![home.join("work")], ..Settings::default() };
        let gateway = open(&home, settings).await;
        let id = id_of(&gateway.create(new_session_in(&home.join("work"), "lasting")).await.unwrap());
        let effect = json!({"append": {"path": "runs", "text": "ran\n"}});
        gateway.prompt(&id, script(json!([{"do": "tool", "ask": true, "effect": effect}]))).await.unwrap();
        let waits = until(&gateway, &id, "an ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
        let ask = waits.state.approvals[0].approval.clone();
        println!("TALKING");
        while !home.join(BROKEN).exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The agent is told of the answer when that is durable, and the keeper waits for it.
        let (answering, session) = (gateway.clone(), id.clone());
        tokio::spawn(async move { answering.resolve(&session, &ask, allow()).await });
        while !matches!(gateway.health(), turnstream_log::Health::Degraded { .. }) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let wrong = within(gateway.cancel(&id, Cancel::Turn("t7".into()))).await.unwrap_err();
        assert!(matches!(wrong, RequestError::Refused(_)), "{wrong}");
        for _ in 0..3 {
            let told = within(gateway.cancel(&id, Cancel::Any)).await.unwrap_err();
            assert!(matches!(told, RequestError::StopNotDurableYet(_)), "{told}");
        }
        // The agent's own memory is on another disk.
        let memory = home.join("memory").join(format!("{id}.jsonl"));
        within(async {
            while !std::fs::read_to_string(&memory).unwrap().contains(r#""end":"cancelled""#) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        assert!(matches!(gateway.health(), turnstream_log::Health::Degraded { .. }));
        println!("TOLD");
        let snapshot = settled(&gateway, &id, 1).await;
        println!("TURN {} {:?}", outcomes(&snapshot)[0], snapshot.state.turns[0].cancelling);
        gateway.close().await;
    });
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(300), work).await.expect("an answer")
}

#[test]
fn a_cancel_on_a_broken_disk_stops_the_agent_and_is_kept_when_the_disk_is_back() {
    let home = laid_out();
    let disk = FaultDisk::new(home.path().join("data")).unwrap();
    let mut program = Program::this_test("faults::child_that_cancels_on_a_broken_disk", "stops").unwrap();
    program = program.env(HOME, home.path());
    disk.arm(program.command_mut()).unwrap();
    let mut running = program.start(&KillPoint::Exit).unwrap();
    running.wait_for(&KillPoint::line("TALKING", 1)).unwrap();
    disk.set(Faults::broken()).unwrap();
    std::fs::write(home.path().join(BROKEN), "").unwrap();
    running.wait_for(&KillPoint::line("TOLD", 1)).unwrap();
    disk.set(Faults::none()).unwrap();
    let seen = running.finish(&KillPoint::Exit).unwrap();
    assert_eq!(seen.lines("TURN "), ["cancelled Some(Client)"], "{seen:?}");
    assert!(!home.path().join("work/runs").exists(), "it was told to stop before it was told to run");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(judge(&home.path().join("data"), Tail::Settled));
}

/// The child of the test below: several clients that never stop asking.
#[test]
fn child_with_busy_clients() {
    if role().as_deref() != Some("busy") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let home = PathBuf::from(std::env::var(HOME).unwrap());
        // Four clients fill the queue sooner than it is worked off.
        let limits = Limits { queued_prompts: 20, ..Limits::default() };
        let settings = Settings { roots: vec![home.join("work")], limits, ..Settings::default() };
        let gateway = open(&home, settings).await;
        let new = new_session_in(&home.join("work"), "scripted");
        let id = id_of(&gateway.create(new.clone()).await.unwrap());
        let mut clients = tokio::task::JoinSet::new();
        for client in 0..8_u32 {
            let (gateway, id, new) = (gateway.clone(), id.clone(), new.clone());
            clients.spawn(async move {
                for number in 0.. {
                    let asked = async {
                        match client {
                            0 => gateway.cancel(&id, Cancel::Any).await.map(drop),
                            1 => gateway.withdraw(&id, &format!("p{number}").into()).await,
                            2 => gateway.create(new.clone()).await.map(drop),
                            3 => {
                                let title = Some(format!("title {number}"));
                                gateway.change(&id, Change { title, ..Change::default() }).await.map(drop)
                            }
                            _ => {
                                let key = format!("c{client}n{number}");
                                let steps = json!([{"do": "text", "text": "x"}, {"do": "sleep", "ms": 1}]);
                                gateway.prompt(&id, keyed(&key, steps)).await.map(drop)
                            }
                        }
                    };
                    match tokio::time::timeout(Duration::from_secs(300), asked).await {
                        Ok(Err(RequestError::Degraded(_))) => return "degraded",
                        Ok(Err(RequestError::NotDurableYet(_) | RequestError::StopNotDurableYet(_))) => {
                            return "taken";
                        }
                        // There is no turn to cancel, disk or not.
                        Ok(Err(RequestError::Refused(_)))
                            if !matches!(gateway.health(), turnstream_log::Health::Sound) =>
                        {
                            return "refused";
                        }
                        Ok(Ok(()) | Err(RequestError::Refused(_) | RequestError::QueueFull { .. })) => {}
                        Ok(Err(error)) => panic!("client {client}: {error}"),
                        Err(_) => panic!("client {client} was not answered"),
                    }
                }
                unreachable!()
            });
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        println!("TALKING");
        while let Some(client) = clients.join_next().await {
            println!("CLIENT {}", client.unwrap());
        }
        println!("ANSWERED");
        // Whatever was taken comes to its end.
        until(&gateway, &id, "the end of the queue", |snapshot| {
            snapshot.state.queue.is_empty() && snapshot.state.turns.iter().all(|turn| turn.outcome.is_some())
        })
        .await;
        gateway.close().await;
    });
}

#[test]
fn everyone_who_asks_while_the_disk_begins_to_fail_is_answered() {
    let home = laid_out();
    let disk = FaultDisk::new(home.path().join("data")).unwrap();
    let mut program = Program::this_test("faults::child_with_busy_clients", "busy").unwrap();
    program = program.env(HOME, home.path());
    disk.arm(program.command_mut()).unwrap();
    let mut running = program.start(&KillPoint::Exit).unwrap();
    running.wait_for(&KillPoint::line("TALKING", 1)).unwrap();
    disk.set(Faults::broken()).unwrap();
    running.wait_for(&KillPoint::line("ANSWERED", 1)).unwrap();
    disk.set(Faults::none()).unwrap();
    let seen = running.finish(&KillPoint::Exit).unwrap();
    assert_eq!(seen.lines("CLIENT ").len(), 8, "{seen:?}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(judge(&home.path().join("data"), Tail::Settled));
}

fn on_a_broken_disk(role: &str) -> Seen {
    let home = laid_out();
    let disk = FaultDisk::new(home.path().join("data")).unwrap();
    let mut program =
        Program::this_test("faults::child_on_a_broken_disk", role).unwrap().env(HOME, home.path());
    disk.arm(program.command_mut()).unwrap();
    let mut running = program.start(&KillPoint::Exit).unwrap();
    running.wait_for(&KillPoint::line("TALKING", 1)).unwrap();
    disk.set(Faults::broken()).unwrap();
    running.finish(&KillPoint::Exit).unwrap()
}

#[test]
fn a_close_on_a_broken_disk_ends_by_its_deadlines() {
    let seen = on_a_broken_disk("broken-close");
    let took: u64 = seen.lines("CLOSED ")[0].parse().unwrap();
    assert!(Duration::from_millis(took) < CLOSED, "{took} ms");
}

#[test]
fn an_answer_on_a_broken_disk_is_refused_like_a_prompt() {
    let seen = on_a_broken_disk("broken-asks");
    let (answer, cancel) = (seen.lines("ANSWER "), seen.lines("CANCEL "));
    assert!(!answer[0].contains("Elapsed") && !cancel[0].contains("Elapsed"), "{answer:?} {cancel:?}");
}
