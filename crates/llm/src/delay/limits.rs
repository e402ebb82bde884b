//! Rate limit headers. Successful responses have them too, so a reset time counts only if the same response
//! says that nothing is left of its limit.

use super::{Headers, span};
use std::time::Duration;
use turnstream_model::time::Time;

/// Pairs of headers: what is left of a limit, and when it resets.
const PAIRS: [(&str, &str); 8] = [
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
    ("ratelimit-remaining", "ratelimit-reset"),
];

pub(super) fn read(headers: &Headers, now: Time, add: &mut impl FnMut(&str, Option<Duration>)) {
    for (remaining, reset) in PAIRS {
        if headers.get(remaining).is_some_and(|left| left.trim() == "0") {
            add(reset, headers.get(reset).and_then(|value| moment(value, now)));
        }
    }
    // Anthropic's subscriptions have one overall limit, whose state is a word.
    if headers.get("anthropic-ratelimit-unified-status") == Some("rejected") {
        let reset = "anthropic-ratelimit-unified-reset";
        add(reset, headers.get(reset).and_then(|value| moment(value, now)));
    }
}

/// Parses `6m0s`, a time, or a number. Numbers below 10⁹ are seconds, larger ones are times.
pub(super) fn moment(value: &str, now: Time) -> Option<Duration> {
    if let Some(span) = span::units(value) {
        return Some(span);
    }
    match value.trim().parse::<f64>() {
        Ok(number) if number < 1e9 => span::of(number, super::Unit::Seconds),
        Ok(_) | Err(_) => span::timestamp(value).map(|then| span::until(then, now)),
    }
}
