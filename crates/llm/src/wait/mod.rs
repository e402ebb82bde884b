//! Waits that survive changes of the wall clock and restarts of the process.
//!
//! Within a process, elapsed time ends a wait ([`Clock::elapsed`]). The wall clock only says when that will
//! be.
//!
//! - **The wall clock is set**, in either direction: the length of the wait does not change. Its stored
//!   times are adjusted ([`WallWatch`]), so that a later restart ends the wait at the same moment.
//! - **The machine is suspended**: that time counts. It is noticed within [`CHECK_INTERVAL`] of waking up.
//! - **The process restarts**: only the wall clock is left ([`Alarm::resumed`]). The rest of the wait is at
//!   most its full length, and a wait whose end has passed is over at once.

mod alarm;
mod clock;
#[cfg(feature = "client")]
mod system;
mod watch;

pub use alarm::{Alarm, CHECK_INTERVAL};
pub use clock::Clock;
#[cfg(feature = "client")]
pub use system::SystemClock;
pub use watch::{JUMP, WallWatch};
