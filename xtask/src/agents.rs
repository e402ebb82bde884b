//! `cargo xtask agents`: the real agents that tests drive, and clients that judge, in `target/agents`.

use crate::clients;
use crate::npm::{Folder, Package};
use std::path::PathBuf;

/// The versions from which the captures were taken.
const AGENTS: Folder = Folder {
    name: "agents",
    what_for: "the real-agent tests",
    packages: &[
        Package { name: "opencode-ai", version: "1.18.33", command: Some("opencode") },
        Package { name: "@opencode-ai/sdk", version: "1.18.33", command: None },
        Package { name: "@anthropic-ai/claude-code", version: "2.1.197", command: Some("claude") },
        Package { name: "@openai/codex", version: "0.166.0", command: Some("codex") },
    ],
};

/// A second version of Claude Code, for the turn-end matrix. Both versions have the same command, so it has a
/// folder of its own. That folder is inside of the first one, which is all that a test is told.
const NEWER_CLAUDE: Folder = Folder {
    name: "agents/claude-2.1.325",
    what_for: "the real-agent tests",
    packages: &[Package { name: "@anthropic-ai/claude-code", version: "2.1.325", command: Some("claude") }],
};

/// The ACP adapters, in a folder of their own: each brings its own version of its agent. Neither has a
/// `--version`.
const ACP_AGENTS: Folder = Folder {
    name: "agents/acp",
    what_for: "the real-agent tests",
    packages: &[
        Package { name: "@agentclientprotocol/claude-agent-acp", version: "0.99.1", command: None },
        Package { name: "@agentclientprotocol/codex-acp", version: "2.6.0", command: None },
    ],
};

/// Installs them unless they are installed and work, and returns their folder.
pub(crate) fn install() -> Result<PathBuf, String> {
    let dir = AGENTS.install()?;
    NEWER_CLAUDE.install()?;
    ACP_AGENTS.install()?;
    clients::install()?;
    Ok(dir)
}
