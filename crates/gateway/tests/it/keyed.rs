//! Ids of sessions that are created with a key: nobody can guess them, and they stay what they are.

use crate::support::*;
use crate::transfer::{file, spooled};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use turnstream_gateway::{Gateway, ImportAs, NewSession, Settings};
use turnstream_log::{Log, Options};
use turnstream_model::event::{Body, Draft};
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// The id that earlier versions gave to the key `k`: a hash that anybody can compute.
const GUESSED: &str = "ses_d228cb69691a8caf78912b704e4a8202";

fn new(home: &Home) -> NewSession {
    NewSession { key: Some("k".into()), ..new_session(home, "scripted") }
}

async fn created(gateway: &Gateway, new: NewSession) -> SessionId {
    id_of(&gateway.create(new).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_knows_a_key_does_not_know_its_session() {
    let (home, other) = (Home::new(), Home::new());
    let (gateway, there) = (home.open().await, other.open().await);
    let id = created(&gateway, new(&home)).await;
    assert_ne!(id, created(&there, new(&other)).await, "each data directory has a secret of its own");
    assert_ne!(id.as_str(), GUESSED);
    let mode = home.path("data/id-secret").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    home.close(gateway).await;
    other.close(there).await;
    let gateway = home.open().await;
    assert_eq!(created(&gateway, new(&home)).await, id, "the same after a restart");
    assert_eq!(gateway.sessions().len(), 1);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_an_earlier_version_is_found_by_its_key() {
    let home = Home::new();
    let id = SessionId::from(GUESSED);
    let log = Log::open(&home.path("data"), &Options::default()).unwrap().log;
    let mut appender = log.create(&id).await.unwrap();
    let body = Body::SessionCreated {
        session: id.clone(),
        agent: "scripted".into(),
        cwd: home.work().canonicalize().unwrap().display().to_string(),
        title: None,
        key: Some("k".into()),
    };
    appender.append(vec![Draft::new(body)], Time::now()).await.unwrap().await.unwrap();
    drop(appender);
    log.close().await;

    let gateway = home.open().await;
    assert_eq!(created(&gateway, new(&home)).await, id);
    let other = NewSession { key: Some("l".into()), ..new(&home) };
    assert_ne!(created(&gateway, other).await, id);
    // Once it is gone, the key makes a session like any other.
    gateway.delete(&id).await.unwrap();
    let again = created(&gateway, new(&home)).await;
    assert_ne!(again, id);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_cannot_take_the_place_of_a_session_that_is_still_to_come() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = created(&gateway, new(&home)).await;
    prompt(&gateway, &id, json!([])).await;
    settled(&gateway, &id, 1).await;
    let planted = file(&gateway, &id).await.replace(id.as_str(), GUESSED);
    gateway.delete(&id).await.unwrap();
    gateway.import(spooled(&gateway, &planted).await, ImportAs::Itself, None).await.unwrap();
    let made = created(&gateway, new(&home)).await;
    assert_eq!(made, id, "its own, and not the one of the file");
    assert_eq!(gateway.sessions().len(), 2);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_does_not_open_with_a_damaged_secret() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = created(&gateway, new(&home)).await;
    home.close(gateway).await;
    let path = home.path("data/id-secret");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..20]).unwrap();
    let refused = Gateway::open(&home.path("data"), Settings::default(), Default::default()).await;
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("id-secret is damaged") && refused.contains("backup"), "{refused}");
    std::fs::write(&path, &whole).unwrap();
    let gateway = home.open().await;
    assert_eq!(created(&gateway, new(&home)).await, id);
    home.close(gateway).await;
}
