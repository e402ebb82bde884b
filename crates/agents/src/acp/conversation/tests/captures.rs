//! Every capture without a fault: its ends are those of the notes beside it, and its log is the stored one.

use super::playback::Playback;
use crate::desk::{End, Judge};
use turnstream_model::event::ErrorClass::{AgentError, ProviderError};
use turnstream_model::event::StopReason::{EndTurn, Rejected};

const DONE: End = End::Completed(EndTurn);

/// How the turns of each capture ended, by the notes beside it.
const TURNS: &[(&str, &[End])] = &[
    ("claude-agent-acp_0.99.1_background", &[DONE, DONE]),
    ("claude-agent-acp_0.99.1_cancel", &[End::Cancelled, DONE]),
    ("claude-agent-acp_0.99.1_cancel_mid_tool", &[End::Cancelled, DONE]),
    // Its word for the error is `unknown`. The refused prompt stays in the history, and is refused again.
    ("claude-agent-acp_0.99.1_error", &[End::Failed(AgentError, None), End::Failed(AgentError, None)]),
    ("claude-agent-acp_0.99.1_load", &[DONE, DONE]),
    ("claude-agent-acp_0.99.1_multi_step", &[DONE, DONE]),
    ("claude-agent-acp_0.99.1_permission_allow", &[DONE]),
    ("claude-agent-acp_0.99.1_permission_cancel", &[End::Cancelled, DONE]),
    ("claude-agent-acp_0.99.1_permission_reject", &[DONE]),
    ("claude-agent-acp_0.99.1_question", &[DONE]),
    ("claude-agent-acp_0.99.1_question_declined", &[DONE]),
    ("claude-agent-acp_0.99.1_resume", &[DONE, DONE]),
    ("claude_cancel", &[End::Cancelled, DONE]),
    ("claude_error", &[End::Failed(ProviderError, None)]),
    ("claude_multi_step", &[DONE, DONE]),
    ("claude_permission_reject", &[DONE]),
    ("claude_prompt_while_running", &[DONE, DONE]),
    ("claude_three_prompts", &[DONE, DONE, DONE]),
    ("claude_three_prompts_2_1_197", &[DONE, DONE, DONE]),
    ("codex-acp_2.6.0_cancel", &[End::Cancelled, DONE]),
    ("codex-acp_2.6.0_cancel_mid_tool", &[End::Cancelled, DONE]),
    ("codex-acp_2.6.0_error", &[End::Failed(AgentError, None), DONE]),
    ("codex-acp_2.6.0_load", &[DONE, DONE]),
    ("codex-acp_2.6.0_multi_step", &[DONE, DONE]),
    ("codex-acp_2.6.0_permission_allow", &[DONE]),
    ("codex-acp_2.6.0_permission_cancel", &[End::Cancelled, DONE]),
    ("codex-acp_2.6.0_permission_reject", &[End::Completed(Rejected)]),
    ("codex-acp_2.6.0_resume", &[DONE, DONE]),
    ("codex_cancel", &[End::Cancelled, DONE]),
    ("codex_error", &[End::Failed(ProviderError, None)]),
    ("codex_multi_step", &[DONE, DONE]),
    ("codex_permission_reject", &[End::Completed(Rejected)]),
    // The driver sent a second prompt, which the agent never answered.
    ("codex_prompt_while_running", &[DONE, End::Lost]),
    ("opencode_acp_1.18.33_cancel", &[End::Cancelled, DONE]),
    ("opencode_acp_1.18.33_cancel_mid_tool", &[End::Cancelled, DONE]),
    ("opencode_acp_1.18.33_error", &[End::Failed(ProviderError, None), DONE]),
    ("opencode_acp_1.18.33_load", &[DONE, DONE]),
    ("opencode_acp_1.18.33_multi_step", &[DONE, DONE]),
    ("opencode_acp_1.18.33_permission_allow", &[DONE]),
    ("opencode_acp_1.18.33_permission_cancel", &[End::Cancelled, DONE]),
    ("opencode_acp_1.18.33_permission_reject", &[DONE]),
    ("opencode_acp_1.18.33_resume", &[DONE, DONE]),
];

#[test]
fn every_capture_ends_as_its_notes_say() {
    Judge::<Playback>::assert_ends(TURNS);
}

#[test]
fn the_whole_log_of_every_capture_is_as_it_was_read_before() {
    Judge::<Playback>::assert_logs("tests/acp/logs");
}
