//! Tells everything in a server that it is to end.

use std::sync::Arc;
use tokio::sync::watch;

/// Whether the server is ending. Cloning shares it.
#[derive(Clone)]
pub(crate) struct Closing(Arc<watch::Sender<bool>>);

impl Closing {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Tells it.
    pub(crate) fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Returns once it was told.
    pub(crate) async fn begun(&self) {
        // The sender lives in this value: waiting cannot fail.
        let _ = self.0.subscribe().wait_for(|closing| *closing).await;
    }
}
