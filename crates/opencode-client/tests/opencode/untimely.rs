//! What comes at the wrong time: stale answers, calls that overtake each other, late news of another turn.

use crate::desk::{Desk, ONE, SESSION, TWO, Talk, answer_info, snapshot, text_part};
use serde_json::{Value, json};
use turnstream_adapter::{Command, Observed};
use turnstream_model::event::{ErrorClass, Outcome, Permissions, StopReason, TurnError};
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;
use turnstream_opencode_client::conversation::{
    Answer, Budget, Call, Conversation, Pace, PromptAnswer, SessionSnapshot,
};
use turnstream_opencode_client::standalone::StandaloneConversation;

// === stale answers ===

#[test]
fn an_answer_that_was_asked_for_before_the_prompt_does_not_send_it_twice() {
    let mut talk = Talk::new();
    // A gap while the session rests: the server is asked.
    talk.conversation.connected(Some("cut".to_owned()), Time(talk.now));
    assert!(matches!(talk.calls()[..], [Call::Snapshot { .. }]));
    talk.prompt(ONE);
    assert_eq!(talk.calls().len(), 1, "the prompt");
    // Its answer is older than the prompt, whose own request is still under way.
    talk.answer(Answer::Snapshot(Ok(Box::default())));
    let again: Vec<Call> =
        talk.calls().into_iter().filter(|call| matches!(call, Call::Prompt { .. })).collect();
    assert_eq!(again, [], "it is sent once while its first request is not answered");
}

#[test]
fn an_answer_that_was_asked_for_before_the_prompt_does_not_make_it_begin() {
    let mut talk = Talk::new();
    talk.conversation.connected(Some("cut".to_owned()), Time(talk.now));
    talk.calls();
    talk.prompt(ONE);
    talk.said();
    talk.answer(Answer::Snapshot(Ok(Box::new(SessionSnapshot { busy: true, ..SessionSnapshot::default() }))));
    let began = talk
        .said()
        .into_iter()
        .any(|said| matches!(said, Observed::Signal(Signal::TurnBegan { prompts, .. }) if prompts == [ONE]));
    assert!(!began, "what was busy then was not this prompt");
}

#[test]
fn a_server_that_cannot_be_asked_does_not_refuse_a_prompt_that_is_on_its_way() {
    let mut talk = Talk::new();
    talk.conversation.connected(Some("cut".to_owned()), Time(talk.now));
    talk.calls();
    talk.prompt(ONE);
    talk.answer(Answer::Snapshot(Err(TurnError::new(ErrorClass::Timeout, "no answer"))));
    let refused =
        talk.said().into_iter().any(|said| matches!(said, Observed::Signal(Signal::PromptRefused { .. })));
    assert!(!refused, "the request of the prompt itself has not been answered yet");
}

#[test]
fn an_ask_that_came_after_the_server_was_asked_stays_open() {
    let mut desk = Desk::new();
    desk.prompt(ONE);
    desk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
    desk.begins(ONE, "msg_a", "prt_a");
    desk.standalone.connected(Some("cut".to_owned()), Time(desk.now));
    desk.drain();
    let ask = json!({"id": "per_1", "permission": "bash", "patterns": ["ls"], "metadata": {}, "always": []});
    desk.event("permission.asked", ask);
    // The list of permissions was read before that one was asked for.
    let messages = json!([{"info": answer_info("msg_a", ONE, json!({})), "parts": []}]);
    desk.answer(Answer::Snapshot(Ok(snapshot(json!({"busy": true, "messages": messages})))));
    assert_eq!(desk.state().approvals[0].outcome, None, "the agent still waits for it");
}

