//! What tools of opencode leave running ends with the gateway.

use super::{Lab, ended, prompt, session};
use crate::support::{read, wait_for};
use rustix::process::Signal;
use serde_json::json;
use turnstream_agents::ControlGroups;
use turnstream_fake_provider::{Completion, Part, Step};

/// What is said at the start where there are no control groups.
const WITHOUT: &str = "agents run without a control group of their own";

fn runs(process: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

/// A lab whose model has the shell start a process that leaves its parent, its session and its environment.
fn lab() -> Lab {
    let command = "setsid env -i sh -c 'echo $$ > left.txt; exec sleep 300' > /dev/null 2>&1 &";
    let tool = Part::tool_call("bash", json!({"command": command, "description": "Leave a process"}));
    Lab::new([Step::new(Completion::of([tool])), Step::text("It is left.").always()])
}

/// Has the tool run, and returns the process it left.
fn leave_one(lab: &Lab, serving: &crate::support::Serving) -> i32 {
    let session = session(serving, &lab.home.path("work"));
    prompt(serving, &session, "Leave a process");
    ended(|| lab.log_of(&session), 1);
    let file = lab.home.path("work/left.txt");
    wait_for(|| std::fs::read_to_string(&file).ok()?.trim().parse().ok())
}

fn end_by_hand(process: i32) {
    eprintln!("no control groups can be made here, so process {process} is ended by the test");
    super::signal(process, Signal::KILL);
}

#[test]
fn a_process_that_left_everything_but_its_control_group_ends_with_the_gateway() {
    let lab = lab();
    let serving = lab.serve();
    let left = leave_one(&lab, &serving);
    assert!(runs(left));
    let (status, _) = serving.end(Signal::TERM);
    assert!(status.success());
    let said = read(&lab.home.path("serve.err"));
    match ControlGroups::find() {
        Ok(_) => {
            assert!(!runs(left), "it outlived its agent");
            assert!(!said.contains(WITHOUT), "{said}");
        }
        Err(_) => {
            assert_eq!(said.matches(WITHOUT).count(), 1, "{said}");
            end_by_hand(left);
        }
    }
    assert_eq!(lab.left_over(), [""; 0]);
}

#[test]
fn such_a_process_of_an_opencode_that_outlived_a_killed_gateway_ends_with_the_next_one() {
    let lab = lab();
    let serving = lab.serve();
    let left = leave_one(&lab, &serving);
    serving.end(Signal::KILL);
    assert!(runs(left));
    let serving = lab.serve();
    let (status, _) = serving.end(Signal::TERM);
    assert!(status.success());
    match ControlGroups::find() {
        Ok(_) => assert!(!runs(left), "it outlived its agent"),
        Err(_) => end_by_hand(left),
    }
    assert_eq!(lab.left_over(), [""; 0]);
}
