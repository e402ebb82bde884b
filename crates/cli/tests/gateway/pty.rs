//! A command on a real terminal, with a person at it.

use crate::support::{Home, PATIENCE};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A command on a terminal of its own.
pub(crate) struct Terminal {
    pub(crate) child: Child,
    keys: File,
    shown: Arc<Mutex<String>>,
    /// Reads the screen until nobody holds the other side.
    reader: std::thread::JoinHandle<()>,
}

impl Terminal {
    pub(crate) fn run(home: &Home, args: &[&str]) -> Self {
        Self::sized(home, args, 80)
    }

    /// The same, on so many columns.
    pub(crate) fn sized(home: &Home, args: &[&str], columns: u16) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let theirs = File::options().read(true).write(true).open(path).unwrap();
        let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&theirs, size).unwrap();
        let mut command = home.command(args);
        command.stdin(theirs.try_clone().unwrap()).stdout(theirs.try_clone().unwrap()).stderr(theirs);
        let child = command.spawn().unwrap();
        // The command holds the other side: when it has ended, so has the terminal.
        drop(command);
        let keys = File::from(ours);
        let mut screen = keys.try_clone().unwrap();
        let shown = Arc::new(Mutex::new(String::new()));
        let seen = shown.clone();
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                seen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { child, keys, shown, reader }
    }

    pub(crate) fn shown(&self) -> String {
        self.shown.lock().unwrap().clone()
    }

    /// Waits until the screen says so, as often as this.
    pub(crate) fn until(&self, words: &str, times: usize) {
        let begun = Instant::now();
        while self.shown().matches(words).count() < times {
            assert!(begun.elapsed() < PATIENCE, "{words:?} does not come:\n{}", self.shown());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    pub(crate) fn types(&mut self, line: &str) {
        self.keys.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// The exit code, and all that was shown.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end:\n{}", self.shown());
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        // Its last words may still be on their way.
        while !self.reader.is_finished() {
            assert!(begun.elapsed() < PATIENCE, "its terminal stays open:\n{}", self.shown());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        (status.code(), self.shown())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
