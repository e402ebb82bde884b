//! The stopping of a turn, step by step: an abort that comes before its prompt stops nothing.

use crate::desk;
use crate::prompts::{PROMPT, Talk};
use serde_json::json;
use std::time::Duration;
use turnstream_adapter::{Command, Observed};
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::signal::{Ending, Signal};
use turnstream_model::time::Time;
use turnstream_opencode_client::conversation::{Answer, Call, Pace, PromptAnswer, SessionSnapshot};

fn cancel(talk: &mut Talk) {
    talk.conversation.command(Command::Cancel, Time(talk.now));
}

fn busy_shelf(talk: &mut Talk) {
    talk.answer(Answer::Snapshot(Ok(Box::new(SessionSnapshot { busy: true, ..SessionSnapshot::default() }))));
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
    assert_eq!(talk.calls(), ["snapshot"]);
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
        assert_eq!(talk.calls(), ["snapshot"]);
        busy_shelf(&mut talk);
        assert_eq!(talk.calls(), ["abort"]);
    }
    talk.pass(1);
    assert_eq!(talk.calls(), ["snapshot"]);
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
    talk.conversation.command(Command::CancelPrompt(prompt.to_owned()), Time(talk.now));
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
    assert!(talk.calls().contains(&"snapshot"));
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
fn given_up(pace: Pace) -> desk::Talk {
    let mut talk = desk::Talk::paced(pace);
    talk.prompt(desk::ONE);
    assert_eq!(talk.calls().len(), 1);
    talk.conversation.command(Command::CancelPrompt(desk::ONE.to_owned()), Time(talk.now));
    talk.prompt(desk::TWO);
    assert_eq!(talk.calls(), [], "an abort after the answer would hit it");
    talk
}

/// The same, and its request was answered a long time after.
fn answered_late() -> desk::Talk {
    answered_late_by(Pace::default())
}

fn answered_late_by(pace: Pace) -> desk::Talk {
    let mut talk = given_up(pace);
    talk.pass(60_000);
    talk.answer(Answer::Prompt(desk::ONE.to_owned(), PromptAnswer::Accepted));
    assert_eq!(talk.calls(), [Call::Abort]);
    talk.answer(Answer::Abort);
    assert_eq!(talk.calls(), [], "opencode forgets an abort that comes before the prompt has begun");
    talk
}

fn is_second(call: &Call) -> bool {
    matches!(call, Call::Prompt { message, .. } if message == desk::TWO)
}

/// Answers every question to the server with this; the calls that are left.
fn answered_with(talk: &mut desk::Talk, snapshot: &SessionSnapshot) -> Vec<Call> {
    let mut left = Vec::new();
    while let Some(call) = talk.conversation.next_call() {
        match call {
            Call::Snapshot { .. } => talk.answer(Answer::Snapshot(Ok(Box::new(snapshot.clone())))),
            Call::Abort => {
                talk.answer(Answer::Abort);
                left.push(call);
            }
            _ => left.push(call),
        }
    }
    left
}

/// What the server has of the cancelled prompt: that it is there, and an answer of this kind.
fn first_stored(busy: bool, answer: Option<serde_json::Value>) -> SessionSnapshot {
    let info = json!({"id": desk::ONE, "sessionID": desk::SESSION, "role": "user", "time": {"created": 1.0}});
    let answer = answer.map(|more| desk::answer_info("msg_a", desk::ONE, more));
    let messages: Vec<_> =
        [info].into_iter().chain(answer).map(|info| json!({"info": info, "parts": []})).collect();
    *desk::snapshot(json!({"busy": busy, "messages": messages}))
}

fn aborted() -> serde_json::Value {
    let error = json!({"name": "MessageAbortedError", "data": {"message": "Aborted"}});
    json!({"error": error, "time": {"created": 1.0, "completed": 2.0}})
}

fn began(said: &[Observed]) -> Vec<Vec<String>> {
    let prompts = |observed: &Observed| match observed {
        Observed::Signal(Signal::TurnBegan { prompts, .. }) => Some(prompts.clone()),
        _ => None,
    };
    said.iter().filter_map(prompts).collect()
}

