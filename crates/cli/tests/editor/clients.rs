//! Clients of the protocol that others wrote: acpx, and the official TypeScript SDK in an editor stand-in.

use crate::support::{Home, is_full, prompt, stderr, stdout, wait_for};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The folder of `cargo xtask agents`.
fn installed() -> PathBuf {
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/agents");
    std::env::var_os("TURNSTREAM_AGENTS").map_or(usual, PathBuf::from)
}

/// The clients from npm.
fn clients() -> PathBuf {
    installed().join("acp-clients")
}

/// The command line of the agent under test, for a client that starts it.
fn agent(more: &str) -> String {
    format!("{} acp{more}", env!("CARGO_BIN_EXE_turnstream"))
}

/// A command of a client, with the environment of the home. Node is on the `PATH`.
fn command(home: &Home, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(home.path("work")).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).env_clear();
    command.env("HOME", home.path("")).env("TURNSTREAM_DATA", home.path("data"));
    command.env("TURNSTREAM_DISCOVER", "false");
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// acpx, which keeps its own sessions in the home.
struct Acpx<'a>(&'a Home);

impl Acpx<'_> {
    fn command(&self, flags: &[&str], words: &[&str]) -> Command {
        let mut command = command(self.0, &clients().join("node_modules/.bin/acpx"));
        command.arg("--cwd").arg(self.0.path("work")).args(["--format", "json", "--no-fs", "--no-terminal"]);
        command.args(flags).args(["--agent", &agent("")]).args(words);
        command
    }

    fn run(&self, flags: &[&str], words: &[&str]) -> Output {
        self.command(flags, words).output().unwrap()
    }
}

/// The messages that acpx printed.
fn messages(output: &Output) -> Vec<Value> {
    stdout(output).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The result of the prompt.
fn stop_reason(output: &Output) -> Value {
    let messages = messages(output);
    let stop = messages.iter().rev().find_map(|message| message["result"].get("stopReason"));
    stop.cloned().unwrap_or_else(|| panic!("no answer to the prompt: {output:?}"))
}

fn text(output: &Output) -> String {
    let is_text = |update: &Value| update["sessionUpdate"] == "agent_message_chunk";
    let messages = messages(output);
    let updates =
        messages.iter().map(|message| &message["params"]["update"]).filter(|update| is_text(update));
    updates.filter_map(|update| update["content"]["text"].as_str()).collect()
}

fn asking() -> String {
    prompt(&json!([
        {"do": "tool", "title": "Write a", "ask": true, "effect": {"write": {"path": "a", "text": "t"}}},
        {"do": "text", "text": "Written.", "when": "allowed"},
        {"do": "text", "text": "Not written.", "when": "rejected"},
    ]))
}

#[test]
fn acpx_prompts_and_its_exit_codes_follow_the_permissions() {
    let home = Home::new();
    let _serving = home.serve(&[]);
    let acpx = Acpx(&home);
    let plain = acpx.run(&[], &["exec", &prompt(&json!([{"do": "text", "text": "Hello."}]))]);
    assert_eq!(plain.status.code(), Some(0), "{plain:?}");
    assert_eq!((stop_reason(&plain), text(&plain)), (json!("end_turn"), "Hello.".to_owned()));
    for (flags, code, stop, words) in [
        (&["--approve-all"][..], 0, "end_turn", "Written."),
        (&["--deny-all"], 5, "end_turn", "Not written."),
        (&["--non-interactive-permissions", "fail"], 5, "cancelled", ""),
    ] {
        let done = acpx.run(flags, &["exec", &asking()]);
        assert_eq!(done.status.code(), Some(code), "{flags:?}: {done:?}");
        assert_eq!((stop_reason(&done), text(&done)), (json!(stop), words.to_owned()), "{flags:?}");
    }
    let failed = prompt(&json!([{"do": "fail", "class": "auth", "message": "no key"}]));
    let failed = acpx.run(&[], &["exec", &failed]);
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert!(stdout(&failed).contains("no key"), "{failed:?}");
    let late = acpx.run(&["--timeout", "5"], &["exec", &prompt(&json!([{"do": "stall"}]))]);
    assert_eq!(late.status.code(), Some(3), "{late:?}");
}

/// Ends the process that acpx keeps for a session.
struct Owner<'a>(&'a Home);

impl Drop for Owner<'_> {
    fn drop(&mut self) {
        // The test has its verdict.
        drop(Acpx(self.0).command(&[], &["sessions", "close", "main"]).output());
    }
}

