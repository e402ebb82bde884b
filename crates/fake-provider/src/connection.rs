//! One client's connection: its socket, what was received and not read yet, and the two ways to end it.

use crate::fault::CutBy;
use crate::http::ReadError;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long a client may take to close after our FIN before we close hard.
const LINGER: Duration = Duration::from_secs(2);
/// How long a client may take to read what is in front of a reset, which drops what is still in our send
/// buffer.
const BEFORE_RESET: Duration = Duration::from_secs(5);
/// How long a client may take nothing of what is written to it.
const WRITE: Duration = Duration::from_secs(120);

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
        // Every event should be sent at once. If the option is refused, events are sent in larger pieces.
        drop(stream.set_nodelay(true));
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
        self.send_within(bytes, WRITE).await
    }

    /// Each piece that the client takes gives it as much time again.
    async fn send_within(&mut self, mut bytes: &[u8], patience: Duration) -> io::Result<()> {
        while !bytes.is_empty() {
            match tokio::time::timeout(patience, self.stream.write(bytes)).await {
                Ok(written) => bytes = &bytes[written?..],
                Err(late) => return Err(late.into()),
            }
        }
        Ok(())
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
                turnstream_drain::drained(&self.stream, BEFORE_RESET).await;
                // With a linger of zero the kernel answers the close below with a RST.
                drop(self.stream.set_zero_linger());
            }
            CutBy::Fin => {
                // Closing with unread bytes would turn the FIN into a RST, so read until the client closes.
                drop(self.stream.shutdown().await);
                self.received.clear();
                self.pause(LINGER).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Connection;
    use std::io::ErrorKind;
    use std::time::Duration;
    use tokio::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn a_client_that_reads_nothing_does_not_hold_a_write_for_ever() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut connection = Connection::new(listener.accept().await.unwrap().0);
        let more_than_buffers_hold = vec![0; 64 << 20];
        let sent = connection.send_within(&more_than_buffers_hold, Duration::from_millis(100)).await;
        assert_eq!(sent.unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
