//! The address at which agents that the gateway starts ask models by a route.
//!
//! It is on loopback and has a port of its own, which is the same at every start. An agent that outlives a
//! killed gateway knows only this address, so it reaches the next gateway also if that listens elsewhere.

use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use turnstream_provider::AgentSecret;

/// The file in the data directory.
const NAME: &str = "llm-agents.json";

/// The socket, and what the addresses of agents are made with.
pub(crate) struct AgentListener {
    pub(crate) listener: TcpListener,
    pub(crate) address: SocketAddr,
    pub(crate) secret: AgentSecret,
}

/// Why agents cannot be pointed at a route.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentListenerError {
    #[error("cannot use {}, which has the address of agents with a route: {source}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot listen on 127.0.0.1 for agents with a route: {0}")]
    Listen(#[source] io::Error),
}

/// What is kept over restarts.
#[derive(Serialize, Deserialize, PartialEq)]
struct Kept {
    port: u16,
    /// Hexadecimal digits.
    secret: String,
}

impl AgentListener {
    /// Listens at the address of the last start, or at a new one. The data directory must be locked.
    pub(crate) fn open(data: &Path) -> Result<Self, AgentListenerError> {
        let path = data.join(NAME);
        let failed = |source| AgentListenerError::File { path: path.clone(), source };
        let kept = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice::<Kept>(&bytes).ok(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let listener = listen(kept.as_ref().map(|kept| kept.port)).map_err(AgentListenerError::Listen)?;
        let address = listener.local_addr().map_err(AgentListenerError::Listen)?;
        // Whoever has taken the last port may have been told the parts of agents, so these open nothing more.
        let last = kept.as_ref().filter(|kept| kept.port == address.port());
        let secret = match last.and_then(|kept| parse(&kept.secret)) {
            Some(secret) => secret,
            None => random().map_err(failed)?,
        };
        let now = Kept { port: address.port(), secret: hex(&secret) };
        if kept.as_ref() != Some(&now) {
            write(&path, &now).map_err(failed)?;
        }
        Ok(Self { listener, address, secret: AgentSecret(secret) })
    }
}

fn listen(last: Option<u16>) -> io::Result<TcpListener> {
    if let Some(port) = last {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => return Ok(listener),
            Err(error) => tracing::warn!(
                port, %error,
                "the port of agents with a route is taken; those that a killed gateway has left reach no model"
            ),
        }
    }
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
}

fn random() -> io::Result<[u8; 32]> {
    let mut secret = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut secret)?;
    Ok(secret)
}

/// Writes the file under a temporary name, so that a crash leaves a whole file or none.
fn write(path: &Path, kept: &Kept) -> io::Result<()> {
    let fresh = path.with_extension("json.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(&serde_json::to_vec(kept)?)?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse(digits: &str) -> Option<[u8; 32]> {
    let mut secret = [0; 32];
    for (index, byte) in secret.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    (hex(&secret) == digits).then_some(secret)
}

#[cfg(test)]
mod tests {
    use super::{AgentListener, NAME};
    use std::os::unix::fs::PermissionsExt as _;
    use turnstream_provider::Asker;

    #[test]
    fn the_address_and_the_secret_are_those_of_the_last_start() {
        let data = tempfile::tempdir().unwrap();
        let first = AgentListener::open(data.path()).unwrap();
        let mode = std::fs::metadata(data.path().join(NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let (address, part) = (first.address, first.secret.part("main", &Asker::Session("s".to_owned())));

        // While the port is taken, there is another one, with another secret.
        let beside = AgentListener::open(data.path()).unwrap();
        assert_ne!(beside.address, address);
        assert!(beside.secret.asker("main", &part).is_none());
        let part = beside.secret.part("main", &Asker::Session("s".to_owned()));
        let address = beside.address;
        drop((first, beside));
        let again = AgentListener::open(data.path()).unwrap();
        assert_eq!(again.address, address);
        assert!(again.secret.asker("main", &part).is_some());
        assert!(again.address.ip().is_loopback());

        drop(again);
        std::fs::write(data.path().join(NAME), "damaged").unwrap();
        let anew = AgentListener::open(data.path()).unwrap();
        assert!(anew.secret.asker("main", &part).is_none());
    }
}
