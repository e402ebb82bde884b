//! The queues of messages to sessions: one message at a time per session, in the order of the calls.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use tokio::sync::OwnedMutexGuard;

/// A place in the queue of a session. Resolves to the slot when all earlier ones were released.
pub(super) type QueuePlace = Pin<Box<dyn Future<Output = OwnedMutexGuard<()>> + Send>>;

/// The queues of one client, by session. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct MessageQueues(Arc<Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>>);

impl MessageQueues {
    /// The next place in the queue of a session.
    pub(super) fn next_place(&self, session: &str) -> QueuePlace {
        let mut place = Box::pin(self.queue(session).lock_owned());
        // A lock is granted in the order in which it was first polled.
        match place.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(slot) => Box::pin(std::future::ready(slot)),
            Poll::Pending => place,
        }
    }

    fn queue(&self, session: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|_, queue| queue.strong_count() > 0);
        if let Some(queue) = queues.get(session).and_then(Weak::upgrade) {
            return queue;
        }
        let queue = Arc::default();
        queues.insert(session.to_owned(), Arc::downgrade(&queue));
        queue
    }
}
