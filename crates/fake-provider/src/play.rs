//! Plays a rendered answer on a connection.

use crate::connection::{Connection, Pause};
use crate::fault::{CutBy, Stall};
use crate::record::{Ended, Entry};
use crate::render::{Answer, Chunk, End, LONGEST_WAIT_MS};
use crate::script::Framing;
use std::io;
use std::time::Duration;
use tokio::time::Instant;

/// What becomes of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It takes another request.
    KeepAlive,
    /// It ends like this.
    Close(CutBy),
}

/// Writes the answer and notes in `entry` how far it got and how it ended.
pub(crate) async fn play(connection: &mut Connection, answer: &Answer, entry: &Entry) -> Next {
    match try_play(connection, answer, entry).await {
        Ok(Pause::Over) => {}
        Ok(Pause::ClientLeft) | Err(_) => {
            entry.ended(Ended::ClientLeft);
            return Next::Close(CutBy::Fin);
        }
    }
    let (ended, next) = match (answer.end, answer.framing) {
        (End::Complete, Framing::Chunked | Framing::ContentLength) => (Ended::Complete, Next::KeepAlive),
        (End::Complete, Framing::CloseDelimited) => (Ended::Complete, Next::Close(CutBy::Fin)),
        (End::Cut(by), _) => (Ended::Cut(by), Next::Close(by)),
    };
    entry.ended(ended);
    next
}

/// Writes the answer to something that is not a request, and therefore has no place in the record.
pub(crate) async fn refuse(connection: &mut Connection, answer: &Answer) {
    let mut response = head(answer).into_bytes();
    response.extend(answer.body());
    // The connection is closed next, whether the client took this or not.
    drop(connection.send(&response).await);
}

async fn try_play(connection: &mut Connection, answer: &Answer, entry: &Entry) -> io::Result<Pause> {
    if connection.pause(Duration::from_millis(answer.before_headers_ms)).await == Pause::ClientLeft {
        return Ok(Pause::ClientLeft);
    }
    connection.send(head(answer).as_bytes()).await?;
    for chunk in &answer.chunks {
        let pause = match chunk {
            Chunk::Write { wait_ms, origin: _, bytes } => {
                let pause = connection.pause(Duration::from_millis(*wait_ms)).await;
                if pause == Pause::Over {
                    write(connection, answer.framing, bytes, entry).await?;
                }
                pause
            }
            Chunk::Stall(stall) => hold(connection, answer.framing, *stall, entry).await?,
        };
        if pause == Pause::ClientLeft {
            return Ok(Pause::ClientLeft);
        }
    }
    if answer.end == End::Complete && answer.framing == Framing::Chunked {
        connection.send(b"0\r\n\r\n").await?;
    }
    Ok(Pause::Over)
}

/// Keeps the connection open for the length of the stall.
async fn hold(
    connection: &mut Connection,
    framing: Framing,
    stall: Stall,
    entry: &Entry,
) -> io::Result<Pause> {
    // Without a time of its own a stall lasts until the client leaves, or as long as any wait may.
    let until = Instant::now() + Duration::from_millis(stall.lasts_ms.unwrap_or(LONGEST_WAIT_MS));
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Pause::Over);
        }
        let step = stall.comment_every_ms.map_or(left, |every| left.min(Duration::from_millis(every)));
        if connection.pause(step).await == Pause::ClientLeft {
            return Ok(Pause::ClientLeft);
        }
        if stall.comment_every_ms.is_some() {
            write(connection, framing, b": keepalive\n\n", entry).await?;
        }
    }
}

/// Writes a piece of the body. In a chunked body it is one HTTP chunk, so that a client decodes every byte
/// that was written before a cut.
async fn write(connection: &mut Connection, framing: Framing, bytes: &[u8], entry: &Entry) -> io::Result<()> {
    match framing {
        _ if bytes.is_empty() => return Ok(()),
        Framing::Chunked => {
            let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
            framed.extend_from_slice(bytes);
            framed.extend_from_slice(b"\r\n");
            connection.send(&framed).await?;
        }
        Framing::ContentLength | Framing::CloseDelimited => connection.send(bytes).await?,
    }
    entry.wrote(bytes.len());
    Ok(())
}

fn head(answer: &Answer) -> String {
    let mut head = format!("HTTP/1.1 {} {}\r\n", answer.status, reason(answer.status));
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    match answer.framing {
        Framing::Chunked => head.push_str("transfer-encoding: chunked\r\n"),
        Framing::ContentLength => {
            head.push_str(&format!("content-length: {}\r\n", answer.body().len() + answer.lost));
        }
        Framing::CloseDelimited => head.push_str("connection: close\r\n"),
    }
    head.push_str("\r\n");
    head
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        529 => "Overloaded",
        // Clients act on the number; the words are for people.
        _ => "Scripted",
    }
}
