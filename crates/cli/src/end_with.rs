//! A gateway that ends with the command that started it, also if that is killed.

use std::io;

/// From now on this process gets SIGTERM when its parent dies.
///
/// # Errors
///
/// The parent has died before.
#[cfg(target_os = "linux")]
pub(crate) fn parent(parent: u32) -> io::Result<()> {
    use rustix::process::{Signal, set_parent_process_death_signal};

    set_parent_process_death_signal(Some(Signal::TERM))?;
    if std::os::unix::process::parent_id() != parent {
        return Err(io::Error::other(format!("the process {parent} is not the parent of this one")));
    }
    Ok(())
}

/// Only Linux can tell a process that its parent died.
#[cfg(not(target_os = "linux"))]
pub(crate) fn parent(_parent: u32) -> io::Result<()> {
    Ok(())
}
