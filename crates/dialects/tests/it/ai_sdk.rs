//! The AI SDK's chunks and messages: what each version gets, and what a client gets that has a part already.

use super::ai_sdk_client::visible;
use super::{captured_logs, claude_logs, log, state_at};
use serde_json::{Value, json};
use turnstream_dialects::FrameSink;
use turnstream_dialects::ai_sdk::{Encoder, Held, Profile, UiMessage, messages};
use turnstream_model::event::Event;
use turnstream_model::fold::{Fold, State};

const PROFILES: [Profile; 4] = [Profile::Safe, Profile::V5, Profile::V6, Profile::V7];

#[derive(Default)]
struct Chunks(Vec<Value>);

impl FrameSink for Chunks {
    fn frame(&mut self, _: Option<&str>, json: &[u8]) {
        self.0.push(serde_json::from_slice(json).unwrap());
    }
}

impl Chunks {
    fn of(log: &[Event], profile: Profile) -> Self {
        let (mut encoder, mut chunks) = (Encoder::resume(&State::default(), profile), Self::default());
        for event in log {
            encoder.encode(event, &mut chunks);
        }
        chunks
    }

    fn kinds(&self) -> Vec<&str> {
        self.0.iter().map(|chunk| chunk["type"].as_str().unwrap()).collect()
    }
}

fn turn(lines: &[&str]) -> Vec<Event> {
    let head = [
        r#"{"type":"session.created","session":"ses_1","agent":"demo","cwd":"/srv"}"#,
        r#"{"type":"turn.started","turn":"t1","origin":"agent","prompts":[]}"#,
    ];
    log(&[&head, lines].concat())
}

const FIRST: &str = r#"{"type":"attempt.started","turn":"t1","attempt":"a1","step":1}"#;
const SECOND: &str = r#"{"type":"attempt.started","turn":"t1","attempt":"a2","step":1}"#;
const TEXT: &str = r#"{"type":"item.started","turn":"t1","attempt":"a1","item":"i1","kind":"message","role":"assistant","text":"No"}"#;

#[test]
fn a_turn_that_was_lost_or_failed_is_never_a_clean_end() {
    let lost = r#"{"type":"turn.ended","turn":"t1","outcome":"lost"}"#;
    let failed = r#"{"type":"turn.ended","turn":"t1","outcome":"failed","error":{"class":"overloaded","message":"full"}}"#;
    for profile in PROFILES {
        let end = |line| Chunks::of(&turn(&[line]), profile).0.pop().unwrap();
        assert_eq!(end(failed), json!({"type": "error", "errorText": "full"}), "{profile:?}");
        let lost = end(lost);
        match profile {
            Profile::V7 => assert_eq!(lost["finishReason"], "interrupted"),
            Profile::Safe | Profile::V5 | Profile::V6 => assert_eq!(lost["type"], "error", "{lost}"),
        }
    }
}

#[test]
fn what_a_repeated_model_call_voids_is_taken_back_or_marked() {
    let log = turn(&[
        FIRST,
        TEXT,
        SECOND,
        r#"{"type":"attempt.superseded","turn":"t1","attempt":"a1","by":"a2","items":["i1"]}"#,
        r#"{"type":"item.started","turn":"t1","attempt":"a2","item":"i2","kind":"message","role":"assistant","text":"Yes"}"#,
        r#"{"type":"item.ended","turn":"t1","item":"i2","state":"completed"}"#,
        r#"{"type":"turn.ended","turn":"t1","outcome":"completed","stop_reason":"end_turn"}"#,
    ]);
    for profile in PROFILES {
        let chunks = Chunks::of(&log, profile);
        let mut message = UiMessage::default();
        chunks.0.iter().for_each(|chunk| message.take(chunk));
        let (kinds, parts) = (chunks.kinds(), message.into_json()["parts"].clone());
        assert_eq!(kinds.contains(&"reset-step"), profile == Profile::V7, "{kinds:?}");
        assert_eq!(parts.to_string().contains("\"No\""), profile != Profile::V7, "{parts}");
        let texts: Vec<Value> = visible(&parts).iter().map(|part| part["text"].clone()).collect();
        assert_eq!(texts, ["Yes"], "{profile:?}");
    }
}

