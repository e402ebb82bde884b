//! Creation of sessions: checked first, then durable. A repeated request with the same key returns the
//! session of the first one.

use crate::budget::BudgetChange;
use crate::disk_failure;
use crate::error::{RequestError, SharedError, named};
use crate::gateway::Gateway;
use crate::keeper::{Keeper, Origins};
use crate::key_ids::former_session;
use crate::redactor::{UserInput, refuse_secret};
use crate::request::SessionInfo;
use crate::session_states::Room;
use crate::short_texts::ShortTexts;
use crate::unattended::UnattendedChange;
use crate::working_directory::DirectoryProblem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::Instrument;
use turnstream_adapter::{Agent, McpServer, UnknownModel, WorkingDirectory};
use turnstream_log::{Appender, ClaimError, ReadError};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Aside, Body, Budget, By, Permissions, SessionPatch, Unattended};
use turnstream_model::fold::Session;
use turnstream_model::id::SessionId;
use turnstream_model::machine::Inheritance;

/// Most events of a creation: the session, its members, what it takes over, its caps, its unattended runs.
pub(crate) const CREATION_EVENTS: usize = 5;

/// A new session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewSession {
    /// One of the configured agents.
    pub agent: String,
    /// The working directory of its agent.
    pub cwd: PathBuf,
    /// The title in lists.
    pub title: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// How approvals are decided.
    pub permissions: Option<Permissions>,
    /// Whether secrets in prompts are redacted; by default they are.
    pub redact_prompts: Option<bool>,
    /// MCP servers that its agent uses in this session. They may hold secrets, and are in no log.
    pub mcp: Vec<McpServer>,
    /// The session from whose finished items it goes on.
    pub from: Option<SessionId>,
    /// Its caps, where they differ from those of its agent in the configuration.
    pub budget: BudgetChange,
    /// How it goes on after a limit or a failure, where that differs from its agent in the configuration.
    pub unattended: UnattendedChange,
    /// A repeated request with the same key returns the session of the first one.
    pub key: Option<String>,
}

impl Gateway {
    /// Creates a session. It is durable when this returns. Dropping the future does not stop the creation.
    pub async fn create(&self, mut new: NewSession) -> Result<SessionInfo, RequestError> {
        self.refuse_if_closing()?;
        self.shared().refusals.note(new.check_lengths(self.text_lengths()))?;
        new.budget.check()?;
        new.unattended.check()?;
        let rules = &self.settings().redaction;
        refuse_secret("model", new.model.as_deref(), rules)?;
        for server in &new.mcp {
            refuse_secret("name of an MCP server", Some(&server.name), rules)?;
        }
        new.redact(&self.settings().redaction);
        let gateway = self.clone();
        let make = async move { gateway.shared().refusals.note(gateway.make(new).await) };
        let made = tokio::spawn(make.in_current_span());
        tokio::select! {
            // A session that is durable is returned, also when the disk fails by now.
            biased;
            made = made => made.unwrap_or_else(|error| Err(RequestError::log(error))),
            failure = disk_failure::wait(self.log()) => Err(failure.not_durable_yet()),
        }
    }

