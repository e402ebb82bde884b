//! Real agents that the gateway points at a route of its proxy. Whose key reaches the provider, what the
//! ledger has, and what happens when a killed gateway comes back at another port.

use crate::support::{Home, Serving, ask, read, stderr, stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use turnstream_fake_provider::{Completion, Part, Provider, Refusal, Script, Step};
use turnstream_provider::{AgentSecret, Asker};
use turnstream_testkit::agents::{AcpAgent, AcpHome, ClaudeHome, ClaudeVersion, CodexHome, OpencodeHome};
use turnstream_testkit::lawful::{Tail, assert_lawful};

/// On a busy machine an agent takes its time to start and to begin.
const PATIENT: &str = "[timeouts]\nconnect = \"5m\"\nstart = \"5m\"\nrecovery = \"5m\"\ncancel = \"5m\"\n";
const KEY: &str = "sk-Kartoffel7-of-the-gateway-0123456789";
/// Where the agents would ask without a route: nothing listens there.
const ELSEWHERE: &str = "http://127.0.0.1:9";
/// How every prompt begins. It tells the calls of the conversation from others of the agent.
const MARK: &str = "In the lab:";
/// What agents write when they ask for the title of a session.
const TITLES: [&str; 3] = ["Generate a title for this", AcpAgent::TITLE_TEXTS[0], AcpAgent::TITLE_TEXTS[1]];
const ANSWER: &str = "It came by the route.";

/// The home of an agent.
enum AgentHome {
    Claude(ClaudeHome),
    Codex(CodexHome),
    Opencode(OpencodeHome),
    Acp(AcpHome, &'static str),
}

/// A home with an agent that has a route, and the provider at its end.
struct Lab {
    home: Home,
    provider: Provider,
    agent: AgentHome,
    // Dropped last: the provider runs in it.
    _runtime: tokio::runtime::Runtime,
}

impl AgentHome {
    fn command(&self) -> (PathBuf, &'static [&'static str]) {
        match self {
            Self::Claude(home) => (home.command().unwrap(), &[]),
            Self::Codex(home) => (home.command().unwrap(), &[]),
            Self::Opencode(home) => (home.command().unwrap(), &[]),
            Self::Acp(home, _) => home.command().unwrap(),
        }
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        match self {
            Self::Claude(home) => home.environment(),
            Self::Codex(home) => home.environment(),
            Self::Opencode(home) => home.environment(),
            Self::Acp(home, _) => home.environment(),
        }
    }

    /// Its kind, the format of its route, and whether it has a process for each session.
    fn facts(&self) -> (&'static str, &'static str, bool) {
        match self {
            Self::Claude(_) => ("claude", "messages", true),
            Self::Codex(_) => ("codex", "responses", true),
            Self::Opencode(_) => ("opencode", "chat", false),
            Self::Acp(_, format) => ("acp", format, true),
        }
    }
}

impl Lab {
    fn new(agent: AgentHome, steps: impl IntoIterator<Item = Step>) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let steps = steps.into_iter().map(|step| step.for_any_user_text(MARK));
        // Some agents ask for a title with the text of the prompt, others for something else.
        let titles = TITLES.map(|text| Step::text("A title").for_any_user_text(text).always());
        let script = Script::new(titles.into_iter().chain(steps).chain([Step::text("Yes.").always()]));
        let provider = runtime.block_on(Provider::start(script)).unwrap();
        let lab = Self { home: Home::new(), provider, agent, _runtime: runtime };
        lab.configure();
        lab
    }

    fn configure(&self) {
        let (kind, format, _) = self.agent.facts();
        let (program, arguments) = self.agent.command();
        let env: Vec<String> = self
            .agent
            .environment()
            .into_iter()
            .map(|(name, value)| format!("{} = {:?}", name.display(), value.into_string().unwrap()))
            .collect();
        let command = match kind {
            "acp" => {
                let words = std::iter::once(program.to_str().unwrap()).chain(arguments.iter().copied());
                format!("{:?}", words.collect::<Vec<_>>())
            }
            _ => format!("{program:?}"),
        };
        let url = match format {
            "messages" => self.provider.base_url(),
            _ => self.provider.openai_base_url(),
        };
        let model = if format == "chat" { "model = \"by-route\"\n" } else { "" };
        let file = format!(
            "{PATIENT}[agents.it]\nkind = {kind:?}\ncommand = {command}\nroute = \"main\"\nenv = {{ {} }}\n\
             [llm.routes.main]\nurl = {url:?}\nformat = {format:?}\nkey_env = \"PROVIDER_KEY\"\n{model}",
            env.join(", ")
        );
        std::fs::write(self.home.path("turnstream.toml"), file).unwrap();
    }

    fn serve(&self) -> Serving {
        let config = self.home.path("turnstream.toml").display().to_string();
        self.home.serve_armed(&["--config", &config], |command| {
            command.env("PROVIDER_KEY", KEY).env("RUST_LOG", "debug");
        })
    }

    fn session(&self, serving: &Serving) -> String {
        let body = json!({"agent": "it", "cwd": self.home.path("work"), "permissions": "allow"});
        let (head, answer) = ask(&serving.address, "POST", "/v1/sessions", &body);
        assert!(head.starts_with("http/1.1 201 "), "{head} {answer}");
        answer["id"].as_str().unwrap().to_owned()
    }

    fn prompt(&self, serving: &Serving, session: &str) {
        let body = json!({"content": [{"type": "text", "text": format!("{MARK} say it")}]});
        let path = format!("/v1/sessions/{session}/prompts");
        let (head, answer) = ask(&serving.address, "POST", &path, &body);
        assert!(head.starts_with("http/1.1 202 "), "{head} {answer}");
    }

    /// The log of a session, when its first turn has ended.
    fn ended(&self, session: &str) -> Vec<Value> {
        wait_for(|| {
            let tail = self.home.run(&["tail", session, "--json", "--no-follow"]);
            assert_lawful(stdout(&tail).lines(), Tail::Live);
            let log: Vec<Value> =
                stdout(&tail).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            (!of_type(&log, "turn.ended").is_empty()).then_some(log)
        })
    }

    /// The rows of a session in the ledger.
    fn rows(&self, session: &str) -> Vec<Value> {
        let rows = self.home.run(&["inspect", "--attempts", session, "--json"]);
        stdout(&rows).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What requests of the conversation sent as a key.
    fn keys(&self) -> Vec<String> {
        let calls = self.provider.calls().into_iter();
        let key = |call: turnstream_fake_provider::Request| {
            let bearer = call.header("authorization").map(|key| key.replace("Bearer ", ""));
            bearer.or_else(|| call.header("x-api-key").map(str::to_owned)).unwrap_or_default()
        };
        calls.map(key).collect()
    }

    /// The status of a list of models at the address of a session, without a token.
    fn status_at(&self, session: &str) -> u16 {
        let kept: Value = serde_json::from_str(&read(&self.home.path("data/llm-agents.json"))).unwrap();
        let digits = kept["secret"].as_str().unwrap();
        let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap();
        let secret = AgentSecret(std::array::from_fn(byte));
        let part = secret.part("main", &Asker::Session(session.to_owned()));
        let mut socket = TcpStream::connect(format!("127.0.0.1:{}", kept["port"])).unwrap();
        let head = "Host: 127.0.0.1\r\nConnection: close\r\n\r\n";
        write!(socket, "GET /llm/main/{part}/models HTTP/1.1\r\n{head}").unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// The part of a path that opens the route is nowhere that others can read.
    fn assert_secret(&self, log: &[Value]) {
        let logged = format!("{}{}", read(&self.home.path("serve.err")), read(&self.home.path("serve.out")));
        for (place, text) in [("the lines", logged), ("the log", json!(log).to_string())] {
            assert!(!text.contains("tsr_"), "the secret part is in {place}");
            assert!(!text.contains("Kartoffel7"), "the key is in {place}");
        }
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&line).contains("tsr_"), "the secret part is an argument");
        }
    }
}

