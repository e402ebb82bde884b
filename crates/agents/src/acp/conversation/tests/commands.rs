//! What the keeper asks for, step by step. The agent's lines are those of captures.

use super::super::SessionState;
use super::playback::{Desk, EPOCH, Playback};
use crate::desk::{Capture, End};
use serde_json::{Value, json};
use turnstream_adapter::Command;
use turnstream_model::event::ErrorClass::InvalidRequest;
use turnstream_model::event::StopReason::EndTurn;
use turnstream_model::event::{ApprovalOutcome, Body, NoticeCode};
use turnstream_testkit::lawful::Tail;

const DONE: End = End::Completed(EndTurn);
const CAPTURE: &str = "claude_multi_step";

/// The lines of a capture that the agent printed.
pub(super) fn outputs(name: &str) -> Vec<Value> {
    Capture::load::<Playback>(name).into_outputs()
}

/// The lines of a method that were written.
pub(super) fn requests(desk: &Desk, method: &str) -> Vec<Value> {
    desk.written.iter().filter(|line| line["method"] == method).cloned().collect()
}

/// A captured response, as the answer to a request of ours.
pub(super) fn answer(request: &Value, response: &Value) -> Value {
    let mut response = response.clone();
    response["id"] = request["id"].clone();
    response
}

/// A desk whose session is open, with the answers of a capture.
pub(super) fn opened(name: &str) -> Desk {
    let (outputs, mut desk) = (outputs(name), Desk::new());
    let first = requests(&desk, "initialize")[0].clone();
    desk.lines(&[answer(&first, &outputs[0])]);
    let second = requests(&desk, "session/new")[0].clone();
    desk.lines(&[answer(&second, &outputs[1])]);
    assert_eq!(*desk.conversation.session(), SessionState::Open);
    desk
}

/// The response that ended the first turn of a capture.
fn first_end(name: &str) -> Value {
    let is_end = |line: &Value| line["result"]["stopReason"].is_string();
    outputs(name).into_iter().find(is_end).unwrap()
}

fn notices(desk: &Desk) -> Vec<(NoticeCode, String)> {
    let notice = |body: &Body| match body {
        Body::Notice { code, message, .. } => Some((*code, message.clone())),
        _ => None,
    };
    desk.log.iter().filter_map(|event| notice(&event.draft.body)).collect()
}

#[test]
fn files_terminals_and_forms_are_offered_and_our_ids_are_texts() {
    let desk = opened(CAPTURE);
    let initialize = &requests(&desk, "initialize")[0];
    assert_eq!(initialize["params"]["protocolVersion"], 1);
    let offered = &initialize["params"]["clientCapabilities"];
    let fs = json!({"readTextFile": true, "writeTextFile": true});
    assert_eq!(*offered, json!({"fs": fs, "terminal": true, "elicitation": {"form": {}}}));
    assert!(desk.written.iter().all(|line| line["id"].is_string()));
    let session = desk.state().session;
    assert_eq!(session.native_id.as_deref(), outputs(CAPTURE)[1]["result"]["sessionId"].as_str());
    assert_eq!(session.mode.as_deref(), Some("default"));
}

#[test]
fn a_second_prompt_is_never_sent_while_one_is_open() {
    let mut desk = opened(CAPTURE);
    desk.say("p1", "One");
    desk.say("p2", "Two");
    let sent = requests(&desk, "session/prompt");
    assert_eq!(sent.len(), 1);
    desk.lines(&[answer(&sent[0], &first_end(CAPTURE))]);
    let sent = requests(&desk, "session/prompt");
    assert_eq!(sent.len(), 2);
    desk.lines(&[answer(&sent[1], &first_end(CAPTURE))]);
    assert_eq!(desk.ends(), [DONE, DONE]);
    desk.assert_lawful(Tail::Settled);
}

