//! An agent that keeps each conversation in a file, so that a test can take it away. What it is told and
//! given is written down beside them.

use crate::puppet::{began, done, says};
use crate::support::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::mpsc::Receiver;
use turnstream_agents::{
    Agent, Command, ConnectError, Connecting, Description, Fate, Link, McpServer, Observed, Observer,
    RefusedMcp, Remembering, Start,
};
use turnstream_gateway::{Gateway, NewPrompt, Settings};
use turnstream_model::event::SessionPatch;
use turnstream_model::id::SessionId;
use turnstream_model::signal::Signal;

/// The agent, which is called `forgetful`. Its files are in `memory` of a home.
pub(crate) struct Forgetful {
    memory: PathBuf,
}

impl Forgetful {
    pub(crate) fn of(home: &Path) -> Self {
        Self { memory: home.join("memory") }
    }

    fn conversation(&self, native_id: &str) -> PathBuf {
        self.memory.join(format!("{native_id}.conversation"))
    }

    /// The agent loses all conversations.
    pub(crate) fn lose_all(&self) {
        for entry in std::fs::read_dir(&self.memory).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "conversation") {
                std::fs::remove_file(path).unwrap();
            }
        }
    }

    /// From here on it says that it remembers everything. Its links show that it does not.
    pub(crate) fn boast(&self) {
        std::fs::write(self.memory.join("boasts"), "").unwrap();
    }

    /// It never begins with the next prompt that it gets.
    pub(crate) fn hang_once(&self) {
        std::fs::write(self.memory.join("hangs"), "").unwrap();
    }

    /// Everything that it was told and given: its own id of the session, and the content of the prompt or the
    /// MCP servers.
    pub(crate) fn notes(&self, what: &str) -> Vec<(String, Value)> {
        let text = std::fs::read_to_string(self.memory.join(what)).unwrap_or_default();
        let note = |line: &str| {
            let note: Value = serde_json::from_str(line).unwrap();
            (note["session"].as_str().unwrap().to_owned(), note[what].clone())
        };
        text.lines().map(note).collect()
    }

    fn note(memory: &Path, session: &str, what: &str, value: Value) {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(memory.join(what)).unwrap();
        file.write_all(format!("{}\n", json!({"session": session, what: value})).as_bytes()).unwrap();
    }

    async fn play(
        memory: PathBuf,
        native_id: String,
        start: Start,
        mut commands: Receiver<Command>,
        observer: Observer,
    ) {
        let named = SessionPatch { native_id: Some(native_id.clone()), ..SessionPatch::default() };
        let _ = observer.signal(Signal::Session(named)).await;
        if let Some(left) = start.open_work {
            for native_id in left.prompts {
                // What it had not begun went with its process.
                let _ = observer.observed(Observed::Fate { native_id, fate: Fate::NeverSeen }).await;
            }
            let _ = observer.observed(Observed::CaughtUp).await;
        }
        while let Some(command) = commands.recv().await {
            let Command::Prompt { native_id: prompt, content } = command else { continue };
            Self::note(&memory, &native_id, "prompt", json!(content));
            if std::fs::remove_file(memory.join("hangs")).is_ok() {
                println!("HANGS");
                continue;
            }
            began(&observer, &prompt, &[&prompt]).await;
            says(&observer, &format!("m.{prompt}")).await;
            let _ = observer.signal(done(&prompt)).await;
        }
    }
}

impl Agent for Forgetful {
    fn takes_context(&self, content: &[Value]) -> bool {
        !content[0]["text"].as_str().is_some_and(|text| text.starts_with('/'))
    }

    fn describe(&self) -> Description {
        Description { scripted: true, ..Description::new("puppet", "forgets when its files are removed") }
    }

    fn check_mcp(&self, _servers: &[McpServer]) -> Result<(), RefusedMcp> {
        Ok(())
    }

    fn remembers<'a>(
        &'a self,
        _session: &'a SessionId,
        native_id: &'a str,
        _cwd: &'a Path,
    ) -> Remembering<'a> {
        let boasts = self.memory.join("boasts").exists();
        Box::pin(async move { boasts || self.conversation(native_id).exists() })
    }

    fn connect(&self, start: Start) -> Connecting<'_> {
        Box::pin(async move {
            let native_id = match start.native_id.clone() {
                Some(native_id) if self.conversation(&native_id).exists() => native_id,
                Some(native_id) => {
                    return Err(ConnectError::Forgotten { agent: "forgetful".to_owned(), native_id });
                }
                None => {
                    let made = std::fs::read_dir(&self.memory).unwrap().count();
                    let native_id = format!("conversation-{made}");
                    std::fs::write(self.conversation(&native_id), "").unwrap();
                    native_id
                }
            };
            let mcp: Vec<Value> = start.mcp.iter().map(McpServer::to_json).collect();
            Self::note(&self.memory, &native_id, "mcp", json!(mcp));
            let memory = self.memory.clone();
            Ok(Link::spawn(|commands, observer| Self::play(memory, native_id, start, commands, observer)))
        })
    }
}

/// A gateway in a directory that is laid out, with this agent.
pub(crate) async fn open_forgetful(home: &Path, settings: Settings) -> Gateway {
    let settings = Settings { roots: vec![home.join("work")], ..settings };
    let agent = Arc::new(Forgetful::of(home)) as Arc<dyn Agent>;
    let agents = BTreeMap::from([("forgetful".to_owned(), agent)]);
    Gateway::open(&home.join("data"), settings, agents).await.unwrap()
}

/// A prompt of these words.
pub(crate) fn words(text: &str) -> NewPrompt {
    NewPrompt::new(vec![json!({"type": "text", "text": text})])
}

/// Closes the gateway and opens another one, so that no link is up.
pub(crate) async fn restarted(home: &Home, gateway: Gateway) -> Gateway {
    home.close(gateway).await;
    open_forgetful(home.directory(), home.settings.clone()).await
}
