//! Real ACP agents behind the real binary: asked, cancelled, killed, resumed, and killed over.

mod kills;
mod opencode_api;
mod turns;

use crate::real_agent::{self, PATIENT, create_session, of_type, outcomes};
use crate::support::{Home, Serving, ask, wait_for};
use serde_json::{Value, json};
use turnstream_fake_provider::{Completion, Part, Provider, Script, Step};
use turnstream_testkit::agents::{AcpAgent, AcpHome, Opencode};

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
        Self::of(AcpAgent::Claude, steps)
    }

    fn of(agent: AcpAgent, steps: impl IntoIterator<Item = Step>) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        // The agent also asks the model for a title.
        let titles = AcpAgent::TITLE_TEXTS.map(|text| Step::text("A title").for_any_user_text(text).always());
        let title = Step::text("A title").for_model(Opencode::TITLE_MODEL).always();
        let steps = steps.into_iter().map(|step| step.for_any_user_text(MARK));
        let script = Script::new(titles.into_iter().chain([title]).chain(steps));
        let provider = runtime.block_on(Provider::start(script)).unwrap();
        let agent = AcpHome::new(agent, &provider.base_url()).unwrap();
        let lab = Self { home: Home::new(), provider, agent, _runtime: runtime };
        let table = crate::turn_ends::acp_table("acp", &lab.agent);
        std::fs::write(lab.home.path("turnstream.toml"), format!("{PATIENT}{table}")).unwrap();
        lab
    }

    fn serve(&self) -> Serving {
        real_agent::serve_armed(&self.home, None)
    }

    /// A new session with these permissions.
    fn session(&self, serving: &Serving, permissions: &str) -> String {
        create_session(&self.home, serving, json!({"agent": "acp", "permissions": permissions}))
    }

    /// The log of a session.
    fn log(&self, session: &str) -> Vec<Value> {
        real_agent::log(&self.home, session)
    }

    /// The log of a session with so many turns that have ended, once it is idle.
    fn ended(&self, session: &str, turns: usize) -> Vec<Value> {
        real_agent::ended(&self.home, session, turns)
    }

    /// The first event of this type in the log of a session.
    fn first(&self, session: &str, kind: &str) -> Value {
        wait_for(|| of_type(&self.log(session), kind).first().map(|event| (*event).clone()))
    }

    /// Processes with the home of this lab's agent: itself, and what it has started.
    fn processes(&self) -> Vec<(i32, String)> {
        real_agent::processes(&self.agent.home())
    }
}

/// Sends a prompt under a key.
fn prompt(serving: &Serving, session: &str, text: &str) -> (String, Value) {
    prompt_at(&serving.address, session, text)
}

fn prompt_at(address: &str, session: &str, text: &str) -> (String, Value) {
    real_agent::prompt_at(address, session, text, &format!("{MARK} {text}"))
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
    shell_of(AcpAgent::Claude, command)
}

/// A call of an agent's shell, after some words.
fn shell_of(agent: AcpAgent, command: &str) -> Step {
    let described = json!({"command": command, "description": "As scripted"});
    let call = match agent {
        AcpAgent::Claude => Part::tool_call("Bash", described),
        AcpAgent::Opencode => Part::tool_call("bash", described),
        AcpAgent::Codex => {
            let mut escalated = json!({"cmd": command, "justification": "As scripted"});
            escalated["sandbox_permissions"] = json!("require_escalated");
            Part::tool_call("exec_command", escalated)
        }
    };
    Step::new(Completion::of([Part::text("I run it."), call]))
}
