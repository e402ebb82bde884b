//! The three agents behind one interface.

use super::fault::Marks;
use serde_json::Value;
use std::path::PathBuf;
use turnstream_fake_provider::{Arguments, Asked, Part, WireFormat};
use turnstream_testkit::agents::{AgentError, Claude, Codex, Opencode};

/// What the agent itself says about the end of a turn.
#[derive(Debug)]
pub(super) enum Said {
    Completed,
    /// With its words, for the output of the test.
    Failed(String),
}

/// An agent.
pub(super) trait Driver: Sized + Send + 'static {
    /// Its name and version on the page.
    const NAME: &'static str;
    const FORMAT: WireFormat;
    /// The model that it asks for.
    const MODEL: &'static str;
    /// The last piece of the arguments of its shell tool.
    const MARKS: Marks;

    /// Starts it with a provider at this base URL (without `/v1`).
    fn start(base_url: &str) -> impl Future<Output = Result<Self, AgentError>> + Send;
    /// A call of its shell tool with this command in two pieces.
    fn shell(pieces: [&str; 2]) -> Part;
    /// Sends a prompt, and waits for the end of the turn.
    fn turn(&mut self, text: &str) -> impl Future<Output = Result<Said, AgentError>> + Send;
    fn work(&self) -> PathBuf;

    /// What it asks for, as far as an answer depends on it.
    fn asked() -> Asked {
        Asked { model: Self::MODEL.to_owned(), stream: true, include_usage: true, ..Asked::default() }
    }
}

/// The text of the first answer.
pub(super) const TEXT: &str = "I run the command now, as you asked.";

const fn marks(last_arguments: &'static str) -> Marks {
    Marks { text: "I run the co", arguments: "echo one", next_arguments: "echo two", last_arguments }
}

fn call(name: &str, pieces: &[String]) -> Part {
    Part::ToolCall { name: name.to_owned(), arguments: Arguments::Given(pieces.to_vec()), id: None }
}

impl Driver for Opencode {
    const NAME: &'static str = "opencode 1.18.33";
    const FORMAT: WireFormat = WireFormat::Chat;
    const MODEL: &'static str = Opencode::MODEL;
    const MARKS: Marks = marks("As scripted");

    async fn start(base_url: &str) -> Result<Self, AgentError> {
        Self::start(&format!("{base_url}/v1")).await
    }

    fn shell([first, second]: [&str; 2]) -> Part {
        let description = "\",\"description\":\"As scripted\"}".to_owned();
        call("bash", &[format!("{{\"command\":\"{first}"), second.to_owned(), description])
    }

    async fn turn(&mut self, text: &str) -> Result<Said, AgentError> {
        let session = self.session().await?;
        let mut events = self.events().await?;
        self.prompt(&session, text).await?;
        let mut failed = None;
        loop {
            let event = events.next().await?;
            let of = &event["properties"];
            if of["sessionID"] != *session {
                continue;
            }
            match event["type"].as_str() {
                Some("session.error") => failed = Some(of["error"].to_string()),
                Some("session.idle") => break,
                Some(_) | None => {}
            }
        }
        // An error of the last message may have no event of its own.
        let messages = self.messages(&session).await?;
        let last = messages.as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default();
        let error = &last["info"]["error"];
        let failed = failed.or_else(|| (!error.is_null()).then(|| error.to_string()));
        Ok(failed.map_or(Said::Completed, Said::Failed))
    }

    fn work(&self) -> PathBuf {
        self.work()
    }
}

impl Driver for Claude {
    const NAME: &'static str = "Claude Code 2.1.197";
    const FORMAT: WireFormat = WireFormat::Messages;
    const MODEL: &'static str = "claude-sonnet-4-5-20250929";
    const MARKS: Marks = marks("As scripted");

    async fn start(base_url: &str) -> Result<Self, AgentError> {
        Self::start(base_url).await
    }

    fn shell([first, second]: [&str; 2]) -> Part {
        let description = "\",\"description\":\"As scripted\"}".to_owned();
        call("Bash", &[format!("{{\"command\":\"{first}"), second.to_owned(), description])
    }

    async fn turn(&mut self, text: &str) -> Result<Said, AgentError> {
        self.prompt(text).await?;
        let lines = self.until_result().await?;
        let result = lines.last().cloned().unwrap_or_default();
        let is_success = result["subtype"] == "success" && result["is_error"] == Value::Bool(false);
        Ok(if is_success { Said::Completed } else { Said::Failed(result.to_string()) })
    }

    fn work(&self) -> PathBuf {
        self.work()
    }
}

impl Driver for Codex {
    const NAME: &'static str = "Codex 0.166.0";
    const FORMAT: WireFormat = WireFormat::Responses;
    const MODEL: &'static str = "gpt-5.5";
    const MARKS: Marks = marks("two.txt");

    async fn start(base_url: &str) -> Result<Self, AgentError> {
        Self::start(&format!("{base_url}/v1")).await
    }

    fn shell([first, second]: [&str; 2]) -> Part {
        call("exec_command", &[format!("{{\"cmd\":\"{first}"), second.to_owned(), "\"}".to_owned()])
    }

    async fn turn(&mut self, text: &str) -> Result<Said, AgentError> {
        self.start_turn(text).await?;
        let messages = self.until_completed().await?;
        let turn = messages.last().map(|last| last["params"]["turn"].clone()).unwrap_or_default();
        Ok(if turn["status"] == "completed" { Said::Completed } else { Said::Failed(turn.to_string()) })
    }

    fn work(&self) -> PathBuf {
        self.work()
    }
}
