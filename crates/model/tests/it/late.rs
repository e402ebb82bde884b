//! News that comes late, twice, after a gap or after a restart: it must neither start a turn nor end the
//! wrong one.

use crate::support::*;
use turnstream_model::check::Tail;
use turnstream_model::event::{Cost, ErrorClass, ItemState};
use turnstream_model::event::{
    Field, ItemKind, Origin, Outcome, Role, StopReason, Tool, ToolStatus, TurnError,
};
use turnstream_model::fold::ItemStage;
use turnstream_model::id::{Key, SessionId};
use turnstream_model::machine::{Machine, Refusal};
use turnstream_model::signal::{Ending, Need, ProbedStatus, Signal};
use turnstream_model::time::Time;

fn users_message(key: &str) -> [Signal; 3] {
    [seen(key, ItemKind::Message, Some(Role::User), None), whole(key, "go"), done(key)]
}

/// A whole turn of one message, with the names made from `name`.
fn turn(name: &str) -> Vec<Signal> {
    let (call, text) = (format!("call-{name}"), format!("text-{name}"));
    vec![
        busy(),
        attempt(&call),
        message(&text),
        whole(&text, name),
        done(&text),
        attempt_done(&call, "stop"),
        idle(),
    ]
}

fn restart(session: &mut Session) {
    session.machine = Machine::resume(session.fold.state());
    session.ids = session.fold.state().counters;
    session.needs.clear();
}

fn answer(session: &mut Session, status: ProbedStatus) {
    for need in std::mem::take(&mut session.needs) {
        if let Need::StatusProbe(turn) = need {
            session.observe(Signal::StatusProbed { turn, status });
        }
    }
}

#[test]
fn a_stale_idle_does_not_end_a_turn_that_shows_only_the_prompt() {
    let mut session = Session::new();
    session.prompt("one");
    session.observe_all(turn("1"));
    session.prompt("two");
    session.observe_all(users_message("u2"));
    session.observe_all([busy(), idle()]);
    assert_eq!(session.count("turn.ended"), 1);
    session.observe_all(turn("2"));
    let turns = &session.fold.state().turns;
    assert_eq!(
        (turns.len(), turns[1].origin, turns[1].outcome),
        (2, Origin::Prompt, Some(Outcome::Completed))
    );
    session.assert_lawful(Tail::Settled);
}

