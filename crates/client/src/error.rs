//! Why a request failed.

use crate::early_answer;
use serde_json::Value;
use std::io;

/// The beginning of a problem's type.
const PROBLEM: &str = "urn:turnstream:problem:";

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No answer.
    #[error("the gateway at {url} does not answer: {problem}; is it running there?")]
    Unreachable {
        /// The gateway.
        url: String,
        /// The cause.
        #[source]
        problem: Away,
    },
    /// The URL of the gateway cannot be used.
    #[error("{0} is no address of a gateway; write one like http://127.0.0.1:4180")]
    Address(String),
    /// The gateway answered with a problem.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    /// Something else than a gateway answered.
    #[error("what answers at {url} is no turnstream gateway of this version: it said {status}")]
    Odd {
        /// The address.
        url: String,
        /// The HTTP status of the answer.
        status: u16,
    },
}

/// Why a gateway cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Away(String);

impl Away {
    /// With this cause, in words.
    pub fn new(problem: impl Into<String>) -> Self {
        Self(problem.into())
    }
}

/// A problem that a gateway answered. `docs/http.md` lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The last part of its type, for example `unknown-session`.
    pub kind: String,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong and what to do, for a person who writes HTTP requests.
    pub detail: String,
    /// The same without advice about routes, where the gateway made a difference.
    pub reason: Option<String>,
    /// All members of the problem.
    pub members: Value,
}

impl Problem {
    /// What is wrong, without advice about routes.
    pub fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or(&self.detail)
    }
}

impl ClientError {
    /// Reads the problem in an answer.
    pub(crate) fn read(base: &str, status: u16, body: &[u8]) -> Self {
        let members: Value = serde_json::from_slice(body).unwrap_or_default();
        let kind = members["type"].as_str().and_then(|kind| kind.strip_prefix(PROBLEM)).map(str::to_owned);
        let text = |member: &str| members[member].as_str().map(str::to_owned);
        let (reason, detail) = (text("reason"), text("detail"));
        match (kind, detail.or_else(|| reason.clone())) {
            (Some(kind), Some(detail)) => {
                Self::Refused(Box::new(Problem { kind, status, detail, reason, members }))
            }
            _ => Self::Odd { url: base.to_owned(), status },
        }
    }

    /// The name of the problem, if the gateway answered with one.
    pub fn kind(&self) -> Option<&str> {
        match self {
            Self::Refused(problem) => Some(&problem.kind),
            Self::Unreachable { .. } | Self::Address(_) | Self::Odd { .. } => None,
        }
    }

    /// Whether a retry can succeed.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused(problem) => may_pass(&problem.kind),
            Self::Address(_) | Self::Odd { .. } => false,
        }
    }
}

/// Whether a retry can succeed after this problem.
fn may_pass(kind: &str) -> bool {
    ["recovering", "degraded", "closing", "too-many-agents", early_answer::TOO_MANY_CONNECTIONS]
        .contains(&kind)
}

pub(crate) fn unreachable(base: &str, error: &reqwest::Error) -> ClientError {
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
