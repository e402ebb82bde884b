//! An ACP agent as a configured agent: one process per session.

use super::adapter::{Adapter, Running};
use super::calls::Calls;
use super::conversation::{Capabilities, Conversation, ConversationSettings, Refusal};
use super::files::SessionFiles;
use super::process::{self, Process, StartError};
use crate::program::{KnownAgent, Origin, Program, RouteForAgent};
use serde_json::Value;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tracing::Instrument;
use turnstream_adapter::{
    Agent, AgentError, Choice, Clock, ConnectError, Connecting, Counted, Counters, Counts, Description, Link,
    McpServer, McpTransport, Probing, ProcessUsage, RefusedBlock, RefusedMcp, Start, StopError, Stopping,
    may_be_command,
};
use turnstream_agent_process::{Output, ProcessError, ProcessSpec};
use turnstream_model::Chain;
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;
use turnstream_provider::Asker;
use turnstream_redact::Rules;

/// What the agent is called in errors.
const KIND: &str = "the ACP agent";
/// How often a start is tried that ends before there is a session.
const START_TRIES: u32 = 3;
/// The pause before the second try. Each further one doubles it.
const START_PAUSE: Duration = Duration::from_millis(250);

/// The configuration of an ACP agent.
#[derive(Clone, Debug)]
pub struct AcpConfig {
    /// The program; a bare name is searched on `PATH`.
    pub command: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// What is known of the program.
    pub known: &'static KnownAgent,
    /// Whether the configuration names it.
    pub origin: Origin,
    /// Its environment, besides PATH, HOME, LANG and TMPDIR of this process.
    pub env: Vec<(OsString, OsString)>,
    /// A directory for the records of its processes and for what they print.
    pub state: PathBuf,
    /// The redaction rules for what its processes print to standard error.
    pub secrets: Rules,
    /// How long a start may take.
    pub connect: Duration,
    /// The route by which it asks models. `None`: its own way.
    pub route: Option<RouteForAgent>,
}

/// The agent.
pub struct Acp(Arc<Shared>);

/// What all links of the agent use.
pub(super) struct Shared {
    pub(super) name: String,
    config: AcpConfig,
    counters: Counters,
    /// Set when the processes of an earlier gateway were ended.
    swept: OnceCell<()>,
    seen: Mutex<Seen>,
    program: Program,
}

/// What the last process has said of itself.
#[derive(Clone, Default)]
struct Seen {
    /// `None` until one was started.
    capabilities: Option<Capabilities>,
    models: Vec<Choice>,
    modes: Vec<Choice>,
}

impl Acp {
    /// The agent of that name. Nothing is started yet.
    pub fn new(name: impl Into<String>, config: AcpConfig) -> Self {
        let program = Program::new(config.known, &config.command, config.origin, &config.env)
            .with_route(config.route.is_some());
        Self(Arc::new(Shared {
            name: name.into(),
            config,
            counters: Counters::default(),
            swept: OnceCell::new(),
            seen: Mutex::default(),
            program,
        }))
    }
}

// === impl Shared ===

impl Shared {
    fn unavailable(&self, problem: impl AgentError) -> ConnectError {
        ConnectError::Unavailable { agent: self.name.clone(), problem: Arc::new(problem) }
    }

    fn connect_error(&self, start: &Start, error: StartError) -> ConnectError {
        match &error {
            StartError::Refused(Refusal::Forgotten { .. }) => {
                let native_id = start.native_id.clone().unwrap_or_default();
                ConnectError::Forgotten { agent: self.name.clone(), native_id }
            }
            StartError::Refused(Refusal::Auth(_)) => {
                let problem = Arc::new(error);
                ConnectError::Unauthorized { agent: self.name.clone(), problem, status: None }
            }
            StartError::Refused(Refusal::Protocol(_) | Refusal::Error { .. })
            | StartError::Process(_)
            | StartError::Ended { .. }
            | StartError::Silent { .. }
            | StartError::Pipes(_)
            | StartError::Note(_) => self.unavailable(error),
        }
    }

    fn files(&self, session: &SessionId) -> SessionFiles {
        SessionFiles::new(&self.config.state, session)
    }

