//! Objects, and nothing that only parses as one.

use serde::Deserialize;

/// The text as this type. A list is none, though its entries could be taken for the members in their order.
pub(crate) fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    is_object(text).then(|| turnstream_json::from_str(text).ok()).flatten()
}

/// The same for what a tool is to be given: half a character, which is what a lost piece leaves of one, is no part of it.
pub(crate) fn sound_object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    is_object(text).then(|| serde_json::from_str(text).ok()).flatten()
}

fn is_object(text: &str) -> bool {
    text.trim_ascii_start().starts_with('{')
}
