//! Cancels that come before Claude Code has begun.

use super::{Lab, accepted, of_type, outcomes, signal};
use crate::support::{ask, wait_for};
use rustix::process::Signal;
use serde_json::json;
use turnstream_fake_provider::{Fault, Step};
use turnstream_testkit::agents::ClaudeVersion;

/// 2.1.325 answers an interrupt that it reads before its prompt has begun with the prompts that are still
/// queued, and then begins. The interrupt is repeated.
#[test]
fn a_cancel_before_claude_code_begins_stops_the_turn_also_if_the_first_interrupt_comes_too_early() {
    for version in [ClaudeVersion::V2_1_197, ClaudeVersion::V2_1_325] {
        // Nobody but a cancel ends this answer.
        let stall = Fault::Stall { after: 1_500, lasts_ms: None, comment_every_ms: None };
        let endless =
            Step::text(&"word ".repeat(1_000)).fault(stall).for_user_text("Take your time").always();
        let lab = Lab::of(version, [endless, Step::text("Yes.").always()]);
        let serving = lab.serve();
        let session = lab.session(&serving);
        accepted(&serving, &session, "Hello");
        lab.ended(&session, 1);
        let process = lab.claude_process().unwrap();
        signal(process, Signal::STOP);
        accepted(&serving, &session, "Take your time");
        wait_for(|| (of_type(&lab.log(&session), "prompt.sent").len() == 2).then_some(()));
        let path = format!("/v1/sessions/{session}/cancel");
        let (head, answer) = ask(&serving.address, "POST", &path, &json!({}));
        assert!(head.starts_with("http/1.1 2"), "{head} {answer}");
        signal(process, Signal::CONT);
        let log = lab.ended(&session, 2);
        assert_eq!(outcomes(&log), ["completed", "cancelled"], "{version:?}: {log:#?}");
        accepted(&serving, &session, "And now?");
        assert_eq!(outcomes(&lab.ended(&session, 3)), ["completed", "cancelled", "completed"], "{version:?}");
        assert_eq!(lab.claude_process(), Some(process), "{version:?}: the process goes on");
    }
}
