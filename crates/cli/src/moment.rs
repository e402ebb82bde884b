//! Points in time as people write and read them, in UTC.

use std::time::{Duration, UNIX_EPOCH};
use turnstream_model::time::Time;

/// The last second that can be written: the end of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

/// Milliseconds since 1970 of a date (`2026-11-16`), a date and time (`2026-11-16T10:30`,
/// `2026-11-16T10:30:05Z`) or a time ago (`30m`, `12h`, `7d`). A bare number is taken as milliseconds.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let number = text.parse::<u64>().ok();
    number.or_else(|| ago(text, Time::now())).or_else(|| date(text)).ok_or_else(|| {
        format!(
            "{text:?} is not a time, for example 2026-11-16, 2026-11-16T10:30 (UTC), 12h or 7d ago, or milliseconds"
        )
    })
}

fn ago(text: &str, now: Time) -> Option<u64> {
    let ago = humantime::parse_duration(text).ok()?;
    now.0.checked_sub(u64::try_from(ago.as_millis()).ok()?)
}

fn date(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (day, clock) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let seconds = if clock.len() == "00:00".len() { ":00" } else { "" };
    let parsed = humantime::parse_rfc3339_weak(&format!("{day}T{clock}{seconds}Z")).ok()?;
    Some(Time::from(parsed).0)
}

/// For example `2026-11-16 10:30`.
pub(crate) fn shown(millis: u64) -> String {
    let mut text = to_the_second(millis);
    text.truncate("2026-11-16 10:30".len());
    text
}

/// For example `2026-11-16 10:30:05`.
pub(crate) fn to_the_second(millis: u64) -> String {
    let seconds = (millis / 1_000).min(LAST_SECOND);
    let time = UNIX_EPOCH + Duration::from_secs(seconds);
    let text = humantime::format_rfc3339_seconds(time).to_string();
    text.replace('T', " ").replace('Z', "")
}

#[cfg(test)]
mod tests {
    use super::{ago, date, parse, shown};
    use turnstream_model::time::Time;

    #[test]
    fn moments_are_read_as_they_are_written() {
        assert_eq!(date("1970-01-01"), Some(0));
        assert_eq!(date("2026-11-16T10:30:05Z"), Some(1_794_825_005_000));
        assert_eq!(date("2024-02-29 23:59"), Some(1_709_251_140_000));
        assert_eq!(ago("2h", Time(10_000_000)), Some(2_800_000));
        assert_eq!(parse("1794825005000"), Ok(1_794_825_005_000));
        for bad in [
            "",
            "x",
            "2026-13-01",
            "2025-02-29",
            "2026-1",
            "2026-01-01T25:00",
            "1 fortnight",
            "2026-01-01T1:2:3:4",
            "é",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_moment_is_shown_as_it_is_read() {
        for moment in ["1970-01-01 00:00", "2024-02-29 23:59", "2026-11-16 10:30", "2100-12-31 12:00"] {
            assert_eq!(shown(date(moment).unwrap()), moment);
        }
        assert!(shown(u64::MAX).starts_with("9999-"));
    }
}