#[test]
fn the_next_prompt_leaves_at_once_when_the_server_would_not_take_the_one_that_was_given_up() {
    let mut talk = given_up(Pace::default());
    talk.answer(Answer::Prompt(desk::ONE.to_owned(), PromptAnswer::Busy));
    let calls = talk.calls();
    assert!(calls.len() == 1 && is_second(&calls[0]), "{calls:?}");
}

#[test]
fn the_next_prompt_leaves_when_the_one_that_was_given_up_is_there_and_does_nothing() {
    let mut talk = answered_late();
    talk.pass(1_000);
    let calls = answered_with(&mut talk, &first_stored(false, None));
    assert!(calls.len() == 1 && is_second(&calls[0]), "{calls:?}");
    assert!(began(&talk.said()).is_empty());
}

#[test]
fn a_prompt_that_was_given_up_is_aborted_again_when_it_begins_and_the_next_one_waits_for_its_end() {
    let mut talk = answered_late();
    talk.status("busy");
    assert_eq!(talk.calls(), []);
    assert!(began(&talk.said()).is_empty(), "that is not the work of the prompt that waits");
    for _ in 0..3 {
        talk.pass(1_000);
        assert_eq!(answered_with(&mut talk, &first_stored(true, Some(json!({})))), [Call::Abort]);
    }
    let said = talk.said();
    let names = began(&said).concat();
    assert!(names.contains(&desk::ONE.to_owned()), "{said:?}");
    assert!(!names.contains(&desk::TWO.to_owned()), "{said:?}");
    assert!(began(&said).iter().all(|prompts| !prompts.is_empty()), "{said:?}");
    talk.event("message.updated", json!({"info": desk::answer_info("msg_a", desk::ONE, aborted())}));
    talk.status("idle");
    let calls = answered_with(&mut talk, &first_stored(false, Some(aborted())));
    assert!(calls.len() == 1 && is_second(&calls[0]), "{calls:?}");
    let said = talk.said();
    let end = Signal::TurnDone { native_id: None, ending: Ending::cancelled() };
    assert!(said.contains(&Observed::Signal(end)), "its turn is no success: {said:?}");
}

#[test]
fn a_prompt_that_was_given_up_and_is_first_seen_when_it_is_over_is_not_taken_for_the_next_one() {
    let mut talk = answered_late();
    talk.pass(1_000);
    let calls = answered_with(&mut talk, &first_stored(false, Some(aborted())));
    assert!(calls.len() == 1 && is_second(&calls[0]), "{calls:?}");
    let said = talk.said();
    let of = |wanted: fn(&Signal) -> bool| {
        said.iter().position(|said| matches!(said, Observed::Signal(signal) if wanted(signal))).unwrap()
    };
    let begins = of(|signal| matches!(signal, Signal::TurnBegan { prompts, .. } if !prompts.is_empty()));
    assert!(begins < of(|signal| matches!(signal, Signal::AttemptBegan { .. })), "{said:?}");
}

#[test]
fn a_prompt_that_was_given_up_and_is_not_there_is_looked_for_some_times() {
    let mut talk = answered_late();
    for _ in 0..4 {
        talk.pass(1_000);
        assert_eq!(answered_with(&mut talk, &SessionSnapshot::default()), [Call::Abort]);
    }
    talk.pass(1_000);
    let calls = answered_with(&mut talk, &SessionSnapshot::default());
    assert!(calls.len() == 1 && is_second(&calls[0]), "{calls:?}");
}

#[test]
fn an_accepted_prompt_of_a_slow_server_is_waited_for_before_the_next_one_leaves() {
    let start = Duration::from_secs(60);
    let mut talk = answered_late_by(Pace { start, ..Pace::default() });
    for second in 1..60 {
        talk.pass(1_000);
        let aborts = if second < 5 { vec![Call::Abort] } else { Vec::new() };
        assert_eq!(answered_with(&mut talk, &SessionSnapshot::default()), aborts, "after {second} s");
    }
    talk.pass(900);
    talk.status("busy");
    talk.pass(100);
    assert_eq!(answered_with(&mut talk, &first_stored(true, Some(json!({})))), [Call::Abort]);
    talk.event("message.updated", json!({"info": desk::answer_info("msg_a", desk::ONE, aborted())}));
    talk.status("idle");
    let calls = answered_with(&mut talk, &first_stored(false, Some(aborted())));
    assert!(calls.len() == 1 && is_second(&calls[0]), "{calls:?}");
}

