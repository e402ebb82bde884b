//! The connection to a server that still runs breaks, and a new one compares the thread with the log. The
//! server's messages are those of captures.

use super::commands::{PROMPT, opened, places, requests};
use super::playback::{Desk, Playback};
use crate::codex::conversation::Opening;
use crate::desk::{Capture, End};
use serde_json::{Value, json};
use turnstream_adapter::Command;
use turnstream_model::event::ErrorClass::TransportLost;
use turnstream_model::event::StopReason::EndTurn;
use turnstream_model::fold::ItemStage;
use turnstream_model::id::TurnId;
use turnstream_model::signal::Need;
use turnstream_model::time::Time;
use turnstream_testkit::lawful::Tail;

const DONE: End = End::Completed(EndTurn);

/// Answers the last request with this method.
fn answer(desk: &mut Desk, method: &str, result: &Value) {
    let id = requests(desk, method).last().unwrap()["id"].clone();
    desk.line(&json!({"id": id, "result": result}).to_string());
}

/// The connection breaks, and the new one is greeted. The server was asked for the thread then.
fn reconnect(desk: &mut Desk) {
    desk.conversation.disconnected("it was cut", Time(desk.now));
    let thread = desk.conversation.thread().0.to_owned();
    desk.conversation.open(Some(thread), Time(desk.now));
    desk.drain();
    let captured = Capture::load::<Playback>("k_kill_then_resume").into_outputs();
    let greeting = captured.iter().find(|line| line["id"] == 0).unwrap();
    answer(desk, "initialize", &greeting["result"]);
}

/// The server resumes the thread.
fn resumed(desk: &mut Desk) {
    let captured = Capture::load::<Playback>("k_kill_then_resume").into_outputs();
    let answered = captured.into_iter().rfind(|line| line["result"]["thread"].is_object());
    let mut result = answered.unwrap()["result"].take();
    result["thread"]["id"] = json!(desk.conversation.thread().0);
    answer(desk, "thread/resume", &result);
}

/// The turn of a capture, as the answer to `turn/start` has it: in progress and without items.
fn begun_turn(messages: &[Value]) -> Value {
    messages.iter().find(|line| line["result"]["turn"].is_object()).unwrap()["result"]["turn"].clone()
}

/// The server lists these turns, newest first.
fn list(desk: &mut Desk, turns: &[Value]) {
    answer(desk, "thread/turns/list", &json!({"data": turns}));
}

#[test]
fn a_prompt_that_the_server_does_not_have_is_refused_and_not_sent_twice() {
    let (mut desk, _) = opened("a_plain_text");
    desk.say(PROMPT, "Hello");
    reconnect(&mut desk);
    resumed(&mut desk);
    assert_eq!(desk.ends(), [], "the turns are compared first");
    list(&mut desk, &[]);
    assert_eq!(desk.ends(), [End::Failed(TransportLost, None)]);
    assert_eq!(requests(&desk, "turn/start").len(), 1);
}

#[test]
fn a_turn_that_is_listed_before_its_prompt_has_the_prompt_that_was_sent() {
    let (mut desk, messages) = opened("a_plain_text");
    desk.say(PROMPT, "Hello");
    reconnect(&mut desk);
    resumed(&mut desk);
    list(&mut desk, &[begun_turn(&messages)]);
    assert_eq!(desk.ends(), [End::Open]);
    desk.lines(&messages[places(&messages, "turn/started")[0]..]);
    assert_eq!(desk.ends(), [DONE]);
    assert_eq!(desk.state().turns[0].prompts.len(), 1);
    desk.assert_lawful(Tail::Live);
}

#[test]
fn a_prompt_that_is_cancelled_while_the_connection_is_made_again_is_stopped() {
    // The server has it.
    let (mut desk, messages) = opened("e_interrupt_mid_stream");
    desk.say(PROMPT, "Write a long text");
    reconnect(&mut desk);
    resumed(&mut desk);
    desk.cancel_prompt(PROMPT);
    assert_eq!(desk.ends(), [], "it may run");
    let turn = begun_turn(&messages);
    list(&mut desk, std::slice::from_ref(&turn));
    assert_eq!(requests(&desk, "turn/interrupt")[0]["params"]["turnId"], turn["id"]);
    let end = places(&messages, "turn/completed")[0];
    desk.lines(&messages[end..=end]);
    assert_eq!(desk.ends(), [End::Cancelled]);
    desk.assert_lawful(Tail::Live);
    // The server does not have it.
    let (mut desk, _) = opened("e_interrupt_mid_stream");
    desk.say(PROMPT, "Write a long text");
    reconnect(&mut desk);
    resumed(&mut desk);
    desk.cancel_prompt(PROMPT);
    list(&mut desk, &[]);
    assert_eq!(desk.ends(), [End::Cancelled]);
}

