//! Claude Code as a configured agent: one process per session.

use super::adapter::Adapter;
use super::conversation::{Conversation, ConversationSettings};
use super::files::{ClaudeHome, SessionFiles, remove_mcp};
use super::ids::new_uuid;
use super::leftover::{self, Which};
use super::mcp;
use super::process::{self, Running, StartError};
use super::prompt_content;
use crate::program::{CLAUDE, Origin, Program, RouteForAgent};
use serde_json::Value;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tracing::Instrument;
use turnstream_adapter::{
    Agent, AgentError, Choice, Clock, ConnectError, Connecting, Counted, Counters, Counts, Description, Link,
    McpServer, Probing, ProcessUsage, RefusedBlock, RefusedMcp, Remembering, Start, StopError, Stopping,
    may_be_command,
};
use turnstream_agent_process::{Output, ProcessError, ProcessSpec};
use turnstream_model::Chain;
use turnstream_model::id::{PromptId, SessionId};
use turnstream_model::time::Time;
use turnstream_provider::Asker;
use turnstream_redact::Rules;

/// The arguments of every process: lines of JSON in both directions, with everything that happens.
const ARGUMENTS: [&str; 10] = [
    "-p",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",
    "--include-partial-messages",
    "--replay-user-messages",
    "--permission-prompt-tool",
    "stdio",
];
/// The variable that makes it report when it works and when it is idle.
const STATE_EVENTS: &str = "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS";
/// How often a start is tried that ends before the first answer.
const START_TRIES: u32 = 3;
/// The pause before the second try. Each further one doubles it.
const START_PAUSE: Duration = Duration::from_millis(250);

/// What the list of agents says about it.
const ABOUT: &str = "Claude Code, one process per session";

/// The commands that every version has. A process offers more.
const COMMANDS: [&str; 2] = ["compact", "init"];

