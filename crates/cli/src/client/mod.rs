//! A client of a gateway: requests, and event streams that reconnect.

mod early_answer;
mod events;
mod files;
mod find;
mod owner;
mod prefix;
mod refusal;

pub(crate) use events::{Events, Received};
pub(crate) use files::Download;
pub(crate) use find::{
    Connected, FindError, Interrupted, Reach, connect, connect_running, connect_unless, open_unless,
    reachable,
};
pub(crate) use owner::{Doubt, Owner};

use crate::config::TokenText;
use crate::escape::Safe;
use reqwest::{Method, StatusCode};
use serde_json::Value;
use std::io;
use std::time::Duration;

/// How long a gateway may take to answer. A request can wait for the disk, and never for an agent.
const DEADLINE: Duration = Duration::from_secs(30);

/// The address of a gateway, and the token for it.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<TokenText>,
    /// The process that must listen at the address. Only for an address that was found in the data directory.
    owner: Option<Owner>,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("the gateway at {url} does not answer: {problem}; is it running there?")]
    Unreachable {
        url: String,
        #[source]
        problem: Away,
    },
    #[error("{0} is no address of a gateway; write one like http://127.0.0.1:4180")]
    Address(String),
    #[error("{detail}")]
    Refused {
        /// The last part of the problem's type.
        kind: String,
        detail: Safe,
    },
    #[error("what answers at {url} is no turnstream gateway of this version: it said {}", status.as_u16())]
    Odd { url: String, status: StatusCode },
}

/// Why a gateway cannot be reached. An error with this among its sources has an exit code of its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Away(String);

impl Client {
    pub(crate) fn new(base: &str, token: Option<TokenText>) -> Result<Self, ClientError> {
        let base = base.trim_end_matches('/').to_owned();
        let http = reqwest::Client::builder().no_proxy().build();
        let http = http.map_err(|error| unreachable(&base, &error))?;
        Ok(Self { http, base, token, owner: None })
    }

