//! Half a character in what the real opencode says, and a gateway that is killed over it.

use super::{Lab, of_type, text};
use crate::support::{stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use turnstream_fake_provider::{Completion, Delivery, Part, Step};
use turnstream_testkit::agents::Opencode;

const ANSWER: &str =
    "It was read and printed, and this is said slowly, so that a gateway can be killed over it.";

#[test]
fn a_turn_with_half_an_emoji_in_its_results_ends_whole_after_a_kill_of_the_gateway() {
    let emoji = "\u{1F600}";
    let read = Part::tool_call("read", json!({"filePath": "emoji.txt"}));
    let print = format!("for i in $(seq 1 60); do printf 'a{}'; done", emoji.repeat(1_001));
    let print = Part::tool_call("bash", json!({"command": print, "description": "Print many"}));
    let slow = Delivery { before_delta_ms: 150, ..Delivery::default() };
    let lab = Lab::new([
        Step::new(Completion::of([read])),
        Step::new(Completion::of([print])),
        Step::text(ANSWER).delivered(slow),
    ]);
    std::fs::write(lab.home.path("work/emoji.txt"), format!("a{}\n", emoji.repeat(1_500))).unwrap();
    let serving = lab.serve();
    let mut run = lab.run(&["Read and print", "--permissions", "allow", "--json"]);
    wait_for(|| {
        let listed = lab.home.run(&["sessions", "--json"]);
        let session: Value = serde_json::from_str(stdout(&listed).lines().next()?).ok()?;
        let tail = lab.home.run(&["tail", session["id"].as_str()?, "--json", "--no-follow"]);
        Some(()).filter(|()| stdout(&tail).contains("It was"))
    });
    serving.end(Signal::KILL);
    run.kill().unwrap();
    run.wait().unwrap();

    let serving = lab.serve();
    let log = wait_for(|| Some(lab.log()).filter(|log| !of_type(log, "turn.ended").is_empty()));
    let ends = of_type(&log, "turn.ended");
    assert_eq!((ends.len(), &ends[0]["outcome"]), (1, &json!("completed")));
    assert!(text(&log).ends_with(ANSWER));
    assert_eq!(lab.calls(), 3, "the model was asked once for each step");
    let own = own_outputs(&lab);
    assert!(own.iter().any(|output| output.contains('\u{FFFD}')), "opencode cut no character");
    assert!(outputs(&log) == own, "opencode's own text");
    serving.end(Signal::TERM);
}

/// What opencode made of its calls: what it hands to the model.
fn own_outputs(lab: &Lab) -> Vec<String> {
    let calls = lab.provider.calls();
    let last = calls.iter().rfind(|call| call.asked.model == Opencode::MODEL).unwrap();
    let messages = last.body["messages"].as_array().unwrap();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results.map(|result| result["content"].as_str().unwrap().to_owned()).collect()
}

/// What the log has of the calls that are completed, in their order.
fn outputs(log: &[Value]) -> Vec<String> {
    let tools = log.iter().filter_map(|event| event["tool"].as_object());
    let done = tools.filter(|tool| tool.get("status") == Some(&json!("completed")));
    done.filter_map(|tool| Some(tool.get("output")?["output"].as_str()?.to_owned())).collect()
}
