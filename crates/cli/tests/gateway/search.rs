//! `turnstream search`: with a gateway that runs, and without one.

use crate::support::{Home, stderr, stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

#[test]
fn what_was_said_is_found_with_and_without_a_running_gateway() {
    let home = Home::new();
    let script = json!([
        {"do": "reasoning", "text": "A wombat?"},
        {"do": "text", "text": "The wombat digs\u{1b}[2J deep."},
    ]);
    assert_eq!(home.play(&script, &[]).status.code(), Some(0));
    // No gateway runs: the command has its own.
    let found = home.run(&["search", "wombat", "dig*", "--role", "assistant"]);
    assert_eq!(found.status.code(), Some(0), "{found:?}");
    let lines: Vec<&str> = stdout(&found).lines().collect();
    assert!(lines[0].contains("  scripted  message of the assistant i2"), "{lines:?}");
    assert_eq!(lines[1..], ["    The wombat digs\\u{1b}[2J deep."]);
    let all = home.run(&["search", "wombat", "--json"]);
    let hits: Vec<Value> = stdout(&all).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<(&str, bool)> =
        hits.iter().map(|hit| (hit["kind"].as_str().unwrap(), hit["prompt"].is_string())).collect();
    assert_eq!(kinds, [("message", false), ("reasoning", false), ("message", true)]);
    assert!(!stdout(&all).contains('\u{1b}'));

    let serving = home.serve(&[]);
    for number in 0..3 {
        home.play(&json!([{"do": "text", "text": format!("wombat number {number}")}]), &[]);
    }
    let session = hits[0]["session"].as_str().unwrap();
    wait_for(|| {
        let found = home.run(&["search", "wombat", "--role", "assistant", "--json", "--limit", "1000"]);
        Some(()).filter(|()| stdout(&found).lines().count() == 4)
    });
    for (args, count) in [
        (&["--limit", "2"][..], 2),
        (&["--session", session], 3),
        (&["--agent", "scripted", "--kind", "reasoning"], 1),
        (&["--from", "1h", "--role", "assistant"], 4),
    ] {
        let found = home.run(&[&["search", "wombat", "--json"], args].concat());
        assert_eq!(stdout(&found).lines().count(), count, "{args:?}: {found:?}");
    }
    serving.end(Signal::TERM);
}

#[test]
fn nothing_found_and_nothing_to_look_for_are_told_apart() {
    let home = Home::new();
    home.play(&json!([{"do": "text", "text": "something"}]), &[]);
    let nothing = home.run(&["search", "nowhere"]);
    let told = format!("{}\n", home.hosted());
    assert_eq!((nothing.status.code(), stdout(&nothing), stderr(&nothing)), (Some(1), "", told.as_str()));
    let old = home.run(&["search", "something", "--to", "2001-01-01"]);
    assert_eq!((old.status.code(), stdout(&old)), (Some(1), ""));
    for (args, told) in [
        (&["search", "..."][..], "there is no word in it"),
        (&["search", "x", "--role", "boss"], "boss"),
        (&["search", "x", "--from", "soon"], "is not a time"),
        (&["search", "x", "--session", "ses_nope"], "there is no session ses_nope"),
        (&["search", &"é".repeat(5_000)], "10000 bytes and may have 1024"),
        (&["search"], "WORDS"),
    ] {
        let refused = home.run(args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {refused:?}");
        assert!(stderr(&refused).contains(told), "{args:?}: {refused:?}");
    }
}

/// A gateway that has one more hit on each page and never comes to the end, and is too busy for every third
/// request.
fn endless_gateway() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut pages = 0;
    std::thread::spawn(move || {
        for (request, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let asked = lines.next().unwrap().unwrap();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let (status, body) = if request % 3 == 1 {
                let kind = "urn:turnstream:problem:busy";
                ("503 Service Unavailable", json!({"type": kind, "detail": "all are busy"}))
            } else {
                assert_eq!(asked.contains(&format!("cursor=c{pages} ")), pages > 0, "{asked}");
                pages += 1;
                let hit = json!({"session": "s", "agent": "a", "item": format!("i{pages}"), "kind": "message",
                    "time": 0, "snippet": []});
                ("200 OK", json!({"hits": [hit], "next": format!("c{pages}"), "incomplete": true}))
            };
            let body = body.to_string();
            let head =
                format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).unwrap();
        }
    });
    url
}

#[test]
fn pages_that_do_not_come_to_the_end_are_shown_once_and_left_with_a_word() {
    let home = Home::new();
    let url = endless_gateway();
    let found = home.run(&["search", "x", "--json", "--url", &url, "--within", "2", "--limit", "1000000"]);
    assert_eq!(found.status.code(), Some(2), "{found:?}");
    let told = "looked for 2 s and not everywhere, there may be older ones: look longer with --within";
    assert!(stderr(&found).contains(told), "{found:?}");
    let item = |line: &str| serde_json::from_str::<Value>(line).unwrap()["item"].as_str().unwrap().to_owned();
    let items: Vec<String> = stdout(&found).lines().map(item).collect();
    assert!(items.len() > 1, "{items:?}");
    assert_eq!(items, (1..=items.len()).map(|number| format!("i{number}")).collect::<Vec<_>>());
    // As many as were asked for are there before the time is over.
    let few = home.run(&["search", "x", "--url", &endless_gateway(), "--limit", "3"]);
    assert_eq!((few.status.code(), stdout(&few).lines().count(), stderr(&few)), (Some(0), 6, ""));
}
