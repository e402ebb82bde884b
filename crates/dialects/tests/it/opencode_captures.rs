//! The captures of the real server, through our log and back, against what the server itself sent.
//!
//! Both are reduced to the first and the last state of each message and part, the transitions of the status,
//! asks, errors and removals. Long texts are cut, as they are in the kept logs. The beginnings and ends of
//! steps are left out: the log has model calls, also those that failed before they began to answer. Of
//! several idles the last one counts, busy may come before the message of the user or right after it, and an
//! error counts where its message is completed. The order of messages by their ids is a test of its own.

use super::captured_logs;
use super::opencode::encode;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use turnstream_dialects::Dialect;
use turnstream_dialects::opencode::Opencode;
use turnstream_model::event::{Body, Event};
use turnstream_model::fold::State;

/// Captures that give another sequence, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("d5-permission-abort", "opencode leaves the permission of an aborted turn open; here it is rejected"),
    ("f3-abort-idle", "an abort of nothing is idle at opencode; here nothing happened"),
    ("g3-abort-in-retry", "opencode has no error for an abort in a wait; here every abort has one"),
    ("i2-error-in-200", LEFT_TEXT),
    ("j1-cut-midstream", LEFT_TEXT),
    ("j5-finish-content-filter", "opencode tells the error after idle"),
    ("k2-two-prompts-at-once", "the other prompt is of another client, and is told when its turn begins"),
    ("k3-busy-other-endpoints", NO_REQUEST),
    ("m-subagent", ONE_ANSWER),
    ("m2-subagent-permission", ONE_ANSWER),
    (
        "m3-subagent-abort-parent",
        "opencode leaves the permission of an aborted turn open; here it is rejected",
    ),
    ("p-errors", "refused requests are errors of a session at opencode, and of a turn here"),
    ("s2-summarize", NO_REQUEST),
    ("s3-auto-compaction", NO_REQUEST),
    ("s4-session-crud", "a command of the user is completed with its turn"),
    ("s5-sync-prompt", "a message that nothing answers (noReply) is not in the log"),
    ("s6-command", "a refused request is an error of the session at opencode"),
    ("s7-revert-removes", REVERT),
    ("y1-client-message-id", AGAIN),
    ("y2-client-ids-repeated", AGAIN),
];

/// Captures with other messages, and why.
const OTHER_MESSAGES: &[(&str, &str)] = &[
    ("k2-two-prompts-at-once", "the other prompt is of another client, and is told when its turn begins"),
    ("k3-busy-other-endpoints", NO_REQUEST),
    ("p-errors", "refused requests have a turn with an error here, and no message at opencode"),
    ("s2-summarize", NO_REQUEST),
    ("s3-auto-compaction", NO_REQUEST),
    ("s5-sync-prompt", "a message that nothing answers (noReply) is not in the log"),
    (
        "s7-revert-removes",
        "a revert at the agent takes back what it wrote; prompts and turns stay in the log",
    ),
    ("y1-client-message-id", "at opencode the client's id sorts after the answer, and a repeat adds a part"),
];

const NO_REQUEST: &str = "the log has no message for a request to summarise";
const ONE_ANSWER: &str = "a subagent is told with its first work, and its work is one answer";
const LEFT_TEXT: &str = "a failed model call leaves its text at opencode; here it is removed";
const REVERT: &str = "a revert takes back what the agent wrote; prompts and turns stay in the log";
const AGAIN: &str = "a repeated prompt is busy again at opencode";

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn cut(text: &Value) -> String {
    word(text).chars().take(40).collect()
}

/// What the server sent about a session and its subagents.
fn sent(name: &str, session: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fixtures/opencode/{name}.sse"));
    let text = std::fs::read_to_string(path).unwrap();
    let mut ours = HashSet::from([session.to_owned()]);
    let events = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = events.map(|data| serde_json::from_str::<Value>(data).unwrap());
    let is_ours = |event: &Value| {
        let properties = &event["properties"];
        if ours.contains(&word(&properties["info"]["parentID"])) && event["type"] == "session.created" {
            ours.insert(word(&properties["sessionID"]));
        }
        ours.contains(&word(&properties["sessionID"]))
    };
    events.filter(is_ours).collect()
}

