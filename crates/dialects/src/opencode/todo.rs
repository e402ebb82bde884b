//! Plans as opencode's to-do lists.

use crate::acp::plan_entries;
use serde::{Deserialize, Serialize};
use turnstream_model::fold::Item;

/// One entry of a to-do list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// What is to be done.
    pub content: String,
    /// `pending`, `in_progress`, `completed` or `cancelled`.
    #[serde(default = "pending")]
    pub status: String,
    /// `high`, `medium` or `low`.
    #[serde(default = "medium")]
    pub priority: String,
}

fn pending() -> String {
    "pending".to_owned()
}

fn medium() -> String {
    "medium".to_owned()
}

/// Whether a plan that grows can be read as it is: half a JSON list cannot.
pub(super) fn is_whole(plan: &Item) -> bool {
    let text = plan.text.as_deref().unwrap_or_default().trim();
    !text.starts_with('[') || turnstream_json::from_str::<Vec<Todo>>(text).is_ok()
}

/// The to-do list of a plan.
pub(super) fn of(plan: &Item) -> Vec<Todo> {
    let text = plan.text.as_deref().unwrap_or_default();
    if let Ok(todos) = turnstream_json::from_str(text) {
        return todos;
    }
    plan_entries(text)
        .into_iter()
        .map(|(content, status)| Todo { content, status, priority: medium() })
        .collect()
}
