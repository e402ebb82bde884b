//! The process of Claude Code dies, does not start, or is stopped.

use super::{Lab, accepted, of_type, outcomes, shell, signal};
use crate::support::wait_for;
use rustix::process::Signal;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use turnstream_fake_provider::{Completion, Delivery, Part, Step};

/// A command that runs until it is ended, in a session of its own, without the environment of its parent.
const STUBBORN: &str = "echo $$ > pid.txt; setsid env -i sleep 300 & echo $! > child.txt; sleep 300";

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[test]
fn a_killed_process_loses_its_turn_once_leaves_no_command_behind_and_the_next_turn_goes_on() {
    let lab = Lab::new([shell(STUBBORN), Step::text("I am back.").always()]);
    let serving = lab.serve();
    let session = lab.session(&serving);
    accepted(&serving, &session, "Run it");
    wait_for(|| (!lab.work("child.txt").is_empty()).then_some(()));
    let (shell, child) = (lab.work("pid.txt"), lab.work("child.txt"));
    assert!(is_alive(&shell) && is_alive(&child));

    signal(lab.claude_process().unwrap(), Signal::KILL);
    let log = lab.ended(&session, 1);
    assert_eq!(outcomes(&log), ["lost"]);
    assert_eq!(of_type(&log, "turn.ended")[0]["error"]["class"], "agent_exited");
    let tool = of_type(&log, "item.started").into_iter().find(|item| item["kind"] == "tool").unwrap();
    let ended = of_type(&log, "item.ended").into_iter().find(|item| item["item"] == tool["item"]).unwrap();
    assert_eq!(ended["state"], "unknown", "a command that may have run");
    wait_for(|| (!is_alive(&shell)).then_some(()));
    // Without a control group, a process that left everything else cannot be found.
    if turnstream_agents::ControlGroups::find().is_ok() {
        wait_for(|| (!is_alive(&child)).then_some(()));
    }

    accepted(&serving, &session, "Are you there?");
    let log = lab.ended(&session, 2);
    assert_eq!(outcomes(&log), ["lost", "completed"]);
    serving.end(Signal::TERM);
    wait_for(|| lab.processes().is_empty().then_some(()));
    drop(std::process::Command::new("kill").arg(child.trim()).output());
}

#[test]
fn a_killed_process_is_noticed_although_something_it_started_holds_its_output() {
    let lab = Lab::new([shell("echo begun > begun.txt; sleep 300"), Step::text("I am back.").always()]);
    let wrapper = lab.home.path("claude");
    let script =
        format!("#!/bin/sh\nsleep 300 &\nexec '{}' \"$@\"\n", lab.claude.command().unwrap().display());
    let script = script.replace("sleep 300 &", "[ \"$1\" = --version ] || sleep 300 &");
    std::fs::write(&wrapper, script).unwrap();
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
    lab.configure(&wrapper);
    let serving = lab.serve();
    let session = lab.session(&serving);
    accepted(&serving, &session, "Run it");
    wait_for(|| (!lab.work("begun.txt").is_empty()).then_some(()));
    signal(lab.claude_process().unwrap(), Signal::KILL);
    assert_eq!(outcomes(&lab.ended(&session, 1)), ["lost"]);
    accepted(&serving, &session, "Are you there?");
    assert_eq!(outcomes(&lab.ended(&session, 2)), ["lost", "completed"]);
}

#[test]
fn a_start_that_dies_before_its_first_answer_is_tried_again() {
    let lab = Lab::new([Step::text("Here I am.").always()]);
    let real = lab.claude.command().unwrap();
    let (wrapper, tries) = (lab.home.path("claude"), lab.home.path("tries"));
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] || echo try >> '{tries}'\n\
         [ \"$1\" = --version ] || [ $(wc -l < '{tries}') -gt 2 ] || exit 7\nexec '{}' \"$@\"\n",
        real.display(),
        tries = tries.display(),
    );
    std::fs::write(&wrapper, script).unwrap();
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
    lab.configure(&wrapper);
    let serving = lab.serve();
    let session = lab.session(&serving);
    accepted(&serving, &session, "Hello");
    let log = lab.ended(&session, 1);
    assert_eq!(outcomes(&log), ["completed"], "{log:#?}");
    assert_eq!(std::fs::read_to_string(&tries).unwrap(), "try\n".repeat(3));

    // One that always dies says why.
    let broken =
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 2.1.197 && exit\necho the disk ate it >&2\nexit 9\n";
    std::fs::write(&wrapper, broken).unwrap();
    let session = lab.session(&serving);
    accepted(&serving, &session, "Hello");
    let log = lab.ended(&session, 1);
    let error = &of_type(&log, "turn.ended")[0]["error"];
    assert_eq!((&error["class"], outcomes(&log)), (&json!("unreachable"), vec!["failed"]));
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("exit status: 9") && message.contains("the disk ate it"), "{message}");
}

