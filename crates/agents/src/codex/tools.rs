//! Describes the items of Codex that are tool calls in ACP's terms: title, kind, content and locations.

use super::wire::{CommandAction, FileChange, Item};
use serde_json::{Value, json};
use turnstream_adapter::{file_name, one_line};
use turnstream_model::event::{Tool, ToolKind, ToolStatus};

/// The tool call of an item; `None` for an item of another type.
pub(super) fn describe(item: &Item) -> Option<Tool> {
    let mut tool = match item.kind.as_str() {
        "commandExecution" => command(item),
        "fileChange" => file_change(item),
        "mcpToolCall" => {
            let (server, name) = (word(&item.server), word(&item.tool));
            called(format!("{server}.{name}"), item, item.result.as_ref())
        }
        "dynamicToolCall" => called(word(&item.tool).to_owned(), item, item.content_items.as_ref()),
        "collabAgentToolCall" => collaboration(item),
        "webSearch" => web_search(item),
        "imageView" => {
            let path = word(&item.path);
            let title = with("View", file_name(path));
            let tool = titled("imageView", ToolKind::Read, title, json!({"path": path}));
            Tool { locations: Some(vec![json!({"path": path})]), ..tool }
        }
        "imageGeneration" => {
            let (title, input) = ("Generate an image".to_owned(), json!({"prompt": item.revised_prompt}));
            let locations = item.saved_path.as_ref().map(|path| vec![json!({"path": path})]);
            let output = item.failure.as_ref().map(|failure| json!({"metadata": {"failure": failure}}));
            Tool { locations, output, ..titled("imageGeneration", ToolKind::Other, title, input) }
        }
        _ => return None,
    };
    tool.status = Some(status(item));
    Some(tool)
}

/// A command that Codex asks about before it shows it.
pub(super) fn asked_command(command: &str, cwd: Option<&str>, actions: &[CommandAction]) -> Tool {
    let (kind, title) = (kind_of_actions(actions), title_of_command(command, actions));
    let tool = titled("commandExecution", kind, title, json!({"command": command, "cwd": cwd}));
    Tool { status: Some(ToolStatus::Pending), ..tool }
}

/// A connection that Codex asks about. Its command is shown after the answer (capture `n_network_accept`).
pub(super) fn asked_connection(host: &str, protocol: Option<&str>) -> Tool {
    let title = match protocol {
        Some(protocol) => format!("Connect to {host} ({protocol})"),
        None => format!("Connect to {host}"),
    };
    let tool = titled("network", ToolKind::Fetch, title, json!({"host": host, "protocol": protocol}));
    Tool { status: Some(ToolStatus::Pending), ..tool }
}

/// How far the call has come. ACP has no word for a declined one. Searches and views of an image have no
/// status: they are over when Codex says so (captures `n_web_search`, `n_images`).
fn status(item: &Item) -> ToolStatus {
    match (item.status(), item.success) {
        _ if item.is_in_progress() => ToolStatus::InProgress,
        ("failed" | "declined", _) | (_, Some(false)) => ToolStatus::Failed,
        ("", None) => ToolStatus::InProgress,
        (_, _) => ToolStatus::Completed,
    }
}

fn command(item: &Item) -> Tool {
    let actions = &item.command_actions;
    let line = word(&item.command);
    let mut tool = asked_command(line, item.cwd.as_deref(), actions);
    let paths: Vec<Value> =
        actions.iter().filter_map(|action| action.path.as_ref()).map(|path| json!({"path": path})).collect();
    tool.locations = Some(paths).filter(|paths| !paths.is_empty());
    if item.is_in_progress() {
        return tool;
    }
    let metadata =
        json!({"exitCode": item.exit_code, "durationMs": item.duration_ms, "status": item.status()});
    let output = match &item.aggregated_output {
        Some(output) => json!({"output": output, "metadata": metadata}),
        None => json!({"metadata": metadata}),
    };
    tool.output = Some(output);
    tool.content = item.aggregated_output.as_deref().filter(|output| !output.is_empty()).map(shown);
    tool
}

fn kind_of_actions(actions: &[CommandAction]) -> ToolKind {
    let all = |kind: &str| !actions.is_empty() && actions.iter().all(|action| action.kind == kind);
    if all("read") || all("listFiles") {
        ToolKind::Read
    } else if all("search") {
        ToolKind::Search
    } else {
        ToolKind::Execute
    }
}

fn title_of_command(line: &str, actions: &[CommandAction]) -> String {
    match actions {
        [CommandAction { kind, path: Some(path), .. }] if kind == "read" => with("Read", file_name(path)),
        // The line itself is wrapped in a shell.
        [action] if !action.command.is_empty() => with("Run", &one_line(&action.command)),
        _ => with("Run", &one_line(line)),
    }
}

