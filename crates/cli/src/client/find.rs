//! Finds the gateway that a command talks to: the one of `--url`, one that runs, or one that it hosts itself.

use super::owner::{Doubt, Owner};
use super::{Away, Client, ClientError};
use crate::config::{Config, ConfigError, Contact, Place};
use crate::diagnostics::{Diagnostics, DiagnosticsError};
use crate::escape;
use crate::gateway_file;
use crate::host::{self, HostError};
use crate::out;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;
use turnstream_gateway::OpenError;
use turnstream_model::Chain;

/// How long a gateway may take to answer the health check.
const HEALTH_DEADLINE: Duration = Duration::from_secs(2);

/// How a command reaches a gateway.
#[derive(clap::Args, Clone)]
pub(crate) struct Reach {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The URL of the gateway, for example http://127.0.0.1:4180 [default: the gateway that serves the data
    /// directory; if there is none, the command hosts one while it runs]
    #[arg(long, env = "TURNSTREAM_URL")]
    pub(crate) url: Option<String>,
}

/// The command was interrupted. An error with this among its sources has an exit code of its own.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// Why there is no gateway to talk to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FindError {
    #[error("interrupted before a gateway was found or started")]
    Interrupted(#[source] Interrupted),
    #[error(transparent)]
    Diagnostics(#[from] DiagnosticsError),
    #[error("the search for a gateway failed: {0}")]
    Task(#[source] JoinError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("--url {url:?} cannot be used: {problem}; write it like http://127.0.0.1:4180")]
    Url { url: String, problem: String },
    #[error(
        "{} is in use by another turnstream command that does not serve{}; wait until it ends, or start \
         `turnstream serve` so that several commands can share it", data.display(), because(why.as_deref())
    )]
    Busy { data: PathBuf, why: Option<String> },
    #[error(
        "the token is not sent to the gateway at {address}: {why}; if it is yours, name it: --url http://{address}"
    )]
    Unseen { address: SocketAddr, why: String },
    #[error("the gateway that serves {} does not answer: {problem}", data.display())]
    Silent {
        data: PathBuf,
        #[source]
        problem: Away,
    },
    #[error("cannot write gateway.json into {}: {error}", data.display())]
    GatewayFile {
        data: PathBuf,
        #[source]
        error: std::io::Error,
    },
    #[error(
        "no gateway serves {}{}; start one with `turnstream serve`, or name another one with --data, --config \
         or --url", data.display(), because(why.as_deref())
    )]
    NotServed { data: PathBuf, why: Option<String> },
}

/// A gateway to talk to. [`Connected::end`] stops it if this process hosts it.
pub(crate) struct Connected {
    pub(crate) client: Client,
    /// A line for the person, if this process hosts the gateway.
    pub(crate) hosted: Option<String>,
    own: Option<(oneshot::Sender<()>, JoinHandle<Vec<String>>)>,
    diagnostics: Diagnostics,
}

/// What was found in the data directory.
pub(super) enum Found {
    Gateway(Client),
    /// No gateway serves the directory. The text explains traces of an earlier one.
    Nobody(Option<String>),
}

/// Finds a gateway, or hosts one and says so. `root` is where sessions of a hosted one may work, if the
/// configuration does not say. For commands that a signal kills.
pub(crate) async fn connect(reach: &Reach, root: Option<PathBuf>) -> Result<Connected, FindError> {
    connect_unless(reach, root, std::future::pending()).await
}

/// The same for commands that handle signals themselves: gives up when `interrupted` is ready.
pub(crate) async fn connect_unless(
    reach: &Reach,
    root: Option<PathBuf>,
    interrupted: impl Future<Output = ()>,
) -> Result<Connected, FindError> {
    let connected = open_unless(reach, root, interrupted).await?;
    if let Some(hosted) = &connected.hosted {
        out::note(escape::text(hosted));
    }
    Ok(connected)
}

/// The same without the line for the person: the caller prints `hosted`.
pub(crate) async fn open_unless(
    reach: &Reach,
    root: Option<PathBuf>,
    interrupted: impl Future<Output = ()>,
) -> Result<Connected, FindError> {
    // A task of its own, because opening a data directory can block its thread for long.
    let (reach, root) = (reach.clone(), root);
    let mut opening = tokio::spawn(async move { open(&reach, root).await });
    tokio::select! {
        biased;
        () = interrupted => {
            opening.abort();
            Err(FindError::Interrupted(Interrupted))
        }
        opened = &mut opening => opened.map_err(FindError::Task)?,
    }
}

async fn open(reach: &Reach, root: Option<PathBuf>) -> Result<Connected, FindError> {
    let found = match named(reach)? {
        Some(client) => Found::Gateway(client),
        None => find(&reach.place.contact()?).await?,
    };
    match found {
        Found::Gateway(client) => {
            let diagnostics = Diagnostics::of_client()?;
            Ok(Connected { client, hosted: None, own: None, diagnostics })
        }
        Found::Nobody(why) => host(reach, root, why).await,
    }
}

/// Finds a gateway that runs, for commands whose effect would end with a hosted one.
pub(crate) async fn connect_running(reach: &Reach) -> Result<Client, FindError> {
    // It exports nothing, so there is nothing to end.
    drop(Diagnostics::of_client()?);
    if let Some(client) = named(reach)? {
        return Ok(client);
    }
    let contact = reach.place.contact()?;
    match find(&contact).await? {
        Found::Gateway(client) => Ok(client),
        Found::Nobody(why) => Err(FindError::NotServed { data: contact.data, why }),
    }
}

