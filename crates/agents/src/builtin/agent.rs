//! The built-in agent as a configured agent.

use super::history::History;
use super::journal::Journal;
use super::request;
use super::session::{self, Session};
use super::tools::{Shell, end_leftover};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;
use turnstream_adapter::{
    Agent, AgentError, Choice, ConnectError, Connecting, Description, Link, Probing, RefusedBlock,
    Remembering, Start, StopError, Stopping, session_file,
};
use turnstream_agent_process::ProcessError;
use turnstream_llm::client::Client;
use turnstream_llm::retry::Policy;
use turnstream_model::Chain;
use turnstream_model::attempts::{Retention, Spent};
use turnstream_model::event::{ErrorClass, Permissions};
use turnstream_model::id::{PromptId, SessionId};
use turnstream_provider::{Access, Operation, Route};
use turnstream_redact::Rules;

/// What the list of agents says about it.
const ABOUT: &str = "Turnstream's own small agent";

/// How long the list of models may take, how long it may be, and how much of it is shown.
const LIST_LIMIT: Duration = Duration::from_secs(2);
const MOST_LIST: usize = 4 << 20;
const MOST_MODELS: usize = 500;

/// The configuration of the built-in agent.
#[derive(Clone)]
pub struct BuiltinConfig {
    /// Where models are asked, and which one if a session chooses none.
    pub route: Arc<Route>,
    /// Asks the models. It owns all retries.
    pub client: Client,
    /// The ledger of that client, from which a deleted session is removed.
    pub ledger: Arc<dyn Retention>,
    /// A directory for the journals of its sessions.
    pub state: PathBuf,
    /// The redaction rules for the journals.
    pub secrets: Rules,
    /// Variables of its commands, besides PATH, HOME, LANG and TMPDIR of this process.
    pub env: Vec<(OsString, OsString)>,
    /// The most model calls of a turn. A turn that needs more stops.
    pub most_steps: Option<u32>,
    /// The most tokens of an answer.
    pub most_output: Option<u64>,
    /// No configuration names it: it is offered because there is a route.
    pub discovered: bool,
}

/// The agent.
pub struct Builtin(Arc<Shared>);

/// What all links of the agent use.
pub(super) struct Shared {
    name: String,
    pub(super) config: BuiltinConfig,
    pub(super) policy: Policy,
    /// The models that the endpoint has listed, and why it has not.
    listed: Mutex<(Vec<Choice>, Option<String>)>,
}

