//! Waits until everything written to a TCP socket has reached the peer's system.
//!
//! A reset discards what is still in the sender's buffer, and a slow reader leaves much there. A test or
//! proxy that resets a connection after an exact number of bytes waits here first. On Linux, `/proc/net/tcp`
//! shows the unacknowledged bytes without unsafe code. On other systems this waits a fixed time.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

/// The time between two looks at the table.
const LOOK: Duration = Duration::from_millis(2);
/// The fixed wait where the system does not show unsent bytes. On loopback, a reader that keeps up has
/// everything by then.
const BLIND: Duration = Duration::from_millis(50);

/// Returns when everything written is acknowledged, or after `at_most`.
pub async fn drained(stream: &TcpStream, at_most: Duration) {
    let until = Instant::now() + at_most;
    loop {
        match unacknowledged(stream) {
            Unacknowledged::Bytes(0) => return,
            Unacknowledged::Bytes(_) if Instant::now() >= until => return,
            Unacknowledged::Bytes(_) => sleep(LOOK).await,
            Unacknowledged::Unknown => return sleep(BLIND.min(at_most)).await,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unacknowledged {
    Bytes(u64),
    Unknown,
}

fn unacknowledged(stream: &TcpStream) -> Unacknowledged {
    let (Ok(local), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) else {
        // The connection is closed, so nobody can read.
        return Unacknowledged::Bytes(0);
    };
    let table = if local.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    let rows = std::fs::read_to_string(table).unwrap_or_default();
    let row = rows.lines().find_map(|row| queued(row, &written(local), &written(peer)));
    row.map_or(Unacknowledged::Unknown, Unacknowledged::Bytes)
}

/// The send queue of a table row if it belongs to this connection. The columns are: number, local, peer,
/// state, `sent:received`, …
fn queued(row: &str, local: &str, peer: &str) -> Option<u64> {
    let mut words = row.split_whitespace().skip(1);
    let ours = words.next() == Some(local) && words.next() == Some(peer);
    let queues = words.nth(1).filter(|_| ours)?;
    u64::from_str_radix(queues.split(':').next()?, 16).ok()
}

/// An address in the table's format: 32 bits at a time, in the machine's byte order.
fn written(address: SocketAddr) -> String {
    let bytes = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let words = bytes.chunks_exact(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
    let words: String = words.map(|word| format!("{word:08X}")).collect();
    format!("{words}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use super::{Unacknowledged, drained, unacknowledged};
    use std::time::{Duration, Instant};
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};

    async fn pair(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(address).await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (listener.accept().await.unwrap().0, client)
    }

    /// Writes until the buffers of both sides are full.
    fn fill(stream: &TcpStream) -> usize {
        let mut total = 0;
        while let Ok(written) = stream.try_write(&[7; 64 * 1024]) {
            total += written;
        }
        total
    }

    #[tokio::test]
    async fn nothing_unread_is_known_at_once() {
        for address in ["127.0.0.1:0", "127.0.0.2:0"] {
            let (server, _client) = pair(address).await;
            assert_eq!(unacknowledged(&server), Unacknowledged::Bytes(0), "{address}");
        }
    }

    #[tokio::test]
    async fn a_slow_reader_is_waited_for_until_everything_has_reached_it() {
        let (server, mut client) = pair("127.0.0.1:0").await;
        server.writable().await.unwrap();
        let total = fill(&server);
        let Unacknowledged::Bytes(1..) = unacknowledged(&server) else { panic!("the buffers are full") };
        let reading = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let mut received = Vec::new();
            let end = client.read_to_end(&mut received).await;
            (received.len(), end.is_err())
        });
        drained(&server, Duration::from_secs(20)).await;
        server.set_zero_linger().unwrap();
        drop(server);
        assert_eq!(reading.await.unwrap(), (total, true), "every byte, and then a reset");
    }

    #[tokio::test]
    async fn a_reader_that_never_reads_is_not_waited_for_longer_than_said() {
        let (server, _client) = pair("127.0.0.1:0").await;
        server.writable().await.unwrap();
        fill(&server);
        let start = Instant::now();
        drained(&server, Duration::from_millis(100)).await;
        assert!(start.elapsed() >= Duration::from_millis(100));
    }
}
