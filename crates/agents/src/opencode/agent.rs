//! opencode as a configured agent: one server for all its sessions, started here or found running.

use super::adapter::Adapter;
use super::commands::usual_commands;
use crate::program::{OPENCODE, Origin, Program};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::{Mutex, watch};
use tokio::time::timeout_at;
use tracing::Instrument;
use turnstream_adapter::{
    Agent, AgentError, CheckingModel, Choice, Clock, ConnectError, Connecting, Counters, Counts, Description,
    Link, Probing, ProcessUsage, RefusedBlock, Start, StopError, Stopping,
};
use turnstream_model::event::{NoticeCode, SessionPatch};
use turnstream_model::id::{PromptId, SessionId};
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;
use turnstream_opencode_client::{
    Budget, BusSettings, Client, ClientError, ClientInfo, Configured, Conversation, Directory, Ensured,
    Launch, Pace, PasswordSource, ServeError, Server, ServerConnection, ServerState, Timeouts, USER, ids,
};

/// The pause between two attempts to make a link.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Where the server comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// It is started when the first session needs it, and ended with the gateway.
    Start(Box<Launch>),
    /// It runs already, and is never ended from here.
    Attach {
        /// Its address.
        url: String,
        /// Its password.
        password: Configured,
        /// Its user name, if it is not the default.
        user: Option<String>,
    },
}

/// The configuration of opencode.
#[derive(Clone, Debug)]
pub struct OpencodeConfig {
    /// The server.
    pub source: Source,
    /// Whether the configuration names it.
    pub origin: Origin,
    /// Timeouts of requests.
    pub timeouts: Timeouts,
    /// How long a conversation waits before it asks the server.
    pub pace: Pace,
    /// Limits on one turn.
    pub budget: Budget,
}

/// The agent.
pub struct Opencode {
    pub(super) name: String,
    pub(super) config: OpencodeConfig,
    pub(super) server: Mutex<Option<(Server, Client)>>,
    /// The program of a server that is started here.
    pub(super) program: Option<Program>,
    counters: Counters,
    /// The commands that the server was found to have, in any directory.
    pub(super) commands: Arc<std::sync::Mutex<BTreeMap<String, Choice>>>,
}

impl Opencode {
    /// The agent of that name. Nothing is started yet.
    pub fn new(name: impl Into<String>, config: OpencodeConfig) -> Self {
        let program = match &config.source {
            Source::Start(launch) => {
                Some(Program::new(&OPENCODE, &launch.command, config.origin, &launch.env))
            }
            Source::Attach { .. } => None,
        };
        let (server, counters) = (Mutex::new(None), Counters::default());
        let commands = Arc::new(std::sync::Mutex::new(usual_commands()));
        Self { name: name.into(), config, server, program, counters, commands }
    }

    /// The description without anything about the program or the server.
    pub(super) fn undescribed(&self) -> Description {
        let about = match &self.config.source {
            Source::Start(launch) => format!("opencode, started as {}", launch.command.display()),
            Source::Attach { url, .. } => format!("opencode at {url}"),
        };
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        let commands = commands.values().cloned().collect();
        Description { commands, shell: true, ..Description::new(OPENCODE.kind, about) }
    }

    fn unavailable(&self, problem: Arc<dyn AgentError>) -> ConnectError {
        ConnectError::Unavailable { agent: self.name.clone(), problem }
    }

    /// Classifies a failed request. A server that refuses the password is not the same as one that is not
    /// there.
    fn failure(&self, error: Arc<ClientError>) -> LinkFailure {
        match &*error {
            ClientError::Connect { .. } | ClientError::Timeout { .. } | ClientError::Broken { .. } => {
                LinkFailure::Temporary(error)
            }
            ClientError::Unauthorized { .. } | ClientError::Password(_) => {
                let (agent, status) = (self.name.clone(), error.status());
                LinkFailure::Permanent(ConnectError::Unauthorized { agent, problem: error, status })
            }
            ClientError::BaseUrl { .. }
            | ClientError::Setup(_)
            | ClientError::Directory(_)
            | ClientError::Id { .. }
            | ClientError::Refused(_)
            | ClientError::UnknownRequest { .. }
            | ClientError::Unreadable { .. }
            | ClientError::OtherDirectory { .. } => LinkFailure::Permanent(self.unavailable(error)),
        }
    }