#[test]
fn the_answer_to_one_prompt_is_not_taken_for_another() {
    let mut talk = Talk::new();
    talk.prompt(ONE);
    // It runs and ends, while the answer to its request is still on its way.
    talk.status("busy");
    talk.event("message.updated", json!({"info": answer_info("msg_a", ONE, json!({}))}));
    let over = json!({"finish": "stop", "time": {"created": 1.0, "completed": 2.0}});
    talk.event("message.updated", json!({"info": answer_info("msg_a", ONE, over)}));
    talk.status("idle");
    talk.prompt(TWO);
    talk.said();
    // The proxy in front gives up on the first request.
    talk.answer(Answer::Prompt(
        ONE.to_owned(),
        PromptAnswer::Refused(TurnError::new(ErrorClass::InvalidRequest, "408")),
    ));
    let refused =
        talk.said().into_iter().any(|said| matches!(said, Observed::Signal(Signal::PromptRefused { .. })));
    assert!(!refused, "that was the answer to the first");
}

#[test]
fn a_closed_stream_is_followed_by_a_question_that_is_newer_than_it() {
    let mut talk = Talk::new();
    talk.prompt(ONE);
    talk.status("busy");
    talk.calls();
    talk.conversation.connected(Some("cut".to_owned()), Time(talk.now));
    assert!(matches!(talk.calls()[..], [Call::Snapshot { .. }]));
    talk.conversation.closed(TurnError::new(ErrorClass::TransportLost, "gave up"));
    talk.said();
    talk.answer(Answer::Snapshot(Ok(Box::new(SessionSnapshot { busy: true, ..SessionSnapshot::default() }))));
    let lost = talk.said().into_iter().any(|said| matches!(said, Observed::Signal(Signal::LinkLost(_))));
    assert!(!lost, "that answer is from before the end of the stream; the turn may have ended since");
}

#[test]
fn one_failed_question_after_a_restart_does_not_lose_an_ask_that_still_waits() {
    let mut desk = Desk::new();
    desk.prompt(ONE);
    desk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
    desk.begins(ONE, "msg_a", "prt_a");
    let ask = json!({"id": "per_1", "permission": "bash", "patterns": ["ls"], "metadata": {}, "always": []});
    desk.event("permission.asked", ask.clone());
    // The owner dies; the next one's first question fails, and the second does not.
    let conversation = Conversation::new(SESSION, Pace::default(), Budget::default(), Time(desk.now));
    desk.standalone =
        StandaloneConversation::resume(&desk.state(), conversation, Permissions::Ask, Time(desk.now));
    desk.standalone.connected(None, Time(desk.now));
    desk.calls.clear();
    desk.drain();
    assert!(matches!(desk.calls[..], [Call::Snapshot { .. }]));
    desk.calls.clear();
    desk.answer(Answer::Snapshot(Err(TurnError::new(ErrorClass::Timeout, "busy booting"))));
    let mut waiting = ask;
    waiting["sessionID"] = json!(SESSION);
    let messages = json!([{"info": answer_info("msg_a", ONE, json!({})), "parts": []}]);
    let busy = snapshot(json!({"busy": true, "messages": messages, "permissions": [waiting]}));
    desk.pass(60_000, &busy);
    let open = desk.state().approvals.iter().filter(|ask| ask.outcome.is_none()).count();
    assert_eq!(open, 1, "the agent waits for it, and nobody can answer it any more");
}

// === aborts ===

#[test]
fn a_prompt_waits_until_the_abort_before_it_has_been_answered() {
    let mut talk = Talk::new();
    talk.prompt(ONE);
    talk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
    talk.status("busy");
    talk.event("message.updated", json!({"info": answer_info("msg_a", ONE, json!({}))}));
    talk.calls();
    talk.conversation.command(Command::Cancel, Time(talk.now));
    assert_eq!(talk.calls(), [Call::Abort]);
    // The turn ends by itself at that moment; nobody has said that the abort arrived.
    let over = json!({"finish": "stop", "time": {"created": 1.0, "completed": 2.0}});
    talk.event("message.updated", json!({"info": answer_info("msg_a", ONE, over)}));
    talk.status("idle");
    talk.prompt(TWO);
    assert_eq!(talk.calls(), [], "calls are made at the same time: the abort could hit this prompt");
}