fn file_change(item: &Item) -> Tool {
    let changes = &item.changes;
    let all = |kind: &str| !changes.is_empty() && changes.iter().all(|change| change.kind.kind == kind);
    let (kind, verb) = if all("delete") {
        (ToolKind::Delete, "Delete")
    } else if all("add") {
        (ToolKind::Edit, "Write")
    } else {
        (ToolKind::Edit, "Edit")
    };
    let title = match &changes[..] {
        [change] => with(verb, file_name(&change.path)),
        changes => format!("{verb} {} files", changes.len()),
    };
    let list = |change: &FileChange| {
        let kind = &change.kind;
        json!({"path": change.path, "kind": kind.kind, "movePath": kind.move_path, "diff": change.diff})
    };
    let input = json!({"changes": changes.iter().map(list).collect::<Vec<_>>()});
    let diffs: Vec<Value> = changes.iter().flat_map(diffs).collect();
    let paths = changes.iter().map(|change| json!({"path": change.path})).collect();
    Tool {
        content: Some(diffs).filter(|diffs| !diffs.is_empty()),
        locations: Some(paths),
        ..titled("fileChange", kind, title, input)
    }
}

/// The change of a file as ACP diffs, one for each hunk. Codex does not tell the rest of the file.
fn diffs(change: &FileChange) -> Vec<Value> {
    let FileChange { path, kind, diff } = change;
    let of = |old: Option<String>, new: String| match old {
        Some(old) => json!({"type": "diff", "path": path, "oldText": old, "newText": new}),
        None => json!({"type": "diff", "path": path, "newText": new}),
    };
    match kind.kind.as_str() {
        "add" => vec![of(None, diff.clone())],
        "delete" => vec![of(Some(diff.clone()), String::new())],
        _ => {
            let mut hunks: Vec<(String, String)> = Vec::new();
            for line in diff.split_inclusive('\n') {
                if line.starts_with("@@") {
                    hunks.push((String::new(), String::new()));
                    continue;
                }
                let (Some((old, new)), Some(mark)) = (hunks.last_mut(), line.chars().next()) else {
                    continue;
                };
                let text = &line[mark.len_utf8()..];
                match mark {
                    '-' => old.push_str(text),
                    '+' => new.push_str(text),
                    ' ' => {
                        old.push_str(text);
                        new.push_str(text);
                    }
                    // `\ No newline at end of file`, and what stands between hunks.
                    _ => {}
                }
            }
            hunks.into_iter().map(|(old, new)| of(Some(old), new)).collect()
        }
    }
}

/// A search, or a page of its results.
fn web_search(item: &Item) -> Tool {
    let query = one_line(word(&item.query));
    let kind = item.action.as_ref().and_then(|action| action["type"].as_str());
    let (kind, verb) = match kind {
        Some("openPage") => (ToolKind::Fetch, "Open"),
        Some("findInPage") => (ToolKind::Search, "Find"),
        Some(_) | None => (ToolKind::Search, "Search the web for"),
    };
    let input = json!({"query": item.query, "action": item.action});
    let output = item.results.as_ref().map(|results| json!({"metadata": {"results": results}}));
    Tool { output, ..titled("webSearch", kind, with(verb, &query), input) }
}

fn collaboration(item: &Item) -> Tool {
    let name = word(&item.tool);
    let title = match (name, &item.prompt) {
        ("spawnAgent", Some(prompt)) => with("Run subagent:", &one_line(prompt)),
        (name, _) => format!("Subagents: {name}"),
    };
    let input = json!({"prompt": item.prompt, "receiverThreadIds": item.receiver_thread_ids});
    titled(name, ToolKind::Other, title, input)
}

/// A call of a tool with a name, arguments and a result.
fn called(name: String, item: &Item, result: Option<&Value>) -> Tool {
    let arguments = item.arguments.clone().unwrap_or_default();
    let mut tool = titled(&name, ToolKind::Other, name.clone(), arguments);
    let result = result.filter(|result| !result.is_null());
    let error = item.error.as_ref().filter(|error| !error.is_null());
    if result.is_some() || error.is_some() {
        let texts: Vec<&str> = result.into_iter().flat_map(texts).collect();
        let text = texts.join("\n");
        tool.content = (!text.is_empty()).then(|| shown(&text));
        tool.output = Some(json!({"output": text, "metadata": {"result": result, "error": error}}));
    }
    tool
}

/// The texts in the content blocks of a result.
fn texts(result: &Value) -> Vec<&str> {
    let blocks = result.get("content").unwrap_or(result).as_array().into_iter().flatten();
    blocks.filter_map(|block| block.get("text")?.as_str()).collect()
}

fn shown(text: &str) -> Vec<Value> {
    vec![json!({"type": "content", "content": {"type": "text", "text": text}})]
}

fn titled(name: &str, kind: ToolKind, title: String, input: Value) -> Tool {
    let (name, kind, title, input) = (Some(name.to_owned()), Some(kind), Some(title), Some(input));
    Tool { name, kind, title, input, ..Tool::default() }
}

fn with(verb: &str, subject: &str) -> String {
    if subject.is_empty() { verb.trim_end_matches(':').to_owned() } else { format!("{verb} {subject}") }
}

fn word(word: &Option<String>) -> &str {
    word.as_deref().unwrap_or_default()
}
