//! The demo turn, for a newcomer who has configured nothing and typed a prompt.

use super::script::{DemoScript, DemoScriptError};
use serde_json::json;

/// The file it offers to write.
pub(super) const FILE: &str = "turnstream-demo.txt";
/// How many characters of the prompt it repeats.
const SHOWN: usize = 200;

/// The script of the demo for a prompt.
pub(super) fn script(prompt: &str) -> Result<DemoScript, DemoScriptError> {
    let said = shortened(prompt.trim());
    DemoScript::read(
        vec![
            json!({"do": "attempt"}),
            json!({"do": "reasoning", "text":
                "The person would like to see what a turn looks like. I cannot think, so I play my part: \
                 answer, ask before I touch a file, and finish."}),
            json!({"do": "text", "text": format!(
                "Hello! I am the scripted agent of Turnstream: nothing behind me thinks, I only play a script. \
                 You said: “{said}”. \
                 Everything you see, this text word by word, the thinking before it and the tool below, goes \
                 through the same durable log as the turn of a real agent. Close this window and come back: \
                 nothing will be missing.\n\n\
                 I would like to write a small file, {FILE}, into the session's directory. May I?")}),
            json!({"do": "attempt_end", "finish": "tool_calls", "usage": {"input": 64, "output": 96}}),
            json!({"do": "tool", "ask": true, "title": format!("Write {FILE}"),
                "effect": {"write": {"path": FILE, "text": format!(
                    "Written by Turnstream's scripted agent, after somebody allowed it.\nThe prompt was: {said}\n")}}}),
            json!({"do": "tool", "when": "allowed", "title": format!("Read {FILE}"),
                "effect": {"read": {"path": FILE}}}),
            json!({"do": "attempt"}),
            json!({"do": "text", "when": "allowed", "text": format!(
                "Thank you. {FILE} is there now, and I have read it back. For a real agent, make a session with \
                 another name from the list of agents.")}),
            json!({"do": "text", "when": "rejected", "text":
                "That is fine, I have not written anything. For a real agent, make a session with another name \
                 from the list of agents."}),
            json!({"do": "attempt_end", "finish": "stop", "usage": {"input": 180, "output": 34}}),
            json!({"do": "usage", "usage": {"input": 244, "output": 130, "reasoning": 30},
                "context": {"used": 374, "size": 8192}}),
            json!({"do": "end", "stop_reason": "end_turn"}),
        ],
        None,
    )
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
