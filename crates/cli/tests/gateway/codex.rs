//! The real Codex behind the real binary: its turns, its permissions, and what happens when something dies.

mod kills;
mod opencode_api;
mod people;
mod servers;
mod tools;
mod unattended;

use crate::real_agent::{self, PATIENT, answers, create_session, items, of_type, outcomes, signal};
use crate::support::{Home, Serving};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use turnstream_fake_provider::{Completion, Part, Provider, Script, Step};
use turnstream_testkit::agents::CodexHome;

/// A home with a Codex in its configuration, and the provider that Codex asks.
struct Lab {
    home: Home,
    provider: Provider,
    codex: CodexHome,
    // Dropped last: the provider runs in it.
    _runtime: tokio::runtime::Runtime,
}

impl Lab {
    fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let provider = runtime.block_on(Provider::start(Script::new(steps))).unwrap();
        let codex = CodexHome::new(&provider.openai_base_url()).unwrap();
        let lab = Self { home: Home::new(), provider, codex, _runtime: runtime };
        lab.configure(&lab.codex.command().unwrap());
        lab
    }

    /// Uses this program from the next start of a gateway on.
    fn configure(&self, command: &Path) {
        let env = self.codex.environment().into_iter();
        let env: Vec<String> = env
            .map(|(name, value)| format!("{} = {:?}", name.display(), value.into_string().unwrap()))
            .collect();
        let file = format!(
            "{PATIENT}[agents.codex]\nkind = \"codex\"\ncommand = {command:?}\nenv = {{ {} }}\n",
            env.join(", ")
        );
        std::fs::write(self.home.path("turnstream.toml"), file).unwrap();
    }

    fn serve(&self) -> Serving {
        real_agent::serve_armed(&self.home, None)
    }

    /// A new session that allows everything.
    fn session(&self, serving: &Serving) -> String {
        self.session_with(serving, json!({}))
    }

    fn session_with(&self, serving: &Serving, mut more: Value) -> String {
        more["agent"] = json!("codex");
        create_session(&self.home, serving, more)
    }

    /// The log of a session.
    fn log(&self, session: &str) -> Vec<Value> {
        real_agent::log(&self.home, session)
    }

    /// The log of a session with so many turns that have ended, once it is idle.
    fn ended(&self, session: &str, turns: usize) -> Vec<Value> {
        real_agent::ended(&self.home, session, turns)
    }

    /// A file in the working directory, as far as it is there.
    fn work(&self, name: &str) -> String {
        real_agent::work(&self.home, name)
    }

    /// Processes with the home of this lab's Codex: itself, and what it has started.
    fn processes(&self) -> Vec<(i32, String)> {
        real_agent::processes(&self.codex.home())
    }

    /// The process of Codex itself. npm's command is a script of Node.js, which starts it.
    fn codex_process(&self) -> Option<i32> {
        let is_codex =
            |line: &str| line.contains("app-server") && !line.contains("codex.js") && !line.contains("node ");
        self.processes().into_iter().find(|(_, line)| is_codex(line)).map(|(id, _)| id)
    }

    /// The file of the only thread that Codex has.
    fn thread_file(&self) -> PathBuf {
        let mut folders = vec![self.codex.codex_home().join("sessions")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                } else if entry.path().extension().is_some_and(|ending| ending == "jsonl") {
                    return entry.path();
                }
            }
        }
        panic!("no thread");
    }
}

/// Sends a prompt under a key.
fn prompt(serving: &Serving, session: &str, text: &str) -> (String, Value) {
    real_agent::prompt_at(&serving.address, session, text, text)
}

fn accepted(serving: &Serving, session: &str, text: &str) {
    let (head, answer) = prompt(serving, session, text);
    assert!(head.starts_with("http/1.1 202 "), "{head} {answer}");
}

/// A call of Codex's shell that needs a permission, after some words.
fn shell(command: &str) -> Step {
    let arguments =
        json!({"cmd": command, "sandbox_permissions": "require_escalated", "justification": "As scripted"});
    let call = Part::tool_call("exec_command", arguments);
    Step::new(Completion::of([Part::text("I run it."), call]))
}
