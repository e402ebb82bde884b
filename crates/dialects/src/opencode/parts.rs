//! Parts of messages: texts, thinking, tool calls and files.

use super::ids::Names;
use super::infos;
use super::place::{Place, has_subagent};
use super::tools::Call;
use crate::said::output_of;
use serde_json::{Map, Value, json};
use turnstream_model::event::{ItemKind, Tool, ToolStatus};
use turnstream_model::fold::{Attempt, Item, ItemStage, Prompt, State};
use turnstream_model::time::Time;

/// The part that an item is. `end` is when it ended, if it has. `None` for plans and messages of the user.
pub(super) fn of_item(item: &Item, end: Time, state: &State, names: &Names) -> Option<Value> {
    at_place(item, &Place::of(item, state)?, end, state, names)
}

/// The part that an item is, at this place.
pub(super) fn at_place(item: &Item, place: &Place, end: Time, state: &State, names: &Names) -> Option<Value> {
    let body = match item.kind {
        ItemKind::Message | ItemKind::Compaction => text("text", item, end),
        ItemKind::Reasoning => text("reasoning", item, end),
        ItemKind::Tool => tool(item, end, state, names),
        ItemKind::File => file(item),
        ItemKind::Plan => return None,
    };
    Some(part(names.part(&item.id), &place.session(names), &place.message(names), body))
}

