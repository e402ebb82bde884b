//! `cargo xtask test`: the one command that sets up, checks and tests everything.

use crate::cargo::{self, command};
use crate::debian::Missing;
use crate::load::BusyLoops;
use crate::tools::{DENY, NEXTEST};
use crate::{agents, debian, fuzz, properties, report};
use std::process::Command;
use std::time::Instant;

/// How much of it to run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Leaves out what needs an installation, and says so.
    Fast,
    /// Everything that gates a change.
    Default,
    /// The same with long property runs from a new seed, and fuzzing.
    Full,
}

/// What else the machine does meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    Nothing,
    /// Twice as many busy loops as the smallest machine has cores.
    BusyLoops,
}

/// Why a group did not pass.
enum Trouble {
    Failed(String),
    /// It could not run, for want of a Debian package.
    Missing(Missing),
}

/// What a trouble means for the run.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    LeftOut(String),
    Failed(String),
}

impl Trouble {
    /// A group that cannot be set up is left out on a person's machine. On CI nobody would notice, so there it fails.
    fn verdict(self, is_ci: bool) -> Verdict {
        match self {
            Self::Failed(why) => Verdict::Failed(why),
            Self::Missing(missing) if is_ci => Verdict::Failed(missing.to_string()),
            Self::Missing(missing) => Verdict::LeftOut(missing.to_string()),
        }
    }
}

impl From<String> for Trouble {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

impl From<Missing> for Trouble {
    fn from(missing: Missing) -> Self {
        Self::Missing(missing)
    }
}

struct Group {
    name: &'static str,
    /// The shallowest depth that runs this group.
    from: Depth,
    run: fn(Depth) -> Result<(), Trouble>,
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

/// Tests that drive agents of `cargo xtask agents`.
const REAL_AGENTS: &str =
    "(binary(real_agents) + binary(opencode_server) + (binary(gateway) & test(/^(opencode|history)::/)))";
/// Tests that look at system calls.
const TRACES: &str = "test(/^trace::/)";

/// Runs all groups of that depth, whatever becomes of the ones before, and names every failure at the end.
pub(crate) fn run(depth: Depth, beside: Beside) -> Result<(), String> {
    if depth == Depth::Full {
        // Now rather than after everything else has passed.
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
        match outcome.map_err(|trouble| trouble.verdict(is_ci)) {
            Ok(()) => println!("== {name}: passed in {seconds:.0} s =="),
            Err(Verdict::LeftOut(why)) => {
                println!("== {name}: left out ==\n{why}");
                left_out.push(format!("{name} (a package cannot be had)"));
            }
            Err(Verdict::Failed(why)) => {
                println!("== {name}: FAILED after {seconds:.0} s ==\n{why}");
                failures.push(format!("{name}: {why}"));
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

fn format() -> Result<(), Trouble> {
    Ok(cargo::run(command("cargo", &["fmt", "--all", "--", "--check"]))?)
}

fn lint() -> Result<(), Trouble> {
    let words = ["clippy", "--workspace", "--all-targets", "--all-features", "--locked", "--quiet"];
    let mut lint = command("cargo", &words);
    lint.args(["--", "-D", "warnings"]);
    Ok(cargo::run(lint)?)
}

fn tests(depth: Depth) -> Result<(), Trouble> {
    if depth == Depth::Fast && !NEXTEST.is_there() {
        println!("cargo-nextest is not installed: slower, with cargo test");
        let words = ["test", "--workspace", "--tests", "--locked", "--quiet", "--", "--skip", "trace::"];
        return Ok(cargo::run(command("cargo", &words))?);
    }
    NEXTEST.ensure()?;
    let filterset = format!("not ({TRACES} + {REAL_AGENTS})");
    let (mut tests, profile) = match depth {
        Depth::Fast | Depth::Default => (nextest("default", &filterset), "default"),
        Depth::Full => (nextest("full", &filterset), "full"),
    };
    if depth == Depth::Full {
        let seed = properties::fresh_seed().to_string();
        tests.env("PROPTEST_CASES", "5000").env("TURNSTREAM_FULL", "1").env(properties::SEED, seed);
    }
    say_seed(&tests);
    run_tests(tests, profile)
}

/// `cargo run` has set the seed of `.cargo/config.toml` for this process, unless the caller chose one.
fn say_seed(tests: &Command) {
    let chosen = tests.get_envs().find(|(name, _)| *name == properties::SEED).and_then(|(_, seed)| seed);
    let seed = chosen.map(std::ffi::OsStr::to_owned).or_else(|| std::env::var_os(properties::SEED));
    if let Some(seed) = seed {
        println!("property tests start from {}={}", properties::SEED, seed.to_string_lossy());
    }
}

/// All groups build with the same features, so that nothing is compiled twice.
fn nextest(profile: &str, filterset: &str) -> Command {
    let words = ["nextest", "run", "--workspace", "--all-features", "--locked", "--cargo-quiet"];
    let mut tests = command("cargo", &words);
    tests.args(["--profile", profile, "--filterset", filterset]);
    tests
}

/// Runs tests with nextest; an error names those that failed.
fn run_tests(tests: Command, profile: &str) -> Result<(), Trouble> {
    report::forget(profile);
    cargo::run(tests).map_err(|error| match report::failed_tests(profile) {
        failed if failed.is_empty() => Trouble::Failed(error),
        failed => Trouble::Failed(format!("{} failed\n    {}", failed.len(), failed.join("\n    "))),
    })
}

/// Tests that look at system calls, which the group of ordinary tests leaves out.
fn traces() -> Result<(), Trouble> {
    NEXTEST.ensure()?;
    debian::ensure("strace", &["strace"], "the traces of system calls")?;
    run_tests(nextest("default", TRACES), "default")
}

fn doctests() -> Result<(), Trouble> {
    let words = ["test", "--doc", "--workspace", "--all-features", "--locked", "--quiet"];
    Ok(cargo::run(command("cargo", &words))?)
}

fn deny() -> Result<(), Trouble> {
    DENY.ensure()?;
    Ok(cargo::run(command("cargo", &["deny", "check", "bans", "licenses", "sources"]))?)
}

fn real_agents() -> Result<(), Trouble> {
    NEXTEST.ensure()?;
    debian::ensure("npm", &["nodejs", "npm"], "the real agents")?;
    let mut tests = nextest("default", REAL_AGENTS);
    tests.env("TURNSTREAM_AGENTS", agents::install()?);
    run_tests(tests, "default")
}

#[cfg(test)]
mod tests {
    use super::{Missing, Trouble, Verdict};

    #[test]
    fn a_missing_package_leaves_a_group_out_and_fails_on_ci() {
        let missing = || Trouble::from(Missing::new("strace", "the traces", "no network"));
        assert!(matches!(missing().verdict(false), Verdict::LeftOut(why) if why.contains("strace")));
        assert!(matches!(missing().verdict(true), Verdict::Failed(why) if why.contains("no network")));
        let failed = Trouble::from("1 failed".to_owned());
        assert_eq!(failed.verdict(false), Verdict::Failed("1 failed".to_owned()));
    }
}
