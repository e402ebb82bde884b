//! A running model call, as its consumer sees it.

use super::call_event::CallEvent;
use tokio::sync::{mpsc, watch};

/// A running model call.
///
/// Dropping it stops the call: an open request is aborted, and a stored wait stays stored.
#[derive(Debug)]
pub struct RunningCall {
    pub(super) events: mpsc::Receiver<CallEvent>,
    pub(super) cancel: watch::Sender<bool>,
}

impl RunningCall {
    /// The next event; `None` after [`CallEvent::Ended`].
    pub async fn next(&mut self) -> Option<CallEvent> {
        self.events.recv().await
    }

    /// Cancels the request or the wait for good. [`CallEvent::Ended`] follows.
    pub fn cancel(&self) {
        self.cancel.send_replace(true);
    }

    /// A handle that cancels the call while another task reads its events.
    pub fn canceller(&self) -> Canceller {
        Canceller(self.cancel.clone())
    }
}

/// Cancels a running call.
#[derive(Clone, Debug)]
pub struct Canceller(watch::Sender<bool>);

impl Canceller {
    /// Cancels the request or the wait for good.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }
}
