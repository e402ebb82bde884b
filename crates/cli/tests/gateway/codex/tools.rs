//! Tools of Codex that are no commands: those of a session's MCP servers, and images.

use super::people::{approval, resolve};
use super::{Lab, accepted, items, of_type, outcomes};
use crate::support::{Serving, ask, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;
use turnstream_fake_provider::{Completion, Part, Step};

fn call(tool: &str, arguments: Value) -> Step {
    Step::new(Completion::of([Part::tool_call(tool, arguments)]))
}

fn server() -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gateway/codex/mcp_server.mjs");
    let env = [json!({"name": "LAB_WORD", "value": "plum"})];
    json!({"name": "lab", "command": "node", "args": [script], "env": env})
}

/// The outputs of the tool calls of a session.
fn outputs(serving: &Serving, session: &str) -> Vec<String> {
    let items = items(serving, session).into_iter();
    let tools = items.filter(|item| item["kind"] == "tool");
    tools.map(|item| item["tool"]["output"]["output"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn tools_of_a_sessions_mcp_servers_are_asked_for_and_called_by_every_process() {
    let echo = |text: &str| call("mcp__lab/echo", json!({"text": text}));
    let lab = Lab::new([
        echo("one"),
        Step::text("Called."),
        echo("two"),
        Step::text("Called again."),
        echo("three"),
        Step::text("Called by the next process."),
        echo("four"),
        Step::text("Not called.").always(),
    ]);
    let serving = lab.serve();
    let session = lab.session_with(&serving, json!({"permissions": "ask", "mcp": [server()]}));
    accepted(&serving, &session, "First");
    let asked = approval(&lab, &session);
    assert_eq!(asked["tool"]["title"], "lab.echo", "{asked:#}");
    resolve(&serving, &session, &asked, &json!({"outcome": "allow_always"}));
    lab.ended(&session, 1);
    // It was allowed for the session.
    accepted(&serving, &session, "Second");
    let log = lab.ended(&session, 2);
    assert_eq!(of_type(&log, "approval.requested").len(), 1, "{log:#?}");
    assert_eq!(outputs(&serving, &session), ["one plum", "two plum"]);
    serving.end(Signal::TERM);

    let serving = lab.serve();
    accepted(&serving, &session, "Third");
    let asked = approval(&lab, &session);
    resolve(&serving, &session, &asked, &json!({"outcome": "allow_once"}));
    lab.ended(&session, 3);
    assert_eq!(outputs(&serving, &session)[2], "three plum");

    accepted(&serving, &session, "Fourth");
    let asked = approval(&lab, &session);
    resolve(&serving, &session, &asked, &json!({"outcome": "reject"}));
    let log = lab.ended(&session, 4);
    assert_eq!(outcomes(&log), ["completed"; 4], "{log:#?}");
    let last = items(&serving, &session).into_iter().rfind(|item| item["kind"] == "tool").unwrap();
    assert_eq!(last["state"], "failed", "{last:#}");
    assert!(
        !log.iter().any(|event| event.to_string().contains("LAB_WORD")),
        "its environment is not in the log"
    );
}

#[test]
fn a_form_of_an_mcp_server_is_a_question_and_a_server_that_codex_cannot_have_is_refused() {
    let lab = Lab::new([call("mcp__lab/order", json!({})), Step::text("Ordered.").always()]);
    let serving = lab.serve();
    let session = lab.session_with(&serving, json!({"mcp": [server()]}));
    accepted(&serving, &session, "Order");
    let asked =
        wait_for(|| of_type(&lab.log(&session), "question.asked").first().map(|asked| (*asked).clone()));
    assert_eq!(asked["questions"][0]["text"], "Which drink?", "{asked:#}");
    let path = format!("/v1/sessions/{session}/questions/{}", asked["question"].as_str().unwrap());
    let (head, answer) = ask(&serving.address, "POST", &path, &json!({"answers": {"drink": ["Coffee"]}}));
    assert!(head.starts_with("http/1.1 2"), "{head} {answer}");
    lab.ended(&session, 1);
    assert_eq!(outputs(&serving, &session), ["accept Coffee"]);

    let old = json!({"type": "sse", "name": "old", "url": "http://127.0.0.1:1/sse", "headers": []});
    let body = json!({"agent": "codex", "cwd": lab.home.path("work"), "mcp": [old]});
    let (head, answer) = ask(&serving.address, "POST", "/v1/sessions", &body);
    assert!(head.starts_with("http/1.1 4") && answer.to_string().contains("sse"), "{head} {answer}");
}

#[test]
fn an_image_that_the_model_looks_at_is_a_call_and_a_server_that_does_not_start_is_told() {
    let lab = Lab::new([call("view_image", json!({"path": "picture.png"})), Step::text("I see.").always()]);
    let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images/gateway-390-light.png");
    std::fs::copy(picture, lab.home.path("work").join("picture.png")).unwrap();
    let serving = lab.serve();
    let missing = json!({"name": "gone", "command": "no-such-program-of-turnstream", "args": [], "env": []});
    let session = lab.session_with(&serving, json!({"mcp": [missing]}));
    accepted(&serving, &session, "Look");
    let log = lab.ended(&session, 1);
    assert_eq!(outcomes(&log), ["completed"], "{log:#?}");
    let items = items(&serving, &session);
    let tool = items.iter().find(|item| item["kind"] == "tool").unwrap();
    assert_eq!((&tool["tool"]["title"], &tool["state"]), (&json!("View picture.png"), &json!("completed")));
    let notices = of_type(&log, "notice");
    let told = |notice: &&Value| notice["message"].as_str().is_some_and(|text| text.contains("\"gone\""));
    assert!(notices.iter().any(told), "{notices:?}");
}
