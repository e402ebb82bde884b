//! Permissions, questions, cancels, resumes and settings, with claude-agent-acp.

use super::{Lab, accepted, of_type, outcomes, post, prompt, shell};
use crate::support::{ask, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use turnstream_fake_provider::{Completion, Fault, Part, Step};
use turnstream_testkit::agents::AcpAgent;

/// An answer that stops in the middle.
fn stalled() -> Step {
    let text = "Word by word, and then nothing more. ".repeat(20);
    Step::text(&text).fault(Fault::Stall { after: 1_500, lasts_ms: None, comment_every_ms: None })
}

#[test]
fn a_permission_is_asked_for_and_its_answer_decides() {
    let lab = Lab::new([
        shell("touch one.txt"),
        Step::text("Made."),
        shell("touch two.txt"),
        Step::text("Not made."),
    ]);
    let serving = lab.serve();
    let session = lab.session(&serving, "ask");
    accepted(&serving, &session, "Make one");
    let asked = lab.first(&session, "approval.requested");
    let kinds: Vec<&str> =
        asked["options"].as_array().unwrap().iter().map(|option| option["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"allow_once") && kinds.contains(&"reject_once"), "{asked}");
    assert!(asked["item"].is_string(), "{asked}");
    let approval = |log: &[Value], nth: usize| -> Option<String> {
        of_type(log, "approval.requested").get(nth)?["approval"].as_str().map(str::to_owned)
    };
    let first = approval(&lab.log(&session), 0).unwrap();
    post(&serving, &session, &format!("approvals/{first}"), &json!({"outcome": "allow_once"}));
    lab.ended(&session, 1);
    assert!(lab.home.path("work").join("one.txt").exists());
    accepted(&serving, &session, "Make two");
    let second = wait_for(|| approval(&lab.log(&session), 1));
    post(&serving, &session, &format!("approvals/{second}"), &json!({"outcome": "reject"}));
    let log = lab.ended(&session, 2);
    assert_eq!(outcomes(&log), ["completed", "completed"]);
    assert!(!lab.home.path("work").join("two.txt").exists());
    let failed: Vec<&Value> =
        of_type(&log, "item.ended").into_iter().filter(|end| end["state"] == "failed").collect();
    assert_eq!(failed.len(), 1, "{log:#?}");
    serving.end(Signal::TERM);
    wait_for(|| lab.processes().is_empty().then_some(()));
}

#[test]
fn a_question_is_a_form_and_its_answer_reaches_the_model() {
    let options = ["Tea", "Coffee"].map(|label| json!({"label": label, "description": label}));
    let question =
        json!({"question": "Tea or coffee?", "header": "Drink", "options": options, "multiSelect": false});
    let call = Part::tool_call("AskUserQuestion", json!({"questions": [question]}));
    let lab = Lab::new([Step::new(Completion::of([call])), Step::text("Coffee it is.")]);
    let serving = lab.serve();
    let session = lab.session(&serving, "ask");
    accepted(&serving, &session, "Ask me");
    let asked = lab.first(&session, "question.asked");
    let first = &asked["questions"][0];
    let labels: Vec<&str> =
        first["options"].as_array().unwrap().iter().map(|option| option["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["Tea", "Coffee"], "{asked}");
    let (id, question) = (first["id"].as_str().unwrap(), asked["question"].as_str().unwrap());
    post(&serving, &session, &format!("questions/{question}"), &json!({"answers": {id: ["Coffee"]}}));
    let log = lab.ended(&session, 1);
    assert_eq!(outcomes(&log), ["completed"]);
    let sent = lab.provider.calls().last().unwrap().body.clone();
    assert!(sent.to_string().contains("Coffee"), "the model got no answer");
}

#[test]
fn a_cancelled_turn_ends_and_the_next_one_works() {
    let lab = Lab::new([stalled(), Step::text("Still here.")]);
    let serving = lab.serve();
    let session = lab.session(&serving, "allow");
    accepted(&serving, &session, "Write");
    lab.first(&session, "item.delta");
    post(&serving, &session, "cancel", &json!({}));
    lab.ended(&session, 1);
    accepted(&serving, &session, "Are you there?");
    let log = lab.ended(&session, 2);
    assert_eq!(outcomes(&log), ["cancelled", "completed"]);
}

/// The process is killed, and later the gateway is stopped. Both times the conversation goes on.
#[test]
fn a_session_goes_on_after_its_process_was_killed_and_after_a_restart() {
    let lab = Lab::new([
        Step::text("First answer."),
        stalled(),
        Step::text("Third answer."),
        Step::text("Fourth answer."),
    ]);
    let serving = lab.serve();
    let session = lab.session(&serving, "allow");
    accepted(&serving, &session, "One");
    lab.ended(&session, 1);
    accepted(&serving, &session, "Two");
    wait_for(|| {
        let log = lab.log(&session);
        let started = log.iter().rposition(|event| event["type"] == "turn.started")?;
        log[started..].iter().any(|event| event["type"] == "item.delta").then_some(())
    });
    for (process, _) in lab.processes() {
        // One that ended with another is no longer there.
        let _ = rustix::process::kill_process(rustix::process::Pid::from_raw(process).unwrap(), Signal::KILL);
    }
    let log = lab.ended(&session, 2);
    assert_eq!(of_type(&log, "turn.ended")[1]["error"]["class"], "agent_exited");
    accepted(&serving, &session, "Three");
    lab.ended(&session, 3);
    serving.end(Signal::TERM);
    wait_for(|| lab.processes().is_empty().then_some(()));
    let serving = lab.serve();
    accepted(&serving, &session, "Four");
    let log = lab.ended(&session, 4);
    assert_eq!(outcomes(&log), ["completed", "lost", "completed", "completed"]);
    // The agent resumed its session: the model gets the first prompt and its answer again.
    let is_title = |text: &String| AcpAgent::TITLE_TEXTS.iter().any(|title| text.contains(title));
    let calls = lab.provider.calls().into_iter();
    let mut calls = calls.filter(|call| !call.asked.user_texts.iter().any(is_title));
    let sent = calls.next_back().unwrap().body.to_string();
    assert!(sent.contains("First answer.") && sent.contains("Four"), "{sent}");
    // Nothing of the history is in the log a second time.
    let texts: Vec<&str> = log
        .iter()
        .filter(|event| event["type"] == "item.delta")
        .filter_map(|event| event["text"].as_str())
        .collect();
    assert_eq!(texts.concat().matches("First answer.").count(), 1, "{texts:?}");
}

#[test]
fn models_and_modes_are_offered_and_content_is_checked_at_the_door() {
    let lab = Lab::new([Step::text("Hello."), Step::text("Planned.")]);
    let serving = lab.serve();
    let session = lab.session(&serving, "allow");
    accepted(&serving, &session, "Greet me");
    lab.ended(&session, 1);
    let (_, agents) = ask(&serving.address, "GET", "/v1/agents", &Value::Null);
    let agent = &agents["agents"][0];
    let ids = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|choice| choice["id"].as_str().unwrap().to_owned()).collect()
    };
    assert!(ids(&agent["modes"]).contains(&"plan".to_owned()), "{agent}");
    assert!(!ids(&agent["models"]).is_empty(), "{agent}");
    assert_eq!(agent["version"], "0.99.1");
    assert!(agent["problem"].is_null() && agent["notice"].is_null(), "{agent}");
    let path = format!("/v1/sessions/{session}");
    let (head, answer) = ask(&serving.address, "PATCH", &path, &json!({"mode": "plan"}));
    assert!(head.starts_with("http/1.1 200 "), "{head} {answer}");
    accepted(&serving, &session, "Plan");
    lab.ended(&session, 2);
    let log = lab.log(&session);
    let mode = of_type(&log, "session.updated").into_iter().rev().find_map(|event| event["mode"].as_str());
    assert_eq!(mode, Some("plan"));
    let audio = json!({"content": [{"type": "audio", "data": "AA==", "mimeType": "audio/wav"}]});
    let (head, answer) = ask(&serving.address, "POST", &format!("{path}/prompts"), &audio);
    assert!(head.starts_with("http/1.1 4"), "{head} {answer}");
    assert!(answer.to_string().contains("resource_link"), "{answer}");
    let (head, _) = prompt(&serving, &session, "Greet me");
    assert!(head.starts_with("http/1.1 2"), "the key is known: {head}");
}

/// An agent that can neither resume nor load sessions: the real one, behind a filter that hides that it can.
#[test]
fn a_session_that_its_agent_cannot_resume_refuses_prompts_until_a_client_chooses_how_to_go_on() {
    let lab = Lab::new([Step::text("The word is plum."), stalled(), Step::text("It was plum.").always()]);
    let (program, arguments) = lab.agent.command().unwrap();
    let hides = r#"sed -u 's/"loadSession":true/"loadSession":false/; s/"resume":{}/"resume":null/'"#;
    let filtered = format!("'{}' {} | {hides}", program.display(), arguments.join(" "));
    let config = std::fs::read_to_string(lab.home.path("turnstream.toml")).unwrap();
    let shell = format!("command = {:?}", ["/bin/sh", "-c", &filtered]);
    let line = |line: &str| if line.starts_with("command = ") { shell.clone() } else { line.to_owned() };
    let config: Vec<String> = config.lines().map(line).collect();
    std::fs::write(lab.home.path("turnstream.toml"), config.join("\n")).unwrap();

    let serving = lab.serve();
    let session = lab.session(&serving, "allow");
    accepted(&serving, &session, "One");
    lab.ended(&session, 1);
    accepted(&serving, &session, "Two");
    wait_for(|| (of_type(&lab.log(&session), "turn.started").len() == 2).then_some(()));
    serving.end(Signal::KILL);
    let serving = lab.serve();
    assert_eq!(outcomes(&lab.ended(&session, 2)), ["completed", "lost"]);
    // That the agent has forgotten is seen when it is started: by the link that is up, and by the next one.
    let mut refused = Value::Null;
    for turns in 3.. {
        let (head, answer) = prompt(&serving, &session, &format!("Turn {turns}"));
        if head.starts_with("http/1.1 409 ") {
            refused = answer;
            break;
        }
        assert!(turns < 5, "{head} {answer}");
        assert_eq!(outcomes(&lab.ended(&session, turns)).last(), Some(&"failed"));
    }
    assert!(refused["type"].as_str().unwrap().ends_with("agent-forgot"), "{refused}");
    post(&serving, &session, "resume", &json!({"as": "transcript"}));
    accepted(&serving, &session, "What was it?");
    wait_for(|| (outcomes(&lab.log(&session)).last() == Some(&"completed")).then_some(()));
    let calls: Vec<String> =
        lab.provider.calls().iter().map(|call| call.asked.user_texts.join("\n")).collect();
    let is_told = |texts: &String| texts.contains("The word is plum.") && texts.contains("What was it?");
    assert!(calls.iter().any(is_told), "{calls:#?}");
}
