//! The agent waits for a person: permissions and questions, in one editor and in several.

use crate::driver::Editor;
use crate::support::{Home, ask, wait_for};
use serde_json::{Value, json};

fn script() -> Value {
    json!([
        {"do": "tool", "title": "Write a", "ask": true, "effect": {"write": {"path": "a", "text": "t"}}},
        {"do": "text", "text": "Written.", "when": "allowed"},
        {"do": "text", "text": "Not written.", "when": "rejected"},
    ])
}

fn questions() -> Value {
    json!([
        {"do": "question", "questions": [
            {"id": "0", "text": "DB?", "options": [{"label": "PG"}, {"label": "SQLite"}], "multiple": false, "custom": true},
        ]},
        {"do": "text", "text": "Thanks.", "when": "allowed"},
        {"do": "text", "text": "No answer.", "when": "rejected"},
    ])
}

/// The id of the option of a kind.
fn option(request: &Value, kind: &str) -> Value {
    let options = request["params"]["options"].as_array().unwrap();
    options.iter().find(|option| option["kind"] == kind).unwrap()["optionId"].clone()
}

fn choose(editor: &mut Editor, request: &Value, kind: &str) {
    let id = option(request, kind);
    editor.respond(request, json!({"outcome": {"outcome": "selected", "optionId": id}}));
}

#[test]
fn the_editor_decides_about_a_tool_call() {
    let home = Home::new();
    let _serving = home.serve(&[]);
    let mut editor = Editor::ready(&home, &[], json!({}));
    let session = editor.new_session(&home);
    for (kind, text) in [("allow_once", "Written."), ("reject_once", "Not written.")] {
        let turn = editor.play(&session, &script());
        let request = editor.asked("session/request_permission");
        assert_eq!(request["params"]["toolCall"]["title"], "Write a");
        choose(&mut editor, &request, kind);
        assert_eq!(editor.answer(turn).unwrap()["stopReason"], "end_turn");
        assert!(editor.text(&session).ends_with(text), "{}", editor.text(&session));
    }
    assert!(home.path("work/a").exists());
    // A dismissed request stops the turn, and so does a cancel that the editor follows up by the rules.
    let turn = editor.play(&session, &script());
    let request = editor.asked("session/request_permission");
    editor.respond(&request, json!({"outcome": {"outcome": "cancelled"}}));
    assert_eq!(editor.answer(turn).unwrap()["stopReason"], "cancelled");
    let turn = editor.play(&session, &script());
    let request = editor.asked("session/request_permission");
    editor.notify("session/cancel", json!({"sessionId": session}));
    editor.respond(&request, json!({"outcome": {"outcome": "cancelled"}}));
    assert_eq!(editor.answer(turn).unwrap()["stopReason"], "cancelled");
}

#[test]
fn several_editors_see_the_same_turn_and_one_of_them_answers() {
    let home = Home::new();
    let serving = home.serve(&[]);
    let mut first = Editor::ready(&home, &[], json!({}));
    let session = first.new_session(&home);
    let mut second = Editor::ready(&home, &[], json!({}));
    let load = json!({"sessionId": session, "cwd": home.path("work"), "mcpServers": []});
    second.ask("session/load", load.clone()).unwrap();
    let turn = first.play(&session, &script());
    let at_first = first.asked("session/request_permission");
    let at_second = second.asked("session/request_permission");
    assert_eq!(at_first, at_second);
    // A third one comes while the agent waits, and is asked too.
    let mut third = Editor::ready(&home, &[], json!({}));
    third.ask("session/load", load).unwrap();
    let at_third = third.asked("session/request_permission");
    assert_eq!(at_third["id"], at_first["id"]);
    choose(&mut second, &at_second, "allow_once");
    for editor in [&mut first, &mut third] {
        let cancelled = editor.until("cancel", |message| message["method"] == "$/cancel_request");
        assert_eq!(cancelled["params"]["requestId"], at_first["id"]);
        assert_eq!(cancelled["params"]["_meta"]["turnstream"]["outcome"], "allow_once");
    }
    // An answer that comes too late changes nothing.
    choose(&mut first, &at_first, "reject_once");
    assert_eq!(first.answer(turn).unwrap()["stopReason"], "end_turn");
    for editor in [&mut second, &mut third] {
        editor.until_text("Written.");
    }
    for editor in [&first, &second, &third] {
        assert_eq!(editor.text(&session), "Written.");
    }
    let is_cancel = |message: &&Value| message["method"] == "$/cancel_request";
    assert_eq!(second.seen.iter().filter(is_cancel).count(), 0, "it answered itself");

    // Answered by another kind of client.
    let turn = first.play(&session, &script());
    let request = first.asked("session/request_permission");
    let approval = request["id"].as_str().unwrap().rsplit_once('/').unwrap().1;
    let path = format!("/v1/sessions/{session}/approvals/{approval}");
    let (head, _) = ask(&serving.address, "POST", &path, &json!({"outcome": "reject"}));
    assert!(head.starts_with("http/1.1 200"), "{head}");
    first.until("cancel", |message| {
        message["method"] == "$/cancel_request" && message["params"]["requestId"] == request["id"]
    });
    assert_eq!(first.answer(turn).unwrap()["stopReason"], "end_turn");
}

#[test]
fn a_question_is_a_form_for_editors_that_have_forms_and_waits_for_others_otherwise() {
    let home = Home::new();
    let serving = home.serve(&[]);
    let mut editor = Editor::ready(&home, &[], json!({"elicitation": {"form": {}}}));
    let session = editor.new_session(&home);
    for (answer, text) in [
        (json!({"action": "accept", "content": {"0": "PG"}}), "Thanks."),
        (json!({"action": "decline"}), "No answer."),
    ] {
        let turn = editor.play(&session, &questions());
        let form = editor.asked("elicitation/create");
        assert_eq!(form["params"]["message"], "DB?");
        editor.respond(&form, answer);
        assert_eq!(editor.answer(turn).unwrap()["stopReason"], "end_turn");
        assert!(editor.text(&session).ends_with(text), "{}", editor.text(&session));
    }
    let answered = home.run(&["tail", &session, "--no-follow", "--json"]);
    let log = String::from_utf8_lossy(&answered.stdout).into_owned();
    assert!(log.contains(r#""answers":{"0":["PG"]}"#), "{log}");

    // An editor without forms learns of it by a notice, and somebody else answers.
    let mut plain = Editor::ready(&home, &[], json!({"session": {"notices": {}}}));
    let session = plain.new_session(&home);
    let turn = plain.play(&session, &questions());
    let notice = plain.until("notice", |message| message["params"]["update"]["sessionUpdate"] == "notice");
    let title = notice["params"]["update"]["title"].as_str().unwrap().to_owned();
    assert!(title.ends_with(&format!("turnstream answer {session}")), "{title}");
    let question = wait_for(|| {
        let (_, state) =
            ask(&serving.address, "GET", &format!("/v1/sessions/{session}/snapshot"), &Value::Null);
        state["questions"][0]["question"].as_str().map(str::to_owned)
    });
    let path = format!("/v1/sessions/{session}/questions/{question}");
    ask(&serving.address, "POST", &path, &json!({"answers": {"0": ["SQLite"]}}));
    assert_eq!(plain.answer(turn).unwrap()["stopReason"], "end_turn");
    let requests =
        plain.seen.iter().filter(|message| message.get("method").is_some() && message.get("id").is_some());
    assert_eq!(requests.count(), 0, "it announced no form");
}