#[test]
fn control_asks_that_a_stopped_turn_left_are_refused_also_when_no_second_idle_comes() {
    let mut desk = Desk::new();
    desk.prompt(ONE);
    desk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
    desk.begins(ONE, "msg_a", "prt_a");
    let ask = json!({"id": "per_1", "permission": "bash", "patterns": ["ls"], "metadata": {}, "always": []});
    desk.event("permission.asked", ask.clone());
    desk.standalone.cancel(Time(desk.now));
    desk.drain();
    // The first idle comes, and neither the closing updates nor the second one.
    desk.status("idle");
    let messages = json!([{"info": answer_info("msg_a", ONE, json!({})), "parts": []}]);
    let mut zombie = ask;
    zombie["sessionID"] = json!(SESSION);
    // As in captures d5 and m3: it goes on being listed.
    desk.pass(60_000, &snapshot(json!({"busy": false, "messages": messages, "permissions": [zombie]})));
    assert_eq!(desk.outcomes(), [Some(Outcome::Cancelled)]);
    desk.whole_turn(TWO, "msg_b", "prt_b");
    let refused = desk.calls.iter().any(|call| matches!(call, Call::Refuse(_)));
    assert!(refused, "opencode lists it for ever");
}

#[test]
fn asks_of_a_turn_that_another_client_aborted_are_refused() {
    let mut desk = Desk::new();
    desk.prompt(ONE);
    desk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
    desk.begins(ONE, "msg_a", "prt_a");
    let ask = json!({"id": "per_1", "permission": "bash", "patterns": ["ls"], "metadata": {}, "always": []});
    desk.event("permission.asked", ask);
    let aborted = json!({"name": "MessageAbortedError", "data": {"message": "Aborted"}});
    desk.event("session.error", json!({"error": aborted}));
    desk.status("idle");
    let over = json!({"error": aborted, "time": {"created": 1.0, "completed": 2.0}});
    desk.event("message.part.updated", text_part("prt_a", "msg_a", "", true));
    desk.event("message.updated", json!({"info": answer_info("msg_a", ONE, over)}));
    desk.status("idle");
    assert_eq!(desk.outcomes(), [Some(Outcome::Cancelled)]);
    let refused = desk.calls.iter().any(|call| matches!(call, Call::Refuse(_)));
    assert!(refused, "opencode lists it for ever");
}

#[test]
fn a_prompt_that_waits_for_an_abort_is_sent_after_it_whatever_comes_of_the_turn_before() {
    let mut talk = Talk::new();
    talk.prompt(ONE);
    talk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
    talk.status("busy");
    talk.event("message.updated", json!({"info": answer_info("msg_a", ONE, json!({}))}));
    talk.conversation.command(Command::Cancel, Time(talk.now));
    let over = json!({"finish": "stop", "time": {"created": 1.0, "completed": 2.0}});
    talk.event("message.updated", json!({"info": answer_info("msg_a", ONE, over)}));
    talk.status("idle");
    talk.prompt(TWO);
    talk.calls();
    talk.event("message.part.updated", text_part("prt_a", "msg_a", "The last of it.", true));
    talk.answer(Answer::Abort);
    assert!(matches!(&talk.calls()[..], [Call::Prompt { message, .. }] if message == TWO));
}

// === news of another turn ===