#[test]
fn after_a_gap_the_history_may_come_before_or_after_the_agents_word() {
    let history = || {
        [
            whole("x1", "one"),
            done("x1"),
            attempt_done("m1", "tool-calls"),
            tool("t", ToolStatus::Completed),
            attempt("m2"),
            message("x2"),
            whole("x2", "two"),
            done("x2"),
            attempt_done("m2", "stop"),
        ]
    };
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), attempt("m1"), message("x1"), delta("x1", "o"), Signal::Gap("cut".into())]);
    session.observe_all(history());
    // The answer may be older than what was seen since the question: it is asked again, and then believed.
    answer(&mut session, ProbedStatus::Idle);
    assert_eq!(session.count("turn.ended"), 0);
    answer(&mut session, ProbedStatus::Idle);
    assert_eq!(session.count("turn.ended"), 1);
    assert_eq!((session.text("x1"), session.text("x2")), ("one", "two"));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_turn_nobody_asked_for_does_not_stay_open_for_ever() {
    let mut session = Session::new();
    session.prompt("one");
    session.observe_all(turn("1"));
    session.observe_all([seen("patch", ItemKind::File, None, None), done("patch")]);
    assert_eq!(session.fold.state().turns[1].origin, Origin::Agent);
    session.pass(2_000);
    answer(&mut session, ProbedStatus::Idle);
    assert_eq!(session.count("turn.ended"), 2);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_prompt_sent_into_a_turn_nobody_asked_for_is_taken_by_it() {
    let mut session = Session::new();
    session.observe_all([message("a"), delta("a", "I woke up")]);
    let prompt = session.prompt("hello");
    session.observe_all([busy(), done("a"), message("b"), done("b"), idle()]);
    assert_eq!(session.fold.state().turns[0].prompts, [prompt]);
    assert!(session.fold.state().queue.is_empty());
    session.assert_lawful(Tail::Settled);
}

#[test]
fn late_news_of_an_ended_turn_starts_nothing() {
    let mut session = Session::new();
    session.prompt("one");
    session.observe_all(turn("1"));
    session.observe_all([
        attempt("call-1"),
        attempt_done("call-1", "stop"),
        message("text-1"),
        whole("text-1", "1"),
    ]);
    assert_eq!(session.count("turn.started"), 1);
    restart(&mut session);
    session.observe_all([
        attempt("call-1"),
        attempt_done("call-1", "stop"),
        message("text-1"),
        whole("text-1", "1"),
    ]);
    assert_eq!(session.count("turn.started"), 1);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_tool_that_finishes_after_a_restart_is_revised_late() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), tool("c", ToolStatus::InProgress)]);
    session.observe(Signal::TurnDone { native_id: Some("T1".into()), ending: Ending::cancelled() });
    restart(&mut session);
    session.observe(tool("c", ToolStatus::Completed));
    assert_eq!(session.item("c").unwrap().state, ItemStage::Completed);
    assert_eq!((session.count("item.started"), session.count("turn.started")), (1, 1));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn an_item_can_be_taken_back_and_have_children_long_after_its_turn() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), tool("task", ToolStatus::Completed), message("old"), done("old"), idle()]);
    for number in 0..6 {
        session.prompt("more");
        session.observe_all(turn(&number.to_string()));
    }
    for restarted in [false, true] {
        if restarted {
            restart(&mut session);
        }
        let child = format!("child-{restarted}");
        session.observe(seen(&child, ItemKind::Message, Some(Role::Assistant), Some("task")));
        session.observe_all([delta(&child, "still here"), done(&child)]);
        let child = session.item(&child).unwrap();
        assert_eq!(
            (child.turn.clone(), child.parent.clone()),
            (None, Some(session.item("task").unwrap().id.clone()))
        );
    }
    session.observe(Signal::ItemRemoved(Key::from("old")));
    assert!(session.item("old").is_none());
    assert_eq!(session.count("turn.started"), 7);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_word_does_not_bring_lost_bytes_back() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([
        busy(),
        message("a"),
        delta("a", "Par"),
        Signal::Gap("cut".into()),
        delta("a", "more"),
    ]);
    session.observe_all([done("a"), done("a")]);
    let item = session.item("a").unwrap();
    assert_eq!((item.state, item.incomplete), (ItemStage::Abandoned, true));
    session.observe(idle());
    session.observe(done("a"));
    assert_eq!(session.item("a").unwrap().state, ItemStage::Abandoned);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn text_that_did_not_fit_while_it_waited_leaves_no_silent_hole() {
    let large = "x".repeat(600_000);
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), delta("a", &large), delta("a", &large), delta("a", "tail")]);
    session.observe_all([message("a"), delta("a", "end"), done("a")]);
    let item = session.item("a").unwrap();
    assert_eq!((item.state, item.incomplete), (ItemStage::Abandoned, true));
    assert_eq!(session.text("a").len(), large.len() + 3, "nothing after the hole but what came live");
    session.observe(idle());
    session.assert_lawful(Tail::Settled);
}

#[test]
fn arguments_with_a_gap_are_marked_unless_they_come_whole() {
    let arguments =
        |text: &str| Signal::TextDelta { key: Key::from("c"), field: Field::Input, text: text.into() };
    for whole_again in [false, true] {
        let mut session = Session::new();
        session.prompt("go");
        session.observe_all([busy(), tool("c", ToolStatus::Pending), arguments("{\"a\":")]);
        session.observe_all([Signal::Gap("cut".into()), arguments("1}")]);
        if whole_again {
            let tool = Tool { input: Some(serde_json::json!({"a": 21})), ..Tool::default() };
            session.observe(Signal::ToolSeen { key: Key::from("c"), parent: None, tool });
        }
        session.observe(done("c"));
        assert_eq!(session.item("c").unwrap().incomplete, !whole_again);
        session.assert_lawful(Tail::Live);
    }
}

