//! Clocks that jump: retention removes nothing by them.

use crate::removal::{quick, round};
use crate::support::*;
use serde_json::json;
use std::time::Duration;
use turnstream_gateway::{FakeClock, Gateway, Retention};
use turnstream_model::id::SessionId;

const DAY: Duration = Duration::from_secs(24 * 3_600);

async fn used(gateway: &Gateway, home: &Home) -> SessionId {
    let id = session(gateway, home, "scripted").await;
    prompt(gateway, &id, json!([{"do": "text", "text": "used"}])).await;
    settled(gateway, &id, 1).await;
    id
}

fn kept(gateway: &Gateway) -> Vec<SessionId> {
    let mut kept: Vec<SessionId> = gateway.sessions().iter().map(id_of).collect();
    kept.sort();
    kept
}

fn sorted<const N: usize>(mut ids: [SessionId; N]) -> [SessionId; N] {
    ids.sort();
    ids
}

/// A third session is one too many: the round that deletes one has seen the clock.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_deletes_nothing_and_time_that_passes_does() {
    let mut home = Home::new();
    let clock = FakeClock::new();
    home.settings.clock = clock.clone().into();
    let limits = Retention { session_max_age: Some(DAY), max_sessions: Some(2), ..Retention::default() };
    home.settings.retention = quick(limits);
    let gateway = home.open().await;
    used(&gateway, &home).await;
    let second = used(&gateway, &home).await;
    clock.jump(DAY * 200);
    let third = used(&gateway, &home).await;
    assert_eq!(round(&gateway, |round| round.deleted > 0).await.deleted, 1);
    assert_eq!(kept(&gateway), sorted([second.clone(), third.clone()]));
    home.close(gateway).await;

    // The machine was off, and nobody knows for how long.
    clock.reboot();
    clock.jump(DAY * 200);
    let gateway = home.open().await;
    let fourth = used(&gateway, &home).await;
    assert_eq!(round(&gateway, |round| round.deleted > 0).await.deleted, 1);
    assert_eq!(kept(&gateway), sorted([third, fourth]));

    clock.pass(DAY * 2);
    round(&gateway, |_| gateway.sessions().is_empty()).await;
    home.close(gateway).await;
}
