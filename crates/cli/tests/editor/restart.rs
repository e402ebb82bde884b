//! A gateway that is killed while editors follow a turn.

use crate::driver::Editor;
use crate::support::{Home, stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};

#[test]
fn a_turn_goes_on_over_a_kill_of_the_gateway_with_nothing_lost_or_doubled() {
    let home = Home::new();
    let serving = home.serve(&[]);
    let notices = json!({"session": {"notices": {}}});
    let mut editor = Editor::ready(&home, &[], notices);
    let session = editor.new_session(&home);
    let script = json!([
        {"do": "text", "text": "Before. "},
        {"do": "tool", "title": "Count", "effect": {"append": {"path": "runs", "text": "run\n"}}},
        {"do": "tool", "title": "Ask", "ask": true, "effect": {"append": {"path": "runs", "text": "ask\n"}}},
        {"do": "text", "text": "After."},
    ]);
    let turn = editor.play(&session, &script);
    let request = editor.asked("session/request_permission");
    // Another one watches.
    let mut watcher = Editor::ready(&home, &[], json!({}));
    let load = json!({"sessionId": session, "cwd": home.path("work"), "mcpServers": []});
    watcher.ask("session/load", load).unwrap();
    serving.end(Signal::KILL);
    editor.until("notice", |message| {
        let title = message["params"]["update"]["title"].as_str().unwrap_or_default();
        title.starts_with("The gateway does not answer")
    });
    // The next one listens at another port.
    let _serving = home.serve(&[]);
    editor.until("notice", |message| message["params"]["update"]["title"] == "The gateway is back.");
    let id = request["params"]["options"][0]["optionId"].clone();
    assert_eq!(request["params"]["options"][0]["kind"], "allow_once");
    editor.respond(&request, json!({"outcome": {"outcome": "selected", "optionId": id}}));
    assert_eq!(editor.answer(turn).unwrap()["stopReason"], "end_turn");
    watcher.until_text("After.");
    for one in [&editor, &watcher] {
        assert_eq!(one.text(&session), "Before. After.");
        let calls = one.updates("tool_call");
        assert_eq!(calls.len(), 2, "{calls:?}");
        let asked = |message: &&Value| message["method"] == "session/request_permission";
        assert_eq!(one.seen.iter().filter(asked).count(), 1);
    }
    let runs = std::fs::read_to_string(home.path("work/runs")).unwrap();
    assert_eq!(runs, "run\nask\n");
    let answers = editor.seen.iter().filter(|message| message["id"] == turn).count();
    assert_eq!(answers, 1);
}

#[test]
fn an_answer_and_a_cancel_that_are_given_while_the_gateway_is_away_arrive_when_it_is_back() {
    let home = Home::new();
    let serving = home.serve(&[]);
    let mut editor = Editor::ready(&home, &[], json!({"session": {"notices": {}}}));
    let (asking, stalling) = (editor.new_session(&home), editor.new_session(&home));
    let script = json!([
        {"do": "tool", "title": "Ask", "ask": true, "effect": {"append": {"path": "runs", "text": "ask\n"}}},
        {"do": "text", "text": "Done."},
    ]);
    let asked = editor.play(&asking, &script);
    let request = editor.asked("session/request_permission");
    let stalled = editor.play(&stalling, &json!([{"do": "text", "text": "begun"}, {"do": "stall"}]));
    editor.until_text("begun");
    serving.end(Signal::KILL);
    for _ in 0..2 {
        editor.until("notice", |message| message["params"]["update"]["sessionUpdate"] == "notice");
    }
    let id = request["params"]["options"][0]["optionId"].clone();
    editor.respond(&request, json!({"outcome": {"outcome": "selected", "optionId": id}}));
    editor.notify("session/cancel", json!({"sessionId": stalling}));
    let _serving = home.serve(&[]);
    assert_eq!(editor.answer(asked).unwrap()["stopReason"], "end_turn");
    assert_eq!(editor.answer(stalled).unwrap()["stopReason"], "cancelled");
    assert_eq!(editor.text(&asking), "Done.");
    assert_eq!(std::fs::read_to_string(home.path("work/runs")).unwrap(), "ask\n");
}

#[test]
fn a_prompt_that_is_sent_while_the_gateway_is_away_runs_once_when_it_is_back() {
    let home = Home::new();
    let serving = home.serve(&[]);
    let mut editor = Editor::ready(&home, &[], json!({"session": {"notices": {}}}));
    let session = editor.new_session(&home);
    serving.end(Signal::KILL);
    editor.until("notice", |message| message["params"]["update"]["sessionUpdate"] == "notice");
    let turn = editor.play(&session, &json!([{"do": "text", "text": "Late."}]));
    let _serving = home.serve(&[]);
    assert_eq!(editor.answer(turn).unwrap()["stopReason"], "end_turn");
    assert_eq!(editor.text(&session), "Late.");
}

