//! One turn on a real terminal, with a person at it.

use crate::support::{Home, PATIENCE, prompt, read};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A command on a terminal of its own.
struct Terminal {
    child: Child,
    keys: File,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    fn run(home: &Home, args: &[&str]) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let theirs = File::options().read(true).write(true).open(path).unwrap();
        let mut command = home.command(args);
        command.stdin(theirs.try_clone().unwrap()).stdout(theirs.try_clone().unwrap()).stderr(theirs);
        let child = command.spawn().unwrap();
        // The command holds the other side: when it has ended, so has the terminal.
        drop(command);
        let keys = File::from(ours);
        let mut screen = keys.try_clone().unwrap();
        let shown = Arc::new(Mutex::new(String::new()));
        let seen = shown.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                seen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { child, keys, shown }
    }

    fn shown(&self) -> String {
        self.shown.lock().unwrap().clone()
    }

    /// Waits until the screen says so, as often as this.
    fn until(&self, words: &str, times: usize) {
        let begun = Instant::now();
        while self.shown().matches(words).count() < times {
            assert!(begun.elapsed() < PATIENCE, "{words:?} does not come:\n{}", self.shown());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    fn types(&mut self, line: &str) {
        self.keys.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// The exit code, and all that was shown.
    fn end(mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end:\n{}", self.shown());
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        (status.code(), self.shown())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

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