    async fn make(&self, new: NewSession) -> Result<SessionInfo, RequestError> {
        let Some(key) = new.key.clone() else {
            let (agent, cwd) = self.checked(&new)?;
            self.check_model(&new.agent, new.model.as_deref(), &cwd).await?;
            let inheritance = self.inheritance(&new).await?;
            let id = SessionId::from(format!("ses_{:016x}", fastrand::u64(..)));
            let _room = self.room_for(&id)?;
            let appender = self.log().create(&id).await.map_err(RequestError::of_claim)?;
            return self.begin(id, appender, agent, cwd, inheritance, new).await;
        };
        // Before the lock, so that no other request waits while an agent is asked for its models.
        if new.model.is_some() && self.with_key(&key)?.is_none() {
            let (_, cwd) = self.checked(&new)?;
            self.check_model(&new.agent, new.model.as_deref(), &cwd).await?;
        }
        // One at a time: of two requests with one key, the second finds the session of the first.
        let _turn = self.creating().lock().await;
        let id = self.shared().key_ids.session(&key);
        // A session of this key that is being deleted has to be gone first.
        for id in [&id, &former_session(&key)] {
            self.shared().deletions.over(id).await;
        }
        // Before the checks: a repeated request succeeds also when the agent or the directory is gone by now.
        if let Some((id, session)) = self.with_key(&key)? {
            return self.made_before(&id, &session, key, &new).await;
        }
        let (agent, cwd) = self.checked(&new)?;
        let inheritance = self.inheritance(&new).await?;
        let _room = self.room_for(&id)?;
        let appender = match self.log().create(&id).await {
            // A crash came between the session's row and its first event. No client has seen it.
            Err(ClaimError::Exists(_)) => self.log().claim(&id).await,
            created => created,
        };
        let appender = appender.map_err(RequestError::of_claim)?;
        self.begin(id, appender, agent, cwd, inheritance, new).await
    }

    /// The session that was created with this key. One that is being deleted counts as gone.
    pub fn session_with_key(&self, key: &str) -> Result<Option<SessionId>, RequestError> {
        let found = self.with_key(key)?;
        let has_key = |session: &Session| session.key.as_deref() == Some(key);
        let is_there = |id: &SessionId| !self.shared().deletions.is_under_way(id);
        Ok(found.filter(|(_, session)| has_key(session)).map(|(id, _)| id).filter(is_there))
    }

    /// The session that was created with this key, by this version or by an earlier one.
    fn with_key(&self, key: &str) -> Result<Option<(SessionId, Session)>, RequestError> {
        let id = self.shared().key_ids.session(key);
        if let Some(session) = self.states().get(&id) {
            return Ok(Some((id, session)));
        }
        let id = former_session(key);
        let has_key = |session: &Session| session.key.as_deref() == Some(key);
        let Some(session) = self.states().get(&id).filter(has_key) else { return Ok(None) };
        // A file could bring the id and the key of a session that a client is yet to create.
        let is_imported = self.log().imported(&id).map_err(RequestError::of_read)?.is_some();
        Ok((!is_imported).then_some((id, session)))
    }

    /// Room for one more session, held until the session is shown.
    pub(crate) fn room_for(&self, id: &SessionId) -> Result<Room, RequestError> {
        let most = self.settings().limits.sessions;
        Room::take(&self.shared().states, id, most).ok_or(RequestError::TooManySessions { most })
    }

    /// The session that was created with this key, if the request is the same.
    async fn made_before(
        &self,
        id: &SessionId,
        session: &Session,
        key: String,
        new: &NewSession,
    ) -> Result<SessionInfo, RequestError> {
        let differs = if session.key.as_deref() != Some(key.as_str()) {
            Some("another key that happens to give the same id".to_owned())
        } else if session.agent != new.agent {
            Some(format!("agent {:?}", session.agent))
        } else if Path::new(&session.cwd) != real_path(&new.cwd) {
            Some(format!("cwd {:?}", session.cwd))
        } else if session.from.as_ref().map(|from| &from.session) != new.from.as_ref() {
            let first = session.from.as_ref().map(|from| from.session.as_str());
            Some(named("from", first))
        } else if let Some(differs) = self.mcp_differs(id, session, &new.mcp).await? {
            Some(differs)
        } else {
            self.differs_from_first(id, new)?
        };
        match differs {
            Some(differs) => Err(RequestError::KeyReused { key, differs }),
            None => {
                if let Some(from) = &new.from {
                    self.name_in_source(from, id, &new.agent).await;
                }
                self.session(id)
            }
        }
    }

