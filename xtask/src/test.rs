//! `cargo xtask test`: installs what the checks need, and runs all of them.

use crate::cargo::{self, command};
use crate::debian::Missing;
use crate::load::BusyLoops;
use crate::suite::Suite;
use crate::{fuzz, prose};
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
pub(crate) enum GroupError {
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
    /// For commands that need what is missing.
    pub(crate) fn into_message(self) -> String {
        match self {
            Self::Failed(reason) => reason,
            Self::Missing(missing) => missing.to_string(),
        }
    }

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
    run: fn(&mut Suite) -> Result<(), GroupError>,
}

/// In this order. Tests that need strace or a real agent run among the others, so that what waits overlaps
/// what computes.
const GROUPS: &[Group] = &[
    Group { name: "format", from: Depth::Fast, run: |_| format() },
    Group { name: "lint", from: Depth::Fast, run: |_| lint() },
    Group { name: "strace, for tests that trace system calls", from: Depth::Default, run: Suite::add_traces },
    Group { name: "installation of the real agents", from: Depth::Default, run: Suite::add_real_agents },
    Group { name: "the page, from its source, and a browser", from: Depth::Default, run: Suite::add_page },
    Group { name: "tests", from: Depth::Fast, run: Suite::run },
    Group { name: "examples in the documentation", from: Depth::Fast, run: |_| doctests() },
    Group { name: "dependencies (cargo deny)", from: Depth::Default, run: deny },
    Group { name: "fuzzing", from: Depth::Full, run: |_| Ok(fuzz::run(60)?) },
];

/// Runs all groups of that depth, also after a failure, and lists every failure at the end.
pub(crate) fn run(depth: Depth, beside: Beside) -> Result<(), String> {
    if depth == Depth::Full {
        // First, so that a missing toolchain shows before everything else has run.
        fuzz::ensure_nightly()?;
    }
    let _loops = (beside == Beside::BusyLoops).then(|| BusyLoops::start(4));
    let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    let mut suite = Suite::new(depth);
    let (mut left_out, mut failures) = (Vec::new(), Vec::new());
    for group in GROUPS {
        let name = group.name;
        if !includes(depth, group.from) {
            left_out.push(format!("{name} (not at this depth)"));
            continue;
        }
        println!("\n== {name} ==");
        let start = Instant::now();
        let outcome = (group.run)(&mut suite);
        let seconds = start.elapsed().as_secs_f64();
        match outcome.map_err(|error| error.verdict(is_ci)) {
            Ok(()) => println!("== {name}: done in {seconds:.0} s =="),
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

fn doctests() -> Result<(), GroupError> {
    let words = ["test", "--doc", "--workspace", "--all-features", "--locked", "--quiet"];
    Ok(cargo::run(command("cargo", &words))?)
}

fn deny(suite: &mut Suite) -> Result<(), GroupError> {
    suite.installed_deny()?;
    Ok(cargo::run(command("cargo", &["deny", "check", "bans", "licenses", "sources"]))?)
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
