//! Reads the wall clock and the boot clock together.

use rustix::time::{ClockId, clock_gettime};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use turnstream_model::time::Time;

/// Counts from the start of the machine, sleep included. Nobody can set it.
#[cfg(target_os = "linux")]
const SINCE_BOOT: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const SINCE_BOOT: ClockId = ClockId::Monotonic;

/// Names the run of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Both clocks at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) wall: Time,
    pub(crate) boot: BootClock,
}

/// The boot clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BootClock {
    /// The run of the machine, or of this process if the system does not name it.
    pub(crate) id: String,
    pub(crate) since: Duration,
}

impl BootClock {
    /// How much time has certainly passed between two readings: none that is known across a start of the
    /// machine.
    pub(crate) fn millis_until(&self, later: &Self) -> u64 {
        if self.id != later.id {
            return 0;
        }
        u64::try_from(later.since.saturating_sub(self.since).as_millis()).unwrap_or(u64::MAX)
    }
}

/// Where retention reads its clocks.
#[derive(Clone, Debug, Default)]
pub struct ClockSource(Option<FakeClock>);

/// Clocks that a test sets. Cloning shares them.
#[derive(Clone, Debug)]
pub struct FakeClock(Arc<Mutex<Reading>>);

impl ClockSource {
    pub(crate) fn read(&self) -> Reading {
        match &self.0 {
            Some(fake) => fake.lock().clone(),
            None => Reading::of_system(),
        }
    }
}

impl From<FakeClock> for ClockSource {
    fn from(fake: FakeClock) -> Self {
        Self(Some(fake))
    }
}

impl FakeClock {
    /// Stopped clocks that show the current time.
    #[allow(clippy::new_without_default, reason = "it reads the clock")]
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Reading::of_system())))
    }

    /// Time passes on both clocks.
    pub fn pass(&self, time: Duration) {
        self.lock().boot.since += time;
        self.jump(time);
    }

    /// Only the wall clock is set forward.
    pub fn jump(&self, by: Duration) {
        let mut reading = self.lock();
        reading.wall = reading.wall.plus_millis(u64::try_from(by.as_millis()).unwrap_or(u64::MAX));
    }

    /// The machine is started again.
    pub fn reboot(&self) {
        let boot = BootClock { id: random_id(), since: Duration::ZERO };
        self.lock().boot = boot;
    }

    fn lock(&self) -> MutexGuard<'_, Reading> {
        // The reading is whole also after a panic of its holder.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reading {
    fn of_system() -> Self {
        let now = clock_gettime(SINCE_BOOT);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(now.tv_nsec).unwrap_or_default();
        let boot = BootClock { id: boot_id().to_owned(), since: Duration::new(seconds, nanos) };
        Self { wall: Time::now(), boot }
    }
}

fn boot_id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| match std::fs::read_to_string(BOOT_ID) {
        Ok(id) => id.trim().to_owned(),
        // Without a name, time is known to pass only while this process runs.
        Err(_) => random_id(),
    })
}

fn random_id() -> String {
    format!("{:016x}", fastrand::u64(..))
}
