//! The adapter's files of one session.

use crate::state_files::{files_with_ending, read_note, remove_files, write_note};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use turnstream_adapter::session_file;
use turnstream_model::id::SessionId;

/// The endings of the files.
const RECORD: &str = ".json";
const OUTPUT: &str = ".log";
const NOTE: &str = ".session";

/// The files of one session.
#[derive(Clone, Debug)]
pub(super) struct SessionFiles {
    /// The record of the process.
    pub(super) record: PathBuf,
    /// What the process prints to standard error.
    pub(super) output: PathBuf,
    note: PathBuf,
}

/// What is noted of a session. The log may lack the native id if the gateway was killed right after the first
/// prompt was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SessionNote {
    /// The agent's id of the session.
    pub(super) native_id: String,
    /// The last prompt that was given to the agent under that id; empty if there was none.
    pub(super) prompt: String,
    /// The agent has answered a prompt under that id. It has stored the session then.
    #[serde(default)]
    pub(super) answered: bool,
}

impl SessionFiles {
    pub(super) fn new(state: &Path, session: &SessionId) -> Self {
        let file = |ending| state.join(session_file(session, ending));
        Self { record: file(RECORD), output: file(OUTPUT), note: file(NOTE) }
    }

    /// Notes that a prompt is about to be given to the agent. One that is not noted never reached it.
    pub(super) fn note_prompt(&self, native_id: &str, prompt: &str) -> io::Result<()> {
        let answered = self.note().is_ok_and(|note| note.native_id == native_id && note.answered);
        let (native_id, prompt) = (native_id.to_owned(), prompt.to_owned());
        self.write(&SessionNote { native_id, prompt, answered })
    }

    /// Notes that the agent has answered a prompt.
    pub(super) fn note_answer(&self) -> io::Result<()> {
        match self.note()? {
            note if note.answered => Ok(()),
            note => self.write(&SessionNote { answered: true, ..note }),
        }
    }

    fn write(&self, note: &SessionNote) -> io::Result<()> {
        write_note(&self.note, note)
    }

    /// The note. A session without one was never prompted.
    pub(super) fn note(&self) -> io::Result<SessionNote> {
        read_note(&self.note)
    }

    /// Removes all of them.
    pub(super) fn remove(&self) -> io::Result<()> {
        let Self { record, output, note } = self;
        remove_files(&[record, output, note])
    }
}

/// The records of processes in the state directory of an agent.
pub(super) fn records(state: &Path) -> Vec<PathBuf> {
    files_with_ending(state, RECORD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_prompt_is_noted_with_the_session_that_it_was_given_to() {
        let state = tempfile::tempdir().unwrap();
        let files = SessionFiles::new(state.path(), &SessionId::from("ses_1"));
        assert_eq!(files.note().unwrap(), SessionNote::default());
        files.note_prompt("a", "p1").unwrap();
        files.note_answer().unwrap();
        files.note_prompt("a", "p2").unwrap();
        let noted = |native_id: &str, prompt: &str, answered| SessionNote {
            native_id: native_id.to_owned(),
            prompt: prompt.to_owned(),
            answered,
        };
        assert_eq!(files.note().unwrap(), noted("a", "p2", true));
        files.note_prompt("b", "p3").unwrap();
        assert_eq!(files.note().unwrap(), noted("b", "p3", false), "another session of the agent");
        fs::write(&files.record, "{}").unwrap();
        assert_eq!(records(state.path()), std::slice::from_ref(&files.record));
        files.remove().unwrap();
        files.remove().unwrap();
        assert_eq!(files.note().unwrap(), SessionNote::default());
    }
}