    /// Whether the MCP servers are others than those of the first request. The servers of a session never
    /// change.
    async fn mcp_differs(
        &self,
        id: &SessionId,
        session: &Session,
        servers: &[McpServer],
    ) -> Result<Option<String>, RequestError> {
        if !session.mcp.iter().eq(servers.iter().map(|server| &server.name)) {
            let names = session.mcp.join(", ");
            return Ok(Some(if names.is_empty() { "no mcp".to_owned() } else { format!("mcp of {names}") }));
        }
        if servers.is_empty() {
            return Ok(None);
        }
        let first = self.shared().mcp.servers(id).await.map_err(RequestError::log)?;
        Ok((first != servers).then(|| "other values in mcp".to_owned()))
    }

    /// The first difference between a repeated request and the first one. The session may have changed since.
    fn differs_from_first(&self, id: &SessionId, new: &NewSession) -> Result<Option<String>, RequestError> {
        let mut first = SessionPatch::default();
        let mut created = None;
        let mut budget = Budget::default();
        let mut unattended = Unattended::default();
        let events = match self.log().read(id, Seq(0), CREATION_EVENTS) {
            // Retention removed the creation. Agent and directory were compared, and are all that is left
            // of it.
            Err(ReadError::Trimmed { .. }) => return Ok(None),
            read => read.map_err(RequestError::of_read)?,
        };
        for event in events {
            let event = event.event().map_err(RequestError::log)?;
            // Events of the creation have its time; a later change never has, see `Keeper::create`.
            if *created.get_or_insert(event.time) != event.time {
                break;
            }
            if let Body::SessionCreated { title, .. } = event.draft.body {
                first.title = title;
            } else if let Body::SessionUpdated(patch) = event.draft.body {
                first.merge(&patch);
            } else if let Body::Aside(Aside::BudgetSet { budget: first, .. }) = event.draft.body {
                budget = *first;
            } else if let Body::Aside(Aside::UnattendedSet { unattended: first, .. }) = event.draft.body {
                unattended = *first;
            }
        }
        Ok(if first.title != new.title {
            Some(named("title", first.title.as_deref()))
        } else if first.model != new.model {
            Some(named("model", first.model.as_deref()))
        } else if first.permissions != new.permissions {
            Some(format!("permissions {}", first.permissions.unwrap_or(Permissions::Ask)))
        } else if first.redact_prompts != new.redact_prompts {
            Some(format!("redact_prompts {}", first.redact_prompts.unwrap_or(true)))
        } else if !new.budget.is_in(&budget) {
            Some("another budget".to_owned())
        } else if !new.unattended.is_in(&unattended) {
            Some("other rules for unattended runs".to_owned())
        } else {
            None
        })
    }

    async fn begin(
        &self,
        id: SessionId,
        appender: Appender,
        agent: Arc<dyn Agent>,
        cwd: PathBuf,
        inheritance: Option<Inheritance>,
        new: NewSession,
    ) -> Result<SessionInfo, RequestError> {
        let NewSession {
            agent: name,
            title,
            model,
            permissions,
            redact_prompts,
            mcp,
            from,
            budget,
            unattended,
            key,
            cwd: _,
        } = new;
        let names: Vec<String> = mcp.iter().map(|server| server.name.clone()).collect();
        // Before the session: one that is in the log has its servers.
        if !mcp.is_empty() {
            self.shared().mcp.store(&id, mcp).await.map_err(RequestError::log)?;
            turnstream_failpoint::reach("gateway.mcp_stored");
        }
        let mcp = (!names.is_empty()).then_some(names);
        let by = if budget == BudgetChange::default() { By::Policy } else { By::Client };
        let caps = budget.applied_to(&self.settings().budgets.get(&name).cloned().unwrap_or_default());
        let rules_by = if unattended.is_empty() { By::Policy } else { By::Client };
        let rules =
            unattended.applied_to(&self.settings().unattended.get(&name).cloned().unwrap_or_default());
        let origins = Origins {
            agent: name,
            cwd: cwd.display().to_string(),
            title,
            key,
            patch: SessionPatch { model, permissions, redact_prompts, mcp, ..SessionPatch::default() },
            inheritance,
            budget: (caps, by),
            unattended: (rules, rules_by),
            actor: self.actor(),
        };
        let agent_name = origins.agent.clone();
        Keeper::create(self.shared(), id.clone(), appender, agent, origins).await?;
        tracing::info!(session = %id, agent = agent_name, "session created");
        if let Some(from) = from {
            turnstream_failpoint::reach("gateway.inherited");
            self.name_in_source(&from, &id, &agent_name).await;
        }
        self.session(&id)
    }

