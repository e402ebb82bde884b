//! The named pipe for the output of an agent. A later owner opens it by its name after a crash. The agent
//! holds both ends, so the pipe does not break when its reader ends.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use tokio::net::unix::pipe;

/// The size of the pipe, if the system lets us set it.
#[cfg(target_os = "linux")]
const ROOM: usize = 1024 * 1024;
/// The smallest size, if the system does not tell it.
const LEAST_ROOM: usize = 16 * 1024;

/// The path of the pipe for an agent with this mark. Not in the state directory: its contents are not
/// redacted, and a program that reads all files there would consume them or block. Nobody can guess the
/// mark.
fn path(mark: &str) -> PathBuf {
    std::env::temp_dir().join(name(mark))
}

fn name(mark: &str) -> String {
    format!("turnstream-{mark}")
}

/// Creates the pipe. Returns the end to read from, and the end for the agent. Writing to a full pipe fails
/// at once: otherwise the agent would block with all its turns until somebody reads. Its runtime drops what
/// cannot be written, or keeps it in memory.
pub(crate) fn make(mark: &str) -> io::Result<(pipe::Receiver, File)> {
    remove(mark);
    make_node(&path(mark))?;
    let reader = read(mark)?;
    let ends = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let printed = File::from(rustix::fs::open(path(mark), ends, Mode::empty())?);
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::pipe::fcntl_setpipe_size(&printed, ROOM) {
        // The system has a limit for pipes; its default size is enough.
        tracing::debug!(%error, "cannot enlarge the pipe for the output of an agent");
    }
    Ok((reader, printed))
}

fn read(mark: &str) -> io::Result<pipe::Receiver> {
    pipe::OpenOptions::new().open_receiver(path(mark))
}

/// Opens the pipe of a running agent again.
pub(crate) fn read_on(mark: &str, process: i32) -> io::Result<pipe::Receiver> {
    match of_process(mark, process) {
        Some(reader) => Ok(reader),
        None => read(mark),
    }
}

/// Opens the pipe through the process. Its name may have been removed by a clean-up of old files, or
/// `TMPDIR` may have changed. The agent need not be ended for that.
#[cfg(target_os = "linux")]
fn of_process(mark: &str, process: i32) -> Option<pipe::Receiver> {
    let is_ours = |end: &PathBuf| {
        // The system appends "(deleted)" to a name that was removed.
        let prints_to = fs::read_link(end).unwrap_or_default();
        prints_to.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&name(mark)))
    };
    let ends = [1, 2].map(|end| PathBuf::from(format!("/proc/{process}/fd/{end}")));
    let ours = ends.into_iter().find(is_ours)?;
    let opened = pipe::OpenOptions::new().open_receiver(ours);
    opened
        .inspect_err(|error| tracing::debug!(pid = process, %error, "cannot open the pipe of a process"))
        .ok()
}

/// Other systems have only the name.
#[cfg(not(target_os = "linux"))]
fn of_process(_mark: &str, _process: i32) -> Option<pipe::Receiver> {
    None
}

/// How many bytes can be in the pipe without a loss. Half of its size: the system starts a new page for
/// what does not fit into the rest of a page, so each page is at least half full.
pub(crate) fn unbroken(reader: &pipe::Receiver) -> usize {
    #[cfg(target_os = "linux")]
    let room = rustix::pipe::fcntl_getpipe_size(reader).unwrap_or(LEAST_ROOM);
    #[cfg(not(target_os = "linux"))]
    let room = {
        // Other systems do not tell the size of a pipe.
        let _reader = reader;
        LEAST_ROOM
    };
    room / 2
}

/// Reads what is in the pipe, without waiting. `None` if it is empty, 0 bytes if no writer is left.
pub(crate) fn take(reader: &pipe::Receiver, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    // A direct read: the runtime learns of new output only when it polls, and the last output of an agent
    // is followed by no other.
    loop {
        match rustix::io::read(reader, &mut *buffer) {
            Ok(length) => return Ok(Some(length)),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes the name. Open ends stay usable.
pub(crate) fn remove(mark: &str) {
    match fs::remove_file(path(mark)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path(mark).display(), %error, "cannot remove a pipe");
        }
        Ok(()) | Err(_) => {}
    }
}

#[cfg(not(target_vendor = "apple"))]
fn make_node(path: &std::path::Path) -> io::Result<()> {
    use rustix::fs::{CWD, mkfifoat};
    Ok(mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?)
}

/// There the system call needs unsafe code.
#[cfg(target_vendor = "apple")]
fn make_node(path: &std::path::Path) -> io::Result<()> {
    let status = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(path).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("mkfifo ended with {status}"))) }
}
