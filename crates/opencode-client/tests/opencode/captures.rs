//! Every capture of the real server, played without a fault. What is expected is taken from the server's
//! own snapshot after the run and from the notes that were made with the capture.

use crate::capture::Capture;
use crate::playback::{End, Fault};
use crate::transcript::transcript;
use turnstream_model::event::ErrorClass::{
    self, AgentError, AgentExited, Auth, InvalidRequest, ProviderError,
};
use turnstream_model::event::StopReason::{EndTurn, MaxTokens, Refusal, Rejected};
use turnstream_opencode_client::conversation::Budget;

const DONE: End = End::Completed(EndTurn);

/// How the turns of each capture ended, by the notes beside it.
pub(crate) const TURNS: &[(&str, &[End])] = &[
    ("a-plain", &[DONE, DONE]),
    ("a0-plain-cold", &[DONE]),
    ("b-reasoning", &[DONE]),
    ("c-multistep", &[DONE]),
    ("c2-parallel-tools", &[DONE]),
    ("d1-permission-once", &[DONE]),
    ("d2-permission-reject", &[End::Completed(Rejected)]),
    ("d3-permission-reject-message", &[DONE]),
    ("d4-permission-edit-always", &[DONE]),
    ("d5-permission-abort", &[End::Cancelled]),
    ("e1-question-reply", &[DONE]),
    ("e2-question-reject", &[End::Completed(Rejected)]),
    ("f1-abort-stream", &[End::Cancelled, DONE]),
    ("f2-abort-tool", &[End::Cancelled]),
    // An abort of an idle session makes an idle, and no turn.
    ("f3-abort-idle", &[]),
    ("g1-provider-500-retry", &[DONE]),
    ("g2-provider-500-exhausted", &[End::Failed(ProviderError)]),
    // It looks like an empty success; only we know that it was cancelled.
    ("g3-abort-in-retry", &[End::Cancelled]),
    ("h-provider-429", &[DONE]),
    ("h2-provider-400", &[End::Failed(InvalidRequest)]),
    ("h3-provider-401", &[End::Failed(Auth)]),
    ("i-glued-chunk", &[End::Failed(AgentError)]),
    ("i2-error-in-200", &[End::Failed(AgentError)]),
    ("i3-fatal-error-in-200", &[End::Failed(AgentError)]),
    ("j1-cut-midstream", &[DONE]),
    // No idle ever came: the capture's driver aborted it.
    ("j2-end-without-finish", &[End::Cancelled]),
    ("j3-empty-stream", &[End::Cancelled]),
    ("j4-finish-length", &[End::Completed(MaxTokens)]),
    ("j5-finish-content-filter", &[End::Completed(Refusal)]),
    ("j6-broken-tool-calls", &[DONE]),
    // Queued prompts share one run and one idle.
    ("k1-two-prompts-async", &[DONE]),
    ("k2-two-prompts-at-once", &[DONE]),
    ("l-two-sessions", &[DONE]),
    ("m-subagent", &[DONE]),
    ("m2-subagent-permission", &[DONE]),
    ("m3-subagent-abort-parent", &[End::Cancelled]),
    ("n-disconnect.full", &[DONE]),
    ("n2-durable-replay", &[DONE]),
    ("n3-reconnect-after-end.full", &[DONE]),
    ("o-long-text", &[DONE]),
    ("o2-one-big-delta", &[DONE]),
    ("o3-long-tool-output", &[DONE]),
    ("s1-todo", &[DONE]),
    ("s3-auto-compaction", &[DONE, DONE]),
    ("t-snapshot-midstream", &[DONE]),
    // Another client gave the directory up: the server aborts the turn.
    ("v-instance-dispose", &[End::Cancelled]),
    ("w-directory-scope", &[DONE]),
    ("y1-client-message-id", &[DONE]),
    ("y2-client-ids-repeated", &[DONE]),
    ("y3-diff-endpoint", &[DONE]),
];

