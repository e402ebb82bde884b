//! `gateway.json` in the data directory: other commands read there where the gateway listens.

use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use turnstream_server::Auth;

const NAME: &str = "gateway.json";

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunningGateway {
    pub(crate) address: SocketAddr,
    pub(crate) pid: u32,
    /// Where its token comes from.
    #[serde(default)]
    pub(crate) token: TokenPlace,
}

/// Where the token of a running gateway comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TokenPlace {
    /// The data directory.
    #[default]
    Directory,
    /// A flag, a variable or the configuration of the gateway.
    Configured,
    /// It needs none.
    None,
}

impl TokenPlace {
    pub(crate) fn of(auth: &Auth) -> Self {
        match auth {
            Auth::File(_) => Self::Directory,
            Auth::Token(_) => Self::Configured,
            Auth::None => Self::None,
        }
    }
}

/// The file of this process. Dropping it removes the file.
pub(crate) struct GatewayFile(PathBuf);

impl GatewayFile {
    /// Writes the file. The file of an earlier owner is replaced: only one process can own the directory.
    pub(crate) fn write(data: &Path, address: SocketAddr, token: TokenPlace) -> io::Result<Self> {
        let (path, fresh) = (data.join(NAME), data.join("gateway.json.new"));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        serde_json::to_writer(&mut file, &RunningGateway { address, pid: std::process::id(), token })?;
        file.write_all(b"\n")?;
        fs::rename(&fresh, &path)?;
        Ok(Self(path))
    }
}

impl Drop for GatewayFile {
    fn drop(&mut self) {
        // A file that stays does no harm: readers check that its process owns the directory.
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::debug!(%error, path = %self.0.display(), "not removed");
        }
    }
}

/// The gateway that owns this directory, or owned it until it was killed.
pub(crate) fn read(data: &Path) -> Option<RunningGateway> {
    serde_json::from_slice(&fs::read(data.join(NAME)).ok()?).ok()
}
