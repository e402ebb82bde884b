//! The files of one session: those of the adapter in the data directory, and Claude Code's own transcript.

use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use turnstream_adapter::session_file;
use turnstream_model::id::SessionId;

/// The endings of the adapter's files.
const RECORD: &str = ".json";
const OUTPUT: &str = ".log";
const USED: &str = ".used";
const MCP: &str = ".mcp.json";

/// The adapter's files of one session.
#[derive(Clone, Debug)]
pub(super) struct SessionFiles {
    /// The record of the process.
    pub(super) record: PathBuf,
    /// What the process prints to standard error.
    pub(super) output: PathBuf,
    /// The MCP servers of the session, for the process to read.
    pub(super) mcp: PathBuf,
    /// Holds the native id of the session once Claude Code has begun a turn of it.
    used: PathBuf,
}

/// The directory in which Claude Code keeps its own files.
#[derive(Clone, Debug)]
pub(super) struct ClaudeHome {
    directory: Option<PathBuf>,
}

// === impl SessionFiles ===

impl SessionFiles {
    pub(super) fn new(state: &Path, session: &SessionId) -> Self {
        let file = |ending| state.join(session_file(session, ending));
        Self { record: file(RECORD), output: file(OUTPUT), mcp: file(MCP), used: file(USED) }
    }

    /// Notes that Claude Code has begun a turn of the session with this native id.
    pub(super) fn note_use(&self, native_id: &str) -> io::Result<()> {
        if self.is_used(native_id) {
            return Ok(());
        }
        fs::write(&self.used, native_id)
    }

    /// Whether Claude Code has begun a turn of the session with this native id.
    pub(super) fn is_used(&self, native_id: &str) -> bool {
        fs::read(&self.used).is_ok_and(|used| used == native_id.as_bytes())
    }

    /// Writes the MCP servers, which may hold secrets. The arguments of a process can be read by everybody, so
    /// they are in a file.
    pub(super) fn write_mcp(&self, config: &Value) -> io::Result<()> {
        self.remove_mcp();
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.mcp)?;
        file.write_all(config.to_string().as_bytes())
    }

    /// Removes the MCP servers: no process reads them any more.
    pub(super) fn remove_mcp(&self) {
        match fs::remove_file(&self.mcp) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %self.mcp.display(), %error, "cannot remove the MCP servers of a session");
            }
            Ok(()) | Err(_) => {}
        }
    }

    /// Removes all of them.
    pub(super) fn remove(&self) -> io::Result<()> {
        let Self { record, output, mcp, used } = self;
        for file in [record, output, mcp, used] {
            match fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// The records of processes in the state directory of an agent.
pub(super) fn records(state: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(state).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_record = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.ends_with(RECORD) && !name.ends_with(MCP)
    };
    entries.filter(is_record).collect()
}

// === impl ClaudeHome ===

impl ClaudeHome {
    /// The directory that a process with these variables uses, besides those of this process that it
    /// inherits.
    pub(super) fn of(env: &[(OsString, OsString)]) -> Self {
        let given = |name: &str| {
            let found = env.iter().rev().find(|(given, _)| given == name);
            found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
        };
        let home = || given("HOME").or_else(|| std::env::var_os("HOME"));
        let directory = given("CLAUDE_CONFIG_DIR")
            .map(PathBuf::from)
            .or_else(|| home().map(|home| PathBuf::from(home).join(".claude")));
        Self { directory }
    }

    /// The transcript of the session with this native id. Its folder is named after the working directory in
    /// a way that differs between versions, so all folders are looked at.
    pub(super) fn transcript(&self, native_id: &str) -> Option<PathBuf> {
        let projects = self.directory.as_ref()?.join("projects");
        let file = format!("{native_id}.jsonl");
        let folders = fs::read_dir(projects).ok()?.flatten();
        folders.map(|folder| folder.path().join(&file)).find(|path| path.is_file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_used_under_one_native_id() {
        let state = tempfile::tempdir().unwrap();
        let files = SessionFiles::new(state.path(), &SessionId::from("ses_1"));
        assert!(!files.is_used("a"));
        files.note_use("a").unwrap();
        assert!(files.is_used("a") && !files.is_used("b"));
        fs::write(&files.record, "{}").unwrap();
        fs::write(&files.mcp, "{}").unwrap();
        assert_eq!(records(state.path()), [files.record.clone()]);
        files.remove().unwrap();
        files.remove().unwrap();
        assert!(!files.is_used("a"));
        assert_eq!(records(state.path()), [PathBuf::new(); 0]);
    }

    #[test]
    fn a_transcript_is_found_in_the_directory_that_the_process_uses() {
        let home = tempfile::tempdir().unwrap();
        let project = home.path().join(".claude/projects/-work");
        fs::create_dir_all(&project).unwrap();
        fs::write(project.join("id-1.jsonl"), "").unwrap();
        let of = |name: &str, value: &Path| ClaudeHome::of(&[(name.into(), value.into())]);
        let found = Some(project.join("id-1.jsonl"));
        assert_eq!(of("HOME", home.path()).transcript("id-1"), found);
        assert_eq!(of("CLAUDE_CONFIG_DIR", &home.path().join(".claude")).transcript("id-1"), found);
        assert_eq!(of("HOME", home.path()).transcript("id-2"), None);
        assert_eq!(of("HOME", &home.path().join("none")).transcript("id-1"), None);
    }
}
