//! What a gateway must be able to do to be measured.

use super::Load;
use super::process::Server;
use std::path::Path;
use std::time::Duration;

/// One of the two gateways.
pub(crate) trait Side: Sync {
    /// How it is called in tables.
    const NAME: &'static str;
    /// Once everything was sent and nothing has come for so long, nothing more will.
    const QUIET: Duration;

    /// A running gateway with its files below a folder that is new.
    fn start(&self, home: &Path) -> Result<Server, String>;

    /// Makes a session.
    fn session(&self, server: &Server, number: usize) -> Result<Session, String>;

    /// Has the session's agent play the load. It may return at once or when the turn is over.
    fn prompt(&self, server: &Server, session: &Session, load: &Load) -> Result<(), String>;
}

/// A session that can be prompted and followed.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// What a prompt is sent to.
    pub(crate) prompts: String,
    /// What a subscriber asks for.
    pub(crate) events: String,
    /// The agent's own name of it, where prompts need that.
    pub(crate) native: String,
}
