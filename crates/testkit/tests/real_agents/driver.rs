//! The three agents behind one interface.

use serde_json::{Value, json};
use std::path::PathBuf;
use turnstream_fake_provider::{Part, Provider, WireFormat};
use turnstream_testkit::agents::{Claude, Codex, Opencode, Process};

/// The model of title requests. Only opencode sends any.
pub(crate) const TITLES: &str = Opencode::TITLE_MODEL;

/// What the tests need of an agent.
pub(crate) trait Driver: Sized {
    /// The wire format of its provider.
    const FORMAT: WireFormat;

    async fn start(provider: &Provider) -> Self;
    /// A call of its shell tool.
    fn shell(command: &str) -> Part;
    /// Sends a prompt.
    async fn begin(&mut self, text: &str);
    /// Sends a prompt, waits for the end of the turn, and returns the answer from the agent's own output.
    async fn turn(&mut self, text: &str) -> String;
    fn work(&self) -> PathBuf;
    fn family(&self) -> Vec<Process>;
}

impl Driver for Claude {
    const FORMAT: WireFormat = WireFormat::Messages;

    async fn start(provider: &Provider) -> Self {
        Self::start(&provider.base_url()).await.unwrap()
    }

    fn shell(command: &str) -> Part {
        Part::tool_call("Bash", json!({"command": command, "description": "As scripted"}))
    }

    async fn begin(&mut self, text: &str) {
        self.prompt(text).await.unwrap();
    }

    async fn turn(&mut self, text: &str) -> String {
        self.begin(text).await;
        let lines = self.until_result().await.unwrap();
        let result = lines.last().unwrap();
        assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(false)), "{result}");
        result["result"].as_str().unwrap().to_owned()
    }

    fn work(&self) -> PathBuf {
        self.work()
    }

    fn family(&self) -> Vec<Process> {
        self.family()
    }
}

impl Driver for Codex {
    const FORMAT: WireFormat = WireFormat::Responses;

    async fn start(provider: &Provider) -> Self {
        Self::start(&provider.openai_base_url()).await.unwrap()
    }

    fn shell(command: &str) -> Part {
        Part::tool_call("exec_command", json!({"cmd": command}))
    }

    async fn begin(&mut self, text: &str) {
        self.start_turn(text).await.unwrap();
    }

    async fn turn(&mut self, text: &str) -> String {
        self.begin(text).await;
        let messages = self.until_completed().await.unwrap();
        let end = messages.last().unwrap();
        assert_eq!(end["params"]["turn"]["status"], "completed", "{end}");
        let completed = messages.iter().filter(|message| message["method"] == "item/completed");
        let mut items = completed.map(|message| &message["params"]["item"]);
        let answer = items.rfind(|item| item["type"] == "agentMessage").unwrap();
        answer["text"].as_str().unwrap().to_owned()
    }

    fn work(&self) -> PathBuf {
        self.work()
    }

    fn family(&self) -> Vec<Process> {
        self.family()
    }
}

impl Driver for Opencode {
    const FORMAT: WireFormat = WireFormat::Chat;

    async fn start(provider: &Provider) -> Self {
        Self::start(&provider.openai_base_url()).await.unwrap()
    }

    fn shell(command: &str) -> Part {
        Part::tool_call("bash", json!({"command": command, "description": "As scripted"}))
    }

    async fn begin(&mut self, text: &str) {
        let session = self.session().await.unwrap();
        self.prompt(&session, text).await.unwrap();
    }

    async fn turn(&mut self, text: &str) -> String {
        let session = self.session().await.unwrap();
        let mut events = self.events().await.unwrap();
        self.prompt(&session, text).await.unwrap();
        let events = events.until_idle(&session).await.unwrap();
        let errors: Vec<&Value> = events.iter().filter(|event| event["type"] == "session.error").collect();
        assert!(errors.is_empty(), "{errors:?}");
        let messages = self.messages(&session).await.unwrap();
        let last = messages.as_array().unwrap().last().unwrap();
        let parts = last["parts"].as_array().unwrap();
        // A retried step leaves an abandoned, empty part (capture j1-cut-midstream).
        let texts =
            parts.iter().filter(|part| part["type"] == "text").map(|part| part["text"].as_str().unwrap());
        texts.collect()
    }

    fn work(&self) -> PathBuf {
        self.work()
    }

    fn family(&self) -> Vec<Process> {
        self.family()
    }
}
