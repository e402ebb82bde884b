//! What the keeper asks for, step by step. The server's messages are those of captures.

use super::playback::{Desk, Playback, change, conversation};
use crate::desk::{Capture, Driver, End};
use serde_json::{Value, json};
use turnstream_adapter::Command;
use turnstream_model::event::ErrorClass::InvalidRequest;
use turnstream_model::event::StopReason::EndTurn;
use turnstream_model::event::{ApprovalOutcome, Body, NoticeCode};
use turnstream_model::fold::ItemStage;
use turnstream_model::time::Time;
use turnstream_testkit::lawful::Tail;

const DONE: End = End::Completed(EndTurn);
pub(super) const PROMPT: &str = "ses_1.p1";

/// A desk whose thread is open, and the messages of the capture that follow. We send a request more than its
/// driver did, for the list of models, before the first turn.
pub(super) fn opened(name: &str) -> (Desk, Vec<Value>) {
    let mut desk = Playback::desk();
    desk.conversation.open(None, Time(desk.now));
    desk.drain();
    let mut messages = Capture::load::<Playback>(name).into_outputs();
    let is_thread = |line: &Value| line["result"]["thread"].is_object();
    let first = messages.iter().position(is_thread).unwrap();
    let mut rest = messages.split_off(first + 1);
    desk.lines(&messages);
    for message in &mut rest {
        if message["method"].is_null() {
            message["id"] = Value::from(message["id"].as_u64().unwrap() + 1);
        }
    }
    (desk, rest)
}

pub(super) fn requests<'a>(desk: &'a Desk, method: &str) -> Vec<&'a Value> {
    desk.written.iter().filter(|line| line["method"] == method).collect()
}

/// Places of messages with this method.
pub(super) fn places(messages: &[Value], method: &str) -> Vec<usize> {
    (0..messages.len()).filter(|at| messages[*at]["method"] == method).collect()
}

fn notices(desk: &Desk) -> Vec<NoticeCode> {
    let notice = |body: &Body| match body {
        Body::Notice { code, .. } => Some(*code),
        _ => None,
    };
    desk.log.iter().filter_map(|event| notice(&event.draft.body)).collect()
}

