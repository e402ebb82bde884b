//! `cargo xtask agents`: the real agents that tests drive, installed into `target/agents`.

use crate::npm::{Folder, Package};
use std::path::PathBuf;

/// At the versions the captures were taken from.
const AGENTS: Folder = Folder {
    name: "agents",
    what_for: "the real-agent tests",
    packages: &[
        Package { name: "opencode-ai", version: "1.18.33", command: "opencode" },
        Package { name: "@anthropic-ai/claude-code", version: "2.1.197", command: "claude" },
        Package { name: "@openai/codex", version: "0.166.0", command: "codex" },
    ],
};

/// Installs them unless they are there and run, and returns their folder.
pub(crate) fn install() -> Result<PathBuf, String> {
    AGENTS.install()
}
