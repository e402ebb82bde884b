//! Times as people write them, in UTC: a page reads the same wherever it is made.

use turnstream_model::time::Time;

/// `2026-11-15 19:42 UTC`.
pub(super) fn minute(time: Time) -> String {
    let minutes = time.0 / 60_000;
    let (year, month, day) = time.date();
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60 % 24, minutes % 60)
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
