//! Times as people write them, in UTC: a page reads the same wherever it is made.

use turnstream_model::time::Time;

/// `2026-11-15 19:42 UTC`.
pub(super) fn minute(time: Time) -> String {
    let minutes = time.0 / 60_000;
    let (year, month, day) = date(minutes / 1_440);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60 % 24, minutes % 60)
}

/// The day so many days after 1970-01-01, by the civil calendar of Howard Hinnant's `days_from_civil`.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::minute;
    use turnstream_model::time::Time;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, told) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_794_771_760, "2026-11-15 19:42 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(minute(Time(seconds * 1_000)), told);
        }
        assert!(!minute(Time(u64::MAX)).is_empty(), "a time that cannot be is no reason to fail");
    }
}
