//! The life of a session in editors: made, listed, loaded, resumed, changed, closed, deleted.

use crate::driver::Editor;
use crate::support::Home;
use serde_json::{Value, json};

const TWO_AGENTS: &str = r#"
default_agent = "first"
[agents.first]
kind = "scripted"
[agents.second]
kind = "scripted"
"#;

fn ids(listed: &Value) -> Vec<&str> {
    listed["sessions"].as_array().unwrap().iter().filter_map(|one| one["sessionId"].as_str()).collect()
}

#[test]
fn a_session_is_loaded_with_its_conversation_and_resumed_without_it() {
    let home = Home::new();
    let _serving = home.serve(&[]);
    let place = json!({"cwd": home.path("work"), "mcpServers": []});
    let mut first = Editor::ready(&home, &[], json!({}));
    assert_eq!(first.ask("session/list", json!({})).unwrap(), json!({"sessions": []}));
    let session = first.new_session(&home);
    let script = json!([
        {"do": "text", "text": "One."},
        {"do": "tool", "title": "Write a", "effect": {"write": {"path": "a", "text": "t"}}},
    ]);
    let turn = first.play(&session, &script);
    first.answer(turn).unwrap();
    assert_eq!(first.ask("session/close", json!({"sessionId": session})).unwrap(), json!({}));
    let closed = first.ask("session/prompt", json!({"sessionId": session, "prompt": []})).unwrap_err();
    assert_eq!(closed["code"], -32002, "{closed}");
    assert_eq!(first.ask("session/close", json!({"sessionId": session})).unwrap(), json!({}));

    let mut second = Editor::ready(&home, &[], json!({}));
    let listed = second.ask("session/list", json!({"cwd": home.path("work")})).unwrap();
    assert_eq!(ids(&listed), [session.as_str()]);
    let entry = &listed["sessions"][0];
    assert!(entry["updatedAt"].as_str().unwrap().ends_with('Z'), "{entry}");
    assert_eq!(entry["_meta"]["turnstream"]["agent"], "scripted");
    let elsewhere = second.ask("session/list", json!({"cwd": "/nowhere"})).unwrap();
    assert_eq!(elsewhere, json!({"sessions": []}));

    let load = json!({"sessionId": session, "cwd": place["cwd"], "mcpServers": []});
    let loading = second.request("session/load", load.clone());
    second.answer(loading).unwrap();
    let before = &second.seen[..second.place_of_answer(loading)];
    let kinds: Vec<&str> =
        before.iter().filter_map(|message| message["params"]["update"]["sessionUpdate"].as_str()).collect();
    for kind in ["user_message_chunk", "agent_message_chunk", "tool_call"] {
        assert_eq!(kinds.iter().filter(|one| **one == kind).count(), 1, "{kind} in {kinds:?}");
    }
    assert_eq!(second.text(&session), "One.");
    // Once more on the same connection: the same conversation again.
    second.ask("session/load", load).unwrap();
    assert_eq!(second.text(&session), "One.One.");

    let mut third = Editor::ready(&home, &[], json!({}));
    let resume = json!({"sessionId": session, "cwd": place["cwd"]});
    third.ask("session/resume", resume).unwrap();
    let turn = third.play(&session, &json!([{"do": "text", "text": "Two."}]));
    assert_eq!(third.answer(turn).unwrap()["stopReason"], "end_turn");
    assert_eq!(third.text(&session), "Two.", "nothing of the first turn");
    second.until_text("One.Two.");

    assert_eq!(third.ask("session/delete", json!({"sessionId": session})).unwrap(), json!({}));
    for method in ["session/load", "session/resume"] {
        let params = json!({"sessionId": session, "cwd": place["cwd"], "mcpServers": []});
        assert_eq!(third.ask(method, params).unwrap_err()["code"], -32002);
    }
    assert_eq!(third.ask("session/delete", json!({"sessionId": session})).unwrap(), json!({}));
    assert!(!ids(&third.ask("session/list", json!({})).unwrap()).contains(&session.as_str()));
}

