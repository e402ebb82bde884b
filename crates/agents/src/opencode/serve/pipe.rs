//! The pipe a server prints to. It has a name, so that whoever comes after a crash reads on, and the server itself holds
//! both of its ends, so that it does not break with the process that reads it.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use tokio::net::unix::pipe;

/// What a pipe holds that nobody reads, where the system lets us choose.
#[cfg(target_os = "linux")]
const ROOM: usize = 1024 * 1024;
/// What it holds at least where the system does not say.
const LEAST_ROOM: usize = 16 * 1024;

/// Where the pipe of a server with this mark is. Not in the state directory: what is in it is not redacted, and whoever
/// reads all files there would take the output away or wait for ever. Nobody can guess the mark.
fn path(mark: &str) -> PathBuf {
    std::env::temp_dir().join(name(mark))
}

fn name(mark: &str) -> String {
    format!("turnstream-{mark}")
}

/// Makes the pipe, and gives the end that is read and the one a server prints to. Printing to a full pipe fails and does not
/// wait: opencode as a whole would stand still, with its turns, until somebody reads. Its runtime drops what cannot be
/// printed, or keeps it in memory.
pub(super) fn make(mark: &str) -> io::Result<(pipe::Receiver, File)> {
    remove(mark);
    make_node(&path(mark))?;
    let reader = read(mark)?;
    let ends = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let printed = File::from(rustix::fs::open(path(mark), ends, Mode::empty())?);
    #[cfg(target_os = "linux")]
    // What is refused is a limit of the system, and what there is will do.
    let _ = rustix::pipe::fcntl_setpipe_size(&printed, ROOM);
    Ok((reader, printed))
}

fn read(mark: &str) -> io::Result<pipe::Receiver> {
    pipe::OpenOptions::new().open_receiver(path(mark))
}

/// Reads on from the pipe that this process of a server prints to. Fails if it cannot be had.
pub(super) fn read_on(mark: &str, process: i32) -> io::Result<pipe::Receiver> {
    match of_process(mark, process) {
        Some(reader) => Ok(reader),
        None => read(mark),
    }
}

/// The pipe by way of the process. Its name is lost when old files are cleared away, and is looked for in another place
/// when the directory for temporary files is another one now; a server is not to be ended for that.
#[cfg(target_os = "linux")]
fn of_process(mark: &str, process: i32) -> Option<pipe::Receiver> {
    let is_ours = |end: &PathBuf| {
        // Behind a name that is gone the system writes that it is.
        let prints_to = fs::read_link(end).unwrap_or_default();
        prints_to.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&name(mark)))
    };
    let ends = [1, 2].map(|end| PathBuf::from(format!("/proc/{process}/fd/{end}")));
    let ours = ends.into_iter().find(is_ours)?;
    pipe::OpenOptions::new().open_receiver(ours).ok()
}

/// Only its name leads to it there.
#[cfg(not(target_os = "linux"))]
fn of_process(_mark: &str, _process: i32) -> Option<pipe::Receiver> {
    None
}

/// How much can be in the pipe without anything having been lost for want of room. Half of what it holds: the system keeps
/// a page for what does not fit into the rest of the one before, so a page is half full at the least.
pub(super) fn unbroken(reader: &pipe::Receiver) -> usize {
    #[cfg(target_os = "linux")]
    let room = rustix::pipe::fcntl_getpipe_size(reader).unwrap_or(LEAST_ROOM);
    #[cfg(not(target_os = "linux"))]
    let room = {
        let _ = reader;
        LEAST_ROOM
    };
    room / 2
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
    use rustix::fs::{CWD, mkfifoat};
    Ok(mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?)
}

/// The call is not to be had without unsafe code there.
#[cfg(target_vendor = "apple")]
fn make_node(path: &std::path::Path) -> io::Result<()> {
    let status = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(path).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("mkfifo ended with {status}"))) }
}
