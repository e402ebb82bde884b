//! Stories about single turns: what agents really do, and what the log must say about it.

use crate::support::*;
use turnstream_model::check::Tail;
use turnstream_model::event::{
    Body, By, ErrorClass, Field, ItemKind, ItemState, Outcome, Role, StopReason, Tool, ToolStatus, TurnError,
};
use turnstream_model::fold::{ItemStage, PromptStage};
use turnstream_model::id::{Key, TurnId};
use turnstream_model::machine::Cancel;
use turnstream_model::signal::{Ending, Need, ProbedStatus, Signal};

fn outcome(session: &Session, turn: usize) -> Option<Outcome> {
    session.fold.state().turns[turn].outcome
}

#[test]
fn a_plain_turn_reads_as_the_wire_says() {
    let mut session = Session::new();
    session.prompt("Hi");
    session.observe_all([
        busy(),
        attempt("msg_1"),
        message("prt_1"),
        delta("prt_1", "Hel"),
        delta("prt_1", "lo"),
        whole("prt_1", "Hello"),
        done("prt_1"),
        attempt_done("msg_1", "stop"),
        idle(),
    ]);
    assert_eq!(
        session.types(),
        [
            "session.created",
            "prompt.accepted",
            "prompt.sent",
            "session.status",
            "turn.started",
            "prompt.taken",
            "attempt.started",
            "item.started",
            "item.delta",
            "item.delta",
            "item.ended",
            "attempt.ended",
            "turn.ended",
            "session.status",
        ]
    );
    assert_eq!(session.text("prt_1"), "Hello");
    assert_eq!(outcome(&session, 0), Some(Outcome::Completed));
    assert_eq!(session.fold.state().turns[0].stop_reason, Some(StopReason::EndTurn));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_snapshot_is_reconciled_by_content_and_not_by_length() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), message("a")]);
    // The stream was joined in the middle: only the second half came as deltas.
    session.observe_all([delta("a", "DD"), delta("a", "EE"), delta("a", "FF")]);
    session.observe(whole("a", "AABBCCDDEEFF"));
    assert_eq!(session.text("a"), "AABBCCDDEEFF");
    assert_eq!(session.count("item.replaced"), 1);
    session.observe_all([done("a"), idle()]);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_gap_inside_a_part_is_replaced_and_one_at_its_end_is_appended() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), message("a"), message("b")]);
    session.observe_all([delta("a", "AABB"), delta("a", "EEFF"), whole("a", "AABBCCDDEEFF")]);
    session.observe_all([delta("b", "AABB"), whole("b", "AABBCCDDEEFF")]);
    assert_eq!(session.text("a"), "AABBCCDDEEFF");
    assert_eq!(session.text("b"), "AABBCCDDEEFF");
    assert_eq!(session.count("item.replaced"), 1);
}

#[test]
fn an_older_snapshot_never_truncates_but_a_final_one_may() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), message("a"), delta("a", "Hello \n")]);
    session.observe_all([so_far("a", ""), so_far("a", "Hel")]);
    assert_eq!(session.text("a"), "Hello \n");
    session.observe(whole("a", "Hello"));
    assert_eq!(session.text("a"), "Hello");
}