/// Why the files of a session cannot be used.
#[derive(Debug, thiserror::Error)]
enum StateError {
    #[error("its journal cannot be opened: {0}")]
    Open(#[source] io::Error),
    #[error("what the built-in agent keeps of the session cannot be removed: {0}")]
    Remove(#[source] io::Error),
    #[error("a command of an earlier gateway cannot be ended: {0}")]
    Leftover(#[from] ProcessError),
}

impl AgentError for StateError {
    fn for_log(&self) -> String {
        self.to_string()
    }
}

impl Builtin {
    /// The agent of that name. Nothing is asked yet.
    pub fn new(name: impl Into<String>, config: BuiltinConfig) -> Self {
        Self(Arc::new(Shared {
            name: name.into(),
            config,
            policy: Policy::default(),
            listed: Mutex::default(),
        }))
    }
}

impl Shared {
    fn unavailable(&self, problem: StateError) -> ConnectError {
        ConnectError::Unavailable { agent: self.name.clone(), problem: Arc::new(problem) }
    }

    /// The record of the command that a session runs.
    fn command_record(&self, session: &SessionId) -> PathBuf {
        self.config.state.join(session_file(session, ".command.json"))
    }

    async fn link(self: Arc<Self>, start: Start) -> Result<Link, ConnectError> {
        let Start { session, cwd, native_id, model, open_work, permissions, .. } = start;
        if let Some(native_id) = native_id.filter(|_| open_work.is_none())
            && !self.has_journal(&session)
        {
            return Err(ConnectError::Forgotten { agent: self.name.clone(), native_id });
        }
        let record = self.command_record(&session);
        end_leftover(&record).await.map_err(|error| self.unavailable(error.into()))?;
        let (state, rules, id) = (self.config.state.clone(), self.config.secrets.clone(), session.clone());
        let opened = tokio::task::spawn_blocking(move || Journal::open(&state, &id, rules)).await;
        let opened = opened.map_err(io::Error::other).and_then(|opened| opened);
        let (journal, records) = opened.map_err(|error| self.unavailable(StateError::Open(error)))?;
        let history = History::of(records);
        let (agent, env) = (self.name.clone(), self.config.env.clone());
        let shell = Shell { agent, cwd: cwd.path().to_owned(), env, record };
        let shared = self;
        let make = move |inbox, observer| Session {
            shared,
            id: session,
            cwd,
            shell,
            model,
            denies: permissions == Permissions::Deny,
            journal,
            history,
            observer,
            inbox,
            queue: VecDeque::new(),
            running: None,
            answers: HashMap::new(),
            attempts: 0,
            spent: Spent::default(),
            is_resumed: false,
        };
        Ok(Link::spawn(move |commands, observer| session::adapt(make, open_work, commands, observer)))
    }

    /// Asks the endpoint for its models. Some have no list, and work nevertheless.
    async fn list_models(&self) {
        let route = &self.config.route;
        // A key that cannot be read is a problem of its own.
        let Ok(endpoint) = route.endpoint() else { return };
        let url = route.url_for(Operation::Models);
        let asked = timeout(LIST_LIMIT, self.config.client.get(&url, &endpoint.headers, MOST_LIST)).await;
        let found = match asked {
            Ok(Ok(body)) => (models(&body), None),
            Ok(Err(failure)) if failure.class == ErrorClass::Unreachable => {
                let notice = format!("the endpoint of the route {} does not answer", route.name);
                (Vec::new(), Some(notice))
            }
            Ok(Err(_)) | Err(_) => return,
        };
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }

    fn has_journal(&self, session: &SessionId) -> bool {
        Journal::path(&self.config.state, session).exists()
    }

    async fn forget(&self, session: SessionId) -> Result<(), StopError> {
        let record = self.command_record(&session);
        end_leftover(&record).await.map_err(|error| StopError::new(StateError::from(error)))?;
        let (state, id) = (self.config.state.clone(), session.clone());
        let removed = tokio::task::spawn_blocking(move || Journal::remove(&state, &id)).await;
        let removed = removed.map_err(io::Error::other).and_then(|removed| removed);
        removed.map_err(|error| StopError::new(StateError::Remove(error)))?;
        self.config.ledger.forget(session).await.map_err(StopError::new)?;
        Ok(())
    }
}

/// The ids in a list of models. All formats have the same list.
fn models(body: &[u8]) -> Vec<Choice> {
    let list: Value = serde_json::from_slice(body).unwrap_or_default();
    let models = list["data"].as_array().into_iter().flatten();
    models.filter_map(|model| model["id"].as_str()).take(MOST_MODELS).map(Choice::new).collect()
}

impl Agent for Builtin {
    fn describe(&self) -> Description {
        let config = &self.0.config;
        let route = &config.route;
        let problem = match &route.access {
            Access::Configured(key) => key.read().err().map(|error| Chain(&error).to_string()),
            Access::Keyless => None,
            Access::PassThrough(_) => Some(format!(
                "its route {} has no key of its own; name another one with `route`, or give this one key_env",
                route.name
            )),
        };
        let (listed, notice) = self.0.listed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // The one that is used without a choice goes first.
        let mut models: Vec<Choice> = route.model.iter().map(Choice::new).collect();
        models.extend(listed.into_iter().filter(|model| Some(&model.id) != route.model.as_ref()));
        let about = format!("{ABOUT}, on the route {}", route.name);
        Description {
            problem,
            notice,
            discovered: config.discovered,
            models,
            ..Description::new("builtin", about)
        }
    }

    fn probe(&self) -> Probing<'_> {
        Box::pin(async {
            self.0.list_models().await;
            self.describe()
        })
    }

    fn check_block(&self, block: &Value) -> Result<(), RefusedBlock> {
        request::check_block(block)
    }

    fn connect(&self, start: Start) -> Connecting<'_> {
        Box::pin(Arc::clone(&self.0).link(start))
    }

    fn remembers<'a>(&'a self, session: &'a SessionId, native_id: &'a str, cwd: &'a Path) -> Remembering<'a> {
        let (_native_id, _cwd) = (native_id, cwd);
        Box::pin(std::future::ready(self.0.has_journal(session)))
    }

    /// A prompt is a turn, and its id names the turn in the ledger too.
    fn name_prompt(&self, _session: &SessionId, prompt: &PromptId) -> String {
        prompt.to_string()
    }

    /// An open turn goes on when the gateway is started again.
    fn outlives_gateway(&self) -> bool {
        true
    }

    fn leaves_permissions_to_gateway(&self) -> bool {
        true
    }

    fn forget(&self, session: &SessionId) -> Stopping<'_> {
        Box::pin(self.0.forget(session.clone()))
    }
}
