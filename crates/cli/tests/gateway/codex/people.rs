//! A person in a turn of Codex: permissions, a cancel, a question, other models and modes.

use super::{Lab, accepted, answers, items, of_type, outcomes, shell};
use crate::support::{Serving, ask, wait_for};
use serde_json::{Value, json};
use turnstream_fake_provider::{Completion, Part, Step};

/// The first open approval of a session, once there is one.
pub(super) fn approval(lab: &Lab, session: &str) -> Value {
    wait_for(|| {
        let log = lab.log(session);
        let resolved = of_type(&log, "approval.resolved");
        let is_open = |asked: &&&Value| !resolved.iter().any(|event| event["approval"] == asked["approval"]);
        of_type(&log, "approval.requested").iter().find(is_open).map(|asked| (*asked).clone())
    })
}

pub(super) fn resolve(serving: &Serving, session: &str, approval: &Value, body: &Value) {
    let id = approval["approval"].as_str().unwrap();
    let path = format!("/v1/sessions/{session}/approvals/{id}");
    let (head, answer) = ask(&serving.address, "POST", &path, body);
    assert!(head.starts_with("http/1.1 2"), "{head} {answer}");
}

fn change(serving: &Serving, session: &str, change: &Value) {
    let (head, answer) = ask(&serving.address, "PATCH", &format!("/v1/sessions/{session}"), change);
    assert!(head.starts_with("http/1.1 2"), "{head} {answer}");
}

#[test]
fn a_turn_has_text_tools_diffs_usage_and_one_end_and_the_next_one_goes_on() {
    let patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: notes.txt\n@@\n-one\n+two\n\
                 *** Add File: new.txt\n+new\n*** Delete File: old.txt\n*** End Patch\nEOF\n";
    let lab = Lab::new([
        shell("cat notes.txt"),
        shell(patch),
        Step::text("Done."),
        Step::text("Still here.").always(),
    ]);
    for (name, text) in [("notes.txt", "one\n"), ("old.txt", "old\n")] {
        std::fs::write(lab.home.path("work").join(name), text).unwrap();
    }
    let serving = lab.serve();
    let session = lab.session(&serving);
    accepted(&serving, &session, "Change the notes");
    let log = lab.ended(&session, 1);
    assert_eq!(outcomes(&log), ["completed"], "{log:#?}");
    assert_eq!(lab.work("notes.txt"), "two\n");
    assert_eq!(answers(&serving, &session), ["I run it.", "I run it.", "Done."]);
    let items = items(&serving, &session);
    let tools: Vec<&Value> =
        items.iter().filter(|item| item["kind"] == "tool").map(|item| &item["tool"]).collect();
    assert_eq!(
        tools.iter().map(|tool| tool["title"].as_str().unwrap()).collect::<Vec<_>>(),
        ["Read notes.txt", "Edit 3 files"]
    );
    assert_eq!(tools[0]["output"]["output"], "one\n");
    let diff = |name: &str| {
        let mut diffs = tools[1]["content"].as_array().unwrap().iter();
        let diff = diffs.find(|diff| diff["path"].as_str().unwrap().ends_with(name)).unwrap();
        (diff["oldText"].clone(), diff["newText"].clone())
    };
    assert_eq!(diff("notes.txt"), (json!("one\n"), json!("two\n")), "{tools:#?}");
    assert_eq!(diff("new.txt"), (Value::Null, json!("new\n")), "{tools:#?}");
    assert_eq!(diff("old.txt"), (json!("old\n"), json!("")), "{tools:#?}");
    let usage = &of_type(&log, "turn.ended")[0]["usage"];
    assert!(usage["input"].as_u64().unwrap() > 0 && usage["output"].as_u64().unwrap() > 0, "{usage}");
    assert_eq!(of_type(&log, "attempt.ended").len(), 3);

    accepted(&serving, &session, "Are you there?");
    assert_eq!(outcomes(&lab.ended(&session, 2)), ["completed"; 2]);
    assert_eq!(answers(&serving, &session).last().unwrap(), "Still here.");
    let asked = lab.provider.calls().last().unwrap().asked.user_texts.join("\n");
    assert!(asked.contains("Change the notes") && asked.contains("Are you there?"), "{asked}");
}

#[test]
fn a_permission_is_allowed_for_the_session_rejected_or_stops_the_turn() {
    let lab = Lab::new([
        shell("touch one.txt"),
        Step::text("One."),
        shell("touch one.txt"),
        Step::text("One again."),
        shell("touch two.txt"),
        Step::text("Not two."),
        shell("touch three.txt"),
        Step::text("Go on.").always(),
    ]);
    let serving = lab.serve();
    let session = lab.session_with(&serving, json!({"permissions": "ask"}));
    accepted(&serving, &session, "First");
    let asked = approval(&lab, &session);
    assert_eq!(asked["tool"]["title"], "Run touch one.txt", "{asked:#}");
    resolve(&serving, &session, &asked, &json!({"outcome": "allow_always"}));
    lab.ended(&session, 1);
    // It was allowed for the session.
    accepted(&serving, &session, "Second");
    assert_eq!(of_type(&lab.ended(&session, 2), "approval.requested").len(), 1);

    accepted(&serving, &session, "Third");
    let asked = approval(&lab, &session);
    resolve(&serving, &session, &asked, &json!({"outcome": "reject"}));
    let log = lab.ended(&session, 3);
    assert_eq!(outcomes(&log), ["completed"; 3], "{log:#?}");
    assert!(!lab.home.path("work").join("two.txt").exists());

    accepted(&serving, &session, "Fourth");
    let asked = approval(&lab, &session);
    resolve(&serving, &session, &asked, &json!({"outcome": "reject", "option": "stop"}));
    let log = lab.ended(&session, 4);
    assert_eq!(outcomes(&log).last().unwrap(), &"cancelled", "{log:#?}");
    assert!(!lab.home.path("work").join("three.txt").exists());
}

