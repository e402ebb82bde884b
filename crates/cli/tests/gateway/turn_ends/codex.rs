//! Codex in the matrix: its tools, and the files of its threads.

use super::exit::{Permissions, Tool};
use super::subject::{SessionPlace, Settled, Subject, Text};
use crate::support::read;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use turnstream_fake_provider::{Part, Provider, Step};
use turnstream_testkit::agents::CodexHome;

/// The subject.
pub(super) struct Codex;

impl Subject for Codex {
    fn column(&self) -> &'static str {
        "Codex 0.166.0"
    }

    fn cannot(&self, exit: &str) -> Option<&'static str> {
        match exit {
            "question" => Some("it asks questions only in its mode `plan`, which has a test of its own"),
            "background wake-up" => Some("a command that ends after its turn does not wake it"),
            "half an emoji in a tool's result" => Some("it cuts texts between characters"),
            _ => None,
        }
    }

    fn call(&self, tool: Tool, _cwd: &Path) -> Part {
        match tool {
            Tool::Read(file) => shell(&format!("cat {file}")),
            Tool::Edit { file, from, to } => shell(&format!(
                "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: {file}\n@@\n-{from}\n+{to}\n*** End Patch\nEOF\n"
            )),
            Tool::Shell(command) | Tool::Background(command) => shell(command),
            Tool::Question { text, options } => {
                let options = options.map(|label| json!({"label": label, "description": label}));
                let question =
                    json!({"id": "drink", "header": "Drink", "question": text, "options": options});
                Part::tool_call("request_user_input", json!({"questions": [question]}))
            }
        }
    }

    fn side_steps(&self) -> Vec<Step> {
        Vec::new()
    }

    /// The events of its wire format are long.
    fn bytes_before_stall(&self) -> usize {
        3_000
    }

    fn settle(&self, provider: &Provider) -> Box<dyn Settled> {
        Box::new(AtHome(CodexHome::new(&provider.openai_base_url()).unwrap()))
    }
}

/// A command outside of the sandbox, which needs a permission.
fn shell(command: &str) -> Part {
    let arguments =
        json!({"cmd": command, "sandbox_permissions": "require_escalated", "justification": "As scripted"});
    Part::tool_call("exec_command", arguments)
}

struct AtHome(CodexHome);

impl Settled for AtHome {
    fn table(&self) -> String {
        super::stage::table("codex", &self.0.command().unwrap(), self.0.environment())
    }

    fn program(&self) -> PathBuf {
        self.0.program().unwrap().canonicalize().unwrap()
    }

    fn home(&self) -> PathBuf {
        self.0.home()
    }

    /// Codex asks because of its configuration.
    fn prepare(&self, _cwd: &Path, _permissions: Permissions) {}

    fn stored(&self, of: &SessionPlace<'_>) -> Vec<Text> {
        let mut folders = vec![self.0.codex_home().join("sessions")];
        let mut file = None;
        while let Some(folder) = folders.pop() {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            for path in entries.map(|entry| entry.path()) {
                if path.is_dir() {
                    folders.push(path);
                } else if path.display().to_string().contains(of.native_id) {
                    file = Some(path);
                }
            }
        }
        // It may not be written yet, or only in part.
        let thread = file.map(|path| read(&path)).unwrap_or_default();
        let lines = thread.lines().filter_map(|line| turnstream_json::from_str::<Value>(line).ok());
        lines.flat_map(|line| texts(&line["payload"])).collect()
    }
}

/// The texts in a line of a thread's file.
fn texts(payload: &Value) -> Vec<Text> {
    let text = |text: &Value| text.as_str().map(str::to_owned);
    let contents = payload["content"].as_array().into_iter().flatten();
    match payload["type"].as_str() {
        Some("message") if payload["role"] == "assistant" => {
            contents.filter_map(|content| text(&content["text"])).map(Text::Message).collect()
        }
        Some("item_completed") if payload["item"]["type"] == "CommandExecution" => {
            text(&payload["item"]["aggregated_output"]).map(Text::Result).into_iter().collect()
        }
        _ => Vec::new(),
    }
}
