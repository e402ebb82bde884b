//! The client of a gateway, in the words of the command line: errors name commands and flags, and text of a
//! gateway is escaped.

mod find;
mod owner;
mod prefix;
mod refusal;
mod shared;

pub(crate) use find::{
    Connected, FindError, Interrupted, Reach, connect, connect_running, connect_unless, open_unless,
    reachable,
};
pub(crate) use owner::{Doubt, Owner};
pub(crate) use shared::SharedGateway;
pub(crate) use turnstream_client::{Away, segment};

use crate::config::TokenText;
use crate::escape::Safe;
use crate::gateway_file;
use serde_json::Value;
use std::fs::File;
use std::path::Path;
use std::time::Duration;
use turnstream_client::{Address, Patience, Token};

/// The address of a gateway, and the token for it.
#[derive(Clone)]
pub(crate) struct Client(turnstream_client::Client);

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
        /// Whether a retry can succeed.
        may_pass: bool,
    },
    #[error("what answers at {url} is no turnstream gateway of this version: it said {status}")]
    Odd { url: String, status: u16 },
}

impl From<turnstream_client::ClientError> for ClientError {
    fn from(error: turnstream_client::ClientError) -> Self {
        use turnstream_client::ClientError as Error;
        let may_pass = error.may_pass();
        match error {
            Error::Unreachable { url, problem } => Self::Unreachable { url, problem },
            Error::Address(url) => Self::Address(url),
            Error::Refused(problem) => {
                Self::Refused { detail: refusal::words(&problem), kind: problem.kind, may_pass }
            }
            Error::Odd { url, status } => Self::Odd { url, status },
        }
    }
}

impl Client {
    pub(crate) fn new(base: &str, token: Option<TokenText>) -> Result<Self, ClientError> {
        let token = token.map(|token| Token::from(token.expose().to_owned()));
        Ok(Self(turnstream_client::Client::new(base, token)?))
    }

    /// The same client, which checks before each request that the owner of the data directory listens at the
    /// address. A gateway can end while a command runs, and any program can take its port then.
    pub(crate) fn only_to(self, owner: Owner) -> Self {
        let has_token = self.0.has_token();
        Self(self.0.guarded(move || match owner.check() {
            Ok(()) => Ok(Address::Same),
            Err(Doubt::Unseen(_)) if !has_token => Ok(Address::Same),
            Err(Doubt::Other(why) | Doubt::Unseen(why)) => Err(why),
        }))
    }

    /// The same client, which goes wherever the owner of the data directory listens. For commands that
    /// outlive a gateway.
    fn following(self, data: &Path) -> Self {
        let (data, has_token) = (data.to_owned(), self.0.has_token());
        Self(self.0.guarded(move || {
            let Some(running) = gateway_file::read(&data) else {
                return Err("no gateway serves the data directory".to_owned());
            };
            let moved = Address::Moved(format!("http://{}", reachable(running.address)));
            match Owner::new(&data, running.address).check() {
                Ok(()) => Ok(moved),
                Err(Doubt::Unseen(_)) if !has_token => Ok(moved),
                Err(Doubt::Other(why) | Doubt::Unseen(why)) => Err(why),
            }
        }))
    }

    /// The client in the words of HTTP.
    pub(crate) fn plain(&self) -> &turnstream_client::Client {
        &self.0
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, ClientError> {
        Ok(self.0.get(path).await?)
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        Ok(self.0.post(path, body).await?)
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Value, ClientError> {
        Ok(self.0.delete(path).await?)
    }

    pub(crate) async fn create_session(&self, body: &Value) -> Result<Value, ClientError> {
        Ok(self.0.create_session(body).await?)
    }

    pub(crate) async fn change_session(&self, session: &str, changes: &Value) -> Result<Value, ClientError> {
        Ok(self.0.change_session(session, changes).await?)
    }

    /// Queues a prompt; the body has a key.
    pub(crate) async fn queue_prompt(&self, session: &str, body: &Value) -> Result<Value, ClientError> {
        Ok(self.0.queue_prompt(session, body).await?)
    }

    /// Follows a session; `after` is the last event the caller has.
    pub(crate) fn events(&self, session: &str, after: &str) -> Events {
        Events(self.0.events(session, after, Patience::default()))
    }

    /// Starts the export of a session. Waits up to `wait` for open turns to end.
    pub(crate) async fn export(
        &self,
        session: &str,
        format: &str,
        wait: Duration,
    ) -> Result<Download, ClientError> {
        let download = self.0.export(session, format, wait).await?;
        Ok(Download { first: download.first, left_out: download.left_out, download })
    }

    /// Imports a session from a file; returns the session.
    pub(crate) async fn import(&self, file: File, new_id: bool) -> Result<Value, ClientError> {
        Ok(self.0.import(file, new_id).await?)
    }
}

/// A running export.
pub(crate) struct Download {
    download: turnstream_client::Download,
    /// The `seq` of its first event.
    pub(crate) first: u64,
    /// How many later events are not in it.
    pub(crate) left_out: u64,
}

impl Download {
    /// The next bytes; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        Ok(self.download.next().await?)
    }
}

/// An element of a stream of events.
pub(crate) enum Received {
    /// The first frame of each connection: whether the cursor was found.
    Outcome(Value),
    /// One event: its JSON line, and the parsed value.
    Event { line: String, event: Value },
    /// The connection was lost. It is reported once; an `Outcome` follows after the reconnect.
    Away(ClientError),
}

/// A stream of one session's events.
pub(crate) struct Events(turnstream_client::Events);

impl Events {
    /// Waits for the next element, also over a reconnect. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Received, ClientError> {
        loop {
            match self.0.next().await? {
                turnstream_client::Received::Outcome(outcome) => return Ok(Received::Outcome(outcome)),
                turnstream_client::Received::Away(error) => return Ok(Received::Away(error.into())),
                turnstream_client::Received::Event { line, .. } => {
                    if let Ok(event) = serde_json::from_str(&line) {
                        return Ok(Received::Event { line, event });
                    }
                }
            }
        }
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
            Self::Refused { may_pass, .. } => *may_pass,
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
