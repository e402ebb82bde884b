//! The real Codex behind the real binary: its turns, its permissions, and what happens when something dies.

mod kills;
mod people;
mod servers;

use crate::support::{Home, Serving, ask, stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use turnstream_fake_provider::{Completion, Part, Provider, Script, Step};
use turnstream_testkit::agents::CodexHome;
use turnstream_testkit::lawful::{Tail, assert_lawful};

/// On a busy machine Codex takes its time to start and to begin.
const PATIENT: &str = "[timeouts]\nconnect = \"5m\"\nstart = \"5m\"\nrecovery = \"5m\"\ncancel = \"5m\"\n";

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
        self.serve_armed(None)
    }

    /// A gateway that stops at this failpoint.
    fn serve_armed(&self, failpoint: Option<&str>) -> Serving {
        let config = self.home.path("turnstream.toml").display().to_string();
        self.home.serve_armed(&["--config", &config], |command| {
            if let Some(failpoint) = failpoint {
                command.env("TURNSTREAM_FAILPOINT", failpoint);
            }
        })
    }

    /// A new session that allows everything.
    fn session(&self, serving: &Serving) -> String {
        self.session_with(serving, json!({}))
    }

    fn session_with(&self, serving: &Serving, more: Value) -> String {
        let mut body = json!({"agent": "codex", "cwd": self.home.path("work"), "permissions": "allow"});
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

    /// Processes with the home of this lab's Codex: itself, and what it has started.
    fn processes(&self) -> Vec<(i32, String)> {
        let home = format!("HOME={}", self.codex.home().display());
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
    let body = json!({"content": [{"type": "text", "text": text}], "key": text});
    ask(&serving.address, "POST", &format!("/v1/sessions/{session}/prompts"), &body)
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

fn of_type<'a>(log: &'a [Value], name: &str) -> Vec<&'a Value> {
    log.iter().filter(|event| event["type"] == name).collect()
}

fn statuses(log: &[Value]) -> Vec<&str> {
    of_type(log, "session.status").iter().map(|event| event["status"].as_str().unwrap()).collect()
}

fn outcomes(log: &[Value]) -> Vec<&str> {
    of_type(log, "turn.ended").iter().map(|end| end["outcome"].as_str().unwrap()).collect()
}

/// The items of a session, as clients see them.
fn items(serving: &Serving, session: &str) -> Vec<Value> {
    let path = format!("/v1/sessions/{session}/snapshot");
    let (_, snapshot) = ask(&serving.address, "GET", &path, &Value::Null);
    snapshot["items"].as_array().unwrap().clone()
}

/// The texts of the assistant's completed messages.
fn answers(serving: &Serving, session: &str) -> Vec<String> {
    let items = items(serving, session).into_iter();
    let messages = items.filter(|item| item["kind"] == "message" && item["role"] == "assistant");
    let whole = messages.filter(|item| item["state"] == "completed");
    whole.map(|item| item["text"].as_str().unwrap().to_owned()).collect()
}

fn signal(process: i32, signal: Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(process).unwrap(), signal).unwrap();
}
