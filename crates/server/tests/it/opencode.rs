//! opencode's API over HTTP: what a client of it sees of turns, asks, reconnects and refusals.

use super::support::{PATIENCE, Rig, Stream, options};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use turnstream_adapter::Choice;
use turnstream_agents::demo::{DemoAgent, DemoConfig, DemoScript};
use turnstream_agents::{Agent, Connecting, Description, Start};

pub(super) const ASKING: &str = r#"[{"do":"attempt"},{"do":"text","text":"Hello"},
    {"do":"tool","ask":true,"title":"Write a.txt","effect":{"write":{"path":"a.txt","text":"x"}}},
    {"do":"attempt_end","finish":"stop"},{"do":"end","stop_reason":"end_turn"}]"#;

pub(super) fn prompt(script: &str) -> Value {
    let script: Value = serde_json::from_str(script).unwrap();
    let text = json!({"script": script, "pace_ms": 0}).to_string();
    json!({"parts": [{"type": "text", "text": text}]})
}

/// A session made by a client of opencode.
pub(super) async fn session(rig: &Rig) -> String {
    let path = format!("/opencode/session?directory={}", rig.work().display());
    let made = rig.post(&path, json!({"agent": "scripted", "title": "T"})).await;
    assert_eq!(made.status, 200, "{made:?}");
    made.body["id"].as_str().unwrap().to_owned()
}

/// The payload of the next event about a session, in a few words.
async fn next(stream: &mut Stream, session: &str) -> (String, Value) {
    loop {
        let seen = stream.next().await;
        assert_eq!((seen.id.as_deref().unwrap_or_default(), seen.event.as_str()), ("", "message"));
        let json = seen.json();
        let event = if json["payload"].is_object() { json["payload"].clone() } else { json };
        let properties = event["properties"].clone();
        if properties["sessionID"] == session {
            let kind = event["type"].as_str().unwrap();
            let status = properties["status"]["type"].as_str().unwrap_or_default();
            return (format!("{kind} {status}").trim().to_owned(), properties);
        }
    }
}

/// Events up to one of this name.
pub(super) async fn until(stream: &mut Stream, session: &str, name: &str) -> (Vec<String>, Value) {
    let mut names = Vec::new();
    loop {
        let (event, properties) = next(stream, session).await;
        names.push(event);
        if names.last().is_some_and(|event| event == name) {
            return (names, properties);
        }
    }
}

