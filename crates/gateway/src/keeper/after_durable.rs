//! What happens when events have become durable, in the order of the log: requests are answered, the shown
//! state of the session changes, events are counted and traced. Only the error of a failing disk comes
//! earlier.

use super::AppenderClosed;
use super::spans::{TracedEvent, TurnSpans};
use crate::disk_failure::{self, DiskFailure};
use crate::error::RequestError;
use crate::event_counts::{Counted, EventCounters};
use crate::gateway::Shared;
use crate::session_states::SessionStates;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tracing::Instrument;
use turnstream_log::{AppendError, Log, Receipt};
use turnstream_model::Chain;
use turnstream_model::cursor::Seq;
use turnstream_model::fold::{Session, State};
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// Something that waits for durability.
pub(super) enum OnceDurable {
    /// Show the session in this state.
    Show(Box<Session>),
    /// Something happened in the session at this time.
    Touch(Time),
    /// Count these events of a session of this agent.
    Count(String, Vec<Counted>),
    /// Trace these events, which were appended at this time.
    Trace(Vec<TracedEvent>, Time),
    /// Answer a request.
    Reply(Box<dyn FnOnce(Result<(), RequestError>) + Send>),
    /// Tell the keeper. Dropped if the append fails.
    Durable(oneshot::Sender<()>),
}

type Pending = (Receipt, Vec<OnceDurable>);

/// The keeper's side of the task that waits for the disk, so that the keeper need not.
pub(super) struct AfterDurable {
    pending: Option<mpsc::UnboundedSender<Pending>>,
    task: JoinHandle<()>,
}

impl AfterDurable {
    /// Starts the task for a session that is in this state.
    pub(super) fn start(shared: &Shared, id: SessionId, state: &State) -> Self {
        let (pending, receipts) = mpsc::unbounded_channel();
        let task = Task {
            states: shared.states.clone(),
            counters: shared.counters.clone(),
            log: shared.log.clone(),
            spans: TurnSpans::resume(id.clone(), state),
            id,
        };
        let task = tokio::spawn(task.run(receipts).in_current_span());
        Self { pending: Some(pending), task }
    }

    /// Runs the effects when the append is durable. The log's budget bounds how much can wait here.
    pub(super) fn after(&self, receipt: Receipt, effects: Vec<OnceDurable>) -> Result<(), AppenderClosed> {
        let pending = self.pending.as_ref().ok_or(AppenderClosed)?;
        pending.send((receipt, effects)).map_err(|_| AppenderClosed)
    }

    /// Returns when every append that was handed over is durable or has failed.
    pub(super) async fn finish(mut self) {
        self.pending = None;
        if let Err(error) = (&mut self.task).await {
            tracing::error!(error = %Chain(&error), "the task that waits for the disk failed");
        }
    }
}

/// The task's own state.
struct Task {
    states: Arc<SessionStates>,
    counters: Arc<EventCounters>,
    log: Log,
    id: SessionId,
    spans: TurnSpans,
}

impl Task {
    /// Ends with the first append that fails: no later effect may be seen.
    async fn run(mut self, mut receipts: mpsc::UnboundedReceiver<Pending>) {
        let log = self.log.clone();
        let mut waiting: VecDeque<Pending> = VecDeque::new();
        let mut failing = pin!(disk_failure::wait(&log));
        let mut open = true;
        while open || !waiting.is_empty() {
            tokio::select! {
                biased;
                (result, effects) = oldest(&mut waiting) => {
                    match result {
                        Ok(_) => effects.into_iter().for_each(|effect| self.apply(effect)),
                        Err(error) => return self.fail(error, effects),
                    }
                    // The grace period of the next append begins now.
                    failing.set(disk_failure::wait(&log));
                }
                pending = receipts.recv(), if open => match pending {
                    Some(pending) => waiting.push_back(pending),
                    None => open = false,
                },
                failure = &mut failing, if !waiting.is_empty() => {
                    for (_, effects) in &mut waiting {
                        reply_early(effects, &failure);
                    }
                    failing.set(disk_failure::wait(&log));
                }
            }
        }
    }

    fn apply(&mut self, effect: OnceDurable) {
        match effect {
            OnceDurable::Show(session) => self.states.show(&self.id, *session),
            OnceDurable::Touch(time) => self.states.touch(&self.id, time),
            OnceDurable::Count(agent, events) => self.counters.add(&agent, &events),
            OnceDurable::Trace(events, time) => {
                events.into_iter().for_each(|event| self.spans.apply(event, time));
            }
            // A keeper that was aborted does not wait for this.
            OnceDurable::Durable(keeper) => drop(keeper.send(())),
            OnceDurable::Reply(reply) => reply(Ok(())),
        }
    }

    fn fail(&self, error: AppendError, effects: Vec<OnceDurable>) {
        log_append_error(&error);
        let error = RequestError::of_append(error);
        for effect in effects {
            match effect {
                OnceDurable::Reply(reply) => reply(Err(error.clone())),
                OnceDurable::Show(_)
                | OnceDurable::Touch(_)
                | OnceDurable::Count(..)
                | OnceDurable::Trace(..)
                | OnceDurable::Durable(_) => {}
            }
        }
    }
}

/// An append that came too late is expected. Any other refusal stops the session, and an operator must act.
pub(super) fn log_append_error(error: &AppendError) {
    match error {
        AppendError::Closed | AppendError::Deleted(_) | AppendError::Fenced { .. } => {
            tracing::debug!(error = %Chain(error), "an append came too late");
        }
        refused => tracing::error!(error = %Chain(refused), "the log cannot be written"),
    }
}

/// The oldest append, when it is durable or has failed. Safe to drop and call again.
async fn oldest(waiting: &mut VecDeque<Pending>) -> (Result<Seq, AppendError>, Vec<OnceDurable>) {
    let Some((receipt, _)) = waiting.front_mut() else { return std::future::pending().await };
    let result = receipt.await;
    (result, waiting.pop_front().map(|(_, effects)| effects).unwrap_or_default())
}

/// Answers the requests of an append that waits for a failing disk. The other effects stay.
fn reply_early(effects: &mut Vec<OnceDurable>, failure: &DiskFailure) {
    for effect in std::mem::take(effects) {
        match effect {
            OnceDurable::Reply(reply) => reply(Err(failure.clone().not_durable_yet())),
            other => effects.push(other),
        }
    }
}
