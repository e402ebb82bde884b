//! `cargo xtask test`: the one command that sets up, checks and tests everything.

use crate::cargo::{self, command};
use crate::tools::{DENY, NEXTEST};
use crate::{agents, debian, fuzz};
use std::time::Instant;

/// How much of it to run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Leaves out what needs an installation, and says so.
    Fast,
    /// Everything that gates a change.
    Default,
    /// The same with long property runs, and fuzzing.
    Full,
}

struct Group {
    name: &'static str,
    /// The shallowest depth that runs this group.
    from: Depth,
    run: fn(Depth) -> Result<(), String>,
}

const GROUPS: &[Group] = &[
    Group {
        name: "format",
        from: Depth::Fast,
        run: |_| cargo::run(command("cargo", &["fmt", "--all", "--", "--check"])),
    },
    Group { name: "lint", from: Depth::Fast, run: |_| lint() },
    Group { name: "tests", from: Depth::Fast, run: tests },
    Group { name: "examples in the documentation", from: Depth::Fast, run: |_| doctests() },
    Group { name: "system call traces (strace)", from: Depth::Default, run: |_| traces() },
    Group { name: "dependencies (cargo deny)", from: Depth::Default, run: |_| deny() },
    Group { name: "real agents", from: Depth::Default, run: |_| real_agents() },
    Group { name: "fuzzing", from: Depth::Full, run: |_| fuzz::run(60) },
];

/// Runs the groups of that depth in order and stops at the first that fails.
pub(crate) fn run(depth: Depth) -> Result<(), String> {
    if depth == Depth::Full {
        // Now rather than after everything else has passed.
        fuzz::ensure_nightly()?;
    }
    let mut left_out = Vec::new();
    for group in GROUPS {
        if !includes(depth, group.from) {
            left_out.push(group.name);
            continue;
        }
        println!("\n== {} ==", group.name);
        let start = Instant::now();
        (group.run)(depth).map_err(|error| format!("{}: {error}", group.name))?;
        println!("== {}: passed in {:.0} s ==", group.name, start.elapsed().as_secs_f64());
    }
    if !left_out.is_empty() {
        println!("\nleft out at this depth: {}", left_out.join("; "));
    }
    Ok(())
}

fn includes(depth: Depth, from: Depth) -> bool {
    match depth {
        Depth::Fast => from == Depth::Fast,
        Depth::Default => from != Depth::Full,
        Depth::Full => true,
    }
}

fn lint() -> Result<(), String> {
    cargo::run(command(
        "cargo",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--locked",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ],
    ))
}

fn tests(depth: Depth) -> Result<(), String> {
    if depth == Depth::Fast && !NEXTEST.is_there() {
        println!("cargo-nextest is not installed: slower, with cargo test");
        let words = ["test", "--workspace", "--tests", "--locked", "--quiet", "--", "--skip", "trace::"];
        return cargo::run(command("cargo", &words));
    }
    NEXTEST.ensure()?;
    let mut tests = command("cargo", &["nextest", "run", "--workspace", "--locked", "--cargo-quiet"]);
    tests.args(["--filterset", "not test(/^trace::/)"]);
    if depth == Depth::Full {
        tests.args(["--profile", "full"]).env("PROPTEST_CASES", "5000").env("TURNSTREAM_FULL", "1");
    }
    cargo::run(tests)
}

/// Tests that look at system calls, which the group of ordinary tests leaves out.
fn traces() -> Result<(), String> {
    NEXTEST.ensure()?;
    debian::ensure("strace", &["strace"], "the traces of system calls")?;
    let tests = ["nextest", "run", "--package", "turnstream-log", "--locked", "--cargo-quiet", "trace::"];
    cargo::run(command("cargo", &tests))
}

fn doctests() -> Result<(), String> {
    cargo::run(command("cargo", &["test", "--doc", "--workspace", "--locked", "--quiet"]))
}

fn deny() -> Result<(), String> {
    DENY.ensure()?;
    cargo::run(command("cargo", &["deny", "check", "bans", "licenses", "sources"]))
}

fn real_agents() -> Result<(), String> {
    NEXTEST.ensure()?;
    let agents = agents::install()?;
    let mut tests = command(
        "cargo",
        &[
            "nextest",
            "run",
            "--locked",
            "--cargo-quiet",
            "--package",
            "turnstream-testkit",
            "--package",
            "turnstream-agents",
            "--package",
            "turnstream-cli",
            "--features",
            "real-agents",
            "--filterset",
            "binary(real_agents) + binary(opencode_server) + (binary(gateway) & test(/^opencode::/))",
        ],
    );
    tests.env("TURNSTREAM_AGENTS", agents);
    cargo::run(tests)
}
