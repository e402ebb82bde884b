//! Unattended runs on the command line: flags of `run`, `wake`, and keys of the configuration.

use crate::support::{Home, ask, prompt, stderr, stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use turnstream_testkit::lawful::{Tail, assert_lawful};

fn limit(retry_in_ms: u64) -> Value {
    json!([{"do": "text", "text": "half"},
           {"do": "fail", "class": "rate_limited", "message": "later", "retry_in_ms": retry_in_ms}])
}

fn the_session(home: &Home) -> Option<Value> {
    let listed = home.run(&["sessions", "--json"]);
    stdout(&listed).lines().next().map(|line| serde_json::from_str(line).unwrap())
}

fn log(home: &Home, id: &str) -> Vec<Value> {
    let log = home.run(&["tail", id, "--json", "--no-follow"]);
    assert_lawful(stdout(&log).lines(), Tail::Live);
    stdout(&log).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn run_follows_the_continuation_of_a_limit_and_ends_with_it() {
    let home = Home::new();
    let _serving = home.serve(&[]);
    let next = prompt(&json!([{"do": "text", "text": "all of it"}]));
    let done = home.play(&limit(200), &["--on-limit", "wait", "--continue-with", &next]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert!(stdout(&done).contains("all of it"), "{done:?}");
    assert!(stderr(&done).contains("[retrying] after rate_limited"), "{done:?}");
    assert!(stderr(&done).contains("[continues] turn t1"), "{done:?}");
    // Without the flag the turn has failed, with the exit code of its class.
    let failed = home.play(&limit(200), &[]);
    assert_eq!(failed.status.code(), home.play(&limit(100), &["--on-limit", "fail"]).status.code());
    assert_ne!(failed.status.code(), Some(0));
}

#[test]
fn a_parked_session_survives_a_kill_is_woken_or_cancelled_and_takes_other_rules() {
    let home = Home::new();
    let file = "[agents.demo]\nkind = \"scripted\"\non_limit = \"wait\"\nlimit_window = \"2h\"\n\
                on_failure = \"continue\"\ncontinue_with = \"Go on.\"\n";
    std::fs::write(home.path("turnstream.toml"), file).unwrap();
    let config = home.path("turnstream.toml").display().to_string();
    let serving = home.serve(&["--config", &config]);
    let body = json!({"agent": "demo", "cwd": home.path("work"), "permissions": "allow"});
    let (_, made) = ask(&serving.address, "POST", "/v1/sessions", &body);
    let rules = json!({"on_limit": "wait", "limit_window": 7_200_000, "on_failure": "continue",
                       "continue_with": "Go on."});
    assert_eq!(made["unattended"], rules);
    let id = made["id"].as_str().unwrap();
    let sent = home.run(&["send", id, &prompt(&limit(3_600_000))]);
    assert!(sent.status.success(), "{sent:?}");
    let is_parked = || the_session(&home).filter(|session| session["status"] == "retrying");
    let parked = wait_for(is_parked);
    serving.end(Signal::KILL);

    let serving = home.serve(&["--config", &config]);
    let session = the_session(&home).unwrap();
    assert_eq!((&session["status"], &session["retry"]), (&json!("retrying"), &parked["retry"]));
    let woken = home.run(&["wake", id]);
    assert!(stdout(&woken).contains("goes on with prompt p2"), "{woken:?}");
    wait_for(|| the_session(&home).filter(|session| session["status"] == "idle"));
    let refused = home.run(&["wake", id]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(stderr(&refused).contains("does not wait to continue a turn"), "{refused:?}");

    home.run(&["send", id, &prompt(&limit(3_600_000))]);
    wait_for(is_parked);
    let cancelled = home.run(&["cancel", id]);
    assert!(cancelled.status.success(), "{cancelled:?}");
    wait_for(|| the_session(&home).filter(|session| session["status"] == "idle"));

    let path = format!("/v1/sessions/{id}");
    let (_, changed) = ask(&serving.address, "PATCH", &path, &json!({"on_limit": "fail"}));
    assert_eq!(changed["unattended"]["on_limit"], "fail");
    let (head, problem) = ask(&serving.address, "PATCH", &path, &json!({"limit_window": 0}));
    assert!(head.starts_with("http/1.1 400 ") && problem["member"] == "limit_window", "{head} {problem}");
    let log = log(&home, id);
    let outcomes: Vec<&Value> =
        log.iter().filter(|event| event["type"] == "unattended.released").map(|it| &it["outcome"]).collect();
    assert_eq!(outcomes, ["woken", "cancelled"]);
    assert_eq!(log.iter().filter(|event| event["type"] == "prompt.continues").count(), 1);
}
