//! The attempts of one model call, one after the other, until the call ends.

use super::attempt::{AttemptResult, run_attempt};
use super::call_event::{CallEvent, CallOutcome};
use super::ledger_row::AttemptReport;
use super::running::RunningCall;
use super::secrets::RouteSecrets;
use super::sender::{Abandoned, CallEventSender};
use super::waiting::Waiting;
use super::{Client, ModelCall, diagnostics, ledger_row};
use crate::attempt::{ItemNo, Outcome};
use crate::classify::Failure;
use crate::retry::{Decision, Retries};
use crate::wait::WallWatch;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tracing::{Instrument, debug, error, info, warn};
use turnstream_model::Chain;
use turnstream_model::attempts::{Parked, Unkept, Verdict};
use turnstream_model::event::ErrorClass;
use turnstream_model::time::Time;

/// Events that wait for the consumer.
const QUEUE: usize = 256;
/// Attempt numbers that are skipped because a killed process may have used them.
const SKIPPED: u32 = 64;

/// Starts the task of a call.
pub(super) fn start(
    client: Client,
    call: ModelCall,
    retries: Retries,
    parked: Option<Parked>,
) -> RunningCall {
    let (sender, events) = mpsc::channel(QUEUE);
    let (cancel, cancelled) = watch::channel(false);
    let number = parked.as_ref().map_or(call.attempts_before, |parked| parked.attempt);
    let sender = CallEventSender { events: sender, cancelled };
    let watch = WallWatch::new(&*client.environment.clock);
    let rng = fastrand::Rng::new();
    let secrets = RouteSecrets::of(&call.route.url, &call.route.headers);
    let run = Run { client, call, secrets, retries, sender, rng, watch, number, replaced: None };
    tokio::spawn(run.run(parked));
    RunningCall { events, cancel }
}

/// The state of a running call.
pub(super) struct Run {
    pub(super) client: Client,
    pub(super) call: ModelCall,
    secrets: RouteSecrets,
    pub(super) retries: Retries,
    pub(super) sender: CallEventSender,
    rng: fastrand::Rng,
    pub(super) watch: WallWatch,
    /// The number of the last attempt.
    pub(super) number: u32,
    /// The attempt that the next one replaces, and the items that were shown of it.
    pub(super) replaced: Option<(u32, Vec<ItemNo>)>,
}

/// What to do next.
pub(super) enum NextStep {
    /// Make another attempt.
    Attempt {
        /// Whether a stored wait has just ended.
        is_parked: bool,
    },
    /// Wait, and then make another attempt.
    Wait(Box<Waiting>),
    /// The call is over.
    End(Box<CallOutcome>),
    /// The consumer is gone.
    Stop,
}

impl Run {
    async fn run(mut self, parked: Option<Parked>) {
        let mut next = match parked {
            Some(parked) => self.resume_wait(parked).await,
            None => NextStep::Attempt { is_parked: false },
        };
        let outcome = loop {
            next = match next {
                NextStep::Attempt { is_parked } => self.attempt(is_parked).await,
                NextStep::Wait(waiting) => self.wait_and_retry(*waiting).await,
                NextStep::End(outcome) => break outcome,
                NextStep::Stop => return,
            };
        };
        if let CallOutcome::NotRecorded(unkept) = &*outcome {
            let (session, turn) = (&self.call.session, &self.call.turn);
            error!(%session, %turn, error = %Chain(unkept), "no request was sent: it cannot be recorded");
        }
        let spent = self.retries.spent().clone();
        self.sender.send_last(CallEvent::Ended { outcome, attempt: self.number, spent }).await;
    }

    async fn attempt(&mut self, is_parked: bool) -> NextStep {
        if let Err(unkept) = self.record_start().await {
            if is_parked {
                // The turn ends by this. A wait that stayed would be resumed for a turn that is over.
                self.remove_wait().await;
            }
            return NextStep::End(Box::new(CallOutcome::NotRecorded(unkept)));
        }
        turnstream_failpoint::reach("llm.begun");
        let span = diagnostics::attempt_span(&self.call, self.number);
        self.recorded_attempt(is_parked).instrument(span).await
    }