#[test]
fn a_block_that_the_agent_does_not_take_is_refused() {
    let mut desk = opened(CAPTURE);
    desk.prompt("p1", vec![json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"})]);
    assert_eq!(requests(&desk, "session/prompt").len(), 0);
    assert_eq!(desk.ends(), [End::Failed(InvalidRequest, None)]);
    let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
    let link = json!({"type": "resource_link", "uri": "file:///w/a.rs"});
    desk.prompt("p2", vec![image.clone(), link]);
    let sent = &requests(&desk, "session/prompt")[0]["params"]["prompt"];
    let link = json!({"type": "resource_link", "uri": "file:///w/a.rs", "name": "file:///w/a.rs"});
    assert_eq!(*sent, json!([image, link]));
}

#[test]
fn text_after_a_cancelled_response_is_a_late_revision() {
    for name in ["claude_cancel", "codex_cancel"] {
        let mut desk = opened(name);
        desk.say("p1", "Write");
        let chunks: Vec<Value> = outputs(name)
            .into_iter()
            .filter(|line| line["params"]["update"]["sessionUpdate"] == "agent_message_chunk")
            .collect();
        let texts: Vec<&str> =
            chunks.iter().map(|line| line["params"]["update"]["content"]["text"].as_str().unwrap()).collect();
        let at = texts.iter().position(|text| text.contains("part1")).unwrap();
        desk.lines(&chunks[..at]);
        desk.cancel();
        assert_eq!(requests(&desk, "session/cancel").len(), 1);
        let sent = requests(&desk, "session/prompt")[0].clone();
        desk.lines(&[answer(&sent, &first_end(name))]);
        assert_eq!(desk.ends(), [End::Cancelled], "{name}");
        desk.lines(&chunks[at..=at]);
        let item = desk.state().items.last().cloned().unwrap();
        assert_eq!(item.text.as_deref(), Some("part0 part1 "), "{name}");
        assert_eq!(desk.ends(), [End::Cancelled], "{name}");
        desk.assert_lawful(Tail::Settled);
    }
}

#[test]
fn open_requests_are_answered_when_the_turn_is_cancelled() {
    let mut desk = opened(CAPTURE);
    desk.say("p1", "Edit");
    let lines = outputs(CAPTURE);
    let asked = lines.iter().find(|line| line["method"] == "session/request_permission").unwrap();
    desk.lines(std::slice::from_ref(asked));
    desk.cancel();
    let answered = json!({"jsonrpc": "2.0", "id": 0, "result": {"outcome": {"outcome": "cancelled"}}});
    assert_eq!(desk.written.last(), Some(&answered));
    // A late answer is for nobody.
    let before = desk.written.len();
    desk.approve(&format!("{EPOCH}:request:0"), ApprovalOutcome::AllowOnce, None);
    assert_eq!(desk.written.len(), before);
}

#[test]
fn an_answer_is_the_option_of_its_kind_and_never_more_than_was_allowed() {
    for (outcome, expected) in [
        (ApprovalOutcome::AllowOnce, json!({"outcome": "selected", "optionId": "allow"})),
        (ApprovalOutcome::AllowAlways, json!({"outcome": "selected", "optionId": "allow_always"})),
        (ApprovalOutcome::Reject, json!({"outcome": "selected", "optionId": "reject"})),
        (ApprovalOutcome::Expired, json!({"outcome": "cancelled"})),
    ] {
        let mut desk = opened(CAPTURE);
        desk.say("p1", "Edit");
        let lines = outputs(CAPTURE);
        let asked = lines.iter().find(|line| line["method"] == "session/request_permission").unwrap();
        desk.lines(std::slice::from_ref(asked));
        desk.command(Command::Approve {
            key: format!("{EPOCH}:request:0").as_str().into(),
            outcome,
            option: None,
            message: None,
        });
        assert_eq!(desk.written.last().unwrap()["result"]["outcome"], expected, "{outcome:?}");
    }
    let mut desk = opened(CAPTURE);
    desk.say("p1", "Edit");
    let lines = outputs(CAPTURE);
    let mut asked = lines.iter().find(|line| line["method"] == "session/request_permission").unwrap().clone();
    asked["params"]["options"].as_array_mut().unwrap().retain(|option| option["kind"] != "allow_once");
    desk.lines(&[asked]);
    desk.approve(&format!("{EPOCH}:request:0"), ApprovalOutcome::AllowOnce, None);
    assert_eq!(desk.written.last().unwrap()["result"]["outcome"], json!({"outcome": "cancelled"}));
    assert_eq!(notices(&desk)[0].0, NoticeCode::Degraded);
}

#[test]
fn a_model_and_a_mode_are_set_by_the_config_options_of_the_agent() {
    let mut desk = opened(CAPTURE);
    let change = |model: &str, mode: &str| Command::Change {
        model: Some(model.to_owned()),
        mode: Some(mode.to_owned()),
        permissions: None,
    };
    desk.command(change("haiku", "plan"));
    let set = requests(&desk, "session/set_config_option");
    let asked: Vec<(&Value, &Value)> =
        set.iter().map(|line| (&line["params"]["configId"], &line["params"]["value"])).collect();
    assert_eq!(asked, [(&json!("model"), &json!("haiku")), (&json!("mode"), &json!("plan"))]);
    let refused = outputs("claude_error").into_iter().find(|line| line["error"].is_object()).unwrap();
    desk.lines(&[answer(&set[0], &refused)]);
    assert_eq!(notices(&desk)[0].0, NoticeCode::Degraded);
    let accepted = json!({"jsonrpc": "2.0", "id": set[1]["id"], "result": {}});
    desk.lines(&[accepted]);
    assert_eq!(desk.state().session.mode.as_deref(), Some("plan"));
}
