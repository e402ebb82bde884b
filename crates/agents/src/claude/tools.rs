//! Describes tool calls of Claude Code in ACP's terms: title, kind, content and locations.

use super::wire::Block;
use serde_json::{Map, Value, json};
use turnstream_adapter::{file_name, one_line};
use turnstream_model::event::{Tool, ToolKind, ToolStatus};

/// A tool call.
#[derive(Clone, Debug, Default)]
pub(super) struct Call {
    pub(super) name: String,
    /// The arguments, once they are complete.
    pub(super) input: Option<Value>,
}

/// How the calls of one tool are described.
struct Entry {
    name: &'static str,
    kind: ToolKind,
    verb: &'static str,
    /// The argument that holds the subject of the title.
    subject: &'static str,
    shows: Shows,
}

/// The content of a call besides its raw arguments and result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shows {
    /// None: clients use the raw result.
    Nothing,
    /// The output.
    Output,
    /// The changes as diffs.
    Diff,
}

const FILE: &str = "file_path";
const NOTEBOOK: &str = "notebook_path";
/// Longer texts of the structured result are left out: the output or the arguments have them too.
const METADATA_TEXT: usize = 1_000;

const TABLE: &[Entry] = &[
    entry("Bash", ToolKind::Execute, "Run", "command", Shows::Output),
    entry("Read", ToolKind::Read, "Read", FILE, Shows::Output),
    entry("Edit", ToolKind::Edit, "Edit", FILE, Shows::Diff),
    entry("MultiEdit", ToolKind::Edit, "Edit", FILE, Shows::Diff),
    entry("Write", ToolKind::Edit, "Write", FILE, Shows::Diff),
    entry("NotebookEdit", ToolKind::Edit, "Edit", NOTEBOOK, Shows::Diff),
    entry("Glob", ToolKind::Search, "Find files", "pattern", Shows::Nothing),
    entry("Grep", ToolKind::Search, "Search", "pattern", Shows::Nothing),
    entry("WebSearch", ToolKind::Search, "Search the web for", "query", Shows::Nothing),
    entry("WebFetch", ToolKind::Fetch, "Fetch", "url", Shows::Nothing),
    entry("Agent", ToolKind::Other, "Run subagent:", "description", Shows::Nothing),
    entry("Task", ToolKind::Other, "Run subagent:", "description", Shows::Nothing),
    entry("Skill", ToolKind::Other, "Use skill", "skill", Shows::Nothing),
    entry("TaskCreate", ToolKind::Think, "Add to the plan:", "subject", Shows::Nothing),
    entry("TaskUpdate", ToolKind::Think, "Update the plan", "", Shows::Nothing),
    entry("TaskList", ToolKind::Think, "Read the plan", "", Shows::Nothing),
    entry("AskUserQuestion", ToolKind::Other, "Ask", "", Shows::Nothing),
    entry(EXIT_PLAN_MODE, ToolKind::SwitchMode, "Leave plan mode", "", Shows::Nothing),
];

/// The tool that asks for the approval of a plan.
const EXIT_PLAN_MODE: &str = "ExitPlanMode";

const fn entry(
    name: &'static str,
    kind: ToolKind,
    verb: &'static str,
    subject: &'static str,
    shows: Shows,
) -> Entry {
    Entry { name, kind, verb, subject, shows }
}

impl Call {
    pub(super) fn new(name: &str, input: Option<Value>) -> Self {
        // Empty while the model writes them.
        let is_written = |input: &Value| !input.is_null() && *input != json!({});
        Self { name: name.to_owned(), input: input.filter(is_written) }
    }

    /// The call in the form of the log, before its result.
    pub(super) fn describe(&self, status: ToolStatus) -> Tool {
        let entry = TABLE.iter().find(|entry| entry.name == self.name);
        let content = match entry.map_or(Shows::Nothing, |entry| entry.shows) {
            Shows::Diff => self.diffs(None),
            // A plan waits for its approval, so it is shown before there is a result.
            Shows::Nothing if self.name == EXIT_PLAN_MODE => {
                self.argument("plan").map(|plan| vec![text_content(plan)])
            }
            Shows::Nothing | Shows::Output => None,
        };
        Tool {
            name: Some(self.name.clone()),
            kind: Some(entry.map_or(ToolKind::Other, |entry| entry.kind)),
            title: Some(self.title(entry)),
            status: Some(status),
            input: self.input.clone(),
            output: None,
            content,
            locations: self.locations(None),
            extra: Map::new(),
        }
    }

