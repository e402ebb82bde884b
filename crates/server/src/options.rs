//! Options of a server.

use crate::access::{Auth, Origin};
use crate::limits::Limits;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use turnstream_proxy::Proxy;

/// The agent and the directory of chats for which a client names none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatDefaults {
    /// The agent. Without it, that of [`Options::default_agent`] or the first one.
    pub agent: Option<String>,
    /// The directory. Without it, the first root.
    pub cwd: Option<PathBuf>,
}

/// Options of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who may use the gateway.
    pub auth: Auth,
    /// Where signed-in pages are kept, so that they stay signed in over a restart. `None`: in memory.
    pub issued: Option<PathBuf>,
    /// The origin that clients see, if the gateway is behind a proxy.
    pub public_url: Option<Origin>,
    /// Other origins whose pages may use the gateway.
    pub origins: Vec<Origin>,
    /// An address of its own for `/metrics`, where no token is needed.
    pub metrics_listen: Option<SocketAddr>,
    /// An address of its own for opencode's API, for clients that cannot take a path.
    pub opencode_listen: Option<SocketAddr>,
    /// The address of an `opencode serve` without a password. Its web page is shown at `opencode_listen`.
    pub opencode_ui: Option<SocketAddr>,
    /// How long a stream may be silent before it sends a heartbeat.
    pub heartbeat: Duration,
    /// How long the body of a request may take. For an import it is the longest pause.
    pub body: Duration,
    /// Most bytes in the body of an import. It is written to a file, and not held in memory.
    pub import: u64,
    /// How much clients may take of the server at once.
    pub limits: Limits,
    /// The agent for clients that do not name one.
    pub default_agent: Option<String>,
    /// What chats get that do not say it.
    pub chat: ChatDefaults,
    /// The proxy for model providers, at `/llm/`.
    pub proxy: Option<Proxy>,
}

impl Options {
    /// The usual options, for whoever may use the gateway.
    pub fn new(auth: Auth) -> Self {
        Self {
            auth,
            issued: None,
            public_url: None,
            origins: Vec::new(),
            metrics_listen: None,
            opencode_listen: None,
            opencode_ui: None,
            heartbeat: Duration::from_secs(15),
            body: Duration::from_secs(60),
            import: 4 << 30,
            limits: Limits::default(),
            default_agent: None,
            chat: ChatDefaults::default(),
            proxy: None,
        }
    }
}
