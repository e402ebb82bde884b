//! One turn: its updates, its one answer, its end.

use crate::driver::Editor;
use crate::support::{Home, stdout};
use serde_json::{Value, json};

#[test]
fn a_turn_is_answered_once_and_after_all_of_its_updates() {
    let home = Home::new();
    let _serving = home.serve(&[]);
    let mut editor = Editor::ready(&home, &[], json!({}));
    let session = editor.new_session(&home);
    let script = json!([
        {"do": "reasoning", "text": "Hm."},
        {"do": "text", "text": "An answer."},
        {"do": "plan", "text": "- [x] think\n- [ ] act"},
        {"do": "tool", "title": "Write a", "effect": {"write": {"path": "a", "text": "t"}}},
        {"do": "usage", "usage": {"input": 10, "output": 3}},
    ]);
    let turn = editor.play(&session, &script);
    let answer = editor.answer(turn).unwrap();
    assert_eq!(answer["stopReason"], "end_turn");
    assert_eq!(answer["usage"]["totalTokens"], 13);
    // The next turn's answer proves that nothing of this one came after it.
    let next = editor.play(&session, &json!([{"do": "text", "text": " More."}]));
    editor.answer(next).unwrap();
    assert_eq!(editor.text(&session), "An answer. More.");
    assert!(editor.updates("user_message_chunk").is_empty(), "the editor has its own prompts");
    assert_eq!(editor.updates("tool_call").len(), 1);
    assert_eq!(editor.updates("tool_call_update").last().unwrap()["status"], "completed");
    assert!(!editor.updates("plan").is_empty());
    let answers = |id: u64| editor.seen.iter().filter(|message| message["id"] == id).count();
    assert_eq!((answers(turn), answers(next)), (1, 1));
    let between = &editor.seen[editor.place_of_answer(turn)..editor.place_of_answer(next)];
    let late = |message: &&Value| {
        let kind = message["params"]["update"]["sessionUpdate"].as_str().unwrap_or_default();
        kind.starts_with("tool_call") || message["params"]["update"]["content"]["text"] == "An answer."
    };
    assert_eq!(between.iter().filter(late).count(), 0, "{between:?}");
    let extensions = |message: &&Value| message["method"].as_str().is_some_and(|name| name.starts_with('_'));
    assert_eq!(editor.seen.iter().filter(extensions).count(), 0, "it announced none");
}

#[test]
fn a_cancel_is_answered_cancelled_whatever_the_agent_makes_of_it() {
    let home = Home::new();
    let _serving = home.serve(&[]);
    let mut editor = Editor::ready(&home, &[], json!({}));
    let session = editor.new_session(&home);
    let turn = editor.play(&session, &json!([{"do": "text", "text": "begun"}, {"do": "stall"}]));
    // It waits in the queue behind the first one.
    let queued = editor.play(&session, &json!([{"do": "text", "text": "never"}]));
    editor.until_text("begun");
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(editor.answer(turn).unwrap()["stopReason"], "cancelled");
    assert_eq!(editor.answer(queued).unwrap()["stopReason"], "cancelled");
    // A cancel that comes with the prompt.
    let turn = editor.play(&session, &json!([{"do": "stall"}]));
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(editor.answer(turn).unwrap()["stopReason"], "cancelled");
    // A cancel of the request itself.
    let turn = editor.play(&session, &json!([{"do": "text", "text": "again"}, {"do": "stall"}]));
    editor.until_text("again");
    editor.notify("$/cancel_request", json!({"requestId": turn}));
    assert_eq!(editor.answer(turn).unwrap()["stopReason"], "cancelled");
    // Nothing is open: nothing happens, and the session goes on.
    editor.notify("session/cancel", json!({"sessionId": session}));
    let turn = editor.play(&session, &json!([{"do": "text", "text": "done"}]));
    assert_eq!(editor.answer(turn).unwrap()["stopReason"], "end_turn");
    assert_eq!(editor.text(&session), "begunagaindone");
}

#[test]
fn a_failed_turn_is_an_error_with_its_class_and_a_limit_is_a_stop_reason() {
    let home = Home::new();
    let _serving = home.serve(&[]);
    let mut editor = Editor::ready(&home, &[], json!({}));
    let session = editor.new_session(&home);
    let turn = editor.play(&session, &json!([{"do": "fail", "class": "overloaded", "message": "too busy"}]));
    let error = editor.answer(turn).unwrap_err();
    assert_eq!((&error["message"], &error["data"]["class"]), (&json!("too busy"), &json!("overloaded")));
    let turn = editor.play(&session, &json!([{"do": "end", "stop_reason": "max_tokens"}]));
    assert_eq!(editor.answer(turn).unwrap()["stopReason"], "max_tokens");
    let turn = editor.play(&session, &json!([{"do": "crash", "message": "it died"}]));
    let error = editor.answer(turn).unwrap_err();
    assert_eq!((&error["code"], &error["data"]["outcome"]), (&json!(-3), &json!("lost")), "{error}");
    let empty = editor.ask("session/prompt", json!({"sessionId": session, "prompt": []}));
    assert_eq!(empty.unwrap_err()["code"], -32602);
}

