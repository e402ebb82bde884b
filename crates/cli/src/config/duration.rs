//! Times as people write them.

use serde::{Deserialize, Deserializer};
use std::time::Duration;

/// `500ms`, `30s`, `10m`, `1h`, `30d`, or a bare number of seconds. Zero is a time here: who asks knows what
/// it would mean.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let millis = match unit {
        "ms" => Some(1),
        "s" | "" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let whole =
        number.parse::<u64>().ok().zip(millis).and_then(|(number, millis)| number.checked_mul(millis));
    match whole {
        Some(millis) => Ok(Duration::from_millis(millis)),
        None => Err(format!("{text:?} is not a time, for example 500ms, 30s, 10m, 1h or 30d")),
    }
}

/// The same in a file, where a number of seconds needs no quotes.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "it must be a time, for example \"500ms\", \"30s\", \"10m\", \"1h\" or a number of seconds"
    )]
    enum Written {
        Text(String),
        Seconds(u64),
    }
    match Written::deserialize(deserializer)? {
        Written::Text(text) => parse(&text).map_err(serde::de::Error::custom),
        Written::Seconds(seconds) => Ok(Duration::from_secs(seconds)),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;
    use std::time::Duration;

    #[test]
    fn times_are_read_as_they_are_written() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(parse("0"), Ok(Duration::ZERO));
        assert_eq!(parse("7"), Ok(Duration::from_secs(7)));
        assert_eq!(parse("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(parse("1h"), Ok(Duration::from_secs(3_600)));
        assert_eq!(parse("30d"), Ok(Duration::from_secs(30 * 86_400)));
        for bad in ["", "s", "1 s", "-1s", "1w", "99999999999999999999h", "18446744073709551615h"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
