//! Turns of the demo agent, one after the other in each session.

use super::gateway::GatewayClient;
use crate::lawful::{Tail, assert_lawful};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// How long a turn may take before the soak fails.
const PATIENCE: Duration = Duration::from_secs(300);
/// The pause between two turns of a session, at most.
const PAUSE_MS: u64 = 100;

/// A session with a stream of its events.
pub(super) struct Session {
    gateway: GatewayClient,
    id: String,
    events: reqwest::Response,
    /// The last line of the stream, if it is not complete yet.
    line: Vec<u8>,
    prompts: usize,
}

/// Runs turns in all sessions for that time, at least one in each. Returns the sessions, and how long each
/// prompt took to be accepted.
pub(super) async fn run(sessions: Vec<Session>, time: Duration) -> (Vec<Session>, Vec<Duration>) {
    let end = Instant::now() + time;
    let mut turns = JoinSet::new();
    for (place, session) in sessions.into_iter().enumerate() {
        turns.spawn(session.turns(fastrand::Rng::with_seed(place as u64), end));
    }
    let (sessions, latencies): (Vec<_>, Vec<_>) = turns.join_all().await.into_iter().unzip();
    (sessions, latencies.concat())
}

impl Session {
    pub(super) async fn create(gateway: &GatewayClient, cwd: &Path) -> Self {
        let created = gateway.post("/v1/sessions", &json!({"agent": "scripted", "cwd": cwd}), 201).await;
        let id = created["id"].as_str().expect("a session has an id").to_owned();
        let events = gateway.stream(&format!("/v1/sessions/{id}/events")).await;
        Self { gateway: gateway.clone(), id, events, line: Vec::new(), prompts: 0 }
    }

    /// Takes turns until that moment.
    async fn turns(mut self, mut rng: fastrand::Rng, end: Instant) -> (Self, Vec<Duration>) {
        let mut latencies = Vec::new();
        loop {
            // Before the first one too: sessions should not send at the same moment.
            tokio::time::sleep(Duration::from_millis(rng.u64(..PAUSE_MS))).await;
            latencies.push(self.turn().await);
            if Instant::now() >= end {
                return (self, latencies);
            }
        }
    }

    /// Sends a prompt and waits for the end of its turn. Returns how long the prompt took to be accepted.
    async fn turn(&mut self) -> Duration {
        let script = json!({
            "script": [
                {"do": "text", "text": "A turn with some words, and with a tool."},
                {"do": "tool", "title": "Look", "output": ["one\n", "two\n"]},
                {"do": "text", "text": "That was all."},
            ],
            "pace_ms": 2,
        });
        let body = json!({"content": [{"type": "text", "text": script.to_string()}]});
        let begun = Instant::now();
        self.gateway.post(&format!("/v1/sessions/{}/prompts", self.id), &body, 202).await;
        let took = begun.elapsed();
        self.prompts += 1;
        timeout(PATIENCE, self.turn_ended())
            .await
            .unwrap_or_else(|_| panic!("{}: the turn does not end", self.id));
        took
    }

    async fn turn_ended(&mut self) {
        loop {
            let chunk = self.events.chunk().await.unwrap_or_else(|error| panic!("{}: {error:?}", self.id));
            let chunk = chunk.unwrap_or_else(|| panic!("{}: the stream ended", self.id));
            self.line.extend_from_slice(&chunk);
            let complete = self.line.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let lines: Vec<u8> = self.line.drain(..complete).collect();
            if lines.split(|byte| *byte == b'\n').any(|line| line == b"event: turn.ended") {
                return;
            }
        }
    }

    /// Asserts that every prompt had its turn, and that every turn ended once.
    pub(super) async fn judge(&self) {
        let file = self.gateway.text(&format!("/v1/sessions/{}/export?wait=300", self.id)).await;
        let lines: Vec<&str> = file.lines().skip(1).collect();
        assert_lawful(lines.iter().copied(), Tail::Settled);
        let ended: Vec<Value> = lines
            .iter()
            .map(|line| serde_json::from_str::<Value>(line).expect("a line is an event"))
            .filter(|event| event["type"] == "turn.ended")
            .collect();
        let turns: BTreeSet<&str> = ended.iter().filter_map(|event| event["turn"].as_str()).collect();
        assert_eq!((ended.len(), turns.len()), (self.prompts, self.prompts), "{}: turns and ends", self.id);
        assert!(ended.iter().all(|event| event["outcome"] == "completed"), "{}: {ended:?}", self.id);
    }
}
