//! Deleting sessions, and retention: what goes, what never does, and who is told.

use crate::support::*;
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use turnstream_gateway::{Deleted, Gateway, NewSession, RequestError, Retention, Round};
use turnstream_log::Follow;
use turnstream_model::cursor::{Cursor, CursorOutcome, ResetReason, Seq};
use turnstream_model::fold::{Activity, Snapshot};
use turnstream_model::id::SessionId;

/// Files below the directory that hold this text.
fn files_with(directory: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        // Most of a file is zeros, which nothing is in.
        let blocks: Vec<&[u8]> = bytes.chunks(4096).filter(|block| **block != [0; 4096]).collect();
        let bytes = blocks.concat();
        if String::from_utf8_lossy(&bytes).contains(text) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// A session in which these texts were said, one turn each.
async fn said_in(gateway: &Gateway, home: &Home, agent: &str, texts: &[&str]) -> SessionId {
    let id = session(gateway, home, agent).await;
    for (number, text) in texts.iter().enumerate() {
        prompt(gateway, &id, json!([{"do": "text", "text": text}])).await;
        settled(gateway, &id, number + 1).await;
    }
    id
}

/// Waits for a round of retention like that.
pub(crate) async fn round(gateway: &Gateway, is: impl Fn(&Round) -> bool) -> Round {
    let mut rounds = gateway.watch_retention();
    let waiting = async { *rounds.wait_for(|round| is(round)).await.unwrap() };
    tokio::time::timeout(Duration::from_secs(300), waiting).await.unwrap()
}

/// Waits for a snapshot like that. A trim is no event, so it is looked for again and again.
async fn eventually(gateway: &Gateway, id: &SessionId, holds: impl Fn(&Snapshot) -> bool) -> Snapshot {
    let waiting = async {
        loop {
            let snapshot = gateway.snapshot(id).await.unwrap();
            if holds(&snapshot) {
                return snapshot;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(300), waiting).await.unwrap()
}

pub(crate) fn quick(retention: Retention) -> Retention {
    Retention { every: Duration::from_millis(50), ..retention }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_session_is_ended_told_and_in_no_file() {
    const TEXT: &str = "the planted text Xq7rT2";
    let home = Home::new();
    let gateway = home.open().await;
    let other = said_in(&gateway, &home, "lasting", &["stays"]).await;
    let id = said_in(&gateway, &home, "lasting", &[TEXT]).await;
    prompt(&gateway, &id, json!([{"do": "text", "text": TEXT}, {"do": "stall"}])).await;
    until(&gateway, &id, "the turn", |snapshot| said(snapshot).len() == 2).await;
    prompt(&gateway, &id, json!([{"do": "text", "text": "never"}])).await;
    let head = gateway.session(&id).unwrap().head;
    let mut follower = gateway.follow(&id, &Cursor { generation: None, seq: head }).unwrap();
    assert!(!files_with(home.directory(), TEXT).is_empty());
    assert_eq!(gateway.delete(&id).await.unwrap(), Deleted::Erased);
    assert_eq!(files_with(home.directory(), TEXT), Vec::<String>::new());

    let mut types = Vec::new();
    loop {
        match follower.next().await.unwrap() {
            Follow::Outcome(_) => {}
            Follow::Events(events) => {
                types.extend(
                    events.iter().map(|event| event.event().unwrap().draft.body.type_name().to_owned()),
                );
            }
            Follow::Deleted => break,
            Follow::Closed => panic!("the log was closed"),
        }
    }
    assert!(types.contains(&"turn.ended".to_owned()), "{types:?}");
    assert_eq!(types.last().map(String::as_str), Some("session.ended"));

    let unknown = RequestError::UnknownSession(id.clone());
    assert_eq!(gateway.session(&id).unwrap_err(), unknown);
    assert_eq!(gateway.snapshot(&id).await.unwrap_err(), unknown);
    assert_eq!(gateway.prompt(&id, script(json!([]))).await.unwrap_err(), unknown);
    assert_eq!(gateway.follow(&id, &Cursor::default()).err(), Some(unknown));
    assert_eq!(gateway.sessions().iter().map(id_of).collect::<Vec<_>>(), [other]);
    assert_eq!(gateway.delete(&id).await.unwrap(), Deleted::Erased, "deleting it again is the same");
    let nobody = SessionId::from("ses_nobody");
    assert_eq!(gateway.delete(&nobody).await.unwrap_err(), RequestError::UnknownSession(nobody.clone()));
    home.close(gateway).await;

    let gateway = home.open().await;
    assert_eq!(gateway.sessions().len(), 1);
    assert_eq!(gateway.delete(&id).await.unwrap(), Deleted::Erased, "also after a restart");
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_makes_another_session_after_the_first_was_deleted() {
    let home = Home::new();
    let gateway = home.open().await;
    let new = NewSession { key: Some("k".into()), ..new_session(&home, "lasting") };
    let old = gateway.create(new.clone()).await.unwrap();
    let id = id_of(&old);
    prompt(&gateway, &id, json!([{"do": "text", "text": "old"}])).await;
    settled(&gateway, &id, 1).await;
    let head = gateway.session(&id).unwrap().head;
    // Whoever comes while it is being deleted gets the old one or the new one, and no error.
    let (deleted, made) = tokio::join!(gateway.delete(&id), gateway.create(new.clone()));
    assert_eq!(deleted.unwrap(), Deleted::Erased);
    made.unwrap();
    let made = gateway.create(new).await.unwrap();
    assert_eq!(id_of(&made), id);
    assert_ne!(made.generation, old.generation);
    let cursor = Cursor { generation: Some(old.generation), seq: head };
    let mut follower = gateway.follow(&id, &cursor).unwrap();
    let Follow::Outcome(CursorOutcome::Reset { generation, reason, oldest, .. }) =
        follower.next().await.unwrap()
    else {
        panic!("the old cursor belongs to another history")
    };
    assert_eq!((generation, reason, oldest), (made.generation, ResetReason::Generation, Seq(1)));
    prompt(&gateway, &id, json!([{"do": "text", "text": "new"}])).await;
    assert_eq!(said(&settled(&gateway, &id, 1).await), ["new"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_delete_at_once_are_all_answered() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = said_in(&gateway, &home, "scripted", &["x"]).await;
    let deletes: Vec<_> = (0..8)
        .map(|_| {
            let (gateway, id) = (gateway.clone(), id.clone());
            tokio::spawn(async move { gateway.delete(&id).await })
        })
        .collect();
    for delete in deletes {
        assert_eq!(delete.await.unwrap().unwrap(), Deleted::Erased);
    }
    assert_eq!(gateway.removed().sessions, 1);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_deleted_at_once_also_where_provider_requests_are_kept() {
    let home = Home::new();
    let gateway = home.open().await;
    turnstream_log::Attempts::open(&home.path("data")).unwrap().close();
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(session(&gateway, &home, "scripted").await);
    }
    let deletes: Vec<_> = ids
        .into_iter()
        .map(|id| {
            let gateway = gateway.clone();
            tokio::spawn(async move { gateway.delete(&id).await })
        })
        .collect();
    for delete in deletes {
        assert_eq!(delete.await.unwrap(), Ok(Deleted::Erased));
    }
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_turns_are_trimmed_and_the_session_goes_on() {
    const TEXT: &str = "the first text Zp4Lw9";
    let mut home = Home::new();
    home.settings.retention = quick(Retention { max_turns: Some(2), ..Retention::default() });
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    let keyed_prompt = keyed("k1", json!([{"do": "text", "text": TEXT}]));
    let first = gateway.prompt(&id, keyed_prompt.clone()).await.unwrap();
    settled(&gateway, &id, 1).await;
    for text in ["two", "three"] {
        prompt(&gateway, &id, json!([{"do": "text", "text": text}])).await;
        until(&gateway, &id, "the text", |snapshot| said(snapshot).iter().any(|said| said == text)).await;
    }
    let snapshot = eventually(&gateway, &id, |snapshot| {
        said(snapshot) == ["two", "three"] && snapshot.state.session.status == Activity::Idle
    })
    .await;
    assert_eq!(snapshot.state.counters.turns, 3);
    assert_eq!(snapshot.state.prompts.len(), 2);
    let seen = round(&gateway, |round| round.turns > 0).await;
    assert_eq!((seen.trimmed, seen.turns, seen.deleted, seen.failed), (1, 1, 0, 0));
    assert_eq!(gateway.removed().turns, 1);
    // The keeper is a new one after a restart, and knows of the key what the log has left.
    gateway.close().await;
    let gateway = home.open().await;
    assert_eq!(gateway.prompt(&id, keyed_prompt).await.unwrap().prompt, first.prompt);
    prompt(&gateway, &id, json!([{"do": "text", "text": "four"}])).await;
    eventually(&gateway, &id, |snapshot| said(snapshot) == ["three", "four"]).await;
    let mut follower = gateway.follow(&id, &Cursor::default()).unwrap();
    assert!(matches!(
        follower.next().await.unwrap(),
        Follow::Outcome(CursorOutcome::Reset { reason: ResetReason::Trimmed, .. })
    ));
    gateway.close().await;
    assert_eq!(files_with(&home.path("data"), TEXT), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_deletes_what_nobody_used_for_longest_and_never_what_is_open() {
    let mut home = Home::new();
    let gateway = home.open().await;
    let busy = session(&gateway, &home, "lasting").await;
    prompt(&gateway, &busy, json!([{"do": "text", "text": "half"}, {"do": "stall"}])).await;
    until(&gateway, &busy, "the turn", |snapshot| !said(snapshot).is_empty()).await;
    let asking = session(&gateway, &home, "lasting").await;
    prompt(&gateway, &asking, json!([{"do": "tool", "title": "Write", "ask": true}])).await;
    until(&gateway, &asking, "the ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
    let mut idle = Vec::new();
    for text in ["oldest", "older", "newest"] {
        idle.push(said_in(&gateway, &home, "lasting", &[text]).await);
    }
    gateway.close().await;

    home.settings.retention = quick(Retention { max_sessions: Some(3), ..Retention::default() });
    let gateway = home.open().await;
    let seen = round(&gateway, |round| round.deleted > 0).await;
    assert_eq!((seen.deleted, seen.turns, seen.failed), (2, 0, 0));
    let mut left: Vec<SessionId> = gateway.sessions().iter().map(id_of).collect();
    let mut wanted = vec![busy.clone(), asking.clone(), idle[2].clone()];
    left.sort();
    wanted.sort();
    assert_eq!(left, wanted);
    gateway.close().await;

    // Everything is too much, and too old: what is open stays all the same.
    home.settings.retention = quick(Retention {
        max_age: Some(Duration::from_millis(1)),
        session_max_age: Some(Duration::from_millis(1)),
        total_bytes: Some(0),
        ..Retention::default()
    });
    let gateway = home.open().await;
    round(&gateway, |round| round.deleted > 0).await;
    // Several rounds more.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut left: Vec<SessionId> = gateway.sessions().iter().map(id_of).collect();
    left.sort();
    wanted.retain(|id| *id != idle[2]);
    assert_eq!(left, wanted);
    let snapshot = gateway.snapshot(&asking).await.unwrap();
    assert_eq!((snapshot.state.turns.len(), snapshot.state.approvals[0].outcome), (1, None));
    gateway.resolve(&asking, &snapshot.state.approvals[0].approval, allow()).await.unwrap();
    round(&gateway, |_| gateway.session(&asking).is_err()).await;
    gateway.close().await;
}
