//! Working directories: what was allowed once is checked again with every link.

use crate::support::*;
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::path::Path;
use turnstream_gateway::{Change, Gateway};
use turnstream_model::id::SessionId;

fn write_a_file() -> Value {
    json!([{"do": "tool", "effect": {"write": {"path": "planted.txt", "text": "x"}}}])
}

/// The next turn of this session fails with such a message.
async fn turn_fails(gateway: &Gateway, id: &SessionId, turns: usize, expected: &str) {
    prompt(gateway, id, write_a_file()).await;
    let snapshot = settled(gateway, id, turns).await;
    assert_eq!(outcomes(&snapshot)[turns - 1], "failed unreachable");
    let message = snapshot.state.turns[turns - 1].error.clone().unwrap().message;
    assert!(message.contains(expected), "{message}");
}

async fn session_in(gateway: &Gateway, cwd: &Path) -> SessionId {
    id_of(&gateway.create(new_session_in(cwd, "scripted")).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_becomes_a_link_to_the_outside_leads_nowhere() {
    let home = Home::new();
    let (project, outside) = (home.work().join("project"), home.path("outside"));
    std::fs::create_dir(&project).unwrap();
    std::fs::create_dir(&outside).unwrap();
    let gateway = home.open().await;
    let id = session_in(&gateway, &project).await;
    std::fs::remove_dir(&project).unwrap();
    symlink(&outside, &project).unwrap();
    let now = format!("(now {}) is not below a root", outside.canonicalize().unwrap().display());
    turn_fails(&gateway, &id, 1, &now).await;
    assert!(!outside.join("planted.txt").exists());

    // Everything but work is possible.
    let titled = Change { title: Some("t".to_owned()), ..Change::default() };
    assert_eq!(gateway.change(&id, titled).await.unwrap().session.title.as_deref(), Some("t"));
    let model = Change { model: Some("m".to_owned()), ..Change::default() };
    gateway.change(&id, model).await.unwrap();
    std::fs::remove_file(&project).unwrap();
    std::fs::create_dir(&project).unwrap();
    prompt(&gateway, &id, write_a_file()).await;
    assert_eq!(outcomes(&settled(&gateway, &id, 2).await)[1], "completed end_turn");
    assert!(project.join("planted.txt").exists(), "and work again once the directory is there");
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn narrowed_roots_hold_for_sessions_that_were_created_before() {
    let mut home = Home::new();
    let (kept, left) = (home.work().join("kept"), home.work().join("left"));
    std::fs::create_dir(&kept).unwrap();
    std::fs::create_dir(&left).unwrap();
    let gateway = home.open().await;
    let (allowed, refused) = (session_in(&gateway, &kept).await, session_in(&gateway, &left).await);
    for id in [&allowed, &refused] {
        prompt(&gateway, id, json!([{"do": "text", "text": "before"}])).await;
        settled(&gateway, id, 1).await;
    }
    home.close(gateway).await;

    home.settings.roots = vec![kept.clone()];
    let gateway = home.open().await;
    turn_fails(&gateway, &refused, 2, "is not below a root; start the gateway with a root above it").await;
    assert!(!left.join("planted.txt").exists());
    assert_eq!(said(&gateway.snapshot(&refused).await.unwrap()), ["before"]);
    prompt(&gateway, &allowed, write_a_file()).await;
    assert_eq!(outcomes(&settled(&gateway, &allowed, 2).await)[1], "completed end_turn");
    assert!(kept.join("planted.txt").exists());
    gateway.delete(&refused).await.unwrap();
    assert_eq!(gateway.sessions().len(), 1);
    home.close(gateway).await;
}
