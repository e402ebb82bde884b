//! A disk that is full: the gateway says so, takes nothing it cannot keep, and goes on when there is room.

use crate::support::{Home, ask, stdout, wait_for};
use serde_json::json;
use turnstream_testkit::disk::{FaultDisk, Faults};
use turnstream_testkit::lawful::{Tail, assert_lawful};

#[test]
fn nothing_is_accepted_that_cannot_be_kept_and_what_waited_is_kept_later() {
    let home = Home::new();
    home.make_data();
    let disk = FaultDisk::new(home.path("data")).unwrap();
    let serving = home.serve_armed(&[], |command| disk.arm(command).unwrap());
    let address = serving.address.clone();
    let cwd = home.path("work");
    let (_, session) = ask(&address, "POST", "/v1/sessions", &json!({"agent": "scripted", "cwd": cwd}));
    let id = session["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/sessions/{id}/prompts");
    let prompt = |text: &str| {
        let script = json!({"script": [{"do": "text", "text": text}], "pace_ms": 0}).to_string();
        json!({"content": [{"type": "text", "text": script}]})
    };

    disk.set(Faults::full()).unwrap();
    let waiting = std::thread::spawn({
        let (address, path, body) = (address.clone(), path.clone(), prompt("kept"));
        move || ask(&address, "POST", &path, &body)
    });
    let health = wait_for(|| {
        let health = ask(&address, "GET", "/v1/ready", &json!({})).1;
        Some(health).filter(|health| health["status"] == "degraded")
    });
    assert!(!health["problem"].as_str().unwrap().is_empty());
    let (head, problem) = ask(&address, "POST", &path, &prompt("refused"));
    assert!(head.starts_with("http/1.1 503 ") && head.contains("retry-after: 5"), "{head}");
    assert_eq!(problem["type"], "urn:turnstream:problem:degraded");

    disk.set(Faults::none()).unwrap();
    let (head, accepted) = waiting.join().unwrap();
    assert!(head.starts_with("http/1.1 202 "), "{head}");
    assert_eq!(accepted["prompt"], "p1");
    wait_for(|| {
        let health = ask(&address, "GET", "/v1/ready", &json!({})).1;
        Some(()).filter(|()| health["status"] == "sound")
    });
    wait_for(|| {
        let session = ask(&address, "GET", &format!("/v1/sessions/{id}"), &json!({})).1;
        Some(()).filter(|()| session["status"] == "idle")
    });
    let log = home.run(&["tail", &id, "--json", "--no-follow"]);
    assert!(stdout(&log).contains("kept") && !stdout(&log).contains("refused"), "{log:?}");
    assert_lawful(stdout(&log).lines(), Tail::Live);
}
