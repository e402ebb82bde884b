//! Tool calls. Agents run them, so they are `providerExecuted`, and the page is not asked to.

use super::chunks::{OURS, put};
use super::entries::{self, Form};
use super::profile::Profile;
use crate::dialect::FrameSink;
use serde_json::{Map, Value, json};
use turnstream_model::event::{ApprovalOutcome, Tool};
use turnstream_model::fold::{Approval, Item, ItemStage, State};

/// The fewest bytes of output that are shown before the call has ended.
const FEWEST: usize = 256;

/// Whose answer a call waits for. Older clients send an approval only for a call that is not
/// `providerExecuted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Executed {
    ByAgent,
    AfterApproval,
}

/// The call of an item as a client names it.
pub(super) fn name(tool: Option<&Tool>) -> String {
    let named = tool.and_then(|tool| tool.name.clone().or_else(|| Some(tool.kind?.as_str().to_owned())));
    named.unwrap_or_else(|| "tool".to_owned())
}

/// The announcement.
pub(super) fn start(out: &mut impl FrameSink, item: &Item, profile: Profile) {
    let mut chunk = json!({
        "type": "tool-input-start",
        "toolCallId": item.id,
        "toolName": name(item.tool.as_deref()),
        "dynamic": true,
        "providerExecuted": true,
    });
    add_title(&mut chunk, item.tool.as_deref(), profile);
    put(out, &chunk);
}

pub(super) fn input_delta(out: &mut impl FrameSink, id: &str, text: &str) {
    put(out, &json!({"type": "tool-input-delta", "toolCallId": id, "inputTextDelta": text}));
}

/// The arguments, as far as they are known.
pub(super) fn input_available(
    out: &mut impl FrameSink,
    item: &Item,
    asked: Option<&Tool>,
    executed: Executed,
    profile: Profile,
) {
    let tool = item.tool.as_deref();
    let written = || item.input.as_ref().and_then(|text| serde_json::from_str(text).ok());
    let known = tool.and_then(|tool| tool.input.clone());
    let input = known.or_else(|| asked.and_then(|tool| tool.input.clone())).or_else(written);
    let mut chunk = json!({
        "type": "tool-input-available",
        "toolCallId": item.id,
        "toolName": name(tool.or(asked)),
        "input": input.unwrap_or_else(|| json!({})),
        "dynamic": true,
        "providerExecuted": executed == Executed::ByAgent,
    });
    add_title(&mut chunk, tool.or(asked), profile);
    let ours = about(item);
    if !ours.is_empty() {
        chunk["providerMetadata"] = json!({OURS: ours});
    }
    put(out, &chunk);
}

fn add_title(chunk: &mut Value, tool: Option<&Tool>, profile: Profile) {
    if let Some(title) = tool.and_then(|tool| tool.title.as_ref()).filter(|_| profile.has_titles()) {
        chunk["title"] = json!(title);
    }
}

/// What a page may want to know of a call: what it does, for which subagent, to which files.
fn about(item: &Item) -> Map<String, Value> {
    let mut ours = Map::new();
    if let Some(parent) = &item.parent {
        ours.insert("parent".to_owned(), json!(parent));
    }
    let Some(tool) = item.tool.as_deref() else { return ours };
    if let Some(kind) = tool.kind {
        ours.insert("kind".to_owned(), json!(kind.as_str()));
    }
    if let Some(locations) = tool.locations.as_ref().filter(|list| !list.is_empty()) {
        ours.insert("locations".to_owned(), json!(locations));
    }
    let diffs = tool.content.iter().flatten().filter(|content| content["type"] == "diff");
    let diffs: Vec<&Value> = diffs.collect();
    if !diffs.is_empty() {
        ours.insert("diffs".to_owned(), json!(diffs));
    }
    ours
}

/// Whether the output so far is shown after it grew by so much: whenever it has doubled, so that what is
/// repeated stays in proportion.
pub(super) fn is_shown_now(output: &str, grown_by: usize) -> bool {
    let (before, now) = (output.len().saturating_sub(grown_by), output.len());
    now >= FEWEST && before.max(FEWEST - 1).ilog2() < now.ilog2()
}

/// The output so far.
pub(super) fn preliminary(out: &mut impl FrameSink, item: &Item) {
    let Some(output) = item.output.as_ref().filter(|output| output.len() >= FEWEST) else { return };
    put(
        out,
        &json!({
            "type": "tool-output-available",
            "toolCallId": item.id,
            "output": output,
            "preliminary": true,
            "dynamic": true,
            "providerExecuted": true,
        }),
    );
}

/// The result of a call that has ended.
pub(super) fn output(out: &mut impl FrameSink, state: &State, item: &Item, profile: Profile) {
    let id = item.id.as_str();
    let rejected = |asked: &Approval| asked.outcome == Some(ApprovalOutcome::Reject);
    let of_item = |asked: &&Approval| asked.item.as_ref() == Some(&item.id);
    let is_denied = state.approvals.iter().rev().find(of_item).is_some_and(rejected);
    let failed = |text: String| failed_chunk(id, &text);
    let chunk = match item.state {
        ItemStage::Failed | ItemStage::Abandoned | ItemStage::Unknown
            if is_denied && profile.has_approvals() =>
        {
            json!({"type": "tool-output-denied", "toolCallId": id})
        }
        ItemStage::Completed => output_chunk(id, result(item)),
        ItemStage::Failed => failed(text_of(item).unwrap_or_else(|| "the call failed".to_owned())),
        ItemStage::Abandoned => {
            failed(item.reason.clone().unwrap_or_else(|| "the call was cut off".to_owned()))
        }
        ItemStage::Unknown => failed("it is not known whether this call took effect".to_owned()),
        ItemStage::Streaming => return,
    };
    put(out, &chunk);
}

/// The result of a call that is not an item.
pub(super) fn output_chunk(id: &str, output: Value) -> Value {
    json!({
        "type": "tool-output-available",
        "toolCallId": id,
        "output": output,
        "dynamic": true,
        "providerExecuted": true,
    })
}

pub(super) fn failed_chunk(id: &str, text: &str) -> Value {
    json!({
        "type": "tool-output-error",
        "toolCallId": id,
        "errorText": text,
        "dynamic": true,
        "providerExecuted": true,
    })
}

/// What a call gave: its raw result, else what it printed, else what it shows.
fn result(item: &Item) -> Value {
    let tool = item.tool.as_deref();
    let raw = tool.and_then(|tool| tool.output.clone());
    let printed = || item.output.as_ref().map(|text| json!(text));
    let shown = || tool.and_then(|tool| tool.content.as_ref()).map(|content| json!(content));
    raw.or_else(printed).or_else(shown).unwrap_or(Value::Null)
}

/// What a failed call says, in words.
fn text_of(item: &Item) -> Option<String> {
    let said = match result(item) {
        Value::String(text) => Some(text),
        Value::Object(object) => object.get("output").and_then(Value::as_str).map(str::to_owned),
        Value::Array(contents) => {
            let texts = contents.iter().filter_map(|content| content["content"]["text"].as_str());
            Some(texts.collect::<Vec<_>>().join("\n"))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    };
    said.filter(|text| !text.is_empty()).or_else(|| item.reason.clone())
}

/// The newest approval for a call.
pub(super) fn approval_of<'a>(state: &'a State, item: &Item, profile: Profile) -> Option<&'a Approval> {
    let is_its = |asked: &&Approval| asked.item.as_ref() == Some(&item.id);
    let asked = state.approvals.iter().rev().find(is_its)?;
    (entries::form(item) == Form::Call && entries::is_at_call(state, asked, profile)).then_some(asked)
}
