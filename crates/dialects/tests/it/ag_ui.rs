//! AG-UI: over signal sequences that nobody thought of, the client refuses nothing and shows the fold.

use super::ag_ui_client::Thread;
use super::laws::{acts, play};
use super::{log, state_at};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use turnstream_dialects::ag_ui::{AgUi, interrupts};
use turnstream_dialects::{Dialect, FrameSink};
use turnstream_model::event::{Body, Event, Kind, Line};
use turnstream_model::fold::State;

#[derive(Default)]
struct Written(Vec<Value>);

impl FrameSink for Written {
    fn frame(&mut self, name: Option<&str>, json: &[u8]) {
        let event: Value = serde_json::from_slice(json).unwrap();
        assert_eq!(event["type"].as_str(), name);
        self.0.push(event);
    }
}

fn encode(dialect: &mut AgUi, log: &[Event], out: &mut Written) {
    for event in log {
        let json = event.to_json();
        let kind = Kind::of_line(json.as_bytes());
        dialect.encode(&Line::new(event.seq, &kind, json.as_bytes()), out).unwrap();
    }
}

fn events(lines: &[&str]) -> Vec<Value> {
    let mut out = Written::default();
    encode(&mut AgUi::default(), &log(lines), &mut out);
    out.0
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

/// Items that changed after the end of their turn.
fn late(log: &[Event]) -> BTreeSet<String> {
    let is_late = |event: &&Event| matches!(event.draft.body, Body::ItemRevised { .. } | Body::ItemRemoved);
    log.iter().filter(is_late).filter_map(|event| Some(event.draft.item.as_ref()?.to_string())).collect()
}

proptest! {
    #[test]
    fn a_client_that_comes_later_refuses_nothing_and_sees_the_same(acts in acts(), cut in any::<proptest::sample::Index>()) {
        let session = play(&acts);
        let mut stayed = Written::default();
        encode(&mut AgUi::resume(&State::default()), &session.log, &mut stayed);
        let late = late(&session.log);
        let stayed = Thread::of(&stayed.0).for_comparison(&late);

        let (before, after) = session.log.split_at(cut.index(session.log.len()));
        let mut came = Written::default();
        let mut dialect = AgUi::replay(&state_at(before), &mut came);
        encode(&mut dialect, after, &mut came);
        prop_assert_eq!(Thread::of(&came.0).for_comparison(&late), stayed);
    }

    #[test]
    fn a_replay_ends_its_run_unless_a_turn_goes_on(acts in acts(), cut in any::<proptest::sample::Index>()) {
        let session = play(&acts);
        let state = state_at(&session.log[..cut.index(session.log.len())]);
        let mut replay = Written::default();
        AgUi::replay(&state, &mut replay);
        let goes_on = state.open_turn().is_some() && interrupts(&state).is_empty();
        prop_assert_eq!(has_open_run(&replay.0), goes_on);
    }

    #[test]
    fn a_client_that_comes_back_gets_the_same_frames(acts in acts(), cut in any::<proptest::sample::Index>()) {
        let session = play(&acts);
        let cut = cut.index(session.log.len());
        let (mut live, mut skipped, mut want) = (AgUi::default(), Written::default(), Written::default());
        encode(&mut live, &session.log[..cut], &mut skipped);
        encode(&mut live, &session.log[cut..], &mut want);
        let mut back = Written::default();
        encode(&mut AgUi::resume(&state_at(&session.log[..cut])), &session.log[cut..], &mut back);
        prop_assert_eq!(back.0, want.0);
    }
}

/// Whether a run is open after these events. Each has one end.
fn has_open_run(events: &[Value]) -> bool {
    events.iter().fold(false, |is_open, event| match event["type"].as_str().unwrap() {
        "RUN_STARTED" => {
            assert!(!is_open, "a run inside of a run: {event}");
            true
        }
        "RUN_FINISHED" | "RUN_ERROR" => {
            assert!(is_open, "an end without a run: {event}");
            false
        }
        _ => is_open,
    })
}

const BEGIN: [&str; 4] = [
    r#"{"type":"session.created","session":"ses_1","agent":"demo","cwd":"/w","key":"thread-1"}"#,
    r#"{"type":"prompt.accepted","prompt":"p1","key":"run-1","content":[{"type":"text","text":"Go"}]}"#,
    r#"{"type":"turn.started","turn":"t1","origin":"prompt","prompts":["p1"]}"#,
    r#"{"type":"prompt.taken","prompt":"p1","turn":"t1"}"#,
];

fn after(more: &[&str]) -> Vec<Value> {
    events(&[&BEGIN[..], more].concat())
}

#[test]
fn a_turn_is_a_run_with_the_clients_ids() {
    let events = after(&[
        r#"{"type":"item.started","turn":"t1","item":"i1","kind":"message","role":"assistant","text":""}"#,
        r#"{"type":"item.delta","turn":"t1","item":"i1","text":"Hel"}"#,
        r#"{"type":"item.delta","turn":"t1","item":"i1","text":"lo"}"#,
        r#"{"type":"item.ended","turn":"t1","item":"i1","state":"completed"}"#,
        r#"{"type":"turn.ended","turn":"t1","outcome":"completed","stop_reason":"end_turn","usage":{"input":10,"output":3}}"#,
    ]);
    assert_eq!(
        events,
        [
            json!({"type": "RUN_STARTED", "threadId": "thread-1", "runId": "run-1", "protocolVersion": "1.0"}),
            json!({"type": "TEXT_MESSAGE_START", "messageId": "p1", "role": "user"}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "p1", "delta": "Go"}),
            json!({"type": "TEXT_MESSAGE_END", "messageId": "p1"}),
            json!({"type": "TEXT_MESSAGE_START", "messageId": "i1", "role": "assistant"}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "i1", "delta": "Hel"}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "i1", "delta": "lo"}),
            json!({"type": "TEXT_MESSAGE_END", "messageId": "i1"}),
            json!({
                "type": "RUN_FINISHED", "threadId": "thread-1", "runId": "run-1",
                "outcome": {"type": "success"}, "metadata": {"turnstream": {"stop_reason": "end_turn"}},
                "usage": [{"inputTokens": 10, "outputTokens": 3}],
            }),
        ]
    );
}

