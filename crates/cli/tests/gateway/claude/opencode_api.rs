//! Claude Code seen through opencode's API.

use super::{Lab, shell};
use crate::opencode_clients::{Clients, Tui};
use crate::opencode_events::Events;
use crate::opencode_scenes::{Scene, steps};
use crate::support::{Serving, ask, is_full, wait_for};
use serde_json::{Value, json};
use turnstream_fake_provider::{Completion, Delivery, Part, Step};

/// What happens in a session up to its idle, in a few words, without deltas.
fn turn(events: &mut Events, session: &str) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    loop {
        let event = events.next().unwrap();
        let (kind, properties) = (event["type"].as_str().unwrap(), &event["properties"]);
        if properties["sessionID"] != session {
            continue;
        }
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let part = &properties["part"];
        let said = match kind {
            "session.status" => format!("status {}", word(&properties["status"]["type"])),
            "message.updated" if properties["info"]["time"]["completed"].is_number() => {
                "completed".to_owned()
            }
            "message.updated" => format!("message {}", word(&properties["info"]["role"])),
            "message.part.updated" => match part["type"].as_str().unwrap() {
                "tool" => format!("{} {}", word(&part["tool"]), word(&part["state"]["status"])),
                "text" if part["text"] != "" => word(&part["text"]),
                _ => continue,
            },
            "session.idle" => "session.idle".to_owned(),
            _ => continue,
        };
        // A call is shown again whenever it changes; a status is told once.
        if told.last() != Some(&said) || said.starts_with("status") {
            told.push(said);
        }
        if kind == "session.idle" {
            return told;
        }
    }
}

#[test]
fn claude_code_reads_a_file_edits_it_and_answers_busy_once_and_idle_once_also_in_a_second_turn() {
    // The script of the provider has the path of the file, so the file comes first.
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("README.md");
    std::fs::write(&path, "# Sample\n").unwrap();
    let step = |text: &str, tool: &str, input: Value| {
        Step::new(Completion::of([Part::text(text), Part::tool_call(tool, input)]))
    };
    let read = step("I read it.", "Read", json!({"file_path": path}));
    let change = json!({"file_path": path, "old_string": "# Sample", "new_string": "# Changed"});
    let edit = step("I edit it.", "Edit", change);
    let lab = Lab::new([read, edit, Step::text("Done."), Step::text("Again.").always()]);
    // The process of a quiet session is ended at once.
    let config = lab.home.path("turnstream.toml").display().to_string();
    let serving = lab.home.serve_armed(&["--config", &config], |command| {
        command.env("TURNSTREAM_TIMEOUTS_IDLE", "100ms");
    });
    let mut events = Events::open(&serving.address);
    lab.session(&serving);
    let (_, listed) = ask(&serving.address, "GET", "/opencode/session", &Value::Null);
    assert_eq!(listed[0]["agent"], "claude");
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    let prompt = |text: &str| {
        let body = json!({"parts": [{"type": "text", "text": text}]});
        ask(&serving.address, "POST", &format!("/opencode/session/{id}/message"), &body);
    };
    prompt("Read README.md and edit it");
    let told = turn(&mut events, &id);
    let places = |what: &str| told.iter().filter(|said| *said == what).count();
    let want = [
        "message user",
        "Read README.md and edit it",
        "status busy",
        "message assistant",
        "I read it.",
        "read pending",
        "read running",
        "read completed",
        "I edit it.",
        "edit pending",
        "edit running",
        "edit completed",
        "Done.",
        "completed",
        "status idle",
        "session.idle",
    ];
    let mut rest = told.iter();
    for said in want {
        assert!(rest.any(|event| event == said), "{said} is not in its place: {told:#?}");
    }
    assert_eq!(
        (places("status busy"), places("status idle"), places("session.idle")),
        (1, 1, 1),
        "{told:#?}"
    );
    // The end of the process adds nothing: the next event is of the next turn.
    wait_for(|| lab.claude_process().is_none().then_some(()));
    prompt("And again");
    let again = turn(&mut events, &id);
    let want = [
        "message user",
        "And again",
        "status busy",
        "message assistant",
        "Again.",
        // The end of the model call, with what it took.
        "message assistant",
        "completed",
        "status idle",
        "session.idle",
    ];
    assert_eq!(again, want);
    // Claude Code has commands of its own, and shortens its conversation by one of them.
    let (_, commands) = ask(&serving.address, "GET", "/opencode/command", &Value::Null);
    assert!(commands.as_array().unwrap().iter().any(|command| command["name"] == "init"), "{commands}");
    let (head, answer) =
        ask(&serving.address, "POST", &format!("/opencode/session/{id}/summarize"), &json!({}));
    assert!(head.starts_with("http/1.1 200 ") && answer == json!(true), "{head} {answer}");
    let told = turn(&mut events, &id);
    assert_eq!(told[..3], ["message user", "/compact", "status busy"], "{told:#?}");
    assert_eq!(told.iter().filter(|said| *said == "status idle").count(), 1, "{told:#?}");
}

