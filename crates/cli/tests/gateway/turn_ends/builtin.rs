//! The built-in agent in the matrix: its tools, and its journals.

use super::exit::{Permissions, Tool};
use super::stage::AGENT;
use super::subject::{SessionPlace, Settled, Subject, Text};
use crate::support::read;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use turnstream_fake_provider::{Part, Provider, Step};

/// The subject.
pub(super) struct Builtin;

const IN_GATEWAY: &str = "it runs inside of the gateway";

impl Subject for Builtin {
    fn column(&self) -> &'static str {
        "built-in"
    }

    fn cannot(&self, exit: &str) -> Option<&'static str> {
        match exit {
            "question" => Some("it asks no questions"),
            "cancel before start" | "agent killed" => Some(IN_GATEWAY),
            "background wake-up" => Some("what a command leaves in the background ends with it"),
            "half an emoji in a tool's result" => Some("it cuts texts between characters"),
            _ => None,
        }
    }

    fn call(&self, tool: Tool, _cwd: &Path) -> Part {
        match tool {
            Tool::Read(file) => Part::tool_call("read", json!({"path": file})),
            Tool::Edit { file, from, to } => {
                Part::tool_call("edit", json!({"path": file, "old_text": from, "new_text": to}))
            }
            // It has no tool for a question; that exit is not played.
            Tool::Shell(command) | Tool::Background(command) | Tool::Question { text: command, .. } => {
                Part::tool_call("bash", json!({"command": command}))
            }
        }
    }

    fn side_steps(&self) -> Vec<Step> {
        Vec::new()
    }

    fn settle(&self, provider: &Provider) -> Box<dyn Settled> {
        Box::new(Route(provider.openai_base_url()))
    }
}

/// The address of the provider.
struct Route(String);

impl Settled for Route {
    fn table(&self) -> String {
        let route =
            format!("[llm.routes.main]\nurl = {:?}\nformat = \"chat\"\nmodel = \"scripted\"\n", self.0);
        format!("{route}[agents.{AGENT}]\nkind = \"builtin\"\n")
    }

    /// It has none: exits that need one are not played.
    fn program(&self) -> PathBuf {
        PathBuf::new()
    }

    fn home(&self) -> PathBuf {
        PathBuf::new()
    }

    /// It asks by the rule of the session.
    fn prepare(&self, _cwd: &Path, _permissions: Permissions) {}

    fn stored(&self, of: &SessionPlace<'_>) -> Vec<Text> {
        let journal = of.gateway.path("data/agents").join(AGENT).join(format!("{}.jsonl", of.native_id));
        let journal = read(&journal);
        let lines = journal.lines().map(|line| turnstream_json::from_str::<Value>(line).unwrap());
        lines.flat_map(|line| texts(&line)).collect()
    }
}

/// The texts in a line of a journal.
fn texts(line: &Value) -> Vec<Text> {
    let text = |text: &Value| text["text"].as_str().map(str::to_owned);
    let items = line["step"]["step"]["items"].as_array().into_iter().flatten();
    let said = items.flat_map(|item| {
        let message = text(&item["content"]["message"]).map(Text::Message);
        message.or_else(|| text(&item["content"]["reasoning"]).map(Text::Reasoning))
    });
    said.chain(text(&line["tool_done"]["result"]).map(Text::Result)).collect()
}
