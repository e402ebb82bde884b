//! One client's connection: its socket, what was received and not read yet, and the two ways to end it.

use crate::fault::CutBy;
use crate::http::ReadError;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long a client may take to close after our FIN before we close hard.
const LINGER: Duration = Duration::from_secs(2);
/// What a reset waits for its last bytes to reach the client. A reset drops what is still in our send buffer, and
/// on loopback a write is in the client's receive buffer long before this.
const BEFORE_RESET: Duration = Duration::from_millis(50);

pub(crate) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

/// What a pause ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    Over,
    ClientLeft,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> Self {
        // Every event shall leave at once; where the option is refused they leave in larger pieces.
        let _ = stream.set_nodelay(true);
        Self { stream, received: Vec::new() }
    }

    pub(crate) fn received(&self) -> &[u8] {
        &self.received
    }

    /// Takes the first bytes off what was received.
    pub(crate) fn take(&mut self, size: usize) -> Vec<u8> {
        let rest = self.received.split_off(size);
        std::mem::replace(&mut self.received, rest)
    }

    /// Waits until there is anything to read.
    pub(crate) async fn fill(&mut self) -> Result<(), ReadError> {
        if self.received.is_empty() { self.receive().await } else { Ok(()) }
    }

    /// Receives at least one more byte.
    pub(crate) async fn receive(&mut self) -> Result<(), ReadError> {
        match self.stream.read_buf(&mut self.received).await? {
            0 => Err(ReadError::Left),
            _ => Ok(()),
        }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Waits, or returns early when the client closes its end.
    pub(crate) async fn pause(&mut self, length: Duration) -> Pause {
        if length.is_zero() {
            return Pause::Over;
        }
        let over = tokio::time::sleep(length);
        tokio::pin!(over);
        // A client that sends more instead of leaving is read from until this much is buffered.
        const PIPELINED: usize = 64 * 1024;
        while self.received.len() < PIPELINED {
            tokio::select! {
                () = &mut over => return Pause::Over,
                received = self.receive() => if received.is_err() { return Pause::ClientLeft },
            }
        }
        over.await;
        Pause::Over
    }

    /// Ends the connection so that the client sees it as said.
    pub(crate) async fn close(mut self, by: CutBy) {
        match by {
            CutBy::Rst => {
                self.pause(BEFORE_RESET).await;
                // With a linger of zero the kernel answers the close below with a RST.
                let _ = self.stream.set_zero_linger();
            }
            CutBy::Fin => {
                // Closing with unread bytes would turn the FIN into a RST, so read until the client closes.
                let _ = self.stream.shutdown().await;
                self.received.clear();
                self.pause(LINGER).await;
            }
        }
    }
}
