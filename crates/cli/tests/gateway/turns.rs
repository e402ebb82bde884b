//! One turn on a terminal that is none.

use crate::support::{Home, prompt, read, send, stderr, stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs::File;
use turnstream_testkit::lawful::{Tail, assert_lawful};

#[test]
fn the_answer_is_on_standard_output_and_everything_else_beside_it() {
    let home = Home::new();
    let script = json!([
        {"do": "reasoning", "text": "Hm."},
        {"do": "text", "text": "An answer."},
        {"do": "tool", "title": "Write a", "effect": {"write": {"path": "a", "text": "t"}}},
        {"do": "usage", "usage": {"input": 10, "output": 3}},
    ]);
    // No gateway runs: the command has its own.
    let turn = home.play(&script, &[]);
    assert_eq!(turn.status.code(), Some(0), "{turn:?}");
    assert_eq!(stdout(&turn), "An answer.\n");
    let (first, rest) = stderr(&turn).split_once('\n').unwrap();
    assert_eq!(rest, "Hm.\n[run] Write a\n[ok] Write a\ncompleted · tokens: 10 in, 3 out\n");
    assert!(!home.path("data/gateway.json").exists());

    let listed = home.run(&["sessions"]);
    assert_eq!(listed.status.code(), Some(0), "{listed:?}");
    let lines: Vec<&str> = stdout(&listed).lines().collect();
    assert!(lines[0].starts_with("SESSION "), "{lines:?}");
    assert!(lines[1].contains("scripted") && lines[1].contains("idle"), "{lines:?}");
    let id = lines[1].split(' ').next().unwrap();
    assert_eq!(first, format!("session {id}, agent scripted; {}", home.hosted()));

    let tail = home.run(&["tail", id, "--no-follow"]);
    let shown = stdout(&tail);
    assert!(shown.contains("Hm.\nAn answer.\n[run] Write a\n[ok] Write a\ncompleted"), "{shown}");
    assert_eq!(stderr(&tail), format!("{}\n", home.hosted()));
    let json = home.run(&["tail", id, "--no-follow", "--json"]);
    assert_lawful(stdout(&json).lines(), Tail::Settled);
    let after = home.run(&["tail", id, "--no-follow", "--json", "--after", "3"]);
    let rest: Vec<&str> = stdout(&json).lines().skip(3).collect();
    assert_eq!(stdout(&after).lines().collect::<Vec<_>>(), rest);
}

#[test]
fn the_exit_code_is_the_outcome() {
    let home = Home::new();
    let failed = home.play(&json!([{"do": "fail", "class": "overloaded", "message": "too busy"}]), &[]);
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert!(stderr(&failed).contains("failed · overloaded: too busy"), "{failed:?}");
    for end in [json!({"do": "crash", "message": "it died"}), json!({"do": "vanish"})] {
        let lost = home.play(&json!([{"do": "text", "text": "half"}, end]), &[]);
        assert_eq!(lost.status.code(), Some(3), "{lost:?}");
        assert!(stderr(&lost).contains("lost · agent_exited"), "{lost:?}");
    }
    for (args, told) in [
        (&["run", " "][..], "the prompt is empty"),
        (&["run", "x", "--agent", "nobody"], "there is no agent \"nobody\""),
        (&["run", "x", "--session", "ses_nope"], "there is no session ses_nope"),
        (&["run", "x", "--cwd", "nowhere"], "nowhere"),
        (&["tail", "ses_nope"], "there is no session ses_nope"),
        (&["run", "x", "--url", "http://127.0.0.1:1"], "does not answer"),
        (&["run"], "PROMPT"),
    ] {
        let refused = home.run(args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {refused:?}");
        assert!(stderr(&refused).contains(told), "{args:?}: {refused:?}");
    }
}

#[test]
fn ctrl_c_cancels_the_turn() {
    let home = Home::new();
    let _serving = home.serve(&[]);
    let stalled = prompt(&json!([{"do": "text", "text": "begun"}, {"do": "stall"}]));
    let out = home.path("run.out");
    let mut command = home.command(&["run", &stalled, "--json"]);
    let mut run = command.stdout(File::create(&out).unwrap()).spawn().unwrap();
    wait_for(|| Some(()).filter(|()| read(&out).contains("begun")));
    send(&run, Signal::INT);
    assert_eq!(run.wait().unwrap().code(), Some(130));
    let lines = read(&out);
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&last["type"], &last["outcome"]), (&json!("turn.ended"), &json!("cancelled")));
    assert_lawful(lines.lines(), Tail::Live);
}

#[test]
fn asks_are_refused_without_a_terminal_unless_told_otherwise() {
    let home = Home::new();
    let script = json!([{"do": "tool", "ask": true, "title": "Write a", "effect": {"write": {"path": "a", "text": "t"}}},
        {"do": "question", "questions": [{"id": "0", "text": "DB?", "options": [{"label": "PG"}]}]}]);
    let denied = home.play(&script, &[]);
    assert_eq!(denied.status.code(), Some(0), "{denied:?}");
    assert!(stderr(&denied).contains("[reject] by policy"), "{denied:?}");
    assert!(stderr(&denied).contains("[rejected]"), "{denied:?}");
    assert!(!home.path("work/a").exists());
    let allowed = home.play(&script, &["--permissions", "allow"]);
    assert_eq!(allowed.status.code(), Some(0), "{allowed:?}");
    assert_eq!(read(&home.path("work/a")), "t");
}

#[test]
fn nothing_an_agent_says_acts_on_the_terminal() {
    let home = Home::new();
    let turn = home.play(
        &json!([{"do": "text", "text": "a\u{1b}[2Jb\u{9b}c\nd\u{202e}"}, {"do": "tool", "title": "T\u{1b}]0;x\u{7}"}]),
        &[],
    );
    assert_eq!(stdout(&turn), "a\\u{1b}[2Jb\\u{9b}c\nd\\u{202e}\n");
    assert!(stderr(&turn).contains("[run] T\\u{1b}]0;x\\u{7}"), "{turn:?}");
    let json = home.play(&json!([{"do": "text", "text": "\u{9b}"}]), &["--json"]);
    assert!(!stdout(&json).contains('\u{9b}') && stdout(&json).contains("\\u009b"));
}