    /// One attempt whose ledger row is durable.
    async fn recorded_attempt(&mut self, is_parked: bool) -> NextStep {
        let abandoned = match self.announce().await {
            // A dropped consumer leaves the wait stored, so the wait is removed after the announcement.
            Ok(()) if is_parked && !self.remove_wait().await => Some(Abandoned::Cancelled),
            Ok(()) => None,
            Err(abandoned) => {
                if is_parked && abandoned == Abandoned::Cancelled {
                    self.remove_wait().await;
                }
                Some(abandoned)
            }
        };
        let mut result = match abandoned {
            None => run_attempt(&self.client, &self.call, self.number, &mut self.sender).await,
            Some(_) => AttemptResult { abandoned, ..AttemptResult::nothing(self.call.consumer) },
        };
        if let Some(failure) = &mut result.failure {
            self.secrets.hide(failure);
        }
        if let Some(id) = &mut result.request_id {
            self.secrets.hide_in_text(id);
        }
        if let Some(outcome) = &result.outcome {
            diagnostics::record_usage(&tracing::Span::current(), outcome);
            diagnostics::log_stream(outcome);
        }
        self.conclude(result).await
    }

    /// Reports that an attempt starts, and which one it replaces.
    async fn announce(&mut self) -> Result<(), Abandoned> {
        debug!(step = self.call.step, format = self.call.route.format.name(), "attempt started");
        self.sender.send(CallEvent::AttemptStarted { attempt: self.number }).await?;
        if let Some((attempt, items)) = self.replaced.take() {
            self.sender.send(CallEvent::Superseded { attempt, by: self.number, items }).await?;
        }
        Ok(())
    }

    /// Writes the ledger row of the next attempt, durably.
    async fn record_start(&mut self) -> Result<(), Unkept> {
        for _ in 0..SKIPPED {
            self.number = self.number.saturating_add(1);
            let now = self.now();
            let begun = self.call.begun(self.number, now);
            match self.client.environment.ledger.begin(begun).await {
                // A killed process has used the number: its row exists, and its request may have been sent.
                Err(Unkept::Repeated(name)) => debug!(attempt = %name, "attempt number is taken"),
                other => return other,
            }
        }
        Err(Unkept::Repeated(self.call.name(self.number)))
    }

    /// Decides what follows an attempt, and writes the end of its row.
    async fn conclude(&mut self, result: AttemptResult) -> NextStep {
        let now = self.now();
        if let Some(abandoned) = result.abandoned {
            debug!(reason = ?abandoned, "attempt abandoned");
            self.record_end(result, Verdict::Cancelled, None).await;
            return match abandoned {
                Abandoned::Cancelled => NextStep::End(Box::new(CallOutcome::Cancelled)),
                Abandoned::ConsumerDropped => NextStep::Stop,
            };
        }
        let outcome = result.outcome.clone();
        let Some(failure) = result.failure.clone() else {
            debug!(bytes = outcome.as_ref().map(|outcome| outcome.bytes), "attempt completed");
            self.retries.answered(now);
            self.record_end(result, Verdict::Complete, None).await;
            return NextStep::End(Box::new(outcome.map_or_else(missing_outcome, CallOutcome::Complete)));
        };
        diagnostics::log_message(&failure, &self.client.environment.redact);
        self.conclude_failure(result, outcome, failure, now).await
    }

