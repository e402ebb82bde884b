//! The time by which retention counts ages. It never runs ahead of the boot clock, so a wall clock that jumps
//! makes nothing old.

mod file;
mod reading;

pub(crate) use file::{load, store};
pub(crate) use reading::{BootClock, Reading};
pub use reading::{ClockSource, FakeClock};

use std::time::Duration;
use turnstream_model::time::Time;

/// How long the wall clock must run in step with the boot clock before a jump is believed.
pub(crate) const GRACE: Duration = Duration::from_secs(6 * 60 * 60);

/// A difference of at most this is not a jump: the two clocks are not read at the same moment.
const STEADY: Duration = Duration::from_secs(2);

/// A smaller jump is not worth a line. It does not count as steady time, and does not begin the grace period
/// again: a machine corrects its clock soon after its start.
const WORTH_TELLING: Duration = Duration::from_secs(10 * 60);

/// A machine that was off for longer begins the grace period again: it cannot be told from a wrong clock.
const LONGEST_OFF: Duration = Duration::from_secs(8 * 24 * 60 * 60);

/// 2020-01-01. An earlier time was counted from zero and never read from a right clock, so the difference to
/// the wall clock says nothing.
const FIRST_RIGHT: Time = Time(1_577_836_800_000);

/// The time that retention believes, and the clocks at which it was believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub(crate) time: Time,
    pub(crate) boot: BootClock,
    /// The wall clock, to notice the next jump.
    pub(crate) wall: Time,
    /// How long the wall clock has been steady, if it is ahead.
    pub(crate) steady: Option<Duration>,
}

/// A clock that never runs ahead of the boot clock, except for a wall clock that has proved to be steady.
#[derive(Debug)]
pub(crate) struct RetentionClock(Anchor);

/// What a reading has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockEvent {
    /// The wall clock is ahead of the time that can have passed. Nothing expires by the difference yet.
    Ahead(Duration),
    /// The wall clock was set back.
    Behind(Duration),
    /// The wall clock was steady for [`GRACE`], and is believed now.
    Believed(Duration),
}

impl RetentionClock {
    /// Continues from a stored anchor. Without one, and with data that may be older, ages are counted from
    /// zero until the wall clock has proved to be steady.
    pub(crate) fn resume(
        stored: Option<Anchor>,
        is_fresh: bool,
        now: &Reading,
    ) -> (Self, Option<ClockEvent>) {
        let begin = || Anchor {
            time: if is_fresh { now.wall } else { Time(0) },
            boot: now.boot.clone(),
            wall: now.wall,
            steady: None,
        };
        let mut clock = Self(stored.unwrap_or_else(begin));
        let (_, event) = clock.observe(now);
        (clock, event)
    }

    /// The time that ages are counted from, after this reading.
    pub(crate) fn observe(&mut self, now: &Reading) -> (Time, Option<ClockEvent>) {
        let passed = Duration::from_millis(self.0.boot.millis_until(&now.boot));
        self.0.time = self.0.time.plus_millis(millis(passed));
        let event = self.compare(now, passed);
        self.0.boot = now.boot.clone();
        self.0.wall = now.wall;
        (self.0.time, event)
    }

    /// The anchor for the next start.
    pub(crate) fn anchor(&self) -> &Anchor {
        &self.0
    }

    /// Compares the wall clock with the time that can have passed since the last reading.
    fn compare(&mut self, now: &Reading, passed: Duration) -> Option<ClockEvent> {
        let was_right = self.0.time >= FIRST_RIGHT;
        let told = |event: fn(Duration) -> ClockEvent, by: Duration| {
            (was_right && by >= WORTH_TELLING).then(|| event(by))
        };
        let ahead = now.wall.0.checked_sub(self.0.time.0).map(Duration::from_millis);
        match ahead {
            // Time that was believed is given up at once: fewer things are old then.
            None => {
                let by = Duration::from_millis(self.0.time.0 - now.wall.0);
                self.0.time = now.wall;
                self.0.steady = None;
                told(ClockEvent::Behind, by)
            }
            Some(ahead) if ahead <= STEADY => {
                self.0.steady = None;
                None
            }
            Some(ahead) => {
                let Some(steady) = self.still_steady(now, passed) else {
                    self.0.steady = Some(Duration::ZERO);
                    return told(ClockEvent::Ahead, ahead);
                };
                if steady < GRACE {
                    self.0.steady = Some(steady);
                    return None;
                }
                self.0.time = now.wall;
                self.0.steady = None;
                told(ClockEvent::Believed, ahead)
            }
        }
    }

