//! The approximate size of events and folded items in bytes. The size of an event comes from the model's
//! table of events.

use serde_json::Value;
use turnstream_model::event::{Draft, Weigh as _};
use turnstream_model::fold::Item;

/// The ids, state and small members of a folded item.
const ITEM: usize = 256;

/// The weight of several drafts.
pub(crate) fn of_all(drafts: &[Draft]) -> usize {
    drafts.iter().map(of).sum()
}

/// The weight of one draft.
pub(crate) fn of(draft: &Draft) -> usize {
    draft.weight()
}

/// The weight of a folded item.
pub(crate) fn item(item: &Item) -> usize {
    let Item { text, input, output, tool, .. } = item;
    ITEM + text.weight() + input.weight() + output.weight() + tool.weight()
}

/// The weight of a list of JSON values.
pub(crate) fn list(values: &[Value]) -> usize {
    values.iter().map(|value| value.weight()).sum()
}
