//! Messages of opencode are in order by their ids, also where a message enters a turn in the middle.

use super::opencode::encode;
use super::opencode_captures::conversation;
use super::{claude_logs, log, state_at};
use serde_json::Value;
use std::collections::BTreeMap;
use turnstream_dialects::Dialect;
use turnstream_dialects::opencode::{Named, Opencode, messages};
use turnstream_model::event::Event;
use turnstream_model::fold::State;
use turnstream_model::time::Time;

/// The messages that a client has in the end. The history has the same ones with the same parents.
fn told(log: &[Event]) -> Vec<String> {
    let events = encode(Opencode::resume(&State::default()), log).concat();
    let mut live = BTreeMap::new();
    for event in &events {
        let properties = &event["properties"];
        match event["type"].as_str().unwrap() {
            "message.updated" => {
                let info = &properties["info"];
                live.insert(info["id"].to_string(), info["parentID"].clone());
            }
            "message.removed" => drop(live.remove(&properties["messageID"].to_string())),
            _ => {}
        }
    }
    let history = messages(&state_at(log), &Named::Session).into_iter().map(|message| message.info);
    let history: BTreeMap<String, Value> =
        history.map(|info| (info["id"].to_string(), info["parentID"].clone())).collect();
    assert_eq!(history, live);
    conversation(&events, events[0]["properties"]["sessionID"].as_str().unwrap())
}

/// A log whose events are a millisecond apart.
fn timed(lines: &[&str]) -> Vec<Event> {
    let at = |event: Event| Event { time: Time(event.seq.0), ..event };
    log(lines).into_iter().map(at).collect()
}

#[test]
fn a_prompt_that_the_open_turn_takes_comes_after_earlier_answers_and_before_its_own() {
    let (_, log) = claude_logs().into_iter().find(|(name, _)| name == "i_prompt_while_tool_running").unwrap();
    let want = [
        r#"user "First prompt""#,
        r#"assistant "Running a command." after "First prompt""#,
        r#"user "Second prompt, while the tool runs""#,
        r#"assistant "Done sleeping." after "Second prompt, while the tool runs""#,
    ];
    assert_eq!(told(&log), want);
}

#[test]
fn a_prompt_that_waits_for_the_next_turn_comes_after_all_answers_of_this_one() {
    let log = timed(&[
        r#"{"type":"session.created","session":"ses_1","agent":"demo","cwd":"/srv"}"#,
        r#"{"type":"prompt.accepted","prompt":"p1","content":[{"type":"text","text":"one"}]}"#,
        r#"{"type":"turn.started","turn":"t1","origin":"prompt","prompts":["p1"]}"#,
        r#"{"type":"prompt.taken","turn":"t1","prompt":"p1"}"#,
        r#"{"type":"attempt.started","turn":"t1","attempt":"a1","step":1}"#,
        r#"{"type":"prompt.accepted","prompt":"p2","content":[{"type":"text","text":"two"}]}"#,
        r#"{"type":"attempt.started","turn":"t1","attempt":"a2","step":2}"#,
        r#"{"type":"turn.ended","turn":"t1","outcome":"completed","stop_reason":"end_turn"}"#,
        r#"{"type":"turn.started","turn":"t2","origin":"prompt","prompts":["p2"]}"#,
        r#"{"type":"prompt.taken","turn":"t2","prompt":"p2"}"#,
        r#"{"type":"attempt.started","turn":"t2","attempt":"a3","step":1}"#,
    ]);
    let want = [
        r#"user "one""#,
        r#"assistant "" after "one""#,
        r#"assistant "" after "one""#,
        r#"user "two""#,
        r#"assistant "" after "two""#,
    ];
    assert_eq!(told(&log), want);
}

#[test]
fn a_message_of_the_user_that_is_taken_back_leaves_its_answer_where_it_was() {
    let log = timed(&[
        r#"{"type":"session.created","session":"ses_1","agent":"demo","cwd":"/srv"}"#,
        r#"{"type":"turn.started","turn":"t1","origin":"agent","prompts":[]}"#,
        r#"{"type":"attempt.started","turn":"t1","attempt":"a1","step":1}"#,
        r#"{"type":"item.started","turn":"t1","item":"i1","kind":"message","role":"user","text":"one"}"#,
        r#"{"type":"item.ended","turn":"t1","item":"i1","state":"completed"}"#,
        r#"{"type":"attempt.started","turn":"t1","attempt":"a2","step":2}"#,
        r#"{"type":"item.removed","turn":"t1","item":"i1"}"#,
        r#"{"type":"attempt.started","turn":"t1","attempt":"a3","step":3}"#,
        r#"{"type":"turn.ended","turn":"t1","outcome":"completed","stop_reason":"end_turn"}"#,
    ]);
    let whole = [r#"assistant "" after """#, r#"user "one""#, r#"assistant "" after "one""#];
    assert_eq!(told(&log[..6]), whole);
    let without = [r#"assistant "" after """#, r#"assistant "" after "one""#, r#"assistant "" after """#];
    assert_eq!(told(&log), without);
}
