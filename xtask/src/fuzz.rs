//! `cargo xtask fuzz`: runs every fuzz target for a limited time, with the nightly toolchain.

use crate::cargo::{self, answer, command, root};
use crate::tools::FUZZ;

/// One fuzz target.
struct Target {
    /// The folder of its crate, relative to the workspace root.
    folder: &'static str,
    name: &'static str,
    /// The folder of real inputs to start from, relative to the workspace root.
    seeds: &'static str,
}

/// The most bytes of an input; longer seeds are cut. With 64 KiB only 80 inputs ran per second.
const LONGEST: usize = 4 * 1024;

const TARGETS: &[Target] = &[
    Target { folder: "crates/sse", name: "decode", seeds: "fixtures/opencode" },
    Target { folder: "crates/redact", name: "stream", seeds: "fixtures/opencode" },
    Target { folder: "crates/llm", name: "chat", seeds: "fixtures/llm/chat" },
    Target { folder: "crates/llm", name: "responses", seeds: "fixtures/llm/responses" },
    Target { folder: "crates/llm", name: "messages", seeds: "fixtures/llm/messages" },
];

/// Installs the nightly toolchain if it is missing.
pub(crate) fn ensure_nightly() -> Result<(), String> {
    if answer(command("cargo", &["+nightly", "--version"])).is_some() {
        return Ok(());
    }
    println!("fuzzing needs a nightly toolchain: installing one with rustup");
    cargo::run(command("rustup", &["toolchain", "install", "nightly", "--profile", "minimal"])).map_err(
        |error| {
            format!(
                "fuzzing needs a nightly toolchain, and it could not be installed: {error}\n\
                 install it and run this again: rustup toolchain install nightly --profile minimal"
            )
        },
    )
}

/// The seconds of each target if all of them share this time; at least ten.
pub(crate) fn share(seconds: u64) -> u64 {
    (seconds / TARGETS.len() as u64).max(10)
}

/// Runs every target for this many seconds, also after a failure.
pub(crate) fn run(seconds: u64) -> Result<(), String> {
    ensure_nightly()?;
    FUZZ.ensure()?;
    let mut failures = Vec::new();
    for Target { folder, name, seeds } in TARGETS {
        let crate_folder = root().join(folder);
        // New inputs are written to the first folder, so that must not be the folder of the seeds.
        let corpus = crate_folder.join("fuzz/corpus").join(name);
        std::fs::create_dir_all(&corpus)
            .map_err(|error| format!("cannot make {}: {error}", corpus.display()))?;
        let mut fuzz = command("cargo", &["+nightly", "fuzz", "run", name]);
        fuzz.arg(&corpus).arg(root().join(seeds)).arg("--");
        fuzz.arg(format!("-dict={}", crate_folder.join(format!("fuzz/{name}.dict")).display()));
        fuzz.arg(format!("-max_len={LONGEST}")).arg(format!("-max_total_time={seconds}"));
        fuzz.current_dir(crate_folder);
        failures.extend(cargo::run(fuzz).err());
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n  ")) }
}
