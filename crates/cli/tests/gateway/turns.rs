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
    assert!(shown.contains("Hm.\nAn answer.\n[ok] Write a\ncompleted"), "{shown}");
    assert_eq!(stderr(&tail), format!("{}\n", home.hosted()));
    let json = home.run(&["tail", id, "--no-follow", "--json"]);
    assert_lawful(stdout(&json).lines(), Tail::Settled);
    let after = home.run(&["tail", id, "--no-follow", "--json", "--after", "3"]);
    let rest: Vec<&str> = stdout(&json).lines().skip(3).collect();
    assert_eq!(stdout(&after).lines().collect::<Vec<_>>(), rest);
}

#[test]
fn the_exit_code_is_the_outcome_and_the_class_of_the_error() {
    let home = Home::new();
    let failed = home.play(&json!([{"do": "fail", "class": "overloaded", "message": "too busy"}]), &[]);
    assert_eq!(failed.status.code(), Some(31), "{failed:?}");
    assert!(stderr(&failed).contains("failed · overloaded: too busy"), "{failed:?}");
    let auth = home.play(&json!([{"do": "fail", "class": "auth", "message": "no key"}]), &["--json"]);
    assert_eq!(auth.status.code(), Some(36), "{auth:?}");
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
        (&["sessions", "--url", "nonsense"], "\"nonsense\" cannot be used"),
        (&["tail", "ses_1", "--url", "ftp://x"], "\"ftp://x\" cannot be used"),
        (&["tail", "ses_nope"], "there is no session ses_nope"),
        (&["run"], "PROMPT"),
    ] {
        let refused = home.run(args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {refused:?}");
        assert!(stderr(&refused).contains(told), "{args:?}: {refused:?}");
    }
    for command in [&["run", "x"][..], &["sessions"], &["tail", "ses_1"], &["attach", "ses_1"]] {
        let away = home.run(&[command, &["--url", "http://127.0.0.1:1"]].concat());
        assert_eq!(away.status.code(), Some(4), "{command:?}: {away:?}");
        assert!(stderr(&away).contains("nothing listens there"), "{command:?}: {away:?}");
    }
}

#[test]
fn without_a_terminal_only_what_is_whole_and_not_void_is_the_answer() {
    let home = Home::new();
    let script = json!([
        {"do": "text", "text": "First."},
        {"do": "attempt", "model": "m"},
        {"do": "text", "text": "This is void", "unfinished": true},
        {"do": "retry", "attempt": 2, "reason": "overloaded", "wait_ms": 1},
        {"do": "text", "text": "Second."},
        {"do": "attempt_end", "finish": "stop"},
        {"do": "tool", "title": "Try", "fail": "no luck"},
        {"do": "text", "text": "This is cut", "unfinished": true},
        {"do": "crash", "message": "it died"},
    ]);
    let turn = home.play(&script, &[]);
    assert_eq!(turn.status.code(), Some(3), "{turn:?}");
    assert_eq!(stdout(&turn), "First.\nSecond.\n");
    let told = stderr(&turn);
    for words in
        ["this is void:)\nThis is void\n", "[failed] Try: no luck", "is not whole", "\nThis is cut\n"]
    {
        assert!(told.contains(words), "{words:?} is not in:\n{told}");
    }
    let retrying = told.lines().find(|line| line.starts_with("[retrying]")).unwrap();
    assert!(retrying.starts_with("[retrying] after overloaded, attempt 2, until 20"), "{retrying}");
    assert!(retrying.ends_with(" UTC"), "{retrying}");
}

#[test]
fn what_survives_a_repeated_call_is_printed_before_its_repeat_and_not_called_void() {
    let home = Home::new();
    let script = json!([
        {"do": "attempt", "model": "m"},
        {"do": "text", "text": "First."},
        {"do": "retry", "attempt": 2, "reason": "overloaded", "wait_ms": 1},
        {"do": "text", "text": "Second."},
        {"do": "attempt_end", "finish": "stop"},
    ]);
    let turn = home.play(&script, &[]);
    assert_eq!((turn.status.code(), stdout(&turn)), (Some(0), "First.\nSecond.\n"), "{turn:?}");
    assert!(stderr(&turn).contains("(begun again)") && !stderr(&turn).contains("void"), "{turn:?}");
}

