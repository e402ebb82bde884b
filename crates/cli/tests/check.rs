//! `turnstream check` as a person runs it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// A whole session: one turn, everything closed.
const GOOD: &str = r#"{"turnstream":"log","version":1}
{"seq":1,"time":1,"type":"session.created","session":"s","agent":"a","cwd":"/w"}
{"seq":2,"time":1,"type":"prompt.accepted","prompt":"p1","content":[{"type":"text","text":"Hi"}]}
{"seq":3,"time":1,"type":"prompt.sent","prompt":"p1"}
{"seq":4,"time":1,"type":"turn.started","turn":"t1","origin":"prompt","prompts":["p1"]}
{"seq":5,"time":1,"type":"prompt.taken","turn":"t1","prompt":"p1"}
{"seq":6,"time":1,"type":"turn.ended","turn":"t1","outcome":"completed","stop_reason":"end_turn"}
"#;

fn check(log: &str, args: &[&str]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_turnstream"))
        .arg("check")
        .args(args)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    child.stdin.take().expect("a pipe").write_all(log.as_bytes()).expect("it reads its input");
    child.wait_with_output().expect("it ends")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8 output")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8 output")
}

#[test]
fn a_good_log_passes() {
    let output = check(GOOD, &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(stdout(&output), "6 events, 1 turn: no law broken\n");
}

#[test]
fn every_violation_is_named_with_its_line_and_the_exit_code_is_1() {
    let twice = format!("{GOOD}{}", r#"{"seq":8,"time":1,"type":"turn.ended","turn":"t1","outcome":"lost"}"#);
    let output = check(&twice, &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let expected = "line 8, seq 8: seq: 8 follows 6\n\
                    line 8, seq 8: L1 one end: turn t1 ended twice\n\
                    7 events, 1 turn: 2 violations\n";
    assert_eq!(stdout(&output), expected);
}

#[test]
fn an_open_turn_is_allowed_only_of_a_live_session() {
    let open = GOOD.lines().take(6).collect::<Vec<_>>().join("\n");
    let output = check(&open, &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stdout(&output).contains("turn t1 never ended"), "{output:?}");
    assert_eq!(check(&open, &["--live"]).status.code(), Some(0));
}

#[test]
fn json_lines_are_for_programs_and_nothing_acts_on_a_terminal() {
    let hostile =
        "{\"seq\":1,\"time\":1,\"type\":\"turn.ended\",\"turn\":\"\\u001b[2J\u{9b}\",\"outcome\":\"lost\"}\n";
    let output = check(hostile, &["--json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    for line in stdout(&output).lines() {
        let violation: serde_json::Value = serde_json::from_str(line).expect("a JSON line");
        assert_eq!(violation["line"], 1);
    }
    assert!(stderr(&output).contains("violation"), "{output:?}");
    let text = check(hostile, &[]);
    assert!(!stdout(&text).contains('\u{1b}') && !stdout(&text).contains('\u{9b}'), "{text:?}");
}

#[test]
fn what_cannot_be_read_is_refused_with_exit_code_2() {
    let refused = |output: &Output, says: &str| {
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(output).contains(says), "{output:?}");
    };
    refused(&check("", &[]), "standard input is empty");
    refused(&check("\0\0", &[]), "looks like a binary file");
    let missing = Command::new(env!("CARGO_BIN_EXE_turnstream"))
        .args(["check", "no-such-file.ndjson"])
        .output()
        .expect("the binary runs");
    refused(&missing, "cannot read no-such-file.ndjson");
}

#[test]
fn rubbish_is_a_violation_and_no_panic() {
    let long = "x".repeat(100_000);
    let output = check(&format!("rubbish\n\n[]\n\u{feff}{{}}\n\"{long}\"\n"), &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stdout(&output).contains("line 1: shape: not JSON"), "{output:?}");
    assert!(stdout(&output).len() < 2_000, "a message shows the beginning of a value, not all of it");
}

#[test]
fn a_byte_order_mark_and_blank_lines_are_no_violation_and_bad_utf8_is() {
    assert_eq!(check(&format!("\u{feff}{GOOD}\n\n"), &[]).status.code(), Some(0));
    let mut child = Command::new(env!("CARGO_BIN_EXE_turnstream"))
        .args(["check", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let broken = b"{\"seq\":1,\"time\":1,\"type\":\"session.created\",\"session\":\"\xff\",\"agent\":\"a\",\"cwd\":\"/\"}\n";
    child.stdin.take().expect("a pipe").write_all(broken).expect("it reads its input");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stdout(&output).contains("not UTF-8 from byte 54"), "{output:?}");
}

#[test]
fn a_stream_is_told_from_a_log() {
    let output = check("data: {}\n\n", &[]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(stderr(&output).contains("turnstream inspect"), "{output:?}");
}