#[test]
fn a_retry_is_a_notice_for_editors_that_show_notices() {
    let home = Home::new();
    let _serving = home.serve(&[]);
    let script = json!([
        {"do": "attempt", "model": "m"},
        {"do": "text", "text": "This is void", "unfinished": true},
        {"do": "retry", "attempt": 2, "reason": "overloaded", "wait_ms": 1},
        {"do": "text", "text": "Second."},
        {"do": "attempt_end", "finish": "stop"},
    ]);
    for (capabilities, expected) in [(json!({"session": {"notices": {}}}), 1), (json!({}), 0)] {
        let mut editor = Editor::ready(&home, &[], capabilities);
        let session = editor.new_session(&home);
        let turn = editor.play(&session, &script);
        assert_eq!(editor.answer(turn).unwrap()["stopReason"], "end_turn");
        let notices = editor.updates("notice");
        assert_eq!(notices.len(), expected, "{notices:?}");
        if let Some(notice) = notices.first() {
            assert_eq!(notice["severity"], "warning");
            assert_eq!(notice["title"], "Retrying the model call after overloaded, attempt 2");
        }
    }
}

#[test]
fn an_editor_with_our_extensions_sees_the_end_of_turns_that_others_asked_for() {
    let home = Home::new();
    let _serving = home.serve(&[]);
    let mut first = Editor::ready(&home, &[], json!({}));
    let session = first.new_session(&home);
    let mut second = Editor::ready(&home, &[], json!({"_meta": {"turnstream": {}}}));
    let resume = json!({"sessionId": session, "cwd": home.path("work")});
    second.ask("session/resume", resume).unwrap();
    let turn = first.play(&session, &json!([{"do": "text", "text": "For both."}]));
    assert_eq!(first.answer(turn).unwrap()["stopReason"], "end_turn");
    let ended = second.until("end", |message| message["method"] == "_turnstream/turn_ended");
    assert_eq!(ended["params"]["result"]["stopReason"], "end_turn");
    assert_eq!(second.text(&session), "For both.");
    assert_eq!(second.updates("user_message_chunk").len(), 1, "the prompt of the other editor");
    assert!(second.seen.iter().any(|message| message["method"] == "_turnstream/status"));
}

#[test]
fn a_cancel_gives_up_the_continuation_of_a_failed_turn() {
    let home = Home::new();
    let file = "[agents.demo]\nkind = \"scripted\"\non_limit = \"wait\"\n";
    std::fs::write(home.path("turnstream.toml"), file).unwrap();
    let config = home.path("turnstream.toml");
    let flags = ["--config", config.to_str().unwrap()];
    let _serving = home.serve(&flags);
    let extensions = json!({"_meta": {"turnstream": {}}});
    let status = |editor: &mut Editor, status: &str| {
        editor.until(status, |message| {
            message["method"] == "_turnstream/status" && message["params"]["status"] == status
        })
    };
    let limit = json!([
        {"do": "fail", "class": "rate_limited", "message": "later", "retry_in_ms": 86_400_000}
    ]);
    let mut editor = Editor::ready(&home, &flags, extensions.clone());
    let session = editor.new_session(&home);
    let turn = editor.play(&session, &limit);
    editor.answer(turn).unwrap_err();
    status(&mut editor, "retrying");
    editor.notify("session/cancel", json!({"sessionId": session}));
    status(&mut editor, "idle");
    // The same by an editor that comes when the session waits already.
    let turn = editor.play(&session, &limit);
    editor.answer(turn).unwrap_err();
    status(&mut editor, "retrying");
    let mut other = Editor::ready(&home, &flags, extensions);
    other.ask("session/resume", json!({"sessionId": session, "cwd": home.path("work")})).unwrap();
    other.notify("session/cancel", json!({"sessionId": session}));
    status(&mut other, "idle");
    let log = home.run(&["tail", &session, "--json", "--no-follow"]);
    let log: Vec<Value> = stdout(&log).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let released = log.iter().filter(|event| event["type"] == "unattended.released");
    assert_eq!(released.map(|event| &event["outcome"]).collect::<Vec<_>>(), ["cancelled", "cancelled"]);
    assert!(!log.iter().any(|event| event["type"] == "prompt.continues"), "{log:#?}");
}
