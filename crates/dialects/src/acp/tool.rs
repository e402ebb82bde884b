//! Tool calls. The log describes them in ACP's words, so this only wraps, fills in defaults, and handles
//! values that are not valid ACP.

use super::tag::Tag;
use agent_client_protocol_schema::v1::{
    Content, ContentBlock, TextContent, ToolCall, ToolCallContent, ToolCallLocation, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields, ToolKind as AcpKind,
};
use serde::Deserialize;
use serde_json::{Value, json};
use turnstream_model::event::{Tool, ToolKind, ToolStatus};

/// The announcement of a call.
pub(super) fn announce(id: &str, tool: &Tool, tag: &Tag) -> ToolCall {
    let title = tool.title.clone().or_else(|| tool.name.clone()).unwrap_or_else(|| "Tool".to_owned());
    ToolCall::new(id.to_owned(), title)
        .name(tool.name.clone())
        .kind(tool.kind.map_or_else(AcpKind::default, kind))
        .status(tool.status.map_or_else(ToolCallStatus::default, status))
        .content(tool.content.as_deref().map(contents).unwrap_or_default())
        .locations(tool.locations.as_deref().map(locations).unwrap_or_default())
        .raw_input(raw_input(tool))
        .raw_output(raw_output(tool))
        .meta(tag.to_meta())
}

/// The members of a call that changed.
pub(super) fn update(id: &str, tool: &Tool, tag: &Tag) -> ToolCallUpdate {
    ToolCallUpdate::new(id.to_owned(), fields(tool)).meta(tag.to_meta())
}

/// The members that are present.
pub(super) fn fields(tool: &Tool) -> ToolCallUpdateFields {
    ToolCallUpdateFields::new()
        .name(tool.name.clone())
        .kind(tool.kind.map(kind))
        .title(tool.title.clone())
        .status(tool.status.map(status))
        .content(tool.content.as_deref().map(contents))
        .locations(tool.locations.as_deref().map(locations))
        .raw_input(raw_input(tool))
        .raw_output(raw_output(tool))
}

/// The arguments as the agent gave them. Empty ones are left out.
fn raw_input(tool: &Tool) -> Option<Value> {
    tool.input.clone().filter(|input| input.as_object().is_none_or(|members| !members.is_empty()))
}

/// A bare string is wrapped, because readers look for `rawOutput.output`.
fn raw_output(tool: &Tool) -> Option<Value> {
    match tool.output.as_ref()? {
        Value::String(text) => Some(json!({ "output": text })),
        other => Some(other.clone()),
    }
}

/// A content that is not valid ACP is shown as its JSON. Dropping it would lose a result; passing it on
/// would break the message.
fn contents(values: &[Value]) -> Vec<ToolCallContent> {
    let read = |value: &Value| {
        ToolCallContent::deserialize(value).unwrap_or_else(|_| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            ToolCallContent::Content(Content::new(ContentBlock::Text(TextContent::new(text))))
        })
    };
    values.iter().map(read).collect()
}

/// Locations without a path are left out.
fn locations(values: &[Value]) -> Vec<ToolCallLocation> {
    values.iter().filter_map(|value| ToolCallLocation::deserialize(value).ok()).collect()
}

fn kind(kind: ToolKind) -> AcpKind {
    match kind {
        ToolKind::Read => AcpKind::Read,
        ToolKind::Edit => AcpKind::Edit,
        ToolKind::Delete => AcpKind::Delete,
        ToolKind::Move => AcpKind::Move,
        ToolKind::Search => AcpKind::Search,
        ToolKind::Execute => AcpKind::Execute,
        ToolKind::Think => AcpKind::Think,
        ToolKind::Fetch => AcpKind::Fetch,
        ToolKind::SwitchMode => AcpKind::SwitchMode,
        ToolKind::Other => AcpKind::Other,
    }
}

/// ACP's word for a status.
pub(super) fn status(status: ToolStatus) -> ToolCallStatus {
    match status {
        ToolStatus::Pending => ToolCallStatus::Pending,
        ToolStatus::InProgress => ToolCallStatus::InProgress,
        ToolStatus::Completed => ToolCallStatus::Completed,
        ToolStatus::Failed => ToolCallStatus::Failed,
    }
}
