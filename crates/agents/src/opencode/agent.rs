//! opencode as a configured agent: one server for all its sessions, started here or found running.

use super::adapter::Adapter;
use super::bus::BusSettings;
use super::client::Client;
use super::conduct::{Budget, Conductor, Pace};
use super::content;
use super::directory::Directory;
use super::error::ClientError;
use super::ids;
use super::password::{Configured, PasswordSource, USER};
use super::serve::{Launch, ServeError, Server, ServerState};
use super::settings::{ClientInfo, Timeouts};
use super::talk::Clock;
use crate::agent::{Agent, CheckingModel, ConnectError, Connecting, Description, Probing, Start, Stopping};
use crate::counts::{Counters, Counts};
use crate::link::Link;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{Mutex, watch};
use tokio::time::timeout_at;
use turnstream_model::event::{NoticeCode, SessionPatch};
use turnstream_model::id::{PromptId, SessionId};
use turnstream_model::signal::Signal;

/// Between two attempts to reach a server that cannot be reached.
const AGAIN: Duration = Duration::from_millis(250);

/// Where the server is from.
#[derive(Clone, Debug)]
pub enum Source {
    /// It is started here when the first session needs it, and ended at the end.
    Start(Box<Launch>),
    /// It runs already; it is never ended from here.
    Attach {
        /// Its address.
        url: String,
        /// Its password.
        password: Configured,
        /// Its user name, if it was told another than its own.
        user: Option<String>,
    },
}

/// How opencode is used.
#[derive(Clone, Debug)]
pub struct OpencodeConfig {
    /// The server.
    pub source: Source,
    /// How long requests may take.
    pub timeouts: Timeouts,
    /// How long a conversation waits.
    pub pace: Pace,
    /// What one turn may take.
    pub budget: Budget,
}

/// The agent.
pub struct Opencode {
    name: String,
    pub(super) config: OpencodeConfig,
    pub(super) server: Mutex<Option<(Server, Client)>>,
    counters: Counters,
}

impl Opencode {
    /// The agent of that name. Nothing is started yet.
    pub fn new(name: impl Into<String>, config: OpencodeConfig) -> Self {
        Self { name: name.into(), config, server: Mutex::new(None), counters: Counters::default() }
    }

    fn unavailable(&self, problem: impl ToString) -> ConnectError {
        ConnectError::Unavailable { agent: self.name.clone(), problem: problem.to_string() }
    }

    /// A server that refuses us is there: that is another problem than one that is not.
    fn trouble(&self, error: &ClientError) -> Trouble {
        match error {
            ClientError::Connect { .. } | ClientError::Timeout { .. } | ClientError::Broken { .. } => {
                Trouble::Passing(error.to_string())
            }
            ClientError::Unauthorized { .. } | ClientError::Password(_) => {
                let (agent, problem) = (self.name.clone(), error.to_string());
                Trouble::Lasting(ConnectError::Unauthorized { agent, problem, status: error.status() })
            }
            ClientError::BaseUrl { .. }
            | ClientError::Setup(_)
            | ClientError::Directory(_)
            | ClientError::Id { .. }
            | ClientError::Refused(_)
            | ClientError::UnknownRequest { .. }
            | ClientError::Unreadable { .. }
            | ClientError::OtherDirectory { .. } => Trouble::Lasting(self.unavailable(error)),
        }
    }

    /// A client of the server, which is started if it does not run. One that is being started again is waited
    /// for, and one that was given up is started anew.
    async fn client(&self) -> Result<Client, ServeError> {
        loop {
            let mut held = self.server.lock().await;
            let state = held.as_ref().map(|(server, _)| server.state());
            match (state, held.as_ref()) {
                (Some(ServerState::Ready { .. }), Some((_, client))) => return Ok(client.clone()),
                (Some(ServerState::Restarting { .. }), Some((server, _))) => {
                    let watch = server.watch();
                    drop(held);
                    self.restarted(watch).await;
                }
                // What is left of one that was given up goes first.
                (Some(ServerState::GaveUp { .. } | ServerState::Stopped) | None, _) | (_, None) => {
                    *held = None;
                    let (server, client) = self.start().await?;
                    *held = Some((server, client.clone()));
                    return Ok(client);
                }
            }
        }
    }

