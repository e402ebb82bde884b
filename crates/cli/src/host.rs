//! A gateway in this process, with a server in front of it.

use crate::agents;
use crate::config::{Config, ConfigError};
use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use turnstream_gateway::{Gateway, OpenError};
use turnstream_server::{ListenError, Options, Server};

/// Why there is no gateway in this process.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    #[error("cannot make the data directory {}: {error}; give another one: --data DIR", path.display())]
    Directory { path: PathBuf, error: std::io::Error },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Listen(#[from] ListenError),
}

/// Opens the data directory and listens. It answers once it runs.
pub(crate) async fn open(config: &Config, listen: SocketAddr) -> Result<(Gateway, Server), HostError> {
    config.check_roots()?;
    // What people say to agents is not for other users of this machine.
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&config.data);
    made.map_err(|error| HostError::Directory { path: config.data.clone(), error })?;
    let agents = agents::of(config);
    let gateway = Gateway::open(&config.data, config.settings.clone(), agents).await?;
    let defaults = Options::default();
    let heartbeat = config.heartbeat.unwrap_or(defaults.heartbeat);
    let import = config.import.unwrap_or(defaults.import);
    let default_agent = config.default_agent.clone();
    let options = Options { token: config.token.clone(), heartbeat, import, default_agent, ..defaults };
    match Server::bind(listen, gateway.clone(), options).await {
        Ok(server) => Ok((gateway, server)),
        Err(error) => {
            gateway.close().await;
            Err(error.into())
        }
    }
}
