//! The WebSocket to an app-server on this machine. One message is one line of the protocol.

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use std::net::Ipv4Addr;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

/// The longest message that is read. A longer one breaks the connection.
const MESSAGE_LIMIT: usize = 64 << 20;

/// A connection. Dropping it closes it.
pub(super) struct Socket {
    messages: SplitStream<WebSocketStream<TcpStream>>,
    unsent: mpsc::UnboundedSender<String>,
    writer: AbortHandle,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum SocketError {
    #[error("cannot connect to it on port {port}: {error}")]
    Connect {
        port: u16,
        #[source]
        error: std::io::Error,
    },
    #[error("it refuses the connection: {0}")]
    Handshake(#[source] Box<tungstenite::Error>),
    #[error("its token cannot be sent")]
    Token,
}

impl Socket {
    /// Connects to the server on this port, with the token that it was started with.
    pub(super) async fn connect(port: u16, token: &str) -> Result<Self, SocketError> {
        let tcp = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
        let tcp = tcp.map_err(|error| SocketError::Connect { port, error })?;
        let handshake = |error| SocketError::Handshake(Box::new(error));
        let mut request = format!("ws://127.0.0.1:{port}/").into_client_request().map_err(handshake)?;
        let bearer = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| SocketError::Token)?;
        request.headers_mut().insert(AUTHORIZATION, bearer);
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_LIMIT))
            .max_frame_size(Some(MESSAGE_LIMIT));
        let (socket, _) = client_async_with_config(request, tcp, Some(config)).await.map_err(handshake)?;
        let (sink, messages) = socket.split();
        let (unsent, lines) = mpsc::unbounded_channel();
        let writer = tokio::spawn(write(sink, lines)).abort_handle();
        Ok(Self { messages, unsent, writer })
    }

    /// Takes a message for the server. One that the server does not read any more is dropped: the end of its
    /// messages follows.
    pub(super) fn say(&self, line: String) {
        if self.unsent.send(line).is_err() {
            tracing::debug!("Codex does not read its messages");
        }
    }

    /// The next message; the error says how the connection ended. Safe to drop and call again.
    pub(super) async fn next(&mut self) -> Result<String, String> {
        loop {
            match self.messages.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text.as_str().to_owned()),
                Some(Ok(Message::Close(_))) | None => return Err("it closed the connection".to_owned()),
                // The library answers pings.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_))) => {}
                Some(Err(error)) => return Err(error.to_string()),
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

async fn write(
    mut sink: SplitSink<WebSocketStream<TcpStream>, Message>,
    mut lines: mpsc::UnboundedReceiver<String>,
) {
    while let Some(line) = lines.recv().await {
        if let Err(error) = sink.send(Message::text(line)).await {
            tracing::debug!(%error, "Codex does not read its messages");
            return;
        }
    }
}
