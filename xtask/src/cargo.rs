//! Runs commands at the workspace root, and prints each one first.

#[cfg(target_os = "linux")]
use crate::end_with_parent;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace root: the parent of this crate's folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The absolute path of `target/`, below which tools are installed.
pub(crate) fn target() -> PathBuf {
    let chosen = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    // As for cargo, a relative path starts at the current folder. Without a current folder it stays relative.
    std::path::absolute(&chosen).unwrap_or(chosen)
}

/// A command at the workspace root that finds the tools installed below `target/tools`.
pub(crate) fn command(program: &str, args: &[&str]) -> Command {
    let mut path = std::ffi::OsString::from(target().join("tools/bin"));
    if let Some(old) = std::env::var_os("PATH") {
        path.push(":");
        path.push(old);
    }
    let mut command = Command::new(program);
    command.args(args).current_dir(root()).env("PATH", path);
    if std::env::var_os("CARGO_TARGET_DIR").is_some() {
        command.env("CARGO_TARGET_DIR", target());
    }
    command
}

/// Runs a command with its output shown. An error has the command line and the exit status.
///
/// On Linux the command ends when xtask is killed.
pub(crate) fn run(command: Command) -> Result<(), String> {
    let line = describe(&command);
    #[cfg(target_os = "linux")]
    let command = end_with_parent::wrap(&command);
    let mut command = command;
    println!("$ {line}");
    let status = command.status().map_err(|error| format!("cannot start `{line}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{line}` ended with {status}")) }
}

/// The output of a command; `None` if it cannot be started or fails.
pub(crate) fn answer(mut command: Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn describe(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::{command, target};
    use std::process::Command;

    /// The test runs itself again in a child with another environment and folder.
    #[test]
    fn a_relative_target_folder_starts_at_the_current_folder_for_every_command() {
        if std::env::var_os("CARGO_TARGET_DIR").is_some_and(|chosen| chosen == "some/where") {
            let here = std::env::current_dir().unwrap();
            assert_eq!(target(), here.join("some/where"));
            let command = command("cargo", &[]);
            let passed_on = command.get_envs().find(|(name, _)| *name == "CARGO_TARGET_DIR").unwrap().1;
            assert_eq!(passed_on, Some(here.join("some/where").as_os_str()));
            return;
        }
        let name = "cargo::tests::a_relative_target_folder_starts_at_the_current_folder_for_every_command";
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", name]).env("CARGO_TARGET_DIR", "some/where").current_dir("/");
        let output = again.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }
}