#[test]
fn a_stale_idle_does_not_end_the_next_turn() {
    let mut session = Session::new();
    session.prompt("one");
    session.observe_all([busy(), message("a"), delta("a", "1"), done("a"), idle()]);
    session.prompt("two");
    // The second idle pair of the first turn comes before the agent has begun with the second.
    session.observe(idle());
    assert_eq!(session.count("turn.started"), 1);
    session.observe(busy());
    // And again after it has begun, before it shows anything.
    session.observe_all([idle(), idle()]);
    assert_eq!(session.count("turn.ended"), 1);
    session.observe_all([message("b"), delta("b", "2"), done("b")]);
    // All it has shown is complete, but the stale idle does not count: work went on after it.
    assert_eq!(session.count("turn.ended"), 1);
    session.observe(idle());
    assert_eq!(session.count("turn.ended"), 2);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_stale_error_does_not_fail_the_next_turn() {
    let mut session = Session::new();
    session.prompt("one");
    session.observe_all([busy(), message("a"), done("a"), idle()]);
    session.prompt("two");
    let aborted = TurnError::new(ErrorClass::Cancelled, "aborted");
    session.observe(Signal::Failed(aborted.clone()));
    session.observe(busy());
    session.observe(Signal::Failed(aborted));
    session.observe_all([message("b"), delta("b", "fine"), done("b"), idle()]);
    assert_eq!(outcome(&session, 1), Some(Outcome::Completed));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn an_idle_before_the_closing_updates_waits_for_them() {
    // opencode on abort: idle, then the closing part and message updates 40 to 500 ms later, then idle again.
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), attempt("m"), message("a"), delta("a", "par")]);
    let turn = session.machine.open_turn().unwrap().clone();
    let cancelled = session.step(|machine, step| machine.cancel(&Cancel::Turn(turn), By::Client, step));
    assert!(cancelled.is_ok());
    session.observe_all([Signal::Failed(TurnError::new(ErrorClass::Cancelled, "aborted")), idle()]);
    assert_eq!(session.count("turn.ended"), 0);
    session.observe_all([whole("a", "partial"), done("a"), attempt_done("m", "error")]);
    assert_eq!(session.count("turn.ended"), 1);
    session.observe_all([idle(), idle()]);
    assert_eq!(session.text("a"), "partial");
    assert_eq!(outcome(&session, 0), Some(Outcome::Cancelled));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_held_idle_asks_the_agent_after_two_seconds() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), message("a"), delta("a", "half"), idle()]);
    let turn = session.machine.open_turn().unwrap().clone();
    session.pass(1_999);
    assert_eq!(session.needs, []);
    session.pass(1);
    assert_eq!(session.needs, [Need::StatusProbe(turn.clone())]);
    session.observe(Signal::StatusProbed { turn: TurnId::from("t99"), status: ProbedStatus::Idle });
    assert_eq!(session.count("turn.ended"), 0);
    session.observe(Signal::StatusProbed { turn, status: ProbedStatus::Idle });
    assert_eq!(session.count("turn.ended"), 1);
    let item = session.item("a").unwrap();
    assert_eq!((item.state, item.incomplete), (ItemStage::Abandoned, true));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_busy_agent_keeps_its_turn_and_a_silent_one_is_believed() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), message("a"), delta("a", "half"), idle()]);
    session.pass(2_000);
    let turn = session.machine.open_turn().unwrap().clone();
    session.observe(Signal::StatusProbed { turn, status: ProbedStatus::Busy });
    // It is asked again if nothing comes; an idle of its own is quicker.
    assert_eq!(session.machine.deadline(), Some(session.now.plus_millis(30_000)));
    session.observe(idle());
    session.pass(2_000);
    session.pass(30_000);
    assert_eq!(session.count("turn.ended"), 1);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn an_idle_between_two_steps_is_not_believed_at_once() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([
        busy(),
        attempt("m1"),
        tool("c", ToolStatus::Completed),
        attempt_done("m1", "tool-calls"),
        idle(),
        busy(),
        attempt("m2"),
        message("a"),
        done("a"),
        attempt_done("m2", "stop"),
    ]);
    assert_eq!(session.count("turn.ended"), 0);
    session.observe(idle());
    assert_eq!(session.count("turn.ended"), 1);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_dead_agent_loses_the_turn_and_leaves_its_running_tool_unknown() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([
        busy(),
        attempt("m"),
        message("a"),
        delta("a", "I will"),
        tool("c", ToolStatus::InProgress),
    ]);
    session.observe(Signal::LinkLost(TurnError::new(ErrorClass::AgentExited, "killed by signal 9")));
    assert_eq!(outcome(&session, 0), Some(Outcome::Lost));
    assert_eq!(session.item("c").unwrap().state, ItemStage::Unknown);
    assert_eq!(session.item("a").unwrap().caused_by.as_deref(), Some("agent_exited"));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_tool_that_finishes_after_its_turn_is_revised_late() {
    // Codex: an interrupted command goes on and completes 2.8 s after the turn.
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), tool("c", ToolStatus::InProgress)]);
    session.observe(Signal::TurnDone { native_id: None, ending: Ending::cancelled() });
    assert_eq!(session.item("c").unwrap().state, ItemStage::Unknown);
    session.observe_all([tool("c", ToolStatus::Completed), tool("c", ToolStatus::Completed)]);
    let item = session.item("c").unwrap();
    assert_eq!((item.state, item.late), (ItemStage::Completed, true));
    assert_eq!(session.count("item.revised"), 1);
    assert_eq!(session.count("turn.started"), 1);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_retried_call_supersedes_its_half_written_text() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([
        busy(),
        attempt("m1"),
        message("a"),
        delta("a", "The ans"),
        Signal::Retrying {
            attempt: Some(1),
            reason: Some(ErrorClass::Overloaded),
            until: None,
            message: None,
        },
        attempt("m2"),
        message("b"),
        delta("b", "The answer"),
        done("b"),
        attempt_done("m2", "stop"),
        idle(),
    ]);
    assert!(session.item("a").is_none(), "superseded content is not in the fold");
    assert_eq!(session.text("b"), "The answer");
    let turn = &session.fold.state().turns[0];
    let steps: Vec<u32> = turn.attempts.iter().map(|attempt| attempt.step).collect();
    assert_eq!(steps, [1, 1]);
    assert_eq!(turn.attempts[0].superseded_by, Some(turn.attempts[1].attempt.clone()));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_running_tool_survives_the_retry_of_its_call() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([
        busy(),
        attempt("m1"),
        tool("c", ToolStatus::InProgress),
        message("a"),
        Signal::Retrying { attempt: None, reason: None, until: None, message: None },
        message("b"),
        tool("c", ToolStatus::Completed),
        done("b"),
    ]);
    assert_eq!(session.item("c").unwrap().state, ItemStage::Completed);
    assert!(session.item("a").is_none());
    assert_eq!(session.count("attempt.superseded"), 1);
    session.observe(Signal::TurnDone { native_id: None, ending: Ending::completed(StopReason::EndTurn) });
    session.assert_lawful(Tail::Settled);
}

