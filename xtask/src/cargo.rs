//! Running child commands from the workspace root, with what is run printed first.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace root: the parent of this crate's folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// `target/` of the workspace, where everything that is installed goes.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
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
    command
}

/// Runs it with its output shown; an error names the whole command line and its exit.
pub(crate) fn run(mut command: Command) -> Result<(), String> {
    let line = describe(&command);
    println!("$ {line}");
    let status = command.status().map_err(|error| format!("cannot start `{line}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{line}` ended with {status}")) }
}

/// True when it starts and exits with 0; its output is thrown away.
pub(crate) fn succeeds(mut command: Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn describe(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}
