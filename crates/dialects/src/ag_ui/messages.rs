//! The messages that AG-UI's client has of a state.

use super::frames::object;
use super::prompts::prompt_messages;
use crate::acp::plan_entries;
use crate::said::{is_echo, is_users, output_of};
use serde_json::{Value, json};
use std::collections::HashMap;
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

/// The messages of a state, oldest first. The oldest are left out when there are very many.
pub fn history(state: &State) -> Vec<Value> {
    list(state).0
}

/// The messages of a state, and how many of them are before the open turn.
pub(super) fn list(state: &State) -> (Vec<Value>, usize) {
    let (mut newest_first, mut of_open, mut left) = (Vec::new(), 0, HISTORY);
    'all: for section in sections(state).iter().rev() {
        for message in section.messages(state).into_iter().rev() {
            let size = message.to_string().len();
            if size > left {
                break 'all;
            }
            left -= size;
            newest_first.push(message);
        }
        if section.turn.is_some_and(Turn::is_open) {
            of_open = newest_first.len();
        }
    }
    newest_first.reverse();
    let earlier = newest_first.len() - of_open;
    (newest_first, earlier)
}

/// The messages of one turn: its prompts, then its items, then work that began after them and belongs to no
/// turn.
pub(super) fn of_turn(turn: &TurnId, state: &State) -> Vec<Value> {
    let sections = sections(state);
    let section = sections.iter().rfind(|section| section.is_of(turn));
    section.map(|section| section.messages(state)).unwrap_or_default()
}

/// The messages before this turn, or all of them.
pub fn before(turn: Option<&TurnId>, state: &State) -> Vec<Value> {
    let sections = sections(state);
    let earlier = sections.iter().take_while(|section| turn.is_none_or(|turn| !section.is_of(turn)));
    earlier.flat_map(|section| section.messages(state)).collect()
}

/// The turns whose messages a list can have. Older ones need not be kept.
pub(super) fn listed_turns(state: &State) -> usize {
    let mut left = HISTORY;
    let is_listed = |section: &&Section<'_>| {
        let has_room = left > 0;
        let size: usize = section.messages(state).iter().map(|message| message.to_string().len()).sum();
        left = left.saturating_sub(size);
        has_room
    };
    let sections = sections(state);
    sections.iter().rev().take_while(is_listed).filter(|section| section.turn.is_some()).count()
}

/// A turn with the work after it that belongs to no turn. The first section may be such work alone.
struct Section<'a> {
    turn: Option<&'a Turn>,
    between: Vec<&'a Item>,
}

impl Section<'_> {
    fn is_of(&self, turn: &TurnId) -> bool {
        self.turn.is_some_and(|known| known.turn == *turn)
    }

    fn messages(&self, state: &State) -> Vec<Value> {
        let turn = self.turn.into_iter();
        let prompts = turn.clone().flat_map(|turn| prompts_of(turn, state)).flat_map(prompt_messages);
        let items =
            turn.flat_map(|turn| state.items.iter().filter(|item| item.turn.as_ref() == Some(&turn.turn)));
        let items = items.chain(self.between.iter().copied());
        prompts.chain(items.flat_map(|item| of_item(item, state))).collect()
    }
}

/// All turns, oldest first. Work between turns is shown when it has ended.
fn sections(state: &State) -> Vec<Section<'_>> {
    let turns = state.turns.iter().map(Some);
    let mut sections: Vec<Section<'_>> =
        [None].into_iter().chain(turns).map(|turn| Section { turn, between: Vec::new() }).collect();
    let places: HashMap<&TurnId, usize> =
        state.turns.iter().enumerate().map(|(index, turn)| (&turn.turn, index + 1)).collect();
    let mut current = 0;
    for item in &state.items {
        match &item.turn {
            Some(turn) => current = places.get(turn).copied().unwrap_or(current),
            None if item.is_open() => {}
            None => sections[current].between.push(item),
        }
    }
    sections
}

/// The prompts that a turn has taken.
pub(super) fn prompts_of<'a>(turn: &'a Turn, state: &'a State) -> impl Iterator<Item = &'a Prompt> {
    let taken = state.prompts.iter().chain(&state.queue);
    taken.filter(|prompt| prompt.state == PromptStage::Taken && prompt.turn.as_ref() == Some(&turn.turn))
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