    /// Returns when the server is not being started again any more. One that nobody watches any more is let
    /// go.
    async fn restarted(&self, watch: Option<watch::Receiver<ServerState>>) {
        let Some(mut watch) = watch else { return };
        let done = watch.wait_for(|state| !matches!(state, ServerState::Restarting { .. })).await.is_ok();
        if !done {
            *self.server.lock().await = None;
        }
    }

    async fn start(&self) -> Result<(Server, Client), ServeError> {
        let (timeouts, info) = (self.config.timeouts, ClientInfo::default());
        let server = match &self.config.source {
            Source::Start(launch) => {
                Server::start_counting((**launch).clone(), timeouts, info, &self.counters).await?
            }
            Source::Attach { url, password, user } => {
                let user = user.clone().unwrap_or_else(|| USER.to_owned());
                Server::attach(url, password.clone().with_user(user), timeouts, info).await?
            }
        };
        // A server that is started again may need longer than the attempts that do for a broken connection.
        let attempts = match &self.config.source {
            Source::Start(_) => 10,
            Source::Attach { .. } => BusSettings::default().attempts,
        };
        let settings =
            BusSettings { attempts, longest_pause: Duration::from_secs(5), ..BusSettings::default() };
        let client = server.client().clone().with_bus_settings(settings).with_counters(self.counters.clone());
        Ok((server, client))
    }

    /// Makes a link, for as long as the caller waits: a server that dies is started again and is there soon.
    async fn link(&self, start: Start) -> Result<Link, ConnectError> {
        let mut last = None;
        loop {
            match timeout_at(start.until, self.link_once(&start)).await {
                Ok(Ok(link)) => return Ok(link),
                Ok(Err(Trouble::Lasting(error))) => return Err(error),
                Ok(Err(Trouble::Passing(problem))) => last = Some(problem),
                Err(_) => break,
            }
            tokio::time::sleep(AGAIN).await;
        }
        let restarting = match self.server.try_lock().ok().and_then(|held| Some(held.as_ref()?.0.state())) {
            Some(ServerState::Restarting { reason, .. }) => {
                Some(format!("it is being started again: {reason}"))
            }
            _ => None,
        };
        let problem = restarting.or(last).unwrap_or_else(|| "it did not answer in time".to_owned());
        Err(self.unavailable(problem))
    }