/// A new conversation in a session whose last turn was aborted a moment ago: its last updates come after
/// our prompt was sent. This happens after a dropped stream of the client library, or with a new link after
/// a forced cancel.
#[test]
fn the_closing_updates_of_an_aborted_turn_do_not_end_the_next_one_of_a_new_conversation() {
    let mut desk = Desk::new();
    desk.prompt(TWO);
    desk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
    let aborted = json!({"name": "MessageAbortedError", "data": {"message": "Aborted"}});
    let over = json!({"error": aborted, "time": {"created": 1.0, "completed": 2.0}});
    desk.event("message.part.updated", text_part("prt_a", "msg_a", "Half of", true));
    desk.event("message.updated", json!({"info": answer_info("msg_a", ONE, over)}));
    desk.status("idle");
    let messages = json!([{"info": {"id": TWO, "sessionID": SESSION, "role": "user"}, "parts": []}]);
    desk.pass(1_000, &snapshot(json!({"busy": true, "messages": messages})));
    assert_eq!(desk.outcomes(), [] as [Option<Outcome>; 0], "nothing of ours has begun");
    desk.begins(TWO, "msg_b", "prt_b");
    desk.ends(TWO, "msg_b", "prt_b");
    assert_eq!(desk.outcomes(), [Some(Outcome::Completed)]);
}

/// Other versions answer 409 while another client's prompt runs.
#[test]
fn a_prompt_that_was_refused_as_busy_is_not_taken_by_the_turn_that_runs() {
    let mut desk = Desk::new();
    desk.prompt(ONE);
    desk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Busy));
    // The other client's turn.
    desk.begins("msg_foreign", "msg_a", "prt_a");
    desk.ends("msg_foreign", "msg_a", "prt_a");
    let posts = desk.calls.iter().filter(|call| matches!(call, Call::Prompt { .. })).count();
    assert_eq!(posts, 2, "now it is sent again");
    desk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
    desk.begins(ONE, "msg_b", "prt_b");
    desk.ends(ONE, "msg_b", "prt_b");
    let turns = desk.state().turns.clone();
    let of_ours: Vec<bool> = turns.iter().map(|turn| !turn.prompts.is_empty()).collect();
    assert_eq!(of_ours, [false, true], "the second turn is the one of our prompt");
}

/// The other client's turn shows between our request and its refusal.
#[test]
fn the_turn_that_a_refused_prompt_met_is_shown_whole_and_takes_no_prompt_of_ours() {
    let mut desk = Desk::new();
    let foreign = "msg_1e0bba742001m4GyH0hPa967vW";
    desk.prompt(ONE);
    desk.begins(foreign, "msg_a", "prt_a");
    let piece = |text: &str| json!({"messageID": "msg_a", "partID": "prt_a", "field": "text", "delta": text});
    desk.event("message.part.delta", piece("Do"));
    desk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Busy));
    desk.event("message.part.delta", piece("ne."));
    let user = json!({"id": foreign, "sessionID": SESSION, "role": "user", "time": {"created": 0.5}});
    let mut asked = text_part("prt_u", foreign, "What the other one asked.", false);
    let mut half = text_part("prt_a", "msg_a", "", false);
    let messages = json!([
        {"info": user, "parts": [asked["part"].take()]},
        {"info": answer_info("msg_a", foreign, json!({})), "parts": [half["part"].take()]},
    ]);
    desk.pass(0, &snapshot(json!({"busy": true, "messages": messages})));
    desk.ends(foreign, "msg_a", "prt_a");
    let posts = desk.calls.iter().filter(|call| matches!(call, Call::Prompt { .. })).count();
    assert_eq!(posts, 2, "now it is sent again");
    desk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
    desk.begins(ONE, "msg_b", "prt_b");
    desk.ends(ONE, "msg_b", "prt_b");
    let state = desk.state();
    let prompts: Vec<usize> = state.turns.iter().map(|turn| turn.prompts.len()).collect();
    assert_eq!(prompts, [0, 1], "the second turn is the one of our prompt");
    assert_eq!(desk.outcomes(), [Some(Outcome::Completed); 2]);
    let texts: Vec<_> = state.items.iter().filter_map(|item| item.text.as_deref()).collect();
    assert_eq!(texts, ["What the other one asked.", "Done.", "Done."]);
}

