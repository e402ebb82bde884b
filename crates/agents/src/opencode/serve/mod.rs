//! An `opencode serve` of one's own: started, watched, started again, adopted after a crash, and ended with all it started.

mod launch;
mod output;
mod pipe;
mod processes;
mod record;
mod supervise;

use super::client::Client;
use super::error::ClientError;
use super::password::PasswordSource;
use super::secret::Secret;
use super::settings::{ClientInfo, Timeouts};
use crate::counts::Counters;
use output::Output;
use processes::Process;
use record::Record;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use supervise::{Order, Supervisor};
use thiserror::Error;
use tokio::sync::{oneshot, watch};
use turnstream_redact::Rules;

/// Ports that are tried when another program takes the one that was free a moment ago.
const PORTS: u32 = 3;

/// Probes of a server that was left: it runs, so it answers soon. Who waits for it must have time for another
/// one.
const LEFT_PROBES: u32 = 4;

/// What a server is started with.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program; found on `PATH` if it is a bare name.
    pub command: PathBuf,
    /// Where it runs.
    pub cwd: PathBuf,
    /// Its environment, besides PATH, HOME, LANG and TMPDIR of this process. Its tools see all of it,
    /// the password included.
    pub env: Vec<(OsString, OsString)>,
    /// A directory of this server alone, for its record and its output. Who starts one here again after a crash gets the
    /// server that was left.
    pub state: PathBuf,
    /// How long it may take to become ready.
    pub ready: Duration,
    /// What it gets between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// What happens when it dies.
    pub restarts: Restarts,
    /// What is taken out of its output before that is kept.
    pub secrets: Rules,
}

/// How often and when a server is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restarts {
    /// Attempts in a row; then it is given up.
    pub attempts: u32,
    /// The pause before the first attempt; each further one doubles it.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
    /// After running this long the count starts again.
    pub settled: Duration,
}

/// A server to send requests to. Dropped, a server that was started here is killed; [`Server::stop`] also waits.
#[derive(Debug)]
pub struct Server {
    client: Client,
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    output: Output,
    adopted: bool,
    state: watch::Receiver<ServerState>,
    orders: oneshot::Sender<Order>,
}

/// What a server does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// It answers.
    Ready {
        /// Its process id; not known of a server that was attached to.
        pid: Option<i32>,
        /// How often it was started again.
        restarts: u32,
    },
    /// It died and is started again, at the same address and with the same password.
    Restarting {
        /// Which attempt this is, from 1.
        attempt: u32,
        /// Why it died or did not start, and the end of what it printed.
        reason: String,
    },
    /// It died too often.
    GaveUp {
        /// Why it died or did not start, and the end of what it printed.
        reason: String,
    },
    /// It was ended.
    Stopped,
}