    /// What the result adds to the call. `details` is the structured result.
    pub(super) fn result(&self, block: &Block, details: Option<&Value>) -> Tool {
        let shows = TABLE.iter().find(|entry| entry.name == self.name).map(|entry| entry.shows);
        let failed = block.is_error == Some(true);
        let text = text_of(block.content.as_ref());
        let mut output = Map::from_iter([("output".to_owned(), Value::from(text.as_str()))]);
        if let Some(details) = details.and_then(metadata) {
            output.insert("metadata".to_owned(), details);
        }
        let content = match shows {
            Some(Shows::Output) => shown(block.content.as_ref(), &text),
            // Only the result of a Write has the old text.
            Some(Shows::Diff) if !failed => self.diffs(details),
            Some(Shows::Diff | Shows::Nothing) | None => None,
        };
        Tool {
            status: Some(if failed { ToolStatus::Failed } else { ToolStatus::Completed }),
            output: Some(Value::Object(output)),
            content,
            locations: self.locations(details),
            ..Tool::default()
        }
    }

    fn title(&self, entry: Option<&Entry>) -> String {
        let Some(Entry { verb, subject, .. }) = entry else { return self.name.clone() };
        match self.argument(subject).filter(|subject| !subject.trim().is_empty()) {
            Some(path) if *subject == FILE || *subject == NOTEBOOK => format!("{verb} {}", file_name(path)),
            Some(subject) => format!("{verb} {}", one_line(subject)),
            None => verb.trim_end_matches(':').to_owned(),
        }
    }

    fn diffs(&self, details: Option<&Value>) -> Option<Vec<Value>> {
        let path = self.path()?;
        let diff = |old: Option<&Value>, new: Option<&Value>| {
            let mut diff = json!({"type": "diff", "path": path, "newText": new?.as_str()?});
            if let (Some(members), Some(old)) = (diff.as_object_mut(), old.filter(|old| old.is_string())) {
                members.insert("oldText".to_owned(), old.clone());
            }
            Some(diff)
        };
        let input = self.input.as_ref()?;
        let replaced = |edit: &Value| diff(edit.get("old_string"), edit.get("new_string"));
        let diffs: Vec<Value> = match input.get("edits").and_then(Value::as_array) {
            Some(edits) => edits.iter().filter_map(replaced).collect(),
            None if input.get("new_string").is_some() => replaced(input).into_iter().collect(),
            None => {
                let written = input.get("content").or_else(|| input.get("new_source"));
                diff(details.and_then(|details| details.get("originalFile")), written).into_iter().collect()
            }
        };
        (!diffs.is_empty()).then_some(diffs)
    }

    fn locations(&self, details: Option<&Value>) -> Option<Vec<Value>> {
        let path = self.path()?;
        let line = details.and_then(|details| {
            let read = details.get("file").and_then(|file| file.get("startLine"));
            let patched = details.get("structuredPatch").and_then(|patch| patch.get(0)?.get("newStart"));
            read.or(patched)?.as_u64()
        });
        Some(vec![match line {
            Some(line) => json!({"path": path, "line": line}),
            None => json!({ "path": path }),
        }])
    }

    fn path(&self) -> Option<&str> {
        let path = self.argument(FILE).or_else(|| self.argument(NOTEBOOK));
        path.filter(|path| !path.is_empty())
    }

    fn argument(&self, name: &str) -> Option<&str> {
        self.input.as_ref()?.get(name)?.as_str()
    }
}

/// The text of a result: a string, or the texts of its blocks.
fn text_of(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            let texts = blocks.iter().filter_map(|block| block.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        Some(_) | None => String::new(),
    }
}

/// A result as ACP's contents: its text and its images.
fn shown(content: Option<&Value>, text: &str) -> Option<Vec<Value>> {
    let blocks = content.and_then(Value::as_array).into_iter().flatten();
    let image = |block: &Value| {
        let source = block.get("source")?;
        let (data, mime) = (source.get("data")?.as_str()?, source.get("media_type")?.as_str()?);
        Some(json!({"type": "content", "content": {"type": "image", "data": data, "mimeType": mime}}))
    };
    let mut shown: Vec<Value> = blocks.filter_map(image).collect();
    if !text.is_empty() {
        shown.insert(0, text_content(text));
    }
    (!shown.is_empty()).then_some(shown)
}

fn text_content(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": text}})
}

/// The structured result without its long texts; `None` if it is only a text.
fn metadata(details: &Value) -> Option<Value> {
    let is_short = |value: &Value| value.as_str().is_none_or(|text| text.len() <= METADATA_TEXT);
    let mut kept = details.as_object()?.clone();
    for value in kept.values_mut() {
        if let Some(inner) = value.as_object_mut() {
            inner.retain(|_, value| is_short(value));
        }
    }
    kept.retain(|_, value| is_short(value));
    Some(Value::Object(kept))
}
