//! The real binary on captured files and on damaged ones.

use serde_json::Value;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn turnstream(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_turnstream"));
    command.args(args);
    command
}

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name);
    path.to_str().expect("a UTF-8 path").to_owned()
}

fn run(args: &[&str]) -> Output {
    turnstream(args).output().expect("the binary runs")
}

/// Runs it with these bytes on standard input.
fn run_on(input: &[u8], args: &[&str]) -> Output {
    let mut child = turnstream(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    child.stdin.take().expect("a pipe").write_all(input).expect("it reads its input");
    child.wait_with_output().expect("it ends")
}

#[track_caller]
fn stdout(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).expect("UTF-8 output")
}

#[track_caller]
fn json_lines(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}

/// It must refuse with exit code 2, print nothing, and say this.
#[track_caller]
fn assert_refused(output: &Output, says: &[&str]) {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let message = String::from_utf8_lossy(&output.stderr);
    for part in says {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}

#[test]
fn a_table_shows_events_and_comments_with_their_offsets() {
    let output = run(&["inspect", &fixture("opencode/x-heartbeat.api.sse")]);
    let expected = r#"   offset    length  kind          event or type         id          data
        0        81  event         message                           {"id":"evt_1e0ca048a0012721BAozK1j6Vo","type":"server.connected","data":{}}
       83        11  comment                                         heartbeat
       96        11  comment                                         heartbeat
      109        11  comment                                         heartbeat
1 event, 3 comments, no anomalies, no residue; 122 bytes
"#;
    assert_eq!(stdout(&output), expected);
}

#[test]
fn json_lines_carry_all_data_and_the_summary_goes_to_standard_error() {
    let path = fixture("opencode/o2-one-big-delta.sse");
    let captured = std::fs::read_to_string(&path).expect("the fixture");
    let output = run(&["inspect", "--json", &path]);
    let blocks: Vec<&str> = captured.split_terminator("\n\n").collect();
    let lines = json_lines(&output);
    assert_eq!(lines.len(), blocks.len());
    for (line, block) in lines.iter().zip(&blocks) {
        assert_eq!(line["kind"], "event");
        assert_eq!(line["data"].as_str(), block.strip_prefix("data: "));
        let offset = line["offset"].as_u64().expect("an offset") as usize;
        let length = line["length"].as_u64().expect("a length") as usize;
        assert_eq!(&captured[offset..offset + length], *block);
    }
    let summary = format!("{} events, no anomalies, no residue; {} bytes\n", blocks.len(), captured.len());
    assert_eq!(String::from_utf8_lossy(&output.stderr), summary);
}

#[test]
fn a_stream_cut_in_an_event_shows_the_residue() {
    let captured = std::fs::read(fixture("opencode/a-plain.sse")).expect("the fixture");
    let output = run_on(&captured[..captured.len() - 40], &["inspect", "--json", "-"]);
    let lines = json_lines(&output);
    let residue = lines.last().expect("some lines");
    assert_eq!((&residue["kind"], &residue["cut"]), (&Value::from("residue"), &Value::from("within a line")));
    let raw = residue["raw"].as_str().expect("the bytes left");
    assert!(captured[..captured.len() - 40].ends_with(raw.as_bytes()));
}

#[test]
fn an_html_page_is_a_table_of_anomalies() {
    let output = run_on(b"<!DOCTYPE html>\n<html>\n</html>\n", &["inspect", "-"]);
    assert_eq!(stdout(&output).matches("not a field").count(), 3);
    assert!(stdout(&output).ends_with("3 anomalies, no residue; 31 bytes\n"));
}

#[test]
fn ndjson_is_recognised_and_each_line_says_its_type_or_method() {
    let output = run(&["inspect", "--json", &fixture("codex/f_401.ndjson")]);
    let lines = json_lines(&output);
    assert_eq!((&lines[0]["type"], &lines[0]["id"]), (&Value::from("initialize"), &Value::from("0")));
    assert!(lines.iter().any(|line| line["type"] == "turn/completed"));
    for name in ["claude/g_cut_fin_then_ok.ndjson", "claude/k_sigterm_mid_turn.ndjson"] {
        let path = fixture(name);
        let captured = std::fs::read_to_string(&path).expect("the fixture");
        let output = run(&["inspect", "--json", &path]);
        let lines = json_lines(&output);
        assert_eq!(lines.len(), captured.lines().count(), "{name}");
        for (line, text) in lines.iter().zip(captured.lines()) {
            assert_eq!(line["kind"], "line", "{name}");
            assert_eq!(line["value"], serde_json::from_str::<Value>(text).expect("captured JSON"), "{name}");
            assert_eq!(line["type"], line["value"]["line"]["type"], "{name}");
            let offset = line["offset"].as_u64().expect("an offset") as usize;
            assert!(captured[offset..].starts_with(text), "{name}");
        }
    }
}

#[test]
fn a_damaged_ndjson_file_shows_what_is_not_json_and_what_was_cut() {
    let captured = std::fs::read_to_string(fixture("claude/k_sigterm_mid_turn.ndjson")).expect("the fixture");
    let mut lines = captured.lines();
    let (first, second) = (lines.next().expect("a line"), lines.next().expect("another"));
    let damaged = format!("{first}\nWarning: retrying\r\n\n{}", &second[..30]);
    let output = run_on(damaged.as_bytes(), &["inspect", "--json", "-"]);
    let shown = json_lines(&output);
    let kinds: Vec<&Value> = shown.iter().map(|line| &line["kind"]).collect();
    assert_eq!(kinds, ["line", "anomaly", "residue"]);
    assert_eq!(shown[1]["raw"], "Warning: retrying");
    assert_eq!(shown[2]["offset"], first.len() + 1 + 19 + 1);
    // A last line that is whole only lacks its line ending.
    let output = run_on(first.as_bytes(), &["inspect", "--json", "-"]);
    assert_eq!(json_lines(&output)[0]["kind"], "line");
}

#[test]
fn the_format_can_be_forced() {
    let body = br#"{"error":{"message":"quota exceeded"}}"#;
    let as_lines = run_on(body, &["inspect", "--json", "-"]);
    assert_eq!(json_lines(&as_lines)[0]["kind"], "line");
    let as_events = run_on(body, &["inspect", "--json", "--format", "sse", "-"]);
    assert_eq!(json_lines(&as_events)[0]["kind"], "residue");
    let nul = run_on(b"data: a\0b\n\n", &["inspect", "--json", "--format", "sse", "-"]);
    assert_eq!(json_lines(&nul)[0]["data"], "a\0b");
}

#[test]
fn escape_sequences_in_data_do_not_reach_the_terminal() {
    let hostile =
        "event: \x1B[31m\nid: \x1B]0;owned\x07\ndata: \x1B[2J\u{9B}2J\u{202E}\n\n: \x1B[0m\n\x1Bjunk\n";
    for args in [&["inspect", "-"][..], &["inspect", "--json", "-"]] {
        let output = run_on(hostile.as_bytes(), args);
        let text = stdout(&output);
        let acting = |c: char| (c.is_control() && c != '\n') || c == '\u{202E}';
        assert!(!text.contains(acting), "{text:?}");
    }
    let output = run_on(hostile.as_bytes(), &["inspect", "--json", "-"]);
    assert_eq!(json_lines(&output)[0]["data"], "\x1B[2J\u{9B}2J\u{202E}", "and the data is still exact");
}

#[test]
fn a_missing_file_is_named() {
    assert_refused(&run(&["inspect", "no/such/file.sse"]), &["no/such/file.sse", "No such file"]);
}

#[test]
fn a_folder_is_refused() {
    assert_refused(&run(&["inspect", env!("CARGO_MANIFEST_DIR")]), &["Is a directory"]);
}

#[test]
fn an_empty_file_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path: PathBuf = folder.path().join("empty.sse");
    std::fs::write(&path, b"").expect("a writable folder");
    assert_refused(&run(&["inspect", path.to_str().expect("UTF-8")]), &["empty.sse is empty"]);
    assert_refused(&run_on(b"", &["inspect", "-"]), &["standard input is empty"]);
}

