//! A turn with a subagent over a kill of the gateway. What the subagent did, and what it took, is in the log
//! as it is without a kill. Nothing follows the end of the turn. Only a cost that the agent does not store is
//! unknown.

use super::{Lab, accepted, of_type};
use crate::support::{Serving, ask, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use turnstream_fake_provider::{Completion, Part, Step, Usage};
use turnstream_testkit::agents::ClaudeVersion;

/// The prompt of the subagent.
const ERRAND: &str = "You go north.";
/// Commands that say that they run, and wait for a file.
const OF_SUBAGENT: Gate = Gate { begun: "north.txt", may_end: "back.txt" };
const OF_MAIN: Gate = Gate { begun: "main.txt", may_end: "done.txt" };

#[derive(Clone, Copy)]
struct Gate {
    begun: &'static str,
    may_end: &'static str,
}

/// When the gateway is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kill {
    Never,
    /// The subagent runs a command.
    SubagentWorks,
    /// The subagent is back, and the turn goes on.
    SubagentIsBack,
}

/// What a turn left in the log.
#[derive(Debug, PartialEq)]
struct Seen {
    outcome: Value,
    usage: Value,
    cost: Value,
    /// Kind, tool, whether a subagent made it, state, and text or output of every item.
    items: Vec<Value>,
}

impl Gate {
    fn call(self) -> Part {
        let Self { begun, may_end } = self;
        let command = format!("echo begun > {begun}; until [ -e {may_end} ]; do sleep 0.1; done; echo ended");
        Part::tool_call("Bash", json!({"command": command, "description": "As scripted"}))
    }

    fn wait(self, lab: &Lab) {
        wait_for(|| (!lab.work(self.begun).is_empty()).then_some(()));
    }

    fn open(self, lab: &Lab) {
        std::fs::write(lab.home.path("work").join(self.may_end), "").unwrap();
    }
}

fn step(parts: Vec<Part>, input: u64, output: u64) -> Step {
    let usage = Usage { input, cached: 0, output, reasoning: 0 };
    Step::new(Completion { usage, ..Completion::of(parts) })
}

/// A subagent that runs a command and answers. Then the agent itself runs one, and answers.
fn lab(version: ClaudeVersion) -> Lab {
    // 2.1.325 would run it in the background.
    let errand = json!({"description": "Go north", "prompt": ERRAND, "subagent_type": "general-purpose",
        "run_in_background": false});
    let of_subagent = [
        step(vec![Part::text("I go."), OF_SUBAGENT.call()], 2_000, 20),
        step(vec![Part::text("The north is cold.")], 3_000, 30),
    ];
    let of_main = [
        step(vec![Part::text("Hello.")], 50, 5),
        step(vec![Part::text("I send one."), Part::tool_call("Task", errand)], 100, 1),
        step(vec![OF_MAIN.call()], 200, 2),
        step(vec![Part::text("It is back.")], 300, 3),
        Step::text("Yes.").always(),
    ];
    let steps = of_subagent.map(|step| step.for_any_user_text(ERRAND)).into_iter().chain(of_main);
    let lab = Lab::of(version, steps);
    // A permission could not be answered after the kill.
    let settings = json!({"permissions": {"allow": ["Bash", "Task", "Agent"]}});
    let folder = lab.claude.home().join(".claude");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("settings.json"), settings.to_string()).unwrap();
    lab
}

/// What the second turn left.
fn seen(lab: &Lab, serving: &Serving, session: &str) -> Seen {
    let log = lab.ended(session, 2);
    let place = log.iter().rposition(|event| event["type"] == "turn.ended").unwrap();
    let late: Vec<&Value> = log[place + 1..].iter().filter(|event| !event["item"].is_null()).collect();
    assert_eq!(late, [&Value::Null; 0], "nothing of a turn follows its end");
    let path = format!("/v1/sessions/{session}/snapshot");
    let (_, snapshot) = ask(&serving.address, "GET", &path, &json!({}));
    let item = |item: &Value| {
        let said = if item["text"].is_null() { &item["tool"]["output"]["output"] } else { &item["text"] };
        let is_subagents = !item["parent"].is_null();
        // The agent adds its own id of a subagent, and how long it worked, to what the subagent said.
        let said = said.as_str().map(|said| said.split("agentId").next().unwrap().to_owned());
        json!([item["kind"], item["tool"]["name"], is_subagents, item["state"], said])
    };
    let end = &log[place];
    Seen {
        outcome: end["outcome"].clone(),
        usage: end["usage"].clone(),
        cost: end["cost"].clone(),
        items: snapshot["items"].as_array().unwrap().iter().map(item).collect(),
    }
}

/// Plays it after another turn, because the agent counts from the start of its process.
fn play(version: ClaudeVersion, kill: Kill) -> Seen {
    let lab = lab(version);
    let mut serving = lab.serve();
    let session = lab.session(&serving);
    accepted(&serving, &session, "Hello");
    lab.ended(&session, 1);
    accepted(&serving, &session, "Send one");
    OF_SUBAGENT.wait(&lab);
    if kill == Kill::SubagentWorks {
        serving.end(Signal::KILL);
        serving = lab.serve();
    }
    OF_SUBAGENT.open(&lab);
    OF_MAIN.wait(&lab);
    if kill == Kill::SubagentIsBack {
        serving.end(Signal::KILL);
        serving = lab.serve();
    }
    OF_MAIN.open(&lab);
    let seen = seen(&lab, &serving, &session);
    // The next turn counts only itself.
    accepted(&serving, &session, "And now?");
    let log = lab.ended(&session, 3);
    assert_eq!(of_type(&log, "turn.ended")[2]["usage"]["output"], json!(10), "{version:?}, {kill:?}");
    serving.end(Signal::TERM);
    seen
}

fn a_kill_changes_nothing(version: ClaudeVersion) {
    let undisturbed = play(version, Kill::Never);
    assert_eq!(undisturbed.outcome, "completed");
    let spent = (&undisturbed.usage["input"], &undisturbed.usage["output"]);
    assert_eq!(spent, (&json!(5_600), &json!(56)), "{undisturbed:#?}");
    assert!(undisturbed.cost["amount"].as_f64().unwrap() > 0.0, "{undisturbed:#?}");
    let expected = match version {
        // It stores no cost: after a kill nobody knows it.
        ClaudeVersion::V2_1_197 => Seen { cost: Value::Null, ..undisturbed },
        ClaudeVersion::V2_1_325 => undisturbed,
    };
    for kill in [Kill::SubagentWorks, Kill::SubagentIsBack] {
        assert_eq!(play(version, kill), expected, "{version:?}, {kill:?}");
    }
}

#[test]
fn a_kill_of_the_gateway_changes_nothing_in_a_turn_with_a_subagent_of_2_1_197() {
    a_kill_changes_nothing(ClaudeVersion::V2_1_197);
}

#[test]
fn a_kill_of_the_gateway_changes_nothing_in_a_turn_with_a_subagent_of_2_1_325() {
    a_kill_changes_nothing(ClaudeVersion::V2_1_325);
}
