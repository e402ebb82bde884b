//! The gateway a command talks to: one that was named, one that runs, or one of its own.

use super::{Client, ClientError};
use crate::config::{Config, ConfigError, Place};
use crate::host::{self, HostError};
use crate::running;
use crate::{escape, out};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use turnstream_gateway::OpenError;

/// A gateway that runs answers at once.
const KNOCK: Duration = Duration::from_secs(2);

/// How a command reaches a gateway.
#[derive(clap::Args)]
pub(crate) struct Reach {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The gateway to use, for example http://127.0.0.1:4180; without it the one that serves the data directory, or one of
    /// the command's own while it runs
    #[arg(long, env = "TURNSTREAM_URL")]
    pub(crate) url: Option<String>,
}

/// Why there is no gateway to talk to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FindError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(
        "{} is in use by another turnstream that does not serve; wait until that command ends, or start \
         `turnstream serve` so that several commands can share it", .0.display()
    )]
    Busy(PathBuf),
}

/// A gateway to talk to. One of our own ends with [`Connected::end`].
pub(crate) struct Connected {
    pub(crate) client: Client,
    own: Option<(oneshot::Sender<()>, JoinHandle<Vec<String>>)>,
}

/// Finds a gateway, or starts one. `root` is where sessions of one of our own may work, if the configuration does not say.
pub(crate) async fn connect(reach: &Reach, root: Option<PathBuf>) -> Result<Connected, FindError> {
    let config = Config::resolve(&reach.place, None, root)?;
    let secret = config.secret.clone();
    if let Some(url) = &reach.url {
        return Ok(Connected { client: Client::new(url, secret)?, own: None });
    }
    if let Some(running) = running::read(&config.data) {
        let client = Client::new(&format!("http://{}", reachable(running.address)), secret.clone())?;
        match timeout(KNOCK, client.get("/v1/health")).await {
            Ok(Ok(_)) => return Ok(Connected { client, own: None }),
            // It is there, and it does not want us: a second one would not help.
            Ok(Err(refused @ ClientError::Refused { .. })) => return Err(refused.into()),
            Ok(Err(_)) | Err(_) => {}
        }
    }
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (_, server) = host::open(&config, listen).await.map_err(|error| match error {
        HostError::Open(OpenError::Log(turnstream_log::OpenError::InUse(path))) => FindError::Busy(path),
        other => FindError::Host(other),
    })?;
    let client = Client::new(&format!("http://{}", server.address()), secret)?;
    let (end, ended) = oneshot::channel::<()>();
    let run = server.run(async {
        // Dropped means the same as told.
        let _ = ended.await;
    });
    Ok(Connected { client, own: Some((end, tokio::spawn(run))) })
}

/// A gateway that listens everywhere is here too.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    address
}

impl Connected {
    /// Ends a gateway of our own, in good order.
    pub(crate) async fn end(self) {
        if let Some((end, run)) = self.own {
            let _ = end.send(());
            // A panic in it has been printed.
            for problem in run.await.unwrap_or_default() {
                out::note(escape::text(&problem));
            }
        }
    }
}
