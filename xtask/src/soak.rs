//! `cargo xtask soak [SECONDS]`: turns beside idle, slow and hostile connections, longer than in the tests.

use crate::cargo::{self, command};

/// The test that is the driver.
const TEST: &str = "soak::turns_are_whole_beside_thousands_of_idle_slow_and_hostile_connections";

/// Runs the soak with the release binary. Prints what it measured; fails if a turn is not whole.
pub(crate) fn run(seconds: u64) -> Result<(), String> {
    let words = ["test", "--release", "--quiet", "--package", "turnstream-cli", "--test", "gateway"];
    let mut soak = command("cargo", &words);
    soak.args(["--", "--exact", TEST, "--nocapture"]).env("TURNSTREAM_TEST_SOAK", seconds.to_string());
    cargo::run(soak)
}
