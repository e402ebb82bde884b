//! The events of opencode's API, as a client sees them that opens the stream again when it breaks.

use crate::support::{PATIENCE, ask, token_of};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// One stream of all sessions.
pub(crate) struct Events(BufReader<TcpStream>);

impl Events {
    /// Opens a stream, which begins with `server.connected`.
    pub(crate) fn open(address: &str) -> Self {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let token = token_of(address);
        let head = format!(
            "GET /opencode/global/event HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).unwrap();
        let mut events = Self(BufReader::new(socket));
        assert_eq!(events.next().unwrap()["type"], "server.connected");
        events
    }

    /// The next event; nothing when the gateway is gone.
    pub(crate) fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str::<Value>(data).unwrap()["payload"].clone());
            }
        }
    }
}

/// Reads streams to their ends, in the background.
#[derive(Default)]
pub(crate) struct Watch {
    /// The events of each stream so far.
    streams: Mutex<Vec<Arc<Mutex<Vec<Value>>>>>,
}

impl Watch {
    /// Opens a stream of the gateway at this address. It ends with the gateway.
    pub(crate) fn open(&self, address: &str) {
        let (mut events, seen) = (Events::open(address), Arc::new(Mutex::new(Vec::new())));
        self.streams.lock().unwrap().push(seen.clone());
        std::thread::spawn(move || {
            while let Some(event) = events.next() {
                seen.lock().unwrap().push(event);
            }
        });
    }

    /// Waits until a session is idle here too. Then it has been busy once and idle once in each of its turns,
    /// and nothing of an answer came while it was idle. `session` is the gateway's own id.
    pub(crate) fn assert_idle_once(&self, address: &str, session: &str, turns: usize) {
        let (_, info) = ask(address, "GET", &format!("/opencode/session/{session}"), &json!({}));
        let id = info["id"].as_str().unwrap();
        let begun = Instant::now();
        loop {
            let account = self.account(id);
            assert!(account.wrong.is_empty(), "{session}, {turns} turns: {account:#?}");
            if account.is_settled(turns) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{session}, {turns} turns: {account:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn account(&self, id: &str) -> Account {
        let mut account = Account::default();
        for (number, stream) in self.streams.lock().unwrap().iter().enumerate() {
            account.is_repeat = number > 0;
            account.missed += usize::from(account.is_busy);
            let events = stream.lock().unwrap().clone();
            let of_session = |event: &&Value| event["properties"]["sessionID"] == id;
            for event in events.iter().filter(of_session) {
                account.add(event);
            }
        }
        account
    }
}

/// What the streams told of a session.
#[derive(Debug, Default)]
struct Account {
    is_busy: bool,
    /// The last status was a retry. What it replaces may go before the next status.
    is_retrying: bool,
    /// The stream repeats what was before it, up to its first status.
    is_repeat: bool,
    /// Turns that were open when a stream ended. Their end may have come before the next stream.
    missed: usize,
    busy: usize,
    idle: usize,
    last: String,
    wrong: Vec<String>,
}

impl Account {
    fn add(&mut self, event: &Value) {
        let (kind, properties) = (event["type"].as_str().unwrap(), &event["properties"]);
        let status = properties["status"]["type"].as_str().unwrap_or_default();
        let is_repeat = self.is_repeat;
        let mut check = |is_right: bool, what: &str| {
            if !is_right && !is_repeat {
                self.wrong.push(format!("{what}: {event}"));
            }
        };
        match (kind, status) {
            ("session.status", "busy") => {
                check(!self.is_busy || self.is_retrying, "busy again");
                self.busy += usize::from(!self.is_busy && !is_repeat);
                (self.is_busy, self.is_repeat) = (true, false);
            }
            ("session.status", "retry") => {
                check(self.is_busy, "a retry of nothing");
                (self.is_busy, self.is_repeat) = (true, false);
            }
            ("session.status", "idle") => {
                check(self.is_busy, "idle again");
                (self.is_busy, self.is_repeat) = (false, false);
            }
            // A session that began in this stream.
            ("session.created", _) => self.is_repeat = false,
            ("session.idle", _) => {
                check(self.last == "idle", "session.idle without its status");
                self.idle += 1;
            }
            ("message.part.updated" | "message.part.delta" | "permission.asked" | "question.asked", _) => {
                check(self.is_busy || self.last == "user", "work without a turn");
            }
            ("message.updated", _) if properties["info"]["role"] == "assistant" => {
                check(self.is_busy, "an answer without a turn");
            }
            _ => {}
        }
        if kind == "session.status" {
            self.is_retrying = status == "retry";
        }
        self.last = match kind {
            "session.status" => status.to_owned(),
            "message.updated" if properties["info"]["role"] == "user" => "user".to_owned(),
            // The parts of a message of the user follow it.
            "message.part.updated" if self.last == "user" => "user".to_owned(),
            other => other.to_owned(),
        };
    }

    /// Whether all that is expected was told.
    fn is_settled(&self, turns: usize) -> bool {
        !self.is_busy && self.busy == turns && (self.idle..=self.idle + self.missed).contains(&turns)
    }
}
