//! opencode's events over signal sequences that nobody thought of, and over single stories.

use super::laws::{acts, play};
use super::opencode_client::Store;
use super::{captured_logs, claude_logs, log, state_at};
use proptest::prelude::*;
use serde_json::Value;
use turnstream_dialects::opencode::Opencode;
use turnstream_dialects::{Dialect, FrameSink};
use turnstream_model::check::Tail;
use turnstream_model::event::{Body, Event, Line};
use turnstream_model::fold::State;

#[derive(Default)]
pub(super) struct Frames(pub(super) Vec<Value>);

impl FrameSink for Frames {
    fn frame(&mut self, _: Option<&str>, json: &[u8]) {
        self.0.push(serde_json::from_slice(json).unwrap());
    }
}

/// The events of opencode for each of these events.
pub(super) fn encode(mut dialect: Opencode, log: &[Event]) -> Vec<Vec<Value>> {
    let frames = |event: &Event| {
        let (json, kind) = (event.to_json(), event.draft.body.kind());
        let mut out = Frames::default();
        dialect.encode(&Line::new(event.seq, &kind, json.as_bytes()), &mut out).unwrap();
        out.0
    };
    log.iter().map(frames).collect()
}

fn start() -> Opencode {
    Opencode::resume(&State::default())
}

/// An event in a few words.
pub(super) fn short(event: &Value) -> String {
    let (kind, properties) = (event["type"].as_str().unwrap(), &event["properties"]);
    let part = &properties["part"];
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match kind {
        "session.status" => format!("status {}", word(&properties["status"]["type"])),
        "message.updated" => {
            let info = &properties["info"];
            let end = if info["time"]["completed"].is_null() { "" } else { " completed" };
            let error = &info["error"]["name"];
            let error = error.as_str().map(|name| format!(" {name}")).unwrap_or_default();
            format!("message {}{end}{error}", word(&info["role"]))
        }
        "message.part.updated" => match part["type"].as_str().unwrap() {
            "tool" => format!("{} {}", word(&part["tool"]), word(&part["state"]["status"])),
            "text" | "reasoning" => {
                let end = if part["time"]["end"].is_null() { "" } else { " end" };
                format!("{} {:?}{end}", word(&part["type"]), word(&part["text"]))
            }
            other => other.to_owned(),
        },
        "message.part.delta" => format!("+ {:?}", word(&properties["delta"])),
        "permission.replied" => format!("{kind} {}", word(&properties["reply"])),
        other => other.to_owned(),
    }
}

pub(super) fn told(log: &[Event]) -> Vec<String> {
    encode(start(), log).concat().iter().map(short).collect()
}

const TURN: &[&str] = &[
    r#"{"type":"session.created","session":"ses_1","agent":"claude","cwd":"/srv"}"#,
    r#"{"type":"prompt.accepted","prompt":"p1","content":[{"type":"text","text":"Read README.md and edit it"}]}"#,
    r#"{"type":"prompt.sent","prompt":"p1"}"#,
    r#"{"type":"session.status","status":"busy"}"#,
    r#"{"type":"turn.started","turn":"t1","origin":"prompt","prompts":["p1"]}"#,
    r#"{"type":"prompt.taken","turn":"t1","prompt":"p1"}"#,
    r#"{"type":"item.started","turn":"t1","item":"i1","kind":"message","role":"assistant"}"#,
    r#"{"type":"item.delta","turn":"t1","item":"i1","text":"I read it."}"#,
    r#"{"type":"item.ended","turn":"t1","item":"i1","state":"completed"}"#,
    r#"{"type":"item.started","turn":"t1","item":"i2","kind":"tool","tool":{"name":"Read","status":"pending"}}"#,
    r#"{"type":"item.updated","turn":"t1","item":"i2","tool":{"status":"in_progress","input":{"file_path":"/srv/README.md"}}}"#,
    r##"{"type":"item.updated","turn":"t1","item":"i2","tool":{"status":"completed","output":"# Sample"}}"##,
    r#"{"type":"item.ended","turn":"t1","item":"i2","state":"completed"}"#,
    r#"{"type":"approval.requested","turn":"t1","item":"i2","approval":"q1","tool":{"name":"Edit"},"options":[]}"#,
    r#"{"type":"session.status","status":"waiting"}"#,
    r#"{"type":"approval.resolved","turn":"t1","approval":"q1","outcome":"allow_once","by":"client"}"#,
    r#"{"type":"session.status","status":"busy"}"#,
    r#"{"type":"item.started","turn":"t1","item":"i3","kind":"message","role":"assistant","text":"Done."}"#,
    r#"{"type":"item.ended","turn":"t1","item":"i3","state":"completed"}"#,
    r#"{"type":"turn.ended","turn":"t1","outcome":"completed","stop_reason":"end_turn"}"#,
    r#"{"type":"session.status","status":"idle"}"#,
];