fn part(id: String, session: &str, message: &str, mut body: Map<String, Value>) -> Value {
    body.insert("id".to_owned(), json!(id));
    body.insert("sessionID".to_owned(), json!(session));
    body.insert("messageID".to_owned(), json!(message));
    Value::Object(body)
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

fn text(kind: &str, item: &Item, end: Time) -> Map<String, Value> {
    let mut time = json!({"start": item.time});
    if !item.is_open() {
        time["end"] = json!(end);
    }
    let mut body =
        members(json!({"type": kind, "text": item.text.as_deref().unwrap_or_default(), "time": time}));
    if item.synthetic {
        body.insert("synthetic".to_owned(), json!(true));
    }
    body
}

/// A file of the assistant. Agents of ACP send a content block, and opencode a name or only a type.
fn file(item: &Item) -> Map<String, Value> {
    const TYPES: [&str; 6] = ["application/", "audio/", "font/", "image/", "text/", "video/"];
    let said = item.text.as_deref().unwrap_or_default();
    let block: Option<Value> = turnstream_json::from_str(said).ok();
    if let Some(block) = block.filter(|block| block["type"].is_string()) {
        return content(&block);
    }
    if TYPES.iter().any(|known| said.starts_with(known)) {
        return members(json!({"type": "file", "mime": said, "url": "attachment:"}));
    }
    let name = said.rsplit('/').next().unwrap_or(said);
    let url = if said.starts_with('/') { format!("file://{said}") } else { format!("attachment:{said}") };
    members(json!({"type": "file", "mime": "application/octet-stream", "filename": name, "url": url}))
}

fn tool(item: &Item, end: Time, state: &State, names: &Names) -> Map<String, Value> {
    let nothing = Tool::default();
    let tool = item.tool.as_deref().unwrap_or(&nothing);
    let call = Call::of(tool, &state.session.cwd);
    let output = output_of(tool, item.output.as_deref());
    let mut metadata = call.metadata(tool, &output);
    if has_subagent(&item.id, state) {
        metadata.insert("sessionId".to_owned(), json!(names.subagent(&item.id)));
    }
    let over = json!({"start": item.time, "end": end});
    let input = &call.input;
    // opencode calls a command that ran completed, whatever its exit code (capture f2-abort-tool).
    let ran = metadata.contains_key("exit");
    let state = match item.state {
        ItemStage::Streaming if tool.status.is_none_or(|status| status == ToolStatus::Pending) => {
            json!({"status": "pending", "input": input, "raw": ""})
        }
        ItemStage::Streaming => {
            let mut running = json!({"status": "running", "input": input, "time": {"start": item.time}});
            if item.output.is_some() || metadata.contains_key("sessionId") {
                running["title"] = json!(call.title);
                running["metadata"] = json!(metadata);
            }
            running
        }
        ItemStage::Completed => completed(input, &output, &call.title, metadata, over),
        ItemStage::Failed | ItemStage::Abandoned if ran => {
            completed(input, &output, &call.title, metadata, over)
        }
        ItemStage::Failed => {
            failed(input, if output.is_empty() { "The tool failed" } else { &output }, metadata, over)
        }
        ItemStage::Abandoned => {
            metadata.insert("interrupted".to_owned(), json!(true));
            failed(input, "Tool execution aborted", metadata, over)
        }
        ItemStage::Unknown => failed(input, "It is not known whether the tool ran", metadata, over),
    };
    let id = item.native_id.as_deref().unwrap_or(item.id.as_str());
    members(json!({"type": "tool", "tool": call.name, "callID": id, "state": state}))
}

fn completed(
    input: &Map<String, Value>,
    output: &str,
    title: &str,
    metadata: Map<String, Value>,
    time: Value,
) -> Value {
    json!({"status": "completed", "input": input, "output": output, "title": title, "metadata": metadata, "time": time})
}

fn failed(input: &Map<String, Value>, error: &str, metadata: Map<String, Value>, time: Value) -> Value {
    json!({"status": "error", "input": input, "error": error, "metadata": metadata, "time": time})
}

/// The id by which a permission or a question names a call.
pub(super) fn call_id(item: &Item) -> &str {
    item.native_id.as_deref().unwrap_or(item.id.as_str())
}

/// The beginning of a model call.
pub(super) fn step_start(attempt: &Attempt, place: &Place, names: &Names) -> Value {
    let body = members(json!({"type": "step-start"}));
    part(names.step_start(&attempt.attempt), &place.session(names), &place.message(names), body)
}

/// The end of a model call.
pub(super) fn step_finish(attempt: &Attempt, place: &Place, names: &Names) -> Value {
    let id = names.step_finish(&attempt.attempt);
    part(id, &place.session(names), &place.message(names), infos::step_finish(attempt))
}

/// The parts of a prompt.
pub(super) fn of_prompt(prompt: &Prompt, names: &Names) -> Vec<Value> {
    let (session, message) = (names.session(), names.prompt(prompt));
    let block = |(index, block): (usize, &Value)| {
        part(names.part_of(&message, index), &session, &message, content(block))
    };
    prompt.content.iter().enumerate().map(block).collect()
}

/// One text as the only part of a message of the user.
pub(super) fn users_text(text: &str, synthetic: bool, session: &str, message: &str, names: &Names) -> Value {
    let mut body = members(json!({"type": "text", "text": text}));
    if synthetic {
        body.insert("synthetic".to_owned(), json!(true));
    }
    part(names.part_of(message, 0), session, message, body)
}

/// A content block of ACP as the body of a part.
fn content(block: &Value) -> Map<String, Value> {
    let text = |member: &str| block[member].as_str();
    let mime = text("mimeType").unwrap_or("text/plain");
    let file = |mime: &str, url: String| {
        let name = text("name").or(text("uri")).map(|name| name.rsplit('/').next().unwrap_or(name));
        let mut body = members(json!({"type": "file", "mime": mime, "url": url}));
        if let Some(name) = name {
            body.insert("filename".to_owned(), json!(name));
        }
        body
    };
    match text("type").unwrap_or_default() {
        "text" => members(json!({"type": "text", "text": text("text").unwrap_or_default()})),
        "image" | "audio" => match (text("data"), text("uri")) {
            (Some(data), _) => file(mime, format!("data:{mime};base64,{data}")),
            (None, uri) => file(mime, uri.unwrap_or_default().to_owned()),
        },
        "resource_link" => file(mime, text("uri").unwrap_or_default().to_owned()),
        "resource" => {
            let resource = &block["resource"];
            if let Some(data) = resource["blob"].as_str() {
                let mime = resource["mimeType"].as_str().unwrap_or("application/octet-stream");
                return file(mime, format!("data:{mime};base64,{data}"));
            }
            let said = resource["text"].as_str().unwrap_or_default();
            members(json!({"type": "text", "text": said, "synthetic": true}))
        }
        other => members(json!({"type": "text", "text": format!("[{other}]"), "synthetic": true})),
    }
}

#[cfg(test)]
mod tests {
    use super::file;
    use serde_json::{Value, json};
    use turnstream_model::event::Event;
    use turnstream_model::fold::Fold;

    fn of(text: &str) -> Value {
        let started =
            json!({"seq": 1, "time": 1, "type": "item.started", "item": "i1", "kind": "file", "text": text});
        let fold = Fold::of(&[Event::from_json(&started.to_string()).unwrap()]);
        Value::Object(file(&fold.state().items[0]))
    }

    #[test]
    fn a_file_is_what_its_block_says_and_only_a_path_is_a_path() {
        let image = json!({"type": "image", "mimeType": "image/png", "data": "AAAA"}).to_string();
        assert_eq!(
            of(&image),
            json!({"type": "file", "mime": "image/png", "url": "data:image/png;base64,AAAA"})
        );
        assert_eq!(of("image/png"), json!({"type": "file", "mime": "image/png", "url": "attachment:"}));
        assert_eq!(
            (&of("a.png")["filename"], &of("a.png")["url"]),
            (&json!("a.png"), &json!("attachment:a.png"))
        );
        assert_eq!(
            (&of("/srv/a.rs")["filename"], &of("/srv/a.rs")["url"]),
            (&json!("a.rs"), &json!("file:///srv/a.rs"))
        );
    }
}
