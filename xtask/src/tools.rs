//! What the tests need beyond a Rust toolchain: installed below `target/` when missing, and said.

use crate::cargo::{command, run, succeeds, target};
use std::path::PathBuf;

/// The real agents the tests drive, at the versions the captures were taken from.
const AGENTS: &[(&str, &str)] =
    &[("opencode-ai", "1.18.33"), ("@anthropic-ai/claude-code", "2.1.197"), ("@openai/codex", "0.166.0")];

/// Makes `cargo <name>` available at a version of our choice.
pub(crate) fn cargo_tool(name: &str, version: &str) -> Result<(), String> {
    if succeeds(command("cargo", &[name, "--version"])) {
        return Ok(());
    }
    let package = format!("cargo-{name}");
    println!("installing {package} {version} into target/tools (built from source, takes minutes)");
    let tools = target().join("tools");
    // A build directory of its own, below target/, so that a second run finds what the first compiled.
    let mut install =
        command("cargo", &["install", &package, "--version", version, "--locked", "--quiet", "--root"]);
    install.arg(tools).env("CARGO_TARGET_DIR", target().join("tools-build"));
    install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    install.env("CARGO_PROFILE_RELEASE_LTO", "off");
    install.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    run(install)
}

/// Installs the real agents into `target/agents` and returns that folder.
pub(crate) fn install_agents() -> Result<PathBuf, String> {
    let dir = target().join("agents");
    let wanted: String = AGENTS.iter().map(|(name, version)| format!("{name}@{version}\n")).collect();
    let stamp = dir.join("installed.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
        return Ok(dir);
    }
    ensure_npm()?;
    println!("installing real agents into target/agents: {}", wanted.trim().replace('\n', ", "));
    std::fs::create_dir_all(&dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
    let mut install = command("npm", &["install", "--no-audit", "--no-fund", "--no-save", "--prefix"]);
    install.arg(&dir).args(wanted.lines());
    run(install)?;
    std::fs::write(&stamp, wanted).map_err(|error| format!("cannot write {}: {error}", stamp.display()))?;
    Ok(dir)
}

fn ensure_npm() -> Result<(), String> {
    if succeeds(command("npm", &["--version"])) {
        return Ok(());
    }
    println!("installing nodejs and npm from Debian's packages");
    run(command("apt-get", &["update", "--quiet"]))?;
    run(command("apt-get", &["install", "--quiet", "--yes", "--no-install-recommends", "nodejs", "npm"]))
        .map_err(|error| format!("the real-agent tests need npm, and it could not be installed: {error}"))
}
