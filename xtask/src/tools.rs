//! What the tests need beyond a Rust toolchain: installed below `target/` when missing, and said.

use crate::cargo::{command, run, succeeds, target};
use std::path::{Path, PathBuf};

/// The real agents the tests drive, at the versions the captures were taken from: package, version, command.
const AGENTS: &[(&str, &str, &str)] = &[
    ("opencode-ai", "1.18.33", "opencode"),
    ("@anthropic-ai/claude-code", "2.1.197", "claude"),
    ("@openai/codex", "0.166.0", "codex"),
];

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
    let wanted: String = AGENTS.iter().map(|(name, version, _)| format!("{name}@{version}\n")).collect();
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
    for (package, version, agent) in AGENTS {
        check_agent(&dir.join("node_modules/.bin").join(agent), package, version)?;
    }
    std::fs::write(&stamp, wanted).map_err(|error| format!("cannot write {}: {error}", stamp.display()))?;
    Ok(dir)
}

/// Two of the packages fetch nothing themselves: their install script puts the binary in its place, and an npm that
/// runs no scripts leaves a stub there and still succeeds.
fn check_agent(path: &Path, package: &str, version: &str) -> Result<(), String> {
    let answer = std::process::Command::new(path).arg("--version").output();
    let answer = answer.map_err(|error| format!("{package}: cannot run {}: {error}", path.display()))?;
    let said = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    if said.contains(version) {
        return Ok(());
    }
    Err(format!(
        "{package}: {} --version says {said:?} instead of {version}; does npm run install scripts?",
        path.display()
    ))
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
