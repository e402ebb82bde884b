//! `cargo xtask test`: installs what the checks need, and runs all of them.

use crate::cargo::{self, command};
use crate::debian::Missing;
use crate::load::BusyLoops;
use crate::tools::{DENY, NEXTEST};
use crate::{agents, debian, fuzz, properties, prose, report};
use std::process::Command;
use std::time::Instant;

/// How much to run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Leaves out groups that need an installation, and names them.
    Fast,
    /// Everything that gates a change.
    Default,
    /// Also long property runs from a new seed, and fuzzing.
    Full,
}

/// What the machine does at the same time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    Nothing,
    /// Twice as many busy loops as the smallest machine has cores.
    BusyLoops,
}

/// Why a group did not pass.
enum GroupError {
    Failed(String),
    /// A Debian package is missing.
    Missing(Missing),
}

/// What it means for the run.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    LeftOut(String),
    Failed(String),
}

impl GroupError {
    /// A group with a missing package is left out on a developer's machine. On CI nobody would notice, so
    /// it fails.
    fn verdict(self, is_ci: bool) -> Verdict {
        match self {
            Self::Failed(reason) => Verdict::Failed(reason),
            Self::Missing(missing) if is_ci => Verdict::Failed(missing.to_string()),
            Self::Missing(missing) => Verdict::LeftOut(missing.to_string()),
        }
    }
}

