//! What an imported session may do: a file decides nothing.

use crate::support::*;
use crate::transfer::{file, spooled};
use serde_json::{Value, json};
use turnstream_gateway::{Actor, Change, Gateway, ImportAs, NewSession};
use turnstream_model::event::Permissions;
use turnstream_model::fold::Session;
use turnstream_model::id::SessionId;

/// A value that is redacted.
const SECRET: &str = "password=hunter2-and-more";

fn settings(session: &Session) -> (Option<Permissions>, Option<bool>) {
    (session.permissions, session.redact_prompts)
}

async fn imported(gateway: &Gateway, file: &str) -> SessionId {
    id_of(&gateway.import(spooled(gateway, file).await, ImportAs::New, None).await.unwrap().info)
}

/// The file of a session that does everything without asking and keeps secrets.
async fn trusting(home: &Home, gateway: &Gateway) -> String {
    let new = NewSession {
        permissions: Some(Permissions::Allow),
        redact_prompts: Some(false),
        ..new_session(home, "scripted")
    };
    let id = id_of(&gateway.create(new).await.unwrap());
    prompt(gateway, &id, json!([{"do": "text", "text": "Hi"}])).await;
    settled(gateway, &id, 1).await;
    file(gateway, &id).await
}

fn events(file: &str) -> Vec<Value> {
    file.lines().skip(2).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_imported_session_asks_and_redacts_again_also_after_a_restart() {
    let home = Home::new();
    let gateway = home.open().await;
    let original = trusting(&home, &gateway).await;
    let carol = gateway.on_behalf_of(Actor::new("carol"));
    let id = imported(&carol, &original).await;
    let asks = (Some(Permissions::Ask), Some(true));
    assert_eq!(settings(&gateway.session(&id).unwrap().session), asks);
    let (mut kept, before) = (events(&file(&gateway, &id).await), events(&original));
    let reset = kept.pop().unwrap();
    assert_eq!(kept, before, "what was said stays");
    assert_eq!(
        (&reset["type"], &reset["permissions"], &reset["redact_prompts"], &reset["actor"]),
        (&json!("session.updated"), &json!("ask"), &json!(true), &json!("carol"))
    );
    home.close(gateway).await;

    let gateway = home.open().await;
    assert_eq!(settings(&gateway.session(&id).unwrap().session), asks);
    prompt(&gateway, &id, json!([{"do": "text", "text": SECRET}, {"do": "tool", "ask": true}])).await;
    let waits = until(&gateway, &id, "the ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
    assert_eq!(waits.state.approvals[0].outcome, None, "a person decides");
    let sent = json!(waits.state.prompts.last().unwrap().content).to_string();
    assert!(sent.contains("[redacted:") && !sent.contains("hunter2"), "{sent}");
    gateway.resolve(&id, &waits.state.approvals[0].approval, allow()).await.unwrap();
    settled(&gateway, &id, 2).await;
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_trip_changes_nothing_unless_somebody_trusted_it_again() {
    let home = Home::new();
    let gateway = home.open().await;
    let once = imported(&gateway, &trusting(&home, &gateway).await).await;
    let file_once = file(&gateway, &once).await;
    let twice = imported(&gateway, &file_once).await;
    assert_eq!(events(&file(&gateway, &twice).await), events(&file_once));

    for permissions in [Permissions::Allow, Permissions::Deny] {
        let change = Change { permissions: Some(permissions), ..Change::default() };
        gateway.change(&twice, change).await.unwrap();
        let again = imported(&gateway, &file(&gateway, &twice).await).await;
        let asks = (Some(Permissions::Ask), Some(true));
        assert_eq!(settings(&gateway.session(&again).unwrap().session), asks, "{permissions}");
    }
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_has_ended_stays_as_it_was() {
    let home = Home::new();
    let gateway = home.open().await;
    let original = trusting(&home, &gateway).await;
    let mut lines: Vec<String> = original.lines().map(str::to_owned).collect();
    let head = lines.len();
    lines[0] = lines[0].replace(&format!("\"head\":{}", head - 1), &format!("\"head\":{head}"));
    let time = events(&original).last().unwrap()["time"].clone();
    lines.push(json!({"seq": head, "time": time, "type": "session.ended", "reason": "deleted"}).to_string());
    let ended = lines.join("\n") + "\n";
    let id = imported(&gateway, &ended).await;
    assert_eq!(events(&file(&gateway, &id).await), events(&ended), "it takes no prompts");
    home.close(gateway).await;
}
