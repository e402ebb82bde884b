//! The built-in agent behind the real binary, with a provider on loopback.

#[cfg(feature = "real-agents")]
mod opencode_api;

use crate::support::{Home, PATIENCE, Serving, ask, read, stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::Instant;
use tokio::runtime::Runtime;
use turnstream_fake_provider::{Completion, Delivery, Part, Provider, Script, Step};
use turnstream_testkit::lawful::{Tail, assert_lawful};

const MARKER: &str = "TURNSTREAM_FAILPOINT_REACHED";

/// A home with a route to a provider, and nothing else.
struct Lab {
    home: Home,
    provider: Provider,
    _runtime: Runtime,
}

impl Lab {
    fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let runtime = Runtime::new().unwrap();
        let mut script = Script::new(steps);
        script.models = vec!["one".to_owned(), "two".to_owned()];
        let provider = runtime.block_on(Provider::start(script)).unwrap();
        let home = Home::new();
        let route = format!(
            "[llm.routes.main]\nurl = {:?}\nformat = \"chat\"\nmodel = \"one\"\n",
            provider.openai_base_url()
        );
        std::fs::write(home.path("turnstream.toml"), route).unwrap();
        Self { home, provider, _runtime: runtime }
    }

    fn config(&self) -> String {
        self.home.path("turnstream.toml").display().to_string()
    }

    fn serve(&self, failpoint: Option<&str>) -> Serving {
        self.home.serve_armed(&["--config", &self.config()], |command| {
            command.envs(failpoint.map(|point| ("TURNSTREAM_FAILPOINT", point)));
        })
    }

    fn session(&self, serving: &Serving) -> String {
        let body = json!({"agent": "builtin", "cwd": self.home.path("work"), "permissions": "allow"});
        let (head, answer) = ask(&serving.address, "POST", "/v1/sessions", &body);
        assert!(head.starts_with("http/1.1 201"), "{head} {answer}");
        answer["id"].as_str().unwrap().to_owned()
    }

    /// The snapshot, once so many turns have ended and nothing is open.
    fn ended(&self, serving: &Serving, session: &str, turns: usize) -> Value {
        let begun = Instant::now();
        loop {
            let (_, snapshot) =
                ask(&serving.address, "GET", &format!("/v1/sessions/{session}/snapshot"), &json!({}));
            let ended =
                snapshot["turns"].as_array().unwrap().iter().filter(|turn| !turn["outcome"].is_null());
            if ended.count() == turns && snapshot["session"]["status"] == "idle" {
                return snapshot;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end: {snapshot:#}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// The log of a session, judged. Every turn has one end.
    fn assert_lawful(&self, serving: &Serving, session: &str) {
        let mut events: Vec<Value> = Vec::new();
        loop {
            let path = format!("/v1/sessions/{session}/log?limit=500&from={}", events.len() + 1);
            let (_, page) = ask(&serving.address, "GET", &path, &json!({}));
            let page = page["events"].as_array().unwrap();
            if page.is_empty() {
                break;
            }
            events.extend(page.iter().cloned());
        }
        let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
        assert_eq!(count("turn.started"), count("turn.ended"), "{events:#?}");
        let lines: Vec<String> = events.iter().map(Value::to_string).collect();
        assert_lawful(lines.iter().map(String::as_str), Tail::Settled);
    }

    fn work(&self, name: &str) -> String {
        std::fs::read_to_string(self.home.path("work").join(name)).unwrap_or_default()
    }
}

fn prompt(serving: &Serving, session: &str, text: &str) {
    let body = json!({"content": [{"type": "text", "text": text}], "key": text});
    let (head, answer) = ask(&serving.address, "POST", &format!("/v1/sessions/{session}/prompts"), &body);
    assert!(head.starts_with("http/1.1 2"), "{head} {answer}");
}

fn calls() -> Vec<Step> {
    let command = |number: u32| Part::tool_call("bash", json!({"command": format!("echo {number} >> ran")}));
    let slow = Delivery { before_delta_ms: 5, ..Delivery::default() };
    let answer = |number: u32| {
        let parts = [Part::text("I run two tools."), command(2 * number), command(2 * number + 1)];
        Step::new(Completion::of(parts)).delivered(slow)
    };
    (0..3).map(answer).chain([Step::text("All of it is done.").delivered(slow).always()]).collect()
}

#[test]
fn a_route_is_enough_to_read_a_file_edit_it_and_answer() {
    let edit = json!({"path": "a.txt", "old_text": "one", "new_text": "two"});
    let lab = Lab::new([
        Step::new(Completion::of([Part::tool_call("read", json!({"path": "a.txt"}))])),
        Step::new(Completion::of([Part::tool_call("edit", edit)])),
        Step::text("It says two now."),
    ]);
    std::fs::write(lab.home.path("work/a.txt"), "one\n").unwrap();
    let args = ["run", "--config", &lab.config(), "--permissions", "allow", "Change one to two."];
    let output = lab.home.run(&args);
    assert!(output.status.success(), "{output:?}");
    assert!(stdout(&output).contains("It says two now."), "{output:?}");
    assert_eq!(lab.work("a.txt"), "two\n");
    let listed = lab.home.run(&["agents", "--config", &lab.config(), "--json"]);
    let mut agents = stdout(&listed).lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let builtin = agents.find(|agent| agent["name"] == "builtin").unwrap();
    assert_eq!((&builtin["kind"], &builtin["discovered"]), (&json!("builtin"), &json!(true)));
    assert_eq!(builtin["models"], json!([{"id": "one"}, {"id": "two"}]), "{builtin:#}");
    assert_eq!(lab.provider.calls().len(), 3);
}

#[test]
fn an_agent_needs_a_route_that_exists() {
    let lab = Lab::new([]);
    let file = read(&lab.home.path("turnstream.toml"));
    let with = |more: &str| {
        std::fs::write(lab.home.path("turnstream.toml"), format!("{file}{more}")).unwrap();
        let output = lab.home.run(&["agents", "--config", &lab.config()]);
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let (works, error) = with("[agents.mine]\nkind = \"builtin\"\nroute = \"other\"\n");
    assert!(!works && error.contains("there is no route \"other\"; there is main"), "{error}");
    let (works, error) = with("[agents.mine]\nkind = \"builtin\"\nroute = \"main\"\nmax_tokens = 100\n");
    assert!(works, "{error}");
}

/// Kills the gateway at a place, and lets the next one go on. Returns the snapshot at the end.
fn killed_at(lab: &Lab, point: &str) -> Value {
    let serving = lab.serve(None);
    let session = lab.session(&serving);
    serving.end(Signal::TERM);
    let serving = lab.serve(Some(point));
    let (address, sent) = (serving.address.clone(), session.clone());
    let sender = std::thread::spawn(move || {
        let body = json!({"content": [{"type": "text", "text": "Run it"}], "key": "Run it"});
        // The answer may never come.
        let _answered = std::panic::catch_unwind(|| {
            ask(&address, "POST", &format!("/v1/sessions/{sent}/prompts"), &body);
        });
    });
    let out = lab.home.path("serve.out");
    wait_for(|| read(&out).contains(MARKER).then_some(()));
    serving.end(Signal::KILL);
    sender.join().unwrap();
    let serving = lab.serve(None);
    // The prompt may not have been accepted before the kill. Under its key it runs once.
    wait_for(|| {
        let body = json!({"content": [{"type": "text", "text": "Run it"}], "key": "Run it"});
        let (head, _) = ask(&serving.address, "POST", &format!("/v1/sessions/{session}/prompts"), &body);
        head.starts_with("http/1.1 2").then_some(())
    });
    lab.ended(&serving, &session, 1);
    prompt(&serving, &session, "And now?");
    let snapshot = lab.ended(&serving, &session, 2);
    assert_eq!(snapshot["turns"][1]["outcome"], "completed", "{point}: {snapshot:#}");
    lab.assert_lawful(&serving, &session);
    serving.end(Signal::TERM);
    snapshot
}

#[test]
fn a_gateway_that_is_killed_anywhere_runs_no_tool_twice_and_ends_the_turn_once() {
    let points = [
        ("builtin.prompt", "completed"),
        ("builtin.stream:4", "completed"),
        ("builtin.stream:16", "completed"),
        ("builtin.step", "completed"),
        ("builtin.step:2", "completed"),
        ("builtin.tool_began", "lost"),
        ("builtin.tool_ran:2", "lost"),
        ("builtin.tool_done", "completed"),
        ("builtin.tool_done:4", "completed"),
    ];
    for (point, outcome) in points {
        let lab = Lab::new(calls());
        let snapshot = killed_at(&lab, point);
        assert_eq!(snapshot["turns"][0]["outcome"], outcome, "{point}: {snapshot:#}");
        let ran = lab.work("ran");
        let items = snapshot["items"].as_array().unwrap();
        for number in 0..6 {
            let times = ran.lines().filter(|line| *line == number.to_string()).count();
            let command = format!("echo {number} >> ran");
            let item = items.iter().find(|item| item["tool"]["input"]["command"] == command);
            match item.map(|item| item["state"].as_str().unwrap()) {
                None | Some("abandoned") => assert_eq!(times, 0, "{point}: {number}: {snapshot:#}"),
                Some("completed") => assert_eq!(times, 1, "{point}: {number}: {snapshot:#}"),
                Some("unknown") => assert!(times <= 1 && outcome == "lost", "{point}: {snapshot:#}"),
                Some(other) => panic!("{point}: {number} is {other}: {snapshot:#}"),
            }
        }
        let unknown = items.iter().filter(|item| item["state"] == "unknown").count();
        assert_eq!(unknown, usize::from(outcome == "lost"), "{point}: {snapshot:#}");
    }
}

#[test]
fn the_text_so_far_is_there_after_a_kill_in_the_middle_of_an_answer_and_is_void_after_the_next() {
    let text =
        "This answer is cut in two by a kill of the gateway, and is then made once more from its beginning.";
    let slow = Delivery { before_delta_ms: 3_000, ..Delivery::default() };
    let never = Delivery { before_headers_ms: 600_000, ..Delivery::default() };
    let lab = Lab::new([
        Step::text(text).delivered(slow),
        Step::text("Too late.").delivered(never),
        Step::text(text),
    ]);
    let serving = lab.serve(None);
    let session = lab.session(&serving);
    prompt(&serving, &session, "Go on.");
    let path = format!("/v1/sessions/{session}/snapshot");
    let said = |serving: &Serving| {
        let (_, snapshot) = ask(&serving.address, "GET", &path, &json!({}));
        let item = snapshot["items"].as_array().unwrap().first().cloned()?;
        item["text"].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let before = wait_for(|| said(&serving));
    serving.end(Signal::KILL);
    let serving = lab.serve(None);
    // The model is asked again, and does not answer yet.
    wait_for(|| (lab.provider.calls().len() == 2).then_some(()));
    let after = said(&serving).unwrap();
    assert!(after.starts_with(&before) && text.starts_with(&after), "{before:?} {after:?}");
    serving.end(Signal::KILL);
    let serving = lab.serve(None);
    let snapshot = lab.ended(&serving, &session, 1);
    assert_eq!(snapshot["turns"][0]["outcome"], "completed", "{snapshot:#}");
    let texts: Vec<&str> =
        snapshot["items"].as_array().unwrap().iter().filter_map(|item| item["text"].as_str()).collect();
    assert_eq!(texts, [text], "{snapshot:#}");
    lab.assert_lawful(&serving, &session);
}