/// The gateway of `--url`. It gets the configured token, because the user named it. The token in the data
/// directory is only for the gateway that serves that directory.
pub(super) fn named(reach: &Reach) -> Result<Option<Client>, FindError> {
    let Some(url) = &reach.url else { return Ok(None) };
    let wrong = |problem: &str| FindError::Url { url: url.clone(), problem: problem.to_owned() };
    match reqwest::Url::parse(url) {
        Err(_) => return Err(wrong("it is not a URL")),
        Ok(parsed) if !matches!(parsed.scheme(), "http" | "https") => {
            return Err(wrong("its scheme must be http"));
        }
        Ok(parsed) if parsed.query().is_some() || parsed.fragment().is_some() => {
            return Err(wrong("it has a query or a fragment"));
        }
        Ok(_) => {}
    }
    let Contact { data, token_text, is_configured } = reach.place.contact()?;
    if is_configured {
        return Ok(Some(Client::new(url, token_text)?));
    }
    let is_served_there =
        |address: &SocketAddr| url.trim_end_matches('/') == format!("http://{}", reachable(*address));
    let running = gateway_file::read(&data).map(|running| running.address).filter(is_served_there);
    let owner = running.map(|address| Owner::new(&data, address));
    Ok(Some(match owner.map(|owner| (owner.check(), owner)) {
        Some((Ok(()), owner)) => Client::new(url, token_text)?.only_to(owner),
        // This system cannot check it, and the user named it.
        Some((Err(Doubt::Unseen(_)), _)) => Client::new(url, token_text)?,
        Some((Err(Doubt::Other(_)), _)) | None => Client::new(url, None)?,
    }))
}

/// Looks for the gateway that serves the data directory.
pub(super) async fn find(contact: &Contact) -> Result<Found, FindError> {
    let Contact { data, token_text, is_configured: _ } = contact;
    let Some(running) = gateway_file::read(data) else { return Ok(Found::Nobody(None)) };
    let owner = Owner::new(data, running.address);
    let is_sure = match (owner.check(), token_text) {
        (Ok(()), _) => true,
        (Err(Doubt::Unseen(_)), None) => false,
        (Err(Doubt::Unseen(why)), Some(_)) => {
            return Err(FindError::Unseen { address: reachable(running.address), why });
        }
        (Err(Doubt::Other(why)), _) => return Ok(Found::Nobody(Some(why))),
    };
    let client =
        Client::new(&format!("http://{}", reachable(running.address)), token_text.clone())?.only_to(owner);
    match timeout(HEALTH_DEADLINE, client.get("/v1/health")).await {
        Ok(Ok(_)) => Ok(Found::Gateway(client)),
        // It runs and refuses this command: hosting a second one would not help.
        Ok(Err(refused @ ClientError::Refused { .. })) => Err(refused.into()),
        Ok(Err(error @ ClientError::Unreachable { .. })) if is_sure => {
            Err(FindError::Silent { data: data.clone(), problem: Away::new(error.to_string()) })
        }
        Ok(Err(error)) if is_sure => Err(error.into()),
        Err(_) if is_sure => {
            let (pid, address) = (running.pid, running.address);
            let problem = Away::new(format!("process {pid} at {address} says nothing"));
            Err(FindError::Silent { data: data.clone(), problem })
        }
        Ok(Err(error)) => Ok(Found::Nobody(Some(error.to_string()))),
        Err(_) => Ok(Found::Nobody(Some(format!("{} says nothing", running.address)))),
    }
}

/// Hosts a gateway in this process.
async fn host(reach: &Reach, root: Option<PathBuf>, why: Option<String>) -> Result<Connected, FindError> {
    let config = Config::resolve(&reach.place, None, root)?;
    let diagnostics = Diagnostics::of_host(&config)?;
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (_, server) = host::open(&config, listen).await.map_err(|error| match error {
        HostError::Open(OpenError::Log(turnstream_log::OpenError::InUse(data))) => {
            FindError::Busy { data, why: why.clone() }
        }
        other => FindError::Host(other),
    })?;
    let client = Client::new(&format!("http://{}", server.address()), config.token_text)?;
    let (end, ended) = oneshot::channel::<()>();
    let run = server.run(async {
        // A sender that is dropped ends the gateway too.
        drop(ended.await);
    });
    let (data, because) = (config.data.display(), because(why.as_deref()));
    let hosted = Some(format!("no gateway serves {data}{because}: this command hosts its own while it runs"));
    Ok(Connected { client, hosted, own: Some((end, tokio::spawn(run))), diagnostics })
}

pub(super) fn because(why: Option<&str>) -> String {
    why.map_or_else(String::new, |why| format!(" ({why})"))
}

/// The address for clients on this machine: loopback, if the gateway listens on all addresses.
pub(crate) fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        SocketAddr::V4(_) | SocketAddr::V6(_) => {}
    }
    address
}

impl Connected {
    /// Stops the gateway, if this process hosts it, and sends what it has for a collector.
    pub(crate) async fn end(self) {
        if let Some((end, run)) = self.own {
            // It fails only when the gateway has stopped already.
            let _ = end.send(());
            match run.await {
                Ok(problems) => problems.iter().for_each(|problem| out::note(escape::text(problem))),
                Err(error) => tracing::error!(error = %Chain(&error), "the hosted gateway failed"),
            }
        }
        self.diagnostics.end().await;
    }
}