/// A busy that comes before the answer to our request may be anybody's.
#[test]
fn a_prompt_that_is_refused_after_another_turn_showed_is_not_lost() {
    let mut desk = Desk::new();
    desk.prompt(ONE);
    desk.status("busy");
    desk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Busy));
    desk.status("idle");
    let posts = desk.calls.iter().filter(|call| matches!(call, Call::Prompt { .. })).count();
    assert_eq!(posts, 2, "it is sent again");
}

#[test]
fn a_busy_that_came_before_the_answer_to_a_prompt_is_its_own_when_it_was_taken() {
    let mut desk = Desk::new();
    desk.prompt(ONE);
    desk.status("busy");
    assert_eq!(desk.outcomes(), [], "it may be anybody's");
    desk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
    assert_eq!(desk.outcomes(), [None]);
    assert_eq!(desk.state().turns[0].prompts.len(), 1);
}

#[test]
fn a_stray_idle_between_two_steps_does_not_split_the_turn_s_usage() {
    let tokens =
        |count: u64| json!({"input": count, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}});
    let run = |stray: bool| {
        let mut desk = Desk::new();
        desk.prompt(ONE);
        desk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
        desk.begins(ONE, "msg_a", "prt_a");
        desk.event("message.part.updated", text_part("prt_a", "msg_a", "First.", true));
        let done = json!({"created": 1.0, "completed": 2.0});
        let first = json!({"finish": "tool-calls", "time": done, "tokens": tokens(100)});
        desk.event("message.updated", json!({"info": answer_info("msg_a", ONE, first)}));
        if stray {
            // A late second idle of the turn before, or of an abort by another client that was too late.
            desk.status("idle");
        }
        desk.status("busy");
        desk.event("message.updated", json!({"info": answer_info("msg_b", ONE, json!({}))}));
        desk.event("message.part.updated", text_part("prt_b", "msg_b", "Second.", true));
        let second = json!({"finish": "stop", "time": done, "tokens": tokens(10)});
        desk.event("message.updated", json!({"info": answer_info("msg_b", ONE, second)}));
        desk.status("idle");
        desk.state()
            .turns
            .iter()
            .map(|turn| turn.usage.as_ref().and_then(|usage| usage.input))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(false), [Some(110)]);
    assert_eq!(run(true), run(false));
}

#[test]
fn a_late_update_of_the_turn_before_is_not_counted_in_this_one() {
    let tokens = json!({"input": 1000, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}});
    let mut desk = Desk::new();
    desk.whole_turn(ONE, "msg_a", "prt_a");
    desk.prompt(TWO);
    desk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
    desk.begins(TWO, "msg_b", "prt_b");
    let late = json!({"finish": "length", "time": {"created": 1.0, "completed": 2.0}, "tokens": tokens});
    desk.event("message.updated", json!({"info": answer_info("msg_a", ONE, late)}));
    desk.event("message.part.updated", text_part("prt_b", "msg_b", "Done.", true));
    let own = json!({"finish": "stop", "time": {"created": 1.0, "completed": 2.0},
        "tokens": {"input": 7, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}});
    desk.event("message.updated", json!({"info": answer_info("msg_b", TWO, own)}));
    desk.status("idle");
    let used = desk.state().turns[1].usage.as_ref().and_then(|usage| usage.input);
    assert_eq!(used, Some(7));
}

