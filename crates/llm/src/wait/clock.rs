//! The clocks of the machine, replaceable in tests.

use std::pin::Pin;
use std::time::Duration;
use turnstream_model::time::Time;

/// Wall time, elapsed time, and sleep.
///
/// Implementors guarantee that `elapsed` never goes back, never jumps, and continues while the machine is
/// suspended. `sleep` returns after at least the given time on `elapsed`. It may stop while the machine is
/// suspended.
pub trait Clock: Send + Sync {
    /// The wall time. It may jump.
    fn wall(&self) -> Time;
    /// The time since a fixed moment in the past.
    fn elapsed(&self) -> Duration;
    /// Waits.
    fn sleep(&self, length: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}
