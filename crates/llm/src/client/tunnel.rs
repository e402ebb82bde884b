//! A tunnel through an HTTP proxy: `CONNECT` (RFC 9110, 9.3.6).

use super::address::Address;
use crate::classify::{Failure, Phase, Source, transport};
use hyper::header::HeaderValue;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use turnstream_model::event::ErrorClass;

/// The longest response head of a proxy.
const HEAD: usize = 8 * 1024;

/// Asks the proxy for a tunnel to the provider.
pub(super) async fn open(
    proxy: &mut TcpStream,
    address: &Address,
    auth: Option<&HeaderValue>,
) -> Result<(), Failure> {
    let status = ask(proxy, address, auth).await.map_err(|error| transport(&error, Phase::Connect))?;
    let (what, is_final) = match status {
        Some(200..=299) => return Ok(()),
        Some(407) => (
            "it wants a name and a password; write HTTPS_PROXY as http://name:password@host:port".into(),
            true,
        ),
        // A retry would get the same answer.
        Some(status @ (400 | 401 | 403 | 405)) => {
            (format!("it refuses with status {status}; allow the host there, or name it in NO_PROXY"), true)
        }
        Some(status) => (format!("it answers with status {status}"), false),
        None => ("it does not answer as a proxy; is HTTPS_PROXY right?".into(), false),
    };
    Err(Failure { is_final, ..Failure::new(ErrorClass::Unreachable, Source::Transport, what) })
}

/// Sends `CONNECT` and returns the status; `None` if the answer is not HTTP.
///
/// The answer is read byte by byte, because the bytes after it belong to the provider.
async fn ask(
    proxy: &mut TcpStream,
    address: &Address,
    auth: Option<&HeaderValue>,
) -> io::Result<Option<u16>> {
    let target = format!("{}:{}", address.uri.host().unwrap_or(&address.host), address.port);
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
    if let Some(auth) = auth {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(auth.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    proxy.write_all(&request).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == HEAD {
            return Ok(None);
        }
        head.push(proxy.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    let status = head.strip_prefix("HTTP/1.").and_then(|rest| rest.split([' ', '\r']).nth(1));
    Ok(status.and_then(|status| status.parse().ok()))
}
