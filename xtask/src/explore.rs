//! `cargo xtask explore MINUTES`: property tests from new seeds, and fuzzing.

use crate::cargo::{self, command};
use crate::tools::NEXTEST;
use crate::{fuzz, properties, report};
use std::time::{Duration, Instant};

/// Cases of each property in a round, also for tests that set their own number. With 2,000 cases the log's
/// property with real files took 7.5 minutes.
const CASES: &str = "500";

/// Spends two thirds of the time on property tests and the rest on the fuzz targets.
///
/// Lists all failures at the end, each with the command that repeats it.
pub(crate) fn run(minutes: u64) -> Result<(), String> {
    NEXTEST.ensure()?;
    let start = Instant::now();
    let total = Duration::from_secs(minutes * 60);
    let filterset = properties::filterset()?;
    let mut failures = Vec::new();
    let mut rounds = 0;
    while rounds == 0 || start.elapsed() < total * 2 / 3 {
        rounds += 1;
        let seed = properties::fresh_seed();
        println!("\n== round {rounds}: seed {seed} ==");
        failures.extend(round(seed, &filterset));
    }
    println!("\n{rounds} rounds of property tests");
    match fuzz::ensure_nightly() {
        Ok(()) => {
            let left = total.saturating_sub(start.elapsed()).as_secs();
            failures.extend(fuzz::run(fuzz::share(left)).err());
        }
        Err(why) => println!("fuzzing is left out: {why}"),
    }
    if failures.is_empty() {
        return Ok(());
    }
    Err(format!("{} failures\n  {}", failures.len(), failures.join("\n  ")))
}

fn round(seed: u64, filterset: &str) -> Vec<String> {
    let words = ["nextest", "run", "--workspace", "--all-features", "--locked", "--cargo-quiet"];
    let mut tests = command("cargo", &words);
    tests.args(["--profile", "full", "--status-level", "fail", "--filterset", filterset]);
    tests.env(properties::SEED, seed.to_string()).env("PROPTEST_CASES", CASES);
    report::forget("full");
    let Err(error) = cargo::run(tests) else { return Vec::new() };
    let failed = report::failed_tests("full");
    if failed.is_empty() {
        return vec![error];
    }
    let replay =
        format!("{}={seed} PROPTEST_CASES={CASES} cargo nextest run --all-features", properties::SEED);
    failed.iter().map(|test| format!("{test}\n    again: {replay} {}", last_word(test))).collect()
}

fn last_word(test: &str) -> &str {
    test.rsplit(' ').next().unwrap_or(test)
}