#[test]
fn acpx_keeps_a_session_cancels_a_turn_and_resumes_a_session_by_its_id() {
    let home = Home::new();
    let _serving = home.serve(&[]);
    let made = home.play(&json!([{"do": "text", "text": "Earlier."}]), &[]);
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let id = stderr(&made).split([' ', ',']).nth(1).unwrap().to_owned();
    let acpx = Acpx(&home);
    let _owner = Owner(&home);
    let attached = acpx.run(&[], &["sessions", "new", "--name", "main", "--resume-session", &id]);
    assert_eq!(attached.status.code(), Some(0), "{attached:?}");
    let next = acpx.run(&[], &["prompt", "-s", "main", &prompt(&json!([{"do": "text", "text": "Next."}]))]);
    assert_eq!(next.status.code(), Some(0), "{next:?}");
    assert_eq!((stop_reason(&next), text(&next)), (json!("end_turn"), "Next.".to_owned()), "no history");
    let log = home.run(&["tail", &id, "--no-follow"]);
    assert!(stdout(&log).contains("Earlier.") && stdout(&log).contains("Next."), "{log:?}");

    let stalled = prompt(&json!([{"do": "text", "text": "begun"}, {"do": "stall"}]));
    let running: Child = acpx.command(&[], &["prompt", "-s", "main", &stalled]).spawn().unwrap();
    wait_for(|| {
        let log = home.run(&["tail", &id, "--no-follow"]);
        Some(()).filter(|()| stdout(&log).contains("begun"))
    });
    let cancelled = acpx.run(&[], &["cancel", "-s", "main"]);
    assert_eq!(cancelled.status.code(), Some(0), "{cancelled:?}");
    let running = running.wait_with_output().unwrap();
    assert_eq!((running.status.code(), stop_reason(&running)), (Some(0), json!("cancelled")), "{running:?}");
}

/// Runs `examples/editor`. Node finds packages beside the file.
fn editor(home: &Home, words: &[&str]) -> Output {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/editor/editor.mjs");
    let copy = home.path("editor.mjs");
    if !copy.exists() {
        std::fs::copy(source, &copy).unwrap();
        std::os::unix::fs::symlink(clients().join("node_modules"), home.path("node_modules")).unwrap();
    }
    let mut command = command(home, "node".as_ref());
    command.arg(copy).args(words).args(["--", env!("CARGO_BIN_EXE_turnstream"), "acp"]);
    command.output().unwrap()
}

#[test]
fn the_editor_stand_in_drives_turns_with_the_official_sdk() {
    let home = Home::new();
    let _serving = home.serve(&[]);
    let plain = editor(&home, &[&prompt(&json!([{"do": "text", "text": "Hello."}]))]);
    assert_eq!((plain.status.code(), stdout(&plain)), (Some(0), "Hello.\n"), "{plain:?}");
    let said = stderr(&plain).to_owned();
    assert!(said.ends_with("end_turn\n"), "{said}");
    let id = said.lines().find_map(|line| line.strip_prefix("session ")).unwrap().to_owned();
    // Another process goes on with it: first it gets what was said.
    let loaded = editor(&home, &["--session", &id, "--permit", "allow_once", &asking()]);
    assert_eq!((loaded.status.code(), stdout(&loaded)), (Some(0), "Hello.Written.\n"), "{loaded:?}");
    assert!(stderr(&loaded).contains("[completed]"), "{loaded:?}");
    let stalled = prompt(&json!([{"do": "text", "text": "begun"}, {"do": "stall"}]));
    let cancelled = editor(&home, &["--cancel-at", "begun", &stalled]);
    assert!(stderr(&cancelled).ends_with("cancelled\n"), "{cancelled:?}");
    let question = prompt(&json!([
        {"do": "question", "questions": [{"id": "0", "text": "DB?", "options": [{"label": "PG"}], "multiple": false, "custom": false}]},
        {"do": "text", "text": "Thanks.", "when": "allowed"},
    ]));
    let answered = editor(&home, &["--answer", r#"{"0":"PG"}"#, &question]);
    assert_eq!((answered.status.code(), stdout(&answered)), (Some(0), "Thanks.\n"), "{answered:?}");
    let failed = editor(&home, &[&prompt(&json!([{"do": "fail", "class": "auth", "message": "no key"}]))]);
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert!(stderr(&failed).contains("no key"), "{failed:?}");
}

/// The Python SDK, in a full run.
#[test]
fn the_python_sdk_drives_a_turn() {
    if !is_full() {
        return;
    }
    let home = Home::new();
    let _serving = home.serve(&[]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/editor/python_sdk.py");
    let mut command = command(&home, "python3".as_ref());
    command.arg(script).arg(home.path("work")).arg(prompt(&json!([{"do": "text", "text": "Hello."}])));
    command.args([env!("CARGO_BIN_EXE_turnstream"), "acp"]).env("PYTHONPATH", installed().join("acp-python"));
    let done = command.output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert_eq!(stdout(&done), "Hello.\nend_turn\n");
}