#[test]
fn a_text_that_is_replaced_is_shown_once() {
    let log = turn(&[
        FIRST,
        TEXT,
        r#"{"type":"item.replaced","turn":"t1","item":"i1","text":"Other"}"#,
        r#"{"type":"item.delta","turn":"t1","item":"i1","text":"wise"}"#,
        r#"{"type":"item.ended","turn":"t1","item":"i1","state":"completed"}"#,
    ]);
    for profile in PROFILES {
        let mut message = UiMessage::default();
        Chunks::of(&log, profile).0.iter().for_each(|chunk| message.take(chunk));
        let parts = visible(&message.into_json()["parts"]);
        assert_eq!((parts.len(), &parts[0]["text"]), (1, &json!("Otherwise")), "{profile:?}");
    }
}

#[test]
fn output_is_shown_while_a_call_runs_whenever_it_has_doubled() {
    let call = r#"{"type":"item.started","turn":"t1","item":"i1","kind":"tool","tool":{"name":"bash"}}"#;
    let line = format!(
        r#"{{"type":"item.delta","turn":"t1","item":"i1","field":"output","text":"{}"}}"#,
        "x".repeat(100)
    );
    let mut lines = vec![call];
    lines.resize(41, line.as_str());
    let chunks = Chunks::of(&turn(&lines), Profile::Safe).0;
    let shown = chunks.iter().filter(|chunk| chunk["preliminary"] == true);
    let lengths: Vec<usize> = shown.map(|chunk| chunk["output"].as_str().unwrap().len()).collect();
    assert_eq!(lengths, [300, 600, 1100, 2100]);
}

/// What a page shows of the last message.
fn last(state: &State, profile: Profile) -> Value {
    messages(state, profile).pop().unwrap_or_default()
}

