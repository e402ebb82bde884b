//! Stories about people and owners: permissions, questions, prompts, cancels, and who has the session.

use crate::support::*;
use serde_json::json;
use turnstream_model::check::Tail;
use turnstream_model::event::{
    ApprovalOutcome, By, ErrorClass, Outcome, QuestionOutcome, Resolution, ResumeAs, StopReason, ToolStatus,
    TurnError,
};
use turnstream_model::fold::Activity;
use turnstream_model::id::{ApprovalId, Counters, Key, QuestionId, TurnId};
use turnstream_model::machine::{Cancel, Cancelled, Machine, Refusal};
use turnstream_model::signal::{Ending, Signal};

fn outcome(session: &Session, turn: usize) -> Option<Outcome> {
    session.fold.state().turns[turn].outcome
}

#[test]
fn a_rejected_permission_that_stops_the_agent_ends_as_rejected() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), attempt("m"), tool("c", ToolStatus::InProgress)]);
    session.observe(Signal::Ask {
        key: Key::from("per"),
        item: Some(Key::from("c")),
        tool: None,
        options: vec![],
    });
    assert_eq!(session.fold.state().session.status, Activity::Waiting);
    let approval = ApprovalId::from("q1");
    session
        .step(|machine, step| {
            machine.resolve(&approval, Resolution::new(ApprovalOutcome::Reject, By::Client), step)
        })
        .unwrap();
    session.observe_all([tool("c", ToolStatus::Failed), attempt_done("m", "tool-calls"), idle()]);
    assert_eq!(session.fold.state().turns[0].stop_reason, Some(StopReason::Rejected));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn one_answer_wins_and_the_other_hears_which() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), tool("c", ToolStatus::Pending)]);
    for key in ["per_1", "per_2", "per_1"] {
        session.observe(Signal::Ask { key: Key::from(key), item: None, tool: None, options: vec![] });
    }
    assert_eq!(session.count("approval.requested"), 2);
    let first = ApprovalId::from("q1");
    let mut settle = |outcome| {
        session.step(|machine, step| machine.resolve(&first, Resolution::new(outcome, By::Client), step))
    };
    assert_eq!(settle(ApprovalOutcome::AllowOnce), Ok(()));
    let refusal = settle(ApprovalOutcome::Reject).unwrap_err();
    assert_eq!(refusal.to_string(), "approval q1 was settled already: allow_once");
    let unknown = ApprovalId::from("q9");
    let refusal = session
        .step(|machine, step| {
            machine.resolve(&unknown, Resolution::new(ApprovalOutcome::Reject, By::Client), step)
        })
        .unwrap_err();
    assert_eq!(refusal, Refusal::UnknownApproval(unknown));
    // The second is still open: the end of the turn settles it.
    session.observe(Signal::LinkLost(TurnError::new(ErrorClass::AgentExited, "exit 1")));
    let lost = &session.fold.state().approvals[1];
    assert_eq!((lost.outcome, lost.by), (Some(ApprovalOutcome::Lost), Some(By::Gateway)));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_question_is_answered_once() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe(busy());
    session.observe(Signal::Question { key: Key::from("que"), item: None, questions: vec![] });
    let question = QuestionId::from("u1");
    let answers = json!({"0": ["PG"]}).as_object().cloned();
    session
        .step(|machine, step| machine.answer(&question, QuestionOutcome::Answered, answers, None, step))
        .unwrap();
    // The agent's own echo of the answer changes nothing.
    let echo =
        Signal::QuestionClosed { key: Key::from("que"), outcome: QuestionOutcome::Answered, answers: None };
    session.observe(echo);
    let again =
        session.step(|machine, step| machine.answer(&question, QuestionOutcome::Rejected, None, None, step));
    assert_eq!(again, Err(Refusal::QuestionSettled { question, outcome: QuestionOutcome::Answered }));
    session.observe_all([message("a"), done("a"), idle()]);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn cancel_is_fenced_by_turn() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe(busy());
    let cancel = |session: &mut Session, what: Cancel| {
        session.step(|machine, step| machine.cancel(&what, By::Client, step))
    };
    let refusal = cancel(&mut session, Cancel::Turn(TurnId::from("t0"))).unwrap_err();
    assert_eq!(refusal.to_string(), "turn t0 is not open; the open turn is t1");
    assert_eq!(session.count("turn.cancelling"), 0);
    cancel(&mut session, Cancel::Any).unwrap();
    session.observe(Signal::TurnDone { native_id: None, ending: Ending::cancelled() });
    assert_eq!(
        cancel(&mut session, Cancel::Any).unwrap_err().to_string(),
        "no turn is open, and no prompt was sent that has no turn yet"
    );
}

