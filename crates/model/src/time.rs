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

    /// Its day in UTC: year, month and day, by the civil calendar of Howard Hinnant's `days_from_civil`.
    #[must_use]
    pub const fn date(self) -> (u64, u64, u64) {
        let days = self.0 / 86_400_000 + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        (year_of_era + era * 400 + (month <= 2) as u64, month, day)
    }

    /// `2026-11-15T19:42:40.000Z`, as JavaScript writes it. Of two such texts the later one is greater.
    #[must_use]
    pub fn to_iso(self) -> String {
        let (year, month, day) = self.date();
        let (seconds, millis) = (self.0 / 1_000, self.0 % 1_000);
        let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}

/// A clock that stands before 1970 counts as 1970.
impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::Time;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (millis, told) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_794_771_760_001, "2026-11-15T19:42:40.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Time(millis).to_iso(), told);
        }
        assert!(!Time(u64::MAX).to_iso().is_empty(), "a time that cannot be is no reason to fail");
    }
}