#[test]
fn a_thread_is_started_after_the_greeting_and_our_ids_begin_at_zero() {
    let (desk, _) = opened("a_plain_text");
    let methods: Vec<&str> = desk.written.iter().map(|line| line["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["initialize", "initialized", "thread/start", "model/list"]);
    assert_eq!(
        requests(&desk, "thread/start")[0]["params"],
        json!({"cwd": "/workspace"}),
        "Codex decides the rest"
    );
    assert_eq!(desk.state().session.native_id.unwrap(), "01a1e0be-1350-76f0-b59d-88928de91c71");
}

#[test]
fn a_prompt_is_sent_under_its_own_name_in_the_input_of_codex() {
    let (mut desk, _) = opened("a_plain_text");
    let content = vec![
        json!({"type": "text", "text": "two\nlines"}),
        json!({"type": "image", "mimeType": "image/png", "data": "AA=="}),
        json!({"type": "resource_link", "uri": "file:///w/a.rs", "name": "a.rs"}),
        json!({"type": "resource", "resource": {"uri": "file:///w/b.txt", "text": "b"}}),
    ];
    desk.prompt(PROMPT, content);
    let text = |text: &str| json!({"type": "text", "text": text, "text_elements": []});
    let input = json!([
        text("two\nlines"),
        {"type": "image", "url": "data:image/png;base64,AA=="},
        text("[@a.rs](file:///w/a.rs)"),
        text("<resource uri=\"file:///w/b.txt\">\nb\n</resource>"),
    ]);
    let thread = "01a1e0be-1350-76f0-b59d-88928de91c71";
    let params = json!({"threadId": thread, "input": input, "clientUserMessageId": PROMPT});
    assert_eq!(*desk.written.last().unwrap(), json!({"id": 3, "method": "turn/start", "params": params}));
    for block in [
        json!({"type": "audio", "mimeType": "audio/wav", "data": "AA=="}),
        json!({"type": "image", "mimeType": "image/png", "uri": "file:///w/a.png"}),
    ] {
        assert!(crate::codex::prompt_content::check(&block).is_err(), "{block}");
        let (mut desk, _) = opened("a_plain_text");
        desk.prompt(PROMPT, vec![block]);
        assert_eq!(
            (desk.ends(), requests(&desk, "turn/start").len()),
            (vec![End::Failed(InvalidRequest, None)], 0)
        );
    }
}

#[test]
fn a_prompt_that_is_cancelled_before_its_turn_has_an_id_is_interrupted_then() {
    let (mut desk, messages) = opened("e_interrupt_mid_stream");
    desk.say(PROMPT, "Write a long text");
    desk.cancel_prompt(PROMPT);
    assert_eq!(requests(&desk, "turn/interrupt").len(), 0, "its turn has no id yet");
    let end = places(&messages, "turn/completed")[0];
    desk.lines(&messages[..=end]);
    let turn = &messages[end]["params"]["turn"]["id"];
    assert_eq!(requests(&desk, "turn/interrupt")[0]["params"]["turnId"], *turn);
    assert_eq!(desk.ends(), [End::Cancelled]);
    // A repeat for a turn that is over interrupts nothing.
    desk.cancel();
    assert_eq!(requests(&desk, "turn/interrupt").len(), 1);
    desk.assert_lawful(Tail::Live);
}

/// The server says "no active turn" of a turn that it has accepted and not begun (capture
/// e_interrupt_when_idle has its words).
#[test]
fn an_interrupt_that_came_too_early_is_repeated_when_the_turn_shows_itself() {
    let refusal = Capture::load::<Playback>("e_interrupt_when_idle").into_outputs();
    let mut refusal = refusal.into_iter().find(|line| line["error"].is_object()).unwrap();
    let (mut desk, messages) = opened("e_interrupt_mid_stream");
    desk.say(PROMPT, "Write a long text");
    let started = places(&messages, "turn/started")[0];
    desk.lines(&messages[..started]);
    desk.cancel();
    refusal["id"] = requests(&desk, "turn/interrupt")[0]["id"].clone();
    desk.lines(&[refusal]);
    assert_eq!(requests(&desk, "turn/interrupt").len(), 1, "nothing shows yet that it runs");
    desk.lines(&messages[started..=started]);
    assert_eq!(requests(&desk, "turn/interrupt").len(), 2);
}

#[test]
fn every_answer_to_a_permission_has_its_decision_and_is_given_once() {
    let rule = json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch", "made.txt"]}});
    for (outcome, option, decision) in [
        (ApprovalOutcome::AllowOnce, None, json!("accept")),
        (ApprovalOutcome::AllowAlways, None, json!("acceptForSession")),
        (ApprovalOutcome::AllowAlways, Some("rule-1"), rule),
        (ApprovalOutcome::Reject, None, json!("decline")),
        (ApprovalOutcome::Reject, Some("stop"), json!("cancel")),
        (ApprovalOutcome::Cancelled, None, json!("cancel")),
        (ApprovalOutcome::Expired, None, json!("decline")),
    ] {
        let (mut desk, messages) = opened("d_command_accept");
        desk.say(PROMPT, "Make it");
        let asked = places(&messages, "item/commandExecution/requestApproval")[0];
        desk.lines(&messages[..=asked]);
        let key = desk.conversation.key_of_ask(&messages[asked]["id"]).unwrap();
        for _ in 0..2 {
            desk.approve(key.as_str(), outcome, option);
        }
        let answers: Vec<&Value> = desk.written.iter().filter(|line| line["method"].is_null()).collect();
        assert_eq!(answers, [&json!({"id": 0, "result": {"decision": decision}})]);
        desk.assert_lawful(Tail::Live);
    }
}

#[test]
fn a_command_that_was_never_allowed_is_abandoned_with_its_turn() {
    let desk =
        Capture::load::<Playback>("d_pending_approval_interrupt").play::<Playback>(crate::desk::Fault::None);
    let item = &desk.state().items[0];
    assert_eq!((item.state, item.tool.is_some()), (ItemStage::Abandoned, true));
}

#[test]
fn a_request_that_is_not_known_is_refused_and_kept_raw() {
    let (mut desk, messages) = opened("d_command_accept");
    let asked = places(&messages, "item/commandExecution/requestApproval")[0];
    let mut unknown = messages[asked].clone();
    unknown["method"] = json!("item/tool/call");
    for id in [7, 8] {
        unknown["id"] = json!(id);
        desk.lines(&[unknown.clone()]);
        let answer = desk.written.last().unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32601)), "{answer}");
    }
    desk.exit();
    let counted = json!({"request item/tool/call": 1});
    assert_eq!(kept(&desk), [unknown["params"].clone(), counted]);
}

/// What was kept of messages that are not known.
fn kept(desk: &Desk) -> Vec<Value> {
    let details = desk.log.iter().filter_map(|event| match &event.draft.body {
        Body::Notice { code: NoticeCode::UnknownEvent, detail, .. } => detail.clone(),
        _ => None,
    });
    details.collect()
}