impl From<String> for GroupError {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

impl From<Missing> for GroupError {
    fn from(missing: Missing) -> Self {
        Self::Missing(missing)
    }
}

struct Group {
    name: &'static str,
    /// The shallowest depth that runs this group.
    from: Depth,
    run: fn(Depth) -> Result<(), GroupError>,
}

const GROUPS: &[Group] = &[
    Group { name: "format", from: Depth::Fast, run: |_| format() },
    Group { name: "lint", from: Depth::Fast, run: |_| lint() },
    Group { name: "tests", from: Depth::Fast, run: tests },
    Group { name: "examples in the documentation", from: Depth::Fast, run: |_| doctests() },
    Group { name: "system call traces (strace)", from: Depth::Default, run: |_| traces() },
    Group { name: "dependencies (cargo deny)", from: Depth::Default, run: |_| deny() },
    Group { name: "real agents", from: Depth::Default, run: |_| real_agents() },
    Group { name: "fuzzing", from: Depth::Full, run: |_| Ok(fuzz::run(60)?) },
];

/// Tests with the agents of `cargo xtask agents`.
const REAL_AGENTS: &str =
    "(binary(real_agents) + binary(opencode_server) + (binary(gateway) & test(/^(opencode|history)::/)))";
/// Tests that trace system calls.
const TRACES: &str = "test(/^trace::/)";

/// Runs all groups of that depth, also after a failure, and lists every failure at the end.
pub(crate) fn run(depth: Depth, beside: Beside) -> Result<(), String> {
    if depth == Depth::Full {
        // First, so that a missing toolchain shows before everything else has run.
        fuzz::ensure_nightly()?;
    }
    let _loops = (beside == Beside::BusyLoops).then(|| BusyLoops::start(4));
    let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    let (mut left_out, mut failures) = (Vec::new(), Vec::new());
    for group in GROUPS {
        let name = group.name;
        if !includes(depth, group.from) {
            left_out.push(format!("{name} (not at this depth)"));
            continue;
        }
        println!("\n== {name} ==");
        let start = Instant::now();
        let outcome = (group.run)(depth);
        let seconds = start.elapsed().as_secs_f64();
        match outcome.map_err(|error| error.verdict(is_ci)) {
            Ok(()) => println!("== {name}: passed in {seconds:.0} s =="),
            Err(Verdict::LeftOut(reason)) => {
                println!("== {name}: left out ==\n{reason}");
                left_out.push(format!("{name} (a package is missing)"));
            }
            Err(Verdict::Failed(reason)) => {
                println!("== {name}: FAILED after {seconds:.0} s ==\n{reason}");
                failures.push(format!("{name}: {reason}"));
            }
        }
    }
    if !left_out.is_empty() {
        println!("\nleft out: {}", left_out.join("; "));
    }
    if failures.is_empty() {
        return Ok(());
    }
    Err(format!("{} of {} groups failed\n  {}", failures.len(), GROUPS.len(), failures.join("\n  ")))
}

fn includes(depth: Depth, from: Depth) -> bool {
    match depth {
        Depth::Fast => from == Depth::Fast,
        Depth::Default => from != Depth::Full,
        Depth::Full => true,
    }
}

fn format() -> Result<(), GroupError> {
    cargo::run(command("cargo", &["fmt", "--all", "--", "--check"]))?;
    Ok(prose::run(&[])?)
}

fn lint() -> Result<(), GroupError> {
    let words = ["clippy", "--workspace", "--all-targets", "--all-features", "--locked", "--quiet"];
    let mut lint = command("cargo", &words);
    lint.args(["--", "-D", "warnings"]);
    Ok(cargo::run(lint)?)
}

fn tests(depth: Depth) -> Result<(), GroupError> {
    if depth == Depth::Fast && !NEXTEST.is_there() {
        println!("cargo-nextest is not installed: slower, with cargo test");
        let words = ["test", "--workspace", "--tests", "--locked", "--quiet", "--", "--skip", "trace::"];
        return Ok(cargo::run(command("cargo", &words))?);
    }
    NEXTEST.ensure()?;
    let filterset = format!("not ({TRACES} + {REAL_AGENTS})");
    match depth {
        Depth::Fast | Depth::Default => {
            let tests = nextest("default", &filterset);
            print_seed(&tests);
            run_tests(tests, "default")
        }
        Depth::Full => full_tests(&filterset),
    }
}

/// Cases of a property in a full run. Only for tests without a number of their own.
const FULL_CASES: &str = "5000";

/// All tests with the long matrices and a new seed.
///
/// `PROPTEST_CASES` overrides the number in a test. A test that sets its own number is expensive: with
/// 5,000 cases the log's property with real files took 20 minutes. So tests with their own number run
/// separately, without the variable; they may read `TURNSTREAM_FULL` for a larger number.
fn full_tests(filterset: &str) -> Result<(), GroupError> {
    let seed = properties::fresh_seed().to_string();
    let own_number = properties::filterset_with_own_number()?;
    let mut many = nextest("full", &format!("({filterset}) - ({own_number})"));
    many.env("PROPTEST_CASES", FULL_CASES);
    let mut few = nextest("full", &format!("({filterset}) & ({own_number})"));
    few.env_remove("PROPTEST_CASES");
    let mut failures = Vec::new();
    for mut tests in [many, few] {
        tests.env("TURNSTREAM_FULL", "1").env(properties::SEED, &seed);
        print_seed(&tests);
        match run_tests(tests, "full") {
            Ok(()) => {}
            Err(GroupError::Failed(reason)) => failures.push(reason),
            Err(missing @ GroupError::Missing(_)) => return Err(missing),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(GroupError::Failed(failures.join("\n    "))) }
}

/// Prints the seed of a run. `.cargo/config.toml` sets one, unless the caller chose another.
fn print_seed(tests: &Command) {
    let chosen = tests.get_envs().find(|(name, _)| *name == properties::SEED).and_then(|(_, seed)| seed);
    let seed = chosen.map(std::ffi::OsStr::to_owned).or_else(|| std::env::var_os(properties::SEED));
    if let Some(seed) = seed {
        println!("property tests start from {}={}", properties::SEED, seed.to_string_lossy());
    }
}

/// A run of nextest. All groups build with the same features, so that nothing is compiled twice.
fn nextest(profile: &str, filterset: &str) -> Command {
    let words = ["nextest", "run", "--workspace", "--all-features", "--locked", "--cargo-quiet"];
    let mut tests = command("cargo", &words);
    tests.args(["--profile", profile, "--filterset", filterset]);
    tests
}

/// Runs tests with nextest. An error lists the failed tests.
fn run_tests(tests: Command, profile: &str) -> Result<(), GroupError> {
    report::forget(profile);
    cargo::run(tests).map_err(|error| match report::failed_tests(profile) {
        failed if failed.is_empty() => GroupError::Failed(error),
        failed => GroupError::Failed(format!("{} failed\n    {}", failed.len(), failed.join("\n    "))),
    })
}

/// Runs the tests that trace system calls, which the group `tests` leaves out.
fn traces() -> Result<(), GroupError> {
    NEXTEST.ensure()?;
    debian::ensure("strace", &["strace"], "the traces of system calls")?;
    run_tests(nextest("default", TRACES), "default")
}

fn doctests() -> Result<(), GroupError> {
    let words = ["test", "--doc", "--workspace", "--all-features", "--locked", "--quiet"];
    Ok(cargo::run(command("cargo", &words))?)
}

fn deny() -> Result<(), GroupError> {
    DENY.ensure()?;
    Ok(cargo::run(command("cargo", &["deny", "check", "bans", "licenses", "sources"]))?)
}

fn real_agents() -> Result<(), GroupError> {
    NEXTEST.ensure()?;
    debian::ensure("npm", &["nodejs", "npm"], "the real agents")?;
    let mut tests = nextest("default", REAL_AGENTS);
    tests.env("TURNSTREAM_AGENTS", agents::install()?);
    run_tests(tests, "default")
}

#[cfg(test)]
mod tests {
    use super::{GroupError, Missing, Verdict};

    #[test]
    fn a_missing_package_leaves_a_group_out_and_fails_on_ci() {
        let missing = || GroupError::from(Missing::new("strace", "the traces", "no network"));
        assert!(matches!(missing().verdict(false), Verdict::LeftOut(why) if why.contains("strace")));
        assert!(matches!(missing().verdict(true), Verdict::Failed(why) if why.contains("no network")));
        let failed = GroupError::from("1 failed".to_owned());
        assert_eq!(failed.verdict(false), Verdict::Failed("1 failed".to_owned()));
    }
}
