//! The output of a child. One thread per pipe reads it, so that the child never blocks.

use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The kept end of standard error, which explains failures.
const STDERR_KEPT: usize = 64 * 1024;

/// Everything that was read, shared by the pipe threads and the waiting test.
#[derive(Default)]
pub(crate) struct Output {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) overflow: bool,
    open_pipes: usize,
    stdout_open: bool,
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    Reached,
    Closed,
    Overflow,
    Deadline,
}

// === impl Output ===

impl Output {
    /// Starts reading both pipes. The threads end when the pipes close.
    pub(crate) fn gather(
        stdout: impl Read + Send + 'static,
        stderr: impl Read + Send + 'static,
        cap: usize,
    ) -> Arc<Self> {
        let output = Arc::new(Self {
            state: Mutex::new(State { open_pipes: 2, stdout_open: true, ..State::default() }),
            changed: Condvar::new(),
        });
        let shared = Arc::clone(&output);
        std::thread::spawn(move || {
            read_all(stdout, |bytes| shared.push_stdout(bytes, cap));
            shared.close(true);
        });
        let shared = Arc::clone(&output);
        std::thread::spawn(move || {
            read_all(stderr, |bytes| shared.push_stderr(bytes));
            shared.close(false);
        });
        output
    }

    /// Waits until `reached` is true for standard output, the pipe closes, or the deadline passes.
    pub(crate) fn wait(&self, deadline: Instant, mut reached: impl FnMut(&[u8]) -> bool) -> Waited {
        let mut state = self.lock();
        loop {
            if reached(&state.stdout) {
                return Waited::Reached;
            }
            if state.overflow {
                return Waited::Overflow;
            }
            if !state.stdout_open {
                return Waited::Closed;
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return Waited::Deadline;
            };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until both pipes are closed; `false` if the deadline passed first.
    pub(crate) fn wait_closed(&self, deadline: Instant) -> bool {
        let mut state = self.lock();
        while state.open_pipes > 0 {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return false;
            };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push_stdout(&self, bytes: &[u8], cap: usize) {
        let mut state = self.lock();
        if state.stdout.len() + bytes.len() > cap {
            state.overflow = true;
        } else {
            state.stdout.extend_from_slice(bytes);
        }
        self.changed.notify_all();
    }

    fn push_stderr(&self, bytes: &[u8]) {
        let mut state = self.lock();
        state.stderr.extend_from_slice(bytes);
        let surplus = state.stderr.len().saturating_sub(STDERR_KEPT);
        state.stderr.drain(..surplus);
    }

    fn close(&self, stdout: bool) {
        let mut state = self.lock();
        state.open_pipes -= 1;
        state.stdout_open &= !stdout;
        self.changed.notify_all();
    }
}

/// A read error counts as the end of the pipe.
fn read_all(mut pipe: impl Read, mut push: impl FnMut(&[u8])) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = pipe.read(&mut buffer) {
        push(&buffer[..length]);
    }
}