/// Captures in which other clients do most of the work, or in which opencode says less than it should.
pub(crate) const OTHERS: &[(&str, &[End])] = &[
    // The other client's prompt and its summary run on in our turn, without an idle in between.
    ("k3-busy-other-endpoints", &[DONE]),
    // An unknown model, and an unknown agent, of which there is no busy and no idle.
    ("p-errors", &[DONE, End::Failed(AgentError), End::Failed(AgentError)]),
    ("s2-summarize", &[DONE, DONE]),
    // The second is a shell command of a person's.
    ("s4-session-crud", &[DONE, DONE]),
    // One that only adds context makes no turn.
    ("s5-sync-prompt", &[DONE, End::Failed(InvalidRequest)]),
    // The unknown command makes none.
    ("s6-command", &[DONE]),
    ("s7-revert-removes", &[DONE, DONE, DONE]),
];

/// Captures of a server that is killed in the middle of a turn, and started again.
const KILLED: &[(&str, &[End])] = &[
    ("u-server-killed", &[End::Failed(AgentExited), DONE]),
    // Nobody prompts it again.
    ("u2-server-term", &[End::Failed(AgentExited)]),
    // The driver sends the prompt again at once, under the same names: the same turn goes on with another
    // answer.
    ("u3-killed-then-same-ids", &[DONE]),
];

#[test]
fn what_other_clients_do_in_a_session_is_shown_as_the_server_keeps_it() {
    for (name, turns) in OTHERS {
        let capture = Capture::load(name);
        let played = capture.play(&Fault::None);
        assert_eq!(played.texts, capture.stored_texts(), "{name}");
        assert_eq!(played.turns, *turns, "{name}");
    }
}

/// What the killed one had said is nowhere but in our log, and stays there.
#[test]
fn after_a_killed_server_its_turn_has_failed_unless_the_same_prompt_runs_again() {
    for (name, turns) in KILLED {
        let capture = Capture::load_killed(name);
        let played = capture.play(&Fault::None);
        assert_eq!(played.turns, *turns, "{name}");
        let (half, answer) = (&played.texts[0], &played.texts[1..]);
        assert_eq!(answer, capture.stored_texts(), "{name}");
        assert!("This answer will be interrupted before it ends.".starts_with(half.as_str()), "{half}");
        assert_eq!(played.aborts, 0, "{name}");
    }
}

#[test]
fn every_capture_ends_as_its_notes_say_and_shows_what_the_server_kept() {
    let mut wrong = Vec::new();
    for (name, turns) in TURNS {
        let capture = Capture::load(name);
        let played = capture.play(&Fault::None);
        if played.turns != *turns || played.texts != capture.stored_texts() {
            wrong.push(format!(
                "{name}\n  expected {turns:?} {:?}\n  found    {:?} {:?}",
                capture.stored_texts(),
                played.turns,
                played.texts
            ));
        }
        assert_eq!(played.aborts, 0, "{name}: nothing is aborted unasked");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The whole log of each capture. `TURNSTREAM_UPDATE=1` writes them anew.
#[test]
fn the_whole_log_of_every_capture_is_as_it_was_read_before() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/opencode/logs");
    let mut wrong = Vec::new();
    for name in TURNS.iter().chain(OTHERS).map(|(name, _)| name) {
        let budget = Budget { steps: None, ..Budget::default() };
        let log = transcript(&Capture::load(name).play_with(&Fault::None, budget).1);
        let path = directory.join(format!("{name}.jsonl"));
        if std::env::var_os("TURNSTREAM_UPDATE").is_some() {
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(&path, &log).unwrap();
        }
        if std::fs::read_to_string(&path).unwrap_or_default() != log {
            wrong.push(*name);
        }
    }
    assert!(wrong.is_empty(), "changed: {wrong:?}; look at the difference after TURNSTREAM_UPDATE=1");
}

#[test]
fn a_run_without_an_end_is_stopped_at_its_budget() {
    let capture = Capture::load("j2-end-without-finish");
    let (played, _) = capture.play_with(&Fault::None, Budget { steps: Some(10), ..Budget::default() });
    assert_eq!(played.turns[0], End::Failed(ErrorClass::Budget));
    // The server that is played here never hears them.
    assert!(played.aborts > 1, "{} aborts", played.aborts);
}
