//! The stopping of a turn, step by step: an abort that comes before its prompt stops nothing.

use crate::desk;
use crate::prompts::{PROMPT, Talk};
use serde_json::json;
use turnstream_agents::Command;
use turnstream_agents::opencode::conduct::{Answer, Call, PromptAnswer, Shelf};
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::time::Time;

fn cancel(talk: &mut Talk) {
    talk.conductor.command(Command::Cancel, Time(talk.now));
}

fn busy_shelf(talk: &mut Talk) {
    talk.answer(Answer::Shelf(Ok(Box::new(Shelf { busy: true, ..Shelf::default() }))));
}

#[test]
fn an_abort_waits_for_a_prompt_that_is_on_its_way() {
    let mut talk = Talk::prompted();
    cancel(&mut talk);
    assert_eq!(talk.calls(), [""; 0]);
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Accepted));
    assert_eq!(talk.calls(), ["abort"]);
    // It had not begun, and is not sent again.
    talk.pass(1);
    assert_eq!(talk.calls(), ["shelf"]);
    talk.empty_shelf();
    assert_eq!(talk.refused(), Some(ErrorClass::Cancelled));
    assert!(!talk.calls().contains(&"prompt"));
}

#[test]
fn also_when_nobody_knows_whether_the_server_has_it() {
    let mut talk = Talk::prompted();
    cancel(&mut talk);
    let broken = TurnError::new(ErrorClass::TransportLost, "broke");
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Unclear(broken)));
    assert_eq!(talk.calls(), ["abort"]);
}

#[test]
fn an_abort_that_was_not_heard_is_repeated_when_the_server_still_works() {
    let mut talk = Talk::prompted();
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Accepted));
    talk.status("busy");
    cancel(&mut talk);
    cancel(&mut talk);
    assert_eq!(talk.calls(), ["abort"], "twice is not more than once");
    for _ in 0..9 {
        talk.pass(1);
        assert_eq!(talk.calls(), ["shelf"]);
        busy_shelf(&mut talk);
        assert_eq!(talk.calls(), ["abort"]);
    }
    talk.pass(1);
    assert_eq!(talk.calls(), ["shelf"]);
    busy_shelf(&mut talk);
    assert_eq!(talk.calls(), [""; 0], "not for ever");
}

#[test]
fn the_turn_of_somebody_else_is_not_aborted_by_a_prompt_that_waits_for_it() {
    let mut talk = Talk::prompted();
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Busy));
    cancel(&mut talk);
    assert_eq!((talk.refused(), talk.calls()), (Some(ErrorClass::Cancelled), vec![]));
    talk.event("session.idle", json!({}));
    assert_eq!(talk.calls(), [""; 0]);
}

#[test]
fn a_turn_that_was_to_stop_is_stopped_when_it_shows_before_its_request_is_answered() {
    let mut talk = Talk::prompted();
    cancel(&mut talk);
    talk.status("busy");
    assert_eq!(talk.calls(), [""; 0], "there is nothing to stop yet: that may be somebody else's turn");
    let info = json!({"id": PROMPT, "sessionID": "ses_1", "role": "user", "time": {"created": 1.0}});
    talk.event("message.updated", json!({"info": info}));
    assert_eq!(talk.calls(), ["abort"]);
}

// === prompts without a turn ===

fn cancel_prompt(talk: &mut Talk, prompt: &str) {
    talk.conductor.command(Command::CancelPrompt(prompt.to_owned()), Time(talk.now));
}

#[test]
fn a_cancel_of_a_prompt_stops_that_one_and_no_other() {
    let mut talk = Talk::prompted();
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Accepted));
    cancel_prompt(&mut talk, "msg_another");
    assert_eq!(talk.calls(), [""; 0]);
    cancel_prompt(&mut talk, PROMPT);
    assert_eq!(talk.calls(), ["abort"]);
    // It had not begun.
    talk.pass(1);
    assert!(talk.calls().contains(&"shelf"));
    talk.empty_shelf();
    assert_eq!(talk.refused(), Some(ErrorClass::Cancelled));
}

