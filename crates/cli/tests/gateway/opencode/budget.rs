//! Caps of the real opencode, and a session that it goes on from.

use super::{Lab, ended, of_type, prompt};
use crate::support::{Serving, ask};
use serde_json::{Value, json};
use turnstream_fake_provider::{Completion, Part, Step};
use turnstream_testkit::agents::Opencode;

fn shell(command: &str) -> Step {
    let arguments = json!({"command": command, "description": "As scripted"});
    Step::new(Completion::of([Part::tool_call("bash", arguments)])).for_model(Opencode::MODEL)
}

fn capped(lab: &Lab, serving: &Serving, budget: Value) -> String {
    let body =
        json!({"agent": "opencode", "cwd": lab.home.path("work"), "permissions": "allow", "budget": budget});
    let (head, answer) = ask(&serving.address, "POST", "/v1/sessions", &body);
    assert!(head.starts_with("http/1.1 201 "), "{head} {answer}");
    answer["id"].as_str().unwrap().to_owned()
}

#[test]
fn steps_tokens_and_time_stop_a_turn_and_tokens_stop_the_session() {
    let lab = Lab::new([
        shell("true").for_any_user_text("Never stop").always(),
        shell("sleep 600").for_any_user_text("Sleep").always(),
        Step::text("Yes.").for_model(Opencode::MODEL).always(),
    ]);
    let serving = lab.serve();
    for (text, caps, cap) in [
        ("Never stop", json!({"steps": 2}), "steps"),
        ("Never stop", json!({"tokens": 1}), "tokens"),
        ("Sleep", json!({"time": 5_000}), "time"),
    ] {
        let session = capped(&lab, &serving, json!({"turn": caps}));
        prompt(&serving, &session, text);
        let log = ended(|| lab.log_of(&session), 1);
        let end = of_type(&log, "turn.ended")[0];
        assert_eq!((&end["outcome"], &end["error"]["class"]), (&json!("failed"), &json!("budget")), "{end}");
        let reached = of_type(&log, "budget.reached");
        assert_eq!((reached.len(), &reached[0]["cap"]), (1, &json!(cap)), "{reached:?}");
    }

    let session = capped(&lab, &serving, json!({"session": {"tokens": 1}}));
    prompt(&serving, &session, "One");
    let log = ended(|| lab.log_of(&session), 1);
    assert_eq!(of_type(&log, "turn.ended")[0]["outcome"], "completed", "{log:#?}");
    let path = format!("/v1/sessions/{session}/prompts");
    let two = json!({"content": [{"type": "text", "text": "Two"}]});
    let (head, answer) = ask(&serving.address, "POST", &path, &two);
    assert!(head.starts_with("http/1.1 409 "), "{head} {answer}");
    assert_eq!(answer["cap"], "tokens", "{answer}");
    let raised = lab.home.run(&["budget", &session, "session_tokens=1000000"]);
    assert_eq!(raised.status.code(), Some(0), "{raised:?}");
    prompt(&serving, &session, "Two");
    ended(|| lab.log_of(&session), 2);
}

/// A call of this model has 110 tokens, and costs 11 cents.
#[test]
fn cost_stops_a_turn_and_the_session_of_a_model_with_a_price() {
    let lab = Lab::new([
        shell("true").for_any_user_text("Never stop").always(),
        Step::text("Yes.").for_model(Opencode::MODEL).always(),
    ]);
    let price = json!({"cost": {"input": 1_000, "output": 1_000}});
    let model = json!({"provider": {"scripted": {"models": {Opencode::MODEL: price}}}});
    std::fs::write(lab.home.path("work").join("opencode.json"), model.to_string()).unwrap();
    let serving = lab.serve();
    let session = capped(&lab, &serving, json!({"turn": {"cost": 0.2}}));
    prompt(&serving, &session, "Never stop");
    let log = ended(|| lab.log_of(&session), 1);
    let end = of_type(&log, "turn.ended")[0];
    assert_eq!((&end["outcome"], &end["error"]["class"]), (&json!("failed"), &json!("budget")), "{end}");
    let reached = of_type(&log, "budget.reached");
    assert_eq!((reached.len(), &reached[0]["cap"]), (1, &json!("cost")), "{reached:?}");
    let used = of_type(&log, "budget.used")[0]["last"]["cost"].as_f64().unwrap();
    assert!((0.2..0.5).contains(&used), "two calls, or one that had begun: {used}");

    let session = capped(&lab, &serving, json!({"session": {"cost": 0.1}}));
    prompt(&serving, &session, "One");
    let log = ended(|| lab.log_of(&session), 1);
    assert_eq!(of_type(&log, "turn.ended")[0]["outcome"], "completed", "{log:#?}");
    let path = format!("/v1/sessions/{session}/prompts");
    let two = json!({"content": [{"type": "text", "text": "Two"}]});
    let (head, answer) = ask(&serving.address, "POST", &path, &two);
    assert!(head.starts_with("http/1.1 409 "), "{head} {answer}");
    assert_eq!(answer["cap"], "cost", "{answer}");
    let raised = lab.home.run(&["budget", &session, "session_cost=5"]);
    assert_eq!(raised.status.code(), Some(0), "{raised:?}");
    prompt(&serving, &session, "Two");
    ended(|| lab.log_of(&session), 2);
}

#[test]
fn opencode_goes_on_from_the_session_of_another_agent() {
    let lab = Lab::new([Step::text("It was plum.").for_model(Opencode::MODEL).always()]);
    let serving = lab.serve();
    let body = json!({"agent": "scripted", "cwd": lab.home.path("work")});
    let (_, old) = ask(&serving.address, "POST", "/v1/sessions", &body);
    let old = old["id"].as_str().unwrap().to_owned();
    prompt(&serving, &old, &json!({"script": [{"do": "text", "text": "The word is plum."}]}).to_string());
    ended(|| lab.log_of(&old), 1);
    let (head, new) =
        ask(&serving.address, "POST", "/v1/sessions", &json!({"agent": "opencode", "from": old}));
    assert!(head.starts_with("http/1.1 201 "), "{head} {new}");
    let new = new["id"].as_str().unwrap().to_owned();
    prompt(&serving, &new, "What was the word?");
    let log = ended(|| lab.log_of(&new), 1);
    assert_eq!(of_type(&log, "turn.ended")[0]["outcome"], "completed", "{log:#?}");
    let calls = lab.provider.calls();
    let asked =
        calls.iter().rfind(|call| call.asked.model == Opencode::MODEL).unwrap().asked.user_texts.join("\n");
    assert!(asked.contains("Conversation of another session, handed over by Turnstream"), "{asked}");
    assert!(asked.contains("The word is plum.") && asked.contains("What was the word?"), "{asked}");
    assert_eq!(of_type(&lab.log_of(&old), "session.handed_over")[0]["to"], json!(new));
}
