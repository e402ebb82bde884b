//! The frames of a session as an event stream.

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
use turnstream_gateway::RequestError;
use turnstream_model::cursor::CursorOutcome;

/// Bytes after which a stream yields to the others. Otherwise one reader would run ahead by the size of its
/// socket's buffer, and would not share chunks with the others.
const FAIR: usize = 64 * 1024;

/// The log could not be read: the connection is cut, and the client reconnects with its cursor.
#[derive(Debug, thiserror::Error)]
#[error("the stream ended")]
pub(crate) struct Broken(#[source] RequestError);

struct Sse {
    subscriber: Subscriber,
    outcome: Option<CursorOutcome>,
    timer: HeartbeatTimer,
    heartbeat: Heartbeat,
    handed_out: usize,
    ended: bool,
}

/// An event stream as a response that proxies must not buffer. No response is cached.
pub(crate) fn sse_response(body: Body) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// The outcome of the cursor, then every frame, then the reason for the end.
pub(crate) fn sse_body(
    subscriber: Subscriber,
    outcome: CursorOutcome,
    heartbeat: Heartbeat,
    every: Duration,
) -> Body {
    let sse = Sse {
        subscriber,
        outcome: Some(outcome),
        timer: HeartbeatTimer::new(every),
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
            () = self.timer.due() => {
                self.timer.sent();
                return Some(Ok(alive(self.heartbeat)));
            }
        };
        self.timer.sent();
        match piece {
            Piece::Frames(bytes) => {
                self.handed_out += bytes.len();
                Some(Ok(bytes))
            }
            Piece::End(end) => {
                self.ended = true;
                Some(match end {
                    End::Closing => Ok(carrier::closing()),
                    // `Behind` is handled by the subscriber, and does not end a stream.
                    End::Gone | End::Behind => Ok(carrier::gone()),
                    End::Failed(error) => Err(Broken(error)),
                })
            }
        }
    }
}

/// A heartbeat.
pub(crate) fn alive(heartbeat: Heartbeat) -> Bytes {
    match heartbeat {
        Heartbeat::Comment => carrier::heartbeat_comment(),
        Heartbeat::Data => carrier::heartbeat_data(),
    }
}
