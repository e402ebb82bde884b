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
use turnstream_gateway::RequestError;
use turnstream_model::Chain;
use turnstream_model::cursor::CursorOutcome;

/// How long a client may take to answer a close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Why the socket is closed.
pub(super) enum CloseReason {
    Closing,
    Deleted,
    Failed(RequestError),
    /// The client closed it, or the connection broke.
    Gone,
}

/// Sends every frame until one side ends. `closing` returns when the gateway shuts down, whether or not the
/// client reads.
pub(crate) async fn serve_session(
    socket: WebSocket,
    mut subscriber: Subscriber,
    outcome: CursorOutcome,
    every: Duration,
    closing: impl Future<Output = ()>,
) {
    let (mut sink, mut source) = socket.split();
    let reason = tokio::select! {
        sent = send(&mut sink, &mut subscriber, &outcome, every) => sent.unwrap_or_else(broken),
        () = read_until_closed(&mut source) => CloseReason::Gone,
        () = closing => CloseReason::Closing,
    };
    close(&mut sink, &mut source, reason).await;
}

/// The connection broke.
pub(super) fn broken(error: Error) -> CloseReason {
    tracing::debug!(error = %Chain(&error), "a WebSocket broke");
    CloseReason::Gone
}

/// Tells the client why the socket is closed, and waits a moment for its answer.
pub(super) async fn close(
    sink: &mut SplitSink<WebSocket, Message>,
    source: &mut SplitStream<WebSocket>,
    reason: CloseReason,
) {
    let (code, reason) = match reason {
        CloseReason::Closing => {
            (close_code::AWAY, "the gateway is shutting down; reconnect with your cursor".to_owned())
        }
        CloseReason::Deleted => (close_code::NORMAL, "the session was deleted".to_owned()),
        CloseReason::Failed(error) => (close_code::ERROR, error.to_string()),
        CloseReason::Gone => (close_code::NORMAL, String::new()),
    };
    let closed = tokio::time::timeout(CLOSE_TIMEOUT, async {
        if code == close_code::AWAY {
            sink.send(Message::text(CLOSING)).await?;
        }
        sink.send(Message::Close(Some(CloseFrame { code, reason: short(reason) }))).await?;
        // The close is complete when the client has answered it.
        while let Some(Ok(_)) = source.next().await {}
        Ok::<(), Error>(())
    });
    // The connection is dropped in every case.
    match closed.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(error = %Chain(&error), "a WebSocket was not closed in order"),
        Err(_) => tracing::debug!("a client did not answer the close of its WebSocket"),
    }
}

async fn send(
    sink: &mut SplitSink<WebSocket, Message>,
    subscriber: &mut Subscriber,
    outcome: &CursorOutcome,
    every: Duration,
) -> Result<CloseReason, Error> {
    let mut timer = HeartbeatTimer::new(every);
    sink.send(Message::text(outcome.to_json())).await?;
    loop {
        let piece = tokio::select! {
            biased;
            piece = subscriber.next() => piece,
            () = timer.due() => {
                sink.send(Message::Ping(Bytes::new())).await?;
                timer.sent();
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
                timer.sent();
            }
            Piece::End(End::Closing) => return Ok(CloseReason::Closing),
            // `Behind` is handled by the subscriber, and does not end a stream.
            Piece::End(End::Gone | End::Behind) => {
                sink.send(Message::text(GONE)).await?;
                return Ok(CloseReason::Deleted);
            }
            Piece::End(End::Failed(error)) => return Ok(CloseReason::Failed(error)),
        }
    }
}

/// Reads and ignores messages of the client until it closes the socket. Reading also answers its pings.
async fn read_until_closed(source: &mut SplitStream<WebSocket>) {
    while let Some(Ok(message)) = source.next().await {
        if matches!(message, Message::Close(_)) {
            return;
        }
    }
}

/// The reason in a close frame has at most 123 bytes.
fn short(reason: String) -> Utf8Bytes {
    let mut end = reason.len().min(123);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    Utf8Bytes::from(&reason[..end])
}
