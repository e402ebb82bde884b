//! The frames of a session as the body of a response.

use super::carrier::{self, Carrier};
use super::heartbeat::HeartbeatTimer;
use super::hub::End;
use super::subscriber::{Piece, Subscriber};
use crate::params::Heartbeat;
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use std::time::Duration;
use turnstream_model::cursor::CursorOutcome;

/// Bytes after which a stream lets the others go first. Without it one reader would run ahead by all that its socket takes, and
/// the others would no longer share what it was handed.
const FAIR: usize = 64 * 1024;

/// The log could not be read: the connection breaks off, and the client comes back with its cursor.
#[derive(Debug, thiserror::Error)]
#[error("the log cannot be read: {0}")]
pub(crate) struct Broken(String);

struct Sse {
    subscriber: Subscriber,
    outcome: Option<CursorOutcome>,
    pulse: HeartbeatTimer,
    heartbeat: Heartbeat,
    handed_out: usize,
    ended: bool,
}

/// A response that is an event stream and that nobody may keep or hold back.
pub(crate) fn sse_response(body: Body) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// The outcome of the cursor, then every frame, then what makes it end.
pub(crate) fn sse_body(
    subscriber: Subscriber,
    outcome: CursorOutcome,
    heartbeat: Heartbeat,
    every: Duration,
) -> Body {
    let sse = Sse {
        subscriber,
        outcome: Some(outcome),
        pulse: HeartbeatTimer::new(every),
        heartbeat,
        handed_out: 0,
        ended: false,
    };
    Body::from_stream(stream::unfold(sse, |mut sse| async move {
        let bytes = sse.next().await?;
        Some((bytes, sse))
    }))
}

impl Sse {
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        if self.ended {
            return None;
        }
        if let Some(outcome) = self.outcome.take() {
            return Some(Ok(Carrier::Sse.outcome(&outcome)));
        }
        if self.handed_out >= FAIR {
            self.handed_out = 0;
            tokio::task::yield_now().await;
        }
        let piece = tokio::select! {
            biased;
            piece = self.subscriber.next() => piece,
            () = self.pulse.due() => {
                self.pulse.said();
                return Some(Ok(alive(self.heartbeat)));
            }
        };
        self.pulse.said();
        match piece {
            Piece::Frames(bytes) => {
                self.handed_out += bytes.len();
                Some(Ok(bytes))
            }
            Piece::End(end) => {
                self.ended = true;
                Some(match end {
                    End::Closing => Ok(carrier::closing()),
                    // A reader that is behind begins anew by itself, and never ends so.
                    End::Gone | End::Behind => Ok(carrier::gone()),
                    End::Failed(problem) => Err(Broken(problem)),
                })
            }
        }
    }
}

/// A sign of life.
pub(crate) fn alive(heartbeat: Heartbeat) -> Bytes {
    match heartbeat {
        Heartbeat::Comment => carrier::heartbeat_comment(),
        Heartbeat::Data => carrier::heartbeat_data(),
    }
}
