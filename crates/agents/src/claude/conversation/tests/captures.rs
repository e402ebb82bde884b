//! Every capture without a fault: its ends are those of the notes beside it, and its log is the stored one.

use super::desk::End;
use super::playback::{Capture, Playback};
use crate::desk::{Fault, Judge};
use turnstream_model::event::ErrorClass::{
    AgentError, Auth, InvalidRequest, NotStarted, Overloaded, ProviderError, RateLimited, TransportLost,
};
use turnstream_model::event::StopReason::{EndTurn, MaxTurnRequests, Refusal};

const DONE: End = End::Completed(EndTurn);

/// How the turns of each capture ended, by the notes beside it.
const TURNS: &[(&str, &[End])] = &[
    ("a_oneshot_process", &[DONE]),
    ("a_plain_text", &[DONE]),
    ("a_plain_text_no_partial", &[DONE]),
    ("b_thinking", &[DONE]),
    ("c_multi_step", &[DONE]),
    ("c_multi_step_state_events", &[DONE]),
    ("c_parallel_tools", &[DONE]),
    ("d_permission_allow_always", &[DONE]),
    ("d_permission_allow_once", &[DONE]),
    ("d_permission_deny", &[DONE]),
    ("d_permission_deny_interrupt", &[End::Cancelled, DONE]),
    ("d_permission_no_prompt_tool", &[DONE]),
    ("d_permission_pending_interrupt", &[End::Cancelled, DONE]),
    ("d_permission_two_parallel", &[DONE]),
    ("e_interrupt_mid_stream", &[End::Cancelled, DONE]),
    ("e_interrupt_mid_tool", &[End::Cancelled, DONE]),
    ("e_interrupt_mid_tool_short", &[End::Cancelled, DONE]),
    ("e_interrupt_when_idle", &[DONE, DONE]),
    // The queue survives the interrupt.
    ("e_interrupt_with_queued_prompt", &[End::Cancelled, DONE]),
    ("e_sigint_mid_stream", &[End::Cancelled]),
    ("f_400", &[End::Failed(InvalidRequest, Some(400)), DONE]),
    ("f_401", &[End::Failed(Auth, Some(401))]),
    ("f_429_key_limit", &[End::Failed(RateLimited, Some(429))]),
    ("f_429_retry_after_then_ok", &[DONE]),
    ("f_429_subscription_limit", &[End::Failed(RateLimited, Some(429))]),
    ("f_500_exhausted", &[End::Failed(ProviderError, Some(500)), DONE]),
    ("f_529_exhausted", &[End::Failed(Overloaded, Some(529))]),
    ("f_529_twice_then_ok", &[DONE]),
    ("f_midstream_overloaded", &[DONE]),
    ("f_midstream_overloaded_after_tool", &[DONE]),
    ("g_cut_after_block", &[End::Failed(TransportLost, None)]),
    ("g_cut_clean_eof", &[DONE]),
    ("g_cut_every_time", &[End::Failed(TransportLost, None)]),
    ("g_cut_fin_then_ok", &[DONE]),
    ("g_cut_rst_then_ok", &[DONE]),
    ("g_stall", &[End::Lost]),
    ("h_two_turns", &[DONE, DONE]),
    ("h_two_turns_state_events", &[DONE, DONE]),
    // A prompt that was cancelled before it began has a turn that says so.
    ("i_cancel_queued_prompt", &[DONE, End::Cancelled]),
    // The second prompt was a repeat of the first.
    ("i_duplicate_uuid_prompt", &[DONE, End::Failed(NotStarted, None), DONE]),
    // The first was pre-empted.
    ("i_prompt_now_priority", &[End::Cancelled, DONE]),
    // Three prompts: the second and the third are one turn.
    ("i_prompt_while_streaming", &[DONE, DONE]),
    // Two prompts in one turn.
    ("i_prompt_while_tool_running", &[DONE]),
    ("j_bash_background", &[DONE, DONE]),
    ("j_subagent", &[DONE]),
    ("j_subagent_background", &[DONE, DONE]),
    ("j_subagent_parallel", &[DONE]),
    ("j_subagent_permission", &[DONE]),
    ("k_kill_mid_tool_then_resume", &[End::Lost, DONE]),
    ("k_kill_then_resend_same_uuid", &[End::Lost, End::Failed(NotStarted, None)]),
    ("k_kill_then_resume", &[End::Lost, DONE]),
    ("k_resume_duplicate_uuid", &[DONE, End::Failed(NotStarted, None), DONE]),
    ("k_resume_interrupted_turn_env", &[End::Lost, DONE]),
    ("k_resume_unknown_session", &[End::Failed(AgentError, None)]),
    // The second process prints nothing.
    ("k_session_id_given", &[DONE, End::Lost]),
    ("k_sigterm_mid_turn", &[End::Lost]),
    ("k_stdin_eof_mid_turn", &[DONE]),
    ("l_ask_user_question", &[DONE]),
    ("l_ask_user_question_rejected", &[DONE]),
    ("m_compact", &[DONE, DONE, DONE, DONE, DONE, DONE]),
    ("m_controls", &[DONE]),
    ("m_exit_plan_mode", &[DONE]),
    ("m_hooks", &[DONE]),
    ("m_max_turns", &[End::Completed(MaxTurnRequests), End::Completed(MaxTurnRequests)]),
    ("m_stop_hook_blocks", &[DONE]),
    ("m_stop_max_tokens", &[DONE]),
    ("m_stop_refusal", &[End::Completed(Refusal)]),
    ("m_tool_progress_and_todo", &[DONE]),
    ("n_image_result", &[DONE]),
    ("n_subagent", &[DONE]),
    ("n_subagent_background", &[DONE, DONE]),
    ("n_task_list", &[DONE]),
    ("n_two_turns", &[DONE, DONE]),
];

#[test]
fn every_capture_ends_as_its_notes_say() {
    Judge::<Playback>::assert_ends(TURNS);
}

/// A process may live for weeks: what a turn needed is gone with it.
#[test]
fn nothing_of_a_turn_is_kept_after_its_end() {
    for (name, ends) in TURNS {
        let conversation = Capture::load(name).play(Fault::None).conversation;
        let is_over = !matches!(ends.last(), Some(End::Lost)) && conversation.tasks.is_empty();
        let kept = (conversation.threads.len(), conversation.calls.len(), conversation.asks.len());
        assert!(!is_over || kept == (0, 0, 0), "{name}: {kept:?}");
    }
}

#[test]
fn the_whole_log_of_every_capture_is_as_it_was_read_before() {
    Judge::<Playback>::assert_logs("tests/claude/logs");
}
