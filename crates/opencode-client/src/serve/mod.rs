//! An `opencode serve` of one's own: started, watched, restarted, adopted after a crash, and ended with
//! everything it started.

mod launch;
mod supervise;

use super::client::Client;
use super::error::ClientError;
use super::password::PasswordSource;
use super::secret::Secret;
use super::settings::{ClientInfo, Timeouts};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;
use supervise::{Supervisor, SupervisorCommand};
use thiserror::Error;
use tokio::sync::{oneshot, watch};
use turnstream_adapter::{AgentError, Counters};
use turnstream_agent_process::{Output, Process, ProcessError, ProcessSpec, end, random_mark};
use turnstream_redact::Rules;

/// How many ports are tried if another program takes the one that was free a moment ago.
const PORT_TRIES: u32 = 3;

/// Health checks of a leftover server. It runs, so it answers soon; if not, there must be time to start
/// another.
const LEFTOVER_PROBES: u32 = 4;

/// The files in the state directory: the record of the server, and what it prints.
const RECORD: &str = "opencode.json";
const OUTPUT: &str = "opencode.log";

/// What is on record of a server.
type Record = turnstream_agent_process::Record<Address>;

/// Where a server listens, and its password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Address {
    port: u16,
    password: String,
}

/// How a server is started.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The name of the agent, for log lines.
    pub name: String,
    /// The program; a bare name is searched on `PATH`.
    pub command: PathBuf,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Its environment, besides PATH, HOME, LANG and TMPDIR of this process. Its tools see all of it, also
    /// the password.
    pub env: Vec<(OsString, OsString)>,
    /// A directory for this server alone, for its record and its output. A start in the same directory
    /// after a crash adopts the server that is still running.
    pub state: PathBuf,
    /// How long it may take to become ready.
    pub ready: Duration,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// How it is restarted when it dies.
    pub restarts: Restarts,
    /// The redaction rules for its output, applied before anything is stored.
    pub secrets: Rules,
}

/// How often and when a server is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restarts {
    /// Attempts in a row; then the server is given up.
    pub attempts: u32,
    /// The pause before the first attempt. Each further attempt doubles it.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
    /// A server that ran this long resets the count of attempts.
    pub settled: Duration,
}

/// A server to send requests to. Dropping one that was started here kills it; [`Server::stop`] also waits.
#[derive(Debug)]
pub struct Server {
    client: Client,
    /// `None` for a server that was attached to.
    supervised: Option<Supervised>,
}

/// A server that was started or adopted here.
#[derive(Debug)]
struct Supervised {
    output: Output,
    adopted: bool,
    state: watch::Receiver<ServerState>,
    commands: oneshot::Sender<SupervisorCommand>,
}

/// The state of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// It answers.
    Ready {
        /// Its process id; `None` for a server that was attached to.
        pid: Option<i32>,
        /// How often it was restarted.
        restarts: u32,
    },
    /// It died and is being restarted, at the same address and with the same password.
    Restarting {
        /// The number of the attempt, from 1.
        attempt: u32,
        /// Why it died or did not start, with the end of its output.
        reason: String,
    },
    /// It died too often and is not restarted.
    GaveUp {
        /// Why it died or did not start, with the end of its output.
        reason: String,
    },
    /// It was stopped.
    Stopped,
}

