//! The sending half of a running call's events.

use super::call_event::CallEvent;
use tokio::sync::{mpsc, watch};
use tracing::{debug, warn};
use turnstream_model::Chain;
use turnstream_model::attempts::Unkept;

/// Why a call stops before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abandoned {
    /// The consumer cancelled it for good.
    Cancelled,
    /// The consumer dropped it, perhaps because the process stops.
    ConsumerDropped,
}

/// Sends events to the consumer and notices when it is gone.
pub(super) struct CallEventSender {
    pub(super) events: mpsc::Sender<CallEvent>,
    pub(super) cancelled: watch::Receiver<bool>,
}

impl CallEventSender {
    /// Waits until the call is abandoned.
    pub(super) async fn abandoned(&self) -> Abandoned {
        let mut cancelled = self.cancelled.clone();
        let cancel = async {
            if cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = cancel => Abandoned::Cancelled,
            () = self.events.closed() => Abandoned::ConsumerDropped,
        }
    }

    /// Sends an event, unless the call is abandoned.
    pub(super) async fn send(&self, event: CallEvent) -> Result<(), Abandoned> {
        tokio::select! {
            biased;
            abandoned = self.abandoned() => Err(abandoned),
            sent = self.events.send(event) => sent.map_err(|_| Abandoned::ConsumerDropped),
        }
    }

    /// Sends the last event, also to a consumer that has cancelled: it reads on until the end.
    pub(super) async fn send_last(&self, event: CallEvent) {
        if self.events.send(event).await.is_err() {
            debug!("the consumer is gone before the end of its call");
        }
    }

    /// Logs and reports that something could not be stored.
    ///
    /// A consumer that has cancelled is told too: a wait that was not removed comes back after a restart.
    pub(super) async fn send_not_recorded(&self, unkept: Unkept) {
        warn!(error = %Chain(&unkept), "the ledger of attempts was not written");
        if self.events.send(CallEvent::NotRecorded(unkept)).await.is_err() {
            debug!("the consumer is gone before the end of its call");
        }
    }
}