#[test]
fn a_cancel_ends_the_turn_and_what_became_of_its_command_is_unknown() {
    let lab = Lab::new([shell("echo begun > begun.txt; sleep 300"), Step::text("Yes.").always()]);
    let serving = lab.serve();
    let session = lab.session(&serving);
    accepted(&serving, &session, "Wait");
    wait_for(|| (lab.work("begun.txt") == "begun\n").then_some(()));
    let (head, answer) = ask(&serving.address, "POST", &format!("/v1/sessions/{session}/cancel"), &json!({}));
    assert!(head.starts_with("http/1.1 2"), "{head} {answer}");
    let log = lab.ended(&session, 1);
    assert_eq!(outcomes(&log), ["cancelled"], "{log:#?}");
    assert_eq!(tool_end(&log)["state"], "unknown");
    accepted(&serving, &session, "Are you there?");
    assert_eq!(outcomes(&lab.ended(&session, 2)), ["cancelled", "completed"]);
}

#[test]
fn a_command_that_goes_on_after_its_turn_is_unknown_until_it_has_ended() {
    // Codex waits for a command for so long, and then goes on without it.
    let arguments = json!({"cmd": "while [ ! -e go ]; do sleep 0.1; done; echo done > done.txt; echo late",
        "yield_time_ms": 250, "sandbox_permissions": "require_escalated", "justification": "As told"});
    let call = Part::tool_call("exec_command", arguments);
    let lab = Lab::new([Step::new(Completion::of([call])), Step::text("It runs.").always()]);
    let serving = lab.serve();
    let session = lab.session(&serving);
    accepted(&serving, &session, "Start it");
    let log = lab.ended(&session, 1);
    assert_eq!(outcomes(&log), ["completed"], "{log:#?}");
    let ended = tool_end(&log);
    assert_eq!(ended["state"], "unknown");
    std::fs::write(lab.home.path("work").join("go"), "").unwrap();
    let revised =
        wait_for(|| of_type(&lab.log(&session), "item.revised").first().map(|event| (*event).clone()));
    assert_eq!((&revised["item"], &revised["late"]), (&ended["item"], &json!(true)), "{revised:#}");
    assert_eq!(revised["state"], "completed");
    assert_eq!(revised["tool"]["output"]["output"], "late\n");
    assert_eq!(lab.work("done.txt"), "done\n");
}

/// The end of the only tool call.
fn tool_end(log: &[Value]) -> Value {
    let tool = of_type(log, "item.started").into_iter().find(|item| item["kind"] == "tool").unwrap();
    of_type(log, "item.ended").into_iter().find(|item| item["item"] == tool["item"]).unwrap().clone()
}

#[test]
fn in_plan_mode_codex_asks_questions_and_the_answer_reaches_the_model() {
    let question = json!({"id": "drink", "header": "Drink", "question": "Tea or coffee?",
        "options": [{"label": "Tea", "description": "Hot"}, {"label": "Coffee", "description": "Hotter"}]});
    let call = Part::tool_call("request_user_input", json!({"questions": [question]}));
    let lab = Lab::new([Step::new(Completion::of([call])), Step::text("As you like.").always()]);
    let serving = lab.serve();
    let session = lab.session_with(&serving, json!({"permissions": "ask"}));
    change(&serving, &session, &json!({"mode": "plan"}));
    accepted(&serving, &session, "Ask me");
    let asked =
        wait_for(|| of_type(&lab.log(&session), "question.asked").first().map(|asked| (*asked).clone()));
    assert_eq!(asked["questions"][0]["text"], "Tea or coffee?", "{asked:#}");
    let path = format!("/v1/sessions/{session}/questions/{}", asked["question"].as_str().unwrap());
    let (head, answer) = ask(&serving.address, "POST", &path, &json!({"answers": {"drink": ["Tea"]}}));
    assert!(head.starts_with("http/1.1 2"), "{head} {answer}");
    let log = lab.ended(&session, 1);
    assert_eq!(outcomes(&log), ["completed"], "{log:#?}");
    assert!(lab.provider.calls().last().unwrap().body.to_string().contains("Tea"), "the answer was sent");
}

#[test]
fn a_session_chooses_its_model_and_mode_and_changes_them_between_turns() {
    let call = Part::tool_call("exec_command", json!({"cmd": "touch made.txt"}));
    let lab = Lab::new([Step::text("One."), Step::new(Completion::of([call])), Step::text("Two.").always()]);
    let serving = lab.serve();
    let session = lab.session_with(&serving, json!({"model": "gpt-5.1-codex", "permissions": "ask"}));
    accepted(&serving, &session, "First");
    lab.ended(&session, 1);
    assert_eq!(lab.provider.calls().last().unwrap().asked.model, "gpt-5.1-codex");
    change(&serving, &session, &json!({"model": "gpt-5.5", "mode": "full-access"}));
    accepted(&serving, &session, "Second");
    let log = lab.ended(&session, 2);
    assert_eq!(outcomes(&log), ["completed"; 2], "{log:#?}");
    assert_eq!(of_type(&log, "approval.requested").len(), 0, "the mode asks for nothing");
    assert!(lab.home.path("work").join("made.txt").exists());
    assert_eq!(lab.provider.calls().last().unwrap().asked.model, "gpt-5.5");
    let (_, agents) = ask(&serving.address, "GET", "/v1/agents", &json!({}));
    let codex = agents["agents"].as_array().unwrap().iter().find(|agent| agent["name"] == "codex").unwrap();
    assert!(codex["models"].as_array().is_some_and(|models| !models.is_empty()), "{codex:#}");
}
