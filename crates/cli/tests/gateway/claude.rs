//! The real Claude Code behind the real binary: killed over, started again, forgotten, and given MCP servers.

mod budget;
mod client_libraries;
mod idle;
mod kills;
mod local_commands;
mod memory;
mod opencode_api;
mod processes;
mod subagents;
mod unattended;

use crate::real_agent::{self, PATIENT, create_session, of_type, outcomes, signal};
use crate::support::{Home, Serving};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use turnstream_fake_provider::{Completion, Part, Provider, Script, Step};
use turnstream_testkit::agents::{ClaudeHome, ClaudeVersion};

/// A home with a Claude Code in its configuration, and the provider that Claude Code asks.
struct Lab {
    home: Home,
    provider: Provider,
    claude: ClaudeHome,
    // Dropped last: the provider runs in it.
    _runtime: tokio::runtime::Runtime,
}

impl Lab {
    fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self::of(ClaudeVersion::V2_1_197, steps)
    }

    fn of(version: ClaudeVersion, steps: impl IntoIterator<Item = Step>) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let provider = runtime.block_on(Provider::start(Script::new(steps))).unwrap();
        let claude = ClaudeHome::new(version, &provider.base_url()).unwrap();
        let lab = Self { home: Home::new(), provider, claude, _runtime: runtime };
        lab.configure(&lab.claude.command().unwrap());
        lab
    }

    /// Uses this program from the next start of a gateway on.
    fn configure(&self, command: &Path) {
        self.configure_without(command, &[]);
    }

    /// The same, without some of its variables.
    fn configure_without(&self, command: &Path, missing: &[&str]) {
        let env = self.claude.environment().into_iter();
        let env: Vec<String> = env
            .filter(|(name, _)| missing.iter().all(|missing| name != missing))
            .map(|(name, value)| format!("{} = {:?}", name.display(), value.into_string().unwrap()))
            .collect();
        let file = format!(
            "{PATIENT}[agents.claude]\nkind = \"claude\"\ncommand = {command:?}\nenv = {{ {} }}\n",
            env.join(", ")
        );
        std::fs::write(self.home.path("turnstream.toml"), file).unwrap();
    }

    fn serve(&self) -> Serving {
        real_agent::serve_armed(&self.home, None)
    }

    /// A gateway, with something done to its command first.
    fn serve_with(&self, arm: impl FnOnce(&mut Command)) -> Serving {
        let config = self.home.path("turnstream.toml").display().to_string();
        self.home.serve_armed(&["--config", &config], arm)
    }

    /// A new session that allows everything.
    fn session(&self, serving: &Serving) -> String {
        self.session_with(serving, json!({}))
    }

    fn session_with(&self, serving: &Serving, mut more: Value) -> String {
        more["agent"] = json!("claude");
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

    /// The transcript of the only session that Claude Code has.
    fn transcript(&self) -> PathBuf {
        self.transcripts().remove(0)
    }

    /// The file in which the adapter notes what it knows of the only session.
    fn note(&self) -> PathBuf {
        let files = std::fs::read_dir(self.home.path("data/agents/claude")).unwrap().flatten();
        let is_note = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "session");
        files.map(|file| file.path()).find(is_note).unwrap()
    }

    /// All transcripts of Claude Code.
    fn transcripts(&self) -> Vec<PathBuf> {
        let projects = std::fs::read_dir(self.claude.home().join(".claude/projects")).unwrap().flatten();
        let files = projects.flat_map(|project| std::fs::read_dir(project.path()).unwrap().flatten());
        let is_transcript = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "jsonl");
        files.map(|file| file.path()).filter(is_transcript).collect()
    }

    /// Processes with the home of this lab's Claude Code: itself, and what it has started.
    fn processes(&self) -> Vec<(i32, String)> {
        real_agent::processes(&self.claude.home())
    }

    /// The process of Claude Code itself.
    fn claude_process(&self) -> Option<i32> {
        self.claude_processes().first().copied()
    }

    /// The processes of Claude Code itself, one per session.
    fn claude_processes(&self) -> Vec<i32> {
        // A shell has started it.
        let is_claude = |line: &str| line.contains("stream-json") && !line.starts_with("/bin/sh ");
        self.processes().into_iter().filter(|(_, line)| is_claude(line)).map(|(id, _)| id).collect()
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

/// A call of Claude Code's shell, and then an answer.
fn shell(command: &str) -> Step {
    let arguments = json!({"command": command, "description": "As scripted"});
    Step::new(Completion::of([Part::text("I run it."), Part::tool_call("Bash", arguments)]))
}