#[test]
fn a_prompt_that_waits_for_one_that_was_given_up_can_be_cancelled() {
    let mut talk = answered_late();
    talk.conversation.command(Command::CancelPrompt(desk::TWO.to_owned()), Time(talk.now));
    let said = talk.said();
    let refused = said.iter().any(|said| {
        matches!(said, Observed::Signal(Signal::PromptRefused { native_id, error })
            if native_id == desk::TWO && error.class == ErrorClass::Cancelled)
    });
    assert!(refused, "{said:?}");
    talk.pass(1_000);
    let calls = answered_with(&mut talk, &first_stored(false, None));
    assert_eq!(calls, [], "it never left");
}

#[test]
fn a_cancelled_prompt_that_begins_when_nobody_expects_it_is_stopped_and_the_next_one_waits() {
    let mut talk = desk::Talk::new();
    talk.prompt(desk::ONE);
    talk.calls();
    talk.conversation.command(Command::CancelPrompt(desk::ONE.to_owned()), Time(talk.now));
    talk.answer(Answer::Prompt(desk::ONE.to_owned(), PromptAnswer::Accepted));
    talk.pass(1_000);
    assert_eq!(answered_with(&mut talk, &first_stored(false, None)), [Call::Abort]);
    talk.event("message.updated", json!({"info": desk::answer_info("msg_a", desk::ONE, json!({}))}));
    assert_eq!(talk.calls(), [Call::Abort]);
    talk.prompt(desk::TWO);
    assert_eq!(talk.calls(), []);
    talk.event("message.updated", json!({"info": desk::answer_info("msg_a", desk::ONE, aborted())}));
    talk.status("idle");
    talk.answer(Answer::Abort);
    let calls = answered_with(&mut talk, &first_stored(false, Some(aborted())));
    assert!(calls.len() == 1 && is_second(&calls[0]), "{calls:?}");
}

#[test]
fn the_next_prompt_does_not_wait_for_ever_for_one_that_was_given_up() {
    let mut talk = given_up(Pace::default());
    talk.pass(180_000);
    assert_eq!(talk.calls(), [Call::Abort]);
    // Nothing is answered any more.
    for _ in 0..180 {
        talk.pass(1_000);
        assert!(!talk.calls().iter().any(is_second));
    }
    let said = talk.said();
    let refused = said.iter().any(|said| {
        matches!(said, Observed::Signal(Signal::PromptRefused { native_id, error })
            if native_id == desk::TWO && error.class == ErrorClass::Timeout)
    });
    assert!(refused, "{said:?}");
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
    talk.conversation.stopped();
    talk.prompt_again();
    assert_eq!(talk.calls(), [""; 0]);
    pass_unanswered(&mut talk);
    assert_eq!(talk.calls(), ["prompt"]);
}

#[test]
fn a_question_to_the_server_that_is_never_answered_is_asked_again() {
    let mut talk = Talk::new();
    talk.conversation.connected(Some("cut".to_owned()), Time(talk.now));
    assert_eq!(talk.calls(), ["snapshot"]);
    talk.status("busy");
    pass_unanswered(&mut talk);
    // What waited for the answer was taken in without it, and the silence since is a reason to ask.
    talk.pass(15);
    talk.conversation.connected(Some("cut again".to_owned()), Time(talk.now));
    assert_eq!(talk.calls(), ["snapshot"]);
}

#[test]
fn a_prompt_whose_request_is_never_answered_is_asked_about() {
    let mut talk = Talk::prompted();
    pass_unanswered(&mut talk);
    talk.pass(0);
    assert_eq!(talk.calls(), ["snapshot"]);
    talk.empty_shelf();
    assert_eq!(talk.calls(), ["prompt"], "under the same name it is the same prompt");
}