fn log(home: &Home, session: &str) -> Vec<Value> {
    let log = home.run(&["tail", session, "--json", "--no-follow"]);
    stdout(&log).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn away(editor: &mut Editor, session: &str) {
    editor.until("notice", |message| {
        let title = message["params"]["update"]["title"].as_str().unwrap_or_default();
        message["params"]["sessionId"] == session && title.starts_with("The gateway does not answer")
    });
}

#[test]
fn a_prompt_that_was_given_up_is_cancelled_when_the_gateway_is_back() {
    let home = Home::new();
    let serving = home.serve(&[]);
    let notices = json!({"session": {"notices": {}}});
    let stall = |words: &str| json!([{"do": "text", "text": words}, {"do": "stall"}]);
    let mut patient = Editor::ready(&home, &[], notices.clone());
    let busy = patient.new_session(&home);
    let theirs = patient.play(&busy, &stall("of another"));
    patient.until_text("of another");
    let mut editor = Editor::ready(&home, &["--patience", "500ms"], notices);
    let (running, unsent) = (editor.new_session(&home), editor.new_session(&home));
    editor.ask("session/resume", json!({"sessionId": busy, "cwd": home.path("work")})).unwrap();
    let in_turn = editor.play(&running, &stall("begun"));
    editor.until_text("begun");
    let queued = editor.play(&busy, &json!([{"do": "text", "text": "never"}]));
    wait_for(|| {
        let accepted = log(&home, &busy).iter().filter(|event| event["type"] == "prompt.accepted").count();
        (accepted == 2).then_some(())
    });
    serving.end(Signal::KILL);
    away(&mut editor, &unsent);
    let late = editor.play(&unsent, &json!([{"do": "text", "text": "never"}]));
    for prompt in [in_turn, queued, late] {
        let error = editor.answer(prompt).unwrap_err();
        assert_eq!((&error["code"], &error["data"]["class"]), (&json!(-3), &json!("unreachable")), "{error}");
    }
    let _serving = home.serve(&[]);
    let last = |session: &str, kind: &str| {
        wait_for(|| log(&home, session).into_iter().rfind(|event| event["type"] == kind))
    };
    assert_eq!(last(&running, "turn.ended")["outcome"], "cancelled");
    assert_eq!(last(&busy, "prompt.withdrawn")["prompt"], "p2");
    // The turn of the other editor goes on, and the session that was never prompted is free.
    patient.notify("session/cancel", json!({"sessionId": busy}));
    assert_eq!(patient.answer(theirs).unwrap()["stopReason"], "cancelled");
    patient.ask("session/resume", json!({"sessionId": unsent, "cwd": home.path("work")})).unwrap();
    let next = patient.play(&unsent, &json!([{"do": "text", "text": "Next."}]));
    assert_eq!(patient.answer(next).unwrap()["stopReason"], "end_turn");
    assert_eq!(patient.text(&unsent), "Next.");
    let accepted = log(&home, &unsent).iter().filter(|event| event["type"] == "prompt.accepted").count();
    assert_eq!(accepted, 1, "the prompt that was given up never reached the gateway");
    // The editor can go on with the session whose turn was given up.
    editor.ask("session/resume", json!({"sessionId": running, "cwd": home.path("work")})).unwrap();
    let next = editor.play(&running, &json!([{"do": "text", "text": " Again."}]));
    assert_eq!(editor.answer(next).unwrap()["stopReason"], "end_turn");
    assert_eq!(editor.text(&running), "begun Again.");
}

#[test]
fn a_cancel_of_a_turn_of_others_is_kept_while_the_gateway_is_away() {
    let home = Home::new();
    let serving = home.serve(&[]);
    let notices = json!({"session": {"notices": {}}});
    let mut editor = Editor::ready(&home, &[], notices.clone());
    let session = editor.new_session(&home);
    let turn = editor.play(&session, &json!([{"do": "text", "text": "begun"}, {"do": "stall"}]));
    let mut watcher = Editor::ready(&home, &[], notices);
    let load = json!({"sessionId": session, "cwd": home.path("work"), "mcpServers": []});
    watcher.ask("session/load", load).unwrap();
    watcher.until_text("begun");
    serving.end(Signal::KILL);
    away(&mut watcher, &session);
    watcher.notify("session/cancel", json!({"sessionId": session}));
    // Its answer says that the cancel before it was read.
    watcher.ask("session/list", json!({})).unwrap_err();
    let _serving = home.serve(&[]);
    assert_eq!(editor.answer(turn).unwrap()["stopReason"], "cancelled");
}
