//! A client of a Turnstream gateway: requests, and event streams that resume by themselves.
//!
//! [`Client`] has one method for each thing that programs do with a session, and [`Client::get`] and its
//! siblings for every other route of `docs/http.md`. Answers are JSON values. [`Client::events`] follows a
//! session over connections that break, and delivers each event once.
//!
//! ```no_run
//! # async fn example() -> Result<(), turnstream_client::ClientError> {
//! use serde_json::json;
//! use turnstream_client::{Client, Patience, Received, Token, new_key};
//!
//! let client = Client::new("http://127.0.0.1:4180", Some(Token::from("the token".to_owned())))?;
//! let session = client.create_session(&json!({"agent": "opencode", "cwd": "/srv/project"})).await?;
//! let id = session["id"].as_str().unwrap_or_default();
//! let mut events = client.events(id, "0", Patience::default());
//! client.prompt(id, &json!([{"type": "text", "text": "Hello"}]), &new_key("example")).await?;
//! loop {
//!     if let Received::Event { line, .. } = events.next().await? {
//!         println!("{line}");
//!     }
//! }
//! # }
//! ```

mod backoff;
mod early_answer;
mod error;
mod events;
mod files;
mod sessions;

pub use backoff::{Backoff, with_retries};
pub use error::{Away, ClientError, Problem};
pub use events::{Events, Patience, Received};
pub use files::Download;
pub use sessions::{Answer, CancelTarget, Outcome};

use error::unreachable;
use reqwest::Method;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long a gateway may take to answer. A request can wait for the disk, and never for an agent.
const DEADLINE: Duration = Duration::from_secs(30);

/// The address of a gateway, and the token for it. Clones share their connections.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<Token>,
    guard: Option<Guard>,
}

/// A check before each request.
type Guard = Arc<dyn Fn() -> Result<Address, String> + Send + Sync>;

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// To the address that the client was made with.
    Same,
    /// To this one. The gateway has moved.
    Moved(String),
}

/// A gateway's token. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl From<String> for Token {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the gateway at a URL like `http://127.0.0.1:4180`. Nothing is sent yet.
    pub fn new(base: &str, token: Option<Token>) -> Result<Self, ClientError> {
        let base = base.trim_end_matches('/').to_owned();
        let http = reqwest::Client::builder().no_proxy().build();
        let http = http.map_err(|error| unreachable(&base, &error))?;
        Ok(Self { http, base, token, guard: None })
    }

    /// The same client, which runs a check before each request. If the check fails, nothing is sent, and the
    /// request fails as [`ClientError::Unreachable`].
    pub fn guarded(self, guard: impl Fn() -> Result<Address, String> + Send + Sync + 'static) -> Self {
        Self { guard: Some(Arc::new(guard)), ..self }
    }

    /// The URL that the client was made with.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Whether requests have a token.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Sends a request. `path` begins with a slash; [`segment`] escapes a part of it.
    pub async fn get(&self, path: &str) -> Result<Value, ClientError> {
        self.ask(Method::GET, path, None).await
    }

    /// Sends a request with a body.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// Sends a request with a body.
    pub async fn patch(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        self.ask(Method::PATCH, path, Some(body)).await
    }

    /// Sends a request.
    pub async fn delete(&self, path: &str) -> Result<Value, ClientError> {
        self.ask(Method::DELETE, path, None).await
    }

    /// Follows a session. `after` is the cursor of the last event that the caller has, or `0`.
    pub fn events(&self, session: &str, after: &str, patience: Patience) -> Events {
        Events::new(self.clone(), session, after, patience)
    }

    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, ClientError> {
        let mut request = self.request(method, path)?.timeout(DEADLINE);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = self.send(request).await?;
        let status = response.status();
        let bytes = response.bytes().await.map_err(|error| unreachable(&self.base, &error))?;
        if !status.is_success() {
            return Err(ClientError::read(&self.base, status.as_u16(), &bytes));
        }
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(|_| self.odd(status.as_u16()))
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

    fn odd(&self, status: u16) -> ClientError {
        ClientError::Odd { url: self.base.clone(), status }
    }

    fn broken(&self, problem: &str) -> ClientError {
        ClientError::Unreachable { url: self.base.clone(), problem: Away::new(problem) }
    }

    fn request(&self, method: Method, path: &str) -> Result<reqwest::RequestBuilder, ClientError> {
        let url = match self.guard.as_ref().map_or(Ok(Address::Same), |guard| guard()) {
            Ok(Address::Same) => format!("{}{path}", self.base),
            Ok(Address::Moved(base)) => format!("{}{path}", base.trim_end_matches('/')),
            Err(why) => return Err(self.broken(&format!("{why}, so nothing was sent"))),
        };
        let request = self.http.request(method, url);
        Ok(match &self.token {
            Some(token) => request.bearer_auth(&token.0),
            None => request,
        })
    }
}

/// Escapes one segment of a path, so that typed text cannot change the path.
pub fn segment(text: &str) -> String {
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

/// A new idempotency key. Its beginning says which program made it.
pub fn new_key(program: &str) -> String {
    format!("{program}-{:032x}", fastrand::u128(..))
}
