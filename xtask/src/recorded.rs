//! `cargo xtask recorded <dir>`: reads a directory of recorded provider streams.

use crate::cargo::{command, run as run_command};

/// Runs the example `recorded` of `crates/llm` over a directory.
pub(crate) fn run(dir: &str) -> Result<(), String> {
    let dir =
        std::path::absolute(dir).map_err(|error| format!("recorded: {dir:?} is not a path: {error}"))?;
    let mut recorded =
        command("cargo", &["run", "--quiet", "--package", "turnstream-llm", "--example", "recorded", "--"]);
    recorded.arg(dir);
    run_command(recorded)
}