/// The first and the last states, transitions, asks, errors and removals.
fn reduced(events: &[Value]) -> Vec<String> {
    let id_of = |event: &Value| match event["type"].as_str().unwrap() {
        "message.updated" => Some(word(&event["properties"]["info"]["id"])),
        "message.part.updated" => Some(word(&event["properties"]["part"]["id"])),
        _ => None,
    };
    let mut last: HashMap<String, usize> = HashMap::new();
    let mut users: HashSet<String> = HashSet::new();
    let mut names: HashMap<String, String> = HashMap::new();
    for (index, event) in events.iter().enumerate() {
        if let Some(id) = id_of(event) {
            last.insert(id.clone(), index);
            let properties = &event["properties"];
            let name = properties["info"]["role"].as_str().or(properties["part"]["type"].as_str());
            names.insert(id.clone(), name.unwrap_or_default().to_owned());
            if event["properties"]["info"]["role"] == "user" {
                users.insert(id);
            }
        }
    }
    let is_idle = |event: &Value| event["properties"]["status"]["type"] == "idle";
    // Of several idles in a row the last one counts: opencode says it too early first.
    let is_early_idle = |index: usize, event: &Value| {
        let of_session = |other: &&Value| {
            other["type"] == "session.status"
                && other["properties"]["sessionID"] == event["properties"]["sessionID"]
        };
        is_idle(event) && events[index + 1..].iter().find(of_session).is_some_and(is_idle)
    };
    let (mut seen, mut tools, mut statuses) = (HashSet::new(), HashMap::new(), HashMap::new());
    let (mut out, mut errors) = (Vec::new(), Vec::new());
    for (index, event) in events.iter().enumerate() {
        let (kind, properties) = (event["type"].as_str().unwrap(), &event["properties"]);
        let id = id_of(event);
        let is_first = id.clone().is_none_or(|id| seen.insert(id));
        let is_last = id.as_ref().is_some_and(|id| last[id] == index);
        match kind {
            "message.updated" => {
                let info = &properties["info"];
                let role = word(&info["role"]);
                if is_first {
                    out.push(format!("message {role}"));
                }
                if is_last && !info["time"]["completed"].is_null() {
                    out.append(&mut errors);
                    out.push(format!("completed {}", word(&info["error"]["name"])));
                }
            }
            "message.part.updated" => {
                let part = &properties["part"];
                let kind = word(&part["type"]);
                match kind.as_str() {
                    "tool" => {
                        let status = word(&part["state"]["status"]);
                        if tools.insert(word(&part["id"]), status.clone()) != Some(status.clone()) {
                            out.push(format!("{} {status}", word(&part["tool"])));
                        }
                    }
                    "text" | "reasoning" if users.contains(&word(&part["messageID"])) => {
                        out.push(format!("said {}", cut(&part["text"])));
                    }
                    "text" | "reasoning" => {
                        if is_first {
                            out.push(kind.clone());
                        }
                        if is_last && !part["time"]["end"].is_null() {
                            out.push(format!("{kind} {}", cut(&part["text"])));
                        }
                    }
                    _ => {}
                }
            }
            "session.status" if is_early_idle(index, event) => {}
            "session.status" => {
                let status = word(&properties["status"]["type"]);
                if statuses.insert(word(&properties["sessionID"]), status.clone()) != Some(status.clone()) {
                    // A session is busy before the message of the user, or right after it.
                    let is_users =
                        |said: &&String| said.starts_with("message user") || said.starts_with("said ");
                    let users = out.iter().rev().take_while(is_users).filter(|_| status == "busy").count();
                    out.insert(out.len() - users, format!("status {status}"));
                }
            }
            "permission.asked" => out.push(format!("asked {}", word(&properties["permission"]))),
            "permission.replied" => out.push(format!("replied {}", word(&properties["reply"]))),
            // It counts where its message is completed: opencode says it before the last part.
            "session.error" => errors.push(format!("error {}", word(&properties["error"]["name"]))),
            "todo.updated" => out.push(format!("todo {}", properties["todos"].as_array().unwrap().len())),
            "question.asked" | "question.replied" | "question.rejected" => out.push(kind.to_owned()),
            "message.removed" => {
                let removed = names.get(&word(&properties["messageID"])).map_or("unknown", String::as_str);
                out.push(format!("removed {removed}"));
            }
            "message.part.removed" => {
                let removed = names.get(&word(&properties["partID"])).map_or("unknown", String::as_str);
                // The beginnings of steps are left out.
                if removed != "step-start" {
                    out.push(format!("removed {removed}"));
                }
            }
            _ => {}
        }
    }
    out.append(&mut errors);
    out
}

