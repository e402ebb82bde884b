//! The gateway a command talks to: one that was named, one that runs, or one of its own.

use super::owner::{Doubt, Owner};
use super::{Away, Client, ClientError};
use crate::config::{Config, ConfigError, Contact, Place};
use crate::escape;
use crate::host::{self, HostError};
use crate::out;
use crate::running;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
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
    #[error("--url {url:?} cannot be used: {problem}; write it like http://127.0.0.1:4180")]
    Url { url: String, problem: String },
    #[error(
        "{} is in use by another turnstream that does not serve{}; wait until that command ends, or start \
         `turnstream serve` so that several commands can share it", data.display(), because(why.as_deref())
    )]
    Busy { data: PathBuf, why: Option<String> },
    #[error(
        "the gateway at {address} is not shown the token: {why}; if it is yours, name it: --url http://{address}"
    )]
    Unseen { address: SocketAddr, why: String },
    #[error("the gateway that serves {} does not answer: {problem}", data.display())]
    Silent {
        data: PathBuf,
        #[source]
        problem: Away,
    },
    #[error(
        "no gateway serves {}{}; start one with `turnstream serve`, or name the one that is meant with --data, --config \
         or --url", data.display(), because(why.as_deref())
    )]
    NotServed { data: PathBuf, why: Option<String> },
}

/// A gateway to talk to. One of our own ends with [`Connected::end`].
pub(crate) struct Connected {
    pub(crate) client: Client,
    /// That the gateway is our own, and why, for a person.
    pub(crate) hosted: Option<String>,
    own: Option<(oneshot::Sender<()>, JoinHandle<Vec<String>>)>,
}

/// What was found in the data directory.
enum Found {
    Gateway(Client),
    /// Nobody serves; why, if there are traces of a gateway.
    Nobody(Option<String>),
}

/// Finds a gateway, or starts one and says so. `root` is where sessions of one of our own may work, if the
/// configuration does not say.
pub(crate) async fn connect(reach: &Reach, root: Option<PathBuf>) -> Result<Connected, FindError> {
    let connected = open(reach, root).await?;
    if let Some(hosted) = &connected.hosted {
        out::note(escape::text(hosted));
    }
    Ok(connected)
}

/// The same, for who says it in other words.
pub(crate) async fn open(reach: &Reach, root: Option<PathBuf>) -> Result<Connected, FindError> {
    if let Some(client) = named(reach)? {
        return Ok(Connected { client, hosted: None, own: None });
    }
    let contact = reach.place.contact()?;
    match find(&contact).await? {
        Found::Gateway(client) => Ok(Connected { client, hosted: None, own: None }),
        Found::Nobody(why) => host(reach, root, why).await,
    }
}

/// Finds a gateway that runs already, for what would be over with a gateway of our own.
pub(crate) async fn connect_running(reach: &Reach) -> Result<Client, FindError> {
    if let Some(client) = named(reach)? {
        return Ok(client);
    }
    let contact = reach.place.contact()?;
    match find(&contact).await? {
        Found::Gateway(client) => Ok(client),
        Found::Nobody(why) => Err(FindError::NotServed { data: contact.data, why }),
    }
}

/// The gateway that a person named. It is shown the token: whoever names it answers for it.
fn named(reach: &Reach) -> Result<Option<Client>, FindError> {
    let Some(url) = &reach.url else { return Ok(None) };
    let wrong = |problem: &str| FindError::Url { url: url.clone(), problem: problem.to_owned() };
    match reqwest::Url::parse(url) {
        Err(_) => return Err(wrong("it is no web address")),
        Ok(parsed) if !matches!(parsed.scheme(), "http" | "https") => {
            return Err(wrong("its scheme has to be http"));
        }
        Ok(parsed) if parsed.query().is_some() || parsed.fragment().is_some() => {
            return Err(wrong("it has a query or a fragment"));
        }
        Ok(_) => {}
    }
    Ok(Some(Client::new(url, reach.place.secret()?)?))
}

/// Looks for the gateway that has the data directory.
async fn find(contact: &Contact) -> Result<Found, FindError> {
    let Contact { data, secret } = contact;
    let Some(running) = running::read(data) else { return Ok(Found::Nobody(None)) };
    let owner = Owner::new(data, running.address);
    let is_sure = match (owner.check(), secret) {
        (Ok(()), _) => true,
        (Err(Doubt::Unseen(_)), None) => false,
        (Err(Doubt::Unseen(why)), Some(_)) => {
            return Err(FindError::Unseen { address: reachable(running.address), why });
        }
        (Err(Doubt::Other(why)), _) => return Ok(Found::Nobody(Some(why))),
    };
    let client =
        Client::new(&format!("http://{}", reachable(running.address)), secret.clone())?.only_to(owner);
    match timeout(KNOCK, client.get("/v1/health")).await {
        Ok(Ok(_)) => Ok(Found::Gateway(client)),
        // It is there, and it does not want us: a second one would not help.
        Ok(Err(refused @ ClientError::Refused { .. })) => Err(refused.into()),
        Ok(Err(error @ ClientError::Unreachable { .. })) if is_sure => {
            Err(FindError::Silent { data: data.clone(), problem: Away(error.to_string()) })
        }
        Ok(Err(error)) if is_sure => Err(error.into()),
        Err(_) if is_sure => {
            let (pid, address) = (running.pid, running.address);
            let problem = Away(format!("process {pid} at {address} says nothing"));
            Err(FindError::Silent { data: data.clone(), problem })
        }
        Ok(Err(error)) => Ok(Found::Nobody(Some(error.to_string()))),
        Err(_) => Ok(Found::Nobody(Some(format!("{} says nothing", running.address)))),
    }
}

/// Starts a gateway of our own.
async fn host(reach: &Reach, root: Option<PathBuf>, why: Option<String>) -> Result<Connected, FindError> {
    let config = Config::resolve(&reach.place, None, root)?;
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (_, server) = host::open(&config, listen).await.map_err(|error| match error {
        HostError::Open(OpenError::Log(turnstream_log::OpenError::InUse(data))) => {
            FindError::Busy { data, why: why.clone() }
        }
        other => FindError::Host(other),
    })?;
    let client = Client::new(&format!("http://{}", server.address()), config.secret)?;
    let (end, ended) = oneshot::channel::<()>();
    let run = server.run(async {
        // Dropped means the same as told.
        let _ = ended.await;
    });
    let (data, because) = (config.data.display(), because(why.as_deref()));
    let hosted = Some(format!("no gateway serves {data}{because}: this command hosts its own while it runs"));
    Ok(Connected { client, hosted, own: Some((end, tokio::spawn(run))) })
}

fn because(why: Option<&str>) -> String {
    why.map_or_else(String::new, |why| format!(" ({why})"))
}

/// A gateway that listens everywhere is here too.
pub(crate) fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        SocketAddr::V4(_) | SocketAddr::V6(_) => {}
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
