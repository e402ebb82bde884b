//! Durations and times as providers write them.

use super::Unit;
use std::time::Duration;
use turnstream_model::time::Time;

/// A bare number, whole or with a fraction.
pub(super) fn number(text: &str, unit: Unit) -> Option<Duration> {
    let text = text.trim();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = text.parse().ok().filter(|_| is_plain)?;
    of(number, unit)
}

/// A number in this unit; `None` if it is not a duration.
pub(super) fn of(number: f64, unit: Unit) -> Option<Duration> {
    let seconds = match unit {
        Unit::Millis => number / 1000.0,
        Unit::Seconds => number,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

/// Parses numbers with units: `45.8s`, `6m0s`, `1h2m3.5s`, `20ms`, `2d`. Nothing may follow.
pub(super) fn units(text: &str) -> Option<Duration> {
    let (total, rest) = leading_units(text.trim())?;
    rest.is_empty().then_some(total)
}

/// Parses numbers with units at the beginning of a text, and returns the rest.
pub(super) fn leading_units(text: &str) -> Option<(Duration, &str)> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    let mut any = false;
    // Also with blanks between: `1h 20m`.
    while let Some((part, after)) = one_unit(if any { rest.trim_start() } else { rest }) {
        total = total.checked_add(part)?;
        rest = after;
        any = true;
    }
    any.then_some((total, rest))
}

fn one_unit(text: &str) -> Option<(Duration, &str)> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(digits);
    let number: f64 = number.parse().ok()?;
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    let letters = rest.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(letters);
    let seconds = match unit {
        "ms" | "millisecond" | "milliseconds" => number / 1000.0,
        "s" | "sec" | "secs" | "second" | "seconds" => number,
        "m" | "min" | "mins" | "minute" | "minutes" => number * 60.0,
        "h" | "hour" | "hours" => number * 3600.0,
        "d" | "day" | "days" => number * 86_400.0,
        _ => return None,
    };
    Some((Duration::try_from_secs_f64(seconds).ok()?, rest))
}

/// Parses an RFC 3339 time, or seconds or milliseconds since the Unix epoch.
///
/// The size tells the unit: seconds reach 10¹¹ in the year 5138, and milliseconds passed it in 1973.
pub(super) fn timestamp(text: &str) -> Option<Time> {
    let text = text.trim();
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Some(epoch(number)),
        Ok(_) => None,
        Err(_) => rfc3339(text),
    }
}

/// Seconds or milliseconds since the Unix epoch.
pub(super) fn epoch(number: f64) -> Time {
    let millis = if number < 1e11 { number * 1000.0 } else { number };
    // The cast saturates.
    Time(millis as u64)
}

/// The time from `now` until `then`; zero if it has passed.
pub(super) fn until(then: Time, now: Time) -> Duration {
    Duration::from_millis(then.0.saturating_sub(now.0))
}

/// `2026-11-16T06:07:35Z`, with a fraction or an offset.
fn rfc3339(text: &str) -> Option<Time> {
    let digits = |range: std::ops::Range<usize>| -> Option<i64> {
        let part = text.get(range)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
    };
    let is = |at: usize, wanted: &[u8]| text.as_bytes().get(at).is_some_and(|byte| wanted.contains(byte));
    if !(is(4, b"-") && is(7, b"-") && is(10, b"Tt ") && is(13, b":") && is(16, b":")) {
        return None;
    }
    let (year, month, day) = (digits(0..4)?, digits(5..7)?, digits(8..10)?);
    let (hour, minute, second) = (digits(11..13)?, digits(14..16)?, digits(17..19)?);
    let in_range =
        (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
    if !in_range {
        return None;
    }
    let rest = text.get(19..)?;
    let zone = rest.find(['Z', 'z', '+', '-'])?;
    let fraction = rest.get(..zone)?.strip_prefix('.').unwrap_or("0");
    // Without this check `9e300` would pass as a number.
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let millis = (format!("0.{fraction}").parse::<f64>().ok()? * 1000.0) as i64;
    let offset = match rest.get(zone..)? {
        "Z" | "z" => 0,
        zone => {
            let (sign, hours, minutes) = (zone.get(..1)?, zone.get(1..3)?, zone.get(4..6)?);
            let minutes = hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?;
            if sign == "-" { -minutes } else { minutes }
        }
    };
    let days = days_from_civil(year, month, day);
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset * 60;
    u64::try_from(seconds * 1000 + millis).ok().map(Time)
}

/// Days since 1970-01-01 of a date of the Gregorian calendar, after Howard Hinnant's `days_from_civil`.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::{leading_units, number, timestamp, units};
    use crate::delay::Unit;
    use std::time::Duration;
    use turnstream_model::time::Time;

    #[test]
    fn lengths_of_time_are_read_with_their_units_or_not_at_all() {
        let cases = [
            ("45.837906927s", Some(Duration::from_nanos(45_837_906_927))),
            ("6m0s", Some(Duration::from_secs(360))),
            ("1h2m3.5s", Some(Duration::from_millis(3_723_500))),
            ("20ms", Some(Duration::from_millis(20))),
            ("1 hour 20 minutes", Some(Duration::from_secs(4800))),
            ("2 minutes", Some(Duration::from_secs(120))),
            ("55763274", None),
            ("soon", None),
            ("5s later", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(units(text), expected, "{text:?}");
        }
        assert_eq!(leading_units("11.054s. Visit"), Some((Duration::from_millis(11_054), ". Visit")));
    }

    #[test]
    fn bare_numbers_have_the_unit_of_their_name_and_nothing_else_is_one() {
        assert_eq!(number("55852", Unit::Seconds), Some(Duration::from_secs(55_852)));
        assert_eq!(number("1500", Unit::Millis), Some(Duration::from_millis(1500)));
        assert_eq!(number("0.5", Unit::Seconds), Some(Duration::from_millis(500)));
        for odd in ["-5", "1e9", "inf", "NaN", "0x10", "", "5 s"] {
            assert_eq!(number(odd, Unit::Seconds), None, "{odd:?}");
        }
    }

    #[test]
    fn moments_are_read_in_all_their_spellings() {
        let expected = Some(Time(1_794_809_255_000));
        for text in [
            "2026-11-16T06:07:35Z",
            "2026-11-16T07:07:35+01:00",
            "2026-11-16T06:07:35.000Z",
            "1794809255",
            "1794809255000",
        ] {
            assert_eq!(timestamp(text), expected, "{text:?}");
        }
        assert_eq!(timestamp("2024-02-29T00:00:00Z"), Some(Time(1_709_164_800_000)));
        for odd in [
            "2026-13-16T06:07:35Z",
            "2026-11-16",
            "tomorrow",
            "-1",
            "2026-11-16T06:07:35",
            "2026-11-16T06:07:35.9e300Z",
            "2026-11-16T06:07:35.5e3Z",
        ] {
            assert_eq!(timestamp(odd), None, "{odd:?}");
        }
    }
}
