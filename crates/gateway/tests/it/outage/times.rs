//! Deadlines while the disk fails: none runs in which nothing of what it is for can happen.

use super::{asked, asks, broken, mended, stage, watched};
use crate::puppet::{began, done, says};
use crate::support::*;
use crate::transfer::file;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use turnstream_agents::{Command, Observer};
use turnstream_gateway::{Actor, Change, RequestError, Settings};
use turnstream_log::Health;

pub(super) async fn prompts_on_a_broken_disk(home: &Path) {
    let play = |_, mut commands: Receiver<Command>, observer: Observer| async move {
        while let Some(command) = commands.recv().await {
            if let Command::Prompt { native_id, .. } = command {
                tokio::time::sleep(Duration::from_millis(300)).await;
                began(&observer, &native_id, &[&native_id]).await;
                says(&observer, &native_id).await;
                let _ = observer.signal(done(&native_id)).await;
            }
        }
    };
    let settings = Settings { start: Duration::from_secs(10), ..Settings::default() };
    let (gateway, id) = stage(home, settings, play).await;
    broken(home).await;
    let taken = gateway.prompt(&id, script(json!([]))).await.unwrap_err();
    assert!(matches!(taken, RequestError::NotDurableYet(_)), "{taken}");
    tokio::time::sleep(Duration::from_secs(11)).await;
    mended(&gateway).await;
    println!("TURN {:?}", outcomes(&settled(&gateway, &id, 1).await));
}

/// docs/http.md: "Deadlines of a turn wait too while nothing of it can be kept."
#[test]
fn a_prompt_that_waited_for_the_disk_has_its_whole_time_to_begin() {
    assert_eq!(watched("outage-start").lines("TURN "), [r#"["completed end_turn"]"#]);
}

pub(super) async fn cancels_an_agent_that_obeys(home: &Path) {
    let cancels = Arc::new(AtomicUsize::new(0));
    let count = cancels.clone();
    let settings = Settings { cancel: Duration::from_secs(3), ..Settings::default() };
    let (gateway, id) =
        stage(home, settings, move |_, commands, observer| asks(commands, observer, count.clone())).await;
    gateway.prompt(&id, script(json!([]))).await.unwrap();
    let ask = asked(&gateway, &id).await;
    broken(home).await;
    let refused = gateway.resolve(&id, &ask, allow()).await.unwrap_err();
    assert!(matches!(refused, RequestError::NotDurableYet(_)), "{refused}");
    let told = gateway.on_behalf_of(Actor::new("bob")).cancel(&id, Cancel::Any).await.unwrap_err();
    assert!(matches!(told, RequestError::StopNotDurableYet(_)), "{told}");
    while cancels.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // It has obeyed long before its time is over.
    tokio::time::sleep(Duration::from_secs(4)).await;
    mended(&gateway).await;
    let snapshot = settled(&gateway, &id, 1).await;
    println!(
        "TURN {} {:?} {:?}",
        outcomes(&snapshot)[0],
        snapshot.state.turns[0].cancelling,
        said(&snapshot)
    );
    let log = file(&gateway, &id).await;
    println!("BY {}", log.lines().find(|line| line.contains("turn.cancelling")).unwrap());
}

/// docs/http.md: "The event `turn.cancelling` follows when the disk works again, and so does the end of the
/// turn".
#[test]
fn an_agent_that_obeyed_while_the_disk_failed_is_heard_and_not_stopped_by_force() {
    let seen = watched("outage-obeys");
    assert_eq!(seen.lines("TURN "), [r#"cancelled Some(Client) ["hello", "hello"]"#]);
    let by = seen.lines("BY ");
    assert!(by[0].contains(r#""actor":"bob""#), "whoever cancelled, also though it waited: {by:?}");
}

pub(super) async fn asks_a_person(home: &Path) {
    let settings = Settings { approval: Some(Duration::from_secs(4)), ..Settings::default() };
    let (gateway, id) =
        stage(home, settings, |_, commands, observer| asks(commands, observer, Default::default())).await;
    let other = id_of(&gateway.create(new_session_in(&home.join("work"), "puppet")).await.unwrap());
    gateway.prompt(&id, script(json!([]))).await.unwrap();
    let ask = asked(&gateway, &id).await;
    broken(home).await;
    let title = Change { title: Some("new".to_owned()), ..Change::default() };
    gateway.change(&other, title).await.unwrap_err();
    while gateway.health() == Health::Sound {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Its keeper has nothing to keep, and whoever answers is refused.
    let refused = gateway.resolve(&id, &ask, allow()).await.unwrap_err();
    assert!(matches!(refused, RequestError::Degraded(_)), "{refused}");
    tokio::time::sleep(Duration::from_secs(5)).await;
    mended(&gateway).await;
    println!("ANSWER {:?}", gateway.resolve(&id, &ask, allow()).await);
}

#[test]
fn a_person_who_could_not_answer_while_the_disk_failed_can_do_so_afterwards() {
    assert_eq!(watched("outage-person").lines("ANSWER "), ["Ok(())"]);
}
