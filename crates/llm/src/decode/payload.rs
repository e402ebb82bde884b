//! Why a payload does not parse, and what of it is whole.
//!
//! The glued payload `{"id":"chatcmpl-jQugNdata:{"id":"chatcmpl-iU6v…` is the beginning of one event and a whole
//! other one. Model text that contains `data:{…}` cannot be taken for it: its quotes are escaped, and what follows the
//! `data:` is then no JSON.

use serde::de::IgnoredAny;

/// The end marker of chat completions, which is no JSON.
pub(super) const DONE: &str = "[DONE]";

/// Payloads above this are not searched for a second event, so that the search stays cheap.
const SEARCHED: usize = 1024 * 1024;
/// How many places in a payload are tried.
const TRIED: usize = 64;
/// Whole payloads that one event may consist of. Each says something, and `{}` is two bytes.
const MOST_WHOLE: usize = 1024;

/// What a payload that does not parse as an event consists of.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Diagnosis<'a> {
    /// Whole payloads only, two or more: the blank line between them was missing.
    Whole(Vec<&'a str>),
    /// Valid but for numbers that are none; this is it with null in their place.
    NotANumber(String),
    /// Whole payloads, perhaps none, then half a one, then whole ones again.
    Glued { before: Vec<&'a str>, after: Vec<&'a str> },
    /// It breaks off.
    Truncated,
    /// JSON, so its shape is what is wrong.
    Shape,
    /// None of these.
    Unparseable,
}

/// Finds out what a payload that is no event consists of.
pub(super) fn diagnose(data: &str) -> Diagnosis<'_> {
    let (values, rest) = split(data);
    if rest.is_empty() {
        return if values.len() > 1 { Diagnosis::Whole(values) } else { Diagnosis::Shape };
    }
    if let Some(repaired) = numbers_as_null(data)
        && parses(&repaired)
    {
        return Diagnosis::NotANumber(repaired);
    }
    match glued(rest) {
        Some(after) => Diagnosis::Glued { before: values, after },
        None if is_cut(rest) => Diagnosis::Truncated,
        None => Diagnosis::Unparseable,
    }
}

/// Takes whole payloads off the front. Between them there may be what is left of an event's lines when it runs into
/// another one.
pub(super) fn split(data: &str) -> (Vec<&str>, &str) {
    let mut values = Vec::new();
    let mut rest = data.trim_ascii();
    while values.len() < MOST_WHOLE {
        let length = if rest.starts_with(DONE) {
            DONE.len()
        } else if rest.starts_with('{') {
            let mut parsed = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
            match parsed.next() {
                Some(Ok(_)) => parsed.byte_offset(),
                Some(Err(_)) | None => return (values, rest),
            }
        } else {
            return (values, rest);
        };
        let (value, behind) = rest.split_at(length);
        values.push(value);
        rest = fields_skipped(behind);
    }
    (values, rest)
}

/// Skips the `event:` line and the `data:` of an event that runs into the one before.
fn fields_skipped(behind: &str) -> &str {
    let mut rest = behind.trim_ascii();
    if rest.starts_with("event:") {
        let Some(line_end) = rest.find('\n') else { return rest };
        rest = rest[line_end..].trim_ascii();
    }
    rest.strip_prefix("data:").unwrap_or(rest).trim_ascii()
}

/// The whole payloads behind the earliest place where half a one ends and a whole one begins.
fn glued(rest: &str) -> Option<Vec<&str>> {
    if rest.len() > SEARCHED {
        return None;
    }
    let places = rest.match_indices("data:").map(|(at, field)| (at, at + field.len()));
    let lines = rest.match_indices('\n').map(|(at, line)| (at, at + line.len()));
    let mut places: Vec<_> = places.chain(lines).take(2 * TRIED).collect();
    places.sort_unstable();
    places.into_iter().take(TRIED).find_map(|(at, begin)| {
        let (values, behind) = split(&rest[begin..]);
        (!values.is_empty() && behind.is_empty() && is_cut(without_event_line(&rest[..at]))).then_some(values)
    })
}

/// Of `{"type":"content_event: message_start` what the first event had of it.
fn without_event_line(half: &str) -> &str {
    half.rfind("event:").map_or(half, |at| &half[..at])
}

/// Whether more bytes could have made this a payload.
fn is_cut(half: &str) -> bool {
    let parsed = serde_json::from_str::<IgnoredAny>(half);
    DONE.starts_with(half) || parsed.is_err_and(|error| error.is_eof())
}

fn parses(data: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(data).is_ok()
}

/// The payload with null for `NaN`, `Infinity` and `-Infinity` outside of strings (mlx-omni-server #56), if there are any.
fn numbers_as_null(data: &str) -> Option<String> {
    let mut out = String::new();
    let mut kept = 0;
    let mut in_string = false;
    let bytes = data.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_string => at += 1,
            b'"' => in_string = !in_string,
            b'N' | b'I' | b'-' if !in_string => {
                let words = ["NaN", "Infinity", "-Infinity"];
                if let Some(word) = words.into_iter().find(|word| bytes[at..].starts_with(word.as_bytes())) {
                    out.push_str(&data[kept..at]);
                    out.push_str("null");
                    kept = at + word.len();
                    at = kept;
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    if out.is_empty() {
        return None;
    }
    out.push_str(&data[kept..]);
    Some(out)
}
