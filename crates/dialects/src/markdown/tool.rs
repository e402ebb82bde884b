//! A tool call: its name, input and output.

use super::Page;
use super::text::{code, excerpt, inline};
use crate::text_diff;
use serde_json::{Map, Value};
use turnstream_model::event::{Tool, ToolKind};
use turnstream_model::fold::{Item, ItemStage};

/// Inputs with no more members than these, none of them long, are a list and not JSON.
const FEW: usize = 4;
const SHORT: usize = 120;

/// The call in one line.
pub(super) fn title(item: &Item) -> String {
    let tool = item.tool.as_deref();
    let name = tool.and_then(|tool| tool.name.as_deref());
    let title = tool.and_then(|tool| tool.title.as_deref()).or(name).unwrap_or("Tool");
    let name =
        name.filter(|name| *name != title).map_or_else(String::new, |name| format!(" · {}", code(name)));
    let state = match (item.state, item.incomplete) {
        (ItemStage::Completed, false) => "",
        (ItemStage::Failed, false) => " · failed",
        (ItemStage::Unknown, _) => " · it is not known whether it ran",
        (ItemStage::Completed | ItemStage::Failed | ItemStage::Abandoned | ItemStage::Streaming, _) => {
            " · cut off"
        }
    };
    format!("**{}**{name}{state}", inline(title))
}

/// What went in.
pub(super) fn input(item: &Item, page: &mut Page) {
    let Some(tool) = item.tool.as_deref() else { return };
    if diffs(tool).next().is_some() {
        return;
    }
    let Some(Value::Object(input)) = &tool.input else { return };
    if let (Some(ToolKind::Execute), Some(command)) =
        (tool.kind, input.get("command").and_then(Value::as_str))
    {
        page.block(&excerpt("sh", command));
    } else if let Some(list) = short_list(input) {
        page.block(&list);
    } else if !input.is_empty() {
        page.block(&excerpt("json", &pretty(&Value::Object(input.clone()))));
    }
}

/// The output of a call that completed.
pub(super) fn output(item: &Item, page: &mut Page) {
    let Some(tool) = item.tool.as_deref() else { return };
    let mut has_diff = false;
    for (path, old, new) in diffs(tool) {
        has_diff = true;
        let path = path.replace(['\n', '\r'], " ");
        let from = if old.is_some() { path.as_str() } else { "/dev/null" };
        let mut lines = vec![format!("--- {from}"), format!("+++ {path}")];
        lines.extend(text_diff::lines(old.unwrap_or_default(), new));
        page.block(&excerpt("diff", &lines.join("\n")));
    }
    let text = content_text(tool).or_else(|| item.output.clone()).or_else(|| raw(tool));
    // The diff of a successful edit says everything.
    let is_said = has_diff && item.state == ItemStage::Completed;
    let text = text.filter(|text| !is_said && !text.trim().is_empty());
    if let Some(text) = text {
        page.block(&excerpt("", &text));
    }
}

/// Diffs of its contents: path, old text, new text.
fn diffs(tool: &Tool) -> impl Iterator<Item = (&str, Option<&str>, &str)> {
    let contents = tool.content.iter().flatten();
    contents.filter(|content| content["type"] == "diff").filter_map(|content| {
        Some((content["path"].as_str()?, content["oldText"].as_str(), content["newText"].as_str()?))
    })
}

/// The texts of its contents.
fn content_text(tool: &Tool) -> Option<String> {
    let contents = tool.content.iter().flatten();
    let texts: Vec<&str> = contents.filter_map(|content| content["content"]["text"].as_str()).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn raw(tool: &Tool) -> Option<String> {
    let output = tool.output.as_ref()?;
    let text = output.as_str().or_else(|| output["output"].as_str()).or_else(|| output["error"].as_str());
    text.map(str::to_owned).or_else(|| (!output.is_null()).then(|| pretty(output)))
}

fn pretty(value: &Value) -> String {
    // A value is JSON already.
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// A few short values, one in a line.
fn short_list(input: &Map<String, Value>) -> Option<String> {
    let line = |(name, value): (&String, &Value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        let is_short = text.len() <= SHORT && !text.contains('\n') && !text.trim().is_empty();
        is_short.then(|| format!("- {}: {}", inline(name), code(&text)))
    };
    let lines: Option<Vec<String>> = input.iter().map(line).collect();
    lines.filter(|lines| (1..=FEW).contains(&lines.len())).map(|lines| lines.join("\n"))
}
