//! A child that xtask starts does not outlive it.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Long enough for a machine under load.
const PATIENCE: Duration = Duration::from_secs(60);

fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether the process has ended. A zombie has: nobody waits for it after its parent's death.
fn has_ended(process: &std::path::Path) -> bool {
    let Ok(status) = std::fs::read_to_string(process.join("stat")) else { return true };
    status.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

#[test]
fn a_child_ends_when_its_parent_is_killed() {
    let xtask = env!("CARGO_BIN_EXE_xtask");
    // The shell stands for a killed xtask: a parent that can clean up nothing.
    let script = format!("'{xtask}' end-with-parent $$ sleep 600 & echo $!; wait");
    let mut parent = Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let child = PathBuf::from("/proc").join(line.trim());
    wait_until("xtask became the program", || {
        std::fs::read(child.join("cmdline")).is_ok_and(|words| words.starts_with(b"sleep\0"))
    });
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_until("the child ended with its parent", || has_ended(&child));
}

#[test]
fn a_child_whose_parent_is_gone_is_not_started() {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["end-with-parent", "1", "echo", "started"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty(), "{said}");
    assert!(said.contains("has ended"), "{said}");
}
