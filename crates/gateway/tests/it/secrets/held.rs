//! Text that is held back is neither lost nor said twice: whatever comes between, an item's text is its
//! whole, redacted.

use super::{grow, item, secrets};
use crate::puppet::{began, done, lines, stage};
use crate::support::*;
use serde_json::json;
use std::future::Future;
use std::time::Duration;
use turnstream_agents::{Command, Observer};
use turnstream_gateway::NewPrompt;
use turnstream_model::event::{ErrorClass, Field, ItemKind, ItemState, Tool, ToolStatus};
use turnstream_model::fold::Snapshot;
use turnstream_model::id::Key;
use turnstream_model::signal::{Finality, Signal};
use turnstream_testkit::leaks::leaks_of;

/// Longer than anything is held back by time.
const LONG_ENOUGH: Duration = Duration::from_millis(200);

/// What is kept of one turn, and what clients would be sent of it.
async fn played<F>(play: impl Fn(Observer) -> F + Send + Sync + Copy + 'static) -> (Snapshot, String)
where
    F: Future<Output = ()> + Send + 'static,
{
    let home = Home::new();
    let gateway = stage(&home, false, move |_, mut commands, observer| async move {
        while let Some(command) = commands.recv().await {
            let Command::Prompt { native_id, .. } = command else { continue };
            began(&observer, "n1", &[&native_id]).await;
            play(observer.clone()).await;
            let _ = observer.signal(done("n1")).await;
        }
    })
    .await;
    let id = session(&gateway, &home, "puppet").await;
    let prompt = NewPrompt::new(vec![json!({"type": "text", "text": "go"})]);
    gateway.prompt(&id, prompt).await.unwrap();
    let snapshot = settled(&gateway, &id, 1).await;
    gateway.close().await;
    (snapshot, lines(&home, &id).await.join("\n"))
}

async fn shows(observer: &Observer, key: &str, text: &str) {
    let (key, field, finality) = (Key::from(key), Field::Text, Finality::SoFar);
    let _ = observer.signal(Signal::TextSnapshot { key, field, text: text.to_owned(), finality }).await;
}

async fn ends(observer: &Observer, key: &str) {
    let (key, state) = (Key::from(key), ItemState::Completed);
    let _ = observer.signal(Signal::ItemEnded { key, state, reason: None }).await;
}

#[tokio::test]
async fn a_snapshot_does_not_repeat_what_time_had_released() {
    let (snapshot, _) = played(|observer| async move {
        item(&observer, "m", ItemKind::Message).await;
        grow(&observer, "m", "Ask s").await;
        tokio::time::sleep(LONG_ENOUGH).await;
        shows(&observer, "m", "Ask sk").await;
        grow(&observer, "m", "ip.").await;
        ends(&observer, "m").await;
    })
    .await;
    assert_eq!(said(&snapshot), ["Ask skip."]);
}

#[tokio::test]
async fn a_snapshot_of_an_item_that_is_introduced_later_does_not_repeat_what_time_had_released() {
    let (snapshot, _) = played(|observer| async move {
        grow(&observer, "m", "Ask s").await;
        tokio::time::sleep(LONG_ENOUGH).await;
        shows(&observer, "m", "Ask sk").await;
        grow(&observer, "m", "ip.").await;
        item(&observer, "m", ItemKind::Message).await;
        ends(&observer, "m").await;
    })
    .await;
    assert_eq!(said(&snapshot), ["Ask skip."]);
}

#[tokio::test]
async fn a_snapshot_after_a_gap_does_not_repeat_what_the_gap_had_settled() {
    let (snapshot, _) = played(|observer| async move {
        item(&observer, "m", ItemKind::Message).await;
        grow(&observer, "m", "Their token: abcde").await;
        let _ = observer.signal(Signal::Gap("reconnected".into())).await;
        shows(&observer, "m", "Their token: abcdefg").await;
        grow(&observer, "m", "h, or s").await;
        ends(&observer, "m").await;
    })
    .await;
    assert_eq!(said(&snapshot), ["Their token: abcdefgh, or s"]);
}

#[tokio::test]
async fn an_old_snapshot_after_a_gap_does_not_make_the_rest_of_a_secret_a_beginning() {
    let (snapshot, sent) = played(|observer| async move {
        let secret = &secrets(8)[2];
        item(&observer, "m", ItemKind::Message).await;
        grow(&observer, "m", &format!("The key is {}", &secret[..16])).await;
        let _ = observer.signal(Signal::Gap("reconnected".into())).await;
        // As opencode answers while it streams.
        shows(&observer, "m", "").await;
        grow(&observer, "m", &format!("{} and that is all.", &secret[16..])).await;
        ends(&observer, "m").await;
    })
    .await;
    assert_eq!(leaks_of(sent.as_bytes(), &secrets(8)), Vec::<String>::new());
    assert!(said(&snapshot)[0].ends_with(" and that is all."), "{:?}", said(&snapshot));
}

#[tokio::test]
async fn what_runs_on_over_a_retry_is_still_one_text() {
    let (_, sent) = played(|observer| async move {
        let secret = &secrets(9)[2];
        let call = |status| Signal::ToolSeen {
            key: Key::from("t"),
            parent: None,
            tool: Tool { name: Some("bash".into()), status: Some(status), ..Tool::default() },
        };
        let output = |text: &str| Signal::TextDelta {
            key: Key::from("t"),
            field: Field::Output,
            text: text.to_owned(),
        };
        let _ = observer.signal(call(ToolStatus::InProgress)).await;
        let _ = observer.signal(output(&format!("GITHUB={}", &secret[..16]))).await;
        let retrying = Signal::Retrying {
            attempt: Some(1),
            reason: Some(ErrorClass::RateLimited),
            until: None,
            message: None,
        };
        let _ = observer.signal(retrying).await;
        let _ = observer.signal(output(&format!("{}\n", &secret[16..]))).await;
        let _ = observer.signal(call(ToolStatus::Completed)).await;
    })
    .await;
    assert_eq!(leaks_of(sent.as_bytes(), &secrets(9)), Vec::<String>::new());
}

#[tokio::test]
async fn a_turn_that_the_next_one_ends_keeps_its_last_words() {
    let home = Home::new();
    let gateway = stage(&home, false, move |_, mut commands, observer| async move {
        while let Some(command) = commands.recv().await {
            let Command::Prompt { native_id, .. } = command else { continue };
            began(&observer, "n1", &[&native_id]).await;
            item(&observer, "m", ItemKind::Message).await;
            grow(&observer, "m", "Their token: abcde").await;
            began(&observer, "n2", &[]).await;
            item(&observer, "m2", ItemKind::Message).await;
            let _ = observer.signal(done("n2")).await;
        }
    })
    .await;
    let id = session(&gateway, &home, "puppet").await;
    let prompt = NewPrompt::new(vec![json!({"type": "text", "text": "go"})]);
    gateway.prompt(&id, prompt).await.unwrap();
    let snapshot = settled(&gateway, &id, 2).await;
    assert_eq!(said(&snapshot)[0], "Their token: abcde");
    gateway.close().await;
}
