//! Messages that do not have the form of ACP, and requests that cross a cancel. They are those of captures,
//! changed.

use super::commands::{answer, opened, outputs, requests};
use super::playback::Desk;
use crate::desk::End;
use serde_json::{Value, json};
use turnstream_model::event::ErrorClass::AgentError;
use turnstream_model::event::StopReason::EndTurn;
use turnstream_model::event::{Body, NoticeCode, Role};
use turnstream_model::fold::{Item, ItemStage};
use turnstream_testkit::lawful::Tail;

const CAPTURE: &str = "claude_multi_step";

/// A desk with an open prompt, and the line of a text chunk.
fn prompted() -> (Desk, Value) {
    let mut desk = opened(CAPTURE);
    desk.say("p1", "Write");
    let is_text = |line: &Value| {
        let update = &line["params"]["update"];
        update["sessionUpdate"] == "agent_message_chunk" && update["content"]["text"] != ""
    };
    (desk, outputs(CAPTURE).into_iter().find(is_text).unwrap())
}

fn said(chunk: &Value, text: &str) -> Value {
    let mut chunk = chunk.clone();
    chunk["params"]["update"]["content"]["text"] = json!(text);
    chunk
}

fn messages(desk: &Desk) -> Vec<Item> {
    desk.state().items.into_iter().filter(|item| item.role == Some(Role::Assistant)).collect()
}

fn gaps(desk: &Desk) -> usize {
    let is_gap = |body: &Body| matches!(body, Body::Notice { code: NoticeCode::Gap, .. });
    desk.log.iter().filter(|event| is_gap(&event.draft.body)).count()
}

#[test]
fn a_response_of_another_form_ends_its_turn() {
    let failed = End::Failed(AgentError, None);
    for (members, end) in [
        (json!({"error": {"code": -32603, "message": null}}), failed),
        (json!({"error": {"code": "E_FAIL", "message": "it broke"}}), failed),
        (json!({"error": "it broke"}), failed),
        (json!({"method": null, "result": {"stopReason": "end_turn"}}), End::Completed(EndTurn)),
        (json!({"method": "session/prompt", "result": {"stopReason": "end_turn"}}), End::Completed(EndTurn)),
    ] {
        let (mut desk, chunk) = prompted();
        desk.lines(&[chunk, answer(&requests(&desk, "session/prompt")[0], &members)]);
        assert_eq!(desk.ends(), [end], "{members}");
        assert_eq!(messages(&desk)[0].state, ItemStage::Completed, "{members}");
        if let Some(error) = desk.state().turns[0].error.clone() {
            let raw = &members["error"];
            let told = raw["message"].as_str().unwrap_or("null");
            let whole = raw.to_string();
            assert!(error.message.contains(told) || error.message == whole, "{error:?}");
        }
        assert_eq!(gaps(&desk), 0, "{members}");
        desk.assert_lawful(Tail::Settled);
    }
}

#[test]
fn an_extension_of_any_form_harms_no_text() {
    let (mut desk, chunk) = prompted();
    desk.lines(&[said(&chunk, "one, ")]);
    for params in [json!([1, 2]), json!({"update": "text"}), json!({"sessionId": 5, "update": []}), json!(7)]
    {
        desk.lines(&[json!({"jsonrpc": "2.0", "method": "_vendor/state", "params": params})]);
        desk.lines(&[json!({"jsonrpc": "2.0", "id": 5, "method": "_vendor/ask", "params": params})]);
        let refused = desk.written.last().unwrap();
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(5), &json!(-32601)));
    }
    desk.lines(&[said(&chunk, "two")]);
    assert_eq!(messages(&desk)[0].text.as_deref(), Some("one, two"));
    assert_eq!(gaps(&desk), 0);
}

#[test]
fn the_id_of_a_message_may_have_any_type() {
    let (mut desk, chunk) = prompted();
    for (id, text) in [(json!(12), "a"), (json!(12), "b"), (json!("12x"), "c"), (json!({"n": 1}), "d")] {
        let mut line = said(&chunk, text);
        line["params"]["update"]["messageId"] = id;
        desk.lines(&[line]);
    }
    let texts: Vec<String> = messages(&desk).into_iter().filter_map(|item| item.text).collect();
    assert_eq!(texts, ["ab", "c", "d"]);
    assert_eq!(gaps(&desk), 0);
}

#[test]
fn requests_that_cross_a_cancel_are_answered_at_once() {
    let find = |name: &str, method: &str| {
        let mut line = outputs(name).into_iter().find(|line| line["method"] == method).unwrap();
        line["id"] = json!(method);
        line
    };
    let permission = find(CAPTURE, "session/request_permission");
    let form = find("claude-agent-acp_0.99.1_question", "elicitation/create");
    for (request, answered) in
        [(permission, json!({"outcome": {"outcome": "cancelled"}})), (form, json!({"action": "cancel"}))]
    {
        let (mut desk, _) = prompted();
        desk.cancel();
        desk.lines(std::slice::from_ref(&request));
        let expected = json!({"jsonrpc": "2.0", "id": request["id"], "result": answered});
        assert_eq!(desk.written.last(), Some(&expected));
        let state = desk.state();
        assert!(state.approvals.is_empty() && state.questions.is_empty(), "nobody is asked");
    }
}