#[test]
fn a_name_that_was_voided_can_be_used_again() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), attempt("m1"), message("a"), delta("a", "first")]);
    session.observe(Signal::Retrying { attempt: None, reason: None, until: None, message: None });
    session.observe_all([
        attempt("m2"),
        message("a"),
        delta("a", "second"),
        whole("a", "second!"),
        done("a"),
    ]);
    session.observe_all([attempt_done("m2", "stop"), idle()]);
    assert_eq!(session.text("a"), "second!");
    assert_eq!(session.count("attempt.superseded"), 1);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_call_that_ended_badly_is_superseded_by_its_repeat() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([
        busy(),
        attempt("m1"),
        message("a"),
        delta("a", "half"),
        attempt_done("m1", "error"),
    ]);
    session.observe(Signal::Retrying { attempt: Some(1), reason: None, until: None, message: None });
    session.observe_all([attempt("m2"), message("b"), done("b"), attempt_done("m2", "stop"), idle()]);
    assert!(session.item("a").is_none());
    let steps: Vec<u32> = session.fold.state().turns[0].attempts.iter().map(|attempt| attempt.step).collect();
    assert_eq!(steps, [1, 1]);
    assert_eq!(session.fold.state().turns[0].outcome, Some(Outcome::Completed));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_retry_before_the_next_call_leaves_the_last_one_alone() {
    // Claude Code: api_retry comes before a stream; the call before it was fine.
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), attempt("m1"), message("a"), done("a"), attempt_done("m1", "tool_use")]);
    session.observe(Signal::Retrying {
        attempt: Some(1),
        reason: Some(ErrorClass::Overloaded),
        until: None,
        message: None,
    });
    session.observe_all([attempt("m2"), message("b"), done("b"), attempt_done("m2", "stop"), idle()]);
    assert!(session.item("a").is_some());
    assert_eq!(session.count("attempt.superseded"), 0);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_restart_during_a_wait_shows_the_wait_until_it_goes_on() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), attempt("m1"), message("a"), delta("a", "half")]);
    let retrying = || Signal::Retrying {
        attempt: Some(2),
        reason: Some(ErrorClass::RateLimited),
        until: Some(Time(1_794_800_000_000)),
        message: Some("later".into()),
    };
    session.observe(retrying());
    let shown = session.fold.state().session.retry.clone();
    restart(&mut session);
    session.step(|machine, step| machine.begin_recovery(step));
    session.step(|machine, step| machine.end_recovery(step));
    assert_eq!(session.fold.state().session.retry, shown);
    // Said once more by whoever takes the wait up, and nothing new by that.
    let before = session.log.len();
    session.observe(retrying());
    assert_eq!(session.log.len(), before);
    session.observe_all([attempt("m2"), message("b"), done("b"), attempt_done("m2", "stop"), idle()]);
    assert_eq!((session.fold.state().session.retry.clone(), session.count("attempt.superseded")), (None, 1));
    assert!(session.item("a").is_none());
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_restart_between_two_steps_does_not_believe_a_stale_idle() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([
        busy(),
        attempt("m1"),
        tool("c", ToolStatus::Completed),
        attempt_done("m1", "tool_calls"),
    ]);
    restart(&mut session);
    session.observe_all([attempt("m1"), idle()]);
    assert_eq!(session.count("turn.ended"), 0);
    assert_eq!(session.count("attempt.started"), 1);
    session.assert_lawful(Tail::Live);
}

#[test]
fn a_child_of_its_own_child_is_refused() {
    let of = |key: &str, parent: &str| Signal::ToolSeen {
        key: Key::from(key),
        parent: Some(Key::from(parent)),
        tool: Tool::default(),
    };
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), tool("a", ToolStatus::InProgress), tool("b", ToolStatus::InProgress)]);
    session.observe_all([of("a", "b"), of("b", "a")]);
    assert!(session.item("a").unwrap().parent.is_some());
    assert!(session.item("b").unwrap().parent.is_none());
    session.assert_lawful(Tail::Live);
    // The same when the first one waited for a parent that turns out to be its child.
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), of("a", "b"), of("b", "c"), of("c", "a")]);
    assert!(session.item("c").unwrap().parent.is_some());
    session.assert_lawful(Tail::Live);
    // And when the child had ended before a restart.
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), tool("a", ToolStatus::InProgress), of("b", "a")]);
    session.observe(tool("b", ToolStatus::Completed));
    restart(&mut session);
    session.observe(of("a", "b"));
    assert!(session.item("a").unwrap().parent.is_none());
    session.assert_lawful(Tail::Live);
}

