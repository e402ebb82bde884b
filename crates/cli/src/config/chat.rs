//! `[chat]`: what chats get for which a client names nothing.

use super::keys::keys;
use std::path::PathBuf;
use turnstream_server::ChatDefaults;

keys! {
    /// `[chat]`.
    pub(super) struct ChatTable in "chat" {
        /// The agent of chats over `/ai` and `/ag-ui` that do not name one.
        /// Default: `default_agent`, else the first agent that can be used.
        agent: String = "\"opencode\"", file;
        /// Their directory, if they do not name one. Default: the first of `roots`.
        cwd: PathBuf = "\"/srv/work/site\"", file;
    }
}

impl ChatTable {
    pub(super) fn decided(self) -> ChatDefaults {
        let Self { agent, cwd } = self;
        ChatDefaults { agent, cwd }
    }
}
