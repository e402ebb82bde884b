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

/// A smaller jump is not worth a line.
const WORTH_TELLING: Duration = Duration::from_secs(10 * 60);

/// The time that retention believes, and the boot clock at which it was believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub(crate) time: Time,
    pub(crate) boot: BootClock,
}

/// A clock that never runs ahead of the boot clock, except for a wall clock that has proved to be steady.
#[derive(Debug)]
pub(crate) struct RetentionClock {
    anchor: Anchor,
    /// The last reading, to notice the next jump.
    last: Reading,
    /// How long the wall clock has been ahead and steady.
    ahead: Option<Duration>,
}

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
        let time = match (&stored, is_fresh) {
            (Some(stored), _) => stored.time.plus_millis(stored.boot.millis_until(&now.boot)),
            (None, true) => now.wall,
            (None, false) => Time(0),
        };
        let anchor = Anchor { time, boot: now.boot.clone() };
        let mut clock = Self { anchor, last: now.clone(), ahead: None };
        let event = clock.compare(now, Duration::ZERO);
        // Without an anchor there is nothing to compare with.
        (clock, event.filter(|_| stored.is_some()))
    }

    /// The time that ages are counted from, after this reading.
    pub(crate) fn observe(&mut self, now: &Reading) -> (Time, Option<ClockEvent>) {
        let passed = Duration::from_millis(self.anchor.boot.millis_until(&now.boot));
        self.anchor.time = self.anchor.time.plus_millis(millis(passed));
        self.anchor.boot = now.boot.clone();
        let event = self.compare(now, passed);
        self.last = now.clone();
        (self.anchor.time, event)
    }

    /// The anchor for the next start.
    pub(crate) fn anchor(&self) -> &Anchor {
        &self.anchor
    }

    /// Compares the wall clock with the time that can have passed since the last reading.
    fn compare(&mut self, now: &Reading, passed: Duration) -> Option<ClockEvent> {
        let expected = self.last.wall.plus_millis(millis(passed));
        let stepped = Duration::from_millis(now.wall.0.abs_diff(expected.0));
        let told = |event: fn(Duration) -> ClockEvent, by: Duration| (by >= WORTH_TELLING).then(|| event(by));
        let ahead = now.wall.0.checked_sub(self.anchor.time.0).map(Duration::from_millis);
        match ahead {
            // Time that was believed is given up at once: fewer things are old then.
            None => {
                let by = Duration::from_millis(self.anchor.time.0 - now.wall.0);
                self.anchor.time = now.wall;
                self.ahead = None;
                told(ClockEvent::Behind, by)
            }
            Some(ahead) if ahead <= STEADY => {
                self.ahead = None;
                None
            }
            Some(ahead) => {
                let is_new = self.ahead.is_none() || stepped > STEADY;
                let steady = if is_new { Duration::ZERO } else { self.ahead.unwrap_or_default() + passed };
                self.ahead = Some(steady);
                if is_new {
                    return told(ClockEvent::Ahead, ahead);
                }
                if steady < GRACE {
                    return None;
                }
                self.anchor.time = now.wall;
                self.ahead = None;
                told(ClockEvent::Believed, ahead)
            }
        }
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
        pass_hours(&mut clock, &mut machine, 6);
        assert_eq!(clock.observe(&machine.read()).0, machine.wall);
    }
}
