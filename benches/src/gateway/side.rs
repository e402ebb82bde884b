//! The interface of a gateway under test.

use super::Load;
use super::process::Server;
use std::path::Path;
use std::time::Duration;

/// One of the two gateways.
pub(crate) trait Side: Sync {
    /// Its name in tables.
    const NAME: &'static str;
    /// After everything was sent, nothing more is expected after this quiet time.
    const QUIET: Duration;

    /// Starts the gateway with its files in a new folder.
    fn start(&self, home: &Path) -> Result<Server, String>;

    /// Creates a session.
    fn session(&self, server: &Server, number: usize) -> Result<Session, String>;

    /// Makes the session's agent play the load. Returns at once or at the end of the turn.
    fn prompt(&self, server: &Server, session: &Session, load: &Load) -> Result<(), String>;
}

/// A session that can be prompted and followed.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// The path for prompts.
    pub(crate) prompts: String,
    /// The path for subscribers.
    pub(crate) events: String,
    /// The agent's own id of the session, if prompts need it.
    pub(crate) native: String,
}