    async fn link_once(&self, start: &Start) -> Result<Link, Trouble> {
        let client = self.client().await.map_err(|error| match error {
            ServeError::Client(error) => self.trouble(&error),
            error => Trouble::Lasting(self.unavailable(error)),
        })?;
        let directory =
            Directory::new(&start.cwd).map_err(|error| Trouble::Lasting(self.unavailable(error)))?;
        let native_id = start.native_id.as_deref();
        let ensured = client.ensure_session(native_id, &directory, None).await;
        let ensured = ensured.map_err(|error| self.trouble(&error))?;
        let forgotten = native_id.filter(|_| ensured.created);
        // A session that is gone took its history with it: what was left open in it is not to be had.
        if let Some(native_id) = forgotten
            && start.left.is_some()
        {
            let problem = "it was deleted, or its server has lost its data".to_owned();
            let _ = client.delete_session(&ensured.at).await;
            let (agent, native_id) = (self.name.clone(), native_id.to_owned());
            return Err(Trouble::Lasting(ConnectError::Forgotten { agent, native_id, problem }));
        }
        let clock = Clock::new();
        let OpencodeConfig { pace, budget, .. } = &self.config;
        let mut conductor = Conductor::new(&ensured.at.id, *pace, budget.clone(), clock.now());
        conductor.choose(start.model.clone(), start.mode.clone());
        let mut compares = false;
        if !ensured.created {
            conductor.continue_session();
            compares = start.left.is_none() && conductor.catch_up_from(&start.known);
        }
        if let Some(left) = start.left.clone() {
            conductor.recover(left);
        }
        let mut way = Adapter::way(&client, &ensured.at);
        way.connected().await.map_err(|closed| match closed.cause() {
            Some(error) => self.trouble(error),
            None => Trouble::Passing(closed.to_string()),
        })?;
        let adapter = Adapter::new(conductor, way, clock);
        let notice = forgotten.map(gone);
        let native_id = ensured.at.id;
        let link = Link::spawn(move |commands, observer| async move {
            let named = SessionPatch { native_id: Some(native_id), ..SessionPatch::default() };
            let first = notice.into_iter().chain([Signal::Session(named)]);
            for signal in first {
                if observer.signal(signal).await.is_err() {
                    return;
                }
            }
            adapter.run(commands, observer).await;
        });
        Ok(if compares { link.away("it is asked what happened meanwhile") } else { link })
    }
}

/// Why a link could not be made.
enum Trouble {
    /// It may be over soon.
    Passing(String),
    /// Waiting does not help.
    Lasting(ConnectError),
}

/// What is said when opencode does not have the session any more and another one takes its place.
fn gone(native_id: &str) -> Signal {
    let message = format!(
        "opencode no longer has its session {native_id}: it was deleted, or the server has lost its data; a new one takes its \
         place, and does not know what was said before"
    );
    Signal::Notice { code: NoticeCode::Forgotten, message, detail: None }
}

impl Agent for Opencode {
    fn describe(&self) -> Description {
        let (about, problem) = match &self.config.source {
            Source::Start(launch) => {
                let command = launch.command.display();
                let problem = (!is_installed(&launch.command))
                    .then(|| format!("{command} is not installed; install opencode, or set the command"));
                (format!("opencode, started as {command}"), problem)
            }
            Source::Attach { url, .. } => (format!("opencode at {url}"), None),
        };
        Description { kind: "opencode", about, version: None, problem, scripted: false }
    }

    fn probe(&self) -> Probing<'_> {
        Box::pin(self.look())
    }

    fn check_block(&self, block: &Value) -> Result<(), String> {
        content::check(block)
    }

    fn check_model<'a>(&'a self, model: &'a str, cwd: &'a Path) -> CheckingModel<'a> {
        Box::pin(self.find_model(model, cwd))
    }

    fn connect(&self, start: Start) -> Connecting<'_> {
        Box::pin(self.link(start))
    }

    fn name_prompt(&self, session: &SessionId, prompt: &PromptId) -> String {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        ids::for_prompt(session.as_str(), prompt.as_str(), since.as_millis() as u64).message()
    }

    /// A server that was found running goes on; one that was started here is ended with us.
    fn outlives_gateway(&self) -> bool {
        matches!(self.config.source, Source::Attach { .. })
    }

    fn counts(&self) -> Option<Counts> {
        Some(self.counters.counts())
    }

    fn stop(&self) -> Stopping<'_> {
        Box::pin(async move {
            let server = self.server.lock().await.take();
            let stopped = match (server, &self.config.source) {
                (Some((server, _)), _) => server.stop().await,
                // One that was left by a crash, and that no session needed since.
                (None, Source::Start(launch)) => Server::end_left(launch).await,
                (None, Source::Attach { .. }) => Ok(()),
            };
            stopped.map_err(|error| error.to_string())
        })
    }
}

/// Whether there is such a program that may be run: at its path, or by its name on `PATH`.
fn is_installed(command: &Path) -> bool {
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if command.components().count() > 1 {
        return is_program(command);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| is_program(&directory.join(command)))
}