    /// The agent and the directory of a new session, if it can be created.
    fn checked(&self, new: &NewSession) -> Result<(Arc<dyn Agent>, PathBuf), RequestError> {
        self.refuse_if_degraded()?;
        let agent = self.usable_agent(&new.agent)?;
        if !new.mcp.is_empty() {
            let refused = |problem| RequestError::McpRefused { agent: new.agent.clone(), problem };
            agent.check_mcp(&new.mcp).map_err(refused)?;
        }
        Ok((agent, self.working_directory(&new.cwd)?))
    }

    /// Refuses a model that an agent is known not to have. An agent that is not configured refuses nothing.
    pub(crate) async fn check_model(
        &self,
        agent: &str,
        model: Option<&str>,
        cwd: &Path,
    ) -> Result<(), RequestError> {
        let (Some(found), Some(model)) = (self.agent(agent), model) else { return Ok(()) };
        found.check_model(model, cwd).await.map_err(|UnknownModel { problem, known }| {
            RequestError::UnknownModel { agent: agent.to_owned(), problem, known }
        })
    }

    fn usable_agent(&self, name: &str) -> Result<Arc<dyn Agent>, RequestError> {
        let agent = self.agent(name).ok_or_else(|| RequestError::UnknownAgent {
            asked: name.to_owned(),
            known: self.agents().into_iter().map(|(name, _)| name).collect(),
        })?;
        match agent.describe().problem {
            Some(problem) => Err(RequestError::AgentUnusable { agent: name.to_owned(), problem }),
            None => Ok(agent),
        }
    }

    /// The real path of the directory, if sessions may work there.
    fn working_directory(&self, path: &Path) -> Result<PathBuf, RequestError> {
        Ok(self.opened_directory(path)?.path().to_owned())
    }

    /// A directory in which sessions may work, and the names of those in it. The same rules as for the
    /// directory of a session.
    pub fn directories(&self, path: &Path) -> Result<(PathBuf, Vec<String>), RequestError> {
        let opened = self.opened_directory(path)?;
        let names = opened.directories().map_err(|error| RequestError::NoDirectory {
            path: path.to_owned(),
            problem: SharedError::new(error),
        })?;
        Ok((opened.path().to_owned(), names))
    }

    /// The directories below which sessions may work.
    pub fn roots(&self) -> &[PathBuf] {
        &self.settings().roots
    }

    /// A directory in which sessions may work, opened.
    pub(crate) fn opened_directory(&self, path: &Path) -> Result<WorkingDirectory, RequestError> {
        let no_directory =
            |problem: SharedError| RequestError::NoDirectory { path: path.to_owned(), problem };
        if !path.is_absolute() {
            return Err(no_directory(SharedError::new("give an absolute path")));
        }
        self.settings().open_directory(path).map_err(|problem| match problem {
            DirectoryProblem::Unusable(error) => no_directory(SharedError::new(error)),
            DirectoryProblem::File => no_directory(SharedError::new("it is a file")),
            DirectoryProblem::Outside(_) => {
                let roots = self.settings().roots.clone();
                RequestError::OutsideRoots { path: path.to_owned(), roots }
            }
        })
    }
}

/// The path with links and dots resolved, as far as it exists.
fn real_path(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    match there {
        Some((above, real)) => real.join(path.strip_prefix(above).unwrap_or(Path::new(""))),
        None => path.to_owned(),
    }
}
