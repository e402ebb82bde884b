//! What clients and agents see while the disk fails, and when it works again. Each scene is played by a
//! child process whose disk its parent breaks and mends.

mod keys;
mod stops;
mod times;

use crate::puppet::{Puppet, ask, began, done, open_with, says};
use crate::support::*;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use turnstream_agents::{Command, Observer, Start};
use turnstream_gateway::{Gateway, Settings};
use turnstream_log::Health;
use turnstream_model::id::{ApprovalId, SessionId};
use turnstream_model::signal::{Ending, Signal};
use turnstream_testkit::crash::{KillPoint, Program, Seen, role};
use turnstream_testkit::disk::{FaultDisk, Faults};

const HOME: &str = "TURNSTREAM_GATEWAY_TEST_HOME";

/// The child of all tests here.
#[test]
fn child_whose_disk_fails() {
    let Some(role) = role().filter(|role| role.starts_with("outage-")) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let home = PathBuf::from(std::env::var(HOME).unwrap());
    runtime.block_on(async {
        match role.as_str() {
            "outage-key" => keys::repeats_a_key(&home).await,
            "outage-answer" => keys::repeats_an_answer(&home).await,
            "outage-asleep" => keys::repeats_what_is_long_done(&home).await,
            "outage-stop" => stops::cancels_behind_an_answer_that_stops(&home).await,
            "outage-recovers" => stops::cancels_while_it_recovers(&home).await,
            "outage-delete" => stops::deletes_and_cancels(&home).await,
            "outage-close" => stops::closes(&home).await,
            "outage-start" => times::prompts_on_a_broken_disk(&home).await,
            "outage-obeys" => times::cancels_an_agent_that_obeys(&home).await,
            "outage-person" => times::asks_a_person(&home).await,
            other => panic!("{other}"),
        }
        std::process::exit(0);
    });
}

/// Plays a scene, breaks its disk when it says so, and mends it.
fn watched(role: &str) -> Seen {
    let home = laid_out();
    let disk = FaultDisk::new(home.path().join("data")).unwrap();
    let child = "outage::child_whose_disk_fails";
    let mut program = Program::this_test(child, role).unwrap().env(HOME, home.path());
    disk.arm(program.command_mut()).unwrap();
    let mut running = program.start(&KillPoint::Exit).unwrap();
    running.wait_for(&KillPoint::line("BREAK", 1)).unwrap();
    disk.set(Faults::broken()).unwrap();
    std::fs::write(home.path().join("broken"), "").unwrap();
    if role != "outage-close" {
        running.wait_for(&KillPoint::line("MEND", 1)).unwrap();
        disk.set(Faults::none()).unwrap();
    }
    running.finish(&KillPoint::Exit).unwrap()
}

/// Has the parent break the disk.
async fn broken(home: &Path) {
    println!("BREAK");
    while !home.join("broken").exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Has the parent mend it, and waits until it works.
async fn mended(gateway: &Gateway) {
    assert!(matches!(gateway.health(), Health::Degraded { .. }));
    println!("MEND");
    while gateway.health() != Health::Sound {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A gateway with an agent that is played, and a session of it.
async fn stage<F>(
    home: &Path,
    settings: Settings,
    play: impl Fn(Start, Receiver<Command>, Observer) -> F + Send + Sync + 'static,
) -> (Gateway, SessionId)
where
    F: Future<Output = ()> + Send + 'static,
{
    let gateway = open_with(home, settings, Puppet::new(play)).await;
    let id = id_of(&gateway.create(new_session_in(&home.join("work"), "puppet")).await.unwrap());
    (gateway, id)
}

async fn asked(gateway: &Gateway, id: &SessionId) -> ApprovalId {
    let snapshot = until(gateway, id, "the ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
    snapshot.state.approvals[0].approval.clone()
}

/// Begins a turn and asks; counts how often it is told to stop, and stops then with a last word.
async fn asks(mut commands: Receiver<Command>, observer: Observer, cancels: Arc<AtomicUsize>) {
    while let Some(command) = commands.recv().await {
        match command {
            Command::Prompt { native_id, .. } => {
                began(&observer, "n1", &[&native_id]).await;
                says(&observer, "m1").await;
                let _ = observer.signal(ask("q")).await;
            }
            Command::Cancel => {
                cancels.fetch_add(1, Ordering::SeqCst);
                says(&observer, "m2").await;
                let ending = Ending::cancelled();
                let _ = observer.signal(Signal::TurnDone { native_id: Some("n1".to_owned()), ending }).await;
            }
            _ => {}
        }
    }
}

/// Begins a turn with each prompt, says a word and ends it.
async fn obliges(_: Start, mut commands: Receiver<Command>, observer: Observer) {
    while let Some(command) = commands.recv().await {
        if let Command::Prompt { native_id, .. } = command {
            began(&observer, &native_id, &[&native_id]).await;
            says(&observer, &native_id).await;
            let _ = observer.signal(done(&native_id)).await;
        }
    }
}
