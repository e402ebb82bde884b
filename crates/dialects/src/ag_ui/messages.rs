//! The messages that AG-UI's client has of a state.

use super::frames::object;
use crate::acp::plan_entries;
use crate::said::{is_echo, is_users, output_of};
use serde_json::{Value, json};
use turnstream_model::event::{ItemKind, Tool, ToolStatus};
use turnstream_model::fold::{Item, ItemStage, Prompt, PromptStage, State, Turn};
use turnstream_model::id::TurnId;

/// Characters of a result that are shown. The client gives up a frame of more than ten million.
const RESULT: usize = 1 << 20;
/// Bytes of arguments that are shown.
const ARGUMENTS: usize = 4 << 20;
/// Bytes of an activity that are shown while it grows: each change repeats all of it.
pub(super) const ACTIVITY: usize = 4 << 10;
/// Bytes of a history. Older messages are left out.
const HISTORY: usize = 6 << 20;

/// The messages of all turns, oldest first. The oldest are left out when there are very many.
pub fn history(state: &State) -> Vec<Value> {
    let mut messages = Vec::new();
    let mut left = HISTORY;
    for turn in state.turns.iter().rev() {
        for message in of_turn(&turn.turn, state).into_iter().rev() {
            let size = message.to_string().len();
            if size > left {
                messages.reverse();
                return messages;
            }
            left -= size;
            messages.push(message);
        }
    }
    messages.reverse();
    messages
}

/// The messages of one turn: its prompts, then its items.
pub fn of_turn(turn: &TurnId, state: &State) -> Vec<Value> {
    let Some(turn) = state.turns.iter().rev().find(|known| known.turn == *turn) else { return Vec::new() };
    let prompts = prompts_of(turn, state).map(prompt_message);
    let items = state.items.iter().filter(|item| item.turn.as_ref() == Some(&turn.turn));
    prompts.chain(items.flat_map(|item| of_item(item, state))).collect()
}

/// The prompts that a turn has taken.
pub(super) fn prompts_of<'a>(turn: &'a Turn, state: &'a State) -> impl Iterator<Item = &'a Prompt> {
    let taken = state.prompts.iter().chain(&state.queue);
    taken.filter(|prompt| prompt.state == PromptStage::Taken && prompt.turn.as_ref() == Some(&turn.turn))
}

/// A prompt as a message of the user.
pub fn prompt_message(prompt: &Prompt) -> Value {
    json!({"id": prompt.prompt, "role": "user", "content": prompt_text(prompt)})
}

/// The text of a prompt. Other blocks are named in brackets.
pub(super) fn prompt_text(prompt: &Prompt) -> String {
    let block = |block: &Value| match block["type"].as_str() {
        Some("text") => block["text"].as_str().unwrap_or_default().to_owned(),
        Some("resource_link") => block["uri"].as_str().unwrap_or_default().to_owned(),
        other => format!("[{}]", other.unwrap_or("content")),
    };
    prompt.content.iter().map(block).collect::<Vec<_>>().join("\n")
}

/// What an item is to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Text of the assistant.
    Text,
    /// The model's thinking.
    Reasoning,
    /// A message of the user, shown when it is whole.
    User,
    /// A tool call and its result.
    Tool,
    /// Something else that is replaced as a whole.
    Activity(&'static str),
}

pub(super) fn shape(item: &Item) -> Shape {
    match item.kind {
        ItemKind::Message if is_users(item) => Shape::User,
        ItemKind::Message => Shape::Text,
        ItemKind::Reasoning => Shape::Reasoning,
        ItemKind::Tool => Shape::Tool,
        ItemKind::Plan => Shape::Activity("plan"),
        ItemKind::File => Shape::Activity("file"),
        ItemKind::Compaction => Shape::Activity("compaction"),
    }
}