fn of_type<'a>(log: &'a [Value], name: &str) -> Vec<&'a Value> {
    log.iter().filter(|event| event["type"] == name).collect()
}

/// The texts of the assistant's completed messages.
fn answers(serving: &Serving, session: &str) -> Vec<String> {
    let path = format!("/v1/sessions/{session}/snapshot");
    let (_, snapshot) = ask(&serving.address, "GET", &path, &Value::Null);
    let items = snapshot["items"].as_array().unwrap().iter();
    let messages = items.filter(|item| item["kind"] == "message" && item["role"] == "assistant");
    let whole = messages.filter(|item| item["state"] == "completed");
    whole.map(|item| item["text"].as_str().unwrap().to_owned()).collect()
}

/// A turn whose first request to the provider is refused. The agent does not notice, and no key of its own
/// reaches the provider.
fn assert_routed(agent: AgentHome) {
    let refusal = Step::new(Refusal::new(500, "server_error", "no"));
    let lab = Lab::new(agent, [refusal, Step::text(ANSWER)]);
    let (kind, _, has_process) = lab.agent.facts();
    let serving = lab.serve();
    let session = lab.session(&serving);
    lab.prompt(&serving, &session);
    let log = lab.ended(&session);
    assert_eq!(of_type(&log, "turn.ended")[0]["outcome"], "completed", "{log:#?}");
    assert_eq!(answers(&serving, &session), [ANSWER]);
    assert!(lab.keys().iter().all(|key| key == KEY), "{:?}", lab.keys());
    lab.assert_secret(&log);

    let attempts = of_type(&log, "attempt.started");
    let of_route = lab.rows("llm/main");
    if !has_process {
        assert!(lab.rows(&session).is_empty() && of_route.len() >= 2, "{of_route:#?}");
        return;
    }
    assert!(of_route.is_empty(), "{of_route:#?}");
    let is_failed = |row: &&Value| row["verdict"] == "failed";
    if kind == "acp" {
        // The protocol has no model calls, so the rows are linked to the session only.
        let rows = wait_for(|| Some(lab.rows(&session)).filter(|rows| rows.len() >= 2));
        assert!(attempts.is_empty() && rows.iter().any(|row| is_failed(&row)), "{rows:#?}");
        return;
    }
    // One call of the model: two rows, which belong to the one attempt that the adapter has reported.
    let linked = wait_for(|| {
        let rows = lab.rows(&session);
        let linked: Vec<Value> = rows.into_iter().filter(|row| !row["of"].is_null()).collect();
        (linked.len() == 2).then_some(linked)
    });
    assert_eq!(attempts.len(), 1, "{log:#?}");
    let of = json!({"turn": attempts[0]["turn"], "attempt": attempts[0]["attempt"]});
    assert!(linked.iter().all(|row| row["of"] == of), "{linked:#?}");
    assert_eq!(linked.iter().filter(is_failed).count(), 1, "{linked:#?}");
    let shown = lab.home.run(&["inspect", "--attempts", &session]);
    let attempt =
        format!("{}/{}", attempts[0]["turn"].as_str().unwrap(), attempts[0]["attempt"].as_str().unwrap());
    assert!(stdout(&shown).contains(&attempt), "{}", stdout(&shown));

    // The address opens the route while there is the session.
    assert_ne!(lab.status_at(&session), 401);
    let (head, answer) = ask(&serving.address, "DELETE", &format!("/v1/sessions/{session}"), &Value::Null);
    assert!(head.starts_with("http/1.1 20"), "{head} {answer}");
    wait_for(|| (lab.status_at(&session) == 401).then_some(()));
    serving.end(Signal::TERM);
}