#[test]
fn a_turn_is_busy_once_and_idle_once_and_nothing_of_the_answer_follows() {
    let want = [
        "session.created",
        "message user",
        "text \"Read README.md and edit it\"",
        "status busy",
        "message assistant",
        "text \"\"",
        "+ \"I read it.\"",
        "text \"I read it.\" end",
        "read pending",
        "read running",
        "read completed",
        "permission.asked",
        "permission.replied once",
        "text \"\"",
        "+ \"Done.\"",
        "text \"Done.\" end",
        "message assistant completed",
        "session.updated",
        "status idle",
        "session.idle",
    ];
    assert_eq!(told(&log(TURN)), want);
}

#[test]
fn a_turn_that_fails_or_is_lost_has_its_error_before_it_is_idle() {
    for (end, error) in [
        (r#"{"type":"turn.ended","turn":"t1","outcome":"cancelled"}"#, "MessageAbortedError"),
        (
            r#"{"type":"turn.ended","turn":"t1","outcome":"failed","error":{"class":"overloaded","message":"m"}}"#,
            "APIError",
        ),
        (r#"{"type":"turn.ended","turn":"t1","outcome":"lost"}"#, "UnknownError"),
    ] {
        let lines: Vec<&str> = TURN[..6].iter().copied().chain([end, TURN[20]]).collect();
        let message = format!("message assistant completed {error}");
        let want = ["session.error", &message, "session.updated", "status idle", "session.idle"];
        assert_eq!(told(&log(&lines))[4..], want);
    }
}

#[test]
fn a_retry_shows_its_wait_and_takes_back_what_the_failed_call_wrote() {
    let lines: Vec<&str> = TURN[..6]
        .iter()
        .copied()
        .chain([
            r#"{"type":"attempt.started","turn":"t1","attempt":"a1","step":1}"#,
            r#"{"type":"item.started","turn":"t1","attempt":"a1","item":"i1","kind":"message","role":"assistant"}"#,
            r#"{"type":"item.delta","turn":"t1","item":"i1","text":"Hal"}"#,
            r#"{"type":"session.status","status":"retrying","attempt":1,"until":9,"message":"m"}"#,
            r#"{"type":"attempt.started","turn":"t1","attempt":"a2","step":1}"#,
            r#"{"type":"attempt.superseded","turn":"t1","attempt":"a1","by":"a2","items":["i1"]}"#,
            r#"{"type":"session.status","status":"busy"}"#,
        ])
        .collect();
    let want = [
        "message assistant",
        "step-start",
        "text \"\"",
        "+ \"Hal\"",
        "status retry",
        "step-start",
        "message.part.removed",
        "message.part.removed",
        "status busy",
    ];
    assert_eq!(told(&log(&lines))[4..], want);
}

#[test]
fn a_parked_session_shows_its_wait_after_the_idle_of_its_turn_and_no_second_idle() {
    let failed = [
        r#"{"type":"session.created","session":"ses_1","agent":"codex","cwd":"/srv"}"#,
        r#"{"type":"prompt.accepted","prompt":"p1","content":[{"type":"text","text":"Work"}]}"#,
        r#"{"type":"prompt.sent","prompt":"p1"}"#,
        r#"{"type":"session.status","status":"busy"}"#,
        r#"{"type":"turn.started","turn":"t1","origin":"prompt","prompts":["p1"]}"#,
        r#"{"type":"prompt.taken","turn":"t1","prompt":"p1"}"#,
        r#"{"type":"turn.ended","turn":"t1","outcome":"failed","error":{"class":"quota_exhausted","message":"later"}}"#,
        r#"{"type":"unattended.parked","until":1794789700000,"of":"t1","because":"limit","reason":"quota_exhausted","limits":1}"#,
        r#"{"type":"session.status","status":"retrying","attempt":1,"reason":"quota_exhausted","until":1794789700000}"#,
    ];
    let continued = [
        r#"{"type":"unattended.released","of":"t1","outcome":"due","by":"policy"}"#,
        r#"{"type":"prompt.accepted","prompt":"p2","content":[{"type":"text","text":"Go on"}]}"#,
        r#"{"type":"prompt.continues","prompt":"p2","of":"t1","because":"limit","reason":"quota_exhausted","limits":1}"#,
        r#"{"type":"prompt.sent","prompt":"p2"}"#,
        r#"{"type":"session.status","status":"busy"}"#,
        r#"{"type":"turn.started","turn":"t2","origin":"prompt","prompts":["p2"]}"#,
        r#"{"type":"prompt.taken","turn":"t2","prompt":"p2"}"#,
        r#"{"type":"turn.continues","turn":"t2","of":"t1","because":"limit","reason":"quota_exhausted","limits":1}"#,
        r#"{"type":"turn.ended","turn":"t2","outcome":"completed","stop_reason":"end_turn"}"#,
        r#"{"type":"session.status","status":"idle"}"#,
    ];
    let given_up = [
        r#"{"type":"unattended.released","of":"t1","outcome":"cancelled","by":"client"}"#,
        r#"{"type":"session.status","status":"idle"}"#,
    ];
    let statuses = |rest: &[&str]| {
        let log = log(&[&failed[..], rest].concat());
        let is_status = |event: &String| event.starts_with("status ") || event == "session.idle";
        told(&log).into_iter().filter(is_status).collect::<Vec<_>>()
    };
    let of_turn = ["status busy", "status idle", "session.idle", "status retry"];
    assert_eq!(
        statuses(&continued),
        [&of_turn[..], &["status busy", "status idle", "session.idle"]].concat()
    );
    assert_eq!(statuses(&given_up), [&of_turn[..], &["status idle"]].concat());
    let parked = state_at(&log(&failed));
    let status = turnstream_dialects::opencode::status_of(&parked);
    assert_eq!((&status["type"], &status["next"]), (&"retry".into(), &1_794_789_700_000_u64.into()));
}

#[test]
fn a_subagent_is_a_session_of_its_own_that_is_idle_when_its_call_ends() {
    let lines: Vec<&str> = TURN[..6]
        .iter()
        .copied()
        .chain([
            r#"{"type":"item.started","turn":"t1","item":"i1","kind":"tool","tool":{"name":"Task","status":"in_progress","input":{"description":"Look","prompt":"Look around"}}}"#,
            r#"{"type":"item.started","turn":"t1","item":"i2","parent":"i1","kind":"message","role":"assistant"}"#,
            r#"{"type":"item.delta","turn":"t1","item":"i2","text":"Seen."}"#,
            r#"{"type":"item.ended","turn":"t1","item":"i2","state":"completed"}"#,
            r#"{"type":"item.ended","turn":"t1","item":"i1","state":"completed"}"#,
        ])
        .collect();
    let events = encode(start(), &log(&lines)).concat();
    let want = [
        "message assistant",
        "task running",
        "session.created",
        "session.updated",
        "message user",
        "text \"Look around\"",
        "task running",
        "status busy",
        "message assistant",
        "text \"\"",
        "+ \"Seen.\"",
        "text \"Seen.\" end",
        "message assistant completed",
        "status idle",
        "session.idle",
        "task completed",
    ];
    assert_eq!(events[4..].iter().map(short).collect::<Vec<_>>(), want);
    let child = &events[6]["properties"]["info"];
    assert_eq!(child["parentID"], events[0]["properties"]["sessionID"]);
    assert_eq!(events[10]["properties"]["part"]["state"]["metadata"]["sessionId"], child["id"]);
}

proptest! {
    #[test]
    fn one_that_continues_after_a_state_writes_the_same(acts in acts(), cut in any::<proptest::sample::Index>()) {
        let session = play(&acts);
        session.assert_lawful(Tail::Live);
        let whole = encode(start(), &session.log);
        let cut = cut.index(session.log.len() + 1);
        let rest = encode(Opencode::resume(&state_at(&session.log[..cut])), &session.log[cut..]);
        prop_assert_eq!(&rest, &whole[cut..]);
    }

    #[test]
    fn every_turn_is_busy_before_it_and_idle_once_at_its_end(acts in acts()) {
        let session = play(&acts);
        session.assert_lawful(Tail::Live);
        let mut busy = false;
        let (mut ends, mut idles, mut withdrawn) = (0, 0, 0);
        let root = session.fold.state().session.id.clone();
        prop_assert!(root.is_some());
        let frames = encode(start(), &session.log);
        let root = frames[0][0]["properties"]["sessionID"].clone();
        for (event, frames) in session.log.iter().zip(frames) {
            ends += usize::from(matches!(event.draft.body, Body::TurnEnded { .. }));
            // A sent prompt that is withdrawn was busy without a turn.
            let was_busy = busy;
            for frame in frames.iter().filter(|frame| frame["properties"]["sessionID"] == root) {
                match short(frame).as_str() {
                    "status busy" | "status retry" => busy = true,
                    "status idle" => {
                        prop_assert!(busy, "a second idle");
                        busy = false;
                    }
                    "session.idle" => idles += 1,
                    _ => {}
                }
            }
            if matches!(event.draft.body, Body::TurnStarted { .. }) {
                prop_assert!(busy, "a turn began without a busy");
            }
            let is_withdrawn = matches!(event.draft.body, Body::PromptWithdrawn { .. });
            withdrawn += usize::from(is_withdrawn && was_busy && !busy);
        }
        prop_assert_eq!(idles, ends + withdrawn);
    }

    #[test]
    fn a_client_has_what_the_history_says(acts in acts()) {
        let session = play(&acts);
        session.assert_lawful(Tail::Live);
        let state = session.fold.state();
        // The history knows more: of corrections after a turn, of open items, and of calls of earlier turns
        // whose subagents go on.
        let turn_of = |call: &turnstream_model::id::ItemId| state.items.iter().find(|item| item.id == *call).and_then(|item| item.turn.as_ref());
        prop_assume!(state.items.iter().all(|item| {
            let is_plain = !item.late && item.turn.is_some() && !item.is_open();
            is_plain && item.parent.as_ref().is_none_or(|call| turn_of(call) == item.turn.as_ref())
        }));
        let live = Store::of(&encode(start(), &session.log).concat());
        prop_assert_eq!(live.messages_and_asks(), Store::of_state(state).messages_and_asks());
    }
}

/// Every log of a capture: what a client of opencode's API is told of each of its turns.
#[test]
fn every_captured_turn_is_busy_once_and_idle_exactly_once_at_its_end() {
    let mut all = 0;
    for (name, log) in captured_logs().into_iter().chain(claude_logs()) {
        let frames = encode(start(), &log);
        let root = frames[0][0]["properties"]["sessionID"].clone();
        let (mut is_busy, mut is_retrying, mut turns) = (false, false, 0);
        for (event, frames) in log.iter().zip(frames) {
            let ends = matches!(event.draft.body, Body::TurnEnded { .. });
            turns += usize::from(ends);
            let frames: Vec<String> =
                frames.iter().filter(|frame| frame["properties"]["sessionID"] == root).map(short).collect();
            let idles = frames.iter().filter(|said| *said == "session.idle").count();
            assert_eq!(idles, usize::from(ends), "{name} {}: {frames:?}", event.seq);
            for said in &frames {
                match said.as_str() {
                    "status busy" => {
                        assert!(!is_busy || is_retrying, "{name} {}: a second busy", event.seq);
                        (is_busy, is_retrying) = (true, false);
                    }
                    "status retry" => (is_busy, is_retrying) = (true, true),
                    "status idle" => (is_busy, is_retrying) = (false, false),
                    "message assistant" | "message assistant completed" => {
                        assert!(is_busy, "{name} {}: {said} after idle", event.seq);
                    }
                    _ => {}
                }
            }
            if matches!(event.draft.body, Body::TurnStarted { .. }) {
                assert!(is_busy, "{name} {}: a turn without busy", event.seq);
            }
        }
        all += turns;
        assert_eq!(is_busy, state_at(&log).open_turn().is_some(), "{name}");
    }
    assert!(all > 100, "only {all} turns");
}

#[test]
fn a_prompt_that_waits_names_what_is_chosen_now_and_one_that_runs_what_its_turn_began_with() {
    let log = log(&[
        r#"{"type":"session.created","session":"ses_1","agent":"demo","cwd":"/srv"}"#,
        r#"{"type":"prompt.accepted","prompt":"p1","content":[]}"#,
        r#"{"type":"session.updated","model":"big","mode":"plan"}"#,
        r#"{"type":"turn.started","turn":"t1","origin":"prompt","prompts":["p1"]}"#,
        r#"{"type":"prompt.taken","turn":"t1","prompt":"p1"}"#,
        r#"{"type":"session.updated","model":"small"}"#,
        r#"{"type":"turn.ended","turn":"t1","outcome":"completed","stop_reason":"end_turn"}"#,
    ]);
    let told = |events: &[Value]| -> Vec<String> {
        let infos = events.iter().filter(|event| event["type"] == "message.updated");
        infos.map(|event| event["properties"]["info"]["agent"].as_str().unwrap().to_owned()).collect()
    };
    let events = encode(start(), &log);
    let agents: Vec<Vec<String>> = events.iter().map(|events| told(events)).collect();
    assert_eq!(agents[1..3], [["demo"], ["demo:plan"]]);
    assert!(agents[4].is_empty() && agents[5].is_empty(), "{agents:?}");
    let answer = events[6].iter().find(|event| event["type"] == "message.updated").unwrap();
    assert_eq!(answer["properties"]["info"]["modelID"], "big");
}

/// As Codex tells a change of two files, one of them with two hunks: one diff for each hunk.
const TWO_FILES: &str = r#"{"name":"fileChange","kind":"edit","status":"in_progress","title":"Edit 2 files",
    "input":{"changes":[{"path":"/srv/a","kind":"update"},{"path":"/srv/b","kind":"add"}]},
    "content":[{"type":"diff","path":"/srv/a","oldText":"1\n","newText":"2\n"},
        {"type":"diff","path":"/srv/a","oldText":"8\n","newText":"9\n"},
        {"type":"diff","path":"/srv/b","newText":"new\n"}]}"#;

#[test]
fn a_change_of_several_files_shows_every_file_and_every_hunk_wherever_it_is_shown() {
    let begun = format!(
        r#"{{"type":"item.started","turn":"t1","item":"i1","kind":"tool","tool":{}}}"#,
        TWO_FILES.replace('\n', "")
    );
    let again = begun.replace("i1", "i2");
    let rest = [
        begun.as_str(),
        r#"{"type":"approval.requested","turn":"t1","item":"i1","approval":"q1","options":[]}"#,
        r#"{"type":"approval.resolved","turn":"t1","approval":"q1","outcome":"allow_once","by":"client"}"#,
        r#"{"type":"item.ended","turn":"t1","item":"i1","state":"completed"}"#,
        again.as_str(),
        r#"{"type":"item.ended","turn":"t1","item":"i2","state":"completed"}"#,
    ];
    let log = log(&[&TURN[..6], &rest].concat());
    let events = encode(start(), &log).concat();
    let asked = &events.iter().find(|event| event["type"] == "permission.asked").unwrap()["properties"];
    assert_eq!(asked["patterns"], serde_json::json!(["/srv/a", "/srv/b"]));
    let shown = asked["metadata"]["diff"].as_str().unwrap();
    for line in ["-1", "+2", "-8", "+9", "+new"] {
        assert!(shown.lines().any(|shown| shown == line), "{line} in {shown}");
    }
    // The TUI shows the first file of a patch only.
    assert_eq!(shown.lines().filter(|line| line.starts_with("--- ")).count(), 1, "{shown}");
    let done = events.iter().find(|event| event["properties"]["part"]["state"]["status"] == "completed");
    let part = &done.unwrap()["properties"]["part"];
    let files = part["state"]["metadata"]["files"].as_array().unwrap();
    let told: Vec<_> =
        files.iter().map(|file| (file["relativePath"].as_str(), file["type"].as_str())).collect();
    assert_eq!(part["tool"], "apply_patch");
    assert_eq!(told, [(Some("a"), Some("update")), (Some("b"), Some("add"))]);
    let changes =
        turnstream_dialects::opencode::diffs(&state_at(&log), &turnstream_dialects::opencode::Named::Session);
    let told: Vec<_> =
        changes.iter().map(|change| (change.file.as_str(), change.additions, change.status)).collect();
    use turnstream_dialects::opencode::FileStatus::{Added, Modified};
    assert_eq!(told, [("/srv/a", 4, Modified), ("/srv/b", 2, Added)]);
}

#[test]
fn work_of_a_subagent_in_the_background_makes_it_once_and_each_run_is_busy_and_idle_once() {
    let one = |item: &str| {
        [
            format!(
                r#"{{"type":"item.started","item":"{item}","parent":"i1","kind":"message","role":"assistant"}}"#
            ),
            format!(r#"{{"type":"item.ended","item":"{item}","state":"completed"}}"#),
        ]
    };
    let (first, second) = (one("i2"), one("i3"));
    let task = [
        r#"{"type":"item.started","turn":"t1","item":"i1","kind":"tool","tool":{"name":"Task","status":"in_progress"}}"#,
        r#"{"type":"item.ended","turn":"t1","item":"i1","state":"completed"}"#,
        TURN[19],
        TURN[20],
    ];
    let rest: Vec<&str> = first.iter().chain(&second).map(String::as_str).collect();
    let events = encode(start(), &log(&[&TURN[..6], &task, &rest].concat())).concat();
    let root = events[0]["properties"]["sessionID"].clone();
    let of_child = events.iter().filter(|event| event["properties"]["sessionID"] != root).map(short);
    let run = |head: &[&str]| -> Vec<String> {
        let rest = [
            "status busy",
            "message assistant",
            "text \"\"",
            "text \"\" end",
            "message assistant completed",
            "status idle",
            "session.idle",
        ];
        head.iter().chain(&rest).map(|word| (*word).to_owned()).collect()
    };
    let want = [run(&["session.created", "session.updated"]), run(&[])].concat();
    assert_eq!(of_child.collect::<Vec<_>>(), want);
}
