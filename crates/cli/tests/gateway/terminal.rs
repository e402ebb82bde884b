//! One turn on a real terminal, with a person at it.

use crate::pty::Terminal;
use crate::support::{Home, ask, prompt, read, stdout, wait_for};
use serde_json::{Value, json};

fn writes(file: &str) -> Value {
    let effect = json!({"write": {"path": file, "text": "t"}});
    json!({"do": "tool", "ask": true, "title": format!("Write {file}"), "effect": effect})
}

#[test]
fn an_approval_is_asked_for_and_what_was_typed_decides() {
    let home = Home::new();
    let script = json!([writes("a"), {"do": "text", "text": "Done.", "when": "allowed"}]);
    let mut terminal = Terminal::run(&home, &["run", &prompt(&script)]);
    terminal.until("Allow Write a? [y]es, [a]lways, [n]o, [s]top: ", 1);
    assert!(!terminal.shown().contains("[run]"), "{}", terminal.shown());
    assert!(!home.path("work/a").exists());
    terminal.types("perhaps");
    // What cannot be understood is asked for again.
    terminal.until("Allow Write a?", 2);
    terminal.types("y");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("[allow once] by client") && shown.contains("Done."), "{shown}");
    assert_eq!(read(&home.path("work/a")), "t");
}

#[test]
fn a_refusal_is_heard_and_the_turn_goes_on() {
    let home = Home::new();
    let script = json!([writes("a"), {"do": "text", "text": "As you like.", "when": "rejected"}]);
    let mut terminal = Terminal::run(&home, &["run", &prompt(&script)]);
    terminal.until("Allow Write a?", 1);
    terminal.types("n");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("[reject] by client") && shown.contains("As you like."), "{shown}");
    assert!(!home.path("work/a").exists());
}

#[test]
fn a_refusal_that_stops_cancels_the_turn() {
    let home = Home::new();
    let script = json!([writes("a"), {"do": "stall"}]);
    let mut terminal = Terminal::run(&home, &["run", &prompt(&script)]);
    terminal.until("Allow Write a?", 1);
    terminal.types("s");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(130), "{shown}");
    assert!(shown.contains("[cancelling] by client"), "{shown}");
    assert!(!home.path("work/a").exists());
}