    /// A client of the server. Starts the server if it does not run or was given up; waits if it is
    /// restarting.
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
                // Dropping the old one kills what is left of it.
                (Some(ServerState::GaveUp { .. } | ServerState::Stopped) | None, _) | (_, None) => {
                    *held = None;
                    let (server, client) = self.start().await?;
                    *held = Some((server, client.clone()));
                    return Ok(client);
                }
            }
        }
    }

    /// Waits until a restart has finished. A server whose supervisor is gone is dropped.
    async fn restarted(&self, watch: Option<watch::Receiver<ServerState>>) {
        let Some(mut watch) = watch else { return };
        let done = watch.wait_for(|state| !matches!(state, ServerState::Restarting { .. })).await.is_ok();
        if !done {
            tracing::error!(agent = %self.name, "the supervisor of opencode is gone");
            *self.server.lock().await = None;
        }
    }

    async fn start(&self) -> Result<(Server, Client), ServeError> {
        let (timeouts, info) = (self.config.timeouts, ClientInfo::default());
        let server = match &self.config.source {
            Source::Start(launch) => {
                let launch = Launch { name: self.name.clone(), ..(**launch).clone() };
                Server::start_counting(launch, timeouts, info, &self.counters).await?
            }
            Source::Attach { url, password, user } => {
                let user = user.clone().unwrap_or_else(|| USER.to_owned());
                Server::attach(url, password.clone().with_user(user), timeouts, info).await?
            }
        };
        // A restart of the server may take longer than the default attempts, which are for broken
        // connections.
        let attempts = match &self.config.source {
            Source::Start(_) => 10,
            Source::Attach { .. } => BusSettings::default().attempts,
        };
        let settings =
            BusSettings { attempts, longest_pause: Duration::from_secs(5), ..BusSettings::default() };
        let client = server.client().clone().with_bus_settings(settings).with_counters(self.counters.clone());
        Ok((server, client))
    }

    /// Makes a link. Temporary failures are retried until the caller's deadline: a server that died is
    /// restarted.
    async fn link(&self, start: Start) -> Result<Link, ConnectError> {
        let mut last: Option<Arc<dyn AgentError>> = None;
        loop {
            match timeout_at(start.until, self.link_once(&start)).await {
                Ok(Ok(link)) => return Ok(link),
                Ok(Err(LinkFailure::Permanent(error))) => return Err(error),
                Ok(Err(LinkFailure::Temporary(problem))) => {
                    // One line per state, not per attempt.
                    let reason = problem.for_log();
                    if last.is_none_or(|last| last.for_log() != reason) {
                        tracing::info!(
                            agent = %self.name, session = %start.session, %reason,
                            "opencode does not answer yet"
                        );
                    }
                    last = Some(problem);
                }
                Err(_) => break,
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        let state = self.server.try_lock().ok().and_then(|held| Some(held.as_ref()?.0.state()));
        let problem = match (state, last) {
            (Some(ServerState::Restarting { reason, .. }), _) => Arc::new(NoLink::Restarting { reason }),
            (_, Some(last)) => last,
            (_, None) => Arc::new(NoLink::NoAnswer),
        };
        // The keeper logs the failure; this is why.
        tracing::debug!(
            agent = %self.name, session = %start.session, reason = %problem.for_log(),
            "no link to opencode before the deadline"
        );
        Err(self.unavailable(problem))
    }

    async fn link_once(&self, start: &Start) -> Result<Link, LinkFailure> {
        let client = self.client().await.map_err(|error| match error {
            ServeError::Client(error) => self.failure(Arc::new(error)),
            error => LinkFailure::Permanent(self.unavailable(Arc::new(error))),
        })?;
        let directory = Directory::new(start.cwd.path())
            .map_err(|error| self.failure(Arc::new(ClientError::from(error))))?;
        let native_id = start.native_id.as_deref();
        let ensured = client.ensure_session(native_id, &directory, None).await;
        let ensured = ensured.map_err(|error| self.failure(Arc::new(error)))?;
        let forgotten = native_id.filter(|_| ensured.created);
        if let Some(native_id) = forgotten
            && start.open_work.is_some()
        {
            return Err(self.forgotten(&client, &ensured, native_id).await);
        }
        if ensured.created {
            let native_session = &ensured.at.id;
            tracing::debug!(
                agent = %self.name, session = %start.session, %native_session,
                "session of opencode created"
            );
        }
        self.learn_commands(&client, &directory);
        let clock = Clock::new();
        let (conversation, catches_up) = self.conversation(start, &ensured, clock);
        let mut connection = ServerConnection::new(&client, &ensured.at);
        connection.connected().await.map_err(|closed| match closed.cause() {
            Some(error) => self.failure(Arc::clone(error)),
            None => LinkFailure::Temporary(Arc::new(closed)),
        })?;
        // opencode takes a path, not the open directory. Nothing was sent to it yet.
        if !start.cwd.is_at_its_path() {
            let path = start.cwd.path().to_owned();
            return Err(LinkFailure::Permanent(self.unavailable(Arc::new(DirectoryReplaced(path)))));
        }
        let adapter = Adapter::new(conversation, connection, clock, start.session.clone());
        let notice = forgotten.map(forgotten_notice);
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
        Ok(if catches_up { link.away("it is asked what happened meanwhile") } else { link })
    }

    /// The conversation of a link, and whether it first compares the session with the log.
    fn conversation(&self, start: &Start, ensured: &Ensured, clock: Clock) -> (Conversation, bool) {
        let OpencodeConfig { pace, budget, .. } = &self.config;
        let mut conversation = Conversation::new(&ensured.at.id, *pace, budget.clone(), clock.now());
        conversation.choose(start.model.clone(), start.mode.clone());
        let mut catches_up = false;
        if !ensured.created {
            conversation.continue_session();
            catches_up = start.open_work.is_none() && conversation.catch_up_from(&start.known);
        }
        if let Some(open_work) = start.open_work.clone() {
            conversation.recover(open_work);
        }
        (conversation, catches_up)
    }

    /// A deleted session took its history with it: what was open in it cannot be recovered. The session
    /// that was created in its place is removed again.
    async fn forgotten(&self, client: &Client, ensured: &Ensured, native_id: &str) -> LinkFailure {
        if let Err(error) = client.delete_session(&ensured.at).await {
            let (native_session, error) = (&ensured.at.id, error.for_log());
            tracing::warn!(
                agent = %self.name, %native_session, %error,
                "cannot delete an unused session of opencode"
            );
        }
        let (agent, native_id) = (self.name.clone(), native_id.to_owned());
        LinkFailure::Permanent(ConnectError::Forgotten { agent, native_id })
    }
}

/// Why a link could not be made.
enum LinkFailure {
    /// A retry may succeed.
    Temporary(Arc<dyn AgentError>),
    /// A retry does not help.
    Permanent(ConnectError),
}

/// Why there was no link before the deadline, if no request has failed.
#[derive(Debug, thiserror::Error)]
enum NoLink {
    /// The server ended, for this reason, which has the end of its output.
    #[error("it is being started again: {reason}")]
    Restarting { reason: String },
    #[error("it did not answer in time")]
    NoAnswer,
}

impl AgentError for NoLink {
    fn for_log(&self) -> String {
        match self {
            Self::Restarting { reason: _ } => "it is being started again".to_owned(),
            Self::NoAnswer => self.to_string(),
        }
    }
}

/// The working directory was replaced while the link was made.
#[derive(Debug, thiserror::Error)]
#[error("the working directory {} was replaced meanwhile; send the prompt again", .0.display())]
struct DirectoryReplaced(PathBuf);

impl AgentError for DirectoryReplaced {
    fn for_log(&self) -> String {
        self.to_string()
    }
}

/// The notice for a session that opencode no longer has, and that is replaced by a new one.
fn forgotten_notice(native_id: &str) -> Signal {
    let message = format!(
        "opencode no longer has its session {native_id}: it was deleted, or the server has lost its data; a new one takes its \
         place, and does not know what was said before"
    );
    Signal::Notice { code: NoticeCode::Forgotten, message, detail: None }
}

impl Agent for Opencode {
    fn describe(&self) -> Description {
        let description = self.undescribed();
        match &self.program {
            Some(program) => program.describe(description),
            None => description,
        }
    }

    fn probe(&self) -> Probing<'_> {
        Box::pin(self.probe_server())
    }

    fn check_block(&self, block: &Value) -> Result<(), RefusedBlock> {
        turnstream_opencode_client::check_block(block)
    }

    /// A command or a shell command is told by the first block of a prompt.
    fn takes_context(&self, content: &[Value]) -> bool {
        turnstream_opencode_client::is_for_model(content)
    }

    fn check_model<'a>(&'a self, model: &'a str, cwd: &'a Path) -> CheckingModel<'a> {
        Box::pin(self.find_model(model, cwd))
    }

    fn connect(&self, start: Start) -> Connecting<'_> {
        let span = tracing::info_span!("link", agent = %self.name, session = %start.session);
        Box::pin(self.link(start).instrument(span))
    }

    fn name_prompt(&self, session: &SessionId, prompt: &PromptId) -> String {
        ids::for_prompt(session.as_str(), prompt.as_str(), Time::now().0).message()
    }

    /// A server that is given by its URL goes on. One that was started by a gateway ends with this one, also
    /// if it was adopted after a crash.
    fn outlives_gateway(&self) -> bool {
        matches!(self.config.source, Source::Attach { .. })
    }

    fn counts(&self) -> Option<Counts> {
        Some(self.counters.counts())
    }

    fn process_usage(&self) -> Option<ProcessUsage> {
        match &self.config.source {
            Source::Start(launch) => Some(ProcessUsage::of(Server::process_ids(launch))),
            // It runs on another machine, or belongs to somebody else.
            Source::Attach { .. } => None,
        }
    }

    fn stop(&self) -> Stopping<'_> {
        Box::pin(async move {
            if let Some(program) = &self.program {
                program.stop();
            }
            let server = self.server.lock().await.take();
            let stopped = match (server, &self.config.source) {
                (Some((server, _)), _) => server.stop().await,
                // An earlier gateway may have crashed and left one that no session has needed since.
                (None, Source::Start(launch)) => Server::end_leftover(launch).await,
                (None, Source::Attach { .. }) => Ok(()),
            };
            stopped.map_err(StopError::new)
        })
    }
}
