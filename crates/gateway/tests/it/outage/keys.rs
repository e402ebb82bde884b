//! Requests with a key that are repeated while the disk fails.

use super::{asked, asks, broken, mended, obliges, stage, watched};
use crate::support::*;
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use turnstream_gateway::{Change, RequestError, ResolveApproval, Settings};

pub(super) async fn repeats_a_key(home: &Path) {
    let (gateway, id) = stage(home, Settings::default(), obliges).await;
    broken(home).await;
    let first = gateway.prompt(&id, keyed("k", json!([]))).await.unwrap_err();
    assert!(matches!(first, RequestError::NotDurableYet(_)), "{first}");
    let second = gateway.prompt(&id, keyed("k", json!([]))).await.unwrap_err();
    mended(&gateway).await;
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["completed end_turn"]);
    println!("REPEAT {}", if matches!(second, RequestError::Degraded(_)) { "not taken" } else { "taken" });
}

/// docs/http.md: `taken` is false "when nothing was done"; whoever heard true is to send it again with its
/// key.
#[test]
fn a_repeat_of_a_prompt_that_was_taken_does_not_hear_that_nothing_is_done() {
    assert_eq!(watched("outage-key").lines("REPEAT "), ["taken"], "and it ran");
}

pub(super) async fn repeats_an_answer(home: &Path) {
    let (gateway, id) = stage(home, Settings::default(), |_, commands, observer| {
        asks(commands, observer, Default::default())
    })
    .await;
    gateway.prompt(&id, script(json!([]))).await.unwrap();
    let ask = asked(&gateway, &id).await;
    broken(home).await;
    let keyed = |key: &str| ResolveApproval { key: Some(key.to_owned()), ..allow() };
    let first = gateway.resolve(&id, &ask, keyed("k")).await.unwrap_err();
    assert!(matches!(first, RequestError::NotDurableYet(_)), "{first}");
    let second = gateway.resolve(&id, &ask, keyed("k")).await.unwrap_err();
    assert!(matches!(second, RequestError::NotDurableYet(_)), "the same answer: {second}");
    let other = gateway.resolve(&id, &ask, keyed("other")).await.unwrap_err();
    assert!(matches!(other, RequestError::Degraded(_)), "another answer: {other}");
    mended(&gateway).await;
    println!("REPEAT {:?}", gateway.resolve(&id, &ask, keyed("k")).await);
}

#[test]
fn a_repeat_of_an_answer_that_was_taken_hears_that_it_was() {
    assert_eq!(watched("outage-answer").lines("REPEAT "), ["Ok(())"]);
}

pub(super) async fn repeats_what_is_long_done(home: &Path) {
    let settings = Settings { idle: Duration::from_millis(100), ..Settings::default() };
    let (gateway, id) = stage(home, settings, obliges).await;
    let first = gateway.prompt(&id, keyed("k", json!([]))).await.unwrap();
    settled(&gateway, &id, 1).await;
    let other = id_of(&gateway.create(new_session_in(&home.join("work"), "puppet")).await.unwrap());
    while gateway.awake() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    broken(home).await;
    let title = Change { title: Some("new".to_owned()), ..Change::default() };
    let not_durable_yet = gateway.change(&other, title).await.unwrap_err();
    assert!(
        matches!(not_durable_yet, RequestError::NotDurableYet(_) | RequestError::Degraded(_)),
        "{not_durable_yet}"
    );
    let again = gateway.prompt(&id, keyed("k", json!([]))).await;
    let new = gateway.prompt(&id, keyed("new", json!([]))).await;
    println!("REPEAT {} {}", again == Ok(first), matches!(new, Err(RequestError::Degraded(_))));
    mended(&gateway).await;
}

#[test]
fn a_repeat_of_a_prompt_that_is_in_the_log_needs_no_disk() {
    assert_eq!(watched("outage-asleep").lines("REPEAT "), ["true true"]);
}