/// The messages of an item: a tool call with a result has two.
pub(super) fn of_item(item: &Item, state: &State) -> Vec<Value> {
    let text = item.text.as_deref().unwrap_or_default();
    let message = |role: &str, content: Value| {
        object(json!({
            "id": item.id, "role": role, "content": content, "subagentRunId": item.parent,
            "metadata": metadata(item),
        }))
    };
    match shape(item) {
        Shape::Text => vec![message("assistant", json!(text))],
        Shape::Reasoning => vec![message("reasoning", json!(text))],
        Shape::User if item.is_open() || is_echo(item, state) => Vec::new(),
        Shape::User => vec![message("user", json!(text))],
        Shape::Activity(kind) => {
            let mut activity = message("activity", activity(item));
            activity["activityType"] = json!(kind);
            vec![activity]
        }
        Shape::Tool => {
            let arguments = if is_called(item, state) { arguments(item) } else { String::new() };
            let call = json!({
                "id": item.id, "type": "function",
                "function": {"name": tool_name(item), "arguments": arguments},
            });
            let mut messages = vec![object(json!({
                "id": item.id, "role": "assistant", "toolCalls": [call], "subagentRunId": item.parent,
            }))];
            if !item.is_open() {
                messages.push(result(item));
            }
            messages
        }
    }
}

/// The result of a call that has ended, as a message.
pub(super) fn result(item: &Item) -> Value {
    object(json!({
        "id": format!("{}.result", item.id), "role": "tool", "toolCallId": item.id,
        "content": result_text(item), "subagentRunId": item.parent, "metadata": metadata(item),
    }))
}

/// How an item ended, when it did not end well.
pub(super) fn metadata(item: &Item) -> Value {
    match item.state {
        ItemStage::Streaming | ItemStage::Completed if !item.incomplete => Value::Null,
        stage => {
            let reason = item.reason.as_deref();
            json!({"turnstream": object(json!({"state": stage, "reason": reason}))})
        }
    }
}

/// The content of an activity. A long one is shown whole when it has ended.
pub(super) fn activity(item: &Item) -> Value {
    let mut text = item.text.as_deref().unwrap_or_default();
    if item.is_open() {
        text = &text[..text.floor_char_boundary(ACTIVITY)];
    }
    match item.kind {
        ItemKind::Plan => {
            let entry = |(content, status)| json!({"content": content, "status": status});
            json!({"entries": plan_entries(text).into_iter().map(entry).collect::<Vec<_>>()})
        }
        ItemKind::File => json!({"path": text}),
        ItemKind::Message | ItemKind::Reasoning | ItemKind::Tool | ItemKind::Compaction => {
            json!({"text": text})
        }
    }
}

/// The name of the tool. An agent may tell only what the call does.
pub(super) fn tool_name(item: &Item) -> &str {
    let Some(tool) = item.tool.as_deref() else { return "tool" };
    let kind = tool.kind.map(|kind| kind.as_str());
    tool.name.as_deref().or(kind).unwrap_or("tool")
}

/// Whether the arguments of a call are known: it runs, has ended, or a person is asked about it.
pub(super) fn is_called(item: &Item, state: &State) -> bool {
    let status = item.tool.as_deref().and_then(|tool| tool.status);
    !item.is_open()
        || status != Some(ToolStatus::Pending)
        || state.approvals.iter().any(|asked| asked.item.as_ref() == Some(&item.id))
}

/// The arguments of a call as JSON.
pub(super) fn arguments(item: &Item) -> String {
    let input = item.tool.as_deref().and_then(|tool| tool.input.as_ref());
    let written = input.map_or_else(|| "{}".to_owned(), Value::to_string);
    if written.len() > ARGUMENTS {
        return json!({"turnstream": format!("{} bytes are left out", written.len())}).to_string();
    }
    written
}

/// The text of a result. A call without one says how it ended.
pub(super) fn result_text(item: &Item) -> String {
    let nothing = Tool::default();
    let output = output_of(item.tool.as_deref().unwrap_or(&nothing), item.output.as_deref());
    let text = match item.state {
        ItemStage::Unknown => "It is not known whether the tool ran.".to_owned(),
        ItemStage::Abandoned if output.is_empty() => "The call was stopped.".to_owned(),
        ItemStage::Failed if output.is_empty() => "The tool failed.".to_owned(),
        ItemStage::Streaming | ItemStage::Completed | ItemStage::Failed | ItemStage::Abandoned => output,
    };
    match text.char_indices().nth(RESULT) {
        Some((end, _)) => format!("{}\n… {} bytes are left out", &text[..end], text.len() - end),
        None => text,
    }
}
