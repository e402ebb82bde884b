//! What happens when events have become durable: requests are answered, the board changes. In the order of the log.

use super::Gone;
use crate::board::Board;
use crate::error::RequestError;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use turnstream_log::Receipt;
use turnstream_model::fold::Session;
use turnstream_model::id::SessionId;

/// Something that waits for durability.
pub(super) enum Effect {
    /// The session is this now.
    Show(Box<Session>),
    /// Somebody is answered.
    Reply(Box<dyn FnOnce(Result<(), RequestError>) + Send>),
}

/// The task that waits for the disk, so that the keeper need not.
pub(super) struct Aftermath {
    pending: Option<mpsc::UnboundedSender<(Receipt, Vec<Effect>)>>,
    task: JoinHandle<()>,
}

impl Aftermath {
    pub(super) fn start(board: Arc<Board>, id: SessionId) -> Self {
        let (pending, mut receipts) = mpsc::unbounded_channel::<(Receipt, Vec<Effect>)>();
        let task = tokio::spawn(async move {
            // Ends with the first append that failed: nothing after it may look as if it had happened.
            while let Some((receipt, effects)) = receipts.recv().await {
                let result = receipt.await.map(drop).map_err(|error| RequestError::of_append(&error));
                let failed = result.is_err();
                for effect in effects {
                    match effect {
                        Effect::Show(session) if !failed => board.show(&id, *session),
                        Effect::Show(_) => {}
                        Effect::Reply(reply) => reply(result.clone()),
                    }
                }
                if failed {
                    return;
                }
            }
        });
        Self { pending: Some(pending), task }
    }

    /// Runs the effects when the receipt says so. The log's budget bounds how much can wait here.
    pub(super) fn after(&self, receipt: Receipt, effects: Vec<Effect>) -> Result<(), Gone> {
        let pending = self.pending.as_ref().ok_or(Gone)?;
        pending.send((receipt, effects)).map_err(|_| Gone)
    }

    /// Returns when all that was handed over has happened.
    pub(super) async fn finish(mut self) {
        self.pending = None;
        let _ = (&mut self.task).await;
    }
}
