//! `turnstream acp` as an agent that another gateway runs: both sides of the protocol are ours.

use crate::driver::Editor;
use crate::support::Home;
use serde_json::json;

/// A gateway whose agent is `turnstream acp` on a data directory of its own.
fn configuration(home: &Home) -> String {
    let (program, data) = (env!("CARGO_BIN_EXE_turnstream"), home.path("inner"));
    let command = json!([
        program,
        "acp",
        "--agent",
        "scripted",
        "--discover",
        "false",
        "--data",
        data.to_str().unwrap(),
    ]);
    format!("default_agent = \"inner\"\n[agents.inner]\nkind = \"acp\"\ncommand = {command}\n")
}

#[test]
fn a_turn_and_its_permission_pass_through_two_gateways_and_servers_are_passed_on() {
    let home = Home::new();
    std::fs::write(home.path("turnstream.toml"), configuration(&home)).unwrap();
    let config = home.path("turnstream.toml");
    let flags = ["--config", config.to_str().unwrap()];
    let _serving = home.serve(&flags);
    let mut editor = Editor::ready(&home, &flags, json!({}));
    let session = editor.new_session(&home);
    let script = json!([
        {"do": "text", "text": "May I? "},
        {"do": "tool", "title": "Write a", "ask": true, "effect": {"write": {"path": "a", "text": "t"}}},
        {"do": "text", "text": "Written.", "when": "allowed"},
    ]);
    let turn = editor.play(&session, &script);
    let request = editor.asked("session/request_permission");
    assert_eq!(request["params"]["toolCall"]["title"], "Write a");
    let options = request["params"]["options"].as_array().unwrap();
    let allow = options.iter().find(|option| option["kind"] == "allow_once").unwrap()["optionId"].clone();
    editor.respond(&request, json!({"outcome": {"outcome": "selected", "optionId": allow}}));
    assert_eq!(editor.answer(turn).unwrap()["stopReason"], "end_turn");
    assert_eq!(editor.text(&session), "May I? Written.");
    assert!(home.path("work/a").exists());
    let turn = editor.play(&session, &json!([{"do": "text", "text": "begun"}, {"do": "stall"}]));
    editor.until_text("begun");
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(editor.answer(turn).unwrap()["stopReason"], "cancelled");

    // The outer agent passes a server on. The inner one takes none, and its words reach the editor.
    let server = json!({"name": "docs", "command": "/bin/true", "args": [], "env": []});
    let params = json!({"cwd": home.path("work"), "mcpServers": [server]});
    let refused = match editor.ask("session/new", params) {
        Err(error) => error,
        Ok(made) => {
            let session = made["sessionId"].as_str().unwrap().to_owned();
            let turn = editor.play(&session, &json!([{"do": "text", "text": "never"}]));
            editor.answer(turn).unwrap_err()
        }
    };
    let words = refused.to_string();
    assert!(words.contains("it takes no MCP servers from a session"), "{words}");
}
