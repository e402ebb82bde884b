//! New sessions: checked first, then durable. A repeated request with the same key is the same session.

use crate::error::{RequestError, named};
use crate::gateway::Gateway;
use crate::keeper::{Keeper, Origins};
use crate::redactor::{Said, refuse_secret};
use crate::request::SessionInfo;
use crate::trouble::trouble;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use turnstream_agents::{Agent, UnknownModel};
use turnstream_log::{Appender, ClaimError, ReadError};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Body, Permissions, SessionPatch};
use turnstream_model::fold::Session;
use turnstream_model::id::SessionId;

/// What a new session is to be.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSession {
    /// One of the configured agents.
    pub agent: String,
    /// Where it works.
    pub cwd: PathBuf,
    /// For a person.
    pub title: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// What becomes of asks.
    pub permissions: Option<Permissions>,
    /// Whether secrets in prompts are redacted; they are where nothing is said.
    pub redact_prompts: Option<bool>,
    /// A repeated request with the same key is the same session.
    pub key: Option<String>,
}

impl Gateway {
    /// Makes a session. It is durable when this returns. A caller that does not wait for it changes nothing: it is made
    /// whole or not at all.
    pub async fn create(&self, mut new: NewSession) -> Result<SessionInfo, RequestError> {
        self.refuse_if_closing()?;
        refuse_secret("model", new.model.as_deref(), &self.settings().secrets)?;
        new.redact(&self.settings().secrets);
        let gateway = self.clone();
        let made = tokio::spawn(async move { gateway.make(new).await });
        tokio::select! {
            // What is durable is made, whatever the disk says by now.
            biased;
            made = made => made.unwrap_or_else(|error| Err(RequestError::Log(error.to_string()))),
            trouble = trouble(self.log()) => Err(trouble.unkept()),
        }
    }

    async fn make(&self, new: NewSession) -> Result<SessionInfo, RequestError> {
        let Some(key) = new.key.clone() else {
            let (agent, cwd) = self.checked(&new)?;
            self.check_model(&new.agent, new.model.as_deref(), &cwd).await?;
            let id = SessionId::from(format!("ses_{:016x}", fastrand::u64(..)));
            let appender = self.log().create(&id).await.map_err(RequestError::of_claim)?;
            return self.begin(id, appender, agent, cwd, new).await;
        };
        let id = SessionId::from(format!("ses_{:032x}", fingerprint(&key)));
        // Nobody else waits while an agent is asked for its models.
        if new.model.is_some() && self.board().get(&id).is_none() {
            let (_, cwd) = self.checked(&new)?;
            self.check_model(&new.agent, new.model.as_deref(), &cwd).await?;
        }
        // One at a time: of two requests with one key the second finds what the first made.
        let _turn = self.creating().lock().await;
        // One that is being deleted makes room first: it takes no longer than its agent does to end.
        self.shared().deletions.over(&id).await;
        // Looked for first: what was made stays made, also when its agent or its directory is gone by now.
        if let Some(session) = self.board().get(&id) {
            return self.made_before(&id, &session, key, &new);
        }
        let (agent, cwd) = self.checked(&new)?;
        let appender = match self.log().create(&id).await {
            // A crash came between the row and the first event: nobody was told of it.
            Err(ClaimError::Exists(_)) => self.log().claim(&id).await,
            created => created,
        };
        self.begin(id, appender.map_err(RequestError::of_claim)?, agent, cwd, new).await
    }

    /// The session that a key made before, if it is what is asked for now.
    fn made_before(
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
        } else {
            self.differs_from_first(id, new)?
        };
        match differs {
            Some(differs) => Err(RequestError::KeyReused { key, differs }),
            None => self.session(id),
        }
    }

    /// What a repeated request asks for that the first one did not. The session may have been changed since.
    fn differs_from_first(&self, id: &SessionId, new: &NewSession) -> Result<Option<String>, RequestError> {
        let mut first = SessionPatch::default();
        let mut created = None;
        let events = match self.log().read(id, Seq(0), 2) {
            // Retention has taken the creation away: what is left of it is in the session, and was compared.
            Err(ReadError::Trimmed { .. }) => return Ok(None),
            read => read.map_err(RequestError::of_read)?,
        };
        for event in events {
            let event = event.event().map_err(|error| RequestError::Log(error.to_string()))?;
            // What belongs to the creation has its time; a later change never has, see `Keeper::create`.
            if *created.get_or_insert(event.time) != event.time {
                break;
            }
            if let Body::SessionCreated { title, .. } = event.draft.body {
                first.title = title;
            } else if let Body::SessionUpdated(patch) = event.draft.body {
                first.merge(&patch);
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
        new: NewSession,
    ) -> Result<SessionInfo, RequestError> {
        let NewSession { agent: name, title, model, permissions, redact_prompts, key, cwd: _ } = new;
        let origins = Origins {
            agent: name,
            cwd: cwd.display().to_string(),
            title,
            key,
            patch: SessionPatch { model, permissions, redact_prompts, ..SessionPatch::default() },
        };
        Keeper::create(self.shared(), id.clone(), appender, agent, origins).await?;
        self.session(&id)
    }

    /// The agent and the directory of a new session, if one can be made.
    fn checked(&self, new: &NewSession) -> Result<(Arc<dyn Agent>, PathBuf), RequestError> {
        self.refuse_if_degraded()?;
        Ok((self.usable_agent(&new.agent)?, self.working_directory(&new.cwd)?))
    }

    /// Refuses a model that an agent is known not to have. An agent that is not there refuses nothing.
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

    /// The directory without links and dots, if sessions may work there.
    fn working_directory(&self, path: &Path) -> Result<PathBuf, RequestError> {
        let no_directory = |problem: String| RequestError::NoDirectory { path: path.to_owned(), problem };
        if !path.is_absolute() {
            return Err(no_directory("give it as an absolute path".to_owned()));
        }
        let real = path.canonicalize().map_err(|error| no_directory(error.to_string()))?;
        if !real.is_dir() {
            return Err(no_directory("it is a file".to_owned()));
        }
        if !self.settings().allows(&real) {
            let roots = self.settings().roots.clone();
            return Err(RequestError::OutsideRoots { path: path.to_owned(), roots });
        }
        Ok(real)
    }
}

/// The path without links and dots, as far as it is there: of a directory that is gone, the part above it.
fn real_path(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    match there {
        Some((above, real)) => real.join(path.strip_prefix(above).unwrap_or(Path::new(""))),
        None => path.to_owned(),
    }
}

/// FNV-1a over 128 bits: the same key gives the same id after any restart. Two keys of one id are told apart by the key in
/// the log.
fn fingerprint(key: &str) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    key.bytes().fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}
