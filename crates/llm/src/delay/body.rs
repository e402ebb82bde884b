//! Delays in error bodies. Member names are matched exactly, since the name tells the unit.

use super::{Unit, limits, span};
use serde_json::Value;
use std::time::Duration;
use turnstream_model::time::Time;

/// How deep a body is searched.
const DEPTH: usize = 6;
/// How many members and entries are searched.
const MEMBERS: usize = 256;

/// Reads the delays in a provider's error body.
///
/// The text of the message is read only under a 429, and only the form "try again in …". It never decides
/// the class.
pub(super) fn read(
    body: &Value,
    status: Option<u16>,
    now: Time,
    add: &mut impl FnMut(&str, Option<Duration>),
) {
    let mut left = MEMBERS;
    walk(body, DEPTH, &mut left, &mut |name, value| {
        let number = value.as_f64().or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()));
        let seconds = || number.and_then(|number| span::of(number, Unit::Seconds));
        let delay = match name {
            "retryDelay" => value.as_str().and_then(span::units),
            "retry_after_ms" | "retryAfterMs" => number.and_then(|number| span::of(number, Unit::Millis)),
            "retry_after" | "retry-after" | "Retry-After" => {
                seconds().or_else(|| value.as_str().and_then(span::units))
            }
            "retry_after_seconds" | "retryAfterSeconds" | "resets_in_seconds" => seconds(),
            "resets_at" | "reset_at" | "resetsAt" | "resetAt" | "resetTime" => moment(value, now),
            // OpenRouter repeats the headers of the provider behind it.
            "X-RateLimit-Reset" | "x-ratelimit-reset" => moment(value, now),
            "message" if status == Some(429) => value.as_str().and_then(try_again_in),
            _ => return,
        };
        add(name, delay);
    });
}

fn moment(value: &Value, now: Time) -> Option<Duration> {
    match value {
        Value::String(text) => limits::moment(text, now),
        Value::Number(number) => limits::moment(&number.to_string(), now),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// `… Please try again in 11.054s. …`
fn try_again_in(message: &str) -> Option<Duration> {
    let lower = message.to_ascii_lowercase();
    let at = lower.find("try again in ")? + "try again in ".len();
    span::leading_units(&lower[at..]).map(|(delay, _)| delay)
}

fn walk(value: &Value, depth: usize, left: &mut usize, see: &mut impl FnMut(&str, &Value)) {
    if depth == 0 {
        return;
    }
    let nothing = serde_json::Map::new();
    let (list, members): (&[Value], _) = match value {
        Value::Array(list) => (list, &nothing),
        Value::Object(members) => (&[], members),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (&[], &nothing),
    };
    for value in list {
        if std::mem::replace(left, left.saturating_sub(1)) == 0 {
            return;
        }
        walk(value, depth - 1, left, see);
    }
    for (name, value) in members {
        if std::mem::replace(left, left.saturating_sub(1)) == 0 {
            return;
        }
        see(name, value);
        walk(value, depth - 1, left, see);
    }
}
