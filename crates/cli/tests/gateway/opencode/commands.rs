//! Commands, compactions and shell commands of opencode itself, asked for over opencode's API.

use super::{Lab, Serving, ended, of_type, outcomes};
use crate::opencode_events::Watch;
use crate::support::{ask, is_full, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use turnstream_fake_provider::{Delivery, Step};

/// A session of opencode, made over its API.
struct Asked<'a> {
    address: &'a str,
    /// Its id there, and the gateway's own.
    id: String,
    own: String,
}

impl<'a> Asked<'a> {
    fn new(lab: &Lab, serving: &'a Serving) -> Self {
        let address = serving.address.as_str();
        let create = format!("/opencode/session?directory={}", lab.home.path("work").display());
        let (head, made) = ask(address, "POST", &create, &json!({"agent": "opencode"}));
        assert!(head.starts_with("http/1.1 200 "), "{head} {made}");
        let (_, listed) = ask(address, "GET", "/v1/sessions", &Value::Null);
        let own = listed["sessions"][0]["id"].as_str().unwrap().to_owned();
        Self { address, id: made["id"].as_str().unwrap().to_owned(), own }
    }

    fn post(&self, operation: &str, body: Value) -> (u16, Value) {
        let (head, answer) =
            ask(self.address, "POST", &format!("/opencode/session/{}/{operation}", self.id), &body);
        (head.split(' ').nth(1).unwrap().parse().unwrap(), answer)
    }

    fn say(&self, text: &str) -> Value {
        let (status, answer) = self.post("message", json!({"parts": [{"type": "text", "text": text}]}));
        assert_eq!(status, 200, "{answer}");
        answer
    }
}

fn parts<'a>(message: &'a Value, kind: &str) -> Vec<&'a Value> {
    message["parts"].as_array().unwrap().iter().filter(|part| part["type"] == kind).collect()
}

#[test]
fn opencode_compacts_runs_its_commands_and_a_shell_command_each_in_one_turn() {
    let lab = Lab::new([
        Step::text("Hello."),
        Step::text("All that was said: hello."),
        Step::text("I have written it."),
        Step::text("As you like.").always(),
    ]);
    let serving = lab.serve();
    let watch = Watch::default();
    watch.open(&serving.address);
    let asked = Asked::new(&lab, &serving);
    // There is nothing to shorten yet.
    asked.post("summarize", json!({"providerID": "opencode", "modelID": "default"}));
    assert_eq!(lab.calls(), 0);
    asked.say("Say hello");
    let (status, answer) = asked.post("summarize", json!({"providerID": "opencode", "modelID": "default"}));
    assert_eq!((status, &answer), (200, &json!(true)));
    let (_, messages) = ask(
        &serving.address,
        "GET",
        &format!("/opencode/session/{}/message?limit=3", asked.id),
        &Value::Null,
    );
    let texts: Vec<&Value> = messages
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|message| parts(message, "text"))
        .map(|part| &part["text"])
        .collect();
    assert!(texts.ends_with(&[&json!("/compact"), &json!("All that was said: hello.")]), "{messages}");
    // The server has the command, and writes the prompt of it.
    let (_, commands) = ask(&serving.address, "GET", "/opencode/command", &Value::Null);
    assert!(commands.as_array().unwrap().iter().any(|command| command["name"] == "init"), "{commands}");
    let (status, answer) = asked.post("command", json!({"command": "init", "arguments": "briefly"}));
    assert_eq!((status, &parts(&answer, "text")[0]["text"]), (200, &json!("I have written it.")), "{answer}");
    let sent = lab.provider.calls().last().unwrap().asked.user_text.clone();
    assert!(sent.contains("AGENTS.md") && sent.contains("briefly") && !sent.contains("/init"), "{sent}");
    let shell = json!({"agent": "opencode", "command": "echo made > made.txt; cat made.txt"});
    let (status, answer) = asked.post("shell", shell);
    assert_eq!(status, 200, "{answer}");
    let call = &parts(&answer, "tool")[0];
    assert_eq!((&call["tool"], &call["state"]["status"]), (&json!("bash"), &json!("completed")), "{answer}");
    assert!(call["state"]["output"].as_str().unwrap().contains("made"), "{answer}");
    assert_eq!(std::fs::read_to_string(lab.home.path("work/made.txt")).unwrap(), "made\n");
    // A text that looks like one is none.
    asked.say("!touch never.txt");
    assert!(!lab.home.path("work/never.txt").exists());
    let (status, answer) = asked.post("command", json!({"command": "no-such", "arguments": ""}));
    let message = answer["data"]["message"].as_str().unwrap();
    assert_eq!((status, message), (501, "session.command: the agent opencode has no command \"no-such\""));
    let log = lab.log_of(&asked.own);
    let completed = outcomes(&log).into_iter().filter(|outcome| *outcome == "completed").count();
    assert_eq!((completed, lab.calls()), (5, 4), "{:#?}", of_type(&log, "turn.ended"));
    let kinds: Vec<&Value> = of_type(&log, "item.started").into_iter().map(|item| &item["kind"]).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "compaction").count(), 1, "{kinds:?}");
    watch.assert_idle_once(&serving.address, &asked.own, of_type(&log, "turn.ended").len());
}

#[test]
fn a_command_and_a_compaction_go_on_over_a_kill_of_the_gateway_and_run_once() {
    if !is_full() {
        return;
    }
    let slow = || Delivery { before_delta_ms: 300, ..Delivery::default() };
    let text = "Each of these words takes a while, so that there is time for a kill.";
    let lab = Lab::new([
        Step::text("Hello."),
        Step::text(text).delivered(slow()),
        Step::text(text).delivered(slow()),
    ]);
    let mut serving = lab.serve();
    let own = {
        let asked = Asked::new(&lab, &serving);
        asked.say("Say hello");
        asked.own
    };
    for (turns, operation) in [(2, "/init"), (3, "/compact")] {
        super::prompt(&serving, &own, operation);
        wait_for(|| {
            let log = lab.log_of(&own);
            let last = of_type(&log, "turn.started").len();
            (last == turns && log.last()?["type"] == "item.delta").then_some(())
        });
        serving.end(Signal::KILL);
        serving = lab.serve();
        let log = ended(|| lab.log_of(&own), turns);
        assert_eq!(outcomes(&log), vec!["completed"; turns], "{operation}");
        assert_eq!(lab.calls(), turns, "{operation}");
    }
}
