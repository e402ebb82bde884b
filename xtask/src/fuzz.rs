//! `cargo xtask fuzz`: every fuzz target for a bounded time, on the nightly toolchain.

use crate::cargo::{self, command, root, succeeds};
use crate::tools::cargo_tool;

/// Folder of each fuzz crate, relative to the workspace root, and its targets.
const TARGETS: &[(&str, &[&str])] = &[("crates/sse", &["decode"])];

pub(crate) fn run(seconds: u32) -> Result<(), String> {
    if !succeeds(command("cargo", &["+nightly", "--version"])) {
        return Err("fuzzing needs a nightly toolchain: rustup toolchain install nightly".to_owned());
    }
    cargo_tool("fuzz", "0.13.2")?;
    for (folder, targets) in TARGETS {
        for target in *targets {
            let mut fuzz = command("cargo", &["+nightly", "fuzz", "run", target, "--"]);
            fuzz.arg(format!("-max_total_time={seconds}"));
            fuzz.current_dir(root().join(folder));
            cargo::run(fuzz)?;
        }
    }
    Ok(())
}