/// A gateway with Claude Code at an address that stays, and clients of opencode.
struct Clicks {
    serving: Serving,
    lab: Lab,
}

impl Clicks {
    fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let lab = Lab::new(steps);
        Self { serving: lab.serve(), lab }
    }

    fn scene(&self) -> Scene<'_> {
        Scene { home: &self.lab.home, serving: &self.serving, agent: "Claude", mark: "" }
    }

    fn clients(&self) -> Clients {
        self.scene().clients()
    }

    fn attach<'a>(&self, clients: &'a Clients, more: &str) -> Tui<'a> {
        self.scene().attach(clients, more)
    }

    /// Kills the gateway, and starts another one at the same address.
    fn restart(&mut self) {
        let (listen, config) = (self.serving.address.clone(), self.lab.home.path("turnstream.toml"));
        self.serving.child.kill().unwrap();
        self.serving.child.wait().unwrap();
        let config = config.display().to_string();
        self.serving = self.lab.home.serve(&["--config", &config, "--listen", &listen]);
    }
}

#[test]
fn the_tui_drives_claude_code_approves_rejects_interrupts_and_a_second_one_shows_the_same() {
    let clicks = Clicks::new(steps(shell));
    clicks.scene().play();
}

#[test]
fn the_tui_comes_back_to_claude_codes_turn_when_the_gateway_is_killed_in_it() {
    let slow = Delivery { before_delta_ms: 250, ..Delivery::default() };
    let text = "This answer takes its time, word by word, so that a gateway can be killed in it. The end.";
    let mut clicks = Clicks::new([Step::text(text).delivered(slow)]);
    let clients = clicks.clients();
    let tui = clicks.attach(&clients, "");
    tui.until(&["Claude"]);
    tui.say("Survive this");
    tui.until(&["This answer"]);
    clicks.restart();
    tui.until(&["Survive this", "The end."]);
    tui.until_without("esc interrupt");
}

#[test]
fn the_tui_answers_a_question_of_claude_code_and_opens_its_subagent() {
    if !is_full() {
        return;
    }
    let question = json!({
        "question": "Tea or coffee?", "header": "Drink", "multiSelect": false,
        "options": [
            {"label": "Tea", "description": "Leaves"}, {"label": "Coffee", "description": "Beans"},
        ],
    });
    let task =
        json!({"description": "Look around", "prompt": "GO-AND-LOOK", "subagent_type": "general-purpose"});
    // Claude Code shows the calls of a subagent, and not its texts.
    let clicks = Clicks::new([
        shell("touch seen.txt").for_any_user_text("GO-AND-LOOK"),
        Step::text("I saw it.").for_any_user_text("GO-AND-LOOK"),
        Step::new(Completion::of([Part::tool_call("AskUserQuestion", json!({"questions": [question]}))])),
        Step::text("Then it is that one."),
        Step::new(Completion::of([Part::tool_call("Task", task)])),
        Step::text("My subagent is back."),
    ]);
    let clients = clicks.clients();
    let tui = clicks.attach(&clients, "");
    tui.until(&["Claude"]);
    clicks.scene().answer_a_question(&tui, &clients);
    tui.say("Send somebody");
    // The subagent asks, in the session of its parent too.
    tui.until(&["Permission required", "touch seen.txt"]);
    tui.keys(&["Enter"]);
    tui.until(&["Look around", "My subagent is back."]);
    // The first child of the session.
    tui.chord(&["C-x", "Down"]);
    tui.until(&["GO-AND-LOOK", "touch seen.txt"]);
}
