//! opencode in the matrix: its tools, and its messages by REST.

use super::exit::{Permissions, Tool};
use super::subject::{SessionPlace, Settled, Subject, Text};
use crate::support::read;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use turnstream_fake_provider::{Part, Provider, Step};
use turnstream_testkit::agents::{Opencode as Installed, OpencodeHome};

/// The subject.
pub(super) struct Opencode;

impl Subject for Opencode {
    fn column(&self) -> &'static str {
        "opencode 1.18.33"
    }

    fn cannot(&self, exit: &str) -> Option<&'static str> {
        (exit == "background wake-up").then_some(
            "its commands end with their turn; subagents in the background need \
             `OPENCODE_EXPERIMENTAL_BACKGROUND_SUBAGENTS`",
        )
    }

    fn call(&self, tool: Tool, cwd: &Path) -> Part {
        match tool {
            Tool::Read(file) => Part::tool_call("read", json!({"filePath": cwd.join(file)})),
            Tool::Edit { file, from, to } => Part::tool_call(
                "edit",
                json!({"filePath": cwd.join(file), "oldString": from, "newString": to}),
            ),
            Tool::Shell(command) | Tool::Background(command) => {
                Part::tool_call("bash", json!({"command": command, "description": "As scripted"}))
            }
            Tool::Question { text, options } => {
                let options = options.map(|label| json!({"label": label, "description": label}));
                let question = json!({"question": text, "header": "Drink", "options": options});
                Part::tool_call("question", json!({"questions": [question]}))
            }
        }
    }

    fn side_steps(&self) -> Vec<Step> {
        vec![Step::text("A title").for_model(Installed::TITLE_MODEL).always()]
    }

    fn settle(&self, provider: &Provider) -> Box<dyn Settled> {
        Box::new(AtHome(OpencodeHome::new(&provider.openai_base_url()).unwrap()))
    }
}

struct AtHome(OpencodeHome);

impl Settled for AtHome {
    fn table(&self) -> String {
        let command = self.0.command().unwrap();
        super::stage::table("opencode", &command, self.0.environment())
    }

    fn program(&self) -> PathBuf {
        self.0.command().unwrap().canonicalize().unwrap()
    }

    fn home(&self) -> PathBuf {
        self.0.work().parent().unwrap().to_owned()
    }

    /// opencode asks where a file in the directory says so, and not because of a setting of the session.
    fn prepare(&self, cwd: &Path, permissions: Permissions) {
        match permissions {
            Permissions::Allow => {}
            Permissions::Ask => {
                let file = json!({"permission": {"bash": "ask"}}).to_string();
                std::fs::write(cwd.join("opencode.json"), file).unwrap();
            }
        }
    }

    fn stored(&self, of: &SessionPlace<'_>) -> Vec<Text> {
        let note: Value =
            serde_json::from_str(&read(&of.gateway.path("data/agents/subject/opencode.json"))).unwrap();
        let (port, id) = (&note["port"], of.native_id);
        let url = format!("http://127.0.0.1:{port}/session/{id}/message?directory={}", of.cwd.display());
        let answer = of.runtime.block_on(async {
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            let request = client.get(url).basic_auth("opencode", note["password"].as_str());
            request.send().await.unwrap().error_for_status().unwrap().text().await.unwrap()
        });
        let messages: Value = turnstream_json::from_str(&answer).unwrap();
        let answers =
            messages.as_array().unwrap().iter().filter(|message| message["info"]["role"] == "assistant");
        answers.flat_map(|message| message["parts"].as_array().unwrap()).filter_map(text).collect()
    }
}

/// The text of a part that has one.
fn text(part: &Value) -> Option<Text> {
    let text = |text: &Value| text.as_str().map(str::to_owned);
    match part["type"].as_str()? {
        "text" => text(&part["text"]).map(Text::Message),
        "reasoning" => text(&part["text"]).map(Text::Reasoning),
        "tool" => text(&part["state"]["output"]).map(Text::Result),
        _ => None,
    }
}
