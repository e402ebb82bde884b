//! Caps of the real Claude Code, and a session that it goes on from.

use super::{Lab, accepted, of_type, prompt, shell};
use crate::support::{ask, wait_for};
use serde_json::{Value, json};
use turnstream_fake_provider::{Completion, Step};

/// Claude Code tells tokens with each call, and the cost with the end of a turn.
#[test]
fn steps_tokens_and_time_stop_a_turn_and_cost_stops_the_session() {
    let lab = Lab::new([
        shell("true").for_any_user_text("Never stop").always(),
        shell("sleep 600").for_any_user_text("Sleep").always(),
        Step::new(Completion::text("Yes.")).always(),
    ]);
    let serving = lab.serve();
    for (text, caps, cap) in [
        ("Never stop", json!({"steps": 2}), "steps"),
        ("Never stop", json!({"tokens": 1}), "tokens"),
        ("Sleep", json!({"time": 5_000}), "time"),
    ] {
        let session = lab.session_with(&serving, json!({"budget": {"turn": caps}}));
        accepted(&serving, &session, text);
        let log = lab.ended(&session, 1);
        let end = of_type(&log, "turn.ended")[0];
        assert_eq!((&end["outcome"], &end["error"]["class"]), (&json!("failed"), &json!("budget")), "{end}");
        let reached = of_type(&log, "budget.reached");
        assert_eq!((reached.len(), &reached[0]["cap"]), (1, &json!(cap)), "{reached:?}");
    }

    let session = lab.session_with(&serving, json!({"budget": {"session": {"cost": 0.000_001}}}));
    accepted(&serving, &session, "One");
    let log = lab.ended(&session, 1);
    assert_eq!(of_type(&log, "turn.ended")[0]["outcome"], "completed", "{log:#?}");
    let used = wait_for(|| of_type(&lab.log(&session), "budget.used").first().map(|used| (*used).clone()));
    assert_eq!(used["used"]["cost"], of_type(&log, "turn.ended")[0]["cost"]["amount"]);
    let (head, answer) = prompt(&serving, &session, "Two");
    assert!(head.starts_with("http/1.1 409 "), "{head} {answer}");
    assert_eq!(answer["cap"], "cost", "{answer}");
    let raise = json!({"session": {"cost": null}});
    let (head, answer) = ask(&serving.address, "POST", &format!("/v1/sessions/{session}/budget"), &raise);
    assert!(head.starts_with("http/1.1 200 "), "{head} {answer}");
    accepted(&serving, &session, "Two");
    lab.ended(&session, 2);
}

#[test]
fn claude_code_goes_on_from_the_session_of_another_agent() {
    let lab = Lab::new([Step::text("It was plum.").always()]);
    let serving = lab.serve();
    let body = json!({"agent": "scripted", "cwd": lab.home.path("work")});
    let (_, old) = ask(&serving.address, "POST", "/v1/sessions", &body);
    let old = old["id"].as_str().unwrap().to_owned();
    accepted(&serving, &old, &json!({"script": [{"do": "text", "text": "The word is plum."}]}).to_string());
    lab.ended(&old, 1);
    let from = json!({"agent": "claude", "from": old});
    let (head, new): (String, Value) = ask(&serving.address, "POST", "/v1/sessions", &from);
    assert!(head.starts_with("http/1.1 201 "), "{head} {new}");
    let new = new["id"].as_str().unwrap().to_owned();
    accepted(&serving, &new, "What was the word?");
    let log = lab.ended(&new, 1);
    assert_eq!(of_type(&log, "turn.ended")[0]["outcome"], "completed", "{log:#?}");
    let asked = lab.provider.calls().last().unwrap().asked.user_texts.join("\n");
    assert!(asked.contains("Conversation of another session, handed over by Turnstream"), "{asked}");
    assert!(asked.contains("The word is plum.") && asked.contains("What was the word?"), "{asked}");
    assert_eq!(of_type(&lab.log(&old), "session.handed_over")[0]["to"], json!(new));
}
