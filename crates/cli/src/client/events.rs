//! A session's events over SSE. After a break it reconnects with the last id, so the caller sees each event
//! once.

use super::{Away, Client, ClientError, refusal, segment, unreachable};
use reqwest::{Method, Response};
use serde_json::Value;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use turnstream_sse::{Decoder, Frame};

/// The longest silence of a stream: a gateway sends heartbeats more often.
const SILENCE: Duration = Duration::from_secs(60);
/// How long a gateway that does not answer is waited for: long enough for a restart.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many events are read ahead.
const AHEAD: usize = 64;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// An element of the stream.
pub(crate) enum Received {
    /// The first frame of each connection: whether the cursor was found.
    Outcome(Value),
    /// One event: its JSON line, and the parsed value.
    Event { line: String, event: Value },
    /// The connection was lost. It is reported once; an `Outcome` follows after the reconnect.
    Away(ClientError),
}

/// A stream of one session's events. A task of its own reads it.
pub(crate) struct Events {
    received: mpsc::Receiver<Result<Received, ClientError>>,
    reading: JoinHandle<()>,
}

impl Events {
    pub(super) fn new(client: Client, session: &str, after: &str) -> Self {
        let (sender, received) = mpsc::channel(AHEAD);
        let mut reader = Reader {
            client,
            session: session.to_owned(),
            cursor: after.to_owned(),
            response: None,
            decoder: Decoder::new(),
            waiting: VecDeque::new(),
            heard: Instant::now(),
            away: None,
            pause: FIRST_PAUSE,
        };
        let reading = tokio::spawn(async move {
            loop {
                let next = reader.next().await;
                let is_over = next.is_err();
                if sender.send(next).await.is_err() || is_over {
                    return;
                }
            }
        });
        Self { received, reading }
    }

    /// Waits for the next element, also over a reconnect. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Received, ClientError> {
        match self.received.recv().await {
            Some(received) => received,
            // The task ends only after an error, and callers stop at an error.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

struct Reader {
    client: Client,
    session: String,
    cursor: String,
    response: Option<Response>,
    decoder: Decoder,
    waiting: VecDeque<Received>,
    /// When the last bytes came.
    heard: Instant,
    /// Since when the gateway does not answer.
    away: Option<Instant>,
    pause: Duration,
}

impl Reader {
    async fn next(&mut self) -> Result<Received, ClientError> {
        loop {
            if let Some(received) = self.waiting.pop_front() {
                return Ok(received);
            }
            match self.read().await {
                Ok(()) => {}
                Err(error) if error.may_pass() => match self.away {
                    Some(since) => self.wait(since, error).await?,
                    None => {
                        (self.response, self.away) = (None, Some(Instant::now()));
                        return Ok(Received::Away(error));
                    }
                },
                Err(error) => return Err(error),
            }
        }
    }

    async fn wait(&mut self, since: Instant, error: ClientError) -> Result<(), ClientError> {
        self.response = None;
        if since.elapsed() > PATIENCE {
            return Err(error);
        }
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }

    async fn read(&mut self) -> Result<(), ClientError> {
        let broken = |problem: &str| ClientError::Unreachable {
            url: self.client.base.clone(),
            problem: Away(problem.to_owned()),
        };
        let response = match &mut self.response {
            Some(response) => response,
            none => {
                let within = if self.away.is_some() { PATIENCE } else { super::DEADLINE };
                let opened = timeout(within, open(&self.client, &self.session, &self.cursor)).await;
                let response = opened.map_err(|_| broken("it took too long"))??;
                (self.decoder, self.heard) = (Decoder::new(), Instant::now());
                none.insert(response)
            }
        };
        let chunk = timeout_at(self.heard + SILENCE, response.chunk()).await;
        let chunk = chunk.map_err(|_| broken("it says nothing any more"))?;
        let chunk = chunk.map_err(|error| unreachable(&self.client.base, &error))?;
        let chunk = chunk.ok_or_else(|| broken("it ended the connection"))?;
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
    let url = format!("{}/v1/sessions/{}/events?after={}", client.base, segment(session), segment(cursor));
    let request = client.request(Method::GET, &url)?;
    let response = client.send(request).await?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = response.bytes().await.map_err(|error| unreachable(&client.base, &error))?;
    Err(refusal::read(&client.base, status, &body))
}
