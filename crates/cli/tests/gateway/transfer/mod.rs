//! `turnstream export` and `import`: sessions leave and come back whole.

mod crash;
mod damage;
mod large;
mod trip;

use crate::support::{Home, Serving, stdout};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Two turns with a bit of everything the scripted agent has.
fn talked(home: &Home) -> String {
    let first = json!([
        {"do": "reasoning", "text": "Hm."},
        {"do": "text", "text": "An answer with \u{1F600} and \"quotes\"."},
        {"do": "tool", "title": "Write a", "effect": {"write": {"path": "a", "text": "t"}}},
        {"do": "usage", "usage": {"input": 10, "output": 3}},
    ]);
    // The default, so that an import has nothing to reset.
    assert_eq!(home.play(&first, &["--permissions", "ask"]).status.code(), Some(0));
    let id = only_session(home);
    let second =
        json!([{"do": "text", "text": "half"}, {"do": "fail", "class": "overloaded", "message": "too busy"}]);
    assert_eq!(home.play(&second, &["--session", &id]).status.code(), Some(31));
    id
}

fn sessions(home: &Home) -> Vec<Value> {
    let listed = home.run(&["sessions", "--json"]);
    assert_eq!(listed.status.code(), Some(0), "{listed:?}");
    stdout(&listed).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn only_session(home: &Home) -> String {
    let sessions = sessions(home);
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    sessions[0]["id"].as_str().unwrap().to_owned()
}

/// The header and the lines of the events.
fn exported(home: &Home, id: &str) -> (Value, Vec<String>) {
    let export = home.run(&["export", id]);
    assert_eq!(export.status.code(), Some(0), "{export:?}");
    let mut lines = stdout(&export).lines().map(str::to_owned);
    (serde_json::from_str(&lines.next().unwrap()).unwrap(), lines.collect())
}

/// The status and the body of an answer.
fn ask(serving: &Serving, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
    let mut socket = TcpStream::connect(&serving.address).unwrap();
    let (length, token) = (body.len(), serving.token());
    let kind = if path.starts_with("/v1/import") { "application/x-ndjson" } else { "application/json" };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    );
    // One that refuses early may close before it has read everything.
    let _ = socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(body));
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}

fn snapshot(serving: &Serving, id: &str) -> Value {
    let (status, mut snapshot) = ask(serving, "GET", &format!("/v1/sessions/{id}/snapshot"), b"");
    assert_eq!(status, 200);
    snapshot.as_object_mut().unwrap().remove("generation");
    snapshot
}
