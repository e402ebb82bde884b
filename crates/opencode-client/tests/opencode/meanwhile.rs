//! A link to an older session: what other clients did in it since the log last heard of it comes before the
//! first prompt.

use crate::desk::{ONE, SESSION, TWO, answer_info};
use serde_json::{Value, json};
use turnstream_adapter::{Command, LoggedWork, Observed};
use turnstream_model::event::NoticeCode;
use turnstream_model::id::Key;
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;
use turnstream_opencode_client::conversation::{Answer, Budget, Call, Conversation, Pace, SessionSnapshot};
use turnstream_opencode_client::translate::Stored;

const NOW: Time = Time(1_794_770_000_000);

/// What is said when the server has these messages, and the log has the prompt [`ONE`] and its answer
/// `msg_a1`.
fn told(messages: Vec<Stored>) -> Vec<&'static str> {
    let known = LoggedWork {
        prompts: vec![ONE.to_owned()],
        calls: vec![Key::from("msg_a1#2")],
        ..LoggedWork::default()
    };
    words(&mut caught_up(&known, messages))
}

fn caught_up(known: &LoggedWork, messages: Vec<Stored>) -> Conversation {
    let mut conversation = Conversation::new(SESSION, Pace::default(), Budget::default(), NOW);
    conversation.continue_session();
    assert!(conversation.catch_up_from(known));
    conversation.connected(None, NOW);
    assert_eq!(conversation.next_call(), Some(Call::NewestMessages));
    conversation.answer(Answer::NewestMessages(messages), NOW);
    conversation
}

fn words(conversation: &mut Conversation) -> Vec<&'static str> {
    let word = |observed: Observed| match observed {
        Observed::Signal(Signal::TurnBegan { .. }) => Some("began"),
        Observed::Signal(Signal::TurnIdle { .. }) => Some("idle"),
        Observed::Signal(Signal::Notice { code: NoticeCode::Gap, .. }) => Some("gap"),
        Observed::Back => Some("back"),
        _ => None,
    };
    std::iter::from_fn(|| conversation.next_observed()).filter_map(word).collect()
}

fn stored(info: Value, parts: Value) -> Stored {
    serde_json::from_value(json!({"info": info, "parts": parts})).unwrap()
}

fn said(id: &str) -> Stored {
    let info = json!({"id": id, "sessionID": SESSION, "role": "user", "time": {"created": 1.0}});
    let part = json!({"id": format!("prt_{id}"), "messageID": id, "sessionID": SESSION, "type": "text", "text": "go"});
    stored(info, json!([part]))
}

fn answered(id: &str, parent: &str) -> Stored {
    let over = json!({"finish": "stop", "time": {"created": 1.0, "completed": 2.0}});
    stored(answer_info(id, parent, over), json!([]))
}

#[test]
fn what_the_log_has_is_not_told_again() {
    assert_eq!(told(vec![said(ONE), answered("msg_a1", ONE)]), ["back"]);
    // An answer to a prompt of ours is ours, also when the log lacks it.
    assert_eq!(told(vec![said(ONE), answered("msg_a1", ONE), answered("msg_a2", ONE)]), ["back"]);
}

#[test]
fn each_turn_of_another_client_begins_and_ends_before_prompts_go_out() {
    let known = [said(ONE), answered("msg_a1", ONE)];
    let others = [said(TWO), answered("msg_b1", TWO), said("msg_3"), answered("msg_b2", "msg_3")];
    let all = known.into_iter().chain(others).collect();
    assert_eq!(told(all), ["began", "idle", "idle", "began", "idle", "idle", "back"]);
}

#[test]
fn a_turn_of_another_client_that_still_runs_stays_open_and_one_without_an_answer_has_not_begun() {
    let known = [said(ONE), answered("msg_a1", ONE), said(TWO)];
    let runs = stored(answer_info("msg_b1", TWO, json!({})), json!([]));
    assert_eq!(told(known.iter().cloned().chain([runs]).collect()), ["began", "back"]);
    assert_eq!(told(known.to_vec()), ["back"]);
}

#[test]
fn messages_of_which_the_log_knows_none_are_a_gap_and_not_turns() {
    assert_eq!(told(vec![said(TWO), answered("msg_b1", TWO)]), ["gap", "back"]);
    assert_eq!(told(Vec::new()), ["gap", "back"]);
}

#[test]
fn a_cancelled_prompt_that_runs_when_the_next_gateway_comes_is_stopped_before_the_next_prompt() {
    let known = LoggedWork {
        prompts: vec![ONE.to_owned(), TWO.to_owned()],
        unwanted: vec![TWO.to_owned()],
        calls: vec![Key::from("msg_a1#1")],
        ..LoggedWork::default()
    };
    let runs = stored(answer_info("msg_b1", TWO, json!({})), json!([]));
    let messages = vec![said(ONE), answered("msg_a1", ONE), said(TWO), runs];
    let mut conversation = caught_up(&known, messages.clone());
    assert_eq!(words(&mut conversation), ["began", "back"]);
    let prompt = Command::Prompt { native_id: "msg_3".to_owned(), content: Vec::new() };
    conversation.command(prompt, NOW);
    assert_eq!(conversation.next_call(), Some(Call::Abort));
    conversation.answer(Answer::Abort, NOW);
    assert_eq!(conversation.next_call(), None, "it would be part of the turn that is being stopped");
    conversation.tick(NOW.plus_millis(1_000));
    assert!(matches!(conversation.next_call(), Some(Call::Snapshot { .. })));
    let error = json!({"name": "MessageAbortedError", "data": {"message": "Aborted"}});
    let aborted = json!({"error": error, "time": {"created": 1.0, "completed": 2.0}});
    let mut messages = messages;
    messages[3] = stored(answer_info("msg_b1", TWO, aborted), json!([]));
    let snapshot = SessionSnapshot { messages, ..SessionSnapshot::default() };
    conversation.answer(Answer::Snapshot(Ok(Box::new(snapshot))), NOW.plus_millis(1_000));
    assert!(matches!(conversation.next_call(), Some(Call::Prompt { message, .. }) if message == "msg_3"));
    // One that was stored and never begun is nothing to stop.
    assert_eq!(words(&mut caught_up(&known, vec![said(ONE), answered("msg_a1", ONE), said(TWO)])), ["back"]);
}
