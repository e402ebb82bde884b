//! The page in a real Chromium, the TypeScript client and the examples, against the real binary. The tests
//! are in `web/tests` and `clients/typescript/tests`, one file for each of these; `cargo xtask page` installs
//! what they need.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

#[cfg(feature = "real-agents")]
mod claude;

use std::path::Path;
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Runs one file of the page's tests with Node.
fn run(file: &str) {
    run_in("web/tests", file);
}

/// Runs one file of tests with Node.
fn run_in(folder: &str, file: &str) {
    run_with(folder, file, &[]);
}

/// The same, with more variables.
fn run_with(folder: &str, file: &str, more: &[(&str, String)]) {
    let root = Path::new(ROOT);
    let tools = root.join("web/node_modules/playwright-core");
    assert!(tools.exists(), "there is no {}; run `cargo xtask page`", tools.display());
    let mut tests = Command::new("node");
    tests.args(["--test", "--test-force-exit", "--test-reporter=spec", file]).current_dir(root.join(folder));
    // Node 20 has its WebSocket behind a flag.
    tests.env("NODE_OPTIONS", "--experimental-websocket").envs(more.iter().cloned());
    let tests = tests.env("TURNSTREAM_BIN", env!("CARGO_BIN_EXE_turnstream")).output().unwrap();
    let out = String::from_utf8_lossy(&tests.stdout);
    assert!(
        tests.status.success(),
        "{file}: {}\n{out}\n{}",
        tests.status,
        String::from_utf8_lossy(&tests.stderr)
    );
}

#[test]
fn turns_are_watched_and_driven() {
    run("turn.test.mjs");
}

#[test]
fn a_killed_gateway_costs_the_page_nothing() {
    run("cut.test.mjs");
}

#[test]
fn hostile_text_stays_text() {
    run("hostile.test.mjs");
}

#[test]
fn every_view_is_accessible_and_fits_the_screen() {
    run("views.test.mjs");
}

#[test]
fn sessions_are_made_with_a_budget_and_handed_over() {
    run("make.test.mjs");
}

#[test]
fn long_sessions_and_large_outputs_do_not_stop_the_page() {
    run("long.test.mjs");
}

#[test]
fn sessions_are_managed_and_the_gateway_is_looked_after() {
    run("manage.test.mjs");
}

#[test]
fn a_finished_turn_is_replayed() {
    run("replay.test.mjs");
}

#[test]
fn what_waits_is_found_and_told_in_a_list_of_hundreds() {
    run("attention.test.mjs");
}

#[test]
fn the_typescript_client_loses_and_doubles_nothing() {
    run_in("clients/typescript/tests", "client.test.mjs");
}

#[test]
fn the_examples_in_html_and_python_run() {
    run("examples.test.mjs");
}