#[test]
fn a_binary_file_is_refused_with_the_way_out() {
    let binary = env!("CARGO_BIN_EXE_turnstream");
    assert_refused(&run(&["inspect", binary]), &[binary, "binary file", "--format sse"]);
    assert_refused(&run_on(b"\x1F\x8B\x08\x08rest", &["inspect", "-"]), &["gzip -dc"]);
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    for args in [&["inspect"][..], &["inspect", "--json"]] {
        let mut child = turnstream(args)
            .arg("-")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut output = child.stdout.take().expect("a pipe");
        let mut input = child.stdin.take().expect("a pipe");
        let events = std::fs::read(fixture("opencode/c-multistep.sse")).expect("the fixture").repeat(50);
        let writer = std::thread::spawn(move || {
            // It ends before it has read everything.
            let _ = input.write_all(&events);
        });
        output.read_exact(&mut [0; 10]).expect("the beginning of the output");
        drop(output);
        let ended = child.wait_with_output().expect("it ends");
        writer.join().expect("the writer ends");
        assert!(ended.status.success(), "{ended:?}");
        assert!(ended.stderr.is_empty(), "{ended:?}");
    }
}

#[test]
fn bytes_that_are_no_text_are_refused_also_without_a_nul() {
    // A run of a simple generator, without the bytes 0 to 9: nothing about it looks like text.
    let mut state = 7_u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .filter(|byte| *byte > 9)
    .take(5_000)
    .collect();
    assert_refused(&run_on(&noise, &["inspect", "-"]), &["looks like a binary file", "--format"]);
    // A little damage in a stream is what inspect is for.
    let damaged = b"data: caf\xe9 au lait, and enough of it to be text\n\n";
    assert!(run_on(damaged, &["inspect", "-"]).status.success());
}
