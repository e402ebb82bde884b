//! The answer to a connection for which a gateway has no place. It may come before the request is sent, and
//! then an HTTP client takes it for a connection that broke off.

use crate::ClientError;
use reqwest::Url;
use std::io;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long to wait for the answer. A gateway that has a place says nothing.
const WAIT: Duration = Duration::from_secs(1);
/// An answer is shorter than this.
const MOST_BYTES: u64 = 16 << 10;
/// The name of the problem.
pub(crate) const TOO_MANY_CONNECTIONS: &str = "too-many-connections";

/// What the gateway says to a new connection on which nothing is sent. `None` if it says nothing like that.
pub(crate) async fn read(base: &str) -> Option<ClientError> {
    let answer = match timeout(WAIT, first_words(base)).await {
        Ok(Ok(answer)) => answer,
        // The caller has an error already.
        Ok(Err(_)) | Err(_) => return None,
    };
    let status = answer.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
    let status: u16 = std::str::from_utf8(status).ok()?.parse().ok()?;
    let body = answer.windows(4).position(|four| four == b"\r\n\r\n").map(|head| &answer[head + 4..])?;
    let refused = ClientError::read(base, status, body);
    (refused.kind() == Some(TOO_MANY_CONNECTIONS)).then_some(refused)
}

async fn first_words(base: &str) -> io::Result<Vec<u8>> {
    let url = Url::parse(base).map_err(io::Error::other)?;
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // The brackets of an IPv6 address belong to the URL.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let socket = TcpStream::connect((host, port)).await?;
    let mut answer = Vec::new();
    socket.take(MOST_BYTES).read_to_end(&mut answer).await?;
    Ok(answer)
}
