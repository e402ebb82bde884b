//! What several dialects ask about an item: whose message it is, and what a tool call returned.

use serde_json::Value;
use turnstream_model::event::{ItemKind, Role, Tool};
use turnstream_model::fold::{Item, Prompt, State};

/// Whether an item is a message of the user.
pub(crate) fn is_users(item: &Item) -> bool {
    item.kind == ItemKind::Message && item.role == Some(Role::User)
}

/// Whether a message of the user only repeats a prompt of its turn.
pub(crate) fn is_echo(item: &Item, state: &State) -> bool {
    echoed(item, state).is_some()
}

/// The prompt of its turn that a message of the user repeats. Agents may change the white space.
pub(crate) fn echoed<'a>(item: &Item, state: &'a State) -> Option<&'a Prompt> {
    let turn = state.turns.iter().rev().find(|turn| item.turn.as_ref() == Some(&turn.turn))?;
    let said = item.text.as_deref().unwrap_or_default().trim();
    let has_said = |prompt: &Prompt| {
        let mut texts = prompt.content.iter().filter_map(|block| block.get("text")?.as_str());
        texts.any(|text| text.trim() == said)
    };
    let mut prompts =
        state.prompts.iter().chain(&state.queue).filter(|prompt| turn.prompts.contains(&prompt.prompt));
    prompts.find(|prompt| has_said(prompt))
}

/// The text that a call has returned.
pub(crate) fn output_of(tool: &Tool, streamed: Option<&str>) -> String {
    match &tool.output {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Object(members)) => {
            let text = ["output", "stdout", "text", "aggregated_output"]
                .iter()
                .find_map(|name| members.get(*name)?.as_str());
            // A command of Codex that printed nothing has figures only.
            let has_more = members.keys().any(|name| name != "metadata");
            let rest = || if has_more { Value::Object(members.clone()).to_string() } else { String::new() };
            text.or(streamed).map_or_else(rest, str::to_owned)
        }
        Some(Value::Null) | None => {
            streamed.map(str::to_owned).or_else(|| shown_text(tool)).unwrap_or_default()
        }
        Some(other) => other.to_string(),
    }
}

/// The text among what a call shows.
fn shown_text(tool: &Tool) -> Option<String> {
    let blocks = tool.content.as_ref()?.iter();
    let texts: Vec<&str> = blocks.filter_map(|block| block["content"]["text"].as_str()).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}