#[test]
fn a_stopped_process_that_a_killed_gateway_left_is_continued_and_finishes_its_turn() {
    let slow = Delivery { before_delta_ms: 500, ..Delivery::default() };
    let answer = "A long answer, of which the gateway has only seen the beginning when it is killed.";
    let lab = Lab::new([Step::text(answer).delivered(slow), Step::text("Yes.").always()]);
    let serving = lab.serve();
    let session = lab.session(&serving);
    accepted(&serving, &session, "Take your time");
    wait_for(|| (!of_type(&lab.log(&session), "item.delta").is_empty()).then_some(()));
    let process = lab.claude_process().unwrap();
    serving.end(Signal::KILL);
    // Not before: the kernel ends a stopped process whose parent dies.
    signal(process, Signal::STOP);

    let serving = lab.serve();
    let log = lab.ended(&session, 1);
    assert_eq!(outcomes(&log), ["completed"], "{log:#?}");
    let path = format!("/v1/sessions/{session}/items");
    let (_, items) = crate::support::ask(&serving.address, "GET", &path, &json!({}));
    assert!(items.to_string().contains(answer), "{items:#}");
    accepted(&serving, &session, "Are you there?");
    assert_eq!(outcomes(&lab.ended(&session, 2)), ["completed", "completed"]);
}

#[test]
fn a_cancel_while_a_leftover_is_waited_for_ends_it() {
    let lab = Lab::new([shell("echo begun > begun.txt; sleep 300"), Step::text("Yes.").always()]);
    let serving = lab.serve();
    let session = lab.session(&serving);
    accepted(&serving, &session, "Sleep");
    wait_for(|| (!lab.work("begun.txt").is_empty()).then_some(()));
    serving.end(Signal::KILL);

    let serving = lab.serve();
    let path = format!("/v1/sessions/{session}");
    wait_for(|| {
        let (_, session) = crate::support::ask(&serving.address, "GET", &path, &json!({}));
        (session["status"] == "recovering").then_some(())
    });
    let (head, answer) = crate::support::ask(&serving.address, "POST", &format!("{path}/cancel"), &json!({}));
    assert!(head.starts_with("http/1.1 2"), "{head} {answer}");
    let log = lab.ended(&session, 1);
    assert_eq!(outcomes(&log), ["cancelled"], "{log:#?}");
    wait_for(|| lab.processes().is_empty().then_some(()));
    accepted(&serving, &session, "Are you there?");
    assert_eq!(outcomes(&lab.ended(&session, 2)), ["cancelled", "completed"]);
}

/// A prompt with an image and a file reaches the model.
#[test]
fn images_and_files_reach_claude_code_in_its_own_form_and_others_are_refused_at_the_door() {
    let lab = Lab::new([Step::new(Completion::of([Part::text("A dot.")])).always()]);
    let serving = lab.serve();
    let session = lab.session(&serving);
    let dot =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let path = format!("/v1/sessions/{session}/prompts");
    let content = json!([
        {"type": "text", "text": "What is this?"},
        {"type": "image", "mimeType": "image/png", "data": dot},
        {"type": "resource", "resource": {"uri": "file:///notes.txt", "text": "Some notes.", "mimeType": "text/plain"}},
    ]);
    let (head, answer) = crate::support::ask(&serving.address, "POST", &path, &json!({"content": content}));
    assert!(head.starts_with("http/1.1 202 "), "{head} {answer}");
    assert_eq!(outcomes(&lab.ended(&session, 1)), ["completed"]);
    let calls = lab.provider.calls();
    let body = calls.last().unwrap().body.to_string();
    assert!(body.contains(dot) && body.contains("Some notes."), "{body}");

    let sound = json!({"content": [{"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="}]});
    let (head, answer) = crate::support::ask(&serving.address, "POST", &path, &sound);
    assert!(head.starts_with("http/1.1 4"), "{head} {answer}");
    assert!(answer["detail"].as_str().unwrap().contains("audio"), "{answer}");
}