#[test]
fn several_asks_and_a_question_are_asked_one_after_the_other() {
    let home = Home::new();
    let question = json!({"do": "question", "questions": [{"id": "0", "text": "Which one?",
        "options": [{"label": "PG"}, {"label": "Lite"}]}]});
    let script = json!([{"do": "at_once", "steps": [writes("a"), writes("b"), question]}]);
    let mut terminal = Terminal::run(&home, &["run", &prompt(&script)]);
    terminal.until("Allow Write a?", 1);
    terminal.types("y");
    terminal.until("Allow Write b?", 1);
    terminal.types("n");
    terminal.until("  2. Lite", 1);
    terminal.types("3");
    terminal.until("  2. Lite", 2);
    terminal.types("2");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(home.path("work/a").exists() && !home.path("work/b").exists(), "{shown}");
    let listed = home.run(&["sessions", "--json"]);
    let session: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let log = home.run(&["tail", session["id"].as_str().unwrap(), "--json", "--no-follow"]);
    assert!(String::from_utf8(log.stdout).unwrap().contains(r#""answers":{"0":["Lite"]}"#));
}

/// The second answer is in the terminal's buffer before there is a second ask.
#[test]
fn what_is_typed_before_an_ask_is_no_answer_to_it() {
    let home = Home::new();
    let mut terminal = Terminal::run(&home, &["run", &prompt(&json!([writes("a"), writes("b")]))]);
    terminal.until("Allow Write a?", 1);
    terminal.types("y\ny");
    terminal.until("Allow Write b?", 1);
    terminal.types("n");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(shown.matches("[allow once] by client").count(), 1, "{shown}");
    assert!(shown.contains("[reject] by client"), "{shown}");
    assert!(home.path("work/a").exists() && !home.path("work/b").exists(), "{shown}");
}

/// The prompt waits behind a turn that stalls, so that the key is pressed long before its ask.
#[test]
fn a_key_pressed_while_the_prompt_waits_approves_nothing() {
    let home = Home::new();
    let serving = home.serve(&[]);
    let session = json!({"agent": "scripted", "cwd": home.path("work")});
    let (_, session) = ask(&serving.address, "POST", "/v1/sessions", &session);
    let id = session["id"].as_str().unwrap().to_owned();
    let path = |rest: &str| format!("/v1/sessions/{id}/{rest}");
    let stalls = prompt(&json!([{"do": "stall"}]));
    let content = json!({"content": [{"type": "text", "text": stalls}]});
    ask(&serving.address, "POST", &path("prompts"), &content);
    let mut terminal = Terminal::run(&home, &["run", &prompt(&json!([writes("a")])), "--session", &id]);
    wait_for(|| {
        let (_, snapshot) = ask(&serving.address, "GET", &path("snapshot"), &json!({}));
        Some(()).filter(|()| snapshot["queue"].as_array().is_some_and(|queue| !queue.is_empty()))
    });
    terminal.until("waiting for the agent", 1);
    terminal.types("y");
    let (head, answer) = ask(&serving.address, "POST", &path("cancel"), &json!({}));
    assert!(head.starts_with("http/1.1 202"), "{answer}");
    terminal.until("Allow Write a?", 1);
    terminal.types("n");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("[reject] by client") && !shown.contains("[allow once]"), "{shown}");
    assert!(!home.path("work/a").exists());
}

#[test]
fn an_ask_shows_the_whole_input_and_what_always_covers_and_only_then_it_runs() {
    let home = Home::new();
    let command = format!("rm -rf {}\necho \u{1b}[2Jdone", "long/".repeat(60));
    let tool = json!({"do": "tool", "ask": true, "name": "bash", "title": "Clean up",
        "input": {"command": command, "timeout": 5}, "output": ["gone\n"]});
    let mut terminal = Terminal::run(&home, &["run", &prompt(&json!([tool]))]);
    terminal.until("Allow Clean up?", 1);
    let shown = terminal.shown();
    let joined = shown.replace("\r\n  |     ", "");
    assert_eq!(joined.matches("long/").count(), 60, "{shown}");
    assert!(shown.contains("echo \\u{1b}[2Jdone") && shown.contains("| timeout: 5"), "{shown}");
    assert!(shown.contains("always: Always allow"), "{shown}");
    assert!(!shown.contains("[run]") && !shown.contains("view all"), "{shown}");
    terminal.types("y");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    let run = shown.find("[run] Clean up").unwrap();
    assert!(shown.find("[allow once] by client").unwrap() < run, "{shown}");
}

#[test]
fn a_long_input_is_folded_and_a_key_shows_all_of_it() {
    let home = Home::new();
    let text: String = (1..=99).map(|at| format!("row-{at}-\n")).collect();
    let tool = json!({"do": "tool", "ask": true, "title": "Long", "input": {"text": text}});
    let mut terminal = Terminal::run(&home, &["run", &prompt(&json!([tool]))]);
    terminal.until("Allow Long? [y]es, [a]lways, [n]o, [s]top, [v]iew all: ", 1);
    let shown = terminal.shown();
    assert!(shown.contains("row-1-") && shown.contains("row-99-") && !shown.contains("row-50-"), "{shown}");
    assert!(shown.contains("60 more lines; v shows all"), "{shown}");
    terminal.types("v");
    terminal.until("Allow Long?", 2);
    assert!((1..=99).all(|at| terminal.shown().contains(&format!("row-{at}-"))), "{}", terminal.shown());
    terminal.types("n");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
}

#[test]
fn with_permissions_allow_nobody_is_asked() {
    let home = Home::new();
    let terminal = Terminal::run(&home, &["run", &prompt(&json!([writes("a")])), "--permissions", "allow"]);
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains("Allow ") && !shown.contains("[ask]"), "{shown}");
    assert!(shown.contains("[allow once] by policy") && shown.contains("[run] Write a"), "{shown}");
    assert_eq!(read(&home.path("work/a")), "t");
}

