//! When a provider wants to be asked again: one parser for all the ways in which providers say it.
//!
//! | where | form |
//! |---|---|
//! | header `retry-after-ms` | milliseconds |
//! | header `retry-after` | seconds, or an HTTP date |
//! | headers `…ratelimit…-reset…` | only where the same answer says that nothing is left of that limit |
//! | body `retryDelay` (Google's RetryInfo) | `"45.837906927s"` |
//! | body `retry_after`, `retry_after_ms`, `resets_in_seconds`, `resets_at` … | a number; the name has the unit |
//! | body `message` of a 429 | `try again in 11.054s` |
//!
//! The longest counts. What is beyond [`SANE`] is a mistaken unit and does not count: `delay: 55763274` was
//! milliseconds, and 39 s once became 24 h.

mod body;
mod limits;
mod span;

use std::time::{Duration, SystemTime};
use turnstream_model::time::Time;

/// The longest wait that is believed. Providers have monthly quotas, and none that resets later.
pub const SANE: Duration = Duration::from_secs(31 * 24 * 3600);

/// The headers of a response, names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(String, String)>);

/// One thing that a provider said about when to come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The header or the member of the body.
    pub by: String,
    /// How long from the moment of the answer.
    pub delay: Duration,
}

/// All that an answer says about when to come back, those that are not believed left out.
pub fn read(
    headers: &Headers,
    status: Option<u16>,
    body: Option<&serde_json::Value>,
    now: Time,
) -> Vec<Hint> {
    // A moment is compared with the answer's own date, so that it does not matter how far our clock is from the provider's.
    let now = headers.get("date").and_then(date).unwrap_or(now);
    let mut said = Vec::new();
    let mut add = |by: &str, delay: Option<Duration>| {
        if let Some(delay) = delay.filter(|delay| *delay <= SANE) {
            said.push(Hint { by: by.to_owned(), delay });
        }
    };
    // A proxy may add its own to the provider's.
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
    said
}

/// The longest of them.
pub fn longest(said: &[Hint]) -> Option<Duration> {
    said.iter().map(|said| said.delay).max()
}

/// What a bare number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Millis,
    Seconds,
}

/// Seconds or a date.
fn retry_after(value: &str, now: Time) -> Option<Duration> {
    span::number(value, Unit::Seconds).or_else(|| Some(span::until(date(value)?, now)))
}

/// A date as HTTP writes it.
fn date(value: &str) -> Option<Time> {
    let since = httpdate::parse_http_date(value.trim()).ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Time(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
}

impl Headers {
    /// Names are put in lower case.
    pub fn new<'a>(headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let lower = |(name, value): (&str, &str)| (name.to_ascii_lowercase(), value.to_owned());
        Self(headers.into_iter().map(lower).collect())
    }

    /// The first header of that name, which is in lower case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All headers of that name, which is in lower case.
    fn all<'h, 'n>(&'h self, name: &'n str) -> impl Iterator<Item = &'h str> + use<'h, 'n> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}