#[test]
fn an_approval_ends_the_run_and_its_answer_begins_another() {
    let events = after(&[
        r#"{"type":"item.started","turn":"t1","item":"i1","kind":"tool","tool":{"name":"bash","status":"pending","input":{"command":"ls"}}}"#,
        r#"{"type":"approval.requested","turn":"t1","approval":"q1","item":"i1","tool":{"title":"ls"},"options":[{"id":"o","kind":"allow_once","name":"Allow"},{"id":"n","kind":"reject_once","name":"No"}]}"#,
        r#"{"type":"approval.resolved","turn":"t1","approval":"q1","outcome":"allow_once","by":"client"}"#,
        r#"{"type":"item.updated","turn":"t1","item":"i1","tool":{"status":"in_progress"}}"#,
        r#"{"type":"item.updated","turn":"t1","item":"i1","tool":{"output":"a.txt"}}"#,
        r#"{"type":"item.ended","turn":"t1","item":"i1","state":"completed"}"#,
        r#"{"type":"turn.ended","turn":"t1","outcome":"completed"}"#,
    ]);
    assert_eq!(
        types(&events)[4..],
        [
            "TOOL_CALL_START",
            "TOOL_CALL_ARGS",
            "TOOL_CALL_END",
            "RUN_FINISHED",
            "RUN_STARTED",
            "TOOL_CALL_RESULT",
            "RUN_FINISHED"
        ]
    );
    let interrupt = &events[7]["outcome"]["interrupts"][0];
    assert_eq!(interrupt["id"], "q1");
    assert_eq!(interrupt["toolCallId"], "i1");
    assert_eq!(interrupt["responseSchema"]["properties"]["outcome"]["enum"], json!(["allow_once", "reject"]));
    assert_eq!(events[5]["delta"], r#"{"command":"ls"}"#);
    assert_eq!(events[8]["runId"], "t1.1");
    assert_eq!(events[9]["content"], "a.txt");
}

#[test]
fn a_superseded_attempt_is_taken_back_by_a_list_of_all_turns() {
    let events = after(&[
        r#"{"type":"item.started","turn":"t1","item":"i1","kind":"message","role":"assistant","text":"Yes"}"#,
        r#"{"type":"item.ended","turn":"t1","item":"i1","state":"completed"}"#,
        r#"{"type":"turn.ended","turn":"t1","outcome":"completed"}"#,
        r#"{"type":"item.started","item":"i2","kind":"message","role":"assistant","text":"By the way"}"#,
        r#"{"type":"item.ended","item":"i2","state":"completed"}"#,
        r#"{"type":"turn.started","turn":"t2","origin":"agent","prompts":[]}"#,
        r#"{"type":"attempt.started","turn":"t2","attempt":"a1","step":1}"#,
        r#"{"type":"item.started","turn":"t2","attempt":"a1","item":"i3","kind":"message","role":"assistant","text":"Ha"}"#,
        r#"{"type":"attempt.started","turn":"t2","attempt":"a2","step":1}"#,
        r#"{"type":"attempt.superseded","turn":"t2","attempt":"a1","by":"a2","items":["i3"]}"#,
        r#"{"type":"item.started","turn":"t2","attempt":"a2","item":"i4","kind":"message","role":"assistant","text":"Hello"}"#,
    ]);
    let list = events.iter().find(|event| event["type"] == "MESSAGES_SNAPSHOT").unwrap();
    let want = json!([
        {"id": "p1", "role": "user", "content": "Go"},
        {"id": "i1", "role": "assistant", "content": "Yes"},
        {"id": "i2", "role": "assistant", "content": "By the way"},
    ]);
    assert_eq!(list["messages"], want);
    assert_eq!(list["metadata"]["turnstream"], json!({"earlier": 3}));
}

#[test]
fn work_between_turns_is_a_run_of_its_own() {
    let events = events(&[
        BEGIN[0],
        r#"{"type":"item.started","item":"i1","kind":"message","role":"assistant","text":"By "}"#,
        r#"{"type":"item.delta","item":"i1","text":"the way"}"#,
        r#"{"type":"item.ended","item":"i1","state":"completed"}"#,
    ]);
    let kinds =
        ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"];
    assert_eq!(types(&events), kinds);
    assert_eq!(events[2]["delta"], "By the way");
}

#[test]
fn a_lost_turn_is_an_error_and_a_cancelled_one_is_not() {
    let lost = after(&[r#"{"type":"turn.ended","turn":"t1","outcome":"lost"}"#]);
    assert_eq!(lost.last().unwrap()["type"], "RUN_ERROR");
    assert_eq!(lost.last().unwrap()["code"], "lost");
    let cancelled = after(&[r#"{"type":"turn.ended","turn":"t1","outcome":"cancelled"}"#]);
    assert_eq!(cancelled.last().unwrap()["outcome"], json!({"type": "cancelled"}));
}

#[test]
fn a_replay_of_work_without_a_turn_ends_its_run() {
    let log = log(&[
        BEGIN[0],
        r#"{"type":"item.started","item":"i1","kind":"message","role":"assistant","text":"By the way"}"#,
        r#"{"type":"item.ended","item":"i1","state":"completed"}"#,
    ]);
    let mut replay = Written::default();
    AgUi::replay(&state_at(&log), &mut replay);
    assert_eq!(types(&replay.0), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
}

#[test]
fn work_that_began_in_a_turn_that_is_passed_over_is_shown_when_it_ends() {
    let log = log(&[
        BEGIN[0],
        r#"{"type":"turn.started","turn":"t1","origin":"agent","prompts":[]}"#,
        r#"{"type":"item.started","item":"i1","kind":"message","role":"assistant","text":"By "}"#,
        r#"{"type":"turn.ended","turn":"t1","outcome":"completed"}"#,
        r#"{"type":"item.delta","item":"i1","text":"the way"}"#,
        r#"{"type":"turn.started","turn":"t2","origin":"agent","prompts":[]}"#,
        r#"{"type":"item.ended","item":"i1","state":"completed"}"#,
    ]);
    let (passed, shown) = log.split_at(5);
    let mut encoder = AgUi::continue_after(&State::default());
    passed.iter().for_each(|event| encoder.pass_over(event));
    let mut out = Written::default();
    encode(&mut encoder, shown, &mut out);
    assert_eq!(
        types(&out.0),
        ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
    );
    assert_eq!(out.0[2]["delta"], "By the way");
}

#[test]
fn work_between_turns_is_dropped_with_the_turns_that_no_list_has() {
    let long = "x".repeat(7 << 20);
    let long =
        format!(r#"{{"type":"item.started","turn":"t2","item":"i3","kind":"message","text":"{long}"}}"#);
    let log = log(&[
        BEGIN[0],
        r#"{"type":"turn.started","turn":"t1","origin":"agent","prompts":[]}"#,
        r#"{"type":"turn.ended","turn":"t1","outcome":"completed"}"#,
        r#"{"type":"item.started","item":"i1","kind":"message","role":"assistant","text":"Done"}"#,
        r#"{"type":"item.ended","item":"i1","state":"completed"}"#,
        r#"{"type":"item.started","item":"i2","kind":"message","role":"assistant","text":"Goes on"}"#,
        r#"{"type":"turn.started","turn":"t2","origin":"agent","prompts":[]}"#,
        &long,
        r#"{"type":"turn.ended","turn":"t2","outcome":"completed"}"#,
    ]);
    let mut encoder = AgUi::default();
    encode(&mut encoder, &log, &mut Written::default());
    let kept: Vec<&str> = encoder.state().items.iter().map(|item| item.id.as_str()).collect();
    assert_eq!(kept, ["i2", "i3"]);
}
