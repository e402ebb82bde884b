//! Codex as a configured agent: one app-server per session.

use super::adapter::{self, Adapter};
use super::conversation::{Conversation, ConversationSettings};
use super::files::SessionFiles;
use super::mcp;
use super::prompt_content;
use super::recorded_usage::RecordedUsage;
use super::server::{self, Server, StartError, Which};
use super::socket::Socket;
use crate::program::{CODEX, Origin, Program, RouteForAgent};
use serde_json::Value;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, OnceCell};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;
use turnstream_adapter::{
    Agent, AgentError, Choice, Clock, ConnectError, Connecting, Counted, Counters, Counts, Description, Link,
    McpServer, Probing, ProcessUsage, RefusedBlock, RefusedMcp, Remembering, Start, StopError, Stopping,
};
use turnstream_agent_process::{Output, ProcessError, ProcessSpec};
use turnstream_model::Chain;
use turnstream_model::id::SessionId;
use turnstream_provider::Asker;
use turnstream_redact::Rules;

/// How often a start is tried that ends before the first answer.
const START_TRIES: u32 = 3;
/// The pause before the second try. Each further one doubles it.
const START_PAUSE: Duration = Duration::from_millis(250);

/// What the list of agents says about it.
const ABOUT: &str = "Codex, one app-server per session";

/// One lock for each home of Codex. Servers that start at the same time in a new home exit with "failed to
/// initialize sqlite state runtime", so they start one after another.
static STARTS: LazyLock<Mutex<HashMap<PathBuf, Arc<AsyncMutex<()>>>>> = LazyLock::new(Mutex::default);

/// The configuration of Codex.
#[derive(Clone, Debug)]
pub struct CodexConfig {
    /// The program; a bare name is searched on `PATH`.
    pub command: PathBuf,
    /// Whether the configuration names it.
    pub origin: Origin,
    /// Its environment, besides PATH, HOME, LANG and TMPDIR of this process.
    pub env: Vec<(OsString, OsString)>,
    /// A directory for the records of its processes and for what they print.
    pub state: PathBuf,
    /// The redaction rules for what its processes print.
    pub secrets: Rules,
    /// The route by which it asks models. `None`: its own way.
    pub route: Option<RouteForAgent>,
}

/// The agent.
pub struct Codex(Arc<Shared>);

/// What all links of the agent use.
pub(super) struct Shared {
    pub(super) name: String,
    config: CodexConfig,
    pub(super) counters: Counters,
    /// Set when the orphans of an earlier gateway were ended. Every link waits for that: it would remove the
    /// record of a new process.
    swept: OnceCell<()>,
    /// The models that the last server offered.
    models: Mutex<Vec<Choice>>,
    program: Program,
}

/// A server, a connection to it, and the conversation with its open thread.
struct Opened {
    server: Server,
    socket: Socket,
    conversation: Conversation,
}

impl Codex {
    /// The agent of that name. Nothing is started yet.
    pub fn new(name: impl Into<String>, config: CodexConfig) -> Self {
        let program = Program::new(&CODEX, &config.command, config.origin, &config.env)
            .with_route(config.route.is_some());
        Self(Arc::new(Shared {
            name: name.into(),
            config,
            counters: Counters::default(),
            swept: OnceCell::new(),
            models: Mutex::default(),
            program,
        }))
    }
}

// === impl Shared ===

impl Shared {
    fn unavailable(&self, problem: impl AgentError) -> ConnectError {
        ConnectError::Unavailable { agent: self.name.clone(), problem: Arc::new(problem) }
    }

    fn files(&self, session: &SessionId) -> SessionFiles {
        SessionFiles::new(&self.config.state, session)
    }

    fn output(&self, files: &SessionFiles) -> Output {
        Output::new(&files.output, self.config.secrets.clone())
    }

    async fn link(self: Arc<Self>, start: Start) -> Result<Link, ConnectError> {
        let state = &self.config.state;
        let io = |error| StartError::from(ProcessError::Io { what: "make", path: state.clone(), error });
        std::fs::create_dir_all(state).map_err(|error| self.unavailable(io(error)))?;
        self.sweep().await;
        let files = self.files(&start.session);
        let note = files.read_note().map_err(|error| self.unavailable(StartError::Note(error)))?;
        // The log of open work may lack the thread, if the gateway was killed right after the first prompt.
        let noted = start.open_work.as_ref().map(|_| note.thread).filter(|thread| !thread.is_empty());
        let thread = start.native_id.clone().or(noted);
        if let Some(native_id) = thread.clone().filter(|thread| files.has_lost(thread)) {
            self.end_leftover(&files).await?;
            return Err(ConnectError::Forgotten { agent: self.name.clone(), native_id });
        }
        let clock = Clock::new();
        let opened = match self.adopt(&start, thread.as_deref(), &files, clock).await? {
            Some(opened) => opened,
            None => {
                let opened = self.start_server(&start, thread.as_deref(), &files, clock).await;
                opened.map_err(|error| self.unavailable(error))?
            }
        };
        let Opened { server, socket, conversation } = opened;
        let thread = conversation.thread().0.to_owned();
        let noted = files.note(|note| {
            if note.thread != thread {
                (note.thread, note.file) = (thread, None);
            }
        });
        noted.map_err(|error| self.unavailable(StartError::Note(error)))?;
        let server = Some(server);
        let adapter = Adapter { shared: self, files, conversation, server, socket, clock };
        Ok(Link::spawn(move |commands, observer| adapter.run(commands, observer)))
    }