#[test]
fn merged_and_injected_prompts_end_up_in_the_turn_that_took_them() {
    // Claude: two queued prompts became one turn; one was injected while a tool ran.
    let mut session = Session::new();
    session.prompt("one");
    session.observe_all([busy(), tool("c", ToolStatus::InProgress)]);
    let injected = session.prompt("two");
    session.observe(Signal::PromptTaken("native-p2".into()));
    session.observe(Signal::PromptTaken("native-p2".into()));
    session.observe(tool("c", ToolStatus::Completed));
    session.observe(Signal::TurnDone { native_id: None, ending: Ending::completed(StopReason::EndTurn) });
    assert_eq!(session.fold.state().turns[0].prompts.last(), Some(&injected));
    assert_eq!(session.fold.state().prompts[1].state, PromptStage::Taken);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_prompt_the_agent_swallowed_still_gets_a_turn() {
    let mut session = Session::new();
    let prompt = session.prompt("go");
    session.observe(Signal::Failed(TurnError::new(ErrorClass::AgentError, "unknown agent: x")));
    session.observe(idle());
    session.step(|machine, step| machine.never_started(&prompt, step)).unwrap();
    let Body::TurnEnded { outcome, error, .. } = session.ends()[0] else { unreachable!() };
    let error = error.as_ref().unwrap();
    assert_eq!((*outcome, error.class), (Outcome::Failed, ErrorClass::NotStarted));
    assert!(error.message.contains("unknown agent: x"), "{}", error.message);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_users_message_is_no_evidence_of_work() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([
        seen("u", ItemKind::Message, Some(Role::User), None),
        whole("u", "go"),
        done("u"),
        idle(),
    ]);
    assert_eq!(session.count("turn.started"), 0);
    session.observe_all([busy(), message("a"), done("a"), idle()]);
    assert_eq!(session.text("u"), "go");
    assert_eq!(session.item("u").unwrap().role, Some(Role::User));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn deltas_of_an_unknown_item_wait_until_it_is_introduced() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), delta("r", "let me "), delta("r", "think")]);
    assert_eq!(session.count("item.delta"), 0, "reasoning must not leak as an answer");
    assert_eq!(session.needs, [Need::Item(Key::from("r"))]);
    session.observe(seen("r", ItemKind::Reasoning, None, None));
    session.observe_all([delta("r", "!"), done("r")]);
    assert_eq!(session.text("r"), "let me think!");
    assert_eq!(session.item("r").unwrap().kind, ItemKind::Reasoning);
    session.observe(idle());
    session.assert_lawful(Tail::Settled);
}

