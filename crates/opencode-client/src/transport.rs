//! Requests to one server: credentials, timeouts, retries of safe requests, and errors that say what
//! happened.

use super::auth::Credentials;
use super::directory::Directory;
use super::error::{ClientError, Refused, excerpt};
use super::password::PasswordSource;
use super::settings::{ClientInfo, Timeouts};
use bytes::{Bytes, BytesMut};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url, redirect};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;
use turnstream_model::SharedError;

/// Pauses before a failed connection is retried: a server that is restarting refuses connections for a
/// moment.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_millis(500)];
/// The largest answer in bytes. The largest real ones are message lists with whole tool outputs and files.
const BODY_CAP: usize = 256 * 1024 * 1024;
/// Bytes of an error answer that are read.
const ERROR_CAP: usize = 64 * 1024;
/// An idle connection is closed after this time: the server may have been restarted.
const IDLE_CONNECTION: Duration = Duration::from_secs(5);
/// Headers that may hold a request id.
const REQUEST_ID: [&str; 2] = ["x-request-id", "request-id"];

/// The HTTP client for one server, shared by a client and its event readers.
#[derive(Debug)]
pub(super) struct Transport {
    http: reqwest::Client,
    base: Url,
    credentials: Credentials,
    pub(super) timeouts: Timeouts,
}

/// One request.
#[derive(Debug)]
pub(super) struct Call {
    method: Method,
    url: Url,
    body: Option<Value>,
    /// Method and path, for error messages.
    pub(super) name: String,
}

/// Whether a request may be repeated after its connection broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeat {
    /// Yes: the request changes nothing.
    Safe,
    /// Only if it was never sent: the server may have acted on it.
    OnlyUnsent,
}

// === impl Call ===

impl Call {
    pub(super) fn with_query(mut self, name: &str, value: &str) -> Self {
        self.url.query_pairs_mut().append_pair(name, value);
        self
    }

    pub(super) fn with_body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    fn repeat(&self) -> Repeat {
        if self.method == Method::GET { Repeat::Safe } else { Repeat::OnlyUnsent }
    }
}

// === impl Transport ===

impl Transport {
    pub(super) fn new(
        base_url: &str,
        password: impl PasswordSource,
        timeouts: Timeouts,
        info: &ClientInfo,
    ) -> Result<Self, ClientError> {
        let base = base(base_url)?;
        let http = reqwest::Client::builder()
            .user_agent(format!("{}/{}", info.name, info.version))
            .connect_timeout(timeouts.connect)
            .pool_idle_timeout(IDLE_CONNECTION)
            // The password goes only to the configured server.
            .redirect(redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(ClientError::Setup)?;
        Ok(Self { http, base, credentials: Credentials::new(password), timeouts })
    }

    pub(super) fn base_url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// A request for this path. The directory goes into the query: opencode ignores it in a body.
    pub(super) fn call(&self, method: Method, path: &[&str], directory: Option<&Directory>) -> Call {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        let name = format!("{method} /{}", path.join("/"));
        if let Some(directory) = directory {
            url.query_pairs_mut().append_pair("directory", &directory.parameter());
        }
        Call { method, url, body: None, name }
    }

    /// Sends a request and reads the whole answer, within the request timeout.
    pub(super) async fn send(&self, call: &Call) -> Result<Bytes, ClientError> {
        self.send_within(call, self.timeouts.request).await
    }

    /// Like [`Transport::send`], with another timeout.
    pub(super) async fn send_within(&self, call: &Call, after: Duration) -> Result<Bytes, ClientError> {
        let late = || ClientError::Timeout { request: call.name.clone(), after };
        tokio::time::timeout(after, self.send_with_retries(call)).await.map_err(|_| late())?
    }

    /// Sends a request and reads the answer as JSON.
    pub(super) async fn json<T: DeserializeOwned>(&self, call: &Call) -> Result<T, ClientError> {
        read(call, &self.send(call).await?)
    }

    /// Opens an event stream. The caller sets the timeout.
    pub(super) async fn open(&self, call: &Call) -> Result<Response, ClientError> {
        self.authorized(call).await
    }

    async fn send_with_retries(&self, call: &Call) -> Result<Bytes, ClientError> {
        for pause in RETRY_PAUSES {
            match self.send_once(call).await {
                Err(ClientError::Connect { .. }) => {}
                Err(ClientError::Broken { .. }) if call.repeat() == Repeat::Safe => {}
                answered => return answered,
            }
            tokio::time::sleep(pause).await;
        }
        self.send_once(call).await
    }

    async fn send_once(&self, call: &Call) -> Result<Bytes, ClientError> {
        let response = self.authorized(call).await?;
        body(call, response, BODY_CAP).await
    }

    /// Sends a request. If the server answers 401, sends it once more with a fresh password.
    async fn authorized(&self, call: &Call) -> Result<Response, ClientError> {
        let credential = self.credentials.current().await?;
        let response = self.request(call, |request| self.credentials.apply(&credential, request)).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return accepted(call, response).await;
        }
        drop(response);
        if let Some(fresh) = self.credentials.instead_of(&credential).await? {
            let response = self.request(call, |request| self.credentials.apply(&fresh, request)).await?;
            if response.status() != StatusCode::UNAUTHORIZED {
                return accepted(call, response).await;
            }
        }
        let (user, remedy) = (self.credentials.user().to_owned(), self.credentials.remedy());
        Err(ClientError::Unauthorized { request: call.name.clone(), user, remedy })
    }

