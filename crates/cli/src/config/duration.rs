//! Times as people write them.

use super::keys::{FromVariable, Limit};
use serde::{Deserialize, Deserializer};
use std::time::Duration;

/// A time that something waits or takes: `"30s"`, or a number of seconds. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

/// An age, written the same way. Zero is refused with the whole table, in words about its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Age(pub(super) Duration);

/// `500ms`, `30s`, `10m`, `1h 30m`, `30d`, or a bare number of seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let problem = || format!("{text:?} is not a time, for example 500ms, 30s, 10m, 1h or 30d");
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map(Duration::from_secs).map_err(|_| problem());
    }
    // A lone M would be a month, and whoever writes it means minutes.
    if text.contains('M') {
        return Err(problem());
    }
    humantime::parse_duration(text).map_err(|_| problem())
}

/// The same in a file, where a number of seconds needs no quotes.
fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
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

impl Span {
    fn new(time: Duration) -> Result<Self, String> {
        if time.is_zero() {
            return Err("0 would be over before it began; leave it out for the default".to_owned());
        }
        Ok(Self(time))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer).and_then(|time| Self::new(time).map_err(serde::de::Error::custom))
    }
}

impl FromVariable for Span {
    fn from_variable(text: &str) -> Result<Self, String> {
        parse(text).and_then(Self::new)
    }
}

impl<'de> Deserialize<'de> for Age {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer).map(Self)
    }
}

impl FromVariable for Age {
    fn from_variable(text: &str) -> Result<Self, String> {
        parse(text).map(Self)
    }
}

impl Limit for Age {
    fn is_zero(&self) -> bool {
        self.0.is_zero()
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
        assert_eq!(parse("1h 30m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(parse("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(parse("1 day"), Ok(Duration::from_secs(86_400)));
        for bad in ["", "s", "-1s", "1 fortnight", "10M", "99999999999999999999h", "18446744073709551615h"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
