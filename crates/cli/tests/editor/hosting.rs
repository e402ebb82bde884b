//! Editors without a running gateway.

use crate::driver::Editor;
use crate::support::{Home, stdout, wait_for};
use serde_json::json;

#[test]
fn the_first_editor_hosts_a_gateway_which_others_use_and_take_over() {
    let home = Home::new();
    let mut first = Editor::ready(&home, &[], json!({}));
    let session = first.new_session(&home);
    let mut second = Editor::ready(&home, &[], json!({"session": {"notices": {}}}));
    let load = json!({"sessionId": session, "cwd": home.path("work"), "mcpServers": []});
    second.ask("session/load", load).unwrap();
    let turn = first.play(&session, &json!([{"do": "text", "text": "One. "}]));
    first.answer(turn).unwrap();
    second.until_text("One. ");
    // Commands find the same gateway.
    let listed = home.run(&["sessions"]);
    assert!(stdout(&listed).contains(&session), "{listed:?}");
    let owner = || {
        let text = std::fs::read(home.path("data/gateway.json")).ok()?;
        let running: serde_json::Value = serde_json::from_slice(&text).ok()?;
        running["pid"].as_u64()
    };
    let (first_pid, second_pid) = (u64::from(first.child.id()), u64::from(second.child.id()));
    assert_eq!(owner(), Some(first_pid));
    assert_eq!(first.close().code(), Some(0));
    wait_for(|| owner().filter(|pid| *pid == second_pid));
    let turn = second.play(&session, &json!([{"do": "text", "text": "Two."}]));
    assert_eq!(second.answer(turn).unwrap()["stopReason"], "end_turn");
    assert_eq!(second.text(&session), "One. Two.");
    assert_eq!(second.close().code(), Some(0));
    assert!(!home.path("data/gateway.json").exists());
}