#[test]
fn a_gateway_that_goes_away_is_noticed_and_has_its_own_exit_code() {
    let home = Home::new();
    let serving = home.serve(&[]);
    let stalled = prompt(&json!([{"do": "text", "text": "begun"}, {"do": "stall"}]));
    let (out, errors) = (home.path("run.out"), home.path("run.err"));
    let mut command = home.command(&["run", &stalled, "--json"]);
    command.stdout(File::create(&out).unwrap()).stderr(File::create(&errors).unwrap());
    let mut run = command.spawn().unwrap();
    wait_for(|| Some(()).filter(|()| read(&out).contains("begun")));
    let id = home.run(&["sessions", "--json"]);
    let id: Value = serde_json::from_slice(&id.stdout).unwrap();
    let mut tail = home.command(&["tail", id["id"].as_str().unwrap()]);
    let tail = tail.stdout(File::create(home.path("tail.out")).unwrap()).spawn().unwrap();
    wait_for(|| Some(()).filter(|()| read(&home.path("tail.out")).contains("begun")));
    serving.end(Signal::KILL);
    wait_for(|| Some(()).filter(|()| read(&errors).contains("went away")));
    assert_eq!(run.wait().unwrap().code(), Some(4), "{}", read(&errors));
    let tail = tail.wait_with_output().unwrap();
    assert_eq!(tail.status.code(), Some(4), "{tail:?}");
    assert!(stderr(&tail).contains("went away"), "{tail:?}");
}

#[test]
fn a_second_interrupt_leaves_at_once_although_the_gateway_hangs() {
    let home = Home::new();
    let serving = home.serve(&[]);
    let stalled = prompt(&json!([{"do": "text", "text": "begun"}, {"do": "stall"}]));
    let (out, errors) = (home.path("run.out"), home.path("run.err"));
    let mut command = home.command(&["run", &stalled, "--json"]);
    command.stdout(File::create(&out).unwrap()).stderr(File::create(&errors).unwrap());
    let mut run = command.spawn().unwrap();
    wait_for(|| Some(()).filter(|()| read(&out).contains("begun")));
    send(&serving.child, Signal::STOP);
    send(&run, Signal::INT);
    wait_for(|| Some(()).filter(|()| read(&errors).contains("press Ctrl-C again to leave at once")));
    send(&run, Signal::INT);
    let code = run.wait().unwrap().code();
    send(&serving.child, Signal::CONT);
    assert_eq!(code, Some(130), "{}", read(&errors));
    // Whoever waits for the gateway says that it does not answer.
    assert!(!read(&errors).contains("does not answer"), "{}", read(&errors));
}

#[test]
fn a_prompt_comes_from_standard_input_and_the_session_is_as_it_was_asked_for() {
    let home = Home::new();
    let mut command = home.command(&["run", "-", "--model", "m1", "--title", "A title", "--mode", "plan"]);
    let mut run = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let words = prompt(&json!([{"do": "text", "text": "Read."}]));
    std::io::Write::write_all(&mut run.stdin.take().unwrap(), words.as_bytes()).unwrap();
    let done = run.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert_eq!(stdout(&done), "Read.\n");
    let listed = || -> Value { serde_json::from_slice(&home.run(&["sessions", "--json"]).stdout).unwrap() };
    let session = listed();
    assert_eq!(
        (&session["model"], &session["title"], &session["mode"]),
        (&json!("m1"), &json!("A title"), &json!("plan"))
    );
    let id = session["id"].as_str().unwrap();
    let again = home.play(&json!([]), &["--session", id, "--model", "m2", "--title", "Other"]);
    assert_eq!(again.status.code(), Some(0), "{again:?}");
    let session = listed();
    assert_eq!(
        (&session["model"], &session["title"], &session["mode"]),
        (&json!("m2"), &json!("Other"), &json!("plan"))
    );
    let empty = home.run(&["run", "-"]);
    assert_eq!(empty.status.code(), Some(2), "{empty:?}");
    assert!(stderr(&empty).contains("the prompt is empty"), "{empty:?}");
}

