//! Waits between two attempts, in memory or stored. A change of the wall clock does not change their length.

use super::call_event::{CallEvent, CallOutcome, Wait};
use super::ledger_row;
use super::run::{NextStep, Run};
use super::sender::Abandoned;
use crate::attempt::ItemNo;
use crate::classify::Failure;
use crate::wait::Alarm;
use std::time::Duration;
use tracing::info;
use turnstream_model::attempts::{Parked, Unkept};
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::time::Time;

/// A wait, and what is reported about it.
pub(super) struct Waiting {
    alarm: Alarm,
    reason: ErrorClass,
    message: String,
    until: Time,
    /// The stored form, if the wait is stored.
    parked: Option<Parked>,
}

/// How a wait ended.
enum WaitEnd {
    Slept,
    Parked,
    Abandoned(Abandoned),
}

impl Run {
    /// A wait in memory that starts now.
    pub(super) fn sleep(&mut self, failure: &Failure, after: Duration) -> Waiting {
        let until = self.now().plus_millis(millis(after));
        let alarm = Alarm::after(after, &*self.client.environment.clock);
        let message = self.safe_error(failure, until).message;
        Waiting { alarm, reason: failure.class, message, until, parked: None }
    }

    /// Stores a wait that starts now.
    pub(super) async fn park(&mut self, failure: &Failure, length: Duration) -> Result<Waiting, Unkept> {
        let now = self.now();
        let until = now.plus_millis(millis(length));
        let alarm = Alarm::after(length, &*self.client.environment.clock);
        let shown = self.replaced.iter().flat_map(|(_, items)| items).map(|item| item.0).collect();
        let parked = Parked {
            session: self.call.session.clone(),
            turn: self.call.turn.clone(),
            step: self.call.step,
            attempt: self.number,
            shown,
            route: self.call.route.name.clone(),
            since: now,
            until,
            error: self.safe_error(failure, until),
            spent: self.retries.spent().clone(),
        };
        self.client.environment.waits.park(parked.clone()).await?;
        turnstream_failpoint::reach("llm.parked");
        Ok(Waiting::of(alarm, parked))
    }

    /// Continues a wait that an earlier process stored.
    pub(super) async fn resume_wait(&mut self, mut parked: Parked) -> NextStep {
        let shown = parked.shown.iter().map(|item| ItemNo(*item)).collect();
        self.replaced = Some((parked.attempt, shown));
        let now = self.now();
        info!(
            session = %parked.session,
            turn = %parked.turn,
            attempt = parked.attempt,
            until_ms = parked.until.0,
            "resuming a stored wait"
        );
        let alarm = Alarm::resumed(&parked, &*self.client.environment.clock);
        if now < parked.since {
            // The clock was set back while no process ran. Without new times the wait would start over with
            // each restart.
            let by = i64::try_from(parked.since.0 - now.0).unwrap_or(i64::MAX).saturating_neg();
            parked.clock_moved(by);
            self.retries.clock_moved(by);
            if !self.restate(&parked).await {
                return NextStep::End(Box::new(CallOutcome::Cancelled));
            }
        }
        NextStep::Wait(Box::new(Waiting::of(alarm, parked)))
    }

    /// Waits until the wait is over or the call is abandoned, and reports it.
    pub(super) async fn wait_and_retry(&mut self, mut waiting: Waiting) -> NextStep {
        match self.wait(&mut waiting).await {
            WaitEnd::Parked => NextStep::Attempt { is_parked: true },
            WaitEnd::Slept => NextStep::Attempt { is_parked: false },
            WaitEnd::Abandoned(Abandoned::Cancelled) => {
                if waiting.parked.is_some() {
                    self.remove_wait().await;
                }
                NextStep::End(Box::new(CallOutcome::Cancelled))
            }
            // A stored wait outlives its consumer and is resumed later.
            WaitEnd::Abandoned(Abandoned::ConsumerDropped) => NextStep::Stop,
        }
    }

    async fn wait(&mut self, waiting: &mut Waiting) -> WaitEnd {
        let clock = self.client.environment.clock.clone();
        if let Err(abandoned) = self.sender.send(waiting.event(self.number)).await {
            return WaitEnd::Abandoned(abandoned);
        }
        while let Some(left) = waiting.alarm.left(&*clock) {
            tokio::select! {
                biased;
                abandoned = self.sender.abandoned() => return WaitEnd::Abandoned(abandoned),
                () = clock.sleep(left) => {}
            }
            let Some(by) = self.watch.moved(&*clock) else { continue };
            info!(by_ms = by, "the wall clock was set during a wait");
            self.retries.clock_moved(by);
            waiting.clock_moved(by);
            if let Some(parked) = &waiting.parked
                && !self.restate(parked).await
            {
                return WaitEnd::Abandoned(Abandoned::Cancelled);
            }
            if let Err(abandoned) = self.sender.send(waiting.event(self.number)).await {
                return WaitEnd::Abandoned(abandoned);
            }
        }
        if waiting.parked.is_some() { WaitEnd::Parked } else { WaitEnd::Slept }
    }

    /// Stores the wait's times as the wall clock shows them now. Returns whether the wait still exists.
    async fn restate(&self, parked: &Parked) -> bool {
        match self.client.environment.waits.restate(parked.clone()).await {
            Ok(exists) => exists,
            Err(unkept) => {
                // The wait continues in this process. After a restart it may end at another time, and lasts
                // at most its full length.
                self.sender.send_not_recorded(unkept).await;
                true
            }
        }
    }

    /// A failure as it may be stored and reported.
    fn safe_error(&self, failure: &Failure, retry_at: Time) -> TurnError {
        let rules = &self.client.environment.redact;
        let mut error = failure.error(Some(retry_at));
        error.message = rules.redact(&error.message).into_owned();
        error.request_id = error.request_id.map(|id| ledger_row::safe_name(&id, rules));
        for text in error.extra.values_mut() {
            rules.redact_json(text);
        }
        error
    }
}

impl Waiting {
    fn of(alarm: Alarm, parked: Parked) -> Self {
        let (reason, message) = (parked.error.class, parked.error.message.clone());
        Self { alarm, reason, message, until: parked.until, parked: Some(parked) }
    }

    fn clock_moved(&mut self, by: i64) {
        self.until = Time(self.until.0.saturating_add_signed(by));
        if let Some(parked) = &mut self.parked {
            parked.clock_moved(by);
        }
    }

    fn event(&self, last: u32) -> CallEvent {
        CallEvent::Retrying {
            attempt: last.saturating_add(1),
            reason: self.reason,
            until: self.until,
            wait: if self.parked.is_some() { Wait::Parked } else { Wait::Slept },
            message: self.message.clone(),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
