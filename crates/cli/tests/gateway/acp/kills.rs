//! The gateway is killed at named places while a real ACP agent works. Without its pipes the agent cannot go
//! on, so an open turn is lost.

use super::{Lab, shell_of};
use crate::kills::{ANSWER, KillLab, kill_anywhere, kill_while_recovering};
use crate::real_agent::outcomes;
use crate::support::{Home, Serving, is_full};
use serde_json::Value;
use turnstream_fake_provider::{Delivery, Step};
use turnstream_testkit::agents::AcpAgent;

impl KillLab for Lab {
    fn home(&self) -> &Home {
        &self.home
    }

    fn session(&self, serving: &Serving) -> String {
        self.session(serving, "allow")
    }

    fn prompt(address: &str, session: &str, text: &str) -> (String, Value) {
        super::prompt_at(address, session, text)
    }

    fn processes(&self) -> Vec<(i32, String)> {
        self.processes()
    }

    fn assert_first_turn(&self, _serving: &Serving, _session: &str, log: &[Value], _runs: usize, at: &str) {
        let outcomes = outcomes(log);
        assert!(matches!(outcomes[..], ["completed" | "lost"]), "{at}: {outcomes:?}: {log:#?}");
    }
}

/// A command, and an answer.
fn lab(agent: AcpAgent, command: &str) -> Lab {
    let slow = Delivery { before_delta_ms: 40, ..Delivery::default() };
    Lab::of(
        agent,
        [shell_of(agent, command), Step::text(ANSWER).delivered(slow), Step::text("Again.").always()],
    )
}

/// The agents: one by default, because the others take long to start.
fn agents() -> &'static [AcpAgent] {
    let all = &[AcpAgent::Claude, AcpAgent::Codex, AcpAgent::Opencode];
    if is_full() { all } else { &all[..1] }
}

#[test]
fn a_gateway_that_is_killed_anywhere_runs_no_prompt_twice() {
    for agent in agents() {
        kill_anywhere(|command| lab(*agent, command));
    }
}

#[test]
fn a_gateway_that_is_killed_while_it_recovers_is_recovered_from_as_well() {
    for agent in agents() {
        kill_while_recovering(|command| lab(*agent, command));
    }
}
