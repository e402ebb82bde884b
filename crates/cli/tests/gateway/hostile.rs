//! A log whose every text acts on terminals, imported and printed by every command: nothing of it reaches
//! one.

use crate::pty::Terminal;
use crate::support::{Home, send, stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::Output;

/// A sequence that clears the screen, one that colours (C1), one that turns the direction of writing, and no
/// width.
const ACTS: &str = "\u{1b}[2J\u{9b}31m\u{202e}\u{200b}\u{7}";

/// Members whose words are closed lists or that an import judges.
const FIXED: &[&str] = &[
    "type",
    "kind",
    "role",
    "state",
    "status",
    "outcome",
    "by",
    "origin",
    "stop_reason",
    "class",
    "permissions",
    "code",
    "field",
    "turnstream",
    "generation",
    "actor",
    "cwd",
    "session",
];

/// Adds it to every text there is. Names stay names: each is changed in the same way everywhere.
fn poisoned(value: &mut Value, name: &str) {
    match value {
        Value::String(text) if !is_fixed(name, text) => text.push_str(ACTS),
        Value::Array(values) => values.iter_mut().for_each(|value| poisoned(value, name)),
        Value::Object(members) => members.iter_mut().for_each(|(name, value)| poisoned(value, name)),
        _ => {}
    }
}

/// `by` is a word of a closed list, but for the name of the attempt that supersedes another.
fn is_fixed(name: &str, text: &str) -> bool {
    let is_attempt = text.strip_prefix('a').is_some_and(|number| number.parse::<u32>().is_ok());
    FIXED.contains(&name) && !(name == "by" && is_attempt)
}

#[track_caller]
fn assert_harmless(what: &str, text: &str) {
    let acts = |character: char| {
        (character.is_control() && !"\n\t".contains(character))
            || "\u{202e}\u{200b}\u{2028}\u{2066}\u{feff}".contains(character)
    };
    let at = text.find(acts);
    assert_eq!(at, None, "{what} prints a control: {:?}", at.map(|at| &text[at.saturating_sub(60)..]));
}

#[track_caller]
fn assert_output_harmless(what: &str, output: &Output) {
    assert_harmless(what, std::str::from_utf8(&output.stdout).unwrap());
    assert_harmless(what, std::str::from_utf8(&output.stderr).unwrap());
}

/// A log with every kind of event that a turn of the scripted agent can have, poisoned.
fn log(home: &Home) -> String {
    let script = json!([
        {"do": "reasoning", "text": "Hm."},
        {"do": "attempt", "model": "m"},
        {"do": "text", "text": "Void.", "unfinished": true},
        {"do": "retry", "attempt": 2, "reason": "overloaded", "wait_ms": 1},
        {"do": "text", "text": "Words."},
        {"do": "attempt_end", "finish": "stop"},
        {"do": "plan", "text": "A plan."},
        {"do": "gap", "text": "The second half of this is missed and then mended."},
        {"do": "tool", "title": "Write a", "effect": {"write": {"path": "a", "text": "t"}}},
        {"do": "tool", "name": "build", "output": ["one\n"], "fail": "no luck"},
        {"do": "tool", "title": "Asked", "ask": true},
        {"do": "question", "questions": [{"id": "0", "text": "DB?", "options": [{"label": "PG"}]}]},
        {"do": "garbage"},
        {"do": "usage", "usage": {"input": 1}, "cost": {"amount": 0.5, "currency": "USD"}},
        {"do": "fail", "class": "overloaded", "message": "too busy"},
    ]);
    home.play(&script, &["--title", "A title", "--model", "m"]);
    let listed: Value = serde_json::from_slice(&home.run(&["sessions", "--json"]).stdout).unwrap();
    let exported = home.run(&["export", listed["id"].as_str().unwrap()]);
    let poison = |line: &str| {
        let mut event: Value = serde_json::from_str(line).unwrap();
        let reason = event["reason"].clone();
        poisoned(&mut event, "");
        // Here it is a word of a closed list.
        if event["type"] == "session.status" && !reason.is_null() {
            event["reason"] = reason;
        }
        event.to_string() + "\n"
    };
    stdout(&exported).lines().map(poison).collect()
}

#[test]
fn no_text_of_a_log_acts_on_the_terminal_whatever_prints_it() {
    let home = Home::new();
    let file = home.path("hostile.jsonl");
    std::fs::write(&file, log(&home)).unwrap();
    let file = file.display().to_string();
    let taken = home.run(&["import", &file]);
    assert_eq!(taken.status.code(), Some(2), "{taken:?}");
    assert_output_harmless("import of an id that is taken", &taken);
    let imported = home.run(&["import", &file, "--new-id"]);
    assert_eq!(imported.status.code(), Some(0), "{imported:?}");
    assert_output_harmless("import", &imported);
    let id = stdout(&imported).trim().to_owned();
    for args in [
        &["sessions"][..],
        &["sessions", "--json"],
        &["import", &file, "--new-id", "--json"],
        &["tail", &id, "--no-follow"],
        &["tail", &id, "--no-follow", "--json"],
        &["tail", &id, "--no-follow", "--after", "other:1"],
        &["search", "words"],
        &["search", "words", "--json"],
        &["search", "words", "--session", &id],
        &["check", &file],
        &["check", &file, "--json"],
        &["inspect", &file],
        &["inspect", &file, "--json"],
        &["run", "x", "--session", &id],
        &["run", "x", "--session", &format!("{id}x")],
        &["tail", &format!("{id}x")],
        &["attach", &format!("{id}x")],
        &["export", &id, "--output", "out.jsonl"],
        &["export", &format!("{id}x")],
    ] {
        let output = home.run(args);
        assert!(!output.stdout.is_empty() || !output.stderr.is_empty() || args[0] == "search", "{args:?}");
        assert_output_harmless(&args.join(" "), &output);
    }
    // Where a terminal is the target, its own line ends are the only controls.
    for format in ["jsonl", "markdown"] {
        let (code, shown) = Terminal::run(&home, &["export", &id, "--format", format]).end();
        assert_eq!(code, Some(0), "{shown}");
        assert_harmless(format, &shown.replace("\r\n", "\n"));
    }
    let attached = home.command(&["attach", &id]).spawn().unwrap();
    wait_for(|| Some(()).filter(|()| home.path("work/out.jsonl").exists()));
    send(&attached, Signal::INT);
    assert_output_harmless("attach", &attached.wait_with_output().unwrap());
}
