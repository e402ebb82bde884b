//! A session that is parked after a failed turn: the clock of its wait, and the prompt that continues the
//! turn. The rules are in `turnstream_model::unattended`.

use super::commit::Work;
use super::requests::refuse;
use super::{AppenderClosed, Keeper};
use crate::clock::{ClockSource, Reading};
use crate::disk_failure;
use crate::error::RequestError;
use crate::request::Reply;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;
use turnstream_model::event::{By, Released};
use turnstream_model::fold::Parked;
use turnstream_model::machine::{Accepted, Refusal};

/// How often the clocks are read during a wait: timers stand still while the machine sleeps.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);

/// The end of a wait. While a keeper has it, only the boot clock counts, which nobody can set and which goes
/// on while the machine sleeps. After a restart the wall clock tells what is left, which is never more than
/// the whole wait.
pub(super) struct Alarm {
    parked: Parked,
    begun: Reading,
    left: Duration,
}

impl Alarm {
    fn new(parked: &Parked, now: Reading) -> Self {
        let whole = parked.until.0.saturating_sub(parked.time.0);
        let left = parked.until.0.saturating_sub(now.wall.0).min(whole);
        Self { parked: parked.clone(), begun: now, left: Duration::from_millis(left) }
    }

    /// How long it still takes; zero when it is over.
    fn left(&self, clock: &ClockSource) -> Duration {
        let passed = Duration::from_millis(self.begun.boot.millis_until(&clock.read().boot));
        self.left.saturating_sub(passed)
    }
}

impl Keeper {
    /// Begins, keeps or forgets the alarm, as the session is parked or not.
    pub(super) fn set_alarm(&mut self) {
        let parked = self.machine.parked();
        if self.alarm.as_ref().map(|alarm| &alarm.parked) != parked {
            self.alarm = parked.map(|parked| Alarm::new(parked, self.shared.settings.clock.read()));
        }
    }

    /// When the wait is over, or the clocks have to be read again.
    pub(super) fn alarm_deadline(&self) -> Option<Instant> {
        let alarm = self.alarm.as_ref().filter(|_| self.can_continue())?;
        Some(Instant::now() + alarm.left(&self.shared.settings.clock).min(CHECK_INTERVAL))
    }

    fn can_continue(&self) -> bool {
        self.machine.can_continue() && self.recovery.is_none() && !self.outage.is_on()
    }

    /// When a parked session gives up its link. The continuation makes a new one.
    pub(super) fn parked_link_deadline(&self) -> Option<Instant> {
        let is_spare = self.is_parked() && self.connection.is_up() && !self.connection.works_in_background();
        is_spare.then(|| self.clocks.last_activity() + self.shared.settings.idle)
    }

    /// Whether nothing is open in the session but the wait for a continuation.
    pub(super) fn is_parked(&self) -> bool {
        self.machine.can_continue() && !self.machine.is_waiting() && self.recovery.is_none()
    }

    /// Continues the turn if its time has come.
    pub(super) async fn continue_if_due(&mut self) -> Result<(), AppenderClosed> {
        let is_over = |alarm: &Alarm| alarm.left(&self.shared.settings.clock).is_zero();
        if !self.can_continue() || !self.alarm.as_ref().is_some_and(is_over) {
            return Ok(());
        }
        let mut work = Work::default();
        match self.continue_parked(Released::Due, By::Policy, &mut work) {
            Ok(accepted) => {
                tracing::info!(prompt = %accepted.prompt, "the wait is over: a turn is continued")
            }
            Err(refusal) => {
                tracing::warn!(error = %refusal, "the wait is over, and the turn is not continued")
            }
        }
        self.commit(work).await?;
        turnstream_failpoint::reach("keeper.continued");
        Ok(())
    }

    /// A client does not want to wait.
    pub(super) async fn wake_parked(
        &mut self,
        mut work: Work,
        reply: Reply<Accepted>,
    ) -> Result<(), AppenderClosed> {
        if let Some(failure) = disk_failure::current(&self.shared.log) {
            return refuse(reply, failure.refused());
        }
        if self.recovery.is_some() {
            return refuse(reply, RequestError::Recovering(self.id.clone()));
        }
        match self.continue_parked(Released::Woken, By::Client, &mut work) {
            Ok(accepted) => {
                work.reply(reply, accepted);
                self.commit(work).await
            }
            Err(refusal) => {
                self.commit(work).await?;
                refuse(reply, refusal.into())
            }
        }
    }

    /// The end of the wait and the prompt are events of one append.
    fn continue_parked(&mut self, outcome: Released, by: By, work: &mut Work) -> Result<Accepted, Refusal> {
        let content = vec![json!({"type": "text", "text": self.machine.unattended().continue_with})];
        let accepted = self.step(work, |machine, step| machine.continue_parked(outcome, by, step))?;
        self.contents.insert(accepted.prompt.clone(), content);
        Ok(accepted)
    }
}

#[cfg(test)]
mod tests {
    use super::Alarm;
    use crate::clock::{ClockSource, FakeClock};
    use std::time::Duration;
    use turnstream_model::event::{Because, Continuation, ErrorClass};
    use turnstream_model::fold::Parked;
    use turnstream_model::id::TurnId;
    use turnstream_model::time::Time;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// A session that was parked for five hours when this clock was read.
    fn parked(clock: &ClockSource) -> Parked {
        let (time, of) = (clock.read().wall, TurnId::from("t1"));
        let reason = ErrorClass::RateLimited;
        let continuation =
            Continuation { of, because: Because::Limit, reason, failures: 0, limits: 1, since: Some(time) };
        Parked { continuation, until: time.plus_millis(5 * 3_600_000), time }
    }

    #[test]
    fn a_wall_clock_that_jumps_neither_ends_nor_prolongs_a_wait() {
        let fake = FakeClock::new();
        let clock = ClockSource::from(fake.clone());
        let alarm = Alarm::new(&parked(&clock), clock.read());
        assert_eq!(alarm.left(&clock), HOUR * 5);
        fake.jump(HOUR * 24 * 200);
        assert_eq!(alarm.left(&clock), HOUR * 5);
        fake.pass(HOUR * 5 - Duration::from_millis(1));
        assert_eq!(alarm.left(&clock), Duration::from_millis(1));
        fake.pass(Duration::from_millis(1));
        assert_eq!(alarm.left(&clock), Duration::ZERO);
    }

    #[test]
    fn after_a_restart_the_wall_clock_tells_what_is_left_and_never_more_than_the_whole() {
        let fake = FakeClock::new();
        let clock = ClockSource::from(fake.clone());
        let parked = parked(&clock);
        // The gateway was stopped for two hours.
        fake.pass(HOUR * 2);
        assert_eq!(Alarm::new(&parked, clock.read()).left(&clock), HOUR * 3);
        // It was stopped for days.
        fake.pass(HOUR * 48);
        assert_eq!(Alarm::new(&parked, clock.read()).left(&clock), Duration::ZERO);
        // The wall clock was set back by a year meanwhile.
        let mut back = clock.read();
        back.wall = Time(back.wall.0 - 365 * 24 * 3_600_000);
        assert_eq!(Alarm::new(&parked, back).left(&clock), HOUR * 5);
    }
}