#[test]
fn tail_says_where_a_log_does_not_go_on_from_the_cursor() {
    let home = Home::new();
    home.play(&json!([{"do": "text", "text": "Hi."}]), &[]);
    let listed: Value = serde_json::from_slice(&home.run(&["sessions", "--json"]).stdout).unwrap();
    let id = listed["id"].as_str().unwrap();
    for (after, why) in [("other:3", "made anew"), ("99999", "ends before")] {
        let shown = home.run(&["tail", id, "--no-follow", "--after", after]);
        let first = stdout(&shown).lines().next().unwrap();
        assert!(first.starts_with("[reset] the log") && first.contains(why), "{shown:?}");
        let json = home.run(&["tail", id, "--no-follow", "--json", "--after", after]);
        assert!(stderr(&json).contains("[reset]") && !stdout(&json).contains("[reset]"), "{json:?}");
    }
}

#[test]
fn errors_speak_of_commands_and_flags() {
    let home = Home::new();
    let _serving = home.serve(&["--token", "0123456789abcdef0123456789abcdef"]);
    let told = |args: &[&str], token: &str| {
        let refused = home.command(args).env("TURNSTREAM_TOKEN", token).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {refused:?}");
        let told = stderr(&refused).to_owned();
        for word in
            ["/v1", "GET ", "POST ", "Authorization", "Bearer", "Last-Event", "eserialize", "Some(", "?wait"]
        {
            assert!(!told.contains(word), "{word:?} is in: {told}");
        }
        told
    };
    let right = "0123456789abcdef0123456789abcdef";
    assert!(told(&["sessions"], "wrong-wrong-wrong-wrong-wrong-wrong").contains("TURNSTREAM_TOKEN"));
    for args in [
        &["tail", "ses_nope"][..],
        &["attach", "ses_nope"],
        &["run", "x", "--session", "ses_nope"],
        &["export", "ses_nope"],
        &["search", "x", "--session", "ses_nope"],
    ] {
        assert!(told(args, right).contains("`turnstream sessions` lists those"), "{args:?}");
    }
    assert!(told(&["run", "x", "--cwd", "/"], right).contains("--cwd"));
    let made = home
        .command(&["run", "Hello", "--agent", "scripted"])
        .env("TURNSTREAM_TOKEN", right)
        .output()
        .unwrap();
    let id = stderr(&made).split_whitespace().nth(1).unwrap().trim_end_matches(',').to_owned();
    assert!(told(&["tail", &id, "--after", "g 1"], right).contains("--after"));
    assert!(told(&["search", "x", "--role", "nobody"], right).contains("role"));
    assert!(told(&["search", "x", "--kind", "nothing"], right).contains("kind"));
}

#[test]
fn ctrl_c_cancels_the_turn() {
    let home = Home::new();
    let _serving = home.serve(&[]);
    let stalled = prompt(&json!([{"do": "text", "text": "begun"}, {"do": "stall"}]));
    let out = home.path("run.out");
    let mut command = home.command(&["run", &stalled, "--json"]);
    let mut run = command.stdout(File::create(&out).unwrap()).spawn().unwrap();
    // The prompt has the word too, before there is a turn.
    wait_for(|| Some(()).filter(|()| read(&out).contains("item.delta")));
    send(&run, Signal::INT);
    assert_eq!(run.wait().unwrap().code(), Some(130));
    let lines = read(&out);
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&last["type"], &last["outcome"]), (&json!("turn.ended"), &json!("cancelled")));
    assert_lawful(lines.lines(), Tail::Live);
}

/// What stands before `begin` happens before the turn: the agent has the prompt, and there is no turn to
/// cancel.
#[test]
fn ctrl_c_cancels_a_prompt_that_has_no_turn_yet() {
    let home = Home::new();
    let _serving = home.serve(&[]);
    let stalled =
        prompt(&json!([{"do": "sleep", "ms": 600_000}, {"do": "begin"}, {"do": "text", "text": "begun"}]));
    let out = home.path("run.out");
    let mut command = home.command(&["run", &stalled, "--json"]);
    let mut run = command.stdout(File::create(&out).unwrap()).spawn().unwrap();
    wait_for(|| Some(()).filter(|()| read(&out).contains("prompt.sent")));
    send(&run, Signal::INT);
    assert_eq!(run.wait().unwrap().code(), Some(130));
    let lines = read(&out);
    assert!(lines.contains("prompt.cancelling"), "{lines}");
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