/// The next turn ends for its own reason, also when that is known before the last is heard of the turn
/// before.
#[test]
fn the_finish_of_the_turn_before_is_not_that_of_this_one() {
    let mut desk = Desk::new();
    desk.whole_turn(ONE, "msg_a", "prt_a");
    desk.prompt(TWO);
    desk.answer(Answer::Prompt(TWO.to_owned(), PromptAnswer::Accepted));
    desk.begins(TWO, "msg_b", "prt_b");
    desk.event("message.part.updated", text_part("prt_b", "msg_b", "Cut o", true));
    let time = json!({"created": 1.0, "completed": 2.0});
    let own = json!({"finish": "length", "time": time});
    desk.event("message.updated", json!({"info": answer_info("msg_b", TWO, own)}));
    let step = json!({"id": "prt_s", "messageID": "msg_a", "sessionID": SESSION, "type": "step-finish",
        "reason": "tool-calls", "tokens": {"input": 1, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}}});
    desk.event("message.part.updated", json!({"part": step}));
    let late = json!({"finish": "stop", "time": time});
    desk.event("message.updated", json!({"info": answer_info("msg_a", ONE, late)}));
    desk.status("idle");
    let reasons: Vec<_> = desk.state().turns.iter().map(|turn| turn.stop_reason).collect();
    assert_eq!(reasons, [Some(StopReason::EndTurn), Some(StopReason::MaxTokens)]);
}

// === subagents ===

fn child(info: Value) -> Value {
    let mut info = info;
    info["sessionID"] = json!("ses_child");
    info
}

#[test]
fn a_subagent_that_never_finishes_is_stopped_at_the_budget_of_steps() {
    let mut talk = Talk::with(Budget { steps: Some(10), ..Budget::default() });
    talk.prompt(ONE);
    talk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
    talk.status("busy");
    talk.event("message.updated", json!({"info": answer_info("msg_a", ONE, json!({}))}));
    let state = json!({"status": "running", "input": {}, "metadata": {"sessionId": "ses_child"}});
    talk.event(
        "message.part.updated",
        json!({"part": {"id": "prt_t", "messageID": "msg_a", "sessionID": SESSION, "type": "tool",
            "tool": "task", "callID": "call_1", "state": state}}),
    );
    for step in 0..50 {
        let over = json!({"finish": "unknown", "time": {"created": 1.0, "completed": 2.0}});
        let info = child(answer_info(&format!("msg_c{step}"), "msg_c", over));
        talk.event("message.updated", json!({"sessionID": "ses_child", "info": info}));
    }
    assert!(talk.calls().contains(&Call::Abort), "52 calls in 20 seconds (capture j2), below a call");
}

#[test]
fn a_subagent_whose_call_stays_unknown_never_speaks_as_the_agent() {
    let mut desk = Desk::new();
    desk.prompt(ONE);
    desk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
    desk.begins(ONE, "msg_a", "prt_a");
    let info = json!({"id": "ses_child", "parentID": SESSION, "title": "t", "directory": "/w"});
    desk.event("session.created", json!({"sessionID": "ses_child", "info": info}));
    for step in 0..5_000 {
        let name = format!("msg_c{step}");
        let over = json!({"finish": "stop", "time": {"created": 1.0, "completed": 2.0}});
        let info = child(answer_info(&name, "msg_c", over));
        desk.event("message.updated", json!({"sessionID": "ses_child", "info": info}));
        let mut part = text_part(&format!("prt_c{step}"), &name, "Below.", true);
        part["part"]["sessionID"] = json!("ses_child");
        part["sessionID"] = json!("ses_child");
        desk.event("message.part.updated", part);
    }
    let state = desk.state();
    let spoke =
        state.items.iter().filter(|item| item.text.as_deref() == Some("Below.") && item.parent.is_none());
    assert_eq!(spoke.count(), 0);
}

// === any input ===

#[test]
fn counts_of_any_size_do_not_panic() {
    let tokens = json!({"input": 1e300, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}});
    let mut desk = Desk::new();
    desk.prompt(ONE);
    desk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
    desk.status("busy");
    for name in ["msg_a", "msg_b"] {
        let over = json!({"finish": "stop", "time": {"created": 1.0, "completed": 2.0}, "tokens": tokens});
        desk.event("message.updated", json!({"info": answer_info(name, ONE, over)}));
    }
    desk.status("idle");
}

// === controls: the desk itself works ===

