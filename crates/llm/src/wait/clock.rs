//! The two clocks of a machine, as something that a test can replace.

use std::pin::Pin;
use std::time::Duration;
use turnstream_model::time::Time;

/// Wall time, time that only goes on, and sleep.
///
/// An implementor owes: `monotonic` never goes back; `sleep` returns after at least so long on `monotonic`, or after a
/// jump of `wall` at the latest when it would have returned anyway.
pub trait Clock: Send + Sync {
    /// What a watch shows. It may jump.
    fn wall(&self) -> Time;
    /// Time since some moment before. It may stand still while the machine sleeps.
    fn monotonic(&self) -> Duration;
    /// Waits.
    fn sleep(&self, how_long: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}
