//! The errors of requests to an opencode server.

use super::directory::DirectoryError;
use super::password::PasswordError;
use serde_json::Value;
use std::fmt;
use std::time::Duration;
use thiserror::Error;
use turnstream_adapter::AgentError;
use turnstream_model::SharedError;

/// The most characters of a body that an error holds.
const EXCERPT: usize = 200;

/// Why a request failed. No variant holds credentials.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The address cannot be used.
    #[error("the base URL {url:?} cannot be used: {problem}")]
    BaseUrl {
        /// The address, without credentials.
        url: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The HTTP client could not be created.
    #[error("cannot make an HTTP client: {}", causes(.0))]
    Setup(#[source] reqwest::Error),
    /// The directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// Not an id of opencode. In a path it would request something else.
    #[error(
        "{id:?} is not an id of opencode: it has to start with {prefix:?} and hold only letters, digits, - and _"
    )]
    Id {
        /// The id.
        id: String,
        /// The prefix of such ids.
        prefix: &'static str,
    },
    /// There is no password.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// The server refuses the password, also after its source was asked for a fresh one.
    #[error("opencode refuses the password of user {user:?} for {request}; {remedy}")]
    Unauthorized {
        /// Method and path.
        request: String,
        /// The user name.
        user: String,
        /// What a person can do; depends on the source of the password.
        remedy: String,
    },
    /// No connection could be opened: the server has not seen the request.
    #[error("cannot connect to opencode for {request}: {}", causes(source))]
    Connect {
        /// Method and path.
        request: String,
        /// The error of the HTTP client.
        source: reqwest::Error,
    },
    /// No complete answer in time. The server may have handled the request.
    #[error("opencode did not answer {request} within {after:?}")]
    Timeout {
        /// Method and path.
        request: String,
        /// The timeout.
        after: Duration,
    },
    /// The connection broke. The server may have handled the request.
    #[error("the connection to opencode broke during {request}: {}", causes(source))]
    Broken {
        /// Method and path.
        request: String,
        /// The error of the HTTP client.
        source: reqwest::Error,
    },
    /// The server answered with an error.
    #[error(transparent)]
    Refused(#[from] Box<Refused>),
    /// The answer is the web page that opencode sends for unknown paths and methods.
    #[error(
        "opencode answered {request} with a web page: this server does not know the request; is it another version?"
    )]
    UnknownRequest {
        /// Method and path.
        request: String,
    },
    /// The answer has another form than expected.
    #[error("opencode's answer to {request} cannot be read: {problem}; it begins with: {body}")]
    Unreadable {
        /// Method and path.
        request: String,
        /// The error of the parser, or what is wrong otherwise.
        #[source]
        problem: SharedError,
        /// At most 200 characters of the body.
        body: String,
    },
    /// The session belongs to another directory.
    #[error("session {session} works in {found}, not in {asked}; leave out the id to get a new one")]
    OtherDirectory {
        /// The id of the session.
        session: String,
        /// Its directory.
        found: String,
        /// The requested directory.
        asked: String,
    },
}

/// An error answer of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Method and path.
    pub request: String,
    /// The HTTP status.
    pub status: u16,
    /// The request id header, if there is one.
    pub request_id: Option<String>,
    /// opencode's name of the error (`name` or `_tag`).
    pub name: Option<String>,
    /// opencode's message (`data.message` or `message`), at most 200 characters.
    pub message: Option<String>,
    /// The reference in the server's log (`data.ref`).
    pub reference: Option<String>,
    /// At most 200 characters of the body.
    pub body: String,
}

// === impl ClientError ===

impl ClientError {
    /// The HTTP status, if there was an answer.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused(refused) => Some(refused.status),
            Self::Unauthorized { .. } => Some(401),
            Self::BaseUrl { .. }
            | Self::Setup(_)
            | Self::Directory(_)
            | Self::Id { .. }
            | Self::Password(_)
            | Self::Connect { .. }
            | Self::Timeout { .. }
            | Self::Broken { .. }
            | Self::UnknownRequest { .. }
            | Self::Unreadable { .. }
            | Self::OtherDirectory { .. } => None,
        }
    }

    /// The request id header of the answer, if there was one.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Self::Refused(refused) => refused.request_id.as_deref(),
            _ => None,
        }
    }

    /// True if the server answered 404.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// True if the server has not seen the request.
    pub fn is_unsent(&self) -> bool {
        matches!(self, Self::Connect { .. })
    }

    /// The error for a log line. It leaves out everything the server wrote: that may be text of a model or
    /// a tool.
    pub fn for_log(&self) -> ForLog<'_> {
        ForLog(self)
    }
}

impl AgentError for ClientError {
    fn for_log(&self) -> String {
        ForLog(self).to_string()
    }
}

/// See [`ClientError::for_log`].
pub struct ForLog<'a>(&'a ClientError);

