//! A gateway in this process, with a server in front of it.

use crate::config::Config;
use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use turnstream_agents::Agent;
use turnstream_agents::scripted::{self, Scripted};
use turnstream_gateway::{Gateway, OpenError};
use turnstream_server::{ListenError, Options, Server};

/// Why there is no gateway in this process.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    #[error("cannot make the data directory {}: {error}; give another one: --data DIR", path.display())]
    Directory { path: PathBuf, error: std::io::Error },
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Listen(#[from] ListenError),
}

/// Opens the data directory and listens. It answers once it runs.
pub(crate) async fn open(config: &Config, listen: SocketAddr) -> Result<(Gateway, Server), HostError> {
    // What people say to agents is not for other users of this machine.
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&config.data);
    made.map_err(|error| HostError::Directory { path: config.data.clone(), error })?;
    let agents = agents(config);
    let gateway = Gateway::open(&config.data, config.settings.clone(), agents).await?;
    let defaults = Options::default();
    let heartbeat = config.heartbeat.unwrap_or(defaults.heartbeat);
    let options = Options { token: config.token.clone(), heartbeat, ..defaults };
    match Server::bind(listen, gateway.clone(), options).await {
        Ok(server) => Ok((gateway, server)),
        Err(error) => {
            gateway.close().await;
            Err(error.into())
        }
    }
}

fn agents(config: &Config) -> BTreeMap<String, Arc<dyn Agent>> {
    let defaults = scripted::Config::default();
    let memory = |name: &str| -> PathBuf { config.data.join("agents").join(name) };
    let agent = |(name, table): (&String, &crate::config::Scripted)| {
        let played = scripted::Config {
            memory: Some(memory(name)),
            pace: table.pace_ms.map_or(defaults.pace, Duration::from_millis),
            script: table.script.clone(),
        };
        (name.clone(), Arc::new(Scripted::new(played)) as Arc<dyn Agent>)
    };
    config.agents.iter().map(agent).collect()
}
