//! Diagnoses payloads that do not parse.
//!
//! The glued payload `{"id":"chatcmpl-jQugNdata:{"id":"chatcmpl-iU6v…` is the beginning of one event,
//! followed by a complete one. Model text that contains `data:{…}` is not mistaken for it: its quotes are
//! escaped, so the text after `data:` is not JSON.

use serde::de::IgnoredAny;

/// The end marker of chat completions, which is not JSON.
pub(super) const DONE: &str = "[DONE]";

/// Larger payloads are not searched for a second event, so that the search stays cheap.
const SEARCHED: usize = 1024 * 1024;
/// The number of places in a payload that are tried.
const TRIED: usize = 64;
/// The most payloads in one event. Each produces events, and `{}` is only two bytes.
const MOST_WHOLE: usize = 1024;

/// What is wrong with a payload that does not parse as an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Diagnosis<'a> {
    /// Two or more complete payloads: the blank line between them is missing.
    Whole(Vec<&'a str>),
    /// `NaN` or `Infinity`. This is the payload with null in their place.
    NotANumber(String),
    /// Complete payloads (perhaps none), half a payload, and complete payloads again.
    Glued { before: Vec<&'a str>, after: Vec<&'a str> },
    /// It breaks off.
    Truncated,
    /// JSON of a shape that the format does not have.
    Shape,
    /// None of these.
    Unparseable,
}

/// The payloads of an event that is read after a repair without loss; `None` if it needs none, or has lost
/// bytes.
pub(crate) fn repaired(data: &str) -> Option<Vec<String>> {
    match diagnose(data) {
        Diagnosis::Whole(values) => Some(values.into_iter().map(str::to_owned).collect()),
        Diagnosis::NotANumber(payload) => Some(vec![payload]),
        Diagnosis::Glued { .. } | Diagnosis::Truncated | Diagnosis::Shape | Diagnosis::Unparseable => None,
    }
}

/// Finds out what is wrong with a payload.
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

/// Splits complete payloads off the front. Between them, `event:` and `data:` of glued events are skipped.
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

/// The complete payloads after the first place where half a payload ends and a complete one begins.
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

/// Cuts `{"type":"content_event: message_start` at the second event's line.
fn without_event_line(half: &str) -> &str {
    half.rfind("event:").map_or(half, |at| &half[..at])
}

/// Whether this is the beginning of a payload.
fn is_cut(half: &str) -> bool {
    let parsed = serde_json::from_str::<IgnoredAny>(half);
    DONE.starts_with(half) || parsed.is_err_and(|error| error.is_eof())
}

fn parses(data: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(data).is_ok()
}

/// Replaces `NaN`, `Infinity` and `-Infinity` outside of strings by null (mlx-omni-server #56), if there
/// are any.
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
