//! The errors of agents: why a link could not be made, what could not be ended, and which content is refused.

use crate::agent::ACP_CONTENT;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use tokio::task::JoinError;

/// An error that may quote an agent, as the cause of a [`ConnectError`].
pub trait AgentError: Error + Send + Sync + 'static {
    /// The error for a log line. It leaves out everything the agent or its server wrote: that may be text
    /// of a model or a tool.
    fn for_log(&self) -> String;
}

/// Why a link could not be made.
#[derive(Clone, Debug)]
pub enum ConnectError {
    /// The agent is not installed, not reachable or not logged in. It may work later.
    Unavailable {
        /// The name of the agent.
        agent: String,
        /// What went wrong and what to do.
        problem: Arc<dyn AgentError>,
    },
    /// The agent answers and refuses the credentials.
    Unauthorized {
        /// The name of the agent.
        agent: String,
        /// What was refused and what to do.
        problem: Arc<dyn AgentError>,
        /// The HTTP status of the refusal, if there was one.
        status: Option<u16>,
    },
    /// The agent no longer has this session: it was deleted, or the agent has lost its data.
    Forgotten {
        /// The name of the agent.
        agent: String,
        /// Its id of the session.
        native_id: String,
    },
}

/// The task that makes a link has panicked, or was aborted.
#[derive(Debug, thiserror::Error)]
#[error("its adapter failed: {0}")]
pub struct AdapterFailed(#[source] pub JoinError);

/// Why an agent could not be stopped, or could not forget a session. It says what is left.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StopError(#[source] Box<dyn Error + Send + Sync>);

/// A content block that an agent cannot take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusedBlock {
    /// ACP has no such type.
    #[error("the type {kind:?} is not known; the agent takes {}", ACP_CONTENT.join(", "))]
    UnknownType {
        /// The type of the block.
        kind: String,
    },
    /// The agent has no use for this type, or the block lacks a member.
    #[error(
        "{agent} cannot take the content block of the type {kind:?} as it is; it takes {}, each with the \
         members of ACP",
        takes.join(", ")
    )]
    Unsupported {
        /// The kind of the agent.
        agent: &'static str,
        /// The type of the block.
        kind: String,
        /// The types that the agent takes.
        takes: &'static [&'static str],
    },
}

// === impl ConnectError ===

impl ConnectError {
    /// The error for a log line. It leaves out everything the agent or its server wrote: that may be text
    /// of a model or a tool.
    pub fn for_log(&self) -> String {
        match self {
            Self::Unavailable { problem, .. } | Self::Unauthorized { problem, .. } => {
                self.with_problem(&problem.for_log())
            }
            Self::Forgotten { .. } => self.to_string(),
        }
    }

    fn with_problem(&self, problem: &str) -> String {
        match self {
            Self::Unavailable { agent, .. } => format!("agent {agent} cannot be started: {problem}"),
            Self::Unauthorized { agent, .. } => format!("agent {agent} cannot be used: {problem}"),
            Self::Forgotten { agent, native_id } => {
                format!("agent {agent} no longer has session {native_id}: {problem}")
            }
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problem = match self {
            Self::Unavailable { problem, .. } | Self::Unauthorized { problem, .. } => problem.to_string(),
            Self::Forgotten { .. } => "it was deleted, or its server has lost its data".to_owned(),
        };
        f.write_str(&self.with_problem(&problem))
    }
}

// By hand, because a derived `source` would give the `Arc`, which cannot be downcast to the real error.
impl Error for ConnectError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unavailable { problem, .. } | Self::Unauthorized { problem, .. } => Some(&**problem),
            Self::Forgotten { .. } => None,
        }
    }
}

// === impl AdapterFailed ===

impl AgentError for AdapterFailed {
    fn for_log(&self) -> String {
        let how = if self.0.is_panic() { "panicked" } else { "was aborted" };
        format!("its adapter {how}")
    }
}

// === impl StopError ===

impl StopError {
    /// An agent that could not be stopped because of this error.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(error.into())
    }
}
