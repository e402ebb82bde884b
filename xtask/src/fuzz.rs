//! `cargo xtask fuzz`: every fuzz target for a bounded time, on the nightly toolchain.

use crate::cargo::{self, answer, command, root};
use crate::tools::FUZZ;

/// One fuzz target.
struct Target {
    /// The folder of the crate whose `fuzz/` it is in, from the workspace root.
    folder: &'static str,
    name: &'static str,
    /// Real inputs to start from, from the workspace root.
    seeds: &'static str,
}

/// Bytes of an input at most; longer seeds are cut. With 64 KiB, inputs grew so long that 80 ran in a second.
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

/// Seconds for each target when all of them have so many; at least ten.
pub(crate) fn share(seconds: u64) -> u64 {
    (seconds / TARGETS.len() as u64).max(10)
}

/// Runs every target for so many seconds, whatever becomes of the ones before.
pub(crate) fn run(seconds: u64) -> Result<(), String> {
    ensure_nightly()?;
    FUZZ.ensure()?;
    let mut failures = Vec::new();
    for Target { folder, name, seeds } in TARGETS {
        let crate_folder = root().join(folder);
        // The first folder is the one that findings are written to, so the seeds must not be it.
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
