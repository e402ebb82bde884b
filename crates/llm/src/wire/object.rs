//! JSON objects, parsed as a type.

use serde::Deserialize;

/// Parses an object. Lists are refused, although serde would read their entries as members in order.
pub(crate) fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    is_object(text).then(|| turnstream_json::from_str(text).ok()).flatten()
}

/// Parses an object for a tool. Half characters are refused: they are a sign of lost bytes.
pub(crate) fn strict_object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    is_object(text).then(|| serde_json::from_str(text).ok()).flatten()
}

fn is_object(text: &str) -> bool {
    text.trim_ascii_start().starts_with('{')
}
