//! Wall-clock time as the wire writes it: Unix milliseconds.
//!
//! The pure parts (machine, fold, checker, dialects) get the time as an argument. [`Time::now`] is for
//! the code around them.

use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub u64);

impl Time {
    /// The wall clock. This is the only place of the workspace that reads it for an event.
    #[must_use]
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }

    /// This time and some milliseconds; stops at the far end instead of wrapping.
    #[must_use]
    pub const fn plus_millis(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }
}

/// A clock that stands before 1970 counts as 1970.
impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}