    async fn link(self: Arc<Self>, mut start: Start) -> Result<Link, ConnectError> {
        let state = &self.config.state;
        let made = std::fs::create_dir_all(state);
        made.map_err(|error| {
            self.unavailable(StartError::from(ProcessError::Io { what: "make", path: state.clone(), error }))
        })?;
        self.sweep().await;
        let files = self.files(&start.session);
        self.choose_session(&mut start, &files)?;
        let running = match &start.open_work {
            // The next prompt starts a process.
            Some(_) => None,
            None => {
                let ended = process::end_leftover(&files.record).await;
                ended.map_err(|error| self.unavailable(StartError::from(error)))?;
                let started = self.start_process(&start, &files, start.until).await;
                Some(started.map_err(|error| self.connect_error(&start, error))?)
            }
        };
        let adapter = Adapter { shared: self, start, files, running, clock: Clock::new() };
        Ok(Link::spawn(move |commands, observer| adapter.run(commands, observer)))
    }

    /// Which session of the agent goes on. One that was never prompted need not be stored by the agent, so it
    /// is made anew. The log may lack an id that was noted, if the gateway was killed.
    fn choose_session(&self, start: &mut Start, files: &SessionFiles) -> Result<(), ConnectError> {
        let note = files.note().map_err(|error| self.unavailable(StartError::Note(error)))?;
        if start.open_work.is_some() && start.native_id.is_none() {
            start.native_id = Some(note.native_id.clone()).filter(|id| !id.is_empty());
        }
        let was_prompted = match note.native_id.as_str() {
            "" => !start.known.prompts.is_empty(),
            noted => start.native_id.as_deref() == Some(noted),
        };
        if !was_prompted {
            start.native_id = None;
        }
        Ok(())
    }

    /// Ends what an earlier gateway has left behind, once. Without its pipes nothing of it can be used.
    async fn sweep(&self) {
        let sweep = || async {
            if let Err(error) = process::end_leftovers(&self.config.state).await {
                let error = Chain(&error);
                tracing::warn!(agent = %self.name, %error, "processes of an earlier gateway cannot be ended");
            }
        };
        self.swept.get_or_init(sweep).await;
    }

    /// Starts a process with a session. A start that ends early is tried again.
    pub(super) async fn start_process(
        &self,
        start: &Start,
        files: &SessionFiles,
        until: Instant,
    ) -> Result<Running, StartError> {
        let mut pause = START_PAUSE;
        let mut attempt = 1;
        let mut native_id = start.native_id.clone();
        loop {
            match self.start_once(start, native_id.clone(), files, until).await {
                Ok(running) => return Ok(running),
                // An agent that was killed in its first turn may have stored nothing.
                Err(StartError::Refused(Refusal::Forgotten { .. }))
                    if native_id.is_some() && files.note().is_ok_and(|note| !note.answered) =>
                {
                    tracing::info!(agent = %self.name, "the agent has nothing of the session, which begins anew");
                    native_id = None;
                    continue;
                }
                Err(error) => {
                    self.counters.count(Counted::ServerExit);
                    if attempt == START_TRIES || !error.may_pass() || Instant::now() + pause >= until {
                        return Err(error);
                    }
                    tracing::info!(agent = %self.name, attempt, reason = %error.for_log(), "the agent is started again");
                }
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
            attempt += 1;
        }
    }

    /// Until when a process that is started now must be ready.
    pub(super) fn start_deadline(&self) -> Instant {
        Instant::now() + self.config.connect
    }

    async fn start_once(
        &self,
        start: &Start,
        native_id: Option<String>,
        files: &SessionFiles,
        until: Instant,
    ) -> Result<Running, StartError> {
        let AcpConfig { command, arguments, env, .. } = &self.config;
        let mut of_process = env.clone();
        if let Some(route) = &self.config.route {
            route.point(&mut of_process, &Asker::Session(start.session.to_string()));
        }
        let missing = || ProcessError::Command {
            agent: KIND,
            command: command.clone(),
            error: std::io::ErrorKind::NotFound.into(),
        };
        let spec = ProcessSpec {
            kind: KIND,
            name: self.name.clone(),
            command: self.program.path().ok_or_else(missing)?,
            cwd: start.cwd.path().to_owned(),
            env: of_process,
            exit_status: None,
        };
        let settings = ConversationSettings {
            cwd: start.cwd.path().display().to_string(),
            native_id: native_id.clone(),
            model: start.model.clone(),
            mode: start.mode.clone(),
            mcp: start.mcp.iter().map(McpServer::to_json).collect(),
            epoch: format!("{:x}", Time::now().0),
            known: start.known.parts.clone(),
        };
        let mut conversation = Conversation::new(settings);
        let output = Output::new(&files.output, self.config.secrets.clone());
        self.counters.count(Counted::ServerStart);
        let process = process::start(&spec, arguments, files, output, &mut conversation, until).await?;
        let resumes = native_id.is_some();
        tracing::info!(agent = %self.name, pid = process.pid(), resumes, "the agent started");
        self.note_seen(&conversation);
        let calls = Calls::new(start.cwd.clone(), env.clone(), process.mark());
        Ok(Running { process, conversation, calls })
    }

    fn note_seen(&self, conversation: &Conversation) {
        *self.seen() = Seen {
            capabilities: Some(conversation.capabilities().clone()),
            models: conversation.models().to_vec(),
            modes: conversation.modes().to_vec(),
        };
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // It is whole also after a panic of its holder.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn describe(&self) -> Description {
        let AcpConfig { known, arguments, .. } = &self.config;
        let about = match arguments.is_empty() {
            true => format!("{}, one process per session", known.title),
            false => format!("{} (`{}`), one process per session", known.title, arguments.join(" ")),
        };
        let mut description = self.program.describe(Description::new(known.kind, about));
        let seen = self.seen().clone();
        let version = seen.capabilities.and_then(|capabilities| capabilities.version);
        // A program that was never asked for its version tells it with its first session.
        description.notice = version.as_deref().and_then(|version| self.program.notice(version));
        description.version = version;
        description.models = seen.models;
        description.modes = seen.modes;
        description
    }

    /// Ends a process, and everything it has started.
    pub(super) async fn ended(&self, process: Process) {
        self.counters.count(Counted::ServerExit);
        let pid = process.pid();
        match process.stop().await {
            Ok(()) => tracing::debug!(agent = %self.name, pid, "the agent ended"),
            Err(error) => {
                tracing::error!(agent = %self.name, pid, error = %Chain(&error), "the agent cannot be ended");
            }
        }
    }
}

// === impl Acp ===

impl Agent for Acp {
    fn describe(&self) -> Description {
        self.0.describe()
    }

