//! ACP agents in the matrix: their tools, and what they have stored.

use super::claude;
use super::exit::{Permissions, Tool};
use super::subject::{SessionPlace, Settled, Subject, Text};
use crate::support::read;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use turnstream_fake_provider::{Part, Provider, Step};
use turnstream_testkit::agents::{AcpAgent, AcpHome, Opencode};

/// An ACP agent.
pub(super) struct Acp(pub(super) AcpAgent);

impl Subject for Acp {
    fn column(&self) -> &'static str {
        self.0.title()
    }

    fn cannot(&self, exit: &str) -> Option<&'static str> {
        match (exit, self.0) {
            ("question", AcpAgent::Codex | AcpAgent::Opencode) => Some("it asks no questions over ACP"),
            ("retry then success", AcpAgent::Claude | AcpAgent::Opencode) => {
                Some("it does not show over ACP that it repeats a refused call")
            }
            ("half an emoji in a tool's result", AcpAgent::Claude) => {
                Some("it cuts the preview of a long output between characters")
            }
            ("half an emoji in a tool's result", AcpAgent::Codex) => Some("its results are whole"),
            ("background wake-up", AcpAgent::Codex | AcpAgent::Opencode) => {
                Some("it shows nothing after the response to a prompt")
            }
            _ => None,
        }
    }

    fn call(&self, tool: Tool, cwd: &Path) -> Part {
        match self.0 {
            AcpAgent::Claude => claude::call(tool, cwd),
            AcpAgent::Codex => codex_call(tool),
            AcpAgent::Opencode => super::opencode::call(tool, cwd),
        }
    }

    fn side_steps(&self) -> Vec<Step> {
        let title = |text| Step::text("A title").for_any_user_text(text).always();
        let mut steps: Vec<Step> = AcpAgent::TITLE_TEXTS.into_iter().map(title).collect();
        steps.push(Step::text("A title").for_model(Opencode::TITLE_MODEL).always());
        steps
    }

    /// The beginning of an answer in the Responses format is long.
    fn bytes_before_stall(&self) -> usize {
        match self.0 {
            AcpAgent::Codex => 3_500,
            AcpAgent::Claude | AcpAgent::Opencode => 1_500,
        }
    }

    fn settle(&self, provider: &Provider) -> Box<dyn Settled> {
        Box::new(AtHome(self.0, AcpHome::new(self.0, &provider.base_url()).unwrap()))
    }
}

/// Codex has a shell, and asks for what leaves its sandbox.
fn codex_call(tool: Tool) -> Part {
    let command = match tool {
        Tool::Read(file) => format!("cat {file}"),
        Tool::Edit { file, from, to } => format!("sed -i 's/{from}/{to}/' {file}"),
        Tool::Shell(command) | Tool::Background(command) => command.to_owned(),
        Tool::Question { text, .. } => format!("echo {text:?}"),
    };
    let arguments = json!({"cmd": command, "sandbox_permissions": "require_escalated",
        "justification": "As scripted", "yield_time_ms": 600_000});
    Part::tool_call("exec_command", arguments)
}

struct AtHome(AcpAgent, AcpHome);

impl Settled for AtHome {
    fn table(&self) -> String {
        table(super::stage::AGENT, &self.1)
    }

    /// The adapters are scripts of Node.js.
    fn program(&self) -> PathBuf {
        match self.0 {
            AcpAgent::Claude | AcpAgent::Codex => node(),
            AcpAgent::Opencode => self.1.command().unwrap().0.canonicalize().unwrap(),
        }
    }

    fn home(&self) -> PathBuf {
        self.1.home()
    }

    fn prepare(&self, cwd: &Path, permissions: Permissions) {
        if self.0 == AcpAgent::Opencode {
            super::opencode::prepare(cwd, permissions);
        }
    }

    fn stored(&self, of: &SessionPlace<'_>) -> Vec<Text> {
        match self.0 {
            AcpAgent::Claude => claude::stored(&self.1.home(), of.native_id),
            AcpAgent::Codex => stored_by_codex(&self.1.home(), of.native_id),
            AcpAgent::Opencode => stored_by_opencode(&self.1, of),
        }
    }
}

/// The table of an ACP agent in the configuration of a gateway.
pub(crate) fn table(name: &str, agent: &AcpHome) -> String {
    let (program, arguments) = agent.command().unwrap();
    let program = program.display().to_string();
    let command: Vec<&str> = std::iter::once(program.as_str()).chain(arguments.iter().copied()).collect();
    let env = agent.environment().into_iter();
    let env: Vec<String> =
        env.map(|(name, value)| format!("{} = {:?}", name.display(), value.into_string().unwrap())).collect();
    format!("[agents.{name}]\nkind = \"acp\"\ncommand = {command:?}\nenv = {{ {} }}\n", env.join(", "))
}

fn node() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).map(|folder| folder.join("node")).find(|path| path.exists());
    found.expect("node on PATH").canonicalize().unwrap()
}

/// The texts in the rollout of a thread.
fn stored_by_codex(home: &Path, native_id: &str) -> Vec<Text> {
    let mut folders = vec![home.join(".codex/sessions")];
    let mut texts = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.display().to_string().contains(native_id) {
                let lines = read(&path);
                let lines = lines.lines().filter_map(|line| turnstream_json::from_str::<Value>(line).ok());
                texts.extend(lines.flat_map(|line| codex_texts(&line["payload"])));
            }
        }
    }
    texts
}

fn codex_texts(payload: &Value) -> Vec<Text> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match payload["type"].as_str() {
        Some("message") if payload["role"] == "assistant" => {
            let blocks = payload["content"].as_array().into_iter().flatten();
            blocks.filter_map(|block| text(&block["text"])).map(Text::Message).collect()
        }
        // The model gets the output behind a line of its own.
        Some("function_call_output") => {
            let output = text(&payload["output"]).unwrap_or_default();
            let printed = output.split_once("Output:\n").map_or(output.as_str(), |(_, printed)| printed);
            vec![Text::Result(printed.to_owned())]
        }
        _ => Vec::new(),
    }
}

/// What `opencode export` prints of a session.
fn stored_by_opencode(agent: &AcpHome, of: &SessionPlace<'_>) -> Vec<Text> {
    let (program, _) = agent.command().unwrap();
    let mut command = std::process::Command::new(program);
    command.args(["export", of.native_id]).current_dir(of.cwd).env_clear().envs(agent.environment());
    let printed = command.output().unwrap();
    let session: Value = turnstream_json::from_slice(&printed.stdout).unwrap_or_default();
    super::opencode::texts(&session["messages"])
}