#[test]
fn a_cancel_is_said_once_and_the_next_owner_knows_of_it() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), message("a"), done("a")]);
    assert!(!session.machine.is_cancelling());
    for by in [By::Client, By::Policy] {
        let cancelled = session.step(|machine, step| machine.cancel(&Cancel::Any, by, step)).unwrap();
        assert_eq!(cancelled, Cancelled { turn: Some(TurnId::from("t1")), prompts: vec![], parked: None });
    }
    assert_eq!(session.count("turn.cancelling"), 1);
    assert_eq!(session.fold.state().turns[0].cancelling, Some(By::Client));
    session.machine = Machine::resume(session.fold.state());
    assert!(session.machine.is_cancelling());
    session.step(|machine, step| machine.cancel(&Cancel::Any, By::Client, step)).unwrap();
    assert_eq!(session.count("turn.cancelling"), 1);
    session.observe(idle());
    assert_eq!(outcome(&session, 0), Some(Outcome::Cancelled));
    session.prompt("again");
    session.observe(busy());
    assert!(!session.machine.is_cancelling(), "it was another turn");
    session.observe_all([message("b"), done("b"), idle()]);
    assert_eq!(outcome(&session, 1), Some(Outcome::Completed));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_waiting_prompt_can_be_withdrawn_and_a_sent_one_cannot() {
    let mut session = Session::new();
    let sent = session.prompt("one");
    let waiting = session.step(|machine, step| machine.accept(Some("k".into()), vec![], step)).unwrap();
    assert_eq!(waiting.position, 1);
    session.step(|machine, step| machine.withdraw(&waiting.prompt, step)).unwrap();
    let refusal = session.step(|machine, step| machine.withdraw(&sent, step)).unwrap_err();
    assert_eq!(refusal.to_string(), "prompt p1 is not waiting: it was sent to the agent");
}

#[test]
fn an_ended_session_takes_nothing_more() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), message("a"), delta("a", "x")]);
    session.step(|machine, step| machine.accept(None, vec![], step)).unwrap();
    session.step(|machine, step| machine.end_session("deleted".into(), step)).unwrap();
    let events = session.log.len();
    session.observe_all([delta("a", "y"), idle(), busy(), message("b")]);
    let refusal = session.step(|machine, step| machine.accept(None, vec![], step)).unwrap_err();
    assert_eq!(refusal, Refusal::SessionEnded);
    assert_eq!(session.log.len(), events);
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_new_owner_takes_up_the_open_turn_under_the_same_ids() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([
        busy(),
        attempt("m"),
        message("a"),
        delta("a", "half"),
        tool("c", ToolStatus::InProgress),
    ]);
    session.observe(Signal::Ask {
        key: Key::from("per"),
        item: Some(Key::from("c")),
        tool: None,
        options: vec![],
    });
    // The owner is killed; the next one has nothing but the log.
    session.machine = Machine::resume(session.fold.state());
    session.ids = session.fold.state().counters;
    session.step(Machine::begin_recovery);
    assert_eq!(session.fold.state().session.status, Activity::Recovering);
    session.observe_all([whole("a", "half and more"), done("a")]);
    let approval = ApprovalId::from("q1");
    session
        .step(|machine, step| {
            machine.resolve(&approval, Resolution::new(ApprovalOutcome::AllowOnce, By::Client), step)
        })
        .unwrap();
    session.observe_all([tool("c", ToolStatus::Completed), attempt_done("m", "stop")]);
    session.step(Machine::end_recovery);
    session.observe(idle());
    assert_eq!(session.count("turn.started"), 1);
    assert_eq!(session.text("a"), "half and more");
    assert_eq!(outcome(&session, 0), Some(Outcome::Completed));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_turn_whose_agent_is_gone_is_settled_as_lost_by_the_new_owner() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), message("a"), delta("a", "half")]);
    session.machine = Machine::resume(session.fold.state());
    session.ids = session.fold.state().counters;
    let turn = session.machine.open_turn().unwrap().clone();
    let gone = Ending::lost(TurnError::new(ErrorClass::AgentExited, "the gateway was restarted"));
    session.step(|machine, step| machine.end_open_turn(&turn, gone.clone(), step)).unwrap();
    assert!(session.step(|machine, step| machine.end_open_turn(&turn, gone, step)).is_err());
    assert_eq!(outcome(&session, 0), Some(Outcome::Lost));
    assert_eq!(session.text("a"), "half");
    session.assert_lawful(Tail::Settled);
}