    /// How long the wall clock has been steady by now. `None` if it was not ahead before, or has jumped.
    fn still_steady(&self, now: &Reading, passed: Duration) -> Option<Duration> {
        let steady = self.0.steady?;
        let expected = self.0.wall.plus_millis(millis(passed));
        let stepped = Duration::from_millis(now.wall.0.abs_diff(expected.0));
        let was_off = self.0.boot.id != now.boot.id && now.wall >= expected;
        let most = if was_off { LONGEST_OFF } else { WORTH_TELLING };
        let counted = if stepped <= STEADY { passed } else { Duration::ZERO };
        (stepped < most).then_some(steady + counted)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{BootClock, ClockEvent, GRACE, Reading, RetentionClock};
    use std::time::Duration;
    use turnstream_model::time::Time;

    const HOUR: Duration = Duration::from_secs(3_600);
    const DAY: Duration = Duration::from_secs(24 * 3_600);
    const START: Time = Time(1_794_700_000_000);

    /// A machine on which time passes, and whose wall clock can be set.
    struct Machine {
        boot: &'static str,
        since_boot: Duration,
        wall: Time,
    }

    impl Machine {
        fn new() -> Self {
            Self { boot: "a", since_boot: HOUR, wall: START }
        }

        fn pass(&mut self, time: Duration) -> Reading {
            self.since_boot += time;
            self.wall = self.wall.plus_millis(super::millis(time));
            self.read()
        }

        fn read(&self) -> Reading {
            let boot = BootClock { id: self.boot.to_owned(), since: self.since_boot };
            Reading { wall: self.wall, boot }
        }
    }

    fn pass_hours(clock: &mut RetentionClock, machine: &mut Machine, hours: u32) {
        for _ in 0..hours {
            clock.observe(&machine.pass(HOUR));
        }
    }

    fn started(machine: &Machine) -> RetentionClock {
        RetentionClock::resume(None, true, &machine.read()).0
    }

    /// The gateway is started again.
    fn restarted(clock: &RetentionClock, now: Reading) -> (RetentionClock, Option<ClockEvent>) {
        RetentionClock::resume(Some(clock.anchor().clone()), false, &now)
    }

    #[test]
    fn time_passes_as_on_the_wall() {
        let mut machine = Machine::new();
        let mut clock = started(&machine);
        for day in 1..400 {
            let (now, event) = clock.observe(&machine.pass(DAY));
            assert_eq!((now, event), (START.plus_millis(super::millis(DAY * day)), None));
        }
    }

    #[test]
    fn a_clock_that_jumps_for_three_seconds_makes_nothing_old() {
        let mut machine = Machine::new();
        let mut clock = started(&machine);
        machine.wall = machine.wall.plus_millis(super::millis(DAY * 200));
        let (now, event) = clock.observe(&machine.pass(Duration::from_secs(3)));
        assert_eq!(now, START.plus_millis(3_000));
        assert_eq!(event, Some(ClockEvent::Ahead(DAY * 200)));
        assert_eq!(clock.observe(&machine.pass(HOUR)).1, None, "it is told once");
        machine.wall = Time(machine.wall.0 - super::millis(DAY * 200));
        let (now, event) = clock.observe(&machine.read());
        assert_eq!((now, event), (machine.wall, None));
    }

    #[test]
    fn a_jump_is_believed_when_the_clock_was_steady_for_the_grace_period() {
        let mut machine = Machine::new();
        let mut clock = started(&machine);
        machine.wall = machine.wall.plus_millis(super::millis(DAY * 200));
        clock.observe(&machine.pass(Duration::from_secs(60)));
        let mut events = Vec::new();
        for _ in 0..6 {
            let (now, event) = clock.observe(&machine.pass(HOUR));
            if event.is_none() {
                assert!(now < machine.wall);
            }
            events.extend(event);
        }
        assert_eq!(events, [ClockEvent::Believed(DAY * 200)]);
        assert_eq!(clock.observe(&machine.read()).0, machine.wall);
    }

    #[test]
    fn a_second_jump_begins_the_grace_period_again() {
        let mut machine = Machine::new();
        let mut clock = started(&machine);
        for _ in 0..20 {
            machine.wall = machine.wall.plus_millis(super::millis(DAY));
            let (now, _) = clock.observe(&machine.pass(GRACE - Duration::from_secs(1)));
            assert!(now < START.plus_millis(super::millis(GRACE * 20)));
        }
    }

    #[test]
    fn a_clock_that_is_set_back_makes_younger_and_its_return_is_a_jump() {
        let mut machine = Machine::new();
        let mut clock = started(&machine);
        machine.wall = Time(START.0 - super::millis(DAY));
        assert_eq!(clock.observe(&machine.read()), (machine.wall, Some(ClockEvent::Behind(DAY))));
        machine.wall = START;
        let (now, event) = clock.observe(&machine.read());
        assert_eq!((now, event), (Time(START.0 - super::millis(DAY)), Some(ClockEvent::Ahead(DAY))));
    }

    #[test]
    fn a_stop_is_measured_by_the_boot_clock_unless_the_machine_was_started_again() {
        let mut machine = Machine::new();
        let stored = started(&machine).anchor().clone();
        // The gateway was stopped, and the machine ran.
        machine.pass(DAY * 200);
        let (mut clock, event) = RetentionClock::resume(Some(stored.clone()), false, &machine.read());
        assert_eq!((clock.observe(&machine.read()).0, event), (machine.wall, None));
        // The machine was off.
        machine.boot = "b";
        machine.since_boot = Duration::from_secs(30);
        let (mut clock, event) = RetentionClock::resume(Some(stored), false, &machine.read());
        assert_eq!(event, Some(ClockEvent::Ahead(DAY * 200)));
        assert_eq!(clock.observe(&machine.read()).0, START);
        pass_hours(&mut clock, &mut machine, 6);
        assert_eq!(clock.observe(&machine.read()).0, machine.wall, "believed after the grace period");
    }

    #[test]
    fn without_an_anchor_old_data_is_not_old_before_the_grace_period() {
        let mut machine = Machine::new();
        let (mut clock, event) = RetentionClock::resume(None, false, &machine.read());
        assert_eq!(event, None);
        assert!(clock.observe(&machine.pass(HOUR)).0 < Time(super::millis(DAY)));
        // Nothing was ever believed, so there is nothing to be ahead of: not after a restart either.
        let mut event = None;
        for boot in ["b", "c"] {
            machine.boot = boot;
            (clock, event) = restarted(&clock, machine.pass(DAY * 20));
            assert_eq!(event, None);
        }
        for _ in 0..6 {
            event = event.or(clock.observe(&machine.pass(HOUR)).1);
        }
        assert_eq!((clock.observe(&machine.read()).0, event), (machine.wall, None));
    }

    #[test]
    fn the_grace_period_goes_on_when_the_machine_is_started_again() {
        let mut machine = Machine::new();
        let mut clock = started(&machine);
        let mut events = Vec::new();
        for boot in ["b", "c", "d"] {
            // Off for a night, and corrected a little after the start.
            machine.boot = boot;
            let (resumed, event) = restarted(&clock, machine.pass(HOUR * 14));
            clock = resumed;
            events.extend(event);
            machine.wall = machine.wall.plus_millis(5_000);
            for _ in 0..3 {
                events.extend(clock.observe(&machine.pass(HOUR)).1);
            }
        }
        let [ClockEvent::Ahead(first), ClockEvent::Believed(all)] = events[..] else { panic!("{events:?}") };
        assert_eq!((first, all.as_secs() / 3_600), (HOUR * 14, 42));
        assert_eq!(clock.observe(&machine.read()).0, machine.wall);
    }

    #[test]
    fn the_grace_period_begins_again_after_a_jump_over_a_restart() {
        for (boot, jump) in [("a", HOUR), ("b", DAY * 200)] {
            let mut machine = Machine::new();
            let mut clock = started(&machine);
            machine.wall = machine.wall.plus_millis(super::millis(DAY));
            pass_hours(&mut clock, &mut machine, 5);
            machine.boot = boot;
            machine.wall = machine.wall.plus_millis(super::millis(jump));
            let (mut clock, event) = restarted(&clock, machine.read());
            assert_eq!(event, Some(ClockEvent::Ahead(DAY + jump)));
            pass_hours(&mut clock, &mut machine, 5);
            assert!(clock.observe(&machine.read()).0 < machine.wall);
        }
    }
}
