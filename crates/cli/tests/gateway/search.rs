//! `turnstream search`: with a gateway that runs, and without one.

use crate::support::{Home, stderr, stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};

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
    assert_eq!((nothing.status.code(), stdout(&nothing), stderr(&nothing)), (Some(1), "", ""));
    let old = home.run(&["search", "something", "--to", "2001-01-01"]);
    assert_eq!((old.status.code(), stdout(&old)), (Some(1), ""));
    for (args, told) in [
        (&["search", "..."][..], "there is no word in it"),
        (&["search", "x", "--role", "boss"], "boss"),
        (&["search", "x", "--from", "soon"], "is no moment"),
        (&["search", "x", "--session", "ses_nope"], "there is no session ses_nope"),
        (&["search", &"é".repeat(5_000)], "10000 bytes and may have 1024"),
        (&["search"], "WORDS"),
    ] {
        let refused = home.run(args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {refused:?}");
        assert!(stderr(&refused).contains(told), "{args:?}: {refused:?}");
    }
}