/// The messages of a session in the order of their ids, each with its text. An answer has the text of the
/// message that it follows.
pub(super) fn conversation(events: &[Value], session: &str) -> Vec<String> {
    let (mut infos, mut texts) = (BTreeMap::new(), HashMap::<String, BTreeMap<String, String>>::new());
    for event in events.iter().filter(|event| event["properties"]["sessionID"] == session) {
        let properties = &event["properties"];
        let part = &properties["part"];
        match event["type"].as_str().unwrap() {
            "message.updated" => {
                infos.insert(word(&properties["info"]["id"]), properties["info"].clone());
            }
            "message.removed" => {
                infos.remove(&word(&properties["messageID"]));
            }
            "message.part.updated" if part["type"] == "text" => {
                let parts = texts.entry(word(&part["messageID"])).or_default();
                parts.insert(word(&part["id"]), cut(&part["text"]));
            }
            "message.part.removed" => {
                let parts = texts.entry(word(&properties["messageID"])).or_default();
                parts.remove(&word(&properties["partID"]));
            }
            _ => {}
        }
    }
    let text = |id: &str| {
        // Failed model calls leave empty texts at opencode.
        let parts = texts.get(id).into_iter().flat_map(BTreeMap::values).filter(|text| !text.is_empty());
        parts.map(String::as_str).collect::<Vec<_>>().join("|")
    };
    let told = |(id, info): (&String, &Value)| match info["parentID"].as_str() {
        Some(parent) => format!("{} {:?} after {:?}", word(&info["role"]), text(id), text(parent)),
        None => format!("{} {:?}", word(&info["role"]), text(id)),
    };
    infos.iter().map(told).collect()
}

fn is_session(event: &Event) -> Option<&str> {
    match &event.draft.body {
        Body::SessionCreated { session, .. } => Some(session.as_str()),
        _ => None,
    }
}

#[test]
fn every_capture_gives_the_servers_own_sequence() {
    let (mut different, mut report) = (Vec::new(), String::new());
    for (name, log) in captured_logs() {
        let session = log.iter().find_map(is_session).unwrap().to_owned();
        let native = reduced(&sent(&name, &session));
        let ours = reduced(&encode(Opencode::resume(&State::default()), &log).concat());
        if native != ours {
            report += &format!("{name}:\n  native {native:?}\n  ours   {ours:?}\n");
            different.push(name);
        }
    }
    let listed: Vec<&str> = DIFFERENT.iter().map(|(name, _)| *name).collect();
    assert_eq!(different, listed, "{report}");
}

#[test]
fn messages_have_the_servers_own_order_and_answers_follow_the_same_messages() {
    let (mut different, mut report) = (Vec::new(), String::new());
    for (name, log) in captured_logs() {
        let session = log.iter().find_map(is_session).unwrap().to_owned();
        let native = conversation(&sent(&name, &session), &session);
        let frames = encode(Opencode::resume(&State::default()), &log).concat();
        let ours = conversation(&frames, &word(&frames[0]["properties"]["sessionID"]));
        if native != ours {
            report += &format!("{name}:\n  native {native:#?}\n  ours   {ours:#?}\n");
            different.push(name);
        }
    }
    let listed: Vec<&str> = OTHER_MESSAGES.iter().map(|(name, _)| *name).collect();
    assert_eq!(different, listed, "{report}");
}
