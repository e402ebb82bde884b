//! What the model is told before the conversation.

use super::tools::open_file;
use rustix::fs::OFlags;
use std::io::Read;
use turnstream_adapter::WorkingDirectory;

/// The file with a project's own instructions.
const INSTRUCTIONS: &str = "AGENTS.md";
/// The most bytes of it that are read.
const MOST_BYTES: u64 = 64 << 10;

const ROLE: &str = "You are a coding agent. You work with the tools you have, in the working directory below. \
Read files before you change them. Make the smallest change that does what the user asks. \
Say in a few words what you did. If a call is rejected, do not repeat it: ask the user, or go another way.";

/// The system prompt of a session in this directory.
pub(super) fn of(cwd: &WorkingDirectory) -> String {
    let mut text = format!("{ROLE}\n\nWorking directory: {}\n", cwd.path().display());
    if let Some(instructions) = instructions(cwd) {
        text.push_str(&format!("\nThe project's instructions ({INSTRUCTIONS}):\n\n{instructions}\n"));
    }
    text
}

fn instructions(cwd: &WorkingDirectory) -> Option<String> {
    // Most projects have none.
    let file = open_file(cwd, INSTRUCTIONS, OFlags::RDONLY).ok()?;
    let mut bytes = Vec::new();
    if let Err(error) = file.take(MOST_BYTES).read_to_end(&mut bytes) {
        tracing::warn!(%error, "{INSTRUCTIONS} cannot be read");
        return None;
    }
    Some(String::from_utf8_lossy(&bytes).into_owned()).filter(|text| !text.trim().is_empty())
}