#[test]
fn closing_a_session_stops_the_editors_own_turn() {
    let home = Home::new();
    let _serving = home.serve(&[]);
    let mut editor = Editor::ready(&home, &[], json!({}));
    let session = editor.new_session(&home);
    let turn = editor.play(&session, &json!([{"do": "text", "text": "begun"}, {"do": "stall"}]));
    editor.until_text("begun");
    let close = editor.request("session/close", json!({"sessionId": session}));
    assert_eq!(editor.answer(close).unwrap(), json!({}));
    assert_eq!(editor.answer(turn).unwrap()["stopReason"], "cancelled");
    assert!(editor.place_of_answer(turn) < editor.place_of_answer(close));
    let resume = json!({"sessionId": session, "cwd": home.path("work")});
    editor.ask("session/resume", resume).unwrap();
    let turn = editor.play(&session, &json!([{"do": "text", "text": "next"}]));
    assert_eq!(editor.answer(turn).unwrap()["stopReason"], "end_turn");
}

#[test]
fn servers_of_a_session_are_refused_in_words_or_left_out() {
    let home = Home::new();
    let _serving = home.serve(&[]);
    let server = json!({"name": "docs", "command": "/bin/true", "args": [], "env": [], "_meta": {"a": 1}});
    let params = json!({"cwd": home.path("work"), "mcpServers": [server]});
    let mut editor = Editor::ready(&home, &[], json!({}));
    let refused = editor.ask("session/new", params.clone()).unwrap_err();
    assert_eq!((&refused["code"], &refused["data"]["problem"]), (&json!(-32602), &json!("mcp-refused")));
    assert!(refused["message"].as_str().unwrap().contains("--without-mcp"), "{refused}");
    let mut editor = Editor::ready(&home, &["--without-mcp"], json!({}));
    editor.ask("session/new", params).unwrap();
    let more = json!({"cwd": home.path("work"), "mcpServers": [], "additionalDirectories": ["/tmp"]});
    assert_eq!(editor.ask("session/new", more).unwrap_err()["code"], -32602);
}