/// The configuration of Claude Code.
#[derive(Clone, Debug)]
pub struct ClaudeConfig {
    /// The program; a bare name is searched on `PATH`.
    pub command: PathBuf,
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
pub struct Claude(Arc<Shared>);

/// What a process offers when it starts.
#[derive(Default)]
struct Offered {
    models: Vec<Choice>,
    commands: Vec<Choice>,
}

/// What all links of the agent use.
pub(super) struct Shared {
    pub(super) name: String,
    config: ClaudeConfig,
    pub(super) home: ClaudeHome,
    counters: Counters,
    /// Set when the orphans of an earlier gateway were ended. Every link waits for that: it would remove the
    /// record of a new process.
    swept: OnceCell<()>,
    /// What the last process offered.
    offered: Mutex<Offered>,
    program: Program,
}

impl Claude {
    /// The agent of that name. Nothing is started yet.
    pub fn new(name: impl Into<String>, config: ClaudeConfig) -> Self {
        let program = Program::new(&CLAUDE, &config.command, config.origin, &config.env)
            .with_route(config.route.is_some());
        Self(Arc::new(Shared {
            name: name.into(),
            home: ClaudeHome::of(&config.env),
            config,
            counters: Counters::default(),
            swept: OnceCell::new(),
            offered: Mutex::default(),
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

    async fn link(self: Arc<Self>, start: Start) -> Result<Link, ConnectError> {
        self.home.check().map_err(|error| self.unavailable(error))?;
        let state = &self.config.state;
        let made = std::fs::create_dir_all(state);
        made.map_err(|error| self.unavailable(NoState { path: state.clone(), error }))?;
        self.sweep().await;
        let files = self.files(&start.session);
        // The log of open work may lack the id, if the gateway was killed right after the first prompt.
        let noted = match &start.open_work {
            Some(_) => files.noted_native_id().map_err(|error| self.unavailable(StartError::Note(error)))?,
            None => None,
        };
        let fresh = || new_uuid(&[start.session.as_str()], Time::now());
        let mut native_id = start.native_id.clone().or(noted).unwrap_or_else(fresh);
        let running = match &start.open_work {
            // Its process may still work. The adapter waits for it, and starts another for the next prompt.
            Some(_) => None,
            None => {
                let ended = leftover::end_of_session(&files).await;
                ended.map_err(|error| self.unavailable(StartError::from(error)))?;
                if self.has_forgotten(&files, &native_id) {
                    return Err(ConnectError::Forgotten { agent: self.name.clone(), native_id });
                }
                native_id = self.startable_id(&start.session, native_id);
                let started = self.start_process(&start, &native_id, &files, start.until).await;
                Some(started.map_err(|error| self.unavailable(error))?)
            }
        };
        let settings = ConversationSettings { native_id: native_id.clone() };
        let mut adapter = Adapter {
            conversation: Conversation::new(settings),
            is_used: files.is_used(&native_id),
            clock: Clock::new(),
            native_id,
            shared: self,
            start,
            files,
            running,
        };
        if adapter.running.is_some() {
            adapter.count_from_stored_totals().await;
        }
        Ok(Link::spawn(move |commands, observer| adapter.run(commands, observer)))
    }

    /// Ends what an earlier gateway has left behind, once.
    async fn sweep(&self) {
        let sweep = || async {
            if let Err(error) = leftover::end_of_agent(&self.config.state, Which::Orphans).await {
                let error = Chain(&error);
                tracing::warn!(agent = %self.name, %error, "orphans of Claude Code cannot be ended");
            }
        };
        self.swept.get_or_init(sweep).await;
    }

    /// Whether Claude Code had a conversation under this id, and has lost its files.
    pub(super) fn has_forgotten(&self, files: &SessionFiles, native_id: &str) -> bool {
        files.is_used(native_id) && self.home.conversation(native_id).is_none()
    }

    /// An id under which a process can be started: this one, or a new one if nothing was said under it.
    pub(super) fn startable_id(&self, session: &SessionId, native_id: String) -> String {
        match self.home.can_start(&native_id) {
            true => native_id,
            false => new_uuid(&[session.as_str()], Time::now()),
        }
    }

    /// Starts a process for a session. A start that ends before its first answer is tried again.
    pub(super) async fn start_process(
        &self,
        start: &Start,
        native_id: &str,
        files: &SessionFiles,
        until: Instant,
    ) -> Result<Running, StartError> {
        let mut pause = START_PAUSE;
        let mut attempt = 1;
        loop {
            match self.start_once(start, native_id, files, until).await {
                Ok(running) => return Ok(running),
                Err(error) => {
                    self.counters.count(Counted::ServerExit);
                    if attempt == START_TRIES || !error.may_pass() || Instant::now() + pause >= until {
                        return Err(error);
                    }
                    tracing::info!(agent = %self.name, attempt, reason = %error.for_log(), "Claude Code is started again");
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
        native_id: &str,
        files: &SessionFiles,
        until: Instant,
    ) -> Result<Running, StartError> {
        let command = self.program.path().ok_or_else(|| self.not_installed())?;
        files.note_start(native_id).and_then(|()| files.remove_exit()).map_err(StartError::Note)?;
        let mut arguments: Vec<String> = ARGUMENTS.map(str::to_owned).into();
        let resumes = self.home.conversation(native_id).is_some();
        arguments.push(if resumes { "--resume" } else { "--session-id" }.to_owned());
        arguments.push(native_id.to_owned());
        for (option, value) in [("--model", &start.model), ("--permission-mode", &start.mode)] {
            if let Some(value) = value {
                arguments.extend([option.to_owned(), value.clone()]);
            }
        }
        if !start.mcp.is_empty() {
            files.write_mcp(&mcp::config(&start.mcp)).map_err(StartError::Mcp)?;
            arguments.extend(["--mcp-config".to_owned(), files.mcp.display().to_string()]);
        }
        let mut env = self.config.env.clone();
        env.push((STATE_EVENTS.into(), "1".into()));
        if let Some(route) = &self.config.route {
            route.point(&mut env, &Asker::Session(start.session.to_string()));
        }
        let spec = ProcessSpec {
            kind: "Claude Code",
            name: self.name.clone(),
            command,
            cwd: start.cwd.path().to_owned(),
            env,
            exit_status: Some(files.exit.clone()),
        };
        let output = Output::new(&files.output, self.config.secrets.clone());
        self.counters.count(Counted::ServerStart);
        let started = process::start(&spec, &arguments, native_id, files, until, output).await;
        let (running, greeting) = started.inspect_err(|_| remove_mcp(&files.record))?;
        tracing::info!(agent = %self.name, pid = running.pid(), resumes, "Claude Code started");
        self.note_offered(&greeting);
        Ok(running)
    }

    fn not_installed(&self) -> StartError {
        let (agent, command) = ("Claude Code", self.config.command.clone());
        ProcessError::Command { agent, command, error: io::ErrorKind::NotFound.into() }.into()
    }

    /// Reads files of Claude Code on a thread for blocking work: those of a long session are large.
    pub(super) async fn read_files<T: Send + 'static>(
        &self,
        read: impl FnOnce(&ClaudeHome) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let home = self.home.clone();
        let read = tokio::task::spawn_blocking(move || read(&home)).await;
        read.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    fn note_offered(&self, greeting: &Value) {
        let choices = |list: &str, id: &str| {
            let offered = greeting[list].as_array().into_iter().flatten();
            let choice = |offer: &Value| {
                let about = offer["description"].as_str().map(str::to_owned);
                Some(Choice { id: offer[id].as_str()?.to_owned(), about })
            };
            offered.filter_map(choice).collect()
        };
        *self.offered() =
            Offered { models: choices("models", "value"), commands: choices("commands", "name") };
    }

    fn offered(&self) -> MutexGuard<'_, Offered> {
        // The lists are whole also after a panic of their holder.
        self.offered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what a process has offered.
    fn with_offered(&self, mut description: Description) -> Description {
        let Offered { models, commands } = &*self.offered();
        if !models.is_empty() {
            description.models.clone_from(models);
        }
        description.commands = match commands.is_empty() {
            true => COMMANDS.map(Choice::new).to_vec(),
            false => commands.clone(),
        };
        description
    }

    /// Ends the process of a session, and everything it has started.
    pub(super) async fn ended(&self, running: Running, files: &SessionFiles) {
        self.counters.count(Counted::ServerExit);
        let pid = running.pid();
        remove_mcp(&files.record);
        match running.stop().await {
            Ok(()) => tracing::debug!(agent = %self.name, pid, "Claude Code ended"),
            Err(error) => {
                tracing::error!(agent = %self.name, pid, error = %Chain(&error), "Claude Code cannot be ended");
            }
        }
    }
}

/// The state directory cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make {}: {error}", path.display())]
struct NoState {
    path: PathBuf,
    #[source]
    error: io::Error,
}

impl AgentError for NoState {
    fn for_log(&self) -> String {
        self.to_string()
    }
}

// === impl Claude ===

impl Agent for Claude {
    fn describe(&self) -> Description {
        self.0.with_offered(self.0.program.describe(Description::new(CLAUDE.kind, ABOUT)))
    }

    fn probe(&self) -> Probing<'_> {
        Box::pin(async {
            self.0.with_offered(self.0.program.probe(Description::new(CLAUDE.kind, ABOUT)).await)
        })
    }

    fn check_block(&self, block: &Value) -> Result<(), RefusedBlock> {
        prompt_content::check(block)
    }

    fn connect(&self, start: Start) -> Connecting<'_> {
        let span = tracing::info_span!("link", agent = %self.0.name, session = %start.session);
        Box::pin(Arc::clone(&self.0).link(start).instrument(span))
    }

    fn name_prompt(&self, session: &SessionId, prompt: &PromptId) -> String {
        new_uuid(&[session.as_str(), prompt.as_str()], Time::now())
    }

    /// Its own mode that allows everything is refused to root.
    fn leaves_permissions_to_gateway(&self) -> bool {
        true
    }

    /// A recovery may wait long for the process of an earlier gateway.
    fn takes_cancel_in_recovery(&self) -> bool {
        true
    }

    fn takes_context(&self, content: &[Value]) -> bool {
        !may_be_command(content)
    }

    fn check_mcp(&self, servers: &[McpServer]) -> Result<(), RefusedMcp> {
        // Claude Code has all three transports.
        let _servers = servers;
        Ok(())
    }

    fn remembers<'a>(&'a self, session: &'a SessionId, native_id: &'a str, cwd: &'a Path) -> Remembering<'a> {
        // The transcript is found by its id, wherever the session works.
        let _cwd = cwd;
        let forgot = self.0.has_forgotten(&self.0.files(session), native_id);
        Box::pin(std::future::ready(!forgot))
    }

    fn process_usage(&self) -> Option<ProcessUsage> {
        Some(ProcessUsage::of(leftover::process_ids(&self.0.config.state)))
    }

    fn counts(&self) -> Option<Counts> {
        Some(self.0.counters.counts())
    }

    fn forget(&self, session: &SessionId) -> Stopping<'_> {
        let files = self.0.files(session);
        Box::pin(async move {
            leftover::end_of_session(&files).await.map_err(StopError::new)?;
            files.remove().map_err(StopError::new)
        })
    }

    fn stop(&self) -> Stopping<'_> {
        self.0.program.stop();
        Box::pin(async move {
            leftover::end_of_agent(&self.0.config.state, Which::All).await.map_err(StopError::new)
        })
    }
}
