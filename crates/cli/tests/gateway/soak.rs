//! Turns beside idle, slow and hostile connections: `cargo xtask soak` runs it for longer.

use crate::support::Home;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::time::Duration;
use turnstream_testkit::soak::{self, Plan};

const TOKEN: &str = "6f2d1c9be07a4fd8a1b35c7720e94d13";
/// How long it takes in the default test run.
const SHORT: u64 = 4;
/// Descriptors of this process besides those of the crowd.
const OTHERS: u64 = 500;

/// Raises the limit of open files, and returns it.
fn open_files() -> u64 {
    let Rlimit { current: _, maximum } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    maximum.unwrap_or(u64::MAX)
}

#[test]
fn turns_are_whole_beside_thousands_of_idle_slow_and_hostile_connections() {
    let seconds = std::env::var("TURNSTREAM_TEST_SOAK").map_or(SHORT, |seconds| seconds.parse().unwrap());
    let home = Home::new();
    let serving = home.serve_armed(&[], |command| {
        command.env("TURNSTREAM_TOKEN", TOKEN);
    });
    // A machine that allows few open files gets a smaller crowd.
    let idle = open_files().saturating_sub(OTHERS).min(3_000);
    let plan = Plan {
        address: serving.address.parse().unwrap(),
        token: TOKEN.to_owned(),
        cwd: home.path("work"),
        quiet: Duration::from_secs(seconds / 3),
        loaded: Duration::from_secs(seconds - seconds / 3),
        turns: 50,
        idle: usize::try_from(idle).unwrap(),
        slow: 200,
        hostile: 50,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let report = runtime.block_on(soak::run(&plan));
    println!("{idle} idle, {} slow and {} hostile clients, {seconds} s\n{report}", plan.slow, plan.hostile);
    assert!(report.loaded.len() >= plan.turns && report.hostile > 0);
    drop(runtime);
    drop(serving);
    let lines = crate::support::read(&home.path("serve.err"));
    assert!(!lines.contains("panicked"), "{lines}");
}