fn count(names: &[String], name: &str) -> usize {
    names.iter().filter(|event| *event == name).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_busy_and_idle_once_and_its_permission_is_answered_by_its_id_alone() {
    let rig = Rig::start().await;
    let id = session(&rig).await;
    let mut all = rig.stream("/opencode/global/event").await;
    let mut one = rig.stream(&format!("/opencode/event?directory={}", rig.work().display())).await;
    let mut elsewhere = rig.stream("/opencode/event?directory=/elsewhere").await;
    // The session is new, so it is told again.
    until(&mut all, &id, "session.status idle").await;
    for _ in 0..2 {
        let sent = rig.post(&format!("/opencode/session/{id}/prompt_async"), prompt(ASKING)).await;
        assert_eq!(sent.status, 204);
        let (before, asked) = until(&mut all, &id, "permission.asked").await;
        assert_eq!(asked["permission"], "edit");
        let waiting = rig.get("/opencode/permission").await.body;
        assert_eq!(waiting[0]["id"], asked["id"]);
        // The list of sessions learns of an event a moment after the log.
        while rig.get("/opencode/session/status").await.body != json!({&id: {"type": "busy"}}) {
            tokio::task::yield_now().await;
        }
        let reply = format!("/opencode/permission/{}/reply", asked["id"].as_str().unwrap());
        assert_eq!(rig.post(&reply, json!({"reply": "once"})).await.body, json!(true));
        let (after, _) = until(&mut all, &id, "session.idle").await;
        let names = [before, after].concat();
        assert_eq!(count(&names, "session.status busy"), 1, "{names:?}");
        assert_eq!(count(&names, "session.status idle"), 1, "{names:?}");
        let (same, _) = until(&mut one, &id, "session.idle").await;
        assert_eq!(same.last(), names.last());
        assert_eq!(rig.get("/opencode/session/status").await.body, json!({}));
    }
    // The other directory has its own events only.
    assert_eq!(elsewhere.next().await.json()["type"], "server.connected");
    assert_eq!(elsewhere.next().await.json()["type"], "server.heartbeat");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_opens_in_a_turn_is_told_the_turn_and_what_waits_and_is_cut_at_the_shutdown() {
    let rig = Rig::start().await;
    let id = session(&rig).await;
    rig.post(&format!("/opencode/session/{id}/prompt_async"), prompt(ASKING)).await;
    let mut first = rig.stream("/opencode/global/event").await;
    until(&mut first, &id, "permission.asked").await;
    let mut late = rig.stream("/opencode/global/event").await;
    let (told, _) = until(&mut late, &id, "permission.asked").await;
    assert_eq!(told.first().map(String::as_str), Some("session.updated"));
    assert_eq!((count(&told, "message.updated"), count(&told, "session.status busy")), (2, 1), "{told:?}");
    assert_eq!(count(&told, "message.part.delta"), 0);
    let stopped = tokio::spawn(rig.stop());
    // A clean end would be `None` without an error: the client sees a broken body.
    assert!(late.is_cut().await);
    stopped.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_waits_for_its_answer_and_runs_once_for_one_message_id() {
    let rig = Rig::start().await;
    let id = session(&rig).await;
    let mut body = prompt(r#"[{"do":"text","text":"Hello"},{"do":"end","stop_reason":"end_turn"}]"#);
    body["messageID"] = json!("msg_1e0c7c950001junpDUYjBLrG2b");
    let path = format!("/opencode/session/{id}/message");
    let (first, again) = (rig.post(&path, body.clone()).await, rig.post(&path, body).await);
    assert_eq!(first.body, again.body);
    assert_eq!(first.body["parts"][0]["text"], "Hello");
    assert!(first.body["info"]["time"]["completed"].is_number());
    let messages = rig.get(&format!("{path}?limit=100")).await.body;
    assert_eq!(messages.as_array().unwrap().len(), 2);
    assert_eq!(messages[0]["info"]["id"], "msg_1e0c7c950001junpDUYjBLrG2b");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_supported_names_its_operation_and_what_is_missing_is_not_found() {
    let rig = Rig::start_with(options()).await;
    let id = session(&rig).await;
    let shared = rig.post(&format!("/opencode/session/{id}/share"), json!({})).await;
    assert_eq!(shared.status, 501);
    assert!(shared.body["data"]["message"].as_str().unwrap().starts_with("session.share "), "{shared:?}");
    let missing = rig.get("/opencode/session/ses_none").await;
    let message = "Session not found: ses_none";
    assert_eq!((missing.status, &missing.body["data"]["message"]), (404, &json!(message)));
    assert_eq!(rig.get("/opencode/nothing/here").await.status, 404);
    assert_eq!(rig.post("/opencode/permission/per_none/reply", json!({"reply": "once"})).await.status, 404);
    let renamed = rig.ask("PATCH", &format!("/opencode/session/{id}"), Some(json!({"title": "New"}))).await;
    assert_eq!(renamed.body["title"], "New");
    assert_eq!(rig.ask("DELETE", &format!("/opencode/session/{id}"), None).await.body, json!(true));
    assert_eq!(rig.get("/opencode/session").await.body, json!([]));
    rig.stop().await;
}

const LONG: &str = r#"[{"do":"text","text":"Stop me."},{"do":"sleep","ms":900000}]"#;
pub(super) const SHORT: &str = r#"[{"do":"text","text":"Hello"},{"do":"end","stop_reason":"end_turn"}]"#;

#[tokio::test(flavor = "multi_thread")]
async fn an_abort_ends_the_open_turn_and_nothing_that_comes_after_it() {
    let rig = Rig::start().await;
    let id = session(&rig).await;
    let abort = format!("/opencode/session/{id}/abort");
    let send = format!("/opencode/session/{id}/prompt_async");
    // Nothing runs: it is no error, and ends nothing later.
    assert_eq!(rig.post(&abort, json!({})).await.body, json!(true));
    let mut all = rig.stream("/opencode/global/event").await;
    until(&mut all, &id, "session.status idle").await;
    rig.post(&send, prompt(LONG)).await;
    rig.post(&send, prompt(SHORT)).await;
    until(&mut all, &id, "message.part.delta").await;
    assert_eq!(rig.post(&abort, json!({})).await.body, json!(true));
    let (first, _) = until(&mut all, &id, "session.idle").await;
    assert_eq!(count(&first, "session.error"), 1, "{first:?}");
    let (second, _) = until(&mut all, &id, "session.idle").await;
    assert_eq!(
        (count(&second, "session.error"), count(&second, "session.status busy")),
        (0, 1),
        "{second:?}"
    );
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_messages_give_the_whole_history_once() {
    let rig = Rig::start().await;
    let id = session(&rig).await;
    let path = format!("/opencode/session/{id}/message");
    let steps = r#"{"do":"attempt"},{"do":"text","text":"One"},{"do":"attempt_end","finish":"tool_calls"},"#;
    let many = format!("[{}{}", steps.repeat(9), &SHORT[1..]);
    for turn in 0..12 {
        let script = if turn % 5 == 2 { many.as_str() } else { SHORT };
        assert_eq!(rig.post(&path, prompt(script)).await.status, 200);
    }
    // Two that wait behind one that runs. They have no turn yet.
    let sleeping = r#"[{"do":"sleep","ms":900000}]"#;
    for script in [sleeping, SHORT, SHORT] {
        rig.post(&format!("/opencode/session/{id}/prompt_async"), prompt(script)).await;
    }
    let mut all = rig.stream("/opencode/global/event").await;
    until(&mut all, &id, "session.status busy").await;
    let whole = rig.get(&path).await.body.as_array().unwrap().clone();
    assert!(whole.len() > 40, "{}", whole.len());
    for limit in [1, 3, 7, 100] {
        let (mut read, mut next) = (Vec::new(), String::new());
        loop {
            let page = rig.get(&format!("{path}?limit={limit}{next}")).await;
            let messages = page.body.as_array().unwrap().clone();
            assert!(messages.len() <= limit);
            read.splice(..0, messages);
            match page.headers.get("x-next-cursor") {
                Some(cursor) => next = format!("&before={}", cursor.to_str().unwrap()),
                None => break,
            }
        }
        let ids = |messages: &[Value]| -> Vec<String> {
            messages.iter().map(|message| message["info"]["id"].as_str().unwrap().to_owned()).collect()
        };
        // Pages are in the order of the turns. A prompt that waited is on the page of its turn.
        read.sort_by_key(|message| message["info"]["id"].as_str().unwrap().to_owned());
        assert_eq!(ids(&read), ids(&whole), "limit {limit}");
        assert_eq!(read, whole, "limit {limit}");
    }
    // Each one alone, wherever it is in the session.
    for message in whole.iter().step_by(7) {
        let alone = rig.get(&format!("{path}/{}", message["info"]["id"].as_str().unwrap())).await;
        assert_eq!((alone.status, &alone.body), (200, message));
    }
    assert_eq!(rig.get(&format!("{path}/msg_0")).await.status, 404);
    for bad in ["limit=2&before=msg_1", "before=e30", "limit=x"] {
        assert_eq!(rig.get(&format!("{path}?{bad}")).await.status, 400, "{bad}");
    }
    rig.post(&format!("/opencode/session/{id}/abort"), json!({})).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_have_subagents_unless_only_roots_are_asked_for_and_sessions_tell_what_they_used() {
    let rig = Rig::start().await;
    let id = session(&rig).await;
    let path = format!("/opencode/session/{id}");
    let mut all = rig.stream("/opencode/global/event").await;
    let spends = r#"[{"do":"tool","name":"task","title":"Look around"},
        {"do":"usage","usage":{"input":7,"output":2},"cost":{"amount":0.25,"currency":"USD"}},
        {"do":"background","text":"Found it"},{"do":"end","stop_reason":"end_turn"}]"#;
    rig.post(&format!("{path}/prompt_async"), prompt(spends)).await;
    // The subagent is a session of its own, and done when it is idle.
    let child_id = loop {
        let event = all.next().await.json()["payload"].clone();
        let properties = &event["properties"];
        if properties["status"]["type"] == "idle" && properties["sessionID"] != id.as_str() {
            break properties["sessionID"].as_str().unwrap().to_owned();
        }
    };
    // More than one page after it.
    let steps = r#"{"do":"attempt"},{"do":"text","text":"One"},{"do":"attempt_end"},"#;
    let many = format!("[{}{}", steps.repeat(99), &SHORT[1..]);
    assert_eq!(rig.post(&format!("{path}/message"), prompt(&many)).await.status, 200);
    let shown = rig.get(&path).await.body;
    assert_eq!((&shown["cost"], &shown["tokens"]["input"]), (&json!(0.25), &json!(7)), "{shown}");
    let ids = |list: &Value| -> Vec<Value> {
        list.as_array().unwrap().iter().map(|session| session["id"].clone()).collect()
    };
    let of_child = format!("/opencode/session/{child_id}");
    let child = rig.get(&of_child).await.body;
    assert_eq!((&child["parentID"], &child["title"]), (&json!(id), &json!("Look around")));
    // The second time, nothing is read.
    for _ in 0..2 {
        let listed = rig.get("/opencode/session").await.body;
        assert_eq!(ids(&listed), [json!(id), json!(child_id)]);
        assert_eq!(listed[1], child);
    }
    assert_eq!(ids(&rig.get("/opencode/session?roots=true").await.body), [json!(id)]);
    assert_eq!(ids(&rig.get("/opencode/session?limit=1").await.body), [json!(id)]);
    assert_eq!(ids(&rig.get(&format!("{path}/children")).await.body), [json!(child_id)]);
    let messages = rig.get(&format!("{of_child}/message?limit=5")).await.body;
    assert_eq!(
        (messages.as_array().unwrap().len(), &messages[1]["parts"][0]["text"]),
        (2, &json!("Found it"))
    );
    let answer = messages[1]["info"]["id"].as_str().unwrap();
    assert_eq!(rig.get(&format!("{of_child}/message/{answer}")).await.body, messages[1]);
    // Deleted ones are gone from the list.
    assert_eq!(rig.ask("DELETE", &path, None).await.status, 200);
    assert_eq!(rig.get("/opencode/session").await.body, json!([]));
    rig.stop().await;
}

/// The demo agent, with everything that an agent can offer.
struct Rich(DemoAgent);

impl Agent for Rich {
    fn describe(&self) -> Description {
        let choices = |ids: &[&str]| ids.iter().copied().map(Choice::new).collect::<Vec<_>>();
        Description {
            models: choices(&["default", "big"]),
            modes: choices(&["default", "plan"]),
            commands: choices(&["compact", "review"]),
            ..self.0.describe()
        }
    }

    fn connect(&self, start: Start) -> Connecting<'_> {
        self.0.connect(start)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pickers_offer_agents_with_their_modes_models_and_commands_and_sessions_use_them() {
    let script = DemoScript::from_json(SHORT).unwrap();
    let demo = DemoAgent::new(DemoConfig { script: Some(script), ..DemoConfig::default() });
    let rig = Rig::start_with_agent("rich", Arc::new(Rich(demo))).await;
    let names: Vec<Value> = rig.get("/opencode/agent").await.body.as_array().unwrap().clone();
    let names: Vec<&str> = names.iter().map(|agent| agent["name"].as_str().unwrap()).collect();
    // The one that cannot be used is left out.
    assert_eq!(names, ["lasting", "rich", "rich:plan", "scripted"]);
    let providers = rig.get("/opencode/provider").await.body;
    let of_rich = providers["all"].as_array().unwrap().iter().find(|one| one["id"] == "rich").unwrap();
    assert_eq!(of_rich["models"].as_object().unwrap().keys().collect::<Vec<_>>(), ["big", "default"]);
    let commands = rig.get("/opencode/command").await.body;
    assert_eq!((commands.as_array().unwrap().len(), &commands[0]["name"]), (1, &json!("review")));
    let create = format!("/opencode/session?directory={}", rig.work().display());
    let picked = json!({"agent": "rich:plan", "model": {"providerID": "rich", "id": "big"}});
    let made = rig.post(&create, picked).await.body;
    assert_eq!((&made["agent"], &made["model"]["id"]), (&json!("rich:plan"), &json!("big")));
    let id = made["id"].as_str().unwrap();
    let say = format!("/opencode/session/{id}/message");
    let body = json!({
        "agent": "rich", "model": {"providerID": "rich", "modelID": "default"},
        "parts": [{"type": "text", "text": "Hi"}],
    });
    let answer = rig.post(&say, body).await.body;
    let said = (&answer["info"]["agent"], &answer["info"]["mode"], &answer["info"]["modelID"]);
    assert_eq!(said, (&json!("rich"), &json!("rich"), &json!("default")));
    let body = json!({
        "agent": "rich:plan", "model": {"providerID": "rich", "modelID": "big"},
        "parts": [{"type": "text", "text": "Plan it"}],
    });
    assert_eq!(rig.post(&say, body).await.status, 200);
    // Messages keep what their turn began with.
    let chosen = |message: &Value| {
        let info = &message["info"];
        let model = if info["role"] == "user" { &info["model"]["modelID"] } else { &info["modelID"] };
        format!("{} {} {}", info["role"], info["agent"], model).replace('"', "")
    };
    let want =
        ["user rich default", "assistant rich default", "user rich:plan big", "assistant rich:plan big"];
    for path in [say.clone(), format!("{say}?limit=9")] {
        let told: Vec<String> = rig.get(&path).await.body.as_array().unwrap().iter().map(chosen).collect();
        assert_eq!(told, want, "{path}");
    }
    assert_eq!(rig.post(&format!("/opencode/session/{id}/summarize"), json!({})).await.body, json!(true));
    let run = json!({"command": "review", "arguments": "all of it"});
    assert_eq!(rig.post(&format!("/opencode/session/{id}/command"), run).await.status, 200);
    let texts: Vec<Value> = rig.get(&say).await.body.as_array().unwrap().clone();
    let texts: Vec<&str> = texts
        .iter()
        .filter(|message| message["info"]["role"] == "user")
        .map(|message| message["parts"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["Hi", "Plan it", "/compact", "/review all of it"]);
    // What the agent does not have.
    let unknown = rig.post(&format!("/opencode/session/{id}/command"), json!({"command": "x"})).await;
    let named = unknown.body["data"]["message"].as_str().unwrap();
    assert_eq!((unknown.status, named), (501, "session.command: the agent rich has no command \"x\""));
    let other = json!({"agent": "scripted", "parts": [{"type": "text", "text": "Hi"}]});
    assert_eq!(rig.post(&say, other).await.status, 400);
    assert_eq!(rig.post(&create, json!({"agent": "build"})).await.status, 400);
    let plain = session(&rig).await;
    assert_eq!(rig.post(&format!("/opencode/session/{plain}/summarize"), json!({})).await.status, 501);
    rig.stop().await;
}

/// What a stream says of a session when it is read again: the client has slept over much.
#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_that_fell_behind_learns_once_that_its_turn_is_over() {
    let rig = Rig::start().await;
    let (slow, loud) = (session(&rig).await, session(&rig).await);
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(1 << 16).unwrap();
    let mut socket = socket.connect(rig.address).await.unwrap();
    let head =
        format!("GET /opencode/event?directory={} HTTP/1.1\r\nHost: localhost\r\n\r\n", rig.work().display());
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("server.connected") {
        assert!(socket.read_buf(&mut seen).await.unwrap() > 0);
    }
    // It does not read any more.
    let mut others = rig.stream("/opencode/global/event").await;
    for (id, text) in [(&slow, "Quick".to_owned()), (&loud, "x".repeat(2 << 20))] {
        for _ in 0..(if id == &loud { 6 } else { 1 }) {
            let steps = json!([{"do": "text", "text": text}]);
            let body = json!({"parts": [{"type": "text", "text": json!({"script": steps, "pace_ms": 0}).to_string()}]});
            assert_eq!(rig.post(&format!("/opencode/session/{id}/prompt_async"), body).await.status, 204);
            until(&mut others, id, "session.idle").await;
        }
    }
    let idle = |id: &str| format!(r#""type":"session.idle","properties":{{"sessionID":"{id}"}}"#);
    let mut quick = String::from_utf8_lossy(&seen).matches(&idle(&slow)).count();
    let read = async {
        let (mut rest, mut bytes) = (String::new(), vec![0; 1 << 20]);
        while !rest.contains(&idle(&loud)) {
            rest = rest.split_off(rest.len().saturating_sub(idle(&loud).len() - 1));
            let count = socket.read(&mut bytes).await.unwrap();
            assert!(count > 0);
            rest.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
            quick += rest.matches(&idle(&slow)).count();
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("it is told of the end");
    assert_eq!(quick, 1);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_that_was_away_for_long_learns_that_sessions_are_idle() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    rig.played(&id, json!([{"do": "text", "text": "Hello"}])).await;
    let file = rig.http.get(rig.url(&format!("/v1/sessions/{id}/export"))).send().await.unwrap();
    // The same session, as if it had been an hour ago.
    let older = |line: &str| {
        let mut event: Value = serde_json::from_str(line).unwrap();
        if let Some(time) = event["time"].as_u64() {
            event["time"] = json!(time - 3_600_000);
        }
        format!("{event}\n")
    };
    let file: String = file.text().await.unwrap().lines().map(older).collect();
    assert_eq!(rig.ask("DELETE", &format!("/v1/sessions/{id}"), None).await.status, 200);
    let imported = super::support::answer(rig.import("?new_id=true", file)).await;
    assert_eq!(imported.status, 201, "{imported:?}");
    let listed = rig.get("/opencode/session").await.body;
    let id = listed[0]["id"].as_str().unwrap();
    let mut all = rig.stream("/opencode/global/event").await;
    let (told, _) = until(&mut all, id, "session.status idle").await;
    // Its messages are not repeated.
    assert_eq!(told, ["session.status idle"]);
    rig.stop().await;
}
