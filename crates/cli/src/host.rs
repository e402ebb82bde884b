//! Runs a gateway and its HTTP server in this process.

use crate::agent_listener::{AgentListener, AgentListenerError};
use crate::agents;
use crate::attempt_links::AttemptLinks;
use crate::config::{self, Config, ConfigError};
use crate::data_directory::{self, DataDirectoryError};
use crate::open_files;
use std::net::SocketAddr;
use std::sync::Arc;
use turnstream_gateway::{Gateway, OpenError};
use turnstream_llm::client::ClientError;
use turnstream_log::Attempts;
use turnstream_model::Chain;
use turnstream_proxy::{Limits as ProxyLimits, Proxy, StartedAgents};
use turnstream_server::{Limits, ListenError, Options, Server};

/// Pages that have signed in, in the data directory.
const SIGNED_IN: &str = "pages.json";

/// Why the gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    #[error(transparent)]
    Directory(#[from] DataDirectoryError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    AgentListener(#[from] AgentListenerError),
}

/// Opens the data directory and binds the address. Requests are answered once the server runs.
pub(crate) async fn open(config: &Config, listen: SocketAddr) -> Result<(Gateway, Server), HostError> {
    config.check_roots()?;
    data_directory::prepare(&config.data)?;
    if let Some(problem) = config.file.as_deref().and_then(config::exposure) {
        tracing::warn!("{problem}");
    }
    for (route, error) in config.routes.unreadable_keys() {
        tracing::warn!(route, error = %Chain(&error), "requests by this route fail until its key can be read");
    }
    // The ledger of model calls. Only routes to providers need it.
    let ledger = match config.routes.is_empty() {
        true => None,
        false => Some(Attempts::open(&config.data).map_err(OpenError::from)?),
    };
    let has_pointed = config.agents.values().any(|agent| agent.pointed_at(&config.routes).is_some());
    let listener = has_pointed.then(|| AgentListener::open(&config.data)).transpose()?;
    let agents = agents::of(config, ledger.as_ref(), listener.as_ref())?;
    let links = ledger.clone().map(AttemptLinks::new);
    let started = StartedAgents {
        secret: listener.as_ref().map(|listener| listener.secret.clone()),
        calls: links.as_ref().map(AttemptLinks::calls),
    };
    let proxy = ledger.as_ref().map(|ledger| proxy(config, ledger, started)).transpose()?;
    let settings = config.settings.clone();
    let gateway = Gateway::open_with_ledger(&config.data, settings, agents, ledger).await?;
    if let Some(links) = &links {
        links.open(&gateway);
    }
    let defaults = Options::new(config.auth.clone());
    let options = Options {
        issued: Some(config.data.join(SIGNED_IN)),
        public_url: config.public_url.clone(),
        origins: config.origins.clone(),
        metrics_listen: config.metrics_listen,
        opencode_listen: config.opencode_listen,
        opencode_ui: config.opencode_ui,
        heartbeat: config.heartbeat.unwrap_or(defaults.heartbeat),
        import: config.import.unwrap_or(defaults.import),
        limits: Limits { descriptors: open_files::limit(), ..config.server_limits.clone() },
        default_agent: config.default_agent.clone(),
        chat: config.chat.clone(),
        proxy,
        ..defaults
    };
    let bound = Server::bind(listen, gateway.clone(), options).await.map_err(HostError::from);
    let bound = bound.and_then(|mut server| {
        if let Some(AgentListener { listener, .. }) = listener {
            server.serve_agents(listener).map_err(AgentListenerError::Listen)?;
        }
        Ok(server)
    });
    match bound {
        Ok(server) => Ok((gateway, server)),
        Err(error) => {
            gateway.close().await;
            Err(error)
        }
    }
}

/// The proxy for model providers.
fn proxy(config: &Config, ledger: &Attempts, agents: StartedAgents) -> Result<Proxy, ClientError> {
    let (ledger, redact) = (Arc::new(ledger.clone()), Arc::new(config.settings.redaction.clone()));
    Proxy::new(config.routes.clone(), ledger, redact, ProxyLimits::default(), agents)
}
