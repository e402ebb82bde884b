//! Waits that no clock can break, and that outlive the process.
//!
//! A wait is over when the wall clock shows its time, or when as much time has passed on the monotonic clock as was
//! left when it was begun, whichever comes first:
//!
//! - the wall clock jumps forward past the time (a machine wakes up, a clock is set right): it is over, as the provider
//!   counts in wall time;
//! - the wall clock jumps back: the monotonic clock ends it when it would have ended anyway;
//! - after a restart only the wall clock is left. A wait is then never longer than it was when it began, and one whose
//!   time has come is over at once.

mod alarm;
mod clock;
#[cfg(feature = "client")]
mod system;

pub use alarm::Alarm;
pub use clock::Clock;
#[cfg(feature = "client")]
pub use system::SystemClock;