    /// The same client, which checks before each request that the owner of the data directory listens at the
    /// address. A gateway can end while a command runs, and any program can take its port then.
    pub(crate) fn only_to(self, owner: Owner) -> Self {
        Self { owner: Some(owner), ..self }
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, ClientError> {
        self.ask(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        self.ask(Method::POST, path, Some(body)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        self.ask(Method::PATCH, path, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Value, ClientError> {
        self.ask(Method::DELETE, path, None).await
    }

    /// Follows a session; `after` is the last event the caller has.
    pub(crate) fn events(&self, session: &str, after: &str) -> Events {
        Events::new(self.clone(), session, after)
    }

    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, ClientError> {
        let url = format!("{}{path}", self.base);
        let mut request = self.request(method, &url)?.timeout(DEADLINE);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = self.send(request).await?;
        let status = response.status();
        let bytes = response.bytes().await.map_err(|error| unreachable(&self.base, &error))?;
        if !status.is_success() {
            return Err(refusal::read(&self.base, status, &bytes));
        }
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(|_| self.odd(status))
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<reqwest::Response, ClientError> {
        let error = match request.send().await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        // A connection that was made and then broke off may have been one too many.
        let was_connected = !error.is_connect() && !error.is_timeout() && !error.is_builder();
        let refused = if was_connected { early_answer::read(&self.base).await } else { None };
        Err(refused.unwrap_or_else(|| unreachable(&self.base, &error)))
    }

    fn odd(&self, status: StatusCode) -> ClientError {
        ClientError::Odd { url: self.base.clone(), status }
    }

    fn request(&self, method: Method, url: &str) -> Result<reqwest::RequestBuilder, ClientError> {
        match self.owner.as_ref().map_or(Ok(()), Owner::check) {
            Ok(()) => {}
            Err(Doubt::Unseen(_)) if self.token.is_none() => {}
            Err(Doubt::Other(why) | Doubt::Unseen(why)) => {
                let problem = format!("{why}, so nothing was sent");
                return Err(ClientError::Unreachable { url: self.base.clone(), problem: Away(problem) });
            }
        }
        let request = self.http.request(method, url);
        Ok(match &self.token {
            Some(token) => request.bearer_auth(token.expose()),
            None => request,
        })
    }
}

/// Escapes one segment of a path, so that typed text cannot change the path.
pub(crate) fn segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn unreachable(base: &str, error: &reqwest::Error) -> ClientError {
    if error.is_builder() {
        return ClientError::Address(base.to_owned());
    }
    ClientError::Unreachable { url: base.to_owned(), problem: Away(cause(error)) }
}

fn cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "it took too long".to_owned();
    }
    // The innermost cause is the useful one, for example "connection refused".
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    match cause.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => "nothing listens there".to_owned(),
        Some(io::ErrorKind::TimedOut) => "it took too long".to_owned(),
        Some(_) | None if error.is_connect() => cause.to_string(),
        Some(_) | None => "the connection broke off".to_owned(),
    }
}

impl ClientError {
    /// The name of the problem, if the gateway answered with one.
    pub(crate) fn kind(&self) -> Option<&str> {
        match self {
            Self::Refused { kind, .. } => Some(kind),
            Self::Unreachable { .. } | Self::Address(_) | Self::Odd { .. } => None,
        }
    }

    /// Whether a retry can succeed.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { kind, .. } => {
                let passing = [
                    "recovering",
                    "degraded",
                    "closing",
                    "too-many-agents",
                    early_answer::TOO_MANY_CONNECTIONS,
                ];
                passing.contains(&kind.as_str())
            }
            Self::Address(_) | Self::Odd { .. } => false,
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{Client, Owner};
    use crate::gateway_file::{GatewayFile, TokenPlace};
    use std::io::{BufRead, BufReader, ErrorKind, Write};
    use std::net::TcpListener;

    #[tokio::test]
    async fn a_connection_above_the_limit_is_told_the_limit_whether_or_not_it_was_read_first() {
        let detail = "this address has 3 open connections, and all are in use";
        let problem =
            format!(r#"{{"type":"urn:turnstream:problem:too-many-connections","detail":"{detail}"}}"#);
        let answer = format!(
            "HTTP/1.1 503 Service Unavailable\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{problem}",
            problem.len()
        );
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::new(&format!("http://{}", listener.local_addr().unwrap()), None).unwrap();
        std::thread::spawn(move || {
            // It answers without reading, as the gateway does, and a client that is still sending is reset.
            while let Ok((mut socket, _)) = listener.accept() {
                socket.write_all(answer.as_bytes()).unwrap();
            }
        });
        for _ in 0..20 {
            let refused = client.get("/v1/sessions").await.unwrap_err();
            assert_eq!(refused.to_string(), detail);
            assert!(refused.may_pass());
        }
    }

    #[tokio::test]
    async fn a_client_that_outlives_its_gateway_tells_the_next_one_at_the_port_nothing() {
        let data = tempfile::tempdir().unwrap();
        let lock = std::fs::File::open(data.path()).unwrap();
        lock.try_lock().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _note = GatewayFile::write(data.path(), address, TokenPlace::Directory).unwrap();
        let client =
            Client::new(&format!("http://{address}"), Some("a-long-token".to_owned().into())).unwrap();
        let client = client.only_to(Owner::new(data.path(), address));

        let gateway = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let lines = BufReader::new(socket.try_clone().unwrap()).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            socket.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}").unwrap();
            (head.join("\n"), listener)
        });
        client.get("/v1/health").await.unwrap();
        let (head, listener) = gateway.join().unwrap();
        assert!(head.to_lowercase().contains("authorization: bearer a-long-token"), "{head}");

        // The owner has released the directory, and the port is still open.
        drop(lock);
        listener.set_nonblocking(true).unwrap();
        let refused = client.get("/v1/health").await.unwrap_err().to_string();
        assert!(
            refused.contains("does not hold the lock") && refused.contains("nothing was sent"),
            "{refused}"
        );
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}