#[test]
fn an_interrupt_that_the_server_did_not_answer_is_repeated() {
    let (mut desk, messages) = opened("e_interrupt_mid_stream");
    desk.say(PROMPT, "Write a long text");
    desk.lines(&messages[..=places(&messages, "turn/started")[0]]);
    desk.cancel();
    reconnect(&mut desk);
    resumed(&mut desk);
    list(&mut desk, &[begun_turn(&messages)]);
    assert_eq!(requests(&desk, "turn/interrupt").len(), 2);
}

/// The refusal is that of a thread which the server does not have (capture m_bad_requests).
#[test]
fn a_thread_that_had_a_prompt_is_never_replaced_by_a_new_one() {
    let refusals = Capture::load::<Playback>("m_bad_requests").into_outputs();
    let is_it =
        |line: &&Value| line["error"]["message"].as_str().is_some_and(|text| text.contains("not found"));
    let mut refusal = refusals.iter().find(is_it).unwrap().clone();
    for (has_prompt, threads) in [(false, 2), (true, 1)] {
        let (mut desk, _) = opened("a_plain_text");
        desk.conversation.begin_anew_if_refused(true);
        if has_prompt {
            desk.say(PROMPT, "Hello");
        }
        reconnect(&mut desk);
        refusal["id"] = requests(&desk, "thread/resume")[0]["id"].clone();
        desk.lines(std::slice::from_ref(&refusal));
        assert_eq!(requests(&desk, "thread/start").len(), threads);
        let has_failed = matches!(desk.conversation.opening(), Opening::Failed(_));
        assert_eq!(has_failed, has_prompt, "{:?}", desk.conversation.opening());
    }
}

/// A list is read before or after the messages about its items.
#[test]
fn an_item_that_is_listed_is_shown_once_and_a_later_one_with_its_id_too() {
    let (mut desk, messages) = opened("d_file_change_accept");
    desk.say(PROMPT, "Change it");
    let ended = places(&messages, "item/completed");
    let is_change = |at: &&usize| messages[**at]["params"]["item"]["type"] == "fileChange";
    let end = *ended.iter().find(is_change).unwrap();
    let id = &messages[end]["params"]["item"]["id"];
    let start = places(&messages, "item/started");
    let start = *start.iter().find(|at| messages[**at]["params"]["item"]["id"] == *id).unwrap();
    let mut turn = begun_turn(&messages);
    // The list has its end, and its own messages come later.
    desk.lines(&messages[..start]);
    turn["items"] = json!([messages[end]["params"]["item"]]);
    probe(&mut desk, &turn);
    desk.lines(&[messages[start].clone(), messages[end].clone()]);
    assert_eq!(stages(&desk, id), [ItemStage::Completed]);
    // The list has its beginning, and its end has come.
    turn["items"] = json!([messages[start]["params"]["item"]]);
    probe(&mut desk, &turn);
    assert_eq!(stages(&desk, id), [ItemStage::Completed]);
    // Another item with the same id and the same content.
    let again = [start, end].map(|at| {
        let mut message = messages[at].clone();
        message["params"]["item"]["startedAtMs"] = messages.last().unwrap()["emittedAtMs"].clone();
        message
    });
    desk.lines(&again);
    assert_eq!(stages(&desk, id), [ItemStage::Completed; 2]);
    desk.lines(&messages[places(&messages, "turn/completed")[0]..]);
    assert_eq!(desk.ends(), [DONE]);
    desk.assert_lawful(Tail::Live);
}

/// The keeper asks for the status, and the server lists this turn.
fn probe(desk: &mut Desk, turn: &Value) {
    desk.command(Command::Fetch(Need::StatusProbe(TurnId::from("t1"))));
    list(desk, std::slice::from_ref(turn));
}

/// The states of all items with this id.
fn stages(desk: &Desk, id: &Value) -> Vec<ItemStage> {
    let items = desk.state().items.into_iter();
    let id = id.as_str().unwrap();
    items
        .filter(|item| item.native_id.as_ref().is_some_and(|name| name.contains(id)))
        .map(|item| item.state)
        .collect()
}
