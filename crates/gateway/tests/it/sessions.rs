//! Making, changing, listing and ending sessions.

use crate::support::*;
use serde_json::json;
use std::time::Duration;
use turnstream_gateway::{Change, Listing, NewSession, RequestError, Retention};
use turnstream_model::event::Permissions;
use turnstream_model::fold::Activity;
use turnstream_model::id::SessionId;
use turnstream_model::machine::Refusal;
use turnstream_testkit::diagnostics::{Capture, Level};

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_creation_with_a_key_is_the_same_session_also_after_a_restart() {
    let home = Home::new();
    let gateway = home.open().await;
    let new = NewSession { key: Some("k".into()), ..new_session(&home, "scripted") };
    let (one, two) = tokio::join!(gateway.create(new.clone()), gateway.create(new.clone()));
    let id = id_of(&one.unwrap());
    assert_eq!(id_of(&two.unwrap()), id);
    gateway.close().await;

    let gateway = home.open().await;
    assert_eq!(id_of(&gateway.create(new.clone()).await.unwrap()), id);
    let other = NewSession { agent: "lasting".into(), ..new };
    let refused = gateway.create(other).await.unwrap_err();
    assert!(matches!(refused, RequestError::KeyReused { .. }), "{refused}");
    assert_eq!(gateway.sessions().len(), 1);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_creation_is_answered_also_when_its_directory_and_its_agent_are_gone() {
    let home = Home::new();
    let cwd = home.work().join("project");
    std::fs::create_dir(&cwd).unwrap();
    std::os::unix::fs::symlink(home.work(), home.path("link")).unwrap();
    let gateway = home.open().await;
    let new = NewSession { key: Some("k".into()), cwd, ..new_session(&home, "lasting") };
    let id = id_of(&gateway.create(new.clone()).await.unwrap());
    gateway.close().await;
    std::fs::remove_dir(&new.cwd).unwrap();

    // No agent is configured any more, and sessions may work nowhere.
    let settings = turnstream_gateway::Settings::default();
    let gateway =
        turnstream_gateway::Gateway::open(&home.path("data"), settings, Default::default()).await.unwrap();
    assert_eq!(id_of(&gateway.create(new.clone()).await.unwrap()), id);
    let by_a_link = NewSession { cwd: home.path("link").join("project"), ..new.clone() };
    assert_eq!(id_of(&gateway.create(by_a_link).await.unwrap()), id);
    for other in [
        NewSession { cwd: home.work().join("other"), ..new.clone() },
        NewSession { cwd: home.work(), ..new.clone() },
        NewSession { cwd: "project".into(), ..new.clone() },
        NewSession { title: Some("another".into()), ..new.clone() },
    ] {
        let refused = gateway.create(other).await.unwrap_err();
        assert!(matches!(refused, RequestError::KeyReused { .. }), "{refused}");
    }
    let fresh = gateway.create(NewSession { key: Some("k2".into()), ..new }).await.unwrap_err();
    assert!(matches!(fresh, RequestError::UnknownAgent { .. }), "{fresh}");
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_a_session_is_refused_by_name() {
    let home = Home::new();
    let gateway = home.open().await;
    let new = new_session(&home, "scripted");
    let refused = |new| {
        let gateway = gateway.clone();
        async move { gateway.create(new).await.unwrap_err().to_string() }
    };
    let agent = NewSession { agent: "nobody".into(), ..new.clone() };
    assert_eq!(refused(agent).await, r#"there is no agent "nobody"; configured: lasting, scripted"#);
    let relative = NewSession { cwd: "work".into(), ..new.clone() };
    assert_eq!(refused(relative).await, "work cannot be the working directory: give an absolute path");
    let outside = NewSession { cwd: home.path("data"), ..new.clone() };
    assert!(refused(outside).await.contains("is not below"));
    let escape = home.work().join("link");
    std::os::unix::fs::symlink(home.path("data"), &escape).unwrap();
    assert!(refused(NewSession { cwd: escape, ..new.clone() }).await.contains("is not below"));
    let file = home.work().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(refused(NewSession { cwd: file, ..new }).await.ends_with("it is a file"));
    assert!(gateway.sessions().is_empty());
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_once_and_takes_nothing_more() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    prompt(&gateway, &id, json!([{"do": "text", "text": "half"}, {"do": "stall"}])).await;
    until(&gateway, &id, "the turn", |snapshot| !said(snapshot).is_empty()).await;
    prompt(&gateway, &id, json!([{"do": "text", "text": "never"}])).await;
    gateway.end(&id, "deleted").await.unwrap();
    let snapshot = gateway.snapshot(&id).await.unwrap();
    assert_eq!(outcomes(&snapshot), ["cancelled"]);
    assert_eq!(snapshot.state.session.ended.as_deref(), Some("deleted"));
    assert!(snapshot.state.queue.is_empty());
    let ended = RequestError::Refused(Refusal::SessionEnded);
    assert_eq!(gateway.prompt(&id, script(json!([]))).await.unwrap_err(), ended);
    assert_eq!(gateway.end(&id, "again").await.unwrap_err(), ended);
    assert_eq!(gateway.change(&id, Change::default()).await.unwrap_err(), ended);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_durable() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    let change = Change {
        title: Some("A title".into()),
        model: Some("m".into()),
        permissions: Some(Permissions::Deny),
        ..Change::default()
    };
    let info = gateway.change(&id, change).await.unwrap();
    assert_eq!(info.session.permissions, Some(Permissions::Deny));
    gateway.close().await;
    let gateway = home.open().await;
    let again = gateway.session(&id).unwrap();
    assert_eq!(again.session, info.session);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_board_shows_every_session_first_and_then_what_changes() {
    let home = Home::new();
    let gateway = home.open().await;
    let first = session(&gateway, &home, "scripted").await;
    let second = session(&gateway, &home, "scripted").await;
    let mut watch = gateway.watch();
    let mut ids: Vec<_> = watch.next().await.into_iter().map(|entry| entry.id).collect();
    ids.sort();
    let mut both = [first.clone(), second];
    both.sort();
    assert_eq!(ids, both);
    prompt(&gateway, &first, json!([{"do": "tool", "ask": true}])).await;
    let mut seen = Vec::new();
    while seen.last() != Some(&Activity::Waiting) {
        for entry in watch.next().await {
            assert_eq!(entry.id, first);
            seen.push(entry.session.status);
        }
    }
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_session_is_put_away_and_comes_back_on_demand() {
    let mut home = Home::new();
    home.settings.idle = Duration::from_millis(50);
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    for round in 1..=3 {
        prompt(&gateway, &id, json!([{"do": "text", "text": "hello"}])).await;
        settled(&gateway, &id, round).await;
        while gateway.awake() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    // Requests that meet a keeper which is leaving are not lost.
    for round in 4..=40 {
        prompt(&gateway, &id, json!([{"do": "text", "text": "hello"}])).await;
        settled(&gateway, &id, round).await;
        tokio::time::sleep(Duration::from_millis(47 + round as u64 % 7)).await;
    }
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keyed_session_that_was_renamed_is_still_what_its_key_made() {
    let home = Home::new();
    let gateway = home.open().await;
    let new = NewSession { key: Some("k".into()), ..new_session(&home, "scripted") };
    let id = id_of(&gateway.create(new.clone()).await.unwrap());
    gateway.change(&id, Change { title: Some("renamed".into()), ..Change::default() }).await.unwrap();
    let again = gateway.create(new).await.map(|info| id_of(&info));
    assert_eq!(again, Ok(id), "the request is the one that made it");
    home.close(gateway).await;
}

/// Makes a session whose events cannot be read any more.
async fn with_damaged_events(home: &Home) -> SessionId {
    let gateway = home.open().await;
    let id = session(&gateway, home, "scripted").await;
    prompt(&gateway, &id, json!([{"do": "text", "text": "one"}])).await;
    settled(&gateway, &id, 1).await;
    home.close(gateway).await;
    let database = rusqlite::Connection::open(home.path("data").join("log.db")).unwrap();
    assert!(database.execute("UPDATE chunk SET data = 'damaged'", []).unwrap() > 0);
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_last_event_cannot_be_read_is_listed_and_warned_about_once() {
    let home = Home::new();
    let id = with_damaged_events(&home).await;
    let capture = Capture::start();
    let gateway = home.open().await;
    for _ in 0..3 {
        let listed = gateway.list(&Listing { limit: 10, ..Listing::default() }).unwrap();
        assert_eq!(listed.sessions.len(), 1);
    }
    gateway.close().await;
    let warned = capture.at_least(Level::WARN).into_iter();
    let warned: Vec<_> = warned.filter(|line| line.message == "the last activity cannot be read").collect();
    assert_eq!(warned.len(), 1, "{}", capture.text());
    assert_eq!(warned[0].field("session"), Some(id.as_str()));
    assert!(warned[0].field("error").is_some_and(|error| !error.is_empty()), "{}", warned[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_does_not_delete_a_session_whose_age_it_cannot_read() {
    let mut home = Home::new();
    let id = with_damaged_events(&home).await;
    let session_max_age = Some(Duration::from_millis(1));
    let every = Duration::from_millis(50);
    home.settings.retention = Retention { session_max_age, every, ..Retention::default() };
    let capture = Capture::start();
    let gateway = home.open().await;
    let warned = capture.until(|line| line.message == "retention failed").await;
    assert_eq!((warned.level, warned.field("session")), (Level::WARN, Some(id.as_str())));
    assert!(gateway.session(&id).is_ok());
    gateway.close().await;
}
