//! What is on disk about a server that was started, so that whoever comes after a crash finds it.

use super::ServeError;
use super::processes::{Family, Process};
use crate::process::ProcessGroup;
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The file below the server's state directory.
const FILE: &str = "opencode.json";
/// Only its owner may read it: it holds the password.
const MODE: u32 = 0o600;

/// A server that was started, or is about to be: it is written before the process exists, with no process in it, so that
/// no crash leaves one behind that nobody knows of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) port: u16,
    pub(super) password: String,
    pub(super) mark: String,
    pub(super) process: Option<Process>,
    /// The control group of its processes, if it has one; on record before it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cgroup: Option<PathBuf>,
}

impl Record {
    /// Reads the record of this state directory. One that cannot be read is an error: what it spoke of may still run.
    pub(super) fn read(state: &Path) -> Result<Option<Self>, ServeError> {
        let path = path(state);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ServeError::Io { what: "read", path, error }),
        };
        match serde_json::from_slice(&text) {
            Ok(record) => Ok(Some(record)),
            Err(_) => Err(ServeError::Record { path }),
        }
    }

    /// Writes it in the place of the one before; a crash leaves one of the two whole.
    pub(super) fn write(&self, state: &Path) -> Result<(), ServeError> {
        let path = path(state);
        let fresh = state.join(format!("{FILE}.new"));
        let written = || -> io::Result<()> {
            let _ = fs::remove_file(&fresh);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&fresh)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            file.sync_all()?;
            fs::rename(&fresh, &path)
        };
        written().map_err(|error| ServeError::Io { what: "write", path: path.clone(), error })
    }

    /// Forgets it.
    pub(super) fn remove(state: &Path) -> Result<(), ServeError> {
        let path = path(state);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(ServeError::Io { what: "remove", path, error })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn family(&self) -> Family {
        let cgroup = self.cgroup.clone().map(ProcessGroup::at);
        Family { leader: self.process.clone(), mark: self.mark.clone(), cgroup }
    }

    pub(super) fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

fn path(state: &Path) -> PathBuf {
    state.join(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_record_is_read_back_and_only_its_owner_can_read_it() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(Record::read(state.path()).unwrap(), None);
        let process = Some(Process { id: 7, started: "then".to_owned() });
        let (password, mark, cgroup) = ("p".to_owned(), "m".to_owned(), Some(PathBuf::from("/cgroup/m")));
        let record = Record { port: 4096, password, mark, process, cgroup };
        record.write(state.path()).unwrap();
        record.write(state.path()).unwrap();
        assert_eq!(Record::read(state.path()).unwrap(), Some(record));
        let mode = fs::metadata(state.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        Record::remove(state.path()).unwrap();
        Record::remove(state.path()).unwrap();
        assert_eq!(Record::read(state.path()).unwrap(), None);
    }

    #[test]
    fn a_record_that_cannot_be_read_is_not_taken_for_none() {
        let state = tempfile::tempdir().unwrap();
        fs::write(state.path().join(FILE), "{").unwrap();
        let error = Record::read(state.path()).unwrap_err().to_string();
        assert!(error.contains("opencode.json") && error.contains("remove it"), "{error}");
    }
}
