//! The gateway is killed at named places while the real Codex works. What Codex could finish is not lost.

use super::{Lab, shell};
use crate::kills::{ANSWER, KillLab, kill_anywhere, kill_while_recovering, runs_by_log};
use crate::real_agent::{answers, items, outcomes, prompt_at};
use crate::support::{Home, Serving};
use serde_json::Value;
use turnstream_fake_provider::{Delivery, Step};

impl KillLab for Lab {
    fn home(&self) -> &Home {
        &self.home
    }

    fn session(&self, serving: &Serving) -> String {
        self.session(serving)
    }

    fn prompt(address: &str, session: &str, text: &str) -> (String, Value) {
        prompt_at(address, session, text, text)
    }

    fn processes(&self) -> Vec<(i32, String)> {
        self.processes()
    }

    /// A permission that was open dies with the gateway: the command then fails, and did not run.
    fn assert_first_turn(&self, serving: &Serving, session: &str, log: &[Value], runs: usize, at: &str) {
        assert_eq!(outcomes(log), ["completed"], "{at}: Codex could finish it: {log:#?}");
        assert_eq!(runs, runs_by_log(&items(serving, session)), "{at}: {log:#?}");
        assert_eq!(answers(serving, session), ["I run it.", ANSWER], "{at}: {log:#?}");
    }
}

/// A command, and an answer.
fn lab(command: &str) -> Lab {
    let slow = Delivery { before_delta_ms: 40, ..Delivery::default() };
    Lab::new([shell(command), Step::text(ANSWER).delivered(slow), Step::text("Again.").always()])
}

#[test]
fn a_gateway_that_is_killed_anywhere_loses_no_turn_that_codex_can_finish() {
    kill_anywhere(lab);
}

#[test]
fn a_gateway_that_is_killed_while_it_recovers_is_recovered_from_as_well() {
    kill_while_recovering(lab);
}
