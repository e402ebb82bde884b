//! Plays an exit in a session: only by HTTP, and by signals to processes.

use super::exit::{Act, Exit, Permissions, Sign};
use super::stage::{AGENT, Stage, mark};
use super::subject::{SessionPlace, Text};
use crate::support::{PATIENCE, ask};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A session in which an exit is played.
pub(super) struct Play<'a> {
    stage: &'a Stage,
    exit: &'a Exit,
    cwd: PathBuf,
    session: String,
    /// The events so far.
    log: Vec<Value>,
}

impl<'a> Play<'a> {
    /// Makes the session.
    pub(super) fn begin(stage: &'a Stage, exit: &'a Exit) -> Self {
        let cwd = stage.prepare(exit);
        let permissions = match exit.permissions {
            Permissions::Ask => "ask",
            Permissions::Allow => "allow",
        };
        let body = json!({"agent": AGENT, "cwd": cwd, "permissions": permissions});
        let (head, answer) = ask(&stage.address(), "POST", "/v1/sessions", &body);
        assert!(head.starts_with("http/1.1 201"), "{head} {answer}");
        let session = answer["id"].as_str().unwrap().to_owned();
        Self { stage, exit, cwd, session, log: Vec::new() }
    }

    /// Plays all acts.
    pub(super) fn play_all_acts(&mut self) {
        for act in self.exit.acts {
            self.act(*act);
        }
    }

    /// Does one act.
    pub(super) fn act(&mut self, act: Act) {
        match act {
            Act::Prompt(text) => {
                let text = format!("{} {text}", mark(self.exit));
                self.post("prompts", &json!({"content": [{"type": "text", "text": text}]}));
            }
            Act::Until(sign) => self.until(sign),
            Act::Cancel => self.post("cancel", &json!({})),
            Act::Allow => self.resolve("allow_once"),
            Act::Reject => self.resolve("reject"),
            Act::Answer(option) => {
                let asked = self.open("question.asked", "question.answered", "question").unwrap();
                let id = asked["questions"][0]["id"].as_str().unwrap();
                let path = format!("questions/{}", asked["question"].as_str().unwrap());
                self.post(&path, &json!({"answers": {id: [option]}}));
            }
            Act::FreezeAgent => self.stage.signal_agent(Signal::STOP),
            Act::ThawAgent => self.stage.signal_agent(Signal::CONT),
            Act::KillAgent => self.stage.signal_agent(Signal::KILL),
            Act::KillGateway => self.stage.kill_gateway(),
            Act::Touch(name) => std::fs::write(self.cwd.join(name), "").unwrap(),
            Act::Missing(name) => assert!(!self.cwd.join(name).exists(), "{}: {name}", self.exit.name),
        }
    }

    /// The session's log as an export.
    pub(super) fn export(&self) -> String {
        self.stage.get_text(&format!("/v1/sessions/{}/export?format=jsonl", self.session))
    }

    /// A client of opencode's API has seen each of these turns busy once and idle once.
    pub(super) fn assert_idle_once_for_clients_of_opencode(&self, turns: usize) {
        self.stage.watch.assert_idle_once(&self.stage.address(), &self.session, turns);
    }

    /// The working directory.
    pub(super) fn cwd(&self) -> &Path {
        &self.cwd
    }

    pub(super) fn snapshot(&self) -> Value {
        self.get("snapshot")
    }

    /// What the agent itself has of the session.
    pub(super) fn stored(&self, native_id: &str) -> Vec<Text> {
        let Stage { home, runtime, agent, .. } = self.stage;
        agent.stored(&SessionPlace { gateway: home, runtime, cwd: &self.cwd, native_id })
    }

    /// All events until now.
    pub(super) fn read_log(&mut self) -> &[Value] {
        loop {
            let page = self.get(&format!("log?limit=500&from={}", self.log.len() + 1));
            let events = page["events"].as_array().unwrap();
            if events.is_empty() {
                return &self.log;
            }
            self.log.extend(events.iter().cloned());
        }
    }

    fn until(&mut self, sign: Sign) {
        let begun = Instant::now();
        while !self.shows(sign) {
            if begun.elapsed() > PATIENCE {
                let (exit, errors) = (self.exit.name, self.stage.gateway_errors());
                panic!("{exit}: no {sign:?}; the log: {:#?}\nthe gateway's errors: {errors}", self.log);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn shows(&mut self, sign: Sign) -> bool {
        self.read_log();
        let count = |kind: &str| self.log.iter().filter(|event| event["type"] == kind).count();
        match sign {
            Sign::Text => self.log.iter().any(|event| {
                event["type"] == "item.delta" && event["field"].is_null() && event["text"] != ""
            }),
            Sign::Approval => self.open("approval.requested", "approval.resolved", "approval").is_some(),
            Sign::Question => self.open("question.asked", "question.answered", "question").is_some(),
            Sign::Sent(prompts) => count("prompt.sent") >= prompts,
            Sign::Retrying => self.log.iter().any(|event| event["status"] == "retrying"),
            Sign::HalfCharacter => {
                self.log.iter().any(|event| event["tool"].to_string().contains('\u{FFFD}'))
            }
            Sign::File(name) => self.cwd.join(name).exists(),
            Sign::Ended(turns) => {
                let is_settled = count("turn.ended") >= turns && {
                    let state = self.snapshot();
                    state["session"]["status"] == "idle"
                        && state["queue"].as_array().is_some_and(Vec::is_empty)
                };
                // What was still on its way when the session became quiet.
                self.read_log();
                is_settled
            }
        }
    }

    /// The first ask without an outcome.
    fn open(&self, asked: &str, settled: &str, id: &str) -> Option<&Value> {
        let is_settled =
            |ask: &Value| self.log.iter().any(|event| event["type"] == settled && event[id] == ask[id]);
        self.log.iter().find(|event| event["type"] == asked && !is_settled(event))
    }

    fn resolve(&mut self, outcome: &str) {
        let asked = self.open("approval.requested", "approval.resolved", "approval").unwrap();
        let path = format!("approvals/{}", asked["approval"].as_str().unwrap());
        self.post(&path, &json!({"outcome": outcome}));
    }

    fn post(&self, path: &str, body: &Value) {
        let path = format!("/v1/sessions/{}/{path}", self.session);
        let (head, answer) = ask(&self.stage.address(), "POST", &path, body);
        assert!(head.starts_with("http/1.1 2"), "{}: POST {path}: {head} {answer}", self.exit.name);
    }

    fn get(&self, path: &str) -> Value {
        let path = format!("/v1/sessions/{}/{path}", self.session);
        let (head, answer) = ask(&self.stage.address(), "GET", &path, &json!({}));
        assert!(head.starts_with("http/1.1 200"), "{}: GET {path}: {head} {answer}", self.exit.name);
        answer
    }
}
