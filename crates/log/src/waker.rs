//! The thread that wakes followers, so that the next commit does not wait for it.

use crate::diagnostics::join;
use crate::session::Session;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};

/// Commits that may wait for the waker. Beyond that the writer wakes the followers itself.
const WAITING: usize = 8;

/// Wakes the followers of sessions. Dropping it waits until all of them are woken.
pub(crate) struct Waker {
    published: Option<SyncSender<Vec<Arc<Session>>>>,
    thread: Option<JoinHandle<()>>,
}

impl Waker {
    pub(crate) fn start() -> io::Result<Self> {
        let (published, sessions) = mpsc::sync_channel::<Vec<Arc<Session>>>(WAITING);
        let wake = move || sessions.into_iter().flatten().for_each(|session| session.wake());
        let thread = thread::Builder::new().name("log-waker".into()).spawn(wake)?;
        Ok(Self { published: Some(published), thread: Some(thread) })
    }

    /// Events were published in these sessions.
    pub(crate) fn wake(&self, sessions: Vec<Arc<Session>>) {
        if let Some(published) = &self.published
            && let Err(TrySendError::Full(unsent) | TrySendError::Disconnected(unsent)) =
                published.try_send(sessions)
        {
            unsent.iter().for_each(|session| session.wake());
        }
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        self.published = None;
        if let Some(thread) = self.thread.take() {
            join(thread);
        }
    }
}
