//! The tests, run by nextest: which of them, with what, and how many at once.

use crate::background::Background;
use crate::cargo::{self, command};
use crate::test::{Depth, GroupError};
use crate::tools::{DENY, NEXTEST};
use crate::{agents, clients, debian, page, properties, report};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// Tests with the agents of `cargo xtask agents`.
const REAL_AGENTS: &str = "(binary(real_agents) + binary(opencode_server) + binary(ai_sdk) + binary(ag_ui) + (binary(gateway) & test(/^(acp|claude|codex|demo|opencode|history|resilience|route|turn_ends|unattended)::/)) + (binary(editor) & test(/^clients::/)) + (binary(page) & test(/^claude::/)) + (package(turnstream-proxy) & test(/^official::/)))";
/// Tests of pages in a browser.
const PAGE: &str = "(binary(page) + (binary(ai_sdk) & test(/^the_page_of_the_example/)) + (binary(ag_ui) & test(/^the_copilotkit_page/)))";
/// Tests that trace system calls.
const TRACES: &str = "test(/^trace::/)";

/// Cases of a property in a full run. Only for tests without a number of their own.
const FULL_CASES: &str = "5000";

/// Tests at once for each core. Many of them wait for a disk, a timer or another process: with one for each
/// core, a quarter of the CPU was idle, and more with real agents.
const TESTS_PER_CORE: usize = 2;

/// All tests of a run, and the installations that go on beside other checks.
pub(crate) struct Suite {
    depth: Depth,
    has_strace: bool,
    /// The folder of the real agents, when they are to be tested.
    agents: Option<PathBuf>,
    /// Whether there is a browser, and what the page is built and tested with.
    has_browser: bool,
    installing_page: Option<Background<Result<(), GroupError>>>,
    installing_agents: Option<Background<Result<PathBuf, GroupError>>>,
    installing_deny: Option<Background<Result<(), String>>>,
}

// === impl Suite ===

impl Suite {
    /// The tests without any group that needs an installation. At depths with real agents, begins to fetch
    /// those: they come from the network while the CPU lints.
    pub(crate) fn new(depth: Depth) -> Self {
        let (installing_agents, installing_page) = match depth {
            Depth::Fast => (None, None),
            Depth::Default | Depth::Full => (
                Some(Background::start("the installation of the real agents", install_agents)),
                Some(Background::start("the installation of the page's tools", page::install)),
            ),
        };
        Self {
            depth,
            has_strace: false,
            agents: None,
            has_browser: false,
            installing_page,
            installing_agents,
            installing_deny: None,
        }
    }

    /// Adds the tests that trace system calls.
    pub(crate) fn add_traces(&mut self) -> Result<(), GroupError> {
        debian::ensure("strace", &["strace"], "the traces of system calls")?;
        self.has_strace = true;
        Ok(())
    }

    /// Adds the tests with real agents, once those are installed.
    pub(crate) fn add_real_agents(&mut self) -> Result<(), GroupError> {
        let installed = match self.installing_agents.take() {
            Some(installing) => installing.wait()?,
            None => install_agents(),
        };
        self.agents = Some(installed?);
        debian::ensure("tmux", &["tmux"], "the tests of opencode's terminal interface")?;
        Ok(())
    }

    /// Adds the tests of the page in a browser, and checks that the bundle is what its source builds.
    pub(crate) fn add_page(&mut self) -> Result<(), GroupError> {
        match self.installing_page.take() {
            Some(installing) => installing.wait()??,
            None => page::install()?,
        }
        debian::ensure("chromium", &["chromium"], "the tests of the page")?;
        debian::ensure("python3", &["python3"], "the test of the example in Python")?;
        self.has_browser = true;
        Ok(page::check()?)
    }

    /// Builds the tests and runs them.
    pub(crate) fn run(&mut self) -> Result<(), GroupError> {
        if self.depth == Depth::Fast && !NEXTEST.is_there() {
            println!("cargo-nextest is not installed: slower, with cargo test");
            let words = ["test", "--workspace", "--tests", "--locked", "--quiet", "--", "--skip", "trace::"];
            return Ok(cargo::run(command("cargo", &words))?);
        }
        NEXTEST.ensure()?;
        let start = Instant::now();
        cargo::run(nextest(&["--no-run"]))?;
        println!("built in {:.0} s", start.elapsed().as_secs_f64());
        if self.depth != Depth::Fast {
            // Compiles while the tests wait.
            self.installing_deny =
                Some(Background::start("the installation of cargo-deny", || DENY.ensure()));
        }
        match self.depth {
            Depth::Fast | Depth::Default => {
                let tests = self.tests("default", &self.filterset());
                print_seed(&tests);
                run_tests(tests, "default")
            }
            Depth::Full => self.run_full(),
        }
    }

