//! The real Claude Code at the limit of a subscription: the session waits until the time that it tells.

use super::{Lab, of_type};
use crate::support::{ask, stdout, wait_for};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};
use turnstream_fake_provider::{Refusal, RetryAfter, Step};

/// Only with the token of a subscription Claude Code tells when a limit is over.
fn subscribe(lab: &Lab) {
    lab.configure_without(&lab.claude.command().unwrap(), &["ANTHROPIC_API_KEY"]);
    let path = lab.home.path("turnstream.toml");
    let file = std::fs::read_to_string(&path).unwrap();
    let token = "env = { CLAUDE_CODE_OAUTH_TOKEN = \"scripted\", ";
    std::fs::write(path, file.replace("env = { ", token)).unwrap();
}

#[test]
fn a_limit_of_a_subscription_is_waited_for_and_can_be_cancelled_or_woken() {
    let reset = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 5 * 3_600;
    let limited =
        Refusal::new(429, "rate_limit_error", "This request would exceed your account's rate limit.")
            .retry_after(RetryAfter::Seconds(5 * 3_600))
            .header("x-should-retry", "true")
            .header("anthropic-ratelimit-unified-status", "rejected")
            .header("anthropic-ratelimit-unified-reset", &reset.to_string())
            .header("anthropic-ratelimit-unified-representative-claim", "five_hour")
            .header("anthropic-ratelimit-unified-5h-status", "rejected")
            .header("anthropic-ratelimit-unified-5h-reset", &reset.to_string());
    let lab = Lab::new([Step::new(limited), Step::text("Done after the limit.").always()]);
    subscribe(&lab);
    let serving = lab.serve();
    let session = lab.session_with(&serving, json!({"on_limit": "wait"}));
    super::prompt(&serving, &session, "Work");
    let path = format!("/v1/sessions/{session}");
    let parked: Value = wait_for(|| {
        let (_, shown) = ask(&serving.address, "GET", &path, &Value::Null);
        (shown["status"] == "retrying").then_some(shown)
    });
    assert_eq!(parked["retry"]["reason"], "rate_limited");
    assert_eq!(parked["retry"]["until"], json!(reset * 1_000), "the time that Claude Code told");
    // A client of opencode's API sees the same wait.
    let (_, statuses) = ask(&serving.address, "GET", "/opencode/session/status", &Value::Null);
    let shown: Vec<&Value> = statuses.as_object().unwrap().values().collect();
    assert_eq!(
        (&shown[0]["type"], &shown[0]["next"]),
        (&json!("retry"), &json!(reset * 1_000)),
        "{statuses}"
    );

    let woken = lab.home.run(&["wake", &session]);
    assert!(woken.status.success() && stdout(&woken).contains("goes on"), "{woken:?}");
    let log = lab.ended(&session, 2);
    let ends: Vec<&Value> = of_type(&log, "turn.ended").into_iter().map(|end| &end["outcome"]).collect();
    assert_eq!(ends, ["failed", "completed"]);
    assert_eq!(of_type(&log, "turn.continues").len(), 1);
}
