//! An editor that is a test: it speaks JSON-RPC with `turnstream acp`.

use crate::judge::{Judge, Side};
use crate::support::{Home, PATIENCE, prompt};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

/// A running `turnstream acp`. Killed with the test.
pub(crate) struct Editor {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    judge: Judge,
    last_id: u64,
    /// Everything that came, in order.
    pub(crate) seen: Vec<Value>,
    /// How much of that was looked at by [`Editor::until`].
    read: usize,
}

impl Editor {
    /// Starts the agent. Nothing is sent.
    pub(crate) fn start(home: &Home, args: &[&str]) -> Self {
        Self::spawn(home.command(&[&["acp"], args].concat()))
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let (sender, messages) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line);
                let message = message.unwrap_or_else(|_| panic!("standard output has {line:?}"));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        let judge = Judge::default();
        Self { child, input, messages, judge, last_id: 0, seen: Vec::new(), read: 0 }
    }

    /// Starts the agent and initializes it, with these capabilities.
    pub(crate) fn ready(home: &Home, args: &[&str], capabilities: Value) -> Self {
        let mut editor = Self::start(home, args);
        editor.initialize(capabilities);
        editor
    }

    pub(crate) fn initialize(&mut self, capabilities: Value) -> Value {
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
        self.ask("initialize", params).unwrap()
    }

    /// Sends bytes as they are.
    pub(crate) fn send_raw(&mut self, text: &str) {
        self.input.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.judge.check(Side::Editor, message);
        self.send_raw(&format!("{message}\n"));
    }

    /// Sends a request, and returns its id.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub(crate) fn respond(&mut self, request: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Waits for the next message that is meant. All before it are skipped, and stay in `seen`.
    pub(crate) fn until(&mut self, what: &str, mut is_meant: impl FnMut(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            while let Some(message) = self.seen.get(self.read) {
                self.read += 1;
                if is_meant(message) {
                    return message.clone();
                }
            }
            assert!(begun.elapsed() < PATIENCE, "no {what} in: {:#?}", self.seen);
            match self.messages.recv_timeout(PATIENCE) {
                Ok(message) => {
                    self.judge.check(Side::Agent, &message);
                    self.seen.push(message);
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no {what} in: {:#?}", self.seen)
                }
            }
        }
    }

    /// Waits for the answer to a request, also if it came already.
    pub(crate) fn answer(&mut self, id: u64) -> Result<Value, Value> {
        let is_it = |message: &Value| message["id"] == id && message.get("method").is_none();
        let found = self.seen.iter().find(|message| is_it(message)).cloned();
        let answer = found.unwrap_or_else(|| self.until(&format!("answer to {id}"), is_it));
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].clone()),
        }
    }

    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.request(method, params);
        self.answer(id)
    }

    /// Makes a session in the working directory, and returns its id.
    pub(crate) fn new_session(&mut self, home: &Home) -> String {
        let params = json!({"cwd": home.path("work"), "mcpServers": []});
        self.ask("session/new", params).unwrap()["sessionId"].as_str().unwrap().to_owned()
    }

    /// Sends a script of the scripted agent as a prompt.
    pub(crate) fn play(&mut self, session: &str, script: &Value) -> u64 {
        let content = json!([{"type": "text", "text": prompt(script)}]);
        self.request("session/prompt", json!({"sessionId": session, "prompt": content}))
    }

    /// Waits for a request of the agent.
    pub(crate) fn asked(&mut self, method: &str) -> Value {
        self.until(method, |message| message["method"] == method && message.get("id").is_some())
    }

    /// Waits until the agent has written this.
    pub(crate) fn until_text(&mut self, words: &str) {
        let mut all = String::new();
        let words_of = |message: &Value| text_of(message).unwrap_or_default().to_owned();
        for message in &self.seen[..self.read] {
            all += &words_of(message);
        }
        if !all.contains(words) {
            self.until(words, |message| {
                all += &words_of(message);
                all.contains(words)
            });
        }
    }

    /// Everything that the agent has written in this session.
    pub(crate) fn text(&self, session: &str) -> String {
        let of_session = self.seen.iter().filter(|message| message["params"]["sessionId"] == session);
        of_session.filter_map(text_of).collect()
    }

    /// The updates of a kind.
    pub(crate) fn updates(&self, kind: &str) -> Vec<&Value> {
        let updates = self.seen.iter().map(|message| &message["params"]["update"]);
        updates.filter(|update| update["sessionUpdate"] == kind).collect()
    }

    /// The place of the answer to a request among all messages.
    pub(crate) fn place_of_answer(&self, id: u64) -> usize {
        self.seen.iter().position(|message| message["id"] == id && message.get("method").is_none()).unwrap()
    }

    /// Closes the pipe, as an editor does, and waits until the agent has ended.
    pub(crate) fn close(mut self) -> std::process::ExitStatus {
        drop(self.input.take());
        self.child.wait().unwrap()
    }
}

/// The text of a chunk of the agent's answer.
fn text_of(message: &Value) -> Option<&str> {
    let update = &message["params"]["update"];
    if update["sessionUpdate"] != "agent_message_chunk" {
        return None;
    }
    update["content"]["text"].as_str()
}

impl Drop for Editor {
    fn drop(&mut self) {
        // One that hosts a gateway ends its agents first.
        drop(self.input.take());
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begun.elapsed() < crate::support::ENDED {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
