//! The real Claude Code behind the real binary: killed over, started again, forgotten, and given MCP servers.

mod budget;
mod idle;
mod kills;
mod local_commands;
mod memory;
mod opencode_api;
mod processes;
mod subagents;

use crate::support::{Home, Serving, ask, stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use turnstream_fake_provider::{Completion, Part, Provider, Script, Step};
use turnstream_testkit::agents::{ClaudeHome, ClaudeVersion};
use turnstream_testkit::lawful::{Tail, assert_lawful};

/// On a busy machine Claude Code takes its time to start and to begin.
const PATIENT: &str = "[timeouts]\nconnect = \"5m\"\nstart = \"5m\"\nrecovery = \"5m\"\ncancel = \"5m\"\n";

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
        self.serve_armed(None)
    }

    /// A gateway that stops at this failpoint.
    fn serve_armed(&self, failpoint: Option<&str>) -> Serving {
        self.serve_with(|command| {
            if let Some(failpoint) = failpoint {
                command.env("TURNSTREAM_FAILPOINT", failpoint);
            }
        })
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

    fn session_with(&self, serving: &Serving, more: Value) -> String {
        let mut body = json!({"agent": "claude", "cwd": self.home.path("work"), "permissions": "allow"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (head, answer) = ask(&serving.address, "POST", "/v1/sessions", &body);
        assert!(head.starts_with("http/1.1 201 "), "{head} {answer}");
        answer["id"].as_str().unwrap().to_owned()
    }

    /// The log of a session.
    fn log(&self, session: &str) -> Vec<Value> {
        let tail = self.home.run(&["tail", session, "--json", "--no-follow"]);
        assert_lawful(stdout(&tail).lines(), Tail::Live);
        stdout(&tail).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The log of a session with so many turns that have ended, once it is idle.
    fn ended(&self, session: &str, turns: usize) -> Vec<Value> {
        wait_for(|| {
            let log = self.log(session);
            let is_idle = statuses(&log).last().is_some_and(|status| *status == "idle");
            (is_idle && of_type(&log, "turn.ended").len() >= turns).then_some(log)
        })
    }

    /// A file in the working directory, as far as it is there.
    fn work(&self, name: &str) -> String {
        std::fs::read_to_string(self.home.path("work").join(name)).unwrap_or_default()
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
        let home = format!("HOME={}", self.claude.home().display());
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let process = |entry: std::fs::DirEntry| {
            let id: i32 = entry.file_name().to_str()?.parse().ok()?;
            let environment = std::fs::read(entry.path().join("environ")).ok()?;
            let is_ours = environment.split(|byte| *byte == 0).any(|variable| variable == home.as_bytes());
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            // A zombie has no command line.
            (is_ours && !line.is_empty()).then(|| (id, String::from_utf8_lossy(&line).replace('\0', " ")))
        };
        entries.filter_map(process).collect()
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
    let body = json!({"content": [{"type": "text", "text": text}], "key": text});
    ask(&serving.address, "POST", &format!("/v1/sessions/{session}/prompts"), &body)
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

fn of_type<'a>(log: &'a [Value], name: &str) -> Vec<&'a Value> {
    log.iter().filter(|event| event["type"] == name).collect()
}

fn statuses(log: &[Value]) -> Vec<&str> {
    of_type(log, "session.status").iter().map(|event| event["status"].as_str().unwrap()).collect()
}

fn outcomes(log: &[Value]) -> Vec<&str> {
    of_type(log, "turn.ended").iter().map(|end| end["outcome"].as_str().unwrap()).collect()
}

fn signal(process: i32, signal: Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(process).unwrap(), signal).unwrap();
}
