//! A gateway for a command that lives long and is not alone: one that runs, or one that this process hosts
//! for other commands too. When the process that hosts it ends, another one takes it over.

use super::find::{self, FindError, Found, Reach};
use super::{Client, Owner};
use crate::config::{Config, Contact};
use crate::diagnostics::Diagnostics;
use crate::gateway_file::{self, GatewayFile, TokenPlace};
use crate::host::{self, HostError};
use crate::{escape, out};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use turnstream_gateway::OpenError;
use turnstream_model::Chain;

/// How long two commands that start at once may take until one of them hosts the gateway.
const START: Duration = Duration::from_secs(30);
const START_PAUSE: Duration = Duration::from_millis(100);
/// How often is looked whether a gateway serves the directory.
const LOOK: Duration = Duration::from_secs(1);
/// How often in a row nobody is found before this process hosts one.
const MISSES: u32 = 2;

/// A gateway that is shared with other commands.
pub(crate) struct SharedGateway {
    pub(crate) client: Client,
    /// A line for the person, if this process hosts the gateway.
    pub(crate) hosted: Option<String>,
    hosting: Arc<Mutex<Option<Hosting>>>,
    watching: Option<JoinHandle<()>>,
    diagnostics: Diagnostics,
}

/// A gateway in this process.
struct Hosting {
    end: oneshot::Sender<()>,
    run: JoinHandle<Vec<String>>,
    _file: GatewayFile,
}

impl SharedGateway {
    /// Finds a gateway, or hosts one. `root` is where sessions of a hosted one may work, if the configuration
    /// does not say.
    pub(crate) async fn open(reach: &Reach, root: PathBuf) -> Result<Self, FindError> {
        if let Some(client) = find::named(reach)? {
            let diagnostics = Diagnostics::of_client()?;
            let hosting = Arc::default();
            return Ok(Self { client, hosted: None, hosting, watching: None, diagnostics });
        }
        let begun = Instant::now();
        let mut diagnostics = None;
        let (client, hosting, hosted) = loop {
            let contact = reach.place.contact()?;
            let why = match find::find(&contact).await {
                Ok(Found::Gateway(client)) => break (client, None, None),
                Ok(Found::Nobody(why)) => why,
                // It starts, or ends: both take a moment.
                Err(FindError::Silent { .. }) if begun.elapsed() < START => {
                    sleep(START_PAUSE).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let config = Config::resolve(&reach.place, None, Some(root.clone()))?;
            if diagnostics.is_none() {
                diagnostics = Some(Diagnostics::of_host(&config)?);
            }
            match Hosting::start(&config).await {
                Ok((client, hosting)) => {
                    let (data, because) = (config.data.display(), find::because(why.as_deref()));
                    let hosted =
                        format!("no gateway serves {data}{because}: this command hosts one while it runs");
                    break (client, Some(hosting), Some(hosted));
                }
                // Another command is faster. It will be found.
                Err(FindError::Busy { .. }) if begun.elapsed() < START => sleep(START_PAUSE).await,
                Err(error) => return Err(error),
            }
        };
        let diagnostics = match diagnostics {
            Some(diagnostics) => diagnostics,
            None => Diagnostics::of_client()?,
        };
        let Contact { data, .. } = reach.place.contact()?;
        let hosting = Arc::new(Mutex::new(hosting));
        let watching = tokio::spawn(watch(reach.clone(), root, data.clone(), Arc::clone(&hosting)));
        let client = client.following(&data);
        Ok(Self { client, hosted, hosting, watching: Some(watching), diagnostics })
    }

    /// Stops the gateway, if this process hosts it.
    pub(crate) async fn end(self) {
        if let Some(watching) = self.watching {
            watching.abort();
        }
        let hosting = self.hosting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(hosting) = hosting {
            hosting.end().await;
        }
        self.diagnostics.end().await;
    }
}

impl Hosting {
    async fn start(config: &Config) -> Result<(Client, Self), FindError> {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let (_, server) = host::open(config, listen).await.map_err(|error| match error {
            HostError::Open(OpenError::Log(turnstream_log::OpenError::InUse(data))) => {
                FindError::Busy { data, why: None }
            }
            other => FindError::Host(other),
        })?;
        let address = server.address();
        let file = GatewayFile::write_hosted(&config.data, address, TokenPlace::of(&config.auth));
        let file = file.map_err(|error| FindError::GatewayFile { data: config.data.clone(), error })?;
        let client = Client::new(&format!("http://{address}"), config.token_text.clone())?;
        let (end, ended) = oneshot::channel::<()>();
        let run = server.run(async {
            // A sender that is dropped ends the gateway too.
            drop(ended.await);
        });
        Ok((client, Self { end, run: tokio::spawn(run), _file: file }))
    }

    async fn end(self) {
        // It fails only when the gateway has stopped already.
        let _ = self.end.send(());
        match self.run.await {
            Ok(problems) => problems.iter().for_each(|problem| out::note(escape::text(problem))),
            Err(error) => tracing::error!(error = %Chain(&error), "the hosted gateway failed"),
        }
    }
}

/// Hosts the gateway when the command that hosted it has ended. A gateway of `turnstream serve` is waited
/// for: who stopped it will start it again, and must not find the directory taken.
async fn watch(reach: Reach, root: PathBuf, data: PathBuf, hosting: Arc<Mutex<Option<Hosting>>>) {
    let mut misses = 0;
    let mut was_hosted = gateway_file::read(&data).is_some_and(|running| running.hosted);
    loop {
        sleep(LOOK.mul_f64(0.5 + fastrand::f64())).await;
        if hosting.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return;
        }
        if let Some(running) = gateway_file::read(&data) {
            was_hosted = running.hosted;
        }
        misses = if is_served(&data) { 0 } else { misses + 1 };
        if misses < MISSES || !was_hosted {
            continue;
        }
        let started = match Config::resolve(&reach.place, None, Some(root.clone())) {
            Ok(config) => Hosting::start(&config).await,
            Err(error) => Err(error.into()),
        };
        match started {
            Ok((_, started)) => {
                out::note(escape::text(
                    "no gateway serves the data directory any more: this command hosts one",
                ));
                *hosting.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
                return;
            }
            // Another command is faster.
            Err(FindError::Busy { .. }) => {}
            Err(error) => tracing::warn!(error = %Chain(&error), "no gateway can be hosted"),
        }
        misses = 0;
    }
}

/// Whether the gateway of `gateway.json` holds the directory.
fn is_served(data: &Path) -> bool {
    gateway_file::read(data).is_some_and(|running| match Owner::new(data, running.address).check() {
        Ok(()) | Err(super::Doubt::Unseen(_)) => true,
        Err(super::Doubt::Other(_)) => false,
    })
}
