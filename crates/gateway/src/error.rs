//! The errors of the gateway. Their texts are shown to users.

use crate::key_ids::IdSecretError;
use std::error::Error;
use std::path::PathBuf;
use turnstream_adapter::{BadMcp, RefusedMcp};
use turnstream_log::{AppendError, ClaimError, ReadError, RemoveError};
pub use turnstream_model::SharedError;
use turnstream_model::event::ResumeAs;
use turnstream_model::id::SessionId;
use turnstream_model::machine::Refusal;

/// Why a gateway could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] turnstream_log::OpenError),
    /// The log was opened and cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The secret of the data directory cannot be used.
    #[error(transparent)]
    IdSecret(#[from] IdSecretError),
}

/// Why a request changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No such session.
    #[error("there is no session {0}")]
    UnknownSession(SessionId),
    /// No such agent.
    #[error("there is no agent {asked:?}; {}", listed(known))]
    UnknownAgent {
        /// The name in the request.
        asked: String,
        /// The configured agents.
        known: Vec<String>,
    },
    /// The agent is configured and cannot be used.
    #[error("agent {agent:?} cannot be used: {problem}")]
    AgentUnusable {
        /// The agent.
        agent: String,
        /// The reason, and what to do.
        problem: String,
    },
    /// The agent has no such model.
    #[error("agent {agent:?}: {problem}")]
    UnknownModel {
        /// The agent.
        agent: String,
        /// What is wrong with the name, and which models there are.
        problem: String,
        /// The agent's models, where they are known.
        known: Vec<String>,
    },
    /// The agent has forgotten the session. The prompt was not accepted.
    #[error(
        "agent {agent:?} no longer has the conversation of session {session} ({native_id}): its data was deleted or lost"
    )]
    AgentForgot {
        /// The agent.
        agent: String,
        /// The session.
        session: SessionId,
        /// The agent's id of it.
        native_id: String,
    },
    /// There is nothing to resume.
    #[error("agent {agent:?} has not forgotten session {session}{}; send a prompt to continue", before(*resumed))]
    NotForgotten {
        /// The agent.
        agent: String,
        /// The session.
        session: SessionId,
        /// How it went on when the agent had last forgotten it.
        resumed: Option<ResumeAs>,
    },
    /// A member of the session's MCP servers is invalid.
    #[error(transparent)]
    BadMcp(#[from] BadMcp),
    /// The agent does not take the session's MCP servers.
    #[error("agent {agent:?} cannot use the MCP servers: {problem}")]
    McpRefused {
        /// The agent.
        agent: String,
        /// The reason.
        #[source]
        problem: RefusedMcp,
    },
    /// The working directory cannot be used.
    #[error("{} cannot be the working directory: {problem}", path.display())]
    NoDirectory {
        /// The path in the request.
        path: PathBuf,
        /// The reason.
        #[source]
        problem: SharedError,
    },
    /// A file below a working directory cannot be read.
    #[error("{path} cannot be read: {problem}")]
    NoFile {
        /// The path in the request.
        path: String,
        /// The reason.
        #[source]
        problem: SharedError,
    },
    /// The working directory is outside the roots.
    #[error("{} is not below {}", path.display(), shown(roots))]
    OutsideRoots {
        /// The path in the request.
        path: PathBuf,
        /// The directories that sessions may work in.
        roots: Vec<PathBuf>,
    },
    /// The key was used before for another request.
    #[error("key {key:?} was used before with {differs}; use another key for another request")]
    KeyReused {
        /// The key.
        key: String,
        /// The first difference between the two requests.
        differs: String,
    },
    /// The request is not possible in the session's current state.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The content of the prompt is invalid.
    #[error("{0}")]
    BadPrompt(String),
    /// A cap is not more than zero.
    #[error("the cap on {cap} must be more than 0; leave it out for no change, or give null for no cap")]
    BadBudget {
        /// `steps`, `time`, `tokens` or `cost`.
        cap: &'static str,
    },
    /// A rule for unattended runs cannot be used.
    #[error("{member}: {problem}")]
    BadUnattended {
        /// `limit_window` or `continue_with`.
        member: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The name of a model or a mode contains a secret.
    #[error(
        "the {what} {shown:?} contains a secret by the redaction rules, and the agent needs the whole name; choose another \
         {what}, or another value for the secret if it is an ordinary word"
    )]
    SecretName {
        /// `model`, `mode` or `name of an MCP server`.
        what: &'static str,
        /// The name without the secret.
        shown: String,
    },
    /// The answer does not fit the approval or question.
    #[error("{0}")]
    BadAnswer(String),
    /// The search has no words, or too many.
    #[error("{0}")]
    BadSearch(String),
    /// The cursor is invalid.
    #[error("{0}")]
    BadCursor(String),
    /// Too many searches run.
    #[error("{at_a_time} searches are running and none ended within {waited:.1?}; try again in a moment")]
    SearchBusy {
        /// How many may run at a time.
        at_a_time: usize,
        /// How long this search waited for its turn.
        waited: std::time::Duration,
    },
    /// A text of the request is too long.
    #[error("{what} has {length} characters, and at most {most} are allowed")]
    TooLong {
        /// The member of the request.
        what: &'static str,
        /// How many characters it has.
        length: usize,
        /// How many it may have.
        most: usize,
    },
    /// No further session may be created or imported.
    #[error(
        "the gateway may hold {most} sessions, and has them; delete sessions that are not needed any more, or raise \
         `sessions` in `[limits]`"
    )]
    TooManySessions {
        /// How many there may be.
        most: usize,
    },
    /// No further agent may work at the moment. The prompt was not accepted.
    #[error(
        "{most} agents may work at the same time, and all of them are busy; try again when a turn has ended, or raise \
         `live_agents` in `[limits]`"
    )]
    TooManyAgents {
        /// How many may work.
        most: usize,
    },
    /// Too many prompts wait in the session.
    #[error(
        "{most} prompts may wait in a session, and do; wait for the end of a turn, withdraw a prompt, or raise \
         `queued_prompts` in `[limits]`"
    )]
    QueueFull {
        /// How many may wait.
        most: usize,
    },
    /// The prompts that wait in the session would be too large.
    #[error(
        "the prompt has {bytes} bytes and {waiting} bytes wait in the session; {most} bytes may wait: wait for the end of \
         a turn, withdraw a prompt, or raise `queued_bytes` in `[limits]`"
    )]
    QueueTooLarge {
        /// The size of the prompt.
        bytes: usize,
        /// The size of the prompts that wait.
        waiting: usize,
        /// How much may wait.
        most: usize,
    },
    /// The session is being recovered after a restart.
    #[error("session {0} is being recovered after a restart; try again in a moment")]
    Recovering(SessionId),
    /// The disk refuses writes. Nothing was done.
    #[error(
        "the log cannot be written at the moment: {0}; the gateway keeps trying, so try again in a moment"
    )]
    Degraded(#[source] SharedError),
    /// The request was accepted, and is not durable yet.
    #[error(
        "the request was accepted, but the log cannot be written at the moment: {0}; it is carried out when the disk \
         recovers, unless the gateway stops first, so repeat it with the same key to be sure"
    )]
    NotDurableYet(#[source] SharedError),
    /// The agent was told to stop, and this is not durable yet.
    #[error(
        "the agent was told to stop, but the log cannot be written at the moment: {0}; after a crash the agent would not \
         be told again, so repeat the request to be sure"
    )]
    StopNotDurableYet(#[source] SharedError),
    /// No part of the session can be exported yet.
    #[error("session {session} cannot be exported yet: {open} has been open since its oldest event")]
    NothingSettled {
        /// The session.
        session: SessionId,
        /// The turn, prompt or approval that is open.
        open: String,
    },
    /// The gateway is shutting down.
    #[error("the gateway is shutting down")]
    Closing,
    /// The log failed.
    #[error("the log failed: {0}")]
    Log(#[source] SharedError),
}

/// A member of the first request with a key, for the error of a second one that differs.
pub(crate) fn named(what: &str, value: Option<&str>) -> String {
    value.map_or_else(|| format!("no {what}"), |value| format!("{what} {value:?}"))
}

fn listed(known: &[String]) -> String {
    if known.is_empty() {
        "none is configured".to_owned()
    } else {
        format!("configured: {}", known.join(", "))
    }
}

fn before(resumed: Option<ResumeAs>) -> String {
    resumed.map_or_else(String::new, |resumed| format!(" since it was resumed as {resumed}"))
}

fn shown(roots: &[PathBuf]) -> String {
    let roots: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
    if roots.is_empty() { "any directory that sessions may work in".to_owned() } else { roots.join(" or ") }
}

impl RequestError {
    /// The log failed with this error, or with this message.
    pub fn log(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Log(SharedError::new(error))
    }

    /// Whether the request failed because the disk is full.
    pub(crate) fn is_disk_full(&self) -> bool {
        let (Self::Degraded(problem) | Self::NotDurableYet(problem) | Self::Log(problem)) = self else {
            return false;
        };
        turnstream_log::is_disk_full(problem.get_ref())
    }

    pub(crate) fn of_read(error: ReadError) -> Self {
        match error {
            ReadError::Unknown(id) => Self::UnknownSession(SessionId::from(id)),
            other => Self::log(other),
        }
    }

    pub(crate) fn of_claim(error: ClaimError) -> Self {
        match error {
            ClaimError::Unknown(id) => Self::UnknownSession(SessionId::from(id)),
            ClaimError::Closed => Self::Closing,
            other => Self::log(other),
        }
    }

    pub(crate) fn of_remove(error: RemoveError) -> Self {
        match error {
            RemoveError::Unknown(id) => Self::UnknownSession(SessionId::from(id)),
            RemoveError::Closed => Self::Closing,
            other => Self::log(other),
        }
    }

    pub(crate) fn of_append(error: AppendError) -> Self {
        match error {
            AppendError::Closed => Self::Closing,
            AppendError::Deleted(id) => Self::UnknownSession(SessionId::from(id)),
            other => Self::log(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RequestError, SharedError};
    use std::io;
    use turnstream_model::Chain;

    #[derive(Debug, thiserror::Error)]
    #[error("the store cannot be read")]
    struct Store(#[source] io::Error);

    #[test]
    fn a_failure_of_the_log_keeps_its_sources_and_is_shown_with_all_of_them() {
        let error = RequestError::log(Store(io::Error::other("disk on fire")));
        assert_eq!(error.to_string(), "the log failed: the store cannot be read");
        assert_eq!(Chain(&error).to_string(), "the log failed: the store cannot be read: disk on fire");
        assert_eq!(error.clone(), error);
    }

    #[test]
    fn a_full_disk_is_recognised_behind_other_errors() {
        let full = || SharedError::new(Store(io::ErrorKind::StorageFull.into()));
        assert!(RequestError::Degraded(full()).is_disk_full());
        assert!(RequestError::NotDurableYet(full()).is_disk_full());
        assert!(!RequestError::Degraded(SharedError::new(io::Error::other("on fire"))).is_disk_full());
        assert!(!RequestError::Closing.is_disk_full());
    }
}