    /// Ends what an earlier gateway has left behind, once.
    async fn sweep(&self) {
        let sweep = || async {
            if let Err(error) = server::end_of_agent(&self.config.state, Which::Orphans).await {
                let error = Chain(&error);
                tracing::warn!(agent = %self.name, %error, "orphans of Codex cannot be ended");
            }
        };
        self.swept.get_or_init(sweep).await;
    }

    async fn end_leftover(&self, files: &SessionFiles) -> Result<(), ConnectError> {
        let ended = server::end_of_session(files).await;
        ended.map_err(|error| self.unavailable(StartError::from(error)))
    }

    /// The server that an earlier gateway has left, if the session has open work. One that does not answer,
    /// or has nothing to do, is ended.
    async fn adopt(
        &self,
        start: &Start,
        thread: Option<&str>,
        files: &SessionFiles,
        clock: Clock,
    ) -> Result<Option<Opened>, ConnectError> {
        let mut refused = false;
        if let (Some(_), Some(thread)) = (&start.open_work, thread) {
            let adopted = Server::adopt(files, self.output(files));
            let server = adopted.map_err(|error| self.unavailable(StartError::from(error)))?;
            if let Some(server) = server {
                let pid = server.pid();
                match self.open(server, start, Some(thread), files, clock, true).await {
                    Ok(opened) => {
                        tracing::info!(agent = %self.name, pid, "adopted a running Codex");
                        return Ok(Some(opened));
                    }
                    Err(error) => {
                        let reason = error.for_log();
                        tracing::warn!(agent = %self.name, pid, %reason, "a leftover Codex does not answer");
                        refused = matches!(error, StartError::Opening(_));
                    }
                }
            }
        }
        self.end_leftover(files).await?;
        if refused {
            // No server has the last prompt any more. If one took it, the file of the thread has it.
            let noted = files.note(|note| note.prompt.clear());
            noted.map_err(|error| self.unavailable(StartError::Note(error)))?;
        }
        Ok(None)
    }