#[test]
fn work_of_no_turn_is_a_message_of_its_own() {
    let mut lines = vec![
        r#"{"type":"session.created","session":"ses_1","agent":"demo","cwd":"/w"}"#,
        r#"{"type":"item.started","item":"b0","kind":"message","role":"assistant","text":"Welcome"}"#,
        r#"{"type":"item.ended","item":"b0","state":"completed"}"#,
        r#"{"type":"prompt.accepted","prompt":"p1","content":[{"type":"text","text":"Go"}]}"#,
        r#"{"type":"turn.started","turn":"t1","origin":"prompt","prompts":["p1"]}"#,
        r#"{"type":"prompt.taken","prompt":"p1","turn":"t1"}"#,
        r#"{"type":"item.started","turn":"t1","item":"i1","kind":"message","role":"assistant","text":"Yes"}"#,
        r#"{"type":"item.ended","turn":"t1","item":"i1","state":"completed"}"#,
        r#"{"type":"item.started","item":"b1","kind":"tool","tool":{"name":"bash","input":{}}}"#,
        r#"{"type":"item.started","item":"b2","kind":"message","role":"assistant","text":"By "}"#,
        r#"{"type":"item.delta","item":"b2","text":"the way"}"#,
        r#"{"type":"item.ended","item":"b2","state":"completed"}"#,
    ];
    let ids = |lines: &[&str]| -> Vec<String> {
        let all = messages(&state_at(&log(lines)), Profile::V7);
        all.iter().map(|message| message["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&lines), ["ses_1/b0", "ses_1/p1"], "the stream brings the turn");
    lines.push(r#"{"type":"turn.ended","turn":"t1","outcome":"completed"}"#);
    assert_eq!(ids(&lines), ["ses_1/b0", "ses_1/p1", "ses_1/t1", "ses_1/b2"]);
    let background = last(&state_at(&log(&lines)), Profile::V7);
    assert_eq!(background["role"], "assistant");
    assert_eq!(visible(&background["parts"])[0]["text"], "By the way");
    // What goes on is shown when it has ended, in the order in which it began.
    lines.push(r#"{"type":"item.ended","item":"b1","state":"completed"}"#);
    lines.push(r#"{"type":"prompt.accepted","prompt":"p2","content":[{"type":"text","text":"More"}]}"#);
    assert_eq!(ids(&lines), ["ses_1/b0", "ses_1/p1", "ses_1/t1", "ses_1/b1", "ses_1/p2"]);
}

#[test]
fn while_a_turn_waits_calls_that_nobody_was_asked_about_are_left_out() {
    let logs = claude_logs();
    let (_, log) = logs.iter().find(|(name, _)| name == "d_permission_two_parallel").unwrap();
    let is_asked = |event: &Event| event.draft.body.type_name() == "approval.requested";
    let asks: Vec<usize> =
        log.iter().enumerate().filter(|(_, event)| is_asked(event)).map(|(at, _)| at).collect();
    // The second call has begun before the first one is answered.
    let waiting = state_at(&log[..asks[0] + 6]);
    let calls = |state: &State, profile| -> Vec<String> {
        let message = last(state, profile);
        let parts = message["parts"].as_array().unwrap().iter();
        let call =
            |part: &Value| format!("{} {}", part["toolCallId"].as_str()?, part["state"].as_str()?).into();
        parts.filter_map(call).collect()
    };
    assert_eq!(calls(&waiting, Profile::V6), ["i1 approval-requested"]);
    assert_eq!(calls(&waiting, Profile::V5), ["i1 input-available", "q1 input-available"]);
    let again = state_at(&log[..asks[1] + 1]);
    assert_eq!(calls(&again, Profile::V6), ["i1 approval-responded", "i2 approval-requested"]);
    let end = state_at(log);
    assert_eq!(calls(&end, Profile::V6), ["i1 output-available", "i2 output-denied"]);
}

/// At every place where a turn waits: a client that has the message of then gets the rest. It shows what a
/// client shows that loads the page later.
#[test]
fn a_client_that_answers_gets_what_it_lacks_at_every_place_of_every_log() {
    let full = std::env::var_os("TURNSTREAM_FULL").is_some();
    let mut places = 0;
    for (name, log) in captured_logs().into_iter().chain(claude_logs()) {
        let mut fold = Fold::new();
        for (at, event) in log.iter().enumerate() {
            fold.apply(event);
            let body = event.draft.body.type_name();
            if !["approval.requested", "question.asked"].contains(&body) {
                continue;
            }
            let Some(turn) = fold.state().open_turn().map(|turn| turn.turn.clone()) else { continue };
            for profile in PROFILES {
                let mut had = UiMessage::default();
                Encoder::catch_up(fold.state(), &turn, &Held::default(), profile, &mut had);
                let held = Held::read(&had.clone().into_json());
                let mut later = fold.clone();
                for (more, event) in log[at + 1..].iter().enumerate() {
                    later.apply(event);
                    if later.state().open_turn().is_none_or(|open| open.turn != turn) {
                        break;
                    }
                    if !full && more % 3 != 0 {
                        continue;
                    }
                    let mut message = had.clone();
                    Encoder::catch_up(later.state(), &turn, &held, profile, &mut message);
                    let mut loaded = UiMessage::default();
                    Encoder::catch_up(later.state(), &turn, &Held::default(), profile, &mut loaded);
                    let (rest, whole) = (message.into_json(), loaded.into_json());
                    let place = format!("{name} from {at} to {}, {profile:?}", at + 1 + more);
                    assert_eq!(seen(&rest), seen(&whole), "{place}\n{rest}\n{whole}");
                    places += 1;
                }
            }
        }
    }
    assert!(places > 100, "only {places} places");
}

/// What a person sees of a message: of calls in any order, since one that waits for a person is shown first.
fn seen(message: &Value) -> Vec<Value> {
    let mut parts = visible(&message["parts"]);
    for part in &mut parts {
        // An answered request looks like its answer, or like a call that runs.
        if ["approval-responded", "approval-requested"].contains(&part["state"].as_str().unwrap_or_default())
        {
            part["state"] = json!("input-available");
        }
        if let Some(members) = part.as_object_mut() {
            members.remove("providerExecuted");
            // The title of a request is that of the moment at which it was asked.
            members.remove("title");
        }
        if let Some(ours) = part.pointer_mut("/providerMetadata/turnstream").and_then(Value::as_object_mut) {
            ours.remove("continues");
        }
    }
    parts.sort_by_key(Value::to_string);
    parts
}