#[test]
fn an_unnamed_busy_without_a_prompt_starts_nothing_until_there_is_content() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), message("a"), done("a"), idle(), busy(), idle()]);
    assert_eq!(session.count("turn.started"), 1);
    // The agent wakes up by itself.
    session.observe_all([busy(), message("b"), delta("b", "done in the background"), done("b"), idle()]);
    assert_eq!(session.count("turn.started"), 2);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn background_work_has_a_parent_and_no_turn() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), tool("task", ToolStatus::Completed), message("a"), done("a"), idle()]);
    session.observe(seen("child", ItemKind::Message, Some(Role::Assistant), Some("task")));
    session.observe_all([delta("child", "working"), done("child")]);
    assert_eq!(session.count("turn.started"), 1);
    let child = session.item("child").unwrap();
    assert_eq!((child.turn.as_ref(), child.parent.as_ref()), (None, Some(&session.item("task").unwrap().id)));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_child_seen_before_its_parent_is_linked_when_the_parent_shows() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), seen("child", ItemKind::Message, Some(Role::Assistant), Some("task"))]);
    session.observe(delta("child", "early"));
    session.observe(tool("task", ToolStatus::InProgress));
    let parent = session.item("task").unwrap().id.clone();
    assert_eq!(session.item("child").unwrap().parent, Some(parent));
    session.observe_all([done("child"), tool("task", ToolStatus::Completed), idle()]);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn after_a_gap_nothing_passes_for_whole_until_a_final_snapshot() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), message("a"), delta("a", "AA"), message("b"), delta("b", "xx")]);
    session.observe(Signal::Gap("the event stream was cut".into()));
    assert!(matches!(session.needs[..], [Need::StatusProbe(_)]));
    session.observe_all([delta("a", "CC"), done("a"), whole("b", "xxyy"), done("b")]);
    let (a, b) = (session.item("a").unwrap(), session.item("b").unwrap());
    assert_eq!((a.state, a.incomplete), (ItemStage::Abandoned, true));
    assert_eq!((b.state, b.incomplete), (ItemStage::Completed, false));
    // The final text came after all: the item is whole, and says so.
    session.observe(whole("a", "AABBCC"));
    let a = session.item("a").unwrap();
    assert_eq!((a.state, a.incomplete, session.text("a")), (ItemStage::Completed, false, "AABBCC"));
    session.observe(idle());
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_turn_that_ended_during_a_gap_ends_by_the_agents_own_word() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([
        busy(),
        message("a"),
        delta("a", "AA"),
        Signal::Gap("cut".into()),
        whole("a", "AABB"),
    ]);
    session.observe(done("a"));
    let turn = session.machine.open_turn().unwrap().clone();
    session.observe(Signal::StatusProbed { turn, status: ProbedStatus::Idle });
    assert_eq!(outcome(&session, 0), Some(Outcome::Completed));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn ends_that_name_their_turn_are_fenced() {
    let mut session = Session::new();
    let began =
        |name: &str| Signal::TurnBegan { origin: None, prompts: vec![], native_id: Some(name.into()) };
    let ended = |name: &str| Signal::TurnDone {
        native_id: Some(name.into()),
        ending: Ending::completed(StopReason::EndTurn),
    };
    session.prompt("one");
    session.observe_all([began("U1"), message("a"), done("a"), ended("U1")]);
    session.prompt("two");
    session.observe_all([began("U2"), ended("U1"), began("U1"), message("b")]);
    assert_eq!(session.count("turn.ended"), 1);
    session.observe_all([done("b"), ended("U2"), ended("U2")]);
    assert_eq!(session.count("turn.ended"), 2);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn an_older_tool_update_changes_nothing() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), tool("c", ToolStatus::InProgress), tool("c", ToolStatus::Pending)]);
    session.observe_all([tool("c", ToolStatus::Completed), tool("c", ToolStatus::InProgress)]);
    assert_eq!(session.count("item.updated"), 1);
    assert_eq!(session.count("item.revised"), 0);
    let renamed = Tool { title: Some("ls".into()), ..Tool::default() };
    session.observe(Signal::ToolSeen { key: Key::from("c"), parent: None, tool: renamed });
    assert_eq!(session.count("item.revised"), 1);
    assert_eq!(session.item("c").unwrap().tool.as_ref().unwrap().title.as_deref(), Some("ls"));
    session.observe(Signal::ItemEnded { key: Key::from("c"), state: ItemState::Failed, reason: None });
    assert_eq!(session.item("c").unwrap().state, ItemStage::Completed);
    session.observe(idle());
    session.assert_lawful(Tail::Settled);
}

#[test]
fn arguments_for_a_message_are_passed_over() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), message("a")]);
    session.observe(Signal::TextDelta { key: Key::from("a"), field: Field::Input, text: "{".into() });
    assert_eq!(session.count("item.delta"), 0);
    session.assert_lawful(Tail::Live);
}

#[test]
fn only_a_tool_can_be_a_parent() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), message("a"), seen("b", ItemKind::Message, None, Some("a"))]);
    session.observe(seen("b", ItemKind::Message, None, Some("b")));
    assert_eq!(session.item("b").unwrap().parent, None);
    session.assert_lawful(Tail::Live);
}
