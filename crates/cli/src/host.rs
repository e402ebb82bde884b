//! Runs a gateway and its HTTP server in this process.

use crate::agents;
use crate::config::{Config, ConfigError};
use crate::open_files;
use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use turnstream_gateway::{Gateway, OpenError};
use turnstream_server::{Limits, ListenError, Options, Server};

/// Why the gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    #[error("cannot create the data directory {}: {error}; name another one with --data DIR", path.display())]
    Directory { path: PathBuf, error: std::io::Error },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Listen(#[from] ListenError),
}

/// Opens the data directory and binds the address. Requests are answered once the server runs.
pub(crate) async fn open(config: &Config, listen: SocketAddr) -> Result<(Gateway, Server), HostError> {
    config.check_roots()?;
    // Other users of this machine must not read the sessions.
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&config.data);
    made.map_err(|error| HostError::Directory { path: config.data.clone(), error })?;
    let agents = agents::of(config);
    let gateway = Gateway::open(&config.data, config.settings.clone(), agents).await?;
    let defaults = Options::default();
    let heartbeat = config.heartbeat.unwrap_or(defaults.heartbeat);
    let import = config.import.unwrap_or(defaults.import);
    let default_agent = config.default_agent.clone();
    let limits = Limits { descriptors: open_files::limit(), ..config.server_limits.clone() };
    let options =
        Options { token: config.token.clone(), heartbeat, import, limits, default_agent, ..defaults };
    match Server::bind(listen, gateway.clone(), options).await {
        Ok(server) => Ok((gateway, server)),
        Err(error) => {
            gateway.close().await;
            Err(error.into())
        }
    }
}
