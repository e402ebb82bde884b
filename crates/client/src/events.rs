//! A session's events over SSE. After a break it reconnects with the last id, so the caller sees each event
//! once.

use crate::backoff::Backoff;
use crate::error::unreachable;
use crate::{Client, ClientError, segment};
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
/// How long one attempt to connect again may take.
const ATTEMPT: Duration = Duration::from_secs(5);
/// How many reads of a connection wait for the caller.
const AHEAD: usize = 16;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause for a caller that waits only a short time.
const SHORT_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause for a caller that waits as long as it takes.
const LONG_PAUSE: Duration = Duration::from_secs(3);

/// How long a gateway that does not answer is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// So long. Then the stream ends with the error.
    AtMost(Duration),
    /// For ever.
    Unlimited,
}

impl Default for Patience {
    /// Long enough for a restart.
    fn default() -> Self {
        Self::AtMost(Duration::from_secs(5))
    }
}

/// An element of the stream.
#[derive(Debug)]
pub enum Received {
    /// The first frame of each connection: whether the cursor was found.
    Outcome(Value),
    /// One event.
    Event {
        /// Its cursor.
        cursor: String,
        /// Its JSON, on one line.
        line: String,
    },
    /// The connection was lost. It is reported once; an `Outcome` follows after the reconnect.
    Away(ClientError),
}

/// A stream of one session's events. A task of its own reads it.
#[derive(Debug)]
pub struct Events {
    received: mpsc::Receiver<Result<Vec<Received>, ClientError>>,
    ready: VecDeque<Received>,
    reading: JoinHandle<()>,
}

impl Events {
    pub(crate) fn new(client: Client, session: &str, after: &str, patience: Patience) -> Self {
        let (sender, received) = mpsc::channel(AHEAD);
        let longest = match patience {
            Patience::AtMost(_) => SHORT_PAUSE,
            Patience::Unlimited => LONG_PAUSE,
        };
        let mut reader = Reader {
            client,
            session: session.to_owned(),
            cursor: after.to_owned(),
            patience,
            response: None,
            decoder: Decoder::new(),
            heard: Instant::now(),
            away: None,
            backoff: Backoff::new(FIRST_PAUSE, longest),
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
        Self { received, ready: VecDeque::new(), reading }
    }

    /// Waits for the next element, also over a reconnect. Cancel-safe.
    pub async fn next(&mut self) -> Result<Received, ClientError> {
        loop {
            if let Some(received) = self.ready.pop_front() {
                return Ok(received);
            }
            match self.received.recv().await {
                Some(received) => self.ready.extend(received?),
                // The task ends only after an error, and callers stop at an error.
                None => std::future::pending().await,
            }
        }
    }

    /// An element that is here already.
    pub fn ready(&mut self) -> Option<Received> {
        self.ready.pop_front()
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
    patience: Patience,
    response: Option<Response>,
    decoder: Decoder,
    /// When the last bytes came.
    heard: Instant,
    /// Since when the gateway does not answer.
    away: Option<Instant>,
    backoff: Backoff,
}

impl Reader {
    /// The elements of the next read that has any.
    async fn next(&mut self) -> Result<Vec<Received>, ClientError> {
        loop {
            match self.read().await {
                Ok(received) if received.is_empty() => {}
                Ok(received) => return Ok(received),
                Err(error) if error.may_pass() => match self.away {
                    Some(since) => self.wait(since, error).await?,
                    None => {
                        (self.response, self.away) = (None, Some(Instant::now()));
                        return Ok(vec![Received::Away(error)]);
                    }
                },
                Err(error) => return Err(error),
            }
        }
    }

    async fn wait(&mut self, since: Instant, error: ClientError) -> Result<(), ClientError> {
        self.response = None;
        match self.patience {
            Patience::AtMost(patience) if since.elapsed() > patience => return Err(error),
            Patience::AtMost(_) | Patience::Unlimited => {}
        }
        sleep(self.backoff.pause()).await;
        Ok(())
    }

    async fn read(&mut self) -> Result<Vec<Received>, ClientError> {
        let response = match &mut self.response {
            Some(response) => response,
            none => {
                let within = if self.away.is_some() { ATTEMPT } else { crate::DEADLINE };
                let opened = timeout(within, open(&self.client, &self.session, &self.cursor)).await;
                let response = opened.map_err(|_| self.client.broken("it took too long"))??;
                (self.decoder, self.heard) = (Decoder::new(), Instant::now());
                none.insert(response)
            }
        };
        let chunk = timeout_at(self.heard + SILENCE, response.chunk()).await;
        let chunk = chunk.map_err(|_| self.client.broken("it says nothing any more"))?;
        let chunk = chunk.map_err(|error| unreachable(self.client.base(), &error))?;
        let chunk = chunk.ok_or_else(|| self.client.broken("it ended the connection"))?;
        (self.heard, self.away) = (Instant::now(), None);
        self.backoff.reset();
        let mut received = Vec::new();
        let mut frames = self.decoder.feed(&chunk);
        while let Some(frame) = frames.next_frame() {
            let Frame::Event(frame) = frame else { continue };
            if let Some(id) = frame.id {
                id.clone_into(&mut self.cursor);
                received.push(Received::Event { cursor: id.to_owned(), line: frame.data.to_string() });
                continue;
            }
            let Ok(frame) = serde_json::from_str::<Value>(&frame.data.to_string()) else { continue };
            // `closing`: the gateway shuts down, and the end of the stream follows.
            if frame["type"] == "stream" && frame["outcome"] != "closing" {
                received.push(Received::Outcome(frame));
            }
        }
        Ok(received)
    }
}

async fn open(client: &Client, session: &str, cursor: &str) -> Result<Response, ClientError> {
    let path = format!("/v1/sessions/{}/events?after={}", segment(session), segment(cursor));
    let response = client.send(client.request(Method::GET, &path)?).await?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = response.bytes().await.map_err(|error| unreachable(client.base(), &error))?;
    Err(ClientError::read(client.base(), status.as_u16(), &body))
}
