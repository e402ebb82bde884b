//! The real Codex at a usage limit: the session waits until the time that Codex tells, and goes on.

use super::{Lab, of_type};
use crate::support::{ask, stdout, wait_for};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};
use turnstream_fake_provider::{Refusal, Step};

#[test]
fn a_usage_limit_of_codex_is_waited_for_and_the_turn_is_continued() {
    let reset = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 5 * 3_600;
    let limited = Refusal::new(429, "usage_limit_reached", "The usage limit has been reached")
        .header("x-codex-primary-used-percent", "100")
        .header("x-codex-primary-window-minutes", "300")
        .header("x-codex-primary-reset-at", &reset.to_string());
    let lab = Lab::new([Step::new(limited), Step::text("Done after the limit.").always()]);
    let serving = lab.serve();
    let session = lab.session_with(&serving, json!({"on_limit": "wait"}));
    super::prompt(&serving, &session, "Work");
    let path = format!("/v1/sessions/{session}");
    let parked: Value = wait_for(|| {
        let (_, shown) = ask(&serving.address, "GET", &path, &Value::Null);
        (shown["status"] == "retrying").then_some(shown)
    });
    assert_eq!(parked["retry"]["reason"], "quota_exhausted");
    assert_eq!(parked["retry"]["until"], json!(reset * 1_000), "the time that Codex told");

    let woken = lab.home.run(&["wake", &session]);
    assert!(woken.status.success(), "{woken:?}");
    assert!(stdout(&woken).contains("goes on with prompt p2"), "{woken:?}");
    let log = lab.ended(&session, 2);
    let ends: Vec<&Value> = of_type(&log, "turn.ended").into_iter().map(|end| &end["outcome"]).collect();
    assert_eq!(ends, ["failed", "completed"]);
    assert_eq!(of_type(&log, "unattended.released")[0]["outcome"], "woken");
    assert_eq!(of_type(&log, "turn.continues")[0]["because"], "limit");
    let again = lab.home.run(&["wake", &session]);
    assert_eq!(again.status.code(), Some(2), "{again:?}");
}
