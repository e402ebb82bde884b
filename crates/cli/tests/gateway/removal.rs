//! Deleting a session of a real gateway: nothing of it is in the data directory, also when the gateway is
//! killed on the way.

use crate::support::{Home, Serving, ask, prompt, read, stderr, stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;
use turnstream_testkit::lawful::{Tail, assert_lawful};

/// A text that is nowhere else.
const TEXT: &str = "Kp3vQ8zLw1XtR6yBn5HmD9sFj2GcT7aUe4VoI0";

/// Files below the directory with any 12 bytes of the text.
fn files_with_a_piece(directory: &Path) -> Vec<String> {
    let pieces: Vec<&str> = (0..=TEXT.len() - 12).map(|at| &TEXT[at..at + 12]).collect();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with_a_piece(&path));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        // Most of a file is zeros, which nothing is in.
        let blocks: Vec<&[u8]> = bytes.chunks(4096).filter(|block| **block != [0; 4096]).collect();
        let bytes = blocks.concat();
        let text = String::from_utf8_lossy(&bytes);
        if pieces.iter().any(|piece| text.contains(piece)) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// A session in which the text was said, and one in which it was not.
fn two_sessions(home: &Home, address: &str) -> (String, String) {
    let session = |text: &str| {
        let new = json!({"agent": "scripted", "cwd": home.path("work")});
        let id = ask(address, "POST", "/v1/sessions", &new).1["id"].as_str().unwrap().to_owned();
        let said = prompt(&json!([{"do": "text", "text": text}]));
        let body = json!({"content": [{"type": "text", "text": said}]});
        ask(address, "POST", &format!("/v1/sessions/{id}/prompts"), &body);
        wait_for(|| {
            let snapshot = ask(address, "GET", &format!("/v1/sessions/{id}/snapshot"), &json!({})).1;
            Some(()).filter(|()| snapshot["turns"][0]["outcome"] == "completed")
        });
        id
    };
    (session(TEXT), session("stays"))
}

#[test]
fn a_gateway_that_is_killed_between_a_delete_and_the_removal_goes_on_removing() {
    for failpoint in
        ["log.deleted", "keeper.deleted", "log.remove", "log.erase.segment", "log.erase.pages", "log.removed"]
    {
        let home = Home::new();
        let serving = home.serve_armed(&[], |command| {
            command.env("TURNSTREAM_FAILPOINT", failpoint);
        });
        let address = serving.address.clone();
        let (gone, stays) = two_sessions(&home, &address);
        let data = home.path("data");
        assert!(!files_with_a_piece(&data).is_empty());
        let path = format!("/v1/sessions/{gone}");
        kill_while_deleting(&home, serving, &path, failpoint);

        let serving = home.serve(&[]);
        let (head, problem) = ask(&serving.address, "GET", &path, &json!({}));
        assert!(head.starts_with("http/1.1 404 "), "{failpoint}: {head}");
        assert_eq!(problem["type"], "urn:turnstream:problem:unknown-session");
        let (head, removed) = ask(&serving.address, "DELETE", &path, &json!({}));
        assert!(head.starts_with("http/1.1 200 "), "{failpoint}: {head}");
        assert_eq!(removed, json!({"session": gone, "removed": true}));
        assert_eq!(files_with_a_piece(&data), Vec::<String>::new(), "{failpoint}");
        let tail = home.run(&["tail", &stays, "--json", "--no-follow"]);
        assert_lawful(stdout(&tail).lines(), Tail::Settled);
        assert!(stdout(&tail).contains("stays"));
        serving.end(Signal::TERM);
        assert_eq!(files_with_a_piece(&data), Vec::<String>::new(), "{failpoint}, after its end");
    }
}

/// Deletes, which does not end: the gateway is stopped at the failpoint and killed there.
fn kill_while_deleting(home: &Home, serving: Serving, path: &str, failpoint: &str) {
    std::thread::spawn({
        let (address, path) = (serving.address.clone(), path.to_owned());
        move || std::panic::catch_unwind(|| ask(&address, "DELETE", &path, &json!({})))
    });
    let marker = format!("TURNSTREAM_FAILPOINT_REACHED {failpoint}");
    wait_for(|| Some(()).filter(|()| read(&home.path("serve.out")).contains(&marker)));
    serving.end(Signal::KILL);
}

#[test]
fn a_gateway_that_is_killed_before_the_session_is_deleted_can_be_asked_again() {
    for failpoint in ["keeper.deleting", "keeper.forgotten", "log.delete"] {
        let home = Home::new();
        let serving = home.serve_armed(&[], |command| {
            command.env("TURNSTREAM_FAILPOINT", failpoint);
        });
        let (gone, _) = two_sessions(&home, &serving.address);
        let path = format!("/v1/sessions/{gone}");
        kill_while_deleting(&home, serving, &path, failpoint);

        let serving = home.serve(&[]);
        let (_, session) = ask(&serving.address, "GET", &path, &json!({}));
        assert_eq!(session["ended"], "deleted", "{failpoint}: nobody was told more than that it has ended");
        let (_, removed) = ask(&serving.address, "DELETE", &path, &json!({}));
        assert_eq!(removed, json!({"session": gone, "removed": true}), "{failpoint}");
        assert_eq!(files_with_a_piece(&home.path("data")), Vec::<String>::new(), "{failpoint}");
    }
}

#[test]
fn a_gateway_says_what_its_retention_removed_and_a_dump_of_the_rest_is_lawful() {
    let home = Home::new();
    let serving = home.serve_armed(&[], |command| {
        command.env("TURNSTREAM_RETENTION_MAX_TURNS", "1").env("TURNSTREAM_RETENTION_EVERY", "50ms");
    });
    let (first, _) = two_sessions(&home, &serving.address);
    let again = prompt(&json!([{"do": "text", "text": "second"}]));
    let turn = home.run(&["run", &again, "--session", &first]);
    assert_eq!(turn.status.code(), Some(0), "{turn:?}");
    let said = wait_for(|| {
        let said = read(&home.path("serve.err"));
        Some(said).filter(|said| said.contains("retention removed"))
    });
    assert!(said.contains("retention removed data trimmed=1 turns=1 "), "{said}");
    let tail = home.run(&["tail", &first, "--json", "--no-follow"]);
    let dump = home.path("dump.jsonl");
    std::fs::write(&dump, stdout(&tail)).unwrap();
    let lines: Vec<Value> = stdout(&tail).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines[0]["seq"].as_u64().unwrap() > 1, "{lines:?}");
    let checked = home.run(&["check", dump.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");

    // What is left can be exported, and comes in again.
    let file = home.path("export.jsonl");
    let file = file.to_str().unwrap();
    let exported = home.run(&["export", &first, "-o", file]);
    let said = format!("events before {} were removed by retention, and are not in it\n", lines[0]["seq"]);
    assert_eq!((exported.status.code(), stderr(&exported).ends_with(&said)), (Some(0), true), "{exported:?}");
    let checked = home.run(&["check", file]);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    let imported = home.run(&["import", file, "--new-id"]);
    assert_eq!(imported.status.code(), Some(0), "{imported:?}");
    let copy = home.run(&["tail", stdout(&imported).trim(), "--json", "--no-follow"]);
    assert_eq!(stdout(&copy), stdout(&tail));
    let page = home.run(&["export", stdout(&imported).trim(), "--format", "markdown"]);
    assert!(stdout(&page).contains("The beginning of this conversation was not kept any more."), "{page:?}");
    assert!(stdout(&page).contains("scripted"), "{page:?}");
}