#[test]
fn on_a_terminal_the_answer_streams_and_what_is_void_is_marked() {
    let home = Home::new();
    let script = json!([{"do": "attempt", "model": "m"}, {"do": "text", "text": "This is void", "unfinished": true},
        {"do": "retry", "attempt": 2, "reason": "overloaded", "wait_ms": 1}, {"do": "text", "text": "Second try."}]);
    let (code, shown) = Terminal::run(&home, &["run", &prompt(&script)]).end();
    assert_eq!(code, Some(0), "{shown}");
    let places = ["This is void", "[retrying] after overloaded", "is void)", "Second try."];
    let places: Vec<usize> = places.iter().map(|words| shown.find(words).expect(words)).collect();
    assert!(places.is_sorted(), "{shown}");
}

#[test]
fn attach_shows_the_open_turn_answers_what_waits_and_leaves_the_session_alone() {
    let home = Home::new();
    let _serving = home.serve(&[]);
    let script = json!([{"do": "text", "text": "Before."}, writes("a"), {"do": "text", "text": "After."},
        writes("b"), {"do": "text", "text": "Done.", "when": "rejected"}]);
    // Nobody is at its terminal.
    let run = home.command(&["run", &prompt(&script), "--permissions", "ask"]).spawn().unwrap();
    let id = wait_for(|| {
        let listed: Value = serde_json::from_slice(&home.run(&["sessions", "--json"]).stdout).ok()?;
        Some(listed["id"].as_str()?.to_owned()).filter(|_| listed["status"] == "waiting")
    });
    let mut terminal = Terminal::run(&home, &["attach", &id]);
    terminal.until("Allow Write a? [y]es", 1);
    assert!(terminal.shown().contains("Before."), "{}", terminal.shown());
    assert!(terminal.shown().contains("| text: t"), "{}", terminal.shown());
    terminal.types("y");
    terminal.until("Allow Write b?", 1);
    assert!(terminal.shown().contains("After."), "{}", terminal.shown());
    terminal.types("n");
    terminal.until("completed", 1);
    let done = run.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert_eq!(stdout(&done), "Before.\nAfter.\nDone.\n");
    assert!(home.path("work/a").exists() && !home.path("work/b").exists());
    crate::support::send(&terminal.child, rustix::process::Signal::INT);
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(130), "{shown}");
}

#[test]
fn with_json_an_ask_still_shows_what_the_call_was_given() {
    let home = Home::new();
    let mut terminal = Terminal::run(&home, &["run", &prompt(&json!([writes("a")])), "--json"]);
    terminal.until("Allow Write a?", 1);
    assert!(terminal.shown().contains("| path: a"), "{}", terminal.shown());
    terminal.types("y");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    let last = shown.lines().last().unwrap();
    assert_eq!(serde_json::from_str::<Value>(last).unwrap()["type"], "turn.ended", "{shown}");
    assert_eq!(read(&home.path("work/a")), "t");
}

#[test]
fn help_is_wrapped_to_the_terminal() {
    let home = Home::new();
    for command in ["run", "tail", "search", "inspect", "attach"] {
        let (code, shown) = Terminal::sized(&home, &[command, "--help"], 50).end();
        assert_eq!(code, Some(0), "{shown}");
        // A word that is longer than a line cannot be wrapped.
        let is_long = |line: &&str| line.chars().count() > 50 && line.trim().contains(' ');
        let long: Vec<&str> =
            shown.lines().filter(is_long).filter(|line| !line.contains("TURNSTREAM_")).collect();
        assert_eq!(long, Vec::<&str>::new());
    }
}
