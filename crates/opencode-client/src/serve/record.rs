//! The record of a server on disk, by which a later owner finds it after a crash.

use super::ServeError;
use super::processes::{Process, ServerProcesses};
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use turnstream_adapter::ControlGroup;

/// The file in the state directory of the server.
const FILE: &str = "opencode.json";
/// Readable by its owner only: it holds the password.
const MODE: u32 = 0o600;

/// A server that was started, or is about to be. The record is first written before the process exists, so
/// that a crash cannot leave an unknown process behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) port: u16,
    pub(super) password: String,
    pub(super) mark: String,
    pub(super) process: Option<Process>,
    /// The control group of its processes, if there is one. Recorded before it is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cgroup: Option<PathBuf>,
}

impl Record {
    /// Reads the record of a state directory. One that cannot be parsed is an error: its server may still
    /// run.
    pub(super) fn read(state: &Path) -> Result<Option<Self>, ServeError> {
        let path = path(state);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ServeError::Io { what: "read", path, error }),
        };
        match serde_json::from_slice(&text) {
            Ok(record) => Ok(Some(record)),
            Err(source) => Err(ServeError::Record { path, source }),
        }
    }

    /// Replaces the record. After a crash either the old or the new one is complete.
    pub(super) fn write(&self, state: &Path) -> Result<(), ServeError> {
        let path = path(state);
        let fresh = state.join(format!("{FILE}.new"));
        let written = || -> io::Result<()> {
            // A crash may have left an unfinished one.
            match fs::remove_file(&fresh) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&fresh)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            file.sync_all()?;
            fs::rename(&fresh, &path)
        };
        written().map_err(|error| ServeError::Io { what: "write", path: path.clone(), error })
    }

    /// Removes the record.
    pub(super) fn remove(state: &Path) -> Result<(), ServeError> {
        let path = path(state);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(ServeError::Io { what: "remove", path, error })
            }
            _ => Ok(()),
        }
    }

    /// The processes of the server.
    pub(super) fn processes(&self) -> ServerProcesses {
        let cgroup = self.cgroup.clone().map(ControlGroup::at);
        ServerProcesses { leader: self.process.clone(), mark: self.mark.clone(), cgroup }
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