    /// Waits for the installation of cargo-deny, which begins with the tests.
    pub(crate) fn installed_deny(&mut self) -> Result<(), String> {
        match self.installing_deny.take() {
            Some(installing) => installing.wait()?,
            None => DENY.ensure(),
        }
    }

    /// All tests with the long matrices and a new seed.
    ///
    /// `PROPTEST_CASES` overrides the number in a test. A test that sets its own number is expensive: with
    /// 5,000 cases the log's property with real files took 20 minutes. So tests with their own number run
    /// separately, without the variable; they may read `TURNSTREAM_FULL` for a larger number.
    fn run_full(&self) -> Result<(), GroupError> {
        if self.agents.is_some() {
            clients::install_python_sdk()?;
        }
        let seed = properties::fresh_seed().to_string();
        let filterset = self.filterset();
        let own_number = properties::filterset_with_own_number()?;
        let mut many = self.tests("full", &format!("({filterset}) - ({own_number})"));
        many.env("PROPTEST_CASES", FULL_CASES);
        let mut few = self.tests("full", &format!("({filterset}) & ({own_number})"));
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

    /// The tests for which everything is installed.
    fn filterset(&self) -> String {
        let mut filterset = "all()".to_owned();
        if !self.has_strace {
            filterset += &format!(" - {TRACES}");
        }
        if self.agents.is_none() {
            filterset += &format!(" - {REAL_AGENTS}");
        }
        if !self.has_browser {
            filterset += &format!(" - {PAGE}");
        }
        filterset
    }

    fn tests(&self, profile: &str, filterset: &str) -> Command {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (cores * TESTS_PER_CORE).to_string();
        let mut tests =
            nextest(&["--profile", profile, "--test-threads", &threads, "--filterset", filterset]);
        if let Some(agents) = &self.agents {
            tests.env("TURNSTREAM_AGENTS", agents);
        }
        tests
    }
}

/// A run of nextest. Every run has the same packages and features, so that nothing is compiled twice.
fn nextest(more: &[&str]) -> Command {
    let words = ["nextest", "run", "--workspace", "--all-features", "--locked", "--cargo-quiet"];
    command("cargo", &[&words, more].concat())
}

/// Runs tests with nextest. An error lists the failed tests.
fn run_tests(tests: Command, profile: &str) -> Result<(), GroupError> {
    report::forget(profile);
    cargo::run(tests).map_err(|error| match report::failed_tests(profile) {
        failed if failed.is_empty() => GroupError::Failed(error),
        failed => GroupError::Failed(format!("{} failed\n    {}", failed.len(), failed.join("\n    "))),
    })
}

/// Prints the seed of a run. `.cargo/config.toml` sets one, unless the caller chose another.
fn print_seed(tests: &Command) {
    let chosen = tests.get_envs().find(|(name, _)| *name == properties::SEED).and_then(|(_, seed)| seed);
    let seed = chosen.map(std::ffi::OsStr::to_owned).or_else(|| std::env::var_os(properties::SEED));
    if let Some(seed) = seed {
        println!("property tests start from {}={}", properties::SEED, seed.to_string_lossy());
    }
}

fn install_agents() -> Result<PathBuf, GroupError> {
    debian::ensure("npm", &["nodejs", "npm"], "the real agents")?;
    Ok(agents::install()?)
}

#[cfg(test)]
mod tests {
    use super::Suite;
    use crate::test::Depth;
    use std::path::PathBuf;

    #[test]
    fn tests_whose_tools_are_missing_are_left_out() {
        let mut suite = Suite::new(Depth::Fast);
        let plain = suite.filterset();
        assert!(plain.contains("trace::") && plain.contains("binary(real_agents)"), "{plain}");
        assert!(plain.contains("binary(page)"), "{plain}");
        suite.has_strace = true;
        suite.has_browser = true;
        suite.agents = Some(PathBuf::from("agents"));
        assert_eq!(suite.filterset(), "all()");
    }
}
