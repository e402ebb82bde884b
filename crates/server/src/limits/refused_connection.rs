//! The answer to a connection for which there is no place: a prepared response, whatever the request is.

use super::connections::{Connections, NoPlace};
use crate::problem::{Kind, Problem};
use bytes::Bytes;
use std::io::{self, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Seconds after which a client that was refused may try again.
const RETRY_AFTER: u64 = 1;
/// Refused connections that may stay open for a moment. Their descriptors are of the reserve.
const MOST_LINGERING: usize = 32;
/// How long one may stay open. A connection that is closed while its client still sends is reset, and then
/// the client may not see the answer.
const LINGER: Duration = Duration::from_secs(1);
/// How long the beginning of a request is waited for. Some clients do not understand an answer that comes
/// before it.
const REQUEST: Duration = Duration::from_millis(200);

/// Answers refused connections.
pub(crate) struct RefusedConnections {
    too_many: Bytes,
    too_many_of_address: Bytes,
    lingering: Arc<Semaphore>,
}

impl RefusedConnections {
    pub(crate) fn new(connections: &Connections) -> Self {
        let (most, of_address) = (connections.most(), connections.most_per_address());
        let too_many = format!(
            "{most} connections are open, and all are in use; close some, or raise `connections` in [limits] and the \
             limit of open files (ulimit -n)"
        );
        let too_many_of_address = format!(
            "this address has {of_address} open connections, and all are in use; close some, or raise \
             `connections_per_address` in [limits]"
        );
        Self {
            too_many: response(&Problem::new(Kind::TooManyConnections, too_many).with("limit", most)),
            too_many_of_address: response(
                &Problem::new(Kind::TooManyConnections, too_many_of_address).with("limit", of_address),
            ),
            lingering: Arc::new(Semaphore::new(MOST_LINGERING)),
        }
    }

    /// Answers and closes the connection.
    pub(crate) fn answer(&self, socket: TcpStream, reason: NoPlace) {
        let answer = match reason {
            NoPlace::InAll => &self.too_many,
            NoPlace::OfAddress => &self.too_many_of_address,
        };
        let Ok(place) = self.lingering.clone().try_acquire_owned() else {
            if let Err(error) = answer_at_once(socket, answer) {
                tracing::debug!(%error, "a refused connection could not be answered");
            }
            return;
        };
        let answer = answer.clone();
        tokio::spawn(async move {
            match tokio::time::timeout(LINGER, answer_and_linger(socket, &answer)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a refused connection could not be answered"),
                Err(_) => tracing::debug!("a refused client did not close its connection"),
            }
            drop(place);
        });
    }
}

/// A whole response.
fn response(problem: &Problem) -> Bytes {
    let body = problem.body().to_string();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: {RETRY_AFTER}\r\n\
         x-content-type-options: nosniff\r\ncache-control: no-store\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    Bytes::from(head + &body)
}

/// The buffer of a new socket is empty, so the answer fits and nothing waits.
fn answer_at_once(socket: TcpStream, answer: &[u8]) -> io::Result<()> {
    let mut socket = socket.into_std()?;
    socket.write_all(answer)?;
    socket.shutdown(Shutdown::Write)
}

/// Answers when the client has begun to send, and reads on until it closes the connection.
async fn answer_and_linger(mut socket: TcpStream, answer: &[u8]) -> io::Result<()> {
    let mut ignored = [0; 1024];
    let begun = tokio::time::timeout(REQUEST, socket.read(&mut ignored)).await;
    if let Ok(begun) = begun {
        begun?;
    }
    socket.write_all(answer).await?;
    socket.shutdown().await?;
    while socket.read(&mut ignored).await? > 0 {}
    Ok(())
}
