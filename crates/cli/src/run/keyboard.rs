//! Input from the terminal. Text that was typed before a question is never its answer.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{read, retry_on_intr};
use rustix::termios::{QueueSelector, tcflush};
use std::io;
use tokio::sync::mpsc;

/// The longest line. A terminal does not return longer ones.
const LONGEST: usize = 64 * 1024;

/// The terminal behind standard input. Only the task that waits for a line reads it, so no early line is
/// buffered. A thread reports when there is input; it ends with the process.
pub(super) struct Keyboard {
    watch: std::sync::mpsc::Sender<()>,
    ready: mpsc::Receiver<()>,
    is_watched: bool,
    /// The beginning of a line that is not complete.
    begun: Vec<u8>,
}

impl Keyboard {
    pub(super) fn new() -> io::Result<Self> {
        let (watch, watches) = std::sync::mpsc::channel();
        let (tell, ready) = mpsc::channel(1);
        let thread = std::thread::Builder::new().name("keyboard".to_owned());
        thread.spawn(move || {
            while let Ok(()) = watches.recv() {
                wait_until_readable(None);
                if tell.blocking_send(()).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { watch, ready, is_watched: false, begun: Vec::new() })
    }

    /// Discards everything that was typed so far.
    pub(super) fn forget(&mut self) -> io::Result<()> {
        self.begun.clear();
        Ok(retry_on_intr(|| tcflush(io::stdin(), QueueSelector::IFlush))?)
    }

    /// Waits for the next line; `None` when the input has ended. Cancel-safe.
    pub(super) async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.begun.drain(..=end).collect();
                return Some(String::from_utf8_lossy(&line).trim().to_owned());
            }
            if wait_until_readable(Some(AT_ONCE)) {
                self.read().ok()?;
                continue;
            }
            if !self.is_watched {
                self.watch.send(()).ok()?;
                self.is_watched = true;
            }
            self.ready.recv().await?;
            self.is_watched = false;
        }
    }

    /// Reads the available input: a readable terminal has a whole line, or has ended.
    fn read(&mut self) -> io::Result<()> {
        let mut bytes = [0; 4096];
        let count = retry_on_intr(|| read(io::stdin(), &mut bytes))?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.begun.extend_from_slice(&bytes[..count]);
        if self.begun.len() > LONGEST {
            self.begun.clear();
        }
        Ok(())
    }
}

const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Waits for input, and returns whether there is some.
fn wait_until_readable(within: Option<Timespec>) -> bool {
    let input = io::stdin();
    let mut polled = [PollFd::new(&input, PollFlags::IN)];
    retry_on_intr(|| poll(&mut polled, within.as_ref())).is_ok_and(|ready| ready > 0)
}
