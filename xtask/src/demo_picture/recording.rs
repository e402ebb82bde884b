//! Runs a command on a terminal of its own, and notes what it writes and when.

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// What a command wrote at one time, in seconds.
pub(super) type Chunk = (f64, String);

/// Records a command to its end. It has to succeed.
pub(super) fn record(program: &Path, args: &[&str], columns: u16, rows: u16) -> Result<Vec<Chunk>, String> {
    let failed = |error: std::io::Error| format!("cannot record {}: {error}", program.display());
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).map_err(|error| failed(error.into()))?;
    grantpt(&ours).and_then(|()| unlockpt(&ours)).map_err(|error| failed(error.into()))?;
    let name = ptsname(&ours, Vec::new()).map_err(|error| failed(error.into()))?;
    let path = Path::new(OsStr::from_bytes(name.as_bytes()));
    let theirs = File::options().read(true).write(true).open(path).map_err(failed)?;
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&theirs, size).map_err(|error| failed(error.into()))?;
    let mut command = Command::new(program);
    command.args(args).env("TERM", "xterm-256color").env_remove("NO_COLOR");
    command.stdin(theirs.try_clone().map_err(failed)?).stdout(theirs.try_clone().map_err(failed)?);
    command.stderr(theirs);
    let mut child = command.spawn().map_err(failed)?;
    // The command holds the other side: when it has ended, so has the terminal.
    drop(command);
    let (begun, mut screen) = (Instant::now(), File::from(ours));
    let (mut chunks, mut rest, mut bytes) = (Vec::new(), Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = screen.read(&mut bytes) {
        rest.extend_from_slice(&bytes[..count]);
        // A read may end within a character.
        let whole = match std::str::from_utf8(&rest) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        let text = String::from_utf8_lossy(&rest[..whole]).into_owned();
        rest.drain(..whole);
        chunks.push((begun.elapsed().as_secs_f64(), text));
    }
    let status = child.wait().map_err(failed)?;
    if status.success() { Ok(chunks) } else { Err(format!("{} ended with {status}", program.display())) }
}
