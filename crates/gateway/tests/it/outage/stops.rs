//! Agents that are to stop while the disk fails: by a cancel, by the end of their session or of the gateway.

use super::{asked, asks, broken, mended, stage, watched};
use crate::puppet::{Puppet, began, open_with, says};
use crate::support::*;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Receiver;
use turnstream_agents::{Command, Observer};
use turnstream_gateway::{RequestError, ResolveApproval, Settings};
use turnstream_log::Health;
use turnstream_model::event::ApprovalOutcome;
use turnstream_model::fold::Activity;

pub(super) async fn cancels_behind_an_answer_that_stops(home: &Path) {
    let cancels = Arc::new(AtomicUsize::new(0));
    let count = cancels.clone();
    let (gateway, id) = stage(home, Settings::default(), move |_, commands, observer| {
        asks(commands, observer, count.clone())
    })
    .await;
    gateway.prompt(&id, script(json!([]))).await.unwrap();
    let ask = asked(&gateway, &id).await;
    broken(home).await;
    let stop = ResolveApproval { stop: true, ..answer(ApprovalOutcome::Reject) };
    let refused = gateway.resolve(&id, &ask, stop).await.unwrap_err();
    assert!(matches!(refused, RequestError::NotDurableYet(_)), "{refused}");
    let told = gateway.cancel(&id, Cancel::Any).await.unwrap_err();
    assert!(matches!(told, RequestError::StopNotDurableYet(_)), "{told}");
    // It was answered that the agent was told.
    tokio::time::sleep(Duration::from_secs(2)).await;
    println!("TOLD {}", cancels.load(Ordering::SeqCst));
    mended(&gateway).await;
    settled(&gateway, &id, 1).await;
}

#[test]
fn a_cancel_that_hears_that_the_agent_was_told_comes_when_it_was() {
    assert_eq!(watched("outage-stop").lines("TOLD "), ["1"], "while the disk fails");
}

pub(super) async fn cancels_while_it_recovers(home: &Path) {
    let told = Arc::new(AtomicUsize::new(0));
    let count = told.clone();
    // After a restart it never says what it has.
    let play = move |_, mut commands: Receiver<Command>, observer: Observer| {
        let told = count.clone();
        async move {
            while let Some(command) = commands.recv().await {
                match command {
                    Command::Prompt { native_id, .. } => {
                        began(&observer, "n1", &[&native_id]).await;
                        says(&observer, "m1").await;
                    }
                    Command::Cancel => drop(told.fetch_add(1, Ordering::SeqCst)),
                    _ => {}
                }
            }
        }
    };
    let open = async || open_with(home, Settings::default(), Puppet::new(play.clone()).outliving()).await;
    let gateway = open().await;
    let id = id_of(&gateway.create(new_session_in(&home.join("work"), "puppet")).await.unwrap());
    gateway.prompt(&id, script(json!([]))).await.unwrap();
    until(&gateway, &id, "the text", |snapshot| said(snapshot) == ["hello"]).await;
    gateway.close().await;
    let gateway = open().await;
    until(&gateway, &id, "the recovery", |snapshot| snapshot.state.session.status == Activity::Recovering)
        .await;
    broken(home).await;
    let answer = gateway.cancel(&id, Cancel::Any).await.unwrap_err();
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("TOLD {} {}", told.load(Ordering::SeqCst), answer.to_string().contains("was told to stop"));
    mended(&gateway).await;
}

#[test]
fn nobody_hears_that_an_agent_was_told_to_stop_while_it_is_still_asked_what_it_has() {
    assert_eq!(watched("outage-recovers").lines("TOLD "), ["0 false"]);
}

pub(super) async fn deletes_and_cancels(home: &Path) {
    let told = Arc::new(AtomicUsize::new(0));
    let count = told.clone();
    let play = move |_, mut commands: Receiver<Command>, observer: Observer| {
        let told = count.clone();
        async move {
            while let Some(command) = commands.recv().await {
                match command {
                    Command::Prompt { native_id, .. } => {
                        began(&observer, "n1", &[&native_id]).await;
                        says(&observer, "m1").await;
                    }
                    Command::Cancel => drop(told.fetch_add(1, Ordering::SeqCst)),
                    _ => {}
                }
            }
            // Its link was closed, which is as good.
            told.fetch_add(1, Ordering::SeqCst);
        }
    };
    let (gateway, id) = stage(home, Settings::default(), play).await;
    gateway.prompt(&id, script(json!([]))).await.unwrap();
    until(&gateway, &id, "the text", |snapshot| said(snapshot) == ["hello"]).await;
    broken(home).await;
    let taken = gateway.end(&id, "deleted").await.unwrap_err();
    assert!(matches!(taken, RequestError::NotDurableYet(_)), "{taken}");
    let cancelled = gateway.cancel(&id, Cancel::Any).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    println!("TOLD {} {cancelled:?}", told.load(Ordering::SeqCst));
    mended(&gateway).await;
}

/// docs/http.md: "to stop an agent needs no disk, so it is told at once".
#[test]
fn an_agent_whose_session_was_deleted_can_be_stopped_while_the_disk_fails() {
    let seen = watched("outage-delete");
    let told = seen.lines("TOLD ");
    assert!(!told[0].starts_with("0 "), "it works on, and whoever cancels hears {told:?}");
}

pub(super) async fn closes(home: &Path) {
    let play = |_, mut commands: Receiver<Command>, observer: Observer| async move {
        while let Some(command) = commands.recv().await {
            if let Command::Prompt { native_id, .. } = command {
                began(&observer, "n1", &[&native_id]).await;
                for number in 0.. {
                    says(&observer, &format!("m{number}")).await;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
    };
    let gateway = open_with(home, Settings::default(), Puppet::new(play).never_stopping()).await;
    let id = id_of(&gateway.create(new_session_in(&home.join("work"), "puppet")).await.unwrap());
    gateway.prompt(&id, script(json!([]))).await.unwrap();
    until(&gateway, &id, "the text", |snapshot| !said(snapshot).is_empty()).await;
    broken(home).await;
    while gateway.health() == Health::Sound {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Both threads of the log have something that they cannot keep.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let began = Instant::now();
    let left = gateway.close().await;
    println!("CLOSED {}", began.elapsed().as_millis());
    println!("LEFT {left:?}");
}

/// L13: shutdown takes at most 5 s.
#[test]
fn a_close_with_an_agent_that_does_not_stop_on_a_broken_disk_ends_by_its_deadlines() {
    let seen = watched("outage-close");
    let took: u64 = seen.lines("CLOSED ")[0].parse().unwrap();
    let left = seen.lines("LEFT ");
    assert!(Duration::from_millis(took) < CLOSED, "{took} ms, {left:?}");
    assert!(left[0].contains("could not be stopped: it did not end within"), "{left:?}");
}
