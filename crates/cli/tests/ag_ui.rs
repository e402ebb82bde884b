//! The clients of AG-UI against the real binary. The tests are in `ag_ui/`, run by Node;
//! `cargo xtask agents` installs the libraries.
#![cfg(feature = "real-agents")]
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::path::PathBuf;
use std::process::Command;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ag_ui");
const AGENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/agents");

fn run(file: &str, folder: &str) {
    let agents = std::env::var_os("TURNSTREAM_AGENTS").map_or_else(|| PathBuf::from(AGENTS), PathBuf::from);
    let libraries = agents.join(folder);
    assert!(libraries.exists(), "there is no {}; run `cargo xtask agents`", libraries.display());
    let mut tests = Command::new("node");
    tests.args(["--test", "--test-force-exit", "--test-reporter=spec", file]).current_dir(HERE);
    tests.env("TURNSTREAM_BIN", env!("CARGO_BIN_EXE_turnstream"));
    tests.env("TURNSTREAM_AGENTS", &agents).env("LIBRARIES", libraries);
    let output = tests.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{tests:?}: {}\n{out}\n{err}", output.status);
}

#[test]
fn the_client_of_version_1_never_loses_or_doubles_a_message() {
    run("client.test.mjs", "ag-ui/1.0.0");
}

#[test]
fn the_client_before_version_1_survives() {
    if std::env::var_os("TURNSTREAM_FULL").is_some() {
        run("client.test.mjs", "ag-ui/0.0.57");
    }
}

#[test]
fn copilotkit_runs_connects_and_stops() {
    run("copilotkit.test.mjs", "ag-ui/copilotkit");
}

#[test]
fn the_copilotkit_page_of_the_examples_is_used_in_a_browser() {
    run("page.test.mjs", "copilotkit-page");
}

#[test]
fn tanstack_comes_back_after_a_cut_and_a_reload() {
    run("tanstack.test.mjs", "ag-ui/tanstack");
}
