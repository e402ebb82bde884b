//! `turnstream demo`: what it measures, that it notices a broken promise, and that it leaves nothing behind.

use crate::pty::Terminal;
use crate::support::{Home, PATIENCE, send, stderr, stdout, wait_for};
use rustix::process::Signal;
use std::io::Read;
use std::process::{Command, Output};
use std::time::Instant;

/// The demo in a home with a directory for temporary files of its own.
fn demo(home: &Home, args: &[&str]) -> Command {
    std::fs::create_dir_all(home.path("tmp")).unwrap();
    let mut command = home.command(&[&["demo"], args].concat());
    command.env("TMPDIR", home.path("tmp")).env("PATH", std::env::var_os("PATH").unwrap());
    command
}

/// The number in the row of the table, and what follows it.
fn row<'a>(output: &'a Output, what: &str) -> (&'a str, &'a str) {
    let text = stdout(output);
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("   {what} ")));
    let line = line.unwrap_or_else(|| panic!("no row {what:?} in {text}\n{}", stderr(output))).trim();
    line.split_once("  ").unwrap_or((line, ""))
}

/// Nothing of the demo is left: no file, and no process that was given its directory.
fn assert_nothing_is_left(home: &Home) {
    let left: Vec<_> =
        std::fs::read_dir(home.path("tmp")).unwrap().flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?}");
    wait_for(|| processes(home).is_empty().then_some(()));
}

/// The processes of the gateway of this home's demo.
fn processes(home: &Home) -> Vec<String> {
    let directory = home.path("tmp").display().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let commands = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let commands = commands.map(|command| String::from_utf8_lossy(&command).replace('\0', " "));
    commands.filter(|command| command.contains(&directory)).collect()
}

#[test]
fn the_demo_breaks_four_things_and_keeps_every_promise() {
    let home = Home::new();
    let begun = Instant::now();
    let output = demo(&home, &[]).output().unwrap();
    let took = begun.elapsed();
    assert!(output.status.success(), "{}\n{}", stdout(&output), stderr(&output));
    let (sent, _) = row(&output, "events sent by the gateway");
    assert!(sent.parse::<usize>().unwrap() > 40, "{sent}");
    assert_eq!(row(&output, "events received by the client"), (sent, "as promised"));
    for zero in ["lost", "duplicated", "changed", "wrong tool calls", "tool calls not run"] {
        assert_eq!(row(&output, zero), ("0", "as promised"), "{zero}");
    }
    assert_eq!(row(&output, "turns").0, "4");
    assert_eq!(row(&output, "ends of each turn"), ("1", "as promised"));
    assert_eq!(row(&output, "tool calls run").0, "3");
    // Three in the first turn, three in the second, at least two in the third, two in the last.
    assert!(row(&output, "model calls").0.parse::<usize>().unwrap() >= 10);
    assert_eq!(row(&output, "broken laws in the log (turnstream check)"), ("0", "as promised"));
    let text = stdout(&output);
    assert!(!text.contains('\x1b') && stderr(&output).is_empty(), "{text}{}", stderr(&output));
    for shown in ["cuts the connection after event", "are replayed", "kill -9", "retrying: rate limited"] {
        assert!(text.contains(shown), "{shown:?} in {text}");
    }
    assert_eq!(text.matches(" ended: completed").count(), 4, "{text}");
    assert_nothing_is_left(&home);
    println!("the demo took {took:?}");
}

#[test]
fn a_broken_promise_is_noticed() {
    let cases = [("lose", "lost"), ("repeat", "duplicated"), ("tool", "wrong tool calls")];
    std::thread::scope(|scope| {
        for (sabotage, broken) in cases {
            scope.spawn(move || {
                let home = Home::new();
                let output = demo(&home, &["--sabotage", sabotage]).output().unwrap();
                assert_eq!(output.status.code(), Some(1), "{}{}", stdout(&output), stderr(&output));
                assert_eq!(row(&output, broken), ("1", "BROKEN"), "{}", stdout(&output));
                assert!(stdout(&output).contains(" did not hold."), "{}", stdout(&output));
                assert_nothing_is_left(&home);
            });
        }
    });
}

#[test]
fn a_signal_ends_the_demo_and_everything_it_started() {
    for (signal, code) in [(Signal::INT, Some(130)), (Signal::TERM, Some(130))] {
        let home = Home::new();
        let mut child = demo(&home, &[]).spawn().unwrap();
        until_shown(&mut child, "cuts the connection");
        assert_eq!(processes(&home).len(), 1);
        send(&child, signal);
        let status = child.wait().unwrap();
        assert_eq!(status.code(), code, "{signal:?}");
        assert_nothing_is_left(&home);
    }
}

#[test]
fn a_demo_that_is_killed_takes_its_gateway_with_it() {
    let home = Home::new();
    let mut child = demo(&home, &[]).spawn().unwrap();
    until_shown(&mut child, "cuts the connection");
    assert_eq!(processes(&home).len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for(|| processes(&home).is_empty().then_some(()));
}

#[test]
fn a_demo_whose_reader_is_gone_ends() {
    let home = Home::new();
    let mut child = demo(&home, &[]).spawn().unwrap();
    until_shown(&mut child, "turnstream demo");
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(141));
    assert_nothing_is_left(&home);
}

#[test]
fn on_a_terminal_the_answer_is_shown_as_it_comes_and_ctrl_c_ends_it() {
    let home = Home::new();
    let terminal = Terminal::run(&home, &["demo"]);
    terminal.until("cuts the connection", 1);
    send(&terminal.child, Signal::INT);
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(130), "{shown}");
    assert!(
        shown.contains("\x1b[1m1  The client's connection is cut") && shown.contains("interrupted"),
        "{shown}"
    );
    // The beginning of the answer is there, though it never ended.
    let cut = shown.find("cuts the connection").unwrap();
    assert!(shown[..cut].contains("   agent     The greeting"), "{shown}");
}

/// Reads what a child shows until these words.
fn until_shown(child: &mut std::process::Child, words: &str) {
    let (begun, mut shown) = (Instant::now(), String::new());
    let out = child.stdout.as_mut().unwrap();
    while !shown.contains(words) {
        assert!(begun.elapsed() < PATIENCE, "{words:?} does not come: {shown}");
        let mut bytes = [0; 1024];
        let count = out.read(&mut bytes).unwrap();
        assert!(count > 0, "it ended: {shown}");
        shown.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
}