impl fmt::Display for ForLog<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ClientError::Refused(refused) => {
                let Refused { request, status, request_id, name, reference, message: _, body: _ } =
                    &**refused;
                write!(f, "opencode answered {request} with {status}")?;
                if let Some(name) = name {
                    write!(f, ": {name}")?;
                }
                if let Some(reference) = reference {
                    write!(f, " (ref {reference} in its log)")?;
                }
                match request_id {
                    Some(id) => write!(f, " (request id {id})"),
                    None => Ok(()),
                }
            }
            ClientError::Unreadable { request, problem: _, body: _ } => {
                write!(f, "opencode's answer to {request} cannot be read")
            }
            ClientError::BaseUrl { .. }
            | ClientError::Setup(_)
            | ClientError::Directory(_)
            | ClientError::Id { .. }
            | ClientError::Password(_)
            | ClientError::Unauthorized { .. }
            | ClientError::Connect { .. }
            | ClientError::Timeout { .. }
            | ClientError::Broken { .. }
            | ClientError::UnknownRequest { .. }
            | ClientError::OtherDirectory { .. } => fmt::Display::fmt(self.0, f),
        }
    }
}

// === impl Refused ===

impl Refused {
    /// Reads the four shapes of error bodies (capture `p-errors`): `{name,data}`, `{_tag,message}`,
    /// `{_tag}`, empty.
    pub(super) fn new(request: String, status: u16, request_id: Option<String>, body: &[u8]) -> Self {
        let json: Value = turnstream_json::from_slice(body).unwrap_or(Value::Null);
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(excerpt);
        Self {
            request,
            status,
            request_id: request_id.as_deref().map(excerpt),
            name: text(&json["name"]).or_else(|| text(&json["_tag"])),
            message: text(&json["data"]["message"]).or_else(|| text(&json["message"])),
            reference: text(&json["data"]["ref"]),
            body: excerpt(&String::from_utf8_lossy(body)),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request, status, request_id, name, message, reference, body } = self;
        write!(f, "opencode answered {request} with {status}")?;
        match (name, message) {
            (Some(name), Some(message)) => write!(f, ": {name}: {message}")?,
            (Some(word), None) | (None, Some(word)) => write!(f, ": {word}")?,
            (None, None) if body.is_empty() => {}
            (None, None) => write!(f, ": {body}")?,
        }
        if let Some(reference) = reference {
            write!(f, " (ref {reference} in its log)")?;
        }
        if let Some(id) = request_id {
            write!(f, " (request id {id})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refused {}

/// What made a request fail, down to the error of the system, without the address of the server.
pub(super) fn causes(error: &reqwest::Error) -> String {
    let mut source = std::error::Error::source(error);
    let mut causes = Vec::new();
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    if causes.is_empty() { "the request could not be sent".to_owned() } else { causes.join(": ") }
}

/// The beginning of a text.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().take(EXCERPT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, body: &str) -> String {
        Refused::new("GET /session/x".to_owned(), status, None, body.as_bytes()).to_string()
    }

    #[test]
    fn the_four_shapes_of_error_bodies_are_read() {
        // From capture p-errors.
        let shapes = [
            r#"{"name":"NotFoundError","data":{"message":"Session not found: ses_0000000000000000000000000000"}}"#,
            r#"{"name":"UnknownError","data":{"message":"Unexpected server error. Check server logs for details.","ref":"err_6db0dfc7"}}"#,
            r#"{"_tag":"PermissionNotFoundError","requestID":"per_000000000000","message":"Permission request not found: per_000000000000"}"#,
            r#"{"_tag":"BadRequest"}"#,
            "",
            "<html>a proxy",
        ];
        let said: Vec<String> = shapes.iter().map(|body| refused(400, body)).collect();
        assert_eq!(
            said,
            [
                "opencode answered GET /session/x with 400: NotFoundError: Session not found: ses_0000000000000000000000000000",
                "opencode answered GET /session/x with 400: UnknownError: Unexpected server error. Check server logs for details. (ref err_6db0dfc7 in its log)",
                "opencode answered GET /session/x with 400: PermissionNotFoundError: Permission request not found: per_000000000000",
                "opencode answered GET /session/x with 400: BadRequest",
                "opencode answered GET /session/x with 400",
                "opencode answered GET /session/x with 400: <html>a proxy",
            ]
        );
    }

    #[test]
    fn a_long_body_is_cut_between_characters() {
        let body = format!(r#"{{"message":"{}"}}"#, "ä".repeat(500));
        let refused = Refused::new("GET /x".to_owned(), 500, Some("r1".to_owned()), body.as_bytes());
        assert_eq!(refused.message, Some("ä".repeat(200)));
        assert_eq!(refused.body.chars().count(), 200);
        assert_eq!(refused.request_id.as_deref(), Some("r1"));
    }
}
