//! opencode as a configured agent: one server for all its sessions, started here or found running.

use super::adapter::Adapter;
use super::bus::BusSettings;
use super::client::Client;
use super::conduct::{Budget, Conductor, Pace};
use super::content;
use super::directory::Directory;
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
use tokio::sync::Mutex;
use turnstream_model::event::SessionPatch;
use turnstream_model::id::{PromptId, SessionId};
use turnstream_model::signal::Signal;

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

    /// A client of the server, which is started if it does not run. One that was given up is started anew.
    async fn client(&self) -> Result<Client, ServeError> {
        let mut held = self.server.lock().await;
        let usable = |server: &Server| match server.state() {
            ServerState::Ready { .. } | ServerState::Restarting { .. } => true,
            ServerState::GaveUp { .. } | ServerState::Stopped => false,
        };
        if let Some((_, client)) = held.as_ref().filter(|(server, _)| usable(server)) {
            return Ok(client.clone());
        }
        // What is left of one that was given up goes first.
        *held = None;
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
        *held = Some((server, client.clone()));
        Ok(client)
    }

    async fn link(&self, start: Start) -> Result<Link, ConnectError> {
        let client = self.client().await.map_err(|error| self.unavailable(error))?;
        let directory = Directory::new(&start.cwd).map_err(|error| self.unavailable(error))?;
        let ensured = client
            .ensure_session(start.native_id.as_deref(), &directory, None)
            .await
            .map_err(|error| self.unavailable(error))?;
        // A session that is gone took its history with it: what was left open in it is not to be had.
        if let (Some(native_id), true) = (&start.native_id, ensured.created)
            && start.left.is_some()
        {
            let problem = "it was deleted, or its server has lost its data".to_owned();
            let _ = client.delete_session(&ensured.at).await;
            return Err(ConnectError::Forgotten {
                agent: self.name.clone(),
                native_id: native_id.clone(),
                problem,
            });
        }
        let clock = Clock::new();
        let OpencodeConfig { pace, budget, .. } = &self.config;
        let mut conductor = Conductor::new(&ensured.at.id, *pace, budget.clone(), clock.now());
        conductor.choose(start.model, start.mode);
        if !ensured.created {
            conductor.continue_session();
        }
        if let Some(left) = start.left {
            conductor.recover(left);
        }
        let mut way = Adapter::way(&client, &ensured.at);
        way.connected().await.map_err(|error| self.unavailable(error.message))?;
        let adapter = Adapter::new(conductor, way, clock);
        let native_id = ensured.at.id;
        Ok(Link::spawn(move |commands, observer| async move {
            let named = SessionPatch { native_id: Some(native_id), ..SessionPatch::default() };
            if observer.signal(Signal::Session(named)).await.is_ok() {
                adapter.run(commands, observer).await;
            }
        }))
    }
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
