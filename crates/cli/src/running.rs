//! `gateway.json` in the data directory: where the gateway that has this directory listens, for the other commands.

use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const NAME: &str = "gateway.json";

/// What is in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) pid: u32,
}

/// The file of this process. Removed with it.
pub(crate) struct Note(PathBuf);

impl Note {
    /// Writes the file; one of an earlier owner is replaced, because only one process can have the directory.
    pub(crate) fn write(data: &Path, address: SocketAddr) -> io::Result<Self> {
        let (path, fresh) = (data.join(NAME), data.join("gateway.json.new"));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        serde_json::to_writer(&mut file, &Running { address, pid: std::process::id() })?;
        file.write_all(b"\n")?;
        fs::rename(&fresh, &path)?;
        Ok(Self(path))
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        // If it stays, whoever reads it finds nobody at the address.
        let _ = fs::remove_file(&self.0);
    }
}

/// The gateway that has this directory, or had it when it was killed.
pub(crate) fn read(data: &Path) -> Option<Running> {
    serde_json::from_slice(&fs::read(data.join(NAME)).ok()?).ok()
}