#[test]
fn a_prompt_that_has_begun_by_then_is_a_turn_that_is_stopped() {
    let mut talk = Talk::prompted();
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Accepted));
    talk.status("busy");
    cancel_prompt(&mut talk, PROMPT);
    assert_eq!(talk.calls(), ["abort"]);
}

/// A prompt was cancelled and given up while its request was on its way, and another one is to be sent.
fn given_up() -> desk::Talk {
    let mut talk = desk::Talk::new();
    talk.prompt(desk::ONE);
    assert_eq!(talk.calls().len(), 1);
    talk.conductor.command(Command::CancelPrompt(desk::ONE.to_owned()), Time(talk.now));
    talk.prompt(desk::TWO);
    assert_eq!(talk.calls(), [], "an abort after the answer would hit it");
    talk
}

fn is_second(call: &Call) -> bool {
    matches!(call, Call::Prompt { message, .. } if message == desk::TWO)
}

#[test]
fn the_next_prompt_waits_for_one_that_was_given_up_on_its_way() {
    for answer in [PromptAnswer::Accepted, PromptAnswer::Busy] {
        let mut talk = given_up();
        talk.answer(Answer::Prompt(desk::ONE.to_owned(), answer.clone()));
        if answer == PromptAnswer::Accepted {
            assert_eq!(talk.calls(), [Call::Abort]);
            talk.answer(Answer::Abort);
        }
        let calls = talk.calls();
        assert!(calls.len() == 1 && is_second(&calls[0]), "{calls:?}");
    }
}

#[test]
fn the_next_prompt_does_not_wait_for_ever_for_one_that_was_given_up() {
    let mut talk = given_up();
    talk.pass(180_000);
    assert_eq!(talk.calls(), [Call::Abort]);
    talk.answer(Answer::Abort);
    assert!(talk.calls().iter().any(is_second));
}

// === calls that nobody answers ===

/// From here on nothing that was asked of the server is answered, as when a call panicked.
fn pass_unanswered(talk: &mut Talk) {
    talk.pass(179);
    assert_eq!(talk.calls(), [""; 0], "it may still come");
    talk.pass(1);
}

#[test]
fn a_prompt_that_waits_for_an_abort_that_is_never_answered_is_sent_in_the_end() {
    let mut talk = Talk::prompted();
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Accepted));
    talk.status("busy");
    cancel(&mut talk);
    assert_eq!(talk.calls(), ["abort"]);
    talk.event(
        "session.error",
        json!({"error": {"name": "MessageAbortedError", "data": {"message": "Aborted"}}}),
    );
    // It ends by somebody else's hand; the next prompt waits for the abort.
    talk.conductor.stopped();
    talk.prompt_again();
    assert_eq!(talk.calls(), [""; 0]);
    pass_unanswered(&mut talk);
    assert_eq!(talk.calls(), ["prompt"]);
}

#[test]
fn a_question_to_the_server_that_is_never_answered_is_asked_again() {
    let mut talk = Talk::new();
    talk.conductor.connected(Some("cut".to_owned()), Time(talk.now));
    assert_eq!(talk.calls(), ["shelf"]);
    talk.status("busy");
    pass_unanswered(&mut talk);
    // What waited for the answer was taken in without it, and the silence since is a reason to ask.
    talk.pass(15);
    talk.conductor.connected(Some("cut again".to_owned()), Time(talk.now));
    assert_eq!(talk.calls(), ["shelf"]);
}

#[test]
fn a_prompt_whose_request_is_never_answered_is_asked_about() {
    let mut talk = Talk::prompted();
    pass_unanswered(&mut talk);
    talk.pass(0);
    assert_eq!(talk.calls(), ["shelf"]);
    talk.empty_shelf();
    assert_eq!(talk.calls(), ["prompt"], "under the same name it is the same prompt");
}
