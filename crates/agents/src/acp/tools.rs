//! Tool calls of ACP in the form of the log, which has ACP's vocabulary. Members that are not known are kept.

use serde_json::{Map, Value, json};
use turnstream_model::event::{Tool, ToolKind, ToolStatus};

/// What an update says of a call. A status that is missing is `missing`.
pub(super) fn tool(mut members: Map<String, Value>, missing: Option<ToolStatus>) -> Tool {
    members.remove("toolCallId");
    let text = |value: Value| match value {
        Value::String(text) => Some(text),
        _ => None,
    };
    let list = |value: Value| match value {
        Value::Array(list) => Some(list),
        _ => None,
    };
    let name = members.remove("name").and_then(text).or_else(|| claude_name(&members));
    let title = members.remove("title").and_then(text);
    let kind = members.get("kind").and_then(Value::as_str).and_then(kind);
    let status = members.get("status").and_then(Value::as_str).and_then(status);
    // A word that is not known stays beside the others.
    if kind.is_some() {
        members.remove("kind");
    }
    if status.is_some() {
        members.remove("status");
    }
    for word in ["kind", "status"] {
        if let Some(unknown) = members.remove(word).filter(|word| !word.is_null()) {
            members.insert(format!("acp_{word}"), unknown);
        }
    }
    Tool {
        name,
        kind,
        title,
        status: status.or(missing),
        // Empty while the model writes it (capture claude_multi_step).
        input: members.remove("rawInput").filter(|input| !input.is_null() && *input != json!({})),
        output: members.remove("rawOutput").filter(|output| !output.is_null()).map(output),
        content: members.remove("content").and_then(list),
        locations: members.remove("locations").and_then(list),
        extra: members,
    }
}

/// The call whose subagent makes this one, where an agent says so.
pub(super) fn parent(members: &Map<String, Value>) -> Option<&str> {
    members.get("_meta")?["claudeCode"]["parentToolUseId"].as_str()
}

/// A piece of the output of a running call, which codex-acp sends beside ACP's members.
pub(super) fn take_output(members: &mut Map<String, Value>) -> Option<String> {
    let meta = members.get_mut("_meta")?.as_object_mut()?;
    let piece = meta.remove("terminal_output_delta")?["data"].as_str().map(str::to_owned);
    if meta.is_empty() {
        members.remove("_meta");
    }
    piece.filter(|piece| !piece.is_empty())
}

/// Adds what a call has printed to its result, if the result lacks it.
pub(super) fn add_output(tool: &mut Tool, printed: Option<String>) {
    let Some(printed) = printed else { return };
    match &mut tool.output {
        Some(Value::Object(output)) => {
            output.entry("output").or_insert(Value::from(printed));
        }
        Some(_) => {}
        None => tool.output = Some(json!({"output": printed})),
    }
}

/// claude-agent-acp has the name of the tool beside ACP's members.
fn claude_name(members: &Map<String, Value>) -> Option<String> {
    members.get("_meta")?["claudeCode"]["toolName"].as_str().map(str::to_owned)
}

/// A raw result. A text has the form that other adapters give it.
fn output(output: Value) -> Value {
    match output {
        Value::String(text) => json!({"output": text}),
        other => other,
    }
}

fn kind(word: &str) -> Option<ToolKind> {
    Some(match word {
        "read" => ToolKind::Read,
        "edit" => ToolKind::Edit,
        "delete" => ToolKind::Delete,
        "move" => ToolKind::Move,
        "search" => ToolKind::Search,
        "execute" => ToolKind::Execute,
        "think" => ToolKind::Think,
        "fetch" => ToolKind::Fetch,
        "switch_mode" => ToolKind::SwitchMode,
        "other" => ToolKind::Other,
        _ => return None,
    })
}

fn status(word: &str) -> Option<ToolStatus> {
    Some(match word {
        "pending" => ToolStatus::Pending,
        "in_progress" => ToolStatus::InProgress,
        "completed" => ToolStatus::Completed,
        "failed" => ToolStatus::Failed,
        _ => return None,
    })
}
