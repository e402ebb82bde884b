//! opencode in the matrix: its tools, and its messages by REST.

use super::exit::{Permissions, Tool};
use super::subject::{SessionPlace, Settled, Subject, Text};
use crate::support::read;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use turnstream_fake_provider::{Delivery, Part, Provider, Step};
use turnstream_testkit::agents::{Opencode as Installed, OpencodeHome};

/// The prompt of a subagent in the background, and the switch without which there are none.
const BACKGROUND_WORK: &str = "Work in the background.";
const BACKGROUND_SWITCH: &str = "OPENCODE_EXPERIMENTAL_BACKGROUND_SUBAGENTS";

/// The subject.
pub(super) struct Opencode;

impl Subject for Opencode {
    fn column(&self) -> &'static str {
        "opencode 1.18.33"
    }

    fn cannot(&self, _exit: &str) -> Option<&'static str> {
        None
    }

    fn call(&self, tool: Tool, cwd: &Path) -> Part {
        call(tool, cwd)
    }

    fn side_steps(&self) -> Vec<Step> {
        let slow = Delivery { before_headers_ms: 8_000, ..Delivery::default() };
        vec![
            Step::text("A title").for_model(Installed::TITLE_MODEL).always(),
            Step::text("Ready.").for_any_user_text(BACKGROUND_WORK).delivered(slow).always(),
        ]
    }

    fn settle(&self, provider: &Provider) -> Box<dyn Settled> {
        Box::new(AtHome(OpencodeHome::new(&provider.openai_base_url()).unwrap()))
    }
}

/// The call of a tool, in the words of opencode.
pub(super) fn call(tool: Tool, cwd: &Path) -> Part {
    match tool {
        Tool::Read(file) => Part::tool_call("read", json!({"filePath": cwd.join(file)})),
        Tool::Edit { file, from, to } => {
            Part::tool_call("edit", json!({"filePath": cwd.join(file), "oldString": from, "newString": to}))
        }
        // Its commands end with their turn, its subagents need not.
        Tool::Background(_) => {
            let arguments = json!({"description": "As scripted", "prompt": BACKGROUND_WORK,
                "subagent_type": "general", "background": true});
            Part::tool_call("task", arguments)
        }
        Tool::Shell(command) => {
            Part::tool_call("bash", json!({"command": command, "description": "As scripted"}))
        }
        Tool::Question { text, options } => {
            let options = options.map(|label| json!({"label": label, "description": label}));
            let question = json!({"question": text, "header": "Drink", "options": options});
            Part::tool_call("question", json!({"questions": [question]}))
        }
    }
}

struct AtHome(OpencodeHome);

impl Settled for AtHome {
    fn table(&self) -> String {
        let command = self.0.command().unwrap();
        let mut env = self.0.environment();
        env.push((BACKGROUND_SWITCH.into(), "true".into()));
        super::stage::table("opencode", &command, env)
    }

    fn program(&self) -> PathBuf {
        self.0.command().unwrap().canonicalize().unwrap()
    }

    fn home(&self) -> PathBuf {
        self.0.work().parent().unwrap().to_owned()
    }

    fn prepare(&self, cwd: &Path, permissions: Permissions) {
        prepare(cwd, permissions);
    }

    /// The messages of the session and of its subagents.
    fn stored(&self, of: &SessionPlace<'_>) -> Vec<Text> {
        let children = get(of, &format!("session/{}/children", of.native_id));
        let children = children.as_array().unwrap().iter().map(|child| child["id"].as_str().unwrap());
        let sessions = children.chain([of.native_id]);
        let messages = sessions.map(|session| get(of, &format!("session/{session}/message")));
        messages.flat_map(|messages| texts(&messages)).collect()
    }
}

/// opencode asks where a file in the directory says so, and not because of a setting of the session.
pub(super) fn prepare(cwd: &Path, permissions: Permissions) {
    match permissions {
        Permissions::Allow => {}
        Permissions::Ask => {
            let file = json!({"permission": {"bash": "ask"}}).to_string();
            std::fs::write(cwd.join("opencode.json"), file).unwrap();
        }
    }
}

/// Asks the server that the gateway has started.
fn get(of: &SessionPlace<'_>, path: &str) -> Value {
    let record = read(&of.gateway.path("data/agents/subject/opencode.json"));
    let record: Value = serde_json::from_str(&record).unwrap();
    let url = format!("http://127.0.0.1:{}/{path}?directory={}", record["port"], of.cwd.display());
    let answer = of.runtime.block_on(async {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.get(url).basic_auth("opencode", record["password"].as_str());
        request.send().await.unwrap().error_for_status().unwrap().text().await.unwrap()
    });
    turnstream_json::from_str(&answer).unwrap()
}

/// The texts of the answers among messages.
pub(super) fn texts(messages: &Value) -> Vec<Text> {
    let messages = messages.as_array().into_iter().flatten();
    let answers = messages.filter(|message| message["info"]["role"] == "assistant");
    answers.flat_map(|message| message["parts"].as_array().unwrap()).filter_map(text).collect()
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
