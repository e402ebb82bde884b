//! The gateway is killed at named places while a real ACP agent works. Without its pipes the agent cannot go
//! on, so an open turn is lost.

use super::{Lab, shell_of};
use crate::kills::{ANSWER, KillLab, kill_anywhere, kill_while_recovering};
use crate::real_agent::{answers, outcomes};
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

    /// A turn that was complete has the whole answer. A lost one has no completed text that is not whole.
    fn assert_first_turn(&self, serving: &Serving, session: &str, log: &[Value], runs: usize, at: &str) {
        let (outcomes, answers) = (outcomes(log), answers(serving, session));
        match outcomes[..] {
            ["completed"] => {
                assert_eq!(answers, ["I run it.", ANSWER], "{at}: {log:#?}");
                assert_eq!(runs, 1, "{at}: {log:#?}");
            }
            ["lost"] => {
                assert!(["I run it.", ANSWER].map(str::to_owned).starts_with(&answers), "{at}: {log:#?}")
            }
            _ => panic!("{at}: {outcomes:?}: {log:#?}"),
        }
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

#[test]
fn a_gateway_that_is_killed_anywhere_over_claude_agent_acp_runs_no_prompt_twice() {
    kill_anywhere(|command| lab(AcpAgent::Claude, command));
}

#[test]
fn a_gateway_that_is_killed_anywhere_over_codex_acp_runs_no_prompt_twice() {
    kill_anywhere(|command| lab(AcpAgent::Codex, command));
}

#[test]
fn a_gateway_that_is_killed_anywhere_over_opencode_acp_runs_no_prompt_twice() {
    kill_anywhere(|command| lab(AcpAgent::Opencode, command));
}

/// One agent by default, because the others take long to start.
#[test]
fn a_gateway_that_is_killed_while_it_recovers_is_recovered_from_as_well() {
    let all = [AcpAgent::Claude, AcpAgent::Codex, AcpAgent::Opencode];
    for agent in if is_full() { &all[..] } else { &all[..1] } {
        kill_while_recovering(|command| lab(*agent, command));
    }
}
