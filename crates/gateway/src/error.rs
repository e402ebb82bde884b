//! What can go wrong, named for whoever reads it.

use std::path::PathBuf;
use turnstream_log::{AppendError, ClaimError, ReadError, RemoveError};
use turnstream_model::id::SessionId;
use turnstream_model::machine::Refusal;

/// Why a gateway could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The log.
    #[error(transparent)]
    Log(#[from] turnstream_log::OpenError),
    /// What the log says could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Why a request changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No such session.
    #[error("there is no session {0}")]
    UnknownSession(SessionId),
    /// No such agent.
    #[error("there is no agent {asked:?}; there {}", listed(known))]
    UnknownAgent {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The agent is there and cannot be used.
    #[error("agent {agent:?} cannot be used: {problem}")]
    AgentUnusable {
        /// The agent.
        agent: String,
        /// Why, and what to do.
        problem: String,
    },
    /// The agent has no such model.
    #[error("agent {agent:?}: {problem}")]
    UnknownModel {
        /// The agent.
        agent: String,
        /// What is wrong with it, and what there is.
        problem: String,
        /// The models there are, where they are known.
        known: Vec<String>,
    },
    /// The working directory is not one.
    #[error("{} is not a directory: {problem}", path.display())]
    NoDirectory {
        /// What was asked for.
        path: PathBuf,
        /// What the system said.
        problem: String,
    },
    /// The working directory is somewhere else than sessions may work.
    #[error("{} is not below {}", path.display(), shown(roots))]
    OutsideRoots {
        /// What was asked for.
        path: PathBuf,
        /// Where sessions may work.
        roots: Vec<PathBuf>,
    },
    /// The key was used before, for something else.
    #[error("key {key:?} was used before with {differs}; use another key for another request")]
    KeyReused {
        /// The key.
        key: String,
        /// What is different.
        differs: String,
    },
    /// What was asked is not possible in the state the session is in.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The prompt cannot be one.
    #[error("{0}")]
    BadPrompt(String),
    /// The name of a model or a mode holds what is redacted.
    #[error(
        "the {what} {shown:?} holds a secret, by the rules of redaction; a name that an agent is to understand cannot be \
         redacted: choose another one, or another value for the secret if it is an ordinary word"
    )]
    SecretName {
        /// What it is a name of.
        what: &'static str,
        /// The name without the secret.
        shown: String,
    },
    /// The answer does not fit what was asked.
    #[error("{0}")]
    BadAnswer(String),
    /// There is nothing to look for, or too much.
    #[error("{0}")]
    BadSearch(String),
    /// The cursor of a search is none.
    #[error("{0}")]
    BadCursor(String),
    /// Too many others search.
    #[error("{at_a_time} searches are under way and none ended within {waited:.1?}; try again in a moment")]
    SearchBusy {
        /// How many there are at a time.
        at_a_time: usize,
        /// How long it was waited for one to end.
        waited: std::time::Duration,
    },
    /// What a crash left open is being settled.
    #[error("session {0} is settling what a restart left open; try again in a moment")]
    Recovering(SessionId),
    /// The disk does not take anything at the moment.
    #[error("nothing can be kept at the moment: {0}; it is tried again, so try again in a moment")]
    Degraded(String),
    /// It was taken, and is not durable yet.
    #[error(
        "this was taken and cannot be kept at the moment: {0}; it is carried out when it can be, unless the gateway \
         stops before that, so ask again to be sure, with the same key"
    )]
    Unkept(String),
    /// The agent was told to stop, and that it was is not durable yet.
    #[error(
        "the agent was told to stop, which cannot be kept at the moment: {0}; after a crash it would not be told again, \
         so ask again to be sure"
    )]
    StopUnkept(String),
    /// There is nothing that could be exported.
    #[error(
        "session {session} cannot be exported yet: {open} is open since the beginning of what is kept of it"
    )]
    NothingSettled {
        /// The session.
        session: SessionId,
        /// What is open.
        open: String,
    },
    /// The gateway is being shut down.
    #[error("the gateway is shutting down")]
    Closing,
    /// The log failed.
    #[error("the log failed: {0}")]
    Log(String),
}

/// What a first request had, for whoever asks for something else now.
pub(crate) fn named(what: &str, value: Option<&str>) -> String {
    value.map_or_else(|| format!("no {what}"), |value| format!("{what} {value:?}"))
}

fn listed(known: &[String]) -> String {
    if known.is_empty() { "are none".to_owned() } else { format!("is {}", known.join(", ")) }
}

fn shown(roots: &[PathBuf]) -> String {
    let roots: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
    if roots.is_empty() { "any directory that sessions may work in".to_owned() } else { roots.join(" or ") }
}

impl RequestError {
    pub(crate) fn of_read(error: ReadError) -> Self {
        match error {
            ReadError::Unknown(id) => Self::UnknownSession(SessionId::from(id)),
            other => Self::Log(other.to_string()),
        }
    }

    pub(crate) fn of_claim(error: ClaimError) -> Self {
        match error {
            ClaimError::Unknown(id) => Self::UnknownSession(SessionId::from(id)),
            ClaimError::Closed => Self::Closing,
            other => Self::Log(other.to_string()),
        }
    }

    pub(crate) fn of_remove(error: RemoveError) -> Self {
        match error {
            RemoveError::Unknown(id) => Self::UnknownSession(SessionId::from(id)),
            RemoveError::Closed => Self::Closing,
            RemoveError::Store(problem) => Self::Log(problem.to_string()),
        }
    }

    pub(crate) fn of_append(error: &AppendError) -> Self {
        match error {
            AppendError::Closed => Self::Closing,
            AppendError::Deleted(id) => Self::UnknownSession(SessionId::from(id.clone())),
            other => Self::Log(other.to_string()),
        }
    }
}