/// Why there is no server.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The program does not start.
    #[error("cannot start {}: {error}; install opencode, or set the command to where it is", command.display())]
    Command {
        /// Which.
        command: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// It started and does not answer.
    #[error("opencode did not become ready: {reason}; its output ends with:\n{output}")]
    NotReady {
        /// What happened.
        reason: String,
        /// The end of what it printed.
        output: String,
    },
    /// A file of its state directory.
    #[error("cannot {what} {}: {error}", path.display())]
    Io {
        /// To do what.
        what: &'static str,
        /// With which.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The record makes no sense.
    #[error("{} is not a record of a server; if no opencode of it runs any more, remove it", path.display())]
    Record {
        /// Which.
        path: PathBuf,
    },
    /// There is nothing for it to print to.
    #[error("cannot make a pipe for what opencode prints: {0}; is the limit of open files reached?")]
    Pipe(io::Error),
    /// There is no free port.
    #[error("there is no free port on 127.0.0.1: {0}")]
    Port(io::Error),
    /// There is nothing to make a password of.
    #[error("cannot read /dev/urandom for a password: {0}")]
    Random(io::Error),
    /// Some processes do not end.
    #[error("processes {0:?} of opencode do not end, not even by SIGKILL")]
    Undying(Vec<i32>),
    /// The server that was to be attached to does not answer, or the client could not be made.
    #[error(transparent)]
    Client(#[from] ClientError),
}

// === impl Launch ===

impl Launch {
    /// Starts this program in this directory, with the defaults.
    pub fn new(command: impl Into<PathBuf>, cwd: impl Into<PathBuf>, state: impl Into<PathBuf>) -> Self {
        Self {
            command: command.into(),
            cwd: cwd.into(),
            env: Vec::new(),
            state: state.into(),
            ready: Duration::from_secs(60),
            grace: Duration::from_secs(2),
            restarts: Restarts::default(),
            secrets: Rules::standard(),
        }
    }
}

impl Default for Restarts {
    fn default() -> Self {
        Self {
            attempts: 5,
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(30),
            settled: Duration::from_secs(60),
        }
    }
}

// === impl Server ===

impl Server {
    /// Takes over the server that an owner who died left in this state directory, if it answers; else ends what is left of it
    /// and starts a new one, with a password and a port of its own.
    pub async fn start(launch: Launch, timeouts: Timeouts, info: ClientInfo) -> Result<Self, ServeError> {
        Self::start_counting(launch, timeouts, info, &Counters::default()).await
    }

    /// The same. Its starts and exits, also those of a start that fails, and what its client meets are counted here.
    pub async fn start_counting(
        launch: Launch,
        timeouts: Timeouts,
        info: ClientInfo,
        counters: &Counters,
    ) -> Result<Self, ServeError> {
        let io = |error| ServeError::Io { what: "make", path: launch.state.clone(), error };
        std::fs::create_dir_all(&launch.state).map_err(io)?;
        let output = Output::new(&launch.state, launch.secrets.clone());
        if let Some(mut left) = Record::read(&launch.state)? {
            let client = client(&left, timeouts, info.clone())?.with_counters(counters.clone());
            // First its output is read on, because a server whose pipe is full may wait. One whose output cannot be read is not
            // taken over: it would come to wait, or print past the redaction as earlier versions let it.
            if let Some(process) = left.family().find_leader()
                && output.go_on(&left.mark, process.id).is_ok()
                && answers(&process, &client).await
            {
                left.process = Some(process.clone());
                left.write(&launch.state)?;
                // Its owner may have been killed before it was in. If it cannot be, the other ways have to
                // do.
                let _ = left.family().take_in();
                let supervisor = Supervisor::adopted(process);
                return Ok(Self::supervised(launch, left, client, output, supervisor, true));
            }
            end(&left, launch.grace).await?;
            Record::remove(&launch.state)?;
        }
        let mut ports = 0;
        loop {
            ports += 1;
            let port = launch::free_port()?;
            let (password, mark) = (launch::random()?, launch::random()?);
            let mut record = Record { port, password, mark, process: None, cgroup: None };
            let client = client(&record, timeouts, info.clone())?.with_counters(counters.clone());
            match launch::launch(&launch, &mut record, &client, &output).await {
                Ok(started) => {
                    let supervisor = Supervisor::started(started);
                    return Ok(Self::supervised(launch, record, client, output, supervisor, false));
                }
                Err(error) => {
                    end(&record, launch.grace).await?;
                    Record::remove(&launch.state)?;
                    if ports == PORTS || !launch::is_taken(port) {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Ends the server that an owner who died left in this state directory, if there is one.
    pub async fn end_left(launch: &Launch) -> Result<(), ServeError> {
        if let Some(left) = Record::read(&launch.state)? {
            end(&left, launch.grace).await?;
            Record::remove(&launch.state)?;
        }
        Ok(())
    }

    /// Uses a server that runs already. It is never ended or started again from here.
    pub async fn attach(
        base_url: &str,
        password: impl PasswordSource,
        timeouts: Timeouts,
        info: ClientInfo,
    ) -> Result<Self, ServeError> {
        let client = Client::new(base_url, password, timeouts, info)?;
        client.health_check().await?;
        Ok(Self { client, own: None })
    }

    fn supervised(
        launch: Launch,
        record: Record,
        client: Client,
        output: Output,
        supervisor: Supervisor,
        adopted: bool,
    ) -> Self {
        let (orders, receiver) = oneshot::channel();
        let state = supervisor.run(launch, record, client.clone(), output.clone(), receiver);
        Self { client, own: Some(Own { output, adopted, state, orders }) }
    }

    /// The client for it. Its address and password stay the same when it is started again.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Whether it was found running, left by an owner who died.
    pub fn was_adopted(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.adopted)
    }

    /// What it does. One that was attached to is taken to be ready: nobody watches it.
    pub fn state(&self) -> ServerState {
        match &self.own {
            Some(own) => own.state.borrow().clone(),
            None => ServerState::Ready { pid: None, restarts: 0 },
        }
    }

    /// To be told of changes; `None` for one that was attached to.
    pub fn watch(&self) -> Option<watch::Receiver<ServerState>> {
        self.own.as_ref().map(|own| own.state.clone())
    }

    /// The end of what it printed, at most 4 KiB.
    pub fn output(&self) -> String {
        self.own.as_ref().map(|own| own.output.tail()).unwrap_or_default()
    }

    /// Ends it and everything it started, and returns when they are gone. Leaves alone a server that was attached to.
    pub async fn stop(self) -> Result<(), ServeError> {
        self.order(Order::Stop).await
    }

    /// Leaves it running for whoever starts one in this state directory next.
    pub async fn leave(self) -> Result<(), ServeError> {
        self.order(Order::Leave).await
    }

    async fn order(
        self,
        order: fn(oneshot::Sender<Result<(), ServeError>>) -> Order,
    ) -> Result<(), ServeError> {
        let Some(own) = self.own else { return Ok(()) };
        let (done, told) = oneshot::channel();
        // A supervisor that is gone has nothing left to end: it ends what it has when it goes.
        match own.orders.send(order(done)) {
            Ok(()) => told.await.unwrap_or(Ok(())),
            Err(_) => Ok(()),
        }
    }
}

/// Whether a server that was left can be used. One that somebody has stopped (SIGSTOP) is continued: its
/// turns are ours.
async fn answers(process: &Process, client: &Client) -> bool {
    process.go_on();
    client.health_check_of(LEFT_PROBES).await.is_ok()
}

fn client(record: &Record, timeouts: Timeouts, info: ClientInfo) -> Result<Client, ServeError> {
    Ok(Client::new(&record.base_url(), Secret::new(record.password.clone()), timeouts, info)?)
}

/// Ends all processes of a server, off the runtime's threads.
async fn end(record: &Record, grace: Duration) -> Result<(), ServeError> {
    let family = record.family();
    let left = tokio::task::spawn_blocking(move || family.end(grace)).await;
    let left = left.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        // The runtime goes, and the guards of what runs kill it.
        Err(_) => Vec::new(),
    });
    if left.is_empty() {
        pipe::remove(&record.mark);
        Ok(())
    } else {
        Err(ServeError::Undying(left.iter().map(|process| process.id).collect()))
    }
}
