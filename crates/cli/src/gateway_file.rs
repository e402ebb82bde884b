//! `gateway.json` in the data directory: other commands read there where the gateway listens.

use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::task::JoinHandle;
use tracing::{debug, info, warn};
use turnstream_log::is_disk_full;
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
    /// Whether a command hosts it that does something else, and ends with that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) hosted: bool,
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

/// How long to wait for room on a full disk before the file is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The file of this process. Dropping it removes the file.
pub(crate) struct GatewayFile {
    path: PathBuf,
    /// Set while a task waits for room on the disk.
    waiting: Option<JoinHandle<()>>,
}

impl GatewayFile {
    /// Writes the file. The file of an earlier owner is replaced: only one process can own the directory. A
    /// full disk does not end a start: the file is written when there is room.
    pub(crate) fn write(data: &Path, address: SocketAddr, token: TokenPlace) -> io::Result<Self> {
        Self::put(data, RunningGateway { address, pid: std::process::id(), token, hosted: false })
    }

    /// The same for a gateway that ends with another command.
    pub(crate) fn write_hosted(data: &Path, address: SocketAddr, token: TokenPlace) -> io::Result<Self> {
        Self::put(data, RunningGateway { address, pid: std::process::id(), token, hosted: true })
    }

    fn put(data: &Path, content: RunningGateway) -> io::Result<Self> {
        let path = data.join(NAME);
        let waiting = match write(&path, &content) {
            Err(error) if is_disk_full(&error) => {
                warn!(%error, "no gateway.json; until the disk has room, commands need --url to find this gateway");
                Some(tokio::spawn(write_when_possible(path.clone(), content)))
            }
            written => written.map(|()| None)?,
        };
        Ok(Self { path, waiting })
    }
}

impl Drop for GatewayFile {
    fn drop(&mut self) {
        if let Some(waiting) = &self.waiting {
            waiting.abort();
        }
        // A file that stays does no harm: readers check that its process owns the directory.
        if let Err(error) = fs::remove_file(&self.path) {
            debug!(%error, path = %self.path.display(), "not removed");
        }
    }
}

fn write(path: &Path, content: &RunningGateway) -> io::Result<()> {
    let fresh = path.with_extension("json.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    let mut text = serde_json::to_vec(content)?;
    text.push(b'\n');
    file.write_all(&text)?;
    fs::rename(&fresh, path)
}

async fn write_when_possible(path: PathBuf, content: RunningGateway) {
    loop {
        tokio::time::sleep(RETRY).await;
        match write(&path, &content) {
            Ok(()) => return info!("gateway.json is written"),
            Err(error) => debug!(%error, "gateway.json cannot be written yet"),
        }
    }
}

/// The gateway that owns this directory, or owned it until it was killed.
pub(crate) fn read(data: &Path) -> Option<RunningGateway> {
    serde_json::from_slice(&fs::read(data.join(NAME)).ok()?).ok()
}
