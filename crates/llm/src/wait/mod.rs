//! Waits that no clock can break, and that outlive the process.
//!
//! Within a process the time that has passed ends a wait ([`Clock::elapsed`]), and the wall clock only says when that is:
//!
//! - the wall clock jumps, in either direction, for good or until somebody sets it right: the wait is as long as it was, and
//!   what is kept of it in wall time is restated ([`WallWatch`]), so that a restart after the jump wakes up at the same
//!   moment;
//! - the machine is suspended: that time has passed as any other, and is noticed within [`LOOK`] of waking up;
//! - after a restart only the wall clock is left ([`Alarm::resumed`]). A wait is then never longer than it was as a whole,
//!   and one whose time has come is over at once.

mod alarm;
mod clock;
#[cfg(feature = "client")]
mod system;
mod watch;

pub use alarm::{Alarm, LOOK};
pub use clock::Clock;
#[cfg(feature = "client")]
pub use system::SystemClock;
pub use watch::{JUMP, WallWatch};
