//! The signal that the server shuts down.

use std::sync::Arc;
use tokio::sync::watch;

/// Whether the server shuts down. Cloning shares it.
#[derive(Clone)]
pub(crate) struct Closing(Arc<watch::Sender<bool>>);

impl Closing {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Begins the shutdown.
    pub(crate) fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Returns when the shutdown has begun.
    pub(crate) async fn begun(&self) {
        // Fails only without a sender, and this is the sender.
        drop(self.0.subscribe().wait_for(|closing| *closing).await);
    }
}
