//! Requests off a connection: HTTP/1.1 with a content-length, every size capped.

use crate::connection::Connection;
use std::io;
use std::time::Duration;
use thiserror::Error;

/// Bytes of a request head.
const HEAD_CAP: usize = 64 * 1024;
/// Bytes of a request body. Agents send whole conversations with every call.
const BODY_CAP: usize = 64 * 1024 * 1024;
/// Headers of a request.
const HEADER_CAP: usize = 100;
/// How long a client may keep a connection without a request.
const IDLE: Duration = Duration::from_secs(300);
/// How long a request that has begun may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(30);

/// A request as it came.
#[derive(Debug)]
pub(crate) struct HttpRequest {
    pub(crate) version: Version,
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// What the client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// Knows neither chunks nor connections that go on, unless it says so, and here it is not asked.
    Http10,
    Http11,
}

/// Why no request came.
#[derive(Debug, Error)]
pub(crate) enum ReadError {
    /// The client is done, or silent for too long.
    #[error("the client left")]
    Left,
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Answered with this status, then closed.
    #[error("{why}")]
    Refused { status: u16, why: String },
}

struct Head {
    version: Version,
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    length: usize,
}

/// Reads the next request of a connection.
pub(crate) async fn read(connection: &mut Connection) -> Result<HttpRequest, ReadError> {
    match tokio::time::timeout(IDLE, connection.fill()).await {
        Ok(filled) => filled?,
        Err(_) => return Err(ReadError::Left),
    }
    let arrival = tokio::time::timeout(ARRIVAL, whole(connection));
    arrival.await.unwrap_or_else(|_| Err(refused(408, "the request did not arrive in 30 s")))
}

async fn whole(connection: &mut Connection) -> Result<HttpRequest, ReadError> {
    let head = loop {
        if let Some(head) = parse_head(connection)? {
            break head;
        }
        if connection.received().len() > HEAD_CAP {
            return Err(refused(431, "the head of the request is longer than 64 KiB"));
        }
        connection.receive().await?;
    };
    if header(&head.headers, "expect").is_some() && connection.received().len() < head.length {
        connection.send(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    while connection.received().len() < head.length {
        connection.receive().await?;
    }
    let body = connection.take(head.length);
    let Head { version, method, target, headers, length: _ } = head;
    Ok(HttpRequest { version, method, target, headers, body })
}

/// Takes a head off what was received, if it is all there.
fn parse_head(connection: &mut Connection) -> Result<Option<Head>, ReadError> {
    let mut slots = [httparse::EMPTY_HEADER; HEADER_CAP];
    let mut parsed = httparse::Request::new(&mut slots);
    let status = parsed.parse(connection.received());
    let size = match status.map_err(|error| refused(400, &format!("not an HTTP request: {error}")))? {
        httparse::Status::Complete(size) => size,
        httparse::Status::Partial => return Ok(None),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers: Vec<_> =
        parsed.headers.iter().map(|header| (header.name.to_ascii_lowercase(), text(header.value))).collect();
    let method = parsed.method.unwrap_or_default().to_owned();
    let target = parsed.path.unwrap_or_default().to_owned();
    let version = if parsed.version == Some(0) { Version::Http10 } else { Version::Http11 };
    let length = body_length(&headers)?;
    connection.take(size);
    Ok(Some(Head { version, method, target, headers, length }))
}

fn body_length(headers: &[(String, String)]) -> Result<usize, ReadError> {
    if header(headers, "transfer-encoding").is_some() {
        return Err(refused(411, "this provider reads only bodies with a content-length"));
    }
    let Some(value) = header(headers, "content-length") else { return Ok(0) };
    if headers.iter().any(|(name, other)| name == "content-length" && other != value) {
        return Err(refused(400, "the request has two content-lengths that differ"));
    }
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    let length = value.parse::<usize>().ok().filter(|_| digits);
    let length = length.ok_or_else(|| refused(400, &format!("content-length {value:?} is not a number")))?;
    if length > BODY_CAP {
        return Err(refused(413, "the body of the request is longer than 64 MiB"));
    }
    Ok(length)
}

/// The first header of that name.
pub(crate) fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
}

/// Whether the client wants the connection closed behind the answer.
pub(crate) fn wants_close(version: Version, headers: &[(String, String)]) -> bool {
    let words = header(headers, "connection").unwrap_or_default().split(',');
    version == Version::Http10 || words.into_iter().any(|word| word.trim().eq_ignore_ascii_case("close"))
}

fn refused(status: u16, why: &str) -> ReadError {
    ReadError::Refused { status, why: why.to_owned() }
}
