//! The pipe a server prints to. It has a name, so that whoever comes after a crash reads on, and the server itself holds
//! both of its ends, so that it does not break with the process that reads it.

use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::PathBuf;
use tokio::net::unix::pipe;

/// What an unread pipe holds before the server has to wait, where the system lets us choose. Else it is 64 KiB.
#[cfg(target_os = "linux")]
const ROOM: usize = 1024 * 1024;

/// Where the pipe of a server with this mark is. Not in the state directory: what is in it is not redacted, and whoever
/// reads all files there would take the output away or wait for ever. Nobody can guess the mark.
fn path(mark: &str) -> PathBuf {
    std::env::temp_dir().join(format!("turnstream-{mark}"))
}

/// Makes the pipe, and gives the end that is read and the one a server prints to.
pub(super) fn make(mark: &str) -> io::Result<(pipe::Receiver, File)> {
    remove(mark);
    make_node(&path(mark))?;
    let reader = read(mark)?;
    let printed = OpenOptions::new().read(true).write(true).open(path(mark))?;
    #[cfg(target_os = "linux")]
    // What is refused is a limit of the system, and what there is will do.
    let _ = rustix::pipe::fcntl_setpipe_size(&printed, ROOM);
    Ok((reader, printed))
}

/// Reads on from the pipe of a server that runs. Fails if there is none.
pub(super) fn read(mark: &str) -> io::Result<pipe::Receiver> {
    pipe::OpenOptions::new().open_receiver(path(mark))
}

/// What is in the pipe now, without waiting: `None` if there is nothing, 0 bytes if nobody can print to it any more.
pub(super) fn take(reader: &pipe::Receiver, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    // Not by the runtime: it knows of new output only when it has looked, and a server that has ended does not print again.
    loop {
        match rustix::io::read(reader, &mut *buffer) {
            Ok(length) => return Ok(Some(length)),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes the name. Who has the pipe keeps it.
pub(super) fn remove(mark: &str) {
    let _ = fs::remove_file(path(mark));
}

#[cfg(not(target_vendor = "apple"))]
fn make_node(path: &std::path::Path) -> io::Result<()> {
    use rustix::fs::{CWD, Mode, mkfifoat};
    Ok(mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?)
}

/// The call is not to be had without unsafe code there.
#[cfg(target_vendor = "apple")]
fn make_node(path: &std::path::Path) -> io::Result<()> {
    let status = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(path).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("mkfifo ended with {status}"))) }
}
