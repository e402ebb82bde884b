//! Answers of the server that cannot be read: what can be decides, and is not waited for in vain.

use crate::desk::{Desk, ONE, Talk, snapshot};
use serde_json::json;
use turnstream_adapter::{Fate, Observed, OpenWork};
use turnstream_model::event::{ErrorClass, Outcome, TurnError};
use turnstream_model::id::TurnId;
use turnstream_model::signal::{ProbedStatus, Signal};
use turnstream_opencode_client::conversation::{Answer, Call, PromptAnswer, SessionSnapshot, UnreadPart};

fn without_messages(busy: bool) -> SessionSnapshot {
    let problem = "GET /session/ses_1/message: expected value at line 1 column 1".to_owned();
    SessionSnapshot {
        busy,
        unread_parts: vec![(UnreadPart::Messages, problem)],
        ..SessionSnapshot::default()
    }
}

fn begun() -> Desk {
    let mut desk = Desk::new();
    desk.prompt(ONE);
    desk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
    desk.begins(ONE, "msg_a", "prt_a");
    desk
}

fn notices(desk: &Desk) -> Vec<String> {
    let events = desk.log.iter().map(|event| serde_json::to_value(event).unwrap());
    let notices = events.filter(|event| event["type"] == "notice" && event["code"] == "corrupt");
    notices.map(|event| event["message"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_turn_whose_messages_cannot_be_read_ends_by_its_status_and_says_so_once() {
    let mut desk = begun();
    // Nothing comes any more; the server says that it rests.
    desk.pass(30_000, &without_messages(false));
    assert_eq!(desk.outcomes(), [Some(Outcome::Completed)]);
    let said = notices(&desk);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("could not be read: GET /session/ses_1/message"), "{said:?}");
    assert!(!desk.state().items.is_empty(), "what was seen of it is not taken back");
}

#[test]
fn a_turn_goes_on_while_the_status_says_so_whatever_else_cannot_be_read() {
    let mut desk = begun();
    desk.pass(100_000, &without_messages(true));
    assert_eq!(desk.outcomes(), [None]);
    desk.ends(ONE, "msg_a", "prt_a");
    assert_eq!(desk.outcomes(), [Some(Outcome::Completed)]);
    assert_eq!(notices(&desk).len(), 1);
}

#[test]
fn what_is_readable_again_is_said_again_when_it_is_not() {
    let mut desk = begun();
    desk.pass(20_000, &without_messages(true));
    desk.pass(
        20_000,
        &snapshot(json!({"busy": true, "messages": [
            {"info": {"id": ONE, "sessionID": "ses_1", "role": "user"}, "parts": []},
            {"info": crate::desk::answer_info("msg_a", ONE, json!({})), "parts": []},
        ]})),
    );
    desk.pass(20_000, &without_messages(true));
    assert_eq!(notices(&desk).len(), 2);
}

#[test]
fn a_turn_of_which_nothing_can_be_read_fails_by_that_and_is_not_waited_for() {
    let mut desk = begun();
    let mut asked = 0;
    for _ in 0..60 {
        while let Some(place) = desk.calls.iter().position(|call| matches!(call, Call::Snapshot { .. })) {
            desk.calls.remove(place);
            asked += 1;
            let error = TurnError::new(ErrorClass::AgentError, "opencode's answer is not JSON");
            desk.answer(Answer::Snapshot(Err(error)));
        }
        desk.now += 1_000;
        desk.standalone.tick(turnstream_model::time::Time(desk.now));
        desk.drain();
    }
    assert_eq!(desk.outcomes(), [Some(Outcome::Failed)]);
    assert!((2..10).contains(&asked), "asked {asked} times");
}

/// After a restart nobody knows whether the prompt ran: it is not sent again.
#[test]
fn what_another_owner_left_is_settled_by_the_status() {
    for (busy, fate, status) in
        [(true, Fate::Taken, ProbedStatus::Busy), (false, Fate::Unknown, ProbedStatus::Idle)]
    {
        let mut talk = Talk::new();
        let turn = TurnId::from("t1");
        let left =
            OpenWork { turn: Some(turn.clone()), prompts: vec![ONE.to_owned()], ..OpenWork::default() };
        talk.conversation.recover(left);
        talk.conversation.connected(None, turnstream_model::time::Time(talk.now));
        assert!(matches!(talk.calls()[..], [Call::Snapshot { .. }]));
        talk.answer(Answer::Snapshot(Ok(Box::new(without_messages(busy)))));
        talk.pass(10_000);
        for call in talk.calls() {
            assert!(matches!(call, Call::Snapshot { .. }), "{call:?}");
            talk.answer(Answer::Snapshot(Ok(Box::new(without_messages(busy)))));
        }
        let said = talk.said();
        assert!(said.contains(&Observed::Fate { native_id: ONE.to_owned(), fate }), "{said:?}");
        assert!(said.contains(&Observed::Signal(Signal::StatusProbed { turn, status })), "{said:?}");
        assert_eq!(said.last(), Some(&Observed::CaughtUp), "{said:?}");
    }
}