#[test]
fn model_mode_and_agent_are_options_and_others_hear_of_a_change() {
    let home = Home::new();
    std::fs::write(home.path("turnstream.toml"), TWO_AGENTS).unwrap();
    let config = home.path("turnstream.toml");
    let flags = ["--config", config.to_str().unwrap()];
    let _serving = home.serve(&flags);
    let mut editor = Editor::ready(&home, &flags, json!({}));
    let session = editor.new_session(&home);
    let set = |option: &str, value: &str| json!({"sessionId": session, "configId": option, "value": value});
    let current = |answer: &Value, option: &str| {
        let options = answer["configOptions"].as_array().unwrap().iter();
        options.filter(|one| one["id"] == option).map(|one| one["currentValue"].clone()).next()
    };
    let changed = editor.ask("session/set_config_option", set("model", "m1")).unwrap();
    assert_eq!(current(&changed, "model"), Some(json!("m1")));
    assert_eq!(current(&changed, "agent"), Some(json!("first")));
    assert_eq!(
        editor.ask("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).unwrap(),
        json!({})
    );
    let changed = editor.ask("session/set_config_option", set("mode", "build")).unwrap();
    assert_eq!(current(&changed, "mode"), Some(json!("build")));
    for (option, value) in [("colour", "red"), ("agent", "nobody"), ("model", "default")] {
        assert_eq!(editor.ask("session/set_config_option", set(option, value)).unwrap_err()["code"], -32602);
    }
    let flag = json!({"sessionId": session, "configId": "model", "type": "boolean", "value": true});
    assert_eq!(editor.ask("session/set_config_option", flag).unwrap_err()["code"], -32602);

    // Before the first prompt the agent can change. The editor keeps its id.
    let changed = editor.ask("session/set_config_option", set("agent", "second")).unwrap();
    assert_eq!(current(&changed, "agent"), Some(json!("second")));
    let turn = editor.play(&session, &json!([{"do": "text", "text": "From the second."}]));
    assert_eq!(editor.answer(turn).unwrap()["stopReason"], "end_turn");
    assert_eq!(editor.text(&session), "From the second.");
    let fixed = editor.ask("session/set_config_option", set("agent", "first")).unwrap_err();
    assert!(fixed["message"].as_str().unwrap().contains("first prompt"), "{fixed}");

    // Another editor, which knows the same id, gets that conversation, and hears of changes.
    let mut other = Editor::ready(&home, &flags, json!({}));
    let load = json!({"sessionId": session, "cwd": home.path("work"), "mcpServers": []});
    let loaded = other.ask("session/load", load).unwrap();
    assert_eq!(current(&loaded, "agent"), Some(json!("second")));
    assert_eq!(other.text(&session), "From the second.");
    editor.ask("session/set_config_option", set("mode", "plan")).unwrap();
    other.until("mode", |message| message["params"]["update"]["currentModeId"] == "plan");
    let told = other
        .until("options", |message| message["params"]["update"]["sessionUpdate"] == "config_option_update");
    assert_eq!(current(&told["params"]["update"], "mode"), Some(json!("plan")));
    let listed = other.ask("session/list", json!({})).unwrap();
    assert!(!ids(&listed).contains(&session.as_str()), "the empty one is not listed: {listed}");
    assert_eq!(ids(&listed).len(), 1);
    // A delete by the id that editors know leaves neither of the two.
    assert_eq!(other.ask("session/delete", json!({"sessionId": session})).unwrap(), json!({}));
    assert_eq!(other.ask("session/list", json!({})).unwrap(), json!({"sessions": []}));
}

#[test]
fn a_prompt_beside_a_change_of_the_agent_has_its_one_answer() {
    let home = Home::new();
    std::fs::write(home.path("turnstream.toml"), TWO_AGENTS).unwrap();
    let config = home.path("turnstream.toml");
    let flags = ["--config", config.to_str().unwrap()];
    let _serving = home.serve(&flags);
    let mut editor = Editor::ready(&home, &flags, json!({}));
    let agent_of = |session: &str| {
        let mut other = Editor::ready(&home, &flags, json!({}));
        let resume = json!({"sessionId": session, "cwd": home.path("work")});
        let resumed = other.ask("session/resume", resume).unwrap();
        let options = resumed["configOptions"].as_array().unwrap();
        options.iter().find(|option| option["id"] == "agent").unwrap()["currentValue"].clone()
    };
    // The prompt is for the agent that was chosen before it.
    let changed = editor.new_session(&home);
    let set = json!({"sessionId": changed, "configId": "agent", "value": "second"});
    let change = editor.request("session/set_config_option", set);
    let turn = editor.play(&changed, &json!([{"do": "text", "text": "After the change."}]));
    editor.answer(change).unwrap();
    assert_eq!(editor.answer(turn).unwrap()["stopReason"], "end_turn");
    assert_eq!(editor.text(&changed), "After the change.");
    assert_eq!(agent_of(&changed), "second");
    // A prompt that is on its way fixes the agent.
    let fixed = editor.new_session(&home);
    let turn = editor.play(&fixed, &json!([{"do": "text", "text": "Before it."}]));
    let set = json!({"sessionId": fixed, "configId": "agent", "value": "second"});
    let change = editor.request("session/set_config_option", set);
    let refused = editor.answer(change).unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("first prompt"), "{refused}");
    assert_eq!(editor.answer(turn).unwrap()["stopReason"], "end_turn");
    assert_eq!(editor.text(&fixed), "Before it.");
    assert_eq!(agent_of(&fixed), "first");
}
