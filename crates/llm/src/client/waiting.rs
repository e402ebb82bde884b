//! The time between two attempts: slept or parked, told either way, and as long as it should be whatever the wall clock does.

use super::row;
use super::run::{Gone, Next, Run};
use super::running::{Ending, Told, Wait};
use crate::attempt::ItemNo;
use crate::classify::Failure;
use crate::wait::Alarm;
use std::time::Duration;
use turnstream_model::attempts::{Parked, Unkept};
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::time::Time;

/// A wait, and what is told of it.
pub(super) struct Waiting {
    alarm: Alarm,
    reason: ErrorClass,
    message: String,
    until: Time,
    /// As it is stored, if it is.
    parked: Option<Parked>,
}

/// How a wait ended.
enum Over {
    Slept,
    Parked,
    Gone(Gone),
}

impl Run {
    /// Waits in memory.
    pub(super) async fn sleep(&mut self, failure: &Failure, after: Duration) -> Next {
        let until = self.now().plus_millis(millis(after));
        let alarm = Alarm::after(after, &*self.client.keeping.clock);
        let message = self.safe_error(failure, until).message;
        self.sit_out(Waiting { alarm, reason: failure.class, message, until, parked: None }).await
    }

    /// Stores a wait that begins now.
    pub(super) async fn park(&mut self, failure: &Failure, how_long: Duration) -> Result<Waiting, Unkept> {
        let now = self.now();
        let until = now.plus_millis(millis(how_long));
        let alarm = Alarm::after(how_long, &*self.client.keeping.clock);
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
        self.client.keeping.waits.park(parked.clone()).await?;
        turnstream_failpoint::reach("llm.parked");
        Ok(Waiting::of(alarm, parked))
    }

    /// Goes on with a wait that was stored by an earlier process.
    pub(super) async fn take_up(&mut self, mut parked: Parked) -> Next {
        let shown = parked.shown.iter().map(|item| ItemNo(*item)).collect();
        self.replaced = Some((parked.attempt, shown));
        let now = self.now();
        let alarm = Alarm::resumed(&parked, &*self.client.keeping.clock);
        if now < parked.since {
            // The clock was set back while nobody looked. Were the wait not restated it would begin anew with each restart.
            let by = i64::try_from(parked.since.0 - now.0).unwrap_or(i64::MAX).saturating_neg();
            parked.clock_moved(by);
            self.retries.clock_moved(by);
            if !self.restate(&parked).await {
                return Next::End(Box::new(Ending::Cancelled));
            }
        }
        self.sit_out(Waiting::of(alarm, parked)).await
    }

    /// Waits, visibly, until it is over or nobody wants it any more.
    pub(super) async fn sit_out(&mut self, mut waiting: Waiting) -> Next {
        match self.wait(&mut waiting).await {
            Over::Parked => Next::Again { is_parked: true },
            Over::Slept => Next::Again { is_parked: false },
            Over::Gone(Gone::Cancelled) => {
                if waiting.parked.is_some() {
                    self.unpark().await;
                }
                Next::End(Box::new(Ending::Cancelled))
            }
            // A parked wait outlives its reader, and is taken up again.
            Over::Gone(Gone::Dropped) => Next::Stop,
        }
    }

    async fn wait(&mut self, waiting: &mut Waiting) -> Over {
        let clock = self.client.keeping.clock.clone();
        if let Err(gone) = self.teller.tell(waiting.told(self.number)).await {
            return Over::Gone(gone);
        }
        while let Some(left) = waiting.alarm.left(&*clock) {
            tokio::select! {
                biased;
                gone = self.teller.gone() => return Over::Gone(gone),
                () = clock.sleep(left) => {}
            }
            let Some(by) = self.watch.moved(&*clock) else { continue };
            self.retries.clock_moved(by);
            waiting.clock_moved(by);
            if let Some(parked) = &waiting.parked
                && !self.restate(parked).await
            {
                return Over::Gone(Gone::Cancelled);
            }
            if let Err(gone) = self.teller.tell(waiting.told(self.number)).await {
                return Over::Gone(gone);
            }
        }
        if waiting.parked.is_some() { Over::Parked } else { Over::Slept }
    }

    /// Whether the wait is still there. Its time is told as the wall clock shows it now.
    async fn restate(&self, parked: &Parked) -> bool {
        match self.client.keeping.waits.restate(parked.clone()).await {
            Ok(is_there) => is_there,
            Err(unkept) => {
                // The wait goes on in this process; a restart would wake up at another time, not later than it is long.
                self.teller.own_up(unkept).await;
                true
            }
        }
    }

    /// A failure as it may be kept and told.
    fn safe_error(&self, failure: &Failure, retry_at: Time) -> TurnError {
        let rules = &self.client.keeping.redact;
        let mut error = failure.error(Some(retry_at));
        error.message = rules.redact(&error.message).into_owned();
        error.request_id = error.request_id.map(|id| row::safe_name(&id, rules));
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

    fn told(&self, last: u32) -> Told {
        Told::Retrying {
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
