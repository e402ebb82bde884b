//! Captures of the installed ACP agents, against the fake provider:
//! `cargo run -p turnstream-testkit --example capture_acp -- FOLDER [NAME]`.
//!
//! Each capture is one file of JSON lines: what the client wrote (`in`) and what the agent wrote (`out`).

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed capture")]
#![allow(clippy::disallowed_macros, reason = "a tool prints for the person who runs it")]

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;
use turnstream_fake_provider::{Completion, Fault, Part, Provider, Refusal, Script, Step};
use turnstream_testkit::agents::{AcpAgent, AcpHome, AcpProcess, Opencode};

/// What the client does in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Prompt(&'static str),
    /// Waits for the response to the last prompt.
    Done,
    /// Waits for this method, or for this kind of update.
    Until(&'static str),
    /// Answers the last request with the first option of this kind, or a form with its first choices.
    Answer(&'static str),
    Cancel,
    /// Waits for so many milliseconds, and keeps what comes.
    Listen(u64),
    /// Ends the process, starts another one and goes on with the session by this method.
    Restart(&'static str),
}
use Act::{Answer, Cancel, Done, Listen, Prompt, Restart, Until};

/// A capture.
struct Scene {
    name: &'static str,
    steps: fn(AcpAgent, &Path) -> Vec<Step>,
    acts: &'static [Act],
    agents: &'static [AcpAgent],
}

const ALL: &[AcpAgent] = &[AcpAgent::Claude, AcpAgent::Codex, AcpAgent::Opencode];
const PERMISSION: &str = "session/request_permission";

const SCENES: &[Scene] = &[
    Scene {
        name: "multi_step",
        steps: |agent, cwd| {
            vec![
                said("I'll read the file first.", read(agent, cwd)),
                said("Now I'll run it.", shell(agent, "echo one; echo two", false)),
                Step::text("Done! Both are done."),
                Step::text("You are welcome."),
            ]
        },
        acts: &[Prompt("Read README.md"), Answer("allow_once"), Done, Prompt("Thanks"), Done],
        agents: ALL,
    },
    Scene {
        name: "permission_allow",
        steps: |agent, _| vec![said("Running.", shell(agent, "touch made.txt", true)), Step::text("Made.")],
        acts: &[Prompt("Create made.txt"), Until(PERMISSION), Answer("allow_once"), Done],
        agents: ALL,
    },
    Scene {
        name: "permission_reject",
        steps: |agent, _| {
            vec![said("Running.", shell(agent, "touch made.txt", true)), Step::text("Not made.")]
        },
        acts: &[Prompt("Create made.txt"), Until(PERMISSION), Answer("reject_once"), Done],
        agents: ALL,
    },
    Scene {
        name: "permission_cancel",
        steps: |agent, _| {
            vec![said("Running.", shell(agent, "touch made.txt", true)), Step::text("Still here.")]
        },
        acts: &[
            Prompt("Create made.txt"),
            Until(PERMISSION),
            Cancel,
            Answer("cancelled"),
            Done,
            Prompt("Still there?"),
            Done,
        ],
        agents: ALL,
    },
    Scene {
        name: "question",
        steps: |_, _| {
            let options = ["Tea", "Coffee"].map(|label| json!({"label": label, "description": label}));
            let question = json!({"question": "Tea or coffee?", "header": "Drink", "options": options, "multiSelect": false});
            let call = Part::tool_call("AskUserQuestion", json!({"questions": [question]}));
            vec![said("I ask.", call), Step::text("Tea it is.")]
        },
        acts: &[Prompt("Ask me"), Until("elicitation/create"), Answer("accept"), Done],
        agents: &[AcpAgent::Claude],
    },
    Scene {
        name: "question_declined",
        steps: |_, _| {
            let options = ["Tea", "Coffee"].map(|label| json!({"label": label, "description": label}));
            let question = json!({"question": "Tea or coffee?", "header": "Drink", "options": options, "multiSelect": false});
            let call = Part::tool_call("AskUserQuestion", json!({"questions": [question]}));
            vec![said("I ask.", call), Step::text("No drink.")]
        },
        acts: &[Prompt("Ask me"), Until("elicitation/create"), Answer("decline"), Done],
        agents: &[AcpAgent::Claude],
    },
    Scene {
        name: "cancel",
        steps: |_, _| vec![stalled("part one part two part three "), Step::text("Still here.")],
        acts: &[
            Prompt("Write"),
            Until("agent_message_chunk"),
            Cancel,
            Done,
            Listen(1_500),
            Prompt("Still there?"),
            Done,
        ],
        agents: ALL,
    },
    Scene {
        name: "cancel_mid_tool",
        steps: |agent, _| {
            vec![
                said("Running.", shell(agent, "touch begun.txt; sleep 60", false)),
                Step::text("Still here."),
            ]
        },
        acts: &[
            Prompt("Run it"),
            Answer("allow_once"),
            Until("begun.txt"),
            Cancel,
            Done,
            Listen(1_500),
            Prompt("Still there?"),
            Done,
        ],
        agents: ALL,
    },
    Scene {
        name: "error",
        steps: |_, _| {
            let refusal = Refusal::new(400, "invalid_request_error", "That is no question");
            // Claude Code repeats the request.
            vec![Step::new(refusal).for_user_text("Hello").always(), Step::text("Still here.")]
        },
        acts: &[Prompt("Hello"), Done, Prompt("Still there?"), Done],
        agents: ALL,
    },
    Scene {
        name: "resume",
        steps: |_, _| vec![Step::text("First answer."), Step::text("Second answer.")],
        acts: &[Prompt("One"), Done, Restart("session/resume"), Listen(1_000), Prompt("Two"), Done],
        agents: ALL,
    },
    Scene {
        name: "load",
        steps: |agent, cwd| {
            vec![said("I read.", read(agent, cwd)), Step::text("First answer."), Step::text("Second answer.")]
        },
        acts: &[
            Prompt("One"),
            Answer("allow_once"),
            Done,
            Restart("session/load"),
            Listen(1_000),
            Prompt("Two"),
            Done,
        ],
        agents: ALL,
    },
    Scene {
        name: "background",
        steps: |_, _| {
            let call = json!({"command": "sleep 1; echo done", "description": "As scripted", "run_in_background": true});
            vec![
                said("Started.", Part::tool_call("Bash", call)),
                Step::text("It runs."),
                Step::text("It has ended."),
            ]
        },
        acts: &[Prompt("Run it"), Answer("allow_once"), Done, Listen(6_000)],
        agents: &[AcpAgent::Claude],
    },
];

fn said(text: &str, call: Part) -> Step {
    Step::new(Completion::of([Part::text(text), call]))
}

fn stalled(text: &str) -> Step {
    Step::text(&text.repeat(20)).fault(Fault::Stall { after: 4_000, lasts_ms: None, comment_every_ms: None })
}

fn read(agent: AcpAgent, cwd: &Path) -> Part {
    let path = cwd.join("README.md");
    match agent {
        AcpAgent::Claude => Part::tool_call("Read", json!({"file_path": path})),
        AcpAgent::Codex => Part::tool_call("exec_command", json!({"cmd": "cat README.md"})),
        AcpAgent::Opencode => Part::tool_call("read", json!({"filePath": path})),
    }
}

/// A command. `asks`: Codex asks only if the model wants to leave the sandbox.
fn shell(agent: AcpAgent, command: &str, asks: bool) -> Part {
    match agent {
        AcpAgent::Claude => {
            Part::tool_call("Bash", json!({"command": command, "description": "As scripted"}))
        }
        AcpAgent::Codex if asks => Part::tool_call(
            "exec_command",
            json!({"cmd": command, "sandbox_permissions": "require_escalated", "justification": "May I?"}),
        ),
        AcpAgent::Codex => Part::tool_call("exec_command", json!({"cmd": command})),
        AcpAgent::Opencode => {
            Part::tool_call("bash", json!({"command": command, "description": "As scripted"}))
        }
    }
}

/// A client that writes down everything.
struct Client {
    work: PathBuf,
    home: AcpHome,
    process: AcpProcess,
    begun: Instant,
    number: u64,
    rows: Vec<Value>,
    last_id: u64,
    session: String,
    /// Requests of the agent without an answer.
    asked: Vec<Value>,
    /// The ids of responses that have come.
    responses: Vec<Value>,
    /// The permission that may come before an act is answered with this kind.
    answers: Option<&'static str>,
}

impl Client {
    async fn write(&mut self, message: Value) {
        self.row("in", &message);
        self.process.say(&message).await.unwrap();
    }

    fn row(&mut self, direction: &str, message: &Value) {
        let millis = self.begun.elapsed().as_millis() as u64;
        let mut row = json!({"t_ms": millis, "dir": direction, "line": message});
        if self.number > 0 {
            row["proc"] = json!(self.number);
        }
        self.rows.push(row);
    }

    async fn request(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.write(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    /// The next message. A permission is answered if the scene says so.
    async fn next(&mut self) -> Value {
        let message = self.process.next("a message").await.unwrap();
        self.row("out", &message);
        if message["method"].is_null() {
            self.responses.push(message["id"].clone());
        } else if !message["id"].is_null() {
            self.asked.push(message.clone());
            if let Some(kind) = self.answers {
                self.answer(kind).await;
            }
        }
        message
    }

    async fn response(&mut self, id: u64) -> Value {
        loop {
            let message = self.next().await;
            if message["id"] == id && message["method"].is_null() {
                return message;
            }
        }
    }

    async fn open(&mut self, method: &str) {
        let capabilities = json!({"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true, "elicitation": {"form": {}}});
        let client = json!({"name": "turnstream", "title": "Turnstream", "version": "0.1.0"});
        let params = json!({"protocolVersion": 1, "clientInfo": client, "clientCapabilities": capabilities});
        let id = self.request("initialize", params).await;
        self.response(id).await;
        let mut params = json!({"cwd": self.work, "mcpServers": []});
        if method != "session/new" {
            params["sessionId"] = json!(self.session);
        }
        let id = self.request(method, params).await;
        let opened = self.response(id).await;
        if let Some(session) = opened["result"]["sessionId"].as_str() {
            self.session = session.to_owned();
        }
    }

    async fn answer(&mut self, kind: &str) {
        for asked in std::mem::take(&mut self.asked) {
            let params = &asked["params"];
            let result = if asked["method"] == "elicitation/create" {
                let fields = params["requestedSchema"]["properties"].as_object().cloned().unwrap_or_default();
                let first = |field: &Value| {
                    let one = field["oneOf"][0]["const"].clone();
                    if one.is_null() { field["enum"][0].clone() } else { one }
                };
                let content: serde_json::Map<String, Value> = fields
                    .iter()
                    .map(|(name, field)| (name.clone(), first(field)))
                    .filter(|(_, value)| !value.is_null())
                    .collect();
                match kind {
                    "accept" => json!({"action": "accept", "content": content}),
                    other => json!({"action": other}),
                }
            } else if kind == "cancelled" {
                json!({"outcome": {"outcome": "cancelled"}})
            } else {
                let options = params["options"].as_array().cloned().unwrap_or_default();
                let chosen = options.iter().find(|option| option["kind"] == kind).unwrap_or(&options[0]);
                json!({"outcome": {"outcome": "selected", "optionId": chosen["optionId"]}})
            };
            self.write(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result})).await;
        }
    }
}

async fn play(agent: AcpAgent, scene: &Scene) -> Vec<Value> {
    let work = tempfile::tempdir().unwrap();
    // Requests besides the conversation are not answered by its steps.
    let mark = scene.acts.iter().find_map(|act| match act {
        Prompt(text) => Some(*text),
        _ => None,
    });
    // A step that stays must not answer all prompts.
    let mark = mark.filter(|_| scene.name != "error").unwrap_or_default();
    let script = Script::new(
        AcpAgent::TITLE_TEXTS
            .map(|text| Step::text("A title").for_any_user_text(text).always())
            .into_iter()
            .chain([Step::text("A title").for_model(Opencode::TITLE_MODEL).always()])
            .chain(
                (scene.steps)(agent, work.path())
                    .into_iter()
                    .map(|step| if mark.is_empty() { step } else { step.for_any_user_text(mark) }),
            ),
    );
    let provider = Provider::start(script).await.unwrap();
    let home = AcpHome::new(agent, &provider.base_url()).unwrap();
    std::fs::write(work.path().join("README.md"), "# Demo\n\nFirst line.\n").unwrap();
    if agent == AcpAgent::Opencode {
        let ask = json!({"permission": {"bash": "ask"}});
        std::fs::write(work.path().join("opencode.json"), ask.to_string()).unwrap();
    }
    let process = home.start().unwrap();
    let mut client = Client {
        work: work.path().to_owned(),
        home,
        process,
        begun: Instant::now(),
        number: 0,
        rows: Vec::new(),
        last_id: 0,
        session: String::new(),
        asked: Vec::new(),
        responses: Vec::new(),
        answers: None,
    };
    client.open("session/new").await;
    let mut prompt = 0;
    for (place, act) in scene.acts.iter().enumerate() {
        match *act {
            Prompt(text) => {
                // An answer that no act waits for.
                client.answers = match scene.acts.get(place + 1) {
                    Some(Answer(kind)) => Some(kind),
                    _ => None,
                };
                let content = json!([{"type": "text", "text": text}]);
                let params = json!({"sessionId": client.session, "prompt": content});
                prompt = client.request("session/prompt", params).await;
            }
            Done => {
                while !client.responses.contains(&json!(prompt)) {
                    client.next().await;
                }
            }
            Until(file) if file.ends_with(".txt") => {
                let path = client.work.join(file);
                while !path.exists() {
                    if let Ok(_message) =
                        tokio::time::timeout(std::time::Duration::from_millis(100), client.next()).await
                    {
                    }
                }
            }
            Until(name) => loop {
                let message = client.next().await;
                let update = &message["params"]["update"];
                let text = update["content"]["text"].as_str().unwrap_or("x");
                if message["method"].is_null() {
                    println!("  ended without {name}");
                    break;
                }
                if message["method"] == name || (update["sessionUpdate"] == name && !text.is_empty()) {
                    break;
                }
            },
            Answer(kind) => client.answer(kind).await,
            Cancel => {
                let params = json!({"sessionId": client.session});
                client.write(json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params})).await;
            }
            Listen(millis) => {
                let until = tokio::time::Instant::now() + std::time::Duration::from_millis(millis);
                while tokio::time::timeout_at(until, client.next()).await.is_ok() {}
            }
            Restart(method) => {
                client.process = client.home.start().unwrap();
                client.number += 1;
                client.open(method).await;
            }
        }
    }
    let home = client.home.home();
    let places = [
        (work.path().display().to_string(), "/workspace"),
        (home.display().to_string(), "/home/user"),
        (provider.base_url(), "http://127.0.0.1:4000"),
    ];
    let rows = client.rows.iter().map(|row| {
        let mut text = row.to_string();
        for (from, to) in &places {
            text = text.replace(from.as_str(), to);
        }
        serde_json::from_str(&text).unwrap()
    });
    rows.collect()
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("the folder for the captures");
    let wanted = arguments.next();
    for scene in SCENES {
        for agent in scene.agents {
            let name =
                format!("{}_{}", agent.title().split_whitespace().collect::<Vec<_>>().join("_"), scene.name);
            if wanted.as_ref().is_some_and(|wanted| !name.contains(wanted.as_str())) {
                continue;
            }
            println!("{name}");
            let rows = play(*agent, scene).await;
            let text: String = rows.iter().map(|row| row.to_string() + "\n").collect();
            std::fs::write(Path::new(&folder).join(format!("{name}.ndjson")), text).unwrap();
        }
    }
}
