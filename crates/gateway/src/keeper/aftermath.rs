//! What happens when events have become durable: requests are answered, the board changes. In the order of the log.
//! Only that something cannot be kept is said before: nobody waits for as long as a disk fails.

use super::Gone;
use crate::board::Board;
use crate::error::RequestError;
use crate::gateway::Shared;
use crate::tally::{Fact, Tallies};
use crate::trouble::{Trouble, trouble};
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use turnstream_log::{AppendError, Log, Receipt};
use turnstream_model::cursor::Seq;
use turnstream_model::fold::Session;
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// Something that waits for durability.
pub(super) enum Effect {
    /// The session is this now.
    Show(Box<Session>),
    /// Something happened in the session at this time.
    Touch(Time),
    /// These happened in a session of this agent.
    Count(String, Vec<Fact>),
    /// Somebody who asked is answered.
    Reply(Box<dyn FnOnce(Result<(), RequestError>) + Send>),
    /// The keeper waits for it. Dropped if it cannot be.
    Durable(oneshot::Sender<()>),
}

type Pending = (Receipt, Vec<Effect>);

/// The task that waits for the disk, so that the keeper need not.
pub(super) struct Aftermath {
    pending: Option<mpsc::UnboundedSender<Pending>>,
    task: JoinHandle<()>,
}

impl Aftermath {
    pub(super) fn start(shared: &Shared, id: SessionId) -> Self {
        let (pending, receipts) = mpsc::unbounded_channel();
        let task =
            tokio::spawn(run(shared.board.clone(), shared.tallies.clone(), shared.log.clone(), id, receipts));
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

/// Ends with the first append that failed: nothing after it may look as if it had happened.
async fn run(
    board: Arc<Board>,
    tallies: Arc<Tallies>,
    log: Log,
    id: SessionId,
    mut receipts: mpsc::UnboundedReceiver<Pending>,
) {
    let mut waiting: VecDeque<Pending> = VecDeque::new();
    let mut failing = pin!(trouble(&log));
    let mut open = true;
    while open || !waiting.is_empty() {
        tokio::select! {
            biased;
            (result, effects) = first(&mut waiting) => {
                let result = result.map(drop).map_err(|error| RequestError::of_append(&error));
                let failed = result.is_err();
                for effect in effects {
                    match effect {
                        Effect::Show(session) if !failed => board.show(&id, *session),
                        Effect::Touch(time) if !failed => board.touch(&id, time),
                        Effect::Count(agent, facts) if !failed => tallies.add(&agent, &facts),
                        Effect::Durable(keeper) if !failed => drop(keeper.send(())),
                        Effect::Show(_) | Effect::Touch(_) | Effect::Count(..) | Effect::Durable(_) => {}
                        Effect::Reply(reply) => reply(result.clone()),
                    }
                }
                if failed {
                    return;
                }
                // The next one has its own moment.
                failing.set(trouble(&log));
            }
            pending = receipts.recv(), if open => match pending {
                Some(pending) => waiting.push_back(pending),
                None => open = false,
            },
            said = &mut failing, if !waiting.is_empty() => {
                for (_, effects) in &mut waiting {
                    tell(effects, &said);
                }
                failing.set(trouble(&log));
            }
        }
    }
}

/// The oldest append, when it is settled. Safe to drop and call again.
async fn first(waiting: &mut VecDeque<Pending>) -> (Result<Seq, AppendError>, Vec<Effect>) {
    let Some((receipt, _)) = waiting.front_mut() else { return std::future::pending().await };
    let result = receipt.await;
    (result, waiting.pop_front().map(|(_, effects)| effects).unwrap_or_default())
}

/// Whoever asked hears that it is not kept yet; what it does when it is stays.
fn tell(effects: &mut Vec<Effect>, trouble: &Trouble) {
    for effect in std::mem::take(effects) {
        match effect {
            Effect::Reply(reply) => reply(Err(trouble.clone().unkept())),
            other => effects.push(other),
        }
    }
}