    async fn request(
        &self,
        call: &Call,
        authorize: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response, ClientError> {
        let mut request = self.http.request(call.method.clone(), call.url.clone());
        request = request.header(ACCEPT, "application/json, text/event-stream");
        if let Some(body) = &call.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        authorize(request).send().await.map_err(|error| failed(call, error))
    }
}

/// Reads an answer as JSON.
pub(super) fn read<T: DeserializeOwned>(call: &Call, body: &[u8]) -> Result<T, ClientError> {
    turnstream_json::from_slice(body).map_err(|error| ClientError::Unreadable {
        request: call.name.clone(),
        problem: SharedError::new(error),
        body: excerpt(&String::from_utf8_lossy(body)),
    })
}

/// Turns error answers, and the web page that opencode sends for unknown paths, into errors.
async fn accepted(call: &Call, response: Response) -> Result<Response, ClientError> {
    let status = response.status();
    if !status.is_success() {
        let request_id = request_id(response.headers());
        // If the body cannot be read, the status has to do.
        let body = body(call, response, ERROR_CAP).await.unwrap_or_default();
        return Err(Box::new(Refused::new(call.name.clone(), status.as_u16(), request_id, &body)).into());
    }
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.starts_with("text/html") {
        return Err(ClientError::UnknownRequest { request: call.name.clone() });
    }
    Ok(response)
}

async fn body(call: &Call, mut response: Response, cap: usize) -> Result<Bytes, ClientError> {
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failed(call, error))? {
        if body.len() + chunk.len() > cap {
            return Err(ClientError::Unreadable {
                request: call.name.clone(),
                problem: SharedError::new(format!("it is longer than {cap} bytes")),
                body: excerpt(&String::from_utf8_lossy(&body[..body.len().min(1024)])),
            });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

fn request_id(headers: &HeaderMap) -> Option<String> {
    let value = REQUEST_ID.iter().find_map(|name| headers.get(*name))?;
    value.to_str().ok().map(str::to_owned)
}

fn failed(call: &Call, error: reqwest::Error) -> ClientError {
    let (request, source) = (call.name.clone(), error.without_url());
    if source.is_connect() {
        ClientError::Connect { request, source }
    } else {
        ClientError::Broken { request, source }
    }
}

/// Checks the form of an address. Nothing is sent.
pub fn check_url(url: &str) -> Result<(), ClientError> {
    base(url).map(drop)
}

fn base(url: &str) -> Result<Url, ClientError> {
    let parsed = Url::parse(url);
    // Credentials in an address are not repeated in the error.
    let shown = || match &parsed {
        Ok(known) => format!(
            "{}://{}{}",
            known.scheme(),
            known.authority().rsplit('@').next().unwrap_or_default(),
            known.path()
        ),
        Err(_) => url.rsplit('@').next().unwrap_or_default().to_owned(),
    };
    let problem = match &parsed {
        Err(error) => format!("{error}; write it like http://127.0.0.1:4096"),
        Ok(url) if url.scheme() == "https" => {
            "this client has no TLS; use http:// on loopback, or through a tunnel or proxy that ends TLS"
                .to_owned()
        }
        Ok(url) if url.scheme() != "http" => "its scheme has to be http".to_owned(),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            "it holds credentials; give them as the password source".to_owned()
        }
        Ok(url) if url.query().is_some() || url.fragment().is_some() => {
            "it has a query or a fragment; leave that out".to_owned()
        }
        Ok(url) => return Ok(url.clone()),
    };
    Err(ClientError::BaseUrl { url: shown(), problem })
}

#[cfg(test)]
mod tests {
    use super::super::password::NoPassword;
    use super::*;

    fn transport(base: &str) -> Result<Transport, ClientError> {
        Transport::new(base, NoPassword, Timeouts::default(), &ClientInfo::default())
    }

    #[test]
    fn a_path_is_put_behind_any_base_and_the_directory_into_the_query() {
        let directory = Directory::new("/srv/a b%41/ü&c").unwrap();
        for base in ["http://127.0.0.1:4096", "http://127.0.0.1:4096/"] {
            let call = transport(base).unwrap().call(Method::GET, &["session", "ses_1"], Some(&directory));
            assert_eq!(
                call.url.as_str(),
                "http://127.0.0.1:4096/session/ses_1?directory=%2Fsrv%2Fa+b%252541%2F%C3%BC%26c"
            );
        }
        let call = transport("http://127.0.0.1:1/opencode/").unwrap().call(Method::GET, &["event"], None);
        assert_eq!((call.url.path(), call.name.as_str()), ("/opencode/event", "GET /event"));
    }

    #[test]
    fn an_address_that_cannot_work_is_refused_without_showing_its_password() {
        let said = |base: &str| transport(base).unwrap_err().to_string();
        assert_eq!(
            said("https://agent.example:4096"),
            "the base URL \"https://agent.example:4096/\" cannot be used: this client has no TLS; use http:// on \
             loopback, or through a tunnel or proxy that ends TLS"
        );
        assert_eq!(
            said("http://opencode:hunter2@127.0.0.1:4096"),
            "the base URL \"http://127.0.0.1:4096/\" cannot be used: it holds credentials; give them as the password source"
        );
        assert_eq!(
            said("127.0.0.1:4096"),
            "the base URL \"127.0.0.1:4096\" cannot be used: relative URL without a base; write it like http://127.0.0.1:4096"
        );
        assert!(!said("bad//x:hunter2@host").contains("hunter2"));
    }
}
