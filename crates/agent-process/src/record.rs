//! The record of an agent process on disk, by which a later owner finds it after a crash.

use crate::cgroup::ControlGroup;
use crate::error::ProcessError;
use crate::family::ProcessFamily;
use crate::process::Process;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Readable by its owner only: it may hold a password.
const MODE: u32 = 0o600;

/// A process that was started, or is about to be. The record is first written before the process exists, so
/// that a crash cannot leave an unknown process behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record<A> {
    /// What the adapter of this agent has to know of it.
    #[serde(flatten)]
    pub agent: A,
    /// The value of [`MARK`](crate::MARK) in its environment.
    pub mark: String,
    /// The process, once it runs.
    pub process: Option<Process>,
    /// Processes that this owner has started for it, each with a group of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Process>,
    /// The control group of its processes, if there is one. Recorded before it is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<PathBuf>,
}

impl<A> Record<A> {
    /// A record of a process that is to be started, with a new mark.
    pub fn new(agent: A) -> Result<Self, ProcessError> {
        Ok(Self { agent, mark: crate::random_mark()?, process: None, others: Vec::new(), cgroup: None })
    }

    /// The process and what it started.
    pub fn family(&self) -> ProcessFamily {
        let cgroup = self.cgroup.clone().map(ControlGroup::at);
        let (leader, others, mark) = (self.process.clone(), self.others.clone(), self.mark.clone());
        ProcessFamily { leader, others, mark, cgroup }
    }

    /// Removes the record in this file.
    pub fn remove(path: &Path) -> Result<(), ProcessError> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(ProcessError::Io { what: "remove", path: path.to_owned(), error })
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

impl<A: Serialize + DeserializeOwned> Record<A> {
    /// Reads the record in this file. One that cannot be parsed is an error: its process may still run.
    pub fn read(path: &Path) -> Result<Option<Self>, ProcessError> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ProcessError::Io { what: "read", path: path.to_owned(), error }),
        };
        match serde_json::from_slice(&text) {
            Ok(record) => Ok(Some(record)),
            Err(source) => Err(ProcessError::Record { path: path.to_owned(), source }),
        }
    }

    /// Replaces the record. After a crash either the old or the new one is complete.
    pub fn write(&self, path: &Path) -> Result<(), ProcessError> {
        let fresh = path.with_extension("new");
        let written = || -> io::Result<()> {
            // A crash may have left an unfinished one.
            match fs::remove_file(&fresh) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&fresh)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            file.sync_all()?;
            fs::rename(&fresh, path)
        };
        written().map_err(|error| ProcessError::Io { what: "write", path: path.to_owned(), error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    struct Server {
        port: u16,
    }

    #[test]
    fn a_record_is_read_back_and_only_its_owner_can_read_it() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("agent.json");
        assert_eq!(Record::<Server>::read(&path).unwrap(), None);
        let mut record = Record::new(Server { port: 4096 }).unwrap();
        record.process = Some(Process { id: 7, started: "then".to_owned() });
        record.others = vec![Process { id: 8, started: "later".to_owned() }];
        record.cgroup = Some(PathBuf::from("/cgroup/m"));
        record.write(&path).unwrap();
        record.write(&path).unwrap();
        assert_eq!(Record::read(&path).unwrap(), Some(record));
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        Record::<Server>::remove(&path).unwrap();
        Record::<Server>::remove(&path).unwrap();
        assert_eq!(Record::<Server>::read(&path).unwrap(), None);
    }

    #[test]
    fn a_record_that_cannot_be_read_is_not_taken_for_none() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("agent.json");
        fs::write(&path, "{").unwrap();
        let error = Record::<Server>::read(&path).unwrap_err().to_string();
        assert!(error.contains("agent.json") && error.contains("remove it"), "{error}");
    }
}
