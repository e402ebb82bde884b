//! The two clocks of a machine, as something that a test can replace.

use std::pin::Pin;
use std::time::Duration;
use turnstream_model::time::Time;

/// Wall time, time that has passed, and sleep.
///
/// An implementor owes: `elapsed` never goes back, never jumps, and goes on while the machine is suspended; `sleep`
/// returns after at least so long on `elapsed`, and may stand still while the machine is suspended.
pub trait Clock: Send + Sync {
    /// What a watch shows. It may jump.
    fn wall(&self) -> Time;
    /// Time since some moment before this process asked first.
    fn elapsed(&self) -> Duration;
    /// Waits.
    fn sleep(&self, how_long: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}
