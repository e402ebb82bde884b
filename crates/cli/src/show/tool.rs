//! What a tool call is called.

use serde_json::Value;

/// One line for a person: the title, or the name.
pub(super) fn title(tool: &Value) -> Option<String> {
    tool["title"].as_str().or_else(|| tool["name"].as_str()).map(str::to_owned)
}