    /// Starts a server for a session. A start that ends before its first answer is tried again.
    async fn start_server(
        &self,
        start: &Start,
        thread: Option<&str>,
        files: &SessionFiles,
        clock: Clock,
    ) -> Result<Opened, StartError> {
        let mut pause = START_PAUSE;
        let mut attempt = 1;
        loop {
            match self.start_once(start, thread, files, clock).await {
                Ok(opened) => return Ok(opened),
                Err(error) => {
                    self.counters.count(Counted::ServerExit);
                    if attempt == START_TRIES || !error.may_pass() || Instant::now() + pause >= start.until {
                        return Err(error);
                    }
                    tracing::info!(agent = %self.name, attempt, reason = %error.for_log(), "Codex is started again");
                }
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
            attempt += 1;
        }
    }

    async fn start_once(
        &self,
        start: &Start,
        thread: Option<&str>,
        files: &SessionFiles,
        clock: Clock,
    ) -> Result<Opened, StartError> {
        let command = self.program.path().ok_or_else(|| self.not_installed())?;
        let spec = ProcessSpec {
            kind: "Codex",
            name: self.name.clone(),
            command,
            cwd: start.cwd.path().to_owned(),
            env: self.config.env.clone(),
            exit_status: None,
        };
        let lock = start_lock(&self.config.env);
        let Ok(started_alone) = timeout_at(start.until, lock.lock()).await else {
            return Err(StartError::Broken("other sessions of Codex are being started".to_owned()));
        };
        self.counters.count(Counted::ServerStart);
        let arguments = self.config.route.as_ref().map(RouteForAgent::process_arguments).unwrap_or_default();
        let server = Server::start(&spec, &arguments, files, self.output(files), start.until).await?;
        // A server that listens has its state. The opening of a long thread takes longer than its start.
        drop(started_alone);
        let pid = server.pid();
        let opened = self.open(server, start, thread, files, clock, false).await?;
        tracing::info!(agent = %self.name, pid, resumes = thread.is_some(), "Codex started");
        Ok(opened)
    }

    /// Connects to a server, and opens the thread.
    async fn open(
        &self,
        server: Server,
        start: &Start,
        thread: Option<&str>,
        files: &SessionFiles,
        clock: Clock,
        adopted: bool,
    ) -> Result<Opened, StartError> {
        let silent = |_| StartError::Broken("it does not answer".to_owned());
        let mut socket = timeout_at(start.until, server.connect()).await.map_err(silent)??;
        let cwd = start.cwd.path().display().to_string();
        let route = self.config.route.as_ref();
        let model = start.model.clone().or_else(|| route.and_then(RouteForAgent::model));
        let (mode, mcp) = (start.mode.clone(), start.mcp.clone());
        let settings = ConversationSettings { cwd, model, mode, mcp };
        let mut conversation = Conversation::new(settings);
        if let Some(route) = route {
            conversation.use_route(route.thread_members(&Asker::Session(start.session.to_string())));
        }
        // A thread without a turn is nowhere but in its server, which does not resume it either.
        let had_file = files.read_note().is_ok_and(|note| note.file.is_some());
        // A prompt that an adopted server has just taken may still make it resumable.
        conversation.begin_anew_if_refused(!had_file && !adopted);
        let resume = thread.map(str::to_owned);
        match start.open_work.clone() {
            Some(open_work) => conversation.recover(resume, open_work, adopted, clock.now()),
            None => conversation.open(resume, clock.now()),
        }
        adapter::open(&mut conversation, &mut socket, clock, start.until).await?;
        if let Some(file) = conversation.thread().1.filter(|_| start.open_work.is_some()) {
            // From now on, Codex reports the calls that end.
            let read = RecordedUsage::read(Path::new(file));
            conversation.recorded(read.unwrap_or_else(|error| {
                tracing::debug!(%error, "the file of a thread cannot be read; tokens may be missing");
                RecordedUsage::default()
            }));
        }
        Ok(Opened { server, socket, conversation })
    }

    fn not_installed(&self) -> StartError {
        let (agent, command) = ("Codex", self.config.command.clone());
        ProcessError::Command { agent, command, error: std::io::ErrorKind::NotFound.into() }.into()
    }

    /// Keeps the models that a server offers.
    pub(super) fn note_models(&self, models: &[Choice]) {
        let mut offered = self.offered();
        if !models.is_empty() && *offered != models {
            *offered = models.to_vec();
        }
    }

    fn offered(&self) -> MutexGuard<'_, Vec<Choice>> {
        // The list is whole also after a panic of its holder.
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the models that a server has offered.
    fn with_models(&self, mut description: Description) -> Description {
        let offered = self.offered();
        if !offered.is_empty() {
            description.models.clone_from(&offered);
        }
        description
    }

    /// Ends a server, and everything it has started.
    pub(super) async fn ended(&self, server: Server) {
        self.counters.count(Counted::ServerExit);
        let pid = server.pid();
        match server.stop().await {
            Ok(()) => tracing::debug!(agent = %self.name, pid, "Codex ended"),
            Err(error) => {
                tracing::error!(agent = %self.name, pid, error = %Chain(&error), "Codex cannot be ended");
            }
        }
    }
}

/// The lock for the home that a server with these variables uses.
fn start_lock(env: &[(OsString, OsString)]) -> Arc<AsyncMutex<()>> {
    let given =
        |name: &str| env.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.clone());
    let home = || given("HOME").or_else(|| std::env::var_os("HOME")).unwrap_or_default();
    let home = given("CODEX_HOME").map(PathBuf::from).unwrap_or_else(|| PathBuf::from(home()).join(".codex"));
    // The map is whole also after a panic of its holder.
    let mut locks = STARTS.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(locks.entry(home).or_default())
}

// === impl Codex ===

impl Agent for Codex {
    fn describe(&self) -> Description {
        self.0.with_models(self.0.program.describe(Description::new(CODEX.kind, ABOUT)))
    }

    fn probe(&self) -> Probing<'_> {
        Box::pin(async {
            self.0.with_models(self.0.program.probe(Description::new(CODEX.kind, ABOUT)).await)
        })
    }

    fn check_block(&self, block: &Value) -> Result<(), RefusedBlock> {
        prompt_content::check(block)
    }

    fn check_mcp(&self, servers: &[McpServer]) -> Result<(), RefusedMcp> {
        mcp::check(servers)
    }

    fn connect(&self, start: Start) -> Connecting<'_> {
        let span = tracing::info_span!("link", agent = %self.0.name, session = %start.session);
        Box::pin(Arc::clone(&self.0).link(start).instrument(span))
    }

    /// Its modes say what it asks about. What it asks is answered by the rule of the session.
    fn leaves_permissions_to_gateway(&self) -> bool {
        true
    }

    fn remembers<'a>(&'a self, session: &'a SessionId, native_id: &'a str, cwd: &'a Path) -> Remembering<'a> {
        // The file of a thread is found wherever the session works.
        let _cwd = cwd;
        let lost = self.0.files(session).has_lost(native_id);
        Box::pin(std::future::ready(!lost))
    }

    fn process_usage(&self) -> Option<ProcessUsage> {
        Some(ProcessUsage::of(server::process_ids(&self.0.config.state)))
    }

    fn counts(&self) -> Option<Counts> {
        Some(self.0.counters.counts())
    }

    fn forget(&self, session: &SessionId) -> Stopping<'_> {
        let files = self.0.files(session);
        Box::pin(async move {
            server::end_of_session(&files).await.map_err(StopError::new)?;
            files.remove().map_err(StopError::new)
        })
    }

    fn stop(&self) -> Stopping<'_> {
        self.0.program.stop();
        Box::pin(async move {
            server::end_of_agent(&self.0.config.state, Which::All).await.map_err(StopError::new)
        })
    }
}