/// Why a server could not be started or ended.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The server was started, but did not become ready.
    #[error("opencode did not become ready: {reason}; its output ends with:\n{output}")]
    NotReady {
        /// The reason.
        #[source]
        reason: NotReady,
        /// The end of its output, redacted.
        output: String,
    },
    /// Its process could not be started or ended.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// There is no free port.
    #[error("there is no free port on 127.0.0.1: {0}")]
    Port(#[source] io::Error),
    /// The server to attach to does not answer, or the client could not be created.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Why a server that was started did not become ready.
#[derive(Debug, Error)]
pub enum NotReady {
    /// It ended.
    #[error("it ended with {0}")]
    Exited(ExitStatus),
    /// It did not print that it is ready.
    #[error("it did not say so within {0:?}")]
    Silent(Duration),
    /// It said so, and does not answer a health check.
    #[error(transparent)]
    Unhealthy(ClientError),
}

// === impl ServeError ===

impl AgentError for ServeError {
    fn for_log(&self) -> String {
        match self {
            Self::NotReady { reason, output: _ } => {
                let reason = match reason {
                    NotReady::Unhealthy(error) => AgentError::for_log(error),
                    NotReady::Exited(_) | NotReady::Silent(_) => reason.to_string(),
                };
                format!("opencode did not become ready: {reason}; see {OUTPUT}")
            }
            Self::Client(error) => AgentError::for_log(error),
            Self::Process(_) | Self::Port(_) => self.to_string(),
        }
    }
}

// === impl Launch ===

impl Launch {
    /// This program in this directory, with default settings.
    pub fn new(command: impl Into<PathBuf>, cwd: impl Into<PathBuf>, state: impl Into<PathBuf>) -> Self {
        Self {
            name: "opencode".to_owned(),
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

    /// The file of the server's record.
    fn record(&self) -> PathBuf {
        self.state.join(RECORD)
    }

    fn spec(&self) -> ProcessSpec {
        let Self { name, command, cwd, env, .. } = self.clone();
        ProcessSpec { kind: "opencode", name, command, cwd, env, exit_status: None }
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
    /// Adopts the server that a crashed owner left in this state directory, if it answers. Otherwise ends
    /// what is left of it, and starts a new one with a password and a port of its own.
    pub async fn start(launch: Launch, timeouts: Timeouts, info: ClientInfo) -> Result<Self, ServeError> {
        Self::start_counting(launch, timeouts, info, &Counters::default()).await
    }

    /// Like [`Server::start`], with these counters for starts and exits of the server, and for its client.
    pub async fn start_counting(
        launch: Launch,
        timeouts: Timeouts,
        info: ClientInfo,
        counters: &Counters,
    ) -> Result<Self, ServeError> {
        let io = |error| ProcessError::Io { what: "make", path: launch.state.clone(), error };
        std::fs::create_dir_all(&launch.state).map_err(io)?;
        let output = Output::new(launch.state.join(OUTPUT), launch.secrets.clone());
        if let Some(record) = Record::read(&launch.record())? {
            let client = client(&record, timeouts, info.clone())?.with_counters(counters.clone());
            if let Some(process) = adoptable(&record, &client, &output, &launch.name).await {
                return Self::adopt(launch, record, client, output, process);
            }
            tracing::info!(agent = %launch.name, "ending what a previous owner left of opencode");
            end(&record, launch.grace).await?;
            Record::remove(&launch.record())?;
        }
        let mut ports = 0;
        loop {
            ports += 1;
            let port = launch::free_port()?;
            let mut record = Record::new(Address { port, password: random_mark()? })?;
            let client = client(&record, timeouts, info.clone())?.with_counters(counters.clone());
            match launch::launch(&launch, &mut record, &client, &output).await {
                Ok(started) => {
                    let supervisor = Supervisor::started(started);
                    return Ok(Self::supervised(launch, record, client, output, supervisor, false));
                }
                Err(error) => {
                    end(&record, launch.grace).await?;
                    Record::remove(&launch.record())?;
                    if ports == PORT_TRIES || !launch::is_taken(port) {
                        return Err(error);
                    }
                    tracing::warn!(
                        agent = %launch.name, port,
                        "another program took the port; trying another one"
                    );
                }
            }
        }
    }

    fn adopt(
        launch: Launch,
        mut record: Record,
        client: Client,
        output: Output,
        process: Process,
    ) -> Result<Self, ServeError> {
        record.process = Some(process.clone());
        record.write(&launch.record())?;
        // The previous owner may have been killed before the process was in its control group.
        launch.spec().enter_cgroup(&record);
        tracing::info!(
            agent = %launch.name, pid = process.id, port = record.agent.port,
            "adopted a running opencode"
        );
        let supervisor = Supervisor::adopted(process, &record);
        Ok(Self::supervised(launch, record, client, output, supervisor, true))
    }

    /// Ends the server that a crashed owner left in this state directory, if there is one.
    pub async fn end_leftover(launch: &Launch) -> Result<(), ServeError> {
        if let Some(record) = Record::read(&launch.record())? {
            tracing::info!(agent = %launch.name, "ending what a previous owner left of opencode");
            end(&record, launch.grace).await?;
            Record::remove(&launch.record())?;
        }
        Ok(())
    }

    /// The ids of the processes of the server that is on record in this state directory.
    pub fn process_ids(launch: &Launch) -> Vec<u32> {
        match Record::read(&launch.record()) {
            Ok(record) => record.map(|record| record.family().ids()).unwrap_or_default(),
            Err(error) => {
                tracing::debug!(agent = %launch.name, %error, "the processes of opencode are not known");
                Vec::new()
            }
        }
    }

    /// Uses a server that runs already. It is never ended or restarted from here.
    pub async fn attach(
        base_url: &str,
        password: impl PasswordSource,
        timeouts: Timeouts,
        info: ClientInfo,
    ) -> Result<Self, ServeError> {
        let client = Client::new(base_url, password, timeouts, info)?;
        client.health_check().await?;
        Ok(Self { client, supervised: None })
    }

    fn supervised(
        launch: Launch,
        record: Record,
        client: Client,
        output: Output,
        supervisor: Supervisor,
        adopted: bool,
    ) -> Self {
        let (commands, receiver) = oneshot::channel();
        let state = supervisor.run(launch, record, client.clone(), output.clone(), receiver);
        Self { client, supervised: Some(Supervised { output, adopted, state, commands }) }
    }

    /// The client for this server. Its address and password stay the same after a restart.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Whether it was adopted from a crashed owner.
    pub fn was_adopted(&self) -> bool {
        self.supervised.as_ref().is_some_and(|server| server.adopted)
    }

    /// Its state. A server that was attached to always counts as ready: it is not watched.
    pub fn state(&self) -> ServerState {
        match &self.supervised {
            Some(server) => server.state.borrow().clone(),
            None => ServerState::Ready { pid: None, restarts: 0 },
        }
    }

    /// A receiver of state changes; `None` for a server that was attached to.
    pub fn watch(&self) -> Option<watch::Receiver<ServerState>> {
        self.supervised.as_ref().map(|server| server.state.clone())
    }

    /// The end of its output, redacted, at most 4 KiB.
    pub fn output(&self) -> String {
        self.supervised.as_ref().map(|server| server.output.tail()).unwrap_or_default()
    }

    /// Ends the server and everything it started, and returns when that is done. A server that was attached
    /// to goes on.
    pub async fn stop(self) -> Result<(), ServeError> {
        self.command(SupervisorCommand::Stop).await
    }

    /// Leaves the server running. The next start in this state directory adopts it.
    pub async fn leave(self) -> Result<(), ServeError> {
        self.command(SupervisorCommand::Leave).await
    }

    async fn command(
        self,
        command: fn(oneshot::Sender<Result<(), ServeError>>) -> SupervisorCommand,
    ) -> Result<(), ServeError> {
        let Some(server) = self.supervised else { return Ok(()) };
        let (done, result) = oneshot::channel();
        // A supervisor that is gone has killed its server: there is nothing left to end.
        match server.commands.send(command(done)) {
            Ok(()) => result.await.unwrap_or(Ok(())),
            Err(_) => Ok(()),
        }
    }
}

/// The process of a leftover server that can be adopted. One that was stopped (SIGSTOP) is continued.
///
/// Its output is read first, because a server whose pipe is full may block. A server whose output cannot be
/// read is not adopted: it would block, or print past the redaction as earlier versions allowed.
async fn adoptable(record: &Record, client: &Client, output: &Output, agent: &str) -> Option<Process> {
    let process = record.family().find_leader()?;
    let pid = process.id;
    if let Err(error) = output.resume(&record.mark, pid) {
        tracing::warn!(agent, pid, %error, "cannot read the output of a leftover opencode; not adopted");
        return None;
    }
    process.resume();
    match client.health_check_with(LEFTOVER_PROBES).await {
        Ok(_) => Some(process),
        Err(error) => {
            tracing::warn!(
                agent, pid, error = %error.for_log(),
                "a leftover opencode does not answer; not adopted"
            );
            None
        }
    }
}

fn client(record: &Record, timeouts: Timeouts, info: ClientInfo) -> Result<Client, ServeError> {
    let Address { port, password } = &record.agent;
    let url = format!("http://127.0.0.1:{port}");
    Ok(Client::new(&url, Secret::new(password.clone()), timeouts, info)?)
}
