//! `cargo xtask bench <name>`: builds `benches/` in release mode and runs one of its binaries.

use crate::cargo::{self, command, root};
use crate::peer;
use crate::python;

/// The benchmark that starts processes: the release binary, a peer from npm, and an agent for the peer.
const GATEWAY: &str = "gateway";
/// Benchmarks that start the release binary alone.
const OF_BINARY: [&str; 3] = ["idle", "proxy", "shutdown"];
/// The benchmark that starts the LiteLLM proxy beside ours.
const PROXY: &str = "proxy";

fn run_named(name: &str, rest: &[&str]) -> Result<(), String> {
    let mut bench =
        command("cargo", &["run", "--release", "--quiet", "--package", "turnstream-benches", "--bin", name]);
    if OF_BINARY.contains(&name) {
        cargo::run(command("cargo", &["build", "--release", "--package", "turnstream-cli"]))?;
    }
    if name == PROXY && rest != ["ours"] {
        bench.env("TURNSTREAM_BENCH_LITELLM", python::install_litellm()?);
    }
    if name == GATEWAY {
        if rest != ["ours"] {
            bench.env("TURNSTREAM_BENCH_PEER", peer::install()?);
        }
        cargo::run(command("cargo", &["build", "--release", "--package", "turnstream-cli"]))?;
        let agent = ["--package", "turnstream-benches", "--bin", "bench-acp-agent"];
        cargo::run(command("cargo", &[&["build", "--release"], &agent[..]].concat()))?;
    }
    if !rest.is_empty() {
        bench.arg("--").args(rest);
    }
    // Checks that a benchmark shares with tests are counted at every place.
    bench.env("TURNSTREAM_FULL", "1");
    cargo::run(bench)
}

/// Runs a benchmark. Without a name, lists the benchmarks.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let names = names()?;
    match words {
        [name, rest @ ..] if names.iter().any(|known| known == name) => run_named(name, rest),
        [name, ..] => Err(format!("there is no benchmark {name:?}; there are: {}", names.join(", "))),
        [] => {
            println!("cargo xtask bench <name>, one of: {}", names.join(", "));
            Ok(())
        }
    }
}

fn names() -> Result<Vec<String>, String> {
    let dir = root().join("benches/src/bin");
    let entries =
        std::fs::read_dir(&dir).map_err(|error| format!("cannot read {}: {error}", dir.display()))?;
    let mut names: Vec<String> =
        entries.filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}