#[test]
fn claude_code_asks_by_the_route() {
    assert_routed(AgentHome::Claude(ClaudeHome::new(ClaudeVersion::V2_1_197, ELSEWHERE).unwrap()));
}

#[test]
fn codex_asks_by_the_route() {
    assert_routed(AgentHome::Codex(CodexHome::new(&format!("{ELSEWHERE}/v1")).unwrap()));
}

#[test]
fn opencode_asks_by_the_route() {
    assert_routed(AgentHome::Opencode(OpencodeHome::new(&format!("{ELSEWHERE}/v1")).unwrap()));
}

#[test]
fn acp_agents_ask_by_the_route() {
    for (agent, format) in [(AcpAgent::Claude, "messages"), (AcpAgent::Opencode, "chat")] {
        println!("{}", agent.title());
        assert_routed(AgentHome::Acp(AcpHome::new(agent, ELSEWHERE).unwrap(), format));
    }
}

#[test]
fn an_agent_that_cannot_be_pointed_at_a_route_is_refused() {
    let home = Home::new();
    let config = home.path("turnstream.toml");
    let route = "[llm.routes.main]\nurl = \"http://127.0.0.1:9/v1\"\nformat = \"chat\"\n";
    for (table, word) in [
        ("kind = \"claude\"\nroute = \"main\"\n", "messages"),
        ("kind = \"codex\"\nroute = \"main\"\n", "responses"),
        ("kind = \"opencode\"\nroute = \"main\"\n", "model"),
        ("kind = \"acp\"\ncommand = \"some-agent\"\nroute = \"main\"\n", "set its variables with `env`"),
        ("kind = \"acp\"\ncommand = \"codex-acp\"\nroute = \"main\"\n", "Codex's config.toml"),
        ("kind = \"claude\"\nroute = \"other\"\n", "other"),
        ("kind = \"opencode\"\nurl = \"http://127.0.0.1:9\"\nroute = \"main\"\n", "not both"),
    ] {
        std::fs::write(&config, format!("[agents.it]\n{table}{route}")).unwrap();
        let refused = home.run(&["serve", "--config", config.to_str().unwrap()]);
        assert!(
            !refused.status.success() && stderr(&refused).contains(word),
            "{table}: {}",
            stderr(&refused)
        );
    }
}

