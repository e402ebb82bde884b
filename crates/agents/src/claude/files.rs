//! The files of one session: those of the adapter in the data directory, and Claude Code's own transcript.

use super::transcript::ProcessEnd;
use serde::{Deserialize, Serialize};
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
const NOTE: &str = ".session";
const MCP: &str = ".mcp.json";
const EXIT: &str = ".exit";

/// A shell gives a program that a signal ended an exit status above this.
const SIGNALLED: u32 = 128;

/// The adapter's files of one session.
#[derive(Clone, Debug)]
pub(super) struct SessionFiles {
    /// The record of the process.
    pub(super) record: PathBuf,
    /// What the process prints to standard error.
    pub(super) output: PathBuf,
    /// The MCP servers of the session, for the process to read.
    pub(super) mcp: PathBuf,
    /// The exit status of the last process.
    pub(super) exit: PathBuf,
    /// What is noted of the session.
    note: PathBuf,
}

/// What is noted of a session in a file. The log may lack the native id if the gateway was killed right
/// after the first prompt was sent.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct SessionNote {
    /// Claude Code's id of the session, once a process was started for it.
    native_id: String,
    /// Claude Code has a transcript of it.
    used: bool,
    /// The last prompt that was given to a process, by its native id.
    #[serde(default)]
    prompt: String,
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
        Self {
            record: file(RECORD),
            output: file(OUTPUT),
            mcp: file(MCP),
            exit: file(EXIT),
            note: file(NOTE),
        }
    }

    /// Notes that a process is about to be started for the session under this native id.
    pub(super) fn note_start(&self, native_id: &str) -> io::Result<()> {
        if self.read_note().native_id == native_id {
            return Ok(());
        }
        self.write_note(&SessionNote { native_id: native_id.to_owned(), ..SessionNote::default() })
    }

    /// Notes that Claude Code has a transcript of the session with this native id.
    pub(super) fn note_use(&self, native_id: &str) -> io::Result<()> {
        let note = self.read_note();
        self.write_note(&SessionNote { native_id: native_id.to_owned(), used: true, ..note })
    }

    /// Notes that a prompt is about to be given to the process. One that is not noted never reached it.
    pub(super) fn note_prompt(&self, prompt: &str) -> io::Result<()> {
        let note = self.read_note();
        self.write_note(&SessionNote { prompt: prompt.to_owned(), ..note })
    }

    /// Whether this prompt may have reached a process. Prompts are given one at a time.
    pub(super) fn may_have(&self, prompt: &str) -> bool {
        self.read_note().prompt == prompt
    }

    /// The native id under which the last process was started.
    pub(super) fn noted_native_id(&self) -> Option<String> {
        Some(self.read_note().native_id).filter(|native_id| !native_id.is_empty())
    }

    /// Whether Claude Code once had a transcript of the session with this native id.
    pub(super) fn is_used(&self, native_id: &str) -> bool {
        let note = self.read_note();
        note.used && note.native_id == native_id
    }

    /// A note that is missing or cannot be read says nothing: the session is taken for a new one.
    fn read_note(&self) -> SessionNote {
        let note = fs::read(&self.note).ok();
        note.and_then(|note| serde_json::from_slice(&note).ok()).unwrap_or_default()
    }

    /// Replaces the note. After a crash either the old or the new one is complete.
    fn write_note(&self, note: &SessionNote) -> io::Result<()> {
        let fresh = self.note.with_extension("session-new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(&serde_json::to_vec(note)?)?;
        file.sync_all()?;
        fs::rename(&fresh, &self.note)
    }

    /// Writes the MCP servers, which may hold secrets. The arguments of a process can be read by everybody,
    /// so they are in a file.
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

    /// How the last process has ended. Without a file it was killed together with the shell that started it.
    pub(super) fn process_end(&self) -> ProcessEnd {
        let status = fs::read_to_string(&self.exit).ok().and_then(|status| status.trim().parse::<u32>().ok());
        match status {
            Some(status) if status < SIGNALLED => ProcessEnd::Orderly,
            Some(_) | None => ProcessEnd::Unknown,
        }
    }

    /// Forgets how the last process has ended: another one is started.
    pub(super) fn remove_exit(&self) -> io::Result<()> {
        match fs::remove_file(&self.exit) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Removes all of them.
    pub(super) fn remove(&self) -> io::Result<()> {
        let Self { record, output, mcp, exit, note } = self;
        for file in [record, output, mcp, exit, note] {
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
        assert!(!files.is_used("a") && files.noted_native_id().is_none());
        files.note_start("a").unwrap();
        assert_eq!(files.noted_native_id().as_deref(), Some("a"));
        assert!(!files.is_used("a"));
        files.note_use("a").unwrap();
        files.note_start("a").unwrap();
        assert!(files.is_used("a") && !files.is_used("b"));
        files.note_prompt("p1").unwrap();
        files.note_use("a").unwrap();
        assert!(files.is_used("a") && files.may_have("p1") && !files.may_have("p2"));
        fs::write(&files.record, "{}").unwrap();
        fs::write(&files.mcp, "{}").unwrap();
        assert_eq!(records(state.path()), std::slice::from_ref(&files.record));
        files.remove().unwrap();
        files.remove().unwrap();
        assert!(!files.is_used("a"));
        assert!(records(state.path()).is_empty());
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
