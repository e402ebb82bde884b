//! Every capture without a fault: its ends are those of its notes, and its log is the stored one.

use super::playback::Playback;
use crate::desk::{Capture, End, Fault, Judge};
use serde_json::Value;
use turnstream_model::event::ErrorClass::{
    AgentError, Auth, ContextOverflow, Overloaded, ProviderError, QuotaExhausted, RateLimited,
};
use turnstream_model::event::StopReason::EndTurn;

const DONE: End = End::Completed(EndTurn);
/// Codex says `other` of a refused request, a cut stream and an incomplete answer.
const OTHER: End = End::Failed(AgentError, None);

/// How the turns of each capture ended, by its notes.
const TURNS: &[(&str, &[End])] = &[
    ("a_plain_text", &[DONE]),
    ("b_reasoning", &[DONE]),
    ("b_reasoning_raw", &[DONE]),
    ("c_long_command_output", &[DONE]),
    ("c_multi_step", &[DONE]),
    ("c_multi_step_workspace_sandbox", &[DONE]),
    ("c_parallel_tools", &[DONE]),
    ("d_command_accept", &[DONE]),
    ("d_command_accept_for_session", &[DONE]),
    // The answer `cancel` ends the turn.
    ("d_command_cancel", &[End::Cancelled]),
    ("d_command_decline", &[DONE]),
    ("d_file_change_accept", &[DONE]),
    ("d_file_change_decline", &[DONE]),
    ("d_pending_approval_interrupt", &[End::Cancelled, DONE]),
    ("d_two_parallel_approvals", &[DONE]),
    ("d_untrusted_policy", &[DONE]),
    ("e_interrupt_mid_stream", &[End::Cancelled, DONE]),
    ("e_interrupt_mid_tool", &[End::Cancelled, DONE]),
    ("e_interrupt_mid_tool_short", &[End::Cancelled, DONE]),
    ("e_interrupt_when_idle", &[DONE, DONE]),
    ("f_400", &[OTHER, DONE]),
    ("f_401", &[End::Failed(Auth, Some(401))]),
    ("f_429_exhausted", &[End::Failed(RateLimited, Some(429)), End::Failed(RateLimited, Some(429))]),
    ("f_429_retry_after_then_ok", &[DONE]),
    ("f_429_usage_limit", &[End::Failed(QuotaExhausted, None)]),
    ("f_429_usage_limit_resets", &[End::Failed(QuotaExhausted, None)]),
    ("f_500_exhausted", &[End::Failed(ProviderError, None), End::Failed(ProviderError, None)]),
    ("f_503_twice_then_ok", &[DONE]),
    ("f_context_window", &[End::Failed(ContextOverflow, None)]),
    ("f_midstream_failed_overloaded", &[End::Failed(Overloaded, None)]),
    ("f_midstream_rate_limit_then_ok", &[DONE]),
    ("f_midstream_server_error_then_ok", &[DONE]),
    ("g_cut_after_item", &[DONE]),
    ("g_cut_after_tool_call", &[DONE]),
    ("g_cut_clean_eof", &[DONE]),
    ("g_cut_every_time", &[OTHER]),
    ("g_cut_fin_then_ok", &[DONE]),
    ("g_cut_rst_then_ok", &[DONE]),
    ("g_stall_then_ok", &[DONE]),
    // The other thread is not of this session.
    ("h_two_threads_one_process", &[DONE]),
    ("h_two_turns", &[DONE, DONE]),
    // Codex does not compare the names of prompts.
    ("i_duplicate_client_id", &[DONE, DONE]),
    // The queue belongs to another client.
    ("i_queue_then_interrupt", &[End::Cancelled, DONE]),
    ("i_thread_queue_while_running", &[DONE, DONE, DONE]),
    // Two prompts in one turn.
    ("i_turn_start_while_running", &[DONE]),
    ("i_turn_steer_while_running", &[DONE]),
    ("i_turn_steer_while_tool_running", &[DONE]),
    ("j_subagent", &[DONE]),
    ("j_subagent_of_subagent", &[DONE]),
    ("k_kill_mid_tool_then_resume", &[End::Lost, DONE]),
    ("k_kill_then_resume", &[End::Lost, DONE]),
    ("k_sigterm_mid_turn", &[End::Lost]),
    ("k_stdin_eof_mid_turn", &[End::Lost]),
    ("l_request_user_input", &[DONE]),
    ("m_background_terminal", &[DONE]),
    // A turn of a thread that does not exist.
    ("m_bad_requests", &[OTHER]),
    ("m_compact", &[DONE, DONE, DONE]),
    ("m_incomplete", &[OTHER]),
    ("n_image_generation", &[DONE, DONE]),
    ("n_images", &[DONE, DONE]),
    ("n_mcp_approval_accept", &[DONE, DONE]),
    ("n_mcp_approval_always", &[DONE, DONE]),
    // The call is cancelled, and the turn goes on.
    ("n_mcp_approval_cancel", &[DONE]),
    ("n_mcp_approval_decline", &[DONE]),
    ("n_mcp_approval_session", &[DONE, DONE]),
    ("n_mcp_form", &[DONE, DONE]),
    ("n_mcp_tool", &[DONE]),
    ("n_network_accept", &[DONE]),
    ("n_network_accept_for_session", &[DONE, DONE]),
    ("n_network_cancel", &[End::Cancelled]),
    ("n_network_decline", &[DONE]),
    ("n_network_rule", &[DONE, DONE]),
    ("n_permissions", &[DONE]),
    ("n_web_search", &[DONE]),
];

#[test]
fn every_capture_ends_as_its_notes_say() {
    Judge::<Playback>::assert_ends(TURNS);
}

#[test]
fn the_whole_log_of_every_capture_is_as_it_was_read_before() {
    Judge::<Playback>::assert_logs("tests/codex/logs");
}

/// What a person answered in a capture, Codex is told word for word.
#[test]
fn answers_to_codex_are_those_of_the_captures() {
    let asks = ["d_", "l_", "n_"];
    let names = Capture::names::<Playback>().into_iter();
    let mut compared = 0;
    for name in names.filter(|name| asks.iter().any(|start| name.starts_with(start))) {
        let capture = Capture::load::<Playback>(&name);
        let is_answer = |line: &&Value| line["method"].is_null();
        let expected: Vec<Value> = capture.inputs().filter(is_answer).cloned().collect();
        let desk = capture.play::<Playback>(Fault::None);
        let written: Vec<Value> = desk.written.iter().filter(is_answer).cloned().collect();
        // The answer to a permission whose turn was interrupted came too late.
        let expected = if name == "d_pending_approval_interrupt" { vec![] } else { expected };
        compared += expected.len();
        // Codex takes a cancelled call for a rejected one.
        if name != "n_mcp_approval_cancel" {
            assert_eq!(written, expected, "{name}");
        }
    }
    assert!(compared > 20, "{compared}");
}