#[test]
fn an_item_that_is_not_known_is_reported_once_and_only_if_it_is_of_our_thread() {
    let (mut desk, messages) = opened("a_plain_text");
    desk.say(PROMPT, "Hello");
    let (begun, end) = (places(&messages, "item/completed")[0], places(&messages, "turn/completed")[0]);
    desk.lines(&messages[..end]);
    let mut item = messages[begun].clone();
    item["params"]["item"]["type"] = json!("novelty");
    let mut foreign = item.clone();
    foreign["params"]["threadId"] = json!("another");
    for mut message in [foreign, item.clone()] {
        for method in ["item/started", "item/completed"] {
            message["method"] = json!(method);
            desk.lines(&[message.clone()]);
        }
    }
    desk.lines(&messages[end..]);
    assert_eq!(kept(&desk), [item["params"].clone()]);
}

/// Redaction sees one event at a time.
#[test]
fn a_secret_in_pieces_of_an_unknown_stream_does_not_reach_the_log() {
    let (mut desk, messages) = opened("a_plain_text");
    desk.say(PROMPT, "Hello");
    let end = places(&messages, "turn/completed")[0];
    desk.lines(&messages[..end]);
    let pieces = ["AKIAIOSF", "ODNN7EXA"];
    for text in pieces {
        for method in ["item/novel/delta", "item/novel/textDelta", "item/novel/grown"] {
            desk.lines(&[json!({"method": method, "params": {"delta": text, "index": 3}})]);
        }
    }
    desk.lines(&messages[end..]);
    let form = json!({"delta": {"bytes": 8}, "index": 3});
    let counted = json!({"item/novel/delta": 1, "item/novel/grown": 1, "item/novel/textDelta": 1});
    let first = json!({"delta": pieces[0], "index": 3});
    assert_eq!(kept(&desk), [form.clone(), form, first, counted]);
    assert!(!format!("{:?}", desk.log).contains(pieces[1]), "the second piece is in the log");
}

/// `codex app-server generate-json-schema` of the pinned version lists the methods.
#[test]
fn every_method_of_the_schema_is_handled_or_left_out_on_purpose() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/codex/methods.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let methods = |kind: &str| -> Vec<String> {
        schema[kind].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    let is_unknown = |method: &str, id: Value| {
        let (mut desk, _) = opened("a_plain_text");
        let mut message = json!({"method": method, "params": {}});
        if !id.is_null() {
            message["id"] = id;
        }
        desk.lines(&[message]);
        notices(&desk).contains(&NoticeCode::UnknownEvent)
    };
    let unknown: Vec<String> =
        methods("notifications").into_iter().filter(|method| is_unknown(method, Value::Null)).collect();
    assert_eq!(unknown, [""; 0]);
    // Refused with a notice: older forms of approvals, and what is asked only of clients that offer it.
    let refused: Vec<String> =
        methods("requests").into_iter().filter(|method| is_unknown(method, json!(7))).collect();
    let offered = ["account/chatgptAuthTokens/refresh", "applyPatchApproval", "attestation/generate"];
    assert_eq!(refused, [&offered[..], &["execCommandApproval", "item/tool/call"]].concat());
}

#[test]
fn a_changed_model_and_mode_are_sent_with_the_next_turn_and_not_again() {
    let (mut desk, messages) = opened("h_two_turns");
    desk.command(change(Some("gpt-5.1-codex"), Some("auto")));
    desk.command(change(None, Some("yolo")));
    assert_eq!(notices(&desk), [NoticeCode::Degraded], "there is no such mode");
    desk.say(PROMPT, "One");
    let params = &requests(&desk, "turn/start")[0]["params"];
    assert_eq!(
        (&params["model"], &params["approvalPolicy"]),
        (&json!("gpt-5.1-codex"), &json!("on-request"))
    );
    assert_eq!(params["sandboxPolicy"]["type"], "workspaceWrite");
    assert_eq!(params["collaborationMode"]["mode"], "default");
    let end = places(&messages, "turn/completed")[0];
    desk.lines(&messages[..=end]);
    desk.say("ses_1.p2", "Two");
    let params = &requests(&desk, "turn/start")[1]["params"];
    assert!(params["model"].is_null() && params["sandboxPolicy"].is_null(), "{params}");
    assert_eq!(desk.ends(), [DONE]);
    let session = desk.state().session;
    assert_eq!(
        (session.model.unwrap(), session.mode.unwrap()),
        ("gpt-5.1-codex".to_owned(), "auto".to_owned())
    );
}

#[test]
fn a_cancel_without_a_turn_asks_for_nothing() {
    let mut desk = Desk::with("codex", conversation);
    desk.command(Command::Cancel);
    assert_eq!(desk.written, [] as [Value; 0]);
}