#[test]
fn control_two_plain_turns_complete() {
    let mut desk = Desk::new();
    desk.whole_turn(ONE, "msg_a", "prt_a");
    desk.whole_turn(TWO, "msg_b", "prt_b");
    assert_eq!(desk.outcomes(), [Some(Outcome::Completed), Some(Outcome::Completed)]);
    assert!(desk.state().turns.iter().all(|turn| turn.prompts.len() == 1));
    assert_eq!(desk.aborts(), 0);
}

#[test]
fn control_an_ask_that_the_server_lists_stays_open_and_an_aborted_turn_of_ours_has_its_asks_refused() {
    let mut desk = Desk::new();
    desk.prompt(ONE);
    desk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
    desk.begins(ONE, "msg_a", "prt_a");
    let mut ask =
        json!({"id": "per_1", "permission": "bash", "patterns": ["ls"], "metadata": {}, "always": []});
    desk.event("permission.asked", ask.clone());
    ask["sessionID"] = json!(SESSION);
    desk.standalone.connected(Some("cut".to_owned()), Time(desk.now));
    desk.drain();
    let messages = json!([{"info": answer_info("msg_a", ONE, json!({})), "parts": []}]);
    desk.answer(Answer::Snapshot(Ok(snapshot(
        json!({"busy": true, "messages": messages, "permissions": [ask]}),
    ))));
    assert_eq!(desk.state().approvals[0].outcome, None);
    desk.standalone.cancel(Time(desk.now));
    desk.drain();
    desk.status("idle");
    let aborted = json!({"name": "MessageAbortedError", "data": {"message": "Aborted"}});
    let over = json!({"error": aborted, "time": {"created": 1.0, "completed": 2.0}});
    desk.event("message.part.updated", text_part("prt_a", "msg_a", "", true));
    desk.event("message.updated", json!({"info": answer_info("msg_a", ONE, over)}));
    desk.status("idle");
    assert_eq!(desk.outcomes(), [Some(Outcome::Cancelled)]);
    assert!(desk.calls.iter().any(|call| matches!(call, Call::Refuse(_))));
}

#[test]
fn control_the_main_session_is_stopped_at_its_budget_of_steps() {
    let mut talk = Talk::with(Budget { steps: Some(10), ..Budget::default() });
    talk.prompt(ONE);
    talk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
    talk.status("busy");
    for step in 0..50 {
        let over = json!({"finish": "unknown", "time": {"created": 1.0, "completed": 2.0}});
        talk.event("message.updated", json!({"info": answer_info(&format!("msg_c{step}"), ONE, over)}));
    }
    assert!(talk.calls().contains(&Call::Abort));
    talk.pass(0);
}

#[test]
fn control_a_subagent_whose_call_is_known_speaks_below_it() {
    let mut desk = Desk::new();
    desk.prompt(ONE);
    desk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
    desk.begins(ONE, "msg_a", "prt_a");
    let state = json!({"status": "running", "input": {}, "metadata": {"sessionId": "ses_child"}});
    desk.event(
        "message.part.updated",
        json!({"part": {"id": "prt_t", "messageID": "msg_a", "sessionID": SESSION, "type": "tool",
            "tool": "task", "callID": "call_1", "state": state}}),
    );
    let info = child(answer_info("msg_c", "msg_x", json!({})));
    desk.event("message.updated", json!({"sessionID": "ses_child", "info": info}));
    let mut part = text_part("prt_c", "msg_c", "Below.", true);
    part["part"]["sessionID"] = json!("ses_child");
    part["sessionID"] = json!("ses_child");
    desk.event("message.part.updated", part);
    let state = desk.state();
    let below: Vec<bool> = state
        .items
        .iter()
        .filter(|item| item.text.as_deref() == Some("Below."))
        .map(|item| item.parent.is_some())
        .collect();
    assert_eq!(below, [true]);
}