    async fn conclude_failure(
        &mut self,
        result: AttemptResult,
        outcome: Option<Outcome>,
        failure: Failure,
        now: Time,
    ) -> NextStep {
        let shown = result.delivery.shown.clone();
        let decision = self.retries.decide(&failure, &shown, self.call.consumer, now, &mut self.rng);
        let runnable = outcome.filter(|outcome| !outcome.runnable().is_empty());
        let (class, source) = (failure.class, failure.source.as_str());
        let error = diagnostics::own_message(&failure);
        match (decision, runnable) {
            (Decision::Truncate, Some(outcome)) => {
                let calls = outcome.runnable().len();
                warn!(%class, source, error, calls, "the answer broke off; its complete tool calls count");
                // The turn goes on with these calls, so this counts as an answer.
                self.retries.answered(now);
                self.record_end(result, Verdict::Truncated, Some(&failure)).await;
                NextStep::End(Box::new(CallOutcome::Truncated { outcome, failure }))
            }
            (Decision::Truncate, None) => {
                warn!(%class, source, error, "attempt failed; none follows");
                self.record_end(result, Verdict::Failed, Some(&failure)).await;
                NextStep::End(Box::new(CallOutcome::Failed { failure, retry_at: None }))
            }
            (Decision::Fail { retry_at }, _) => {
                warn!(%class, source, error, "attempt failed; none follows");
                self.record_end(result, Verdict::Failed, Some(&failure)).await;
                NextStep::End(Box::new(CallOutcome::Failed { failure, retry_at }))
            }
            (Decision::Retry { after, supersede }, _) => {
                warn!(%class, source, error, ?after, "attempt failed; another follows");
                self.record_end(result, Verdict::Failed, Some(&failure)).await;
                self.replaced = Some((self.number, supersede));
                NextStep::Wait(Box::new(self.sleep(&failure, after)))
            }
            (Decision::Park { until, supersede }, _) => {
                let after = Duration::from_millis(until.0.saturating_sub(now.0));
                warn!(%class, source, error, ?after, "attempt failed; another follows after a stored wait");
                self.replaced = Some((self.number, supersede));
                // Stored before the end of the row: a kill between the two leaves an unknown row and loses
                // no wait.
                let parked = self.park(&failure, after).await;
                self.record_end(result, Verdict::Failed, Some(&failure)).await;
                match parked {
                    Ok(waiting) => NextStep::Wait(Box::new(waiting)),
                    Err(unkept) => NextStep::End(Box::new(CallOutcome::NotRecorded(unkept))),
                }
            }
        }
    }

    /// Removes the stored wait. Returns whether it still existed.
    pub(super) async fn remove_wait(&mut self) -> bool {
        let (session, turn) = (self.call.session.clone(), self.call.turn.clone());
        match self.client.environment.waits.unpark(session, turn).await {
            Ok(existed) => existed,
            Err(unkept) => {
                self.sender.send_not_recorded(unkept).await;
                // At worst the wait is resumed after a restart. Giving up the turn now would be worse.
                true
            }
        }
    }

    async fn record_end(&mut self, result: AttemptResult, verdict: Verdict, failure: Option<&Failure>) {
        // Not `now()`: a clock change must be noticed by the wait that may have been stored a moment ago.
        let now = self.client.environment.clock.wall();
        let AttemptResult { outcome, delivery, status, request_id, mut headers, recorder, .. } = result;
        headers.iter_mut().for_each(|(_, value)| self.secrets.hide_in_text(value));
        let received = delivery.received;
        let report = AttemptReport { outcome, received, status, request_id, headers, recorder };
        let mut ended = ledger_row::ended(report, verdict, failure, now, &self.client.environment.redact);
        if let Some(evidence) = &mut ended.evidence {
            self.secrets.hide_in_bytes(evidence);
        }
        let name = self.call.name(self.number);
        if let Err(unkept) = self.client.environment.ledger.end(name, ended).await {
            self.sender.send_not_recorded(unkept).await;
        }
    }

    /// The wall time. Earlier times are moved if the clock was set since.
    pub(super) fn now(&mut self) -> Time {
        let clock = &*self.client.environment.clock;
        if let Some(by) = self.watch.moved(clock) {
            info!(by_ms = by, "the wall clock was set");
            self.retries.clock_moved(by);
        }
        clock.wall()
    }
}

/// An attempt without a failure has an outcome. Anything else is a bug, which is reported as a failed call.
fn missing_outcome() -> CallOutcome {
    let message = "an attempt ended without an outcome";
    error!("{message}");
    let failure = Failure::new(ErrorClass::Internal, crate::classify::Source::Ours, message);
    CallOutcome::Failed { failure, retry_at: None }
}
