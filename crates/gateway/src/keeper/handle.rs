//! How the gateway reaches a keeper.

use super::REQUESTS;
use crate::request::Request;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{mpsc, watch};

/// Keepers so far, to tell two of one session apart.
static KEEPERS: AtomicU64 = AtomicU64::new(0);

/// The gateway's side of a keeper. Cloning shares it.
#[derive(Clone)]
pub(crate) struct Handle {
    /// No other keeper has it.
    pub(crate) number: u64,
    requests: mpsc::Sender<Request>,
    stop: watch::Sender<bool>,
    /// Closed when the keeper's task has ended.
    done: watch::Receiver<()>,
}

/// Held by the keeper's task while it lives.
pub(crate) type Done = watch::Sender<()>;

impl Handle {
    pub(super) fn new() -> (Self, mpsc::Receiver<Request>, watch::Receiver<bool>, Done) {
        let (requests, received) = mpsc::channel(REQUESTS);
        let (stop, stopped) = watch::channel(false);
        let (alive, done) = watch::channel(());
        let number = KEEPERS.fetch_add(1, Ordering::Relaxed);
        (Self { number, requests, stop, done }, received, stopped, alive)
    }

    /// False when the keeper takes nothing more.
    pub(crate) async fn send(&self, request: Request) -> bool {
        self.requests.send(request).await.is_ok()
    }

    pub(crate) fn is_awake(&self) -> bool {
        !self.requests.is_closed()
    }

    /// Asks it to leave at once; the future returns when it has.
    pub(crate) fn stop(self) -> impl Future<Output = ()> {
        self.stop.send_replace(true);
        self.ended()
    }

    /// Returns when its task has ended, and the session is free.
    pub(crate) async fn ended(mut self) {
        while self.done.changed().await.is_ok() {}
    }
}
