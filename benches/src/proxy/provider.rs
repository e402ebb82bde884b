//! A provider of chat completions that writes stamped tokens, paced or as fast as possible.

use crate::gateway::stamp::{Stamp, now};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// Bytes that are written at once if there is no pace.
const AT_ONCE: usize = 16 * 1024;
const HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// What a request asks for. It stands in its prompt, which every proxy passes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) tokens: u64,
    /// Tokens per second; `None` for as fast as possible.
    pub(super) rate: Option<u64>,
}

impl Wanted {
    /// The body of a request.
    pub(super) fn body(self) -> String {
        let Self { tokens, rate } = self;
        let rate = rate.unwrap_or(0);
        format!(
            r#"{{"model":"bench","stream":true,"messages":[{{"role":"user","content":"[{tokens}/{rate}]"}}]}}"#
        )
    }

    fn of_body(body: &[u8]) -> Option<Self> {
        let text = str::from_utf8(body).ok()?;
        // Serializers may put blanks and other brackets around it.
        let (tokens, rate) = text.split('[').find_map(|part| part.split_once(']')?.0.split_once('/'))?;
        let rate: u64 = rate.parse().ok()?;
        Some(Self { tokens: tokens.parse().ok()?, rate: (rate > 0).then_some(rate) })
    }
}

/// Starts the provider on the current runtime.
pub(super) async fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                // The other side goes away when it has what it wants.
                drop(serve(socket).await);
            });
        }
    });
    Ok(address)
}

async fn serve(mut socket: TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut bytes = Vec::new();
    while let Some(body) = request(&mut socket, &mut bytes).await? {
        match Wanted::of_body(&body) {
            Some(wanted) => answer(&mut socket, wanted).await?,
            None => {
                socket.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await?;
            }
        }
    }
    Ok(())
}

/// The body of the next request.
async fn request(socket: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let wrong = |what: &str| io::Error::other(what.to_owned());
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut head = httparse::Request::new(&mut headers);
        if let Ok(httparse::Status::Complete(length)) = head.parse(bytes) {
            let sized = |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case("content-length");
            let size = head.headers.iter().find(sized).and_then(|header| str::from_utf8(header.value).ok());
            let size: usize = size.unwrap_or("0").parse().map_err(|_| wrong("no length"))?;
            if bytes.len() >= length + size {
                let body = bytes[length..length + size].to_vec();
                bytes.drain(..length + size);
                return Ok(Some(body));
            }
        }
        if socket.read_buf(bytes).await? == 0 {
            return Ok(None);
        }
    }
}

async fn answer(socket: &mut TcpStream, wanted: Wanted) -> io::Result<()> {
    static ANSWERS: AtomicU64 = AtomicU64::new(1);
    let id = ANSWERS.fetch_add(1, Ordering::Relaxed);
    let begin = format!(
        r#"data: {{"id":"chatcmpl-{id}","object":"chat.completion.chunk","created":1794771700,"model":"bench","choices":[{{"index":0,"delta":"#
    );
    let event = |delta: &str, finish: &str| {
        format!("{begin}{delta},\"logprobs\":null,\"finish_reason\":{finish}}}]}}\n\n")
    };
    let mut out = HEAD.to_vec();
    chunk(&mut out, event(r#"{"role":"assistant","content":""}"#, "null").as_bytes());
    let started = Instant::now();
    let mut text = Vec::new();
    for number in 0..wanted.tokens {
        if let Some(rate) = wanted.rate {
            socket.write_all(&out).await?;
            out.clear();
            tokio::time::sleep_until(started + Duration::from_micros(number * 1_000_000 / rate)).await;
        } else if out.len() >= AT_ONCE {
            socket.write_all(&out).await?;
            out.clear();
        }
        text.clear();
        Stamp { number, micros: now() }.write(0, &mut text);
        let delta = format!(r#"{{"content":"{}"}}"#, String::from_utf8_lossy(&text));
        chunk(&mut out, event(&delta, "null").as_bytes());
    }
    chunk(&mut out, event("{}", "\"stop\"").as_bytes());
    chunk(&mut out, b"data: [DONE]\n\n");
    out.extend_from_slice(b"0\r\n\r\n");
    socket.write_all(&out).await
}

fn chunk(out: &mut Vec<u8>, data: &[u8]) {
    out.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}
