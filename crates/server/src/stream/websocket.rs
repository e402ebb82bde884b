//! The frames of a session as WebSocket messages: one object each.

use super::carrier::{CLOSING, GONE};
use super::heartbeat::HeartbeatTimer;
use super::hub::End;
use super::subscriber::{Piece, Subscriber};
use axum::Error;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, close_code};
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use memchr::memchr_iter;
use std::time::Duration;
use turnstream_model::cursor::CursorOutcome;

/// How long a client may take to hear that it is over.
const GOODBYE: Duration = Duration::from_secs(1);

/// Why the socket is closed.
pub(super) enum CloseReason {
    Closing,
    Deleted,
    Failed(String),
    /// The client went away, or said that it does.
    Gone,
}

/// Sends every frame until one side ends. `closing` returns when the gateway shuts down, whether or not the client reads.
pub(crate) async fn serve_session(
    socket: WebSocket,
    mut subscriber: Subscriber,
    outcome: CursorOutcome,
    every: Duration,
    closing: impl Future<Output = ()>,
) {
    let (mut sink, mut source) = socket.split();
    let reason = tokio::select! {
        reason = send(&mut sink, &mut subscriber, &outcome, every) => reason.unwrap_or(CloseReason::Gone),
        () = hear(&mut source) => CloseReason::Gone,
        () = closing => CloseReason::Closing,
    };
    close(&mut sink, &mut source, reason).await;
}

/// Tells the client why the socket is closed, and waits a moment for its answer.
pub(super) async fn close(
    sink: &mut SplitSink<WebSocket, Message>,
    source: &mut SplitStream<WebSocket>,
    reason: CloseReason,
) {
    let (code, reason) = match reason {
        CloseReason::Closing => {
            (close_code::AWAY, "the gateway is shutting down; come back with your cursor".to_owned())
        }
        CloseReason::Deleted => (close_code::NORMAL, "the session was deleted".to_owned()),
        CloseReason::Failed(problem) => (close_code::ERROR, problem),
        CloseReason::Gone => (close_code::NORMAL, String::new()),
    };
    // A client that does not read does not hear it: the connection is dropped all the same.
    let _ = tokio::time::timeout(GOODBYE, async {
        if code == close_code::AWAY {
            sink.send(Message::text(CLOSING)).await?;
        }
        sink.send(Message::Close(Some(CloseFrame { code, reason: short(reason) }))).await?;
        // The close is done when the client has answered it.
        while let Some(Ok(_)) = source.next().await {}
        Ok::<(), Error>(())
    })
    .await;
}

async fn send(
    sink: &mut SplitSink<WebSocket, Message>,
    subscriber: &mut Subscriber,
    outcome: &CursorOutcome,
    every: Duration,
) -> Result<CloseReason, Error> {
    let mut pulse = HeartbeatTimer::new(every);
    sink.send(Message::text(outcome.to_json())).await?;
    loop {
        let piece = tokio::select! {
            biased;
            piece = subscriber.next() => piece,
            () = pulse.due() => {
                sink.send(Message::Ping(Bytes::new())).await?;
                pulse.said();
                continue;
            }
        };
        match piece {
            Piece::Frames(lines) => {
                let mut start = 0;
                for end in memchr_iter(b'\n', &lines) {
                    let line = lines.slice(start..end);
                    start = end + 1;
                    sink.feed(Message::Text(Utf8Bytes::try_from(line).map_err(Error::new)?)).await?;
                }
                sink.flush().await?;
                pulse.said();
            }
            Piece::End(End::Closing) => return Ok(CloseReason::Closing),
            // A reader that is behind begins anew by itself, and never ends so.
            Piece::End(End::Gone | End::Behind) => {
                sink.send(Message::text(GONE)).await?;
                return Ok(CloseReason::Deleted);
            }
            Piece::End(End::Failed(problem)) => return Ok(CloseReason::Failed(problem)),
        }
    }
}

/// Reads what the client sends, which answers its pings, until it goes away. Its words mean nothing here.
async fn hear(source: &mut SplitStream<WebSocket>) {
    while let Some(Ok(message)) = source.next().await {
        if matches!(message, Message::Close(_)) {
            return;
        }
    }
}

/// A close frame holds 123 bytes of reason.
fn short(reason: String) -> Utf8Bytes {
    let mut end = reason.len().min(123);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    Utf8Bytes::from(&reason[..end])
}
