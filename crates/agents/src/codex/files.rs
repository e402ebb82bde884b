//! The adapter's files of one session, in the data directory.

use crate::state_files::{files_with_ending, read_note, remove_files, write_note};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use turnstream_adapter::session_file;
use turnstream_model::id::SessionId;

/// The endings of the files.
const RECORD: &str = ".json";
const OUTPUT: &str = ".log";
const NOTE: &str = ".thread";

/// The files of one session.
#[derive(Clone, Debug)]
pub(super) struct SessionFiles {
    /// The record of the server.
    pub(super) record: PathBuf,
    /// What the server prints.
    pub(super) output: PathBuf,
    note: PathBuf,
}

/// What is noted of a session. The log may lack the thread if the gateway was killed right after the first
/// prompt was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Note {
    /// The thread.
    pub(super) thread: String,
    /// The file in which Codex keeps it, once it has one.
    pub(super) file: Option<PathBuf>,
    /// The last prompt that was given to a server, by its native id.
    pub(super) prompt: String,
}

impl SessionFiles {
    pub(super) fn new(state: &Path, session: &SessionId) -> Self {
        let file = |ending| state.join(session_file(session, ending));
        Self { record: file(RECORD), output: file(OUTPUT), note: file(NOTE) }
    }

    /// A session without a note is a new one.
    pub(super) fn read_note(&self) -> io::Result<Note> {
        read_note(&self.note)
    }

    /// Changes the note. After a crash either the old or the new one is complete.
    pub(super) fn note(&self, change: impl FnOnce(&mut Note)) -> io::Result<()> {
        let old = self.read_note()?;
        let mut note = old.clone();
        change(&mut note);
        if note == old {
            return Ok(());
        }
        write_note(&self.note, &note)
    }

    /// Whether Codex had this thread in a file, and has lost it.
    pub(super) fn has_lost(&self, thread: &str) -> bool {
        let note = self.read_note().unwrap_or_else(|error| {
            tracing::warn!(path = %self.note.display(), %error, "the note of a session cannot be read");
            Note::default()
        });
        note.thread == thread && note.file.is_some_and(|file| !file.exists())
    }

    /// Removes all of them.
    pub(super) fn remove(&self) -> io::Result<()> {
        let Self { record, output, note } = self;
        remove_files(&[record, output, note])
    }
}

/// The records of servers in the state directory of an agent.
pub(super) fn records(state: &Path) -> Vec<PathBuf> {
    files_with_ending(state, RECORD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_note_is_kept_until_the_session_is_forgotten() {
        let state = tempfile::tempdir().unwrap();
        let files = SessionFiles::new(state.path(), &SessionId::from("ses_1"));
        assert_eq!(files.read_note().unwrap(), Note::default());
        let kept = state.path().join("rollout.jsonl");
        fs::write(&kept, "").unwrap();
        files.note(|note| note.thread = "t1".to_owned()).unwrap();
        assert!(!files.has_lost("t1"), "it never had a file");
        files.note(|note| note.file = Some(kept.clone())).unwrap();
        files.note(|note| note.prompt = "p1".to_owned()).unwrap();
        assert!(!files.has_lost("t1"));
        fs::remove_file(kept).unwrap();
        assert!(files.has_lost("t1") && !files.has_lost("t2"));
        fs::write(&files.record, "{}").unwrap();
        assert_eq!(records(state.path()), std::slice::from_ref(&files.record));
        files.remove().unwrap();
        files.remove().unwrap();
        assert!(!files.has_lost("t1") && records(state.path()).is_empty());
    }
}