    fn probe(&self) -> Probing<'_> {
        // Many ACP agents have no `--version`, and would wait for a client instead.
        Box::pin(std::future::ready(self.0.describe()))
    }

    /// Before the first session of an agent it is not known what it takes: its prompt is refused then.
    fn check_block(&self, block: &Value) -> Result<(), RefusedBlock> {
        let everything = Capabilities { image: true, audio: true, embedded: true, ..Capabilities::default() };
        self.0.seen().capabilities.as_ref().unwrap_or(&everything).check(block)
    }

    fn takes_context(&self, content: &[Value]) -> bool {
        !may_be_command(content)
    }

    fn check_mcp(&self, servers: &[McpServer]) -> Result<(), RefusedMcp> {
        let seen = self.0.seen();
        let Some(capabilities) = &seen.capabilities else { return Ok(()) };
        for server in servers {
            let (kind, takes) = match server.transport {
                McpTransport::Stdio { .. } => continue,
                McpTransport::Http { .. } => ("http", capabilities.mcp_http),
                McpTransport::Sse { .. } => ("sse", capabilities.mcp_sse),
            };
            if !takes {
                let problem = format!("it takes no MCP servers of the type {kind:?}; use a command (stdio)");
                return Err(RefusedMcp(problem));
            }
        }
        Ok(())
    }

    fn connect(&self, start: Start) -> Connecting<'_> {
        let span = tracing::info_span!("link", agent = %self.0.name, session = %start.session);
        Box::pin(Arc::clone(&self.0).link(start).instrument(span))
    }

    /// Each agent has its own modes of asking, and all of them ask by default.
    fn leaves_permissions_to_gateway(&self) -> bool {
        true
    }

    fn process_usage(&self) -> Option<ProcessUsage> {
        Some(ProcessUsage::of(process::process_ids(&self.0.config.state)))
    }

    fn counts(&self) -> Option<Counts> {
        Some(self.0.counters.counts())
    }

    fn forget(&self, session: &SessionId) -> Stopping<'_> {
        let files = self.0.files(session);
        Box::pin(async move {
            process::end_leftover(&files.record).await.map_err(StopError::new)?;
            files.remove().map_err(StopError::new)
        })
    }

    fn stop(&self) -> Stopping<'_> {
        self.0.program.stop();
        Box::pin(async move { process::end_leftovers(&self.0.config.state).await.map_err(StopError::new) })
    }
}
