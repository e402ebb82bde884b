//! Moments as people write and read them, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY: u64 = 86_400_000;

/// Milliseconds since 1970 of `2026-11-16`, `2026-11-16T10:30`, `2026-11-16T10:30:05Z`, of a time that is so long over
/// (`30m`, `12h`, `7d`), or a number of them as it is.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let number = text.parse::<u64>().ok();
    number.or_else(|| ago(text, now())).or_else(|| date(text)).ok_or_else(|| {
        format!("{text:?} is no moment, for example 2026-11-16, 2026-11-16T10:30 (UTC), 12h or 7d ago, or milliseconds")
    })
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn ago(text: &str, now: u64) -> Option<u64> {
    let unit = match text.chars().last()? {
        's' => 1_000,
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => DAY,
        _ => return None,
    };
    let number: u64 = text[..text.len() - 1].parse().ok()?;
    now.checked_sub(number.checked_mul(unit)?)
}

fn date(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (day, clock) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let mut parts = day.split('-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let mut clock_parts = clock.split(':').map(|part| part.parse::<u64>().ok());
    let (hour, minute) = (clock_parts.next()??, clock_parts.next()??);
    let second = clock_parts.next().unwrap_or(Some(0))?;
    let is_right = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=length(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60
        && parts.next().is_none()
        && clock_parts.next().is_none();
    is_right.then(|| days(year, month, day) * DAY + ((hour * 60 + minute) * 60 + second) * 1_000)
}

/// For example `2026-11-16 10:30`.
pub(crate) fn shown(millis: u64) -> String {
    let (mut rest, minutes) = (millis / DAY, millis % DAY / 60_000);
    let (mut year, mut month) = (1970, 1);
    // Beyond what a clock shows, the year is all that is said.
    while year < 9_999 && rest >= 365 + u64::from(is_leap(year)) {
        rest -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    while month < 12 && rest >= length(year, month) {
        rest -= length(year, month);
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02} {:02}:{:02}", rest + 1, minutes / 60, minutes % 60)
}

/// For example `2026-11-16 10:30:05`.
pub(crate) fn to_the_second(millis: u64) -> String {
    format!("{}:{:02}", shown(millis), millis / 1_000 % 60)
}

fn days(year: u64, month: u64, day: u64) -> u64 {
    let years: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    let months: u64 = (1..month).map(|month| length(year, month)).sum();
    years + months + day - 1
}

fn length(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests {
    use super::{ago, date, parse, shown};

    #[test]
    fn moments_are_read_as_they_are_written() {
        assert_eq!(date("1970-01-01"), Some(0));
        assert_eq!(date("2026-11-16T10:30:05Z"), Some(1_794_825_005_000));
        assert_eq!(date("2024-02-29 23:59"), Some(1_709_251_140_000));
        assert_eq!(ago("2h", 10_000_000), Some(2_800_000));
        assert_eq!(parse("1794825005000"), Ok(1_794_825_005_000));
        for bad in [
            "",
            "x",
            "2026-13-01",
            "2025-02-29",
            "2026-1",
            "2026-01-01T25:00",
            "1w",
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