/// An agent that waits for an answer would wait for ever.
#[test]
fn a_request_that_is_open_when_its_turn_ends_is_answered() {
    let (mut desk, _) = prompted();
    let lines = outputs(CAPTURE);
    let asked = lines.iter().find(|line| line["method"] == "session/request_permission").unwrap();
    desk.lines(std::slice::from_ref(asked));
    let ended = json!({"result": {"stopReason": "end_turn"}});
    desk.lines(&[answer(&requests(&desk, "session/prompt")[0], &ended)]);
    let answered =
        json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"outcome": {"outcome": "cancelled"}}});
    assert_eq!(desk.written.last(), Some(&answered));
}

/// The raw forms of what was not known.
fn kept(desk: &Desk) -> Vec<Option<Value>> {
    let unknown = |body: &Body| match body {
        Body::Notice { code: NoticeCode::UnknownEvent, detail, .. } => Some(detail.clone()),
        _ => None,
    };
    desk.log.iter().filter_map(|event| unknown(&event.draft.body)).collect()
}

/// An update of another kind than ACP has.
fn strange(chunk: &Value, kind: &str, members: Value) -> Value {
    let mut line = chunk.clone();
    line["params"]["update"] = members;
    line["params"]["update"]["sessionUpdate"] = json!(kind);
    line
}

fn end_turn(desk: &mut Desk, stop: &Value) {
    let prompt = requests(desk, "session/prompt").pop().unwrap();
    desk.lines(&[answer(&prompt, &json!({"result": stop}))]);
}

#[test]
fn the_first_unknown_message_of_a_kind_is_kept_raw_in_each_turn_and_others_are_counted() {
    let (mut desk, chunk) = prompted();
    let update = |n: u32| strange(&chunk, "brand_new", json!({"n": n}));
    let raw = |n: u32| Some(update(n)["params"]["update"].clone());
    desk.lines(&[update(1), update(2), update(3)]);
    assert_eq!(kept(&desk), [raw(1)]);
    end_turn(&mut desk, &json!({"stopReason": "end_turn"}));
    let counted = Some(json!({"session/update brand_new": 2}));
    assert_eq!(kept(&desk), [raw(1), counted.clone()]);
    desk.say("p2", "More");
    desk.lines(&[update(4)]);
    end_turn(&mut desk, &json!({"stopReason": "end_turn"}));
    assert_eq!(kept(&desk), [raw(1), counted, raw(4)]);
    desk.assert_lawful(Tail::Live);
}

#[test]
fn unknown_messages_and_an_unknown_stop_reason_share_the_bound_of_the_turn() {
    let (mut desk, chunk) = prompted();
    let long = "x".repeat(70_000);
    desk.lines(&["first_new", "second_new"].map(|kind| strange(&chunk, kind, json!({"n": long}))));
    assert_eq!(kept(&desk), [None], "one notice says that the rest is missing");
    end_turn(&mut desk, &json!({"stopReason": "brand_new", "more": long}));
    assert_eq!(kept(&desk), [None, None, None], "the reason and the count have no content");
    assert_eq!(desk.ends(), [End::Completed(EndTurn)]);
    desk.say("p2", "More");
    let stop = json!({"stopReason": "brand_new", "more": 1});
    end_turn(&mut desk, &stop);
    assert_eq!(kept(&desk).last(), Some(&Some(stop)));
}

/// Redaction sees one event at a time.
#[test]
fn a_secret_in_pieces_of_an_unknown_stream_does_not_reach_the_log() {
    let (mut desk, chunk) = prompted();
    let pieces = ["AKIAIOSF", "ODNN7EXA"];
    for (text, kind) in pieces.iter().flat_map(|text| [(text, "agent_audio_chunk"), (text, "agent_note")]) {
        let content = json!({"content": {"type": "text", "text": text}});
        desk.lines(&[strange(&chunk, kind, content)]);
        desk.lines(&[strange(&chunk, &format!("{kind}_delta"), json!({"n": 5, "piece": [text]}))]);
    }
    end_turn(&mut desk, &json!({"stopReason": "end_turn"}));
    let log = format!("{:?}", desk.log);
    assert!(!log.contains(pieces[1]), "the second piece is in the log");
    assert!(log.contains("agent_audio_chunk"));
    let form = json!({"n": 5, "piece": [{"bytes": 8}], "sessionUpdate": {"bytes": 23}});
    assert_eq!(kept(&desk)[1], Some(form));
}
