//! `cargo xtask agents`: the real agents that tests drive, installed into `target/agents`.

use crate::cargo::{command, run, target};
use crate::debian;
use std::path::{Path, PathBuf};

/// At the versions the captures were taken from: package, version, command.
const AGENTS: &[(&str, &str, &str)] = &[
    ("opencode-ai", "1.18.33", "opencode"),
    ("@anthropic-ai/claude-code", "2.1.197", "claude"),
    ("@openai/codex", "0.166.0", "codex"),
];

/// Installs them unless they are there and run, and returns their folder.
pub(crate) fn install() -> Result<PathBuf, String> {
    let dir = target().join("agents");
    let wanted: String = AGENTS.iter().map(|(name, version, _)| format!("{name}@{version}\n")).collect();
    let stamp = dir.join("installed.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
        match check(&dir) {
            Ok(()) => return Ok(dir),
            Err(why) => println!("installing again, since what is there does not run: {why}"),
        }
    }
    debian::ensure("npm", &["nodejs", "npm"], "the real-agent tests")?;
    println!("installing real agents into target/agents: {}", wanted.trim().replace('\n', ", "));
    // npm takes a package whose files were damaged for installed.
    match std::fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("cannot remove {}: {error}", dir.display()));
        }
        Ok(()) | Err(_) => {}
    }
    std::fs::create_dir_all(&dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
    let mut install = command("npm", &["install", "--no-audit", "--no-fund", "--no-save", "--prefix"]);
    install.arg(&dir).args(wanted.lines());
    run(install)?;
    check(&dir)?;
    std::fs::write(&stamp, wanted).map_err(|error| format!("cannot write {}: {error}", stamp.display()))?;
    Ok(dir)
}

fn check(dir: &Path) -> Result<(), String> {
    let mut agents = AGENTS.iter();
    agents.try_for_each(|(package, version, agent)| {
        check_agent(&dir.join("node_modules/.bin").join(agent), package, version)
    })
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

#[cfg(test)]
mod tests {
    use super::check_agent;
    use std::path::Path;

    #[test]
    fn an_agent_that_is_gone_or_another_version_is_not_taken_for_installed() {
        assert!(check_agent(Path::new("/nowhere/agent"), "agent", "1.2.3").is_err());
        // `echo --version` says its own word.
        assert!(check_agent(Path::new("/bin/echo"), "agent", "1.2.3").is_err());
        assert!(check_agent(Path::new("/bin/echo"), "agent", "version").is_ok());
    }
}
