//! Clients that read streams, and count every token.

use super::provider::Wanted;
use crate::Latencies;
use crate::gateway::http::{self, Chunks};
use crate::gateway::stamp::{Stamp, now};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Barrier;

/// How long one stream may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// What was measured in one run.
#[derive(Debug)]
pub(super) struct Measured {
    /// From the request to the first token.
    pub(super) first: Latencies,
    /// Between two tokens.
    pub(super) between: Latencies,
    pub(super) tokens: u64,
    pub(super) elapsed: Duration,
}

/// One stream that has ended.
#[derive(Default)]
struct Read {
    first: u64,
    between: Vec<u64>,
}

/// Reads this many streams at the same time. Every token must come once, in order, and the end must be the
/// provider's own.
pub(super) async fn read(
    address: SocketAddr,
    path: &'static str,
    streams: usize,
    wanted: Wanted,
) -> Result<Measured, String> {
    let barrier = Arc::new(Barrier::new(streams + 1));
    let tasks: Vec<_> = (0..streams)
        .map(|_| {
            let barrier = barrier.clone();
            tokio::spawn(async move {
                let stream = one(address, path, wanted, &barrier);
                tokio::time::timeout(PATIENCE, stream).await.map_err(|_| "a stream took too long")?
            })
        })
        .collect();
    barrier.wait().await;
    let begun = Instant::now();
    let (mut first, mut between) = (Vec::new(), Vec::new());
    for task in tasks {
        let read = task.await.map_err(|error| error.to_string())??;
        first.push(read.first);
        between.extend(read.between);
    }
    let elapsed = begun.elapsed();
    let tokens = wanted.tokens * streams as u64;
    Ok(Measured { first: Latencies::of(first), between: Latencies::of(between), tokens, elapsed })
}

async fn one(address: SocketAddr, path: &str, wanted: Wanted, barrier: &Barrier) -> Result<Read, String> {
    let connected = TcpStream::connect(address).await;
    barrier.wait().await;
    let failed = |error: std::io::Error| format!("{path}: {error}");
    let mut socket = connected.map_err(failed)?;
    socket.set_nodelay(true).map_err(failed)?;
    let body = wanted.body();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let begun = now();
    socket.write_all(request.as_bytes()).await.map_err(failed)?;
    let (mut bytes, mut head) = (Vec::with_capacity(64 * 1024), None);
    let (mut chunks, mut text) = (Chunks::default(), Vec::new());
    let mut counted = Counted::default();
    while !chunks.ended() {
        bytes.clear();
        if head.is_none() {
            text.clear();
        }
        if socket.read_buf(&mut bytes).await.map_err(failed)? == 0 {
            return Err(format!("{path}: the stream was cut after {} tokens", counted.next));
        }
        let at = now();
        if head.is_none() {
            counted.head.extend_from_slice(&bytes);
            let Some(found) = http::head(&counted.head)? else { continue };
            if found.status != 200 || !found.chunked {
                let said = String::from_utf8_lossy(&counted.head[found.length..]).into_owned();
                return Err(format!("{path}: status {}: {said}", found.status));
            }
            bytes = counted.head.split_off(found.length);
            head = Some(found);
        }
        chunks.feed(&bytes, |data| text.extend_from_slice(data))?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        counted.count(&text[..whole], begun, at)?;
        text.drain(..whole);
    }
    counted.end(wanted)
}

#[derive(Default)]
struct Counted {
    head: Vec<u8>,
    next: u64,
    last: u64,
    has_finish: bool,
    has_end: bool,
    read: Read,
}

impl Counted {
    fn count(&mut self, lines: &[u8], begun: u64, at: u64) -> Result<(), String> {
        for Stamp { number, .. } in Stamp::all(lines) {
            if number != self.next {
                return Err(format!("token {number} came instead of {}", self.next));
            }
            match number {
                0 => self.read.first = at - begun,
                _ => self.read.between.push(at - self.last),
            }
            (self.next, self.last) = (number + 1, at);
        }
        self.has_finish |= memchr::memmem::find(lines, b"\"stop\"").is_some();
        self.has_end |= memchr::memmem::find(lines, b"[DONE]").is_some();
        Ok(())
    }

    fn end(self, wanted: Wanted) -> Result<Read, String> {
        if self.next != wanted.tokens || !self.has_finish || !self.has_end {
            return Err(format!("{} of {} tokens came, or no end", self.next, wanted.tokens));
        }
        Ok(self.read)
    }
}
