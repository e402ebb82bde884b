//! A session's events over SSE. A break is mended by coming back with the last id, so the caller sees each event once.

use super::{Client, ClientError, refused, segment, unreachable};
use reqwest::{Method, Response};
use serde_json::Value;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use turnstream_sse::{Decoder, Frame};

/// A gateway says something at least this often, if only that it is alive.
const SILENCE: Duration = Duration::from_secs(60);
/// How long a gateway may be away before it is given up.
const PATIENCE: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What a stream brings.
pub(crate) enum Received {
    /// What became of the cursor, each time the stream begins.
    Outcome(Value),
    /// One event: its line and what is in it.
    Event { line: String, event: Value },
}

/// A stream of one session's events.
pub(crate) struct Events {
    client: Client,
    session: String,
    cursor: String,
    response: Option<Response>,
    decoder: Decoder,
    waiting: VecDeque<Received>,
    /// When the gateway last said something. Kept, because a caller may drop a wait and begin it again.
    heard: Instant,
    /// Since when the gateway is away.
    away: Option<Instant>,
    pause: Duration,
}

impl Events {
    pub(super) fn new(client: Client, session: &str, after: &str) -> Self {
        Self {
            client,
            session: session.to_owned(),
            cursor: after.to_owned(),
            response: None,
            decoder: Decoder::new(),
            waiting: VecDeque::new(),
            heard: Instant::now(),
            away: None,
            pause: FIRST_PAUSE,
        }
    }

    /// The next one; waits for it, and for a gateway that is away. Safe to drop and call again.
    pub(crate) async fn next(&mut self) -> Result<Received, ClientError> {
        loop {
            if let Some(received) = self.waiting.pop_front() {
                return Ok(received);
            }
            match self.read().await {
                Ok(()) => {}
                Err(error) if error.may_pass() => self.wait(error).await?,
                Err(error) => return Err(error),
            }
        }
    }

    async fn wait(&mut self, error: ClientError) -> Result<(), ClientError> {
        self.response = None;
        let away = *self.away.get_or_insert_with(Instant::now);
        if away.elapsed() > PATIENCE {
            return Err(error);
        }
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }

    async fn read(&mut self) -> Result<(), ClientError> {
        let broken = |problem: &str| ClientError::Unreachable {
            url: self.client.base.clone(),
            problem: problem.to_owned(),
        };
        let response = match &mut self.response {
            Some(response) => response,
            none => {
                let response = open(&self.client, &self.session, &self.cursor).await?;
                (self.decoder, self.heard) = (Decoder::new(), Instant::now());
                none.insert(response)
            }
        };
        let chunk = timeout_at(self.heard + SILENCE, response.chunk()).await;
        let chunk = chunk.map_err(|_| broken("the stream went silent"))?;
        let chunk = chunk.map_err(|error| unreachable(&self.client.base, &error))?;
        let chunk = chunk.ok_or_else(|| broken("the stream ended"))?;
        (self.heard, self.away, self.pause) = (Instant::now(), None, FIRST_PAUSE);
        let mut frames = self.decoder.feed(&chunk);
        while let Some(frame) = frames.next_frame() {
            let Frame::Event(frame) = frame else { continue };
            let line = frame.data.to_string();
            let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
            match frame.id {
                Some(id) => {
                    self.cursor = id.to_owned();
                    self.waiting.push_back(Received::Event { line, event });
                }
                // The gateway shuts down: the end of the stream follows.
                None if event["outcome"] == "closing" => {}
                None if event["type"] == "stream" => self.waiting.push_back(Received::Outcome(event)),
                None => {}
            }
        }
        Ok(())
    }
}

async fn open(client: &Client, session: &str, cursor: &str) -> Result<Response, ClientError> {
    let url = format!("{}/v1/sessions/{}/events", client.base, segment(session));
    let request = client.request(Method::GET, &url)?.header("last-event-id", cursor);
    let response = request.send().await.map_err(|error| unreachable(&client.base, &error))?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = response.bytes().await.map_err(|error| unreachable(&client.base, &error))?;
    Err(refused(&url, status, &body))
}
