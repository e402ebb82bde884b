//! Claude Code in the matrix: its tools, and its transcript.

use super::exit::{Permissions, Tool};
use super::subject::{SessionPlace, Settled, Subject, Text};
use crate::support::read;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use turnstream_fake_provider::{Part, Provider, Step};
use turnstream_testkit::agents::{ClaudeHome, ClaudeVersion};

/// The subject, in one of its versions.
pub(super) struct Claude(pub(super) ClaudeVersion);

impl Subject for Claude {
    fn column(&self) -> &'static str {
        match self.0 {
            ClaudeVersion::V2_1_197 => "Claude Code 2.1.197",
            ClaudeVersion::V2_1_325 => "Claude Code 2.1.325",
        }
    }

    fn cannot(&self, exit: &str) -> Option<&'static str> {
        match self.0 {
            ClaudeVersion::V2_1_197 => None,
            ClaudeVersion::V2_1_325 => (exit == "half an emoji in a tool's result")
                .then_some("it cuts the preview of a long output between characters"),
        }
    }

    fn call(&self, tool: Tool, cwd: &Path) -> Part {
        call(tool, cwd)
    }

    fn side_steps(&self) -> Vec<Step> {
        Vec::new()
    }

    fn settle(&self, provider: &Provider) -> Box<dyn Settled> {
        Box::new(AtHome(ClaudeHome::new(self.0, &provider.base_url()).unwrap()))
    }
}

/// The call of a tool, in the words of Claude Code.
pub(super) fn call(tool: Tool, cwd: &Path) -> Part {
    match tool {
        Tool::Read(file) => Part::tool_call("Read", json!({"file_path": cwd.join(file)})),
        Tool::Edit { file, from, to } => {
            let file = cwd.join(file);
            Part::tool_call("Edit", json!({"file_path": file, "old_string": from, "new_string": to}))
        }
        Tool::Shell(command) => {
            Part::tool_call("Bash", json!({"command": command, "description": "As scripted"}))
        }
        Tool::Background(command) => Part::tool_call(
            "Bash",
            json!({"command": command, "description": "As scripted", "run_in_background": true}),
        ),
        Tool::Question { text, options } => {
            let options = options.map(|label| json!({"label": label, "description": label}));
            let question =
                json!({"question": text, "header": "Drink", "options": options, "multiSelect": false});
            Part::tool_call("AskUserQuestion", json!({"questions": [question]}))
        }
    }
}

struct AtHome(ClaudeHome);

impl Settled for AtHome {
    fn table(&self) -> String {
        super::stage::table("claude", &self.0.command().unwrap(), self.0.environment())
    }

    fn program(&self) -> PathBuf {
        self.0.command().unwrap().canonicalize().unwrap()
    }

    fn home(&self) -> PathBuf {
        self.0.home()
    }

    /// Claude Code asks because of a setting of the session.
    fn prepare(&self, _cwd: &Path, _permissions: Permissions) {}

    fn stored(&self, of: &SessionPlace<'_>) -> Vec<Text> {
        stored(&self.0.home(), of.native_id)
    }
}

/// The texts in the transcript of a session.
pub(super) fn stored(home: &Path, native_id: &str) -> Vec<Text> {
    let projects = std::fs::read_dir(home.join(".claude/projects")).into_iter().flatten().flatten();
    let file = format!("{native_id}.jsonl");
    let transcript = projects.map(|project| project.path().join(&file)).find(|path| path.exists());
    // It may not be written yet, or only in part.
    let transcript = transcript.map(|path| read(&path)).unwrap_or_default();
    let lines = transcript.lines().filter_map(|line| turnstream_json::from_str::<Value>(line).ok());
    lines.flat_map(|line| texts(&line)).collect()
}

/// The texts in a line of a transcript. Lines of other types repeat them, as they were sent to the model.
fn texts(line: &Value) -> Vec<Text> {
    let is_of_the_conversation = line["type"] == "assistant" || line["type"] == "user";
    let blocks = line["message"]["content"].as_array().filter(|_| is_of_the_conversation);
    let text = |block: &Value| {
        let text = |text: &Value| text.as_str().map(str::to_owned);
        match block["type"].as_str()? {
            "text" if line["type"] == "assistant" => text(&block["text"]).map(Text::Message),
            "thinking" => text(&block["thinking"]).map(Text::Reasoning),
            "tool_result" => Some(Text::Result(result(&block["content"]))),
            _ => None,
        }
    };
    blocks.into_iter().flatten().filter_map(text).collect()
}

/// The text of a result, which is a string or a list of blocks.
fn result(content: &Value) -> String {
    let blocks = content.as_array().into_iter().flatten();
    let texts: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
    content.as_str().map_or_else(|| texts.join("\n"), str::to_owned)
}
