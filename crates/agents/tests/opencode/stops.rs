//! The stopping of a turn, step by step: an abort that comes before its prompt stops nothing.

use crate::prompts::{PROMPT, Talk};
use serde_json::json;
use turnstream_agents::Command;
use turnstream_agents::opencode::conduct::{Answer, PromptAnswer, Shelf};
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
    assert_eq!(talk.calls(), [""; 0], "there is nothing to stop yet");
    talk.status("busy");
    assert_eq!(talk.calls(), ["abort"]);
}
