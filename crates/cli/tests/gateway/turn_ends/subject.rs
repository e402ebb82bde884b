//! What the matrix needs to know of an agent. A new agent is one file with an implementation.

use super::exit::{Permissions, Tool};
use crate::support::Home;
use std::path::{Path, PathBuf};
use turnstream_fake_provider::{Part, Provider, Step};

/// An agent of the matrix.
pub(super) trait Subject: Sync {
    /// Its column on the page: name and version.
    fn column(&self) -> &'static str;

    /// Why it cannot produce this exit, if it cannot.
    fn cannot(&self, exit: &str) -> Option<&'static str>;

    /// The call of a tool, in its own words.
    fn call(&self, tool: Tool, cwd: &Path) -> Part;

    /// Answers to requests that do not belong to a conversation.
    fn side_steps(&self) -> Vec<Step>;

    /// Bytes of an answer before it stalls. They hold some text in the agent's wire format, and not all.
    fn bytes_before_stall(&self) -> usize {
        1_500
    }

    /// Its home, with a configuration for this provider.
    fn settle(&self, provider: &Provider) -> Box<dyn Settled>;
}

/// An agent with a home of its own. Removed on drop.
pub(super) trait Settled: Sync {
    /// The lines of its table in the configuration of the gateway.
    fn table(&self) -> String;

    /// The installed program, without symbolic links.
    fn program(&self) -> PathBuf;

    /// The home, by which its processes are found.
    fn home(&self) -> PathBuf;

    /// Makes a working directory ready for these permissions.
    fn prepare(&self, cwd: &Path, permissions: Permissions);

    /// What the agent itself has stored of a session.
    fn stored(&self, of: &SessionPlace<'_>) -> Vec<Text>;
}

/// Where to find a session.
pub(super) struct SessionPlace<'a> {
    /// The home of the gateway.
    pub(super) gateway: &'a Home,
    pub(super) runtime: &'a tokio::runtime::Runtime,
    pub(super) cwd: &'a Path,
    /// The agent's own id of the session.
    pub(super) native_id: &'a str,
}

/// A finished text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Text {
    Message(String),
    Reasoning(String),
    Result(String),
}
