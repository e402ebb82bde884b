//! A session without a turn: its process dies, is given back, or works in the background.

use super::{Lab, accepted, of_type, outcomes, prompt, signal};
use crate::support::wait_for;
use rustix::process::Signal;
use serde_json::json;
use turnstream_fake_provider::{Completion, Part, Step};
use turnstream_testkit::agents::ClaudeVersion;

/// The process ends while the gateway cannot notice it, and the prompt is already there when it can. So the
/// gateway writes it to nobody, or notices the end first.
#[test]
fn a_prompt_that_arrives_in_the_moment_an_idle_process_dies_is_run_once() {
    let lab = Lab::new([Step::text("Yes.").always()]);
    let serving = lab.serve();
    let session = lab.session(&serving);
    for turn in 1..=4 {
        accepted(&serving, &session, &format!("Prompt {turn}"));
        let log = lab.ended(&session, turn);
        assert_eq!(outcomes(&log), vec!["completed"; turn], "{log:#?}");
        assert_eq!(lab.provider.calls().len(), turn, "every prompt ran once");
        if turn == 4 {
            break;
        }
        let gateway = i32::try_from(serving.child.id()).unwrap();
        signal(gateway, Signal::STOP);
        let next = format!("Prompt {}", turn + 1);
        std::thread::scope(|scope| {
            let sent = scope.spawn(|| prompt(&serving, &session, &next));
            signal(lab.claude_process().unwrap(), Signal::KILL);
            wait_for(|| lab.processes().is_empty().then_some(()));
            signal(gateway, Signal::CONT);
            assert!(sent.join().unwrap().0.starts_with("http/1.1 202 "));
        });
    }
}

#[test]
fn a_command_in_the_background_keeps_its_process_beyond_idle_and_wakes_the_agent() {
    for version in [ClaudeVersion::V2_1_197, ClaudeVersion::V2_1_325] {
        let command = "until [ -e go.txt ]; do sleep 0.1; done; echo done";
        let arguments = json!({"command": command, "description": "As scripted", "run_in_background": true});
        let lab = Lab::of(
            version,
            [
                Step::new(Completion::of([Part::tool_call("Bash", arguments)])),
                Step::text("It runs.").always(),
            ],
        );
        let serving = lab.serve_with(|command| {
            command.env("TURNSTREAM_TIMEOUTS_IDLE", "3s");
        });
        let session = lab.session(&serving);
        accepted(&serving, &session, "Run it");
        lab.ended(&session, 1);
        let process = lab.claude_process().unwrap();
        // A session of the same gateway that has nothing to do gives its process back.
        let other = lab.session(&serving);
        accepted(&serving, &other, "Hello");
        lab.ended(&other, 1);
        wait_for(|| (lab.claude_processes() == [process]).then_some(()));
        std::fs::write(lab.home.path("work/go.txt"), "").unwrap();
        let log = lab.ended(&session, 2);
        assert_eq!(outcomes(&log), ["completed", "completed"], "{version:?}: {log:#?}");
        assert_eq!(of_type(&log, "turn.started")[1]["origin"], "agent", "{version:?}");
        wait_for(|| lab.processes().is_empty().then_some(()));
        accepted(&serving, &session, "And now?");
        assert_eq!(outcomes(&lab.ended(&session, 3)), ["completed"; 3], "{version:?}");
    }
}

#[test]
fn without_a_home_a_prompt_fails_with_the_way_out() {
    let lab = Lab::new([Step::text("Yes.").always()]);
    lab.configure_without(&lab.claude.command().unwrap(), &["HOME"]);
    let serving = lab.serve_with(|command| {
        command.env_remove("HOME");
    });
    let session = lab.session(&serving);
    accepted(&serving, &session, "Hello");
    let log = lab.ended(&session, 1);
    let error = &of_type(&log, "turn.ended")[0]["error"];
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("HOME") && message.contains("CLAUDE_CONFIG_DIR"), "{message}");
    assert!(lab.provider.calls().is_empty());
}
