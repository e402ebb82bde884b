//! Objects, and nothing that only parses as one.

use serde::Deserialize;

/// The text as this type. A list is none, though its entries could be taken for the members in their order.
pub(crate) fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    let is_object = text.trim_ascii_start().starts_with('{');
    is_object.then(|| serde_json::from_str(text).ok()).flatten()
}