#[test]
fn ids_are_not_reused_after_a_restart() {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), attempt("m1"), message("a")]);
    session.observe(Signal::Retrying { attempt: None, reason: None, until: None, message: None });
    session.observe_all([attempt("m2"), Signal::ItemRemoved(Key::from("a"))]);
    assert_eq!(session.fold.state().counters, session.ids);
    let fresh = Counters { prompts: 1, turns: 1, attempts: 2, items: 1, ..Counters::default() };
    assert_eq!(session.fold.state().counters, fresh);
}

#[test]
fn an_idle_while_a_person_is_asked_is_not_believed_unless_the_turn_was_cancelled() {
    let ask = || Signal::Ask { key: Key::from("per"), item: None, tool: None, options: vec![] };
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([busy(), message("a"), done("a"), ask(), idle()]);
    assert_eq!(session.count("turn.ended"), 0);
    session.step(|machine, step| machine.cancel(&Cancel::Any, By::Client, step)).unwrap();
    session.observe(idle());
    assert_eq!(outcome(&session, 0), Some(Outcome::Cancelled));
    assert_eq!(session.fold.state().approvals[0].outcome, Some(ApprovalOutcome::Cancelled));
    session.assert_lawful(Tail::Settled);
}

#[test]
fn a_session_that_was_forgotten_goes_on_without_the_agents_old_id() {
    let mut session = Session::new();
    let named = |native_id: &str| {
        let native_id = Some(native_id.to_owned());
        Signal::Session(turnstream_model::event::SessionPatch { native_id, ..Default::default() })
    };
    session.observe(named("old"));
    session.prompt("go");
    session.observe_all([busy(), attempt("m")]);
    let resume = |session: &mut Session| {
        session.step(|machine, step| machine.resume_session(ResumeAs::Transcript, step))
    };
    let open = Some(TurnId::from("t1"));
    assert_eq!(resume(&mut session), Err(Refusal::TurnNotOpen { asked: None, open }), "its agent works");
    session.observe_all([attempt_done("m", "stop"), idle()]);
    session.pass(60_000);
    resume(&mut session).unwrap();
    let about = session.fold.state().session.clone();
    let resumed = about.resumed.unwrap();
    assert_eq!((about.native_id, resumed.forgot.as_deref(), resumed.pending), (None, Some("old"), true));
    // The new owner of a session knows it too, and the agent may even give the old name again.
    session.machine = Machine::resume(session.fold.state());
    session.observe(named("old"));
    assert_eq!(session.fold.state().session.native_id.as_deref(), Some("old"));
    assert!(session.fold.state().session.resumed.as_ref().unwrap().pending, "a name is no work");
    session.prompt("go on");
    session.observe_all([busy(), attempt("n")]);
    assert!(!session.fold.state().session.resumed.as_ref().unwrap().pending);
    session.observe_all([attempt_done("n", "stop"), idle()]);
    session.pass(60_000);
    session.assert_lawful(Tail::Settled);
}
