//! Child commands that end when xtask does.
//!
//! A signal to xtask alone would leave `cargo nextest` running. Linux can signal a child when its parent
//! dies, but the child itself must ask for it (`PR_SET_PDEATHSIG`). So xtask starts itself as `xtask
//! end-with-parent PID PROGRAM ARGS…`, which asks and then becomes the program. The request survives
//! `exec`. On other systems commands run without this.

use std::process::Command;

/// The hidden subcommand.
pub(crate) const SUBCOMMAND: &str = "end-with-parent";

/// The same command, as a child that gets SIGTERM when this process dies.
#[cfg(target_os = "linux")]
pub(crate) fn wrap(command: &Command) -> Command {
    // Not `current_exe`: a build during the run replaces the file of xtask.
    let mut wrapped = Command::new("/proc/self/exe");
    wrapped.arg(SUBCOMMAND).arg(std::process::id().to_string());
    wrapped.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    wrapped
}

/// Becomes the program, with a request for SIGTERM at the death of the parent. Returns only on an error.
#[cfg(target_os = "linux")]
pub(crate) fn run(parent: &str, program: &str, args: &[&str]) -> Result<(), String> {
    use rustix::process::{Signal, set_parent_process_death_signal};
    use std::os::unix::process::{CommandExt, parent_id};

    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|error| format!("cannot tie {program} to its parent: {error}"))?;
    if parent_id().to_string() != parent {
        return Err(format!("{program} is not started: its parent {parent} has ended"));
    }
    let error = Command::new(program).args(args).exec();
    Err(format!("cannot start {program}: {error}"))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn run(_parent: &str, program: &str, _args: &[&str]) -> Result<(), String> {
    Err(format!("{program} cannot be tied to its parent on this system"))
}