/// The gateway is killed while a tool runs. The agent outlives it, and asks for its next answer at the
/// address that it knows, which is that of the next gateway too.
fn assert_survives(agent: AgentHome, call: Part) {
    let lab = Lab::new(agent, [Step::new(Completion::of([call])), Step::text(ANSWER)]);
    let serving = lab.serve();
    let session = lab.session(&serving);
    lab.prompt(&serving, &session);
    let work = lab.home.path("work");
    wait_for(|| work.join("runs.txt").exists().then_some(()));
    let first = serving.address.clone();
    serving.end(Signal::KILL);
    let serving = lab.serve();
    assert_ne!(serving.address, first);
    std::fs::write(work.join("go.txt"), "").unwrap();
    let log = lab.ended(&session);
    assert_eq!(of_type(&log, "turn.ended")[0]["outcome"], "completed", "{log:#?}");
    assert_eq!(answers(&serving, &session).last().map(String::as_str), Some(ANSWER));
    assert_eq!(read(&work.join("runs.txt")).lines().count(), 1);
    assert!(lab.keys().iter().all(|key| key == KEY), "{:?}", lab.keys());
    serving.end(Signal::TERM);
}

const WAITS: &str = "echo run >> runs.txt; until [ -e go.txt ]; do sleep 0.1; done";

#[test]
fn a_codex_that_outlives_its_gateway_goes_on_by_the_next_one() {
    let arguments = json!({"cmd": WAITS, "sandbox_permissions": "require_escalated", "justification": "x"});
    let home = CodexHome::new(&format!("{ELSEWHERE}/v1")).unwrap();
    assert_survives(AgentHome::Codex(home), Part::tool_call("exec_command", arguments));
}

#[test]
fn an_opencode_that_outlives_its_gateway_goes_on_by_the_next_one() {
    let arguments = json!({"command": WAITS, "description": "Wait"});
    let home = OpencodeHome::new(&format!("{ELSEWHERE}/v1")).unwrap();
    assert_survives(AgentHome::Opencode(home), Part::tool_call("bash", arguments));
}

#[test]
fn a_claude_code_that_outlives_its_gateway_goes_on_by_the_next_one() {
    let arguments = json!({"command": WAITS, "description": "Wait"});
    let home = ClaudeHome::new(ClaudeVersion::V2_1_197, ELSEWHERE).unwrap();
    assert_survives(AgentHome::Claude(home), Part::tool_call("Bash", arguments));
}
