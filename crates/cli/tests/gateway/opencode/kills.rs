//! The gateway is killed at named places while the real opencode works. What opencode can finish is kept.

use super::Lab;
use crate::kills::{ANSWER, KillLab, kill_anywhere, runs_by_log};
use crate::real_agent::{self, answers, create_session, items, outcomes, prompt_at};
use crate::support::{Home, Serving, is_full};
use serde_json::{Value, json};
use turnstream_fake_provider::{Completion, Delivery, Part, Step};

impl KillLab for Lab {
    fn home(&self) -> &Home {
        &self.home
    }

    fn session(&self, serving: &Serving) -> String {
        create_session(&self.home, serving, json!({"agent": "opencode"}))
    }

    fn prompt(address: &str, session: &str, text: &str) -> (String, Value) {
        prompt_at(address, session, text, text)
    }

    fn processes(&self) -> Vec<(i32, String)> {
        real_agent::processes(&self.opencode.work().with_file_name("home"))
    }

    fn assert_first_turn(&self, serving: &Serving, session: &str, log: &[Value], runs: usize, at: &str) {
        assert_eq!(outcomes(log), ["completed"], "{at}: opencode could finish it: {log:#?}");
        assert_eq!(runs, runs_by_log(&items(serving, session)), "{at}: {log:#?}");
        assert_eq!(answers(serving, session), ["I run it.", ANSWER], "{at}: {log:#?}");
    }
}

/// Three starts of opencode for each place are too much for the default run, which has other kills.
#[test]
fn a_gateway_that_is_killed_anywhere_loses_no_turn_that_opencode_can_finish() {
    if !is_full() {
        return;
    }
    kill_anywhere(|command| {
        let described = json!({"command": command, "description": "As scripted"});
        let call = Completion::of([Part::text("I run it."), Part::tool_call("bash", described)]);
        let slow = Delivery { before_delta_ms: 40, ..Delivery::default() };
        let steps = [Step::new(call), Step::text(ANSWER).delivered(slow), Step::text("Again.").always()];
        Lab::new(steps)
    });
}