#[test]
fn an_idle_after_a_cut_answer_says_why_it_stopped() {
    for (finish, reason) in [("length", StopReason::MaxTokens), ("content_filter", StopReason::Refusal)] {
        let mut session = Session::new();
        session.prompt("go");
        session.observe_all([busy(), attempt("c"), message("m"), whole("m", "cut"), done("m")]);
        session.observe_all([attempt_done("c", finish), idle()]);
        assert_eq!(session.fold.state().turns[0].stop_reason, Some(reason));
    }
}

#[test]
fn nothing_that_json_cannot_say_reaches_the_log() {
    let mut session = Session::new();
    session.prompt("go");
    let tool = Tool { output: Some(serde_json::Value::Null), ..Tool::default() };
    session.observe_all([busy(), Signal::ToolSeen { key: Key::from("c"), parent: None, tool }]);
    let cost = Some(Cost { amount: f64::NAN, currency: "USD".into(), extra: serde_json::Map::new() });
    let ending = Ending { cost, ..Ending::completed(StopReason::EndTurn) };
    session.observe(Signal::TurnDone { native_id: None, ending });
    for event in &session.log {
        let line = event.to_json();
        assert_eq!(&turnstream_model::event::Event::from_json(&line).unwrap(), event, "{line}");
    }
    session.assert_lawful(Tail::Settled);
}

#[test]
fn an_end_without_a_reason_gets_one() {
    for outcome in [Outcome::Completed, Outcome::Failed] {
        let mut session = Session::new();
        session.prompt("go");
        session.observe_all([busy(), message("a")]);
        let ending = Ending { outcome, stop_reason: None, usage: None, cost: None, error: None };
        session.observe(Signal::TurnDone { native_id: None, ending });
        session.assert_lawful(Tail::Settled);
    }
}

#[test]
fn a_session_is_created_once_and_does_not_recover_after_its_end() {
    let mut session = Session::new();
    let again = session
        .step(|machine, step| machine.create(SessionId::from("s"), "a".into(), "/".into(), None, None, step));
    assert_eq!(again, Err(Refusal::SessionExists));
    session.step(|machine, step| machine.end_session("deleted".into(), step)).unwrap();
    session.step(Machine::begin_recovery);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_lost_link_leaves_a_sent_prompt_to_the_keeper() {
    let mut session = Session::new();
    let prompt = session.prompt("go");
    session.observe(Signal::LinkLost(TurnError::new(ErrorClass::AgentExited, "gone")));
    assert_eq!(session.fold.state().queue.len(), 1, "only the agent can tell whether it ran");
    session.step(|machine, step| machine.never_started(&prompt, step)).unwrap();
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_state_that_the_agent_states_after_ours_corrects_a_guess_once() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), tool("c", ToolStatus::InProgress)]);
    session.observe(Signal::TurnDone { native_id: None, ending: Ending::cancelled() });
    let failed = || Signal::ItemEnded { key: Key::from("c"), state: ItemState::Failed, reason: None };
    session.observe_all([failed(), failed()]);
    assert_eq!(session.item("c").unwrap().state, ItemStage::Failed);
    assert_eq!(session.count("item.revised"), 1);
    session.assert_lawful(Tail::Settled);
}

/// L7: "Only a final snapshot clears the taint", also when it says what was already there.
#[test]
fn the_last_word_on_a_failed_text_clears_its_taint_also_when_nothing_of_it_is_new() {
    let mut session = Session::new();
    session.prompt("one");
    session.observe_all([busy(), attempt("c1"), message("m1"), delta("m1", "half")]);
    session.observe(Signal::Gap("cut".into()));
    session.observe(Signal::ItemEnded { key: Key::from("m1"), state: ItemState::Failed, reason: None });
    let item = &session.fold.state().items[0];
    assert_eq!((item.state, item.incomplete), (ItemStage::Failed, true));
    session.observe(whole("m1", "half"));
    let item = &session.fold.state().items[0];
    assert_eq!((item.state, item.incomplete), (ItemStage::Failed, false));
}
