//! Real ACP agents behind the real binary: asked, cancelled, killed, resumed, and killed over.

mod kills;
mod turns;

use crate::support::{Home, Serving, ask, stdout, wait_for};
use serde_json::{Value, json};
use turnstream_fake_provider::{Completion, Part, Provider, Script, Step};
use turnstream_testkit::agents::{AcpAgent, AcpHome};
use turnstream_testkit::lawful::{Tail, assert_lawful};

/// On a busy machine an agent takes its time to start and to begin.
const PATIENT: &str = "[timeouts]\nconnect = \"5m\"\nstart = \"5m\"\nrecovery = \"5m\"\ncancel = \"5m\"\n";

/// How every prompt begins. It tells the calls of the conversation from others of the agent.
const MARK: &str = "In the lab:";

/// A home with an ACP agent in its configuration, and the provider that the agent asks.
struct Lab {
    home: Home,
    provider: Provider,
    agent: AcpHome,
    // Dropped last: the provider runs in it.
    _runtime: tokio::runtime::Runtime,
}

impl Lab {
    /// A lab with claude-agent-acp.
    fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        // The agent also asks the model for a title.
        let titles = AcpAgent::TITLE_TEXTS.map(|text| Step::text("A title").for_any_user_text(text).always());
        let steps = steps.into_iter().map(|step| step.for_any_user_text(MARK));
        let script = Script::new(titles.into_iter().chain(steps));
        let provider = runtime.block_on(Provider::start(script)).unwrap();
        let agent = AcpHome::new(AcpAgent::Claude, &provider.base_url()).unwrap();
        let lab = Self { home: Home::new(), provider, agent, _runtime: runtime };
        let table = crate::turn_ends::acp_table("acp", &lab.agent);
        std::fs::write(lab.home.path("turnstream.toml"), format!("{PATIENT}{table}")).unwrap();
        lab
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

    /// A new session with these permissions.
    fn session(&self, serving: &Serving, permissions: &str) -> String {
        let body = json!({"agent": "acp", "cwd": self.home.path("work"), "permissions": permissions});
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
            let statuses = of_type(&log, "session.status");
            let is_idle = statuses.last().is_some_and(|event| event["status"] == "idle");
            (is_idle && of_type(&log, "turn.ended").len() >= turns).then_some(log)
        })
    }

    /// The first event of this type in the log of a session.
    fn first(&self, session: &str, kind: &str) -> Value {
        wait_for(|| of_type(&self.log(session), kind).first().map(|event| (*event).clone()))
    }

    /// A file in the working directory, as far as it is there.
    fn work(&self, name: &str) -> String {
        std::fs::read_to_string(self.home.path("work").join(name)).unwrap_or_default()
    }

    /// Processes with the home of this lab's agent: itself, and what it has started.
    fn processes(&self) -> Vec<(i32, String)> {
        let home = format!("HOME={}", self.agent.home().display());
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
}

/// Sends a prompt under a key.
fn prompt(serving: &Serving, session: &str, text: &str) -> (String, Value) {
    prompt_at(&serving.address, session, text)
}

fn prompt_at(address: &str, session: &str, text: &str) -> (String, Value) {
    let content = json!([{"type": "text", "text": format!("{MARK} {text}")}]);
    let body = json!({"content": content, "key": text});
    ask(address, "POST", &format!("/v1/sessions/{session}/prompts"), &body)
}

fn accepted(serving: &Serving, session: &str, text: &str) {
    let (head, answer) = prompt(serving, session, text);
    assert!(head.starts_with("http/1.1 202 "), "{head} {answer}");
}

fn post(serving: &Serving, session: &str, path: &str, body: &Value) {
    let path = format!("/v1/sessions/{session}/{path}");
    let (head, answer) = ask(&serving.address, "POST", &path, body);
    assert!(head.starts_with("http/1.1 2"), "{path}: {head} {answer}");
}

/// A call of Claude Code's shell.
fn shell(command: &str) -> Step {
    let arguments = json!({"command": command, "description": "As scripted"});
    Step::new(Completion::of([Part::text("I run it."), Part::tool_call("Bash", arguments)]))
}

fn of_type<'a>(log: &'a [Value], name: &str) -> Vec<&'a Value> {
    log.iter().filter(|event| event["type"] == name).collect()
}

fn outcomes(log: &[Value]) -> Vec<&str> {
    of_type(log, "turn.ended").iter().map(|end| end["outcome"].as_str().unwrap()).collect()
}
