//! The gateway's handle to a keeper.

use super::REQUESTS;
use crate::request::ClientRequest;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{mpsc, watch};

/// Counts keepers, so that two keepers of one session have different numbers.
static KEEPERS: AtomicU64 = AtomicU64::new(0);

/// The gateway's side of a keeper. Cloning shares it.
#[derive(Clone)]
pub(crate) struct Handle {
    /// Unique among all keepers of the process.
    pub(crate) number: u64,
    requests: mpsc::Sender<ClientRequest>,
    stop: watch::Sender<bool>,
    /// Closed when the keeper's task has ended.
    done: watch::Receiver<()>,
}

/// Held by the keeper's task while it lives.
pub(crate) type Done = watch::Sender<()>;

impl Handle {
    pub(super) fn new() -> (Self, mpsc::Receiver<ClientRequest>, watch::Receiver<bool>, Done) {
        let (requests, received) = mpsc::channel(REQUESTS);
        let (stop, stopped) = watch::channel(false);
        let (alive, done) = watch::channel(());
        let number = KEEPERS.fetch_add(1, Ordering::Relaxed);
        (Self { number, requests, stop, done }, received, stopped, alive)
    }

    /// False when the keeper accepts no more requests.
    pub(crate) async fn send(&self, request: ClientRequest) -> bool {
        self.requests.send(request).await.is_ok()
    }

    pub(crate) fn is_awake(&self) -> bool {
        !self.requests.is_closed()
    }

    /// Asks the keeper to stop at once. The future returns when it has.
    pub(crate) fn stop(self) -> impl Future<Output = ()> {
        self.stop.send_replace(true);
        self.ended()
    }

    /// Returns when the keeper's task has ended, and the session has no owner.
    pub(crate) async fn ended(mut self) {
        while self.done.changed().await.is_ok() {}
    }
}
