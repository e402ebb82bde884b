//! Parses when a provider wants to be asked again.
//!
//! | where | form |
//! |---|---|
//! | header `retry-after-ms` | milliseconds |
//! | header `retry-after` | seconds, or an HTTP date |
//! | headers `…ratelimit…-reset…` | a time or a number; only if the same response says that 0 is left |
//! | body `retryDelay` (Google's RetryInfo) | `"45.837906927s"` |
//! | body `retry_after`, `retry_after_ms`, `resets_in_seconds`, `resets_at` … | a number; its name tells the unit |
//! | body `message` of a 429 | `try again in 11.054s` |
//!
//! The longest delay counts. A delay above [`MOST_DELAY`] is ignored, since its unit must be wrong:
//! `delay: 55763274` was milliseconds.

mod body;
mod limits;
mod span;

use std::time::{Duration, SystemTime};
use turnstream_model::time::Time;

/// The longest plausible delay. No known quota resets later than monthly.
pub const MOST_DELAY: Duration = Duration::from_secs(31 * 24 * 3600);

/// The headers of a response, names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(String, String)>);

/// One statement of a provider about when to ask again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The header or body member that states it.
    pub by: String,
    /// The delay, from the time of the response.
    pub delay: Duration,
}

/// All plausible statements of a response about when to ask again.
pub fn read(
    headers: &Headers,
    status: Option<u16>,
    body: Option<&serde_json::Value>,
    now: Time,
) -> Vec<Hint> {
    // Times are compared with the response's own date, so that the local clock may be wrong.
    let now = headers.get("date").and_then(date).unwrap_or(now);
    let mut hints = Vec::new();
    let mut add = |by: &str, delay: Option<Duration>| {
        if let Some(delay) = delay.filter(|delay| *delay <= MOST_DELAY) {
            hints.push(Hint { by: by.to_owned(), delay });
        }
    };
    // There may be several: a proxy adds its own header to the provider's.
    for value in headers.all("retry-after-ms") {
        add("retry-after-ms", span::number(value, Unit::Millis));
    }
    for value in headers.all("retry-after") {
        add("retry-after", retry_after(value, now));
    }
    limits::read(headers, now, &mut add);
    if let Some(body) = body {
        body::read(body, status, now, &mut add);
    }
    hints
}

/// The longest delay.
pub fn longest(hints: &[Hint]) -> Option<Duration> {
    hints.iter().map(|hint| hint.delay).max()
}

/// The unit of a bare number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Millis,
    Seconds,
}

/// Parses a `retry-after` header: seconds or an HTTP date.
fn retry_after(value: &str, now: Time) -> Option<Duration> {
    span::number(value, Unit::Seconds).or_else(|| Some(span::until(date(value)?, now)))
}

/// Parses an HTTP date.
fn date(value: &str) -> Option<Time> {
    let since = httpdate::parse_http_date(value.trim()).ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Time(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
}

impl Headers {
    /// Makes headers of these pairs. Names become lower case.
    pub fn new<'a>(headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let lower = |(name, value): (&str, &str)| (name.to_ascii_lowercase(), value.to_owned());
        Self(headers.into_iter().map(lower).collect())
    }

    /// The first header with this lower-case name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All headers with this lower-case name.
    fn all<'h, 'n>(&'h self, name: &'n str) -> impl Iterator<Item = &'h str> + use<'h, 'n> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}
