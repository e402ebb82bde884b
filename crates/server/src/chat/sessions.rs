//! The session of a chat. A client names it by our id, or by an id of its own, which is the session's key.

use crate::app::App;
use crate::problem::{Kind, Problem};
use std::path::PathBuf;
use turnstream_gateway::{Gateway, NewSession, RequestError};
use turnstream_model::event::Permissions;
use turnstream_model::id::SessionId;

/// How the ids of our sessions begin. A client's own id never does.
const OURS: &str = "ses_";

/// What a client wants for a chat that is new. What it leaves out comes from `[chat]` in the configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewChat {
    pub(crate) agent: Option<String>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) model: Option<String>,
}

/// Whether this is an id of ours, also of a session that is gone.
pub(crate) fn is_session_id(id: &str) -> bool {
    id.starts_with(OURS)
}

/// The session with this id of ours, or with this key.
pub(crate) fn find(gateway: &Gateway, id: &str) -> Result<Option<SessionId>, RequestError> {
    let ours = SessionId::from(id);
    match gateway.session(&ours) {
        Ok(_) => Ok(Some(ours)),
        Err(RequestError::UnknownSession(_)) => gateway.session_with_key(id),
        Err(error) => Err(error),
    }
}

/// The session of a chat. If there is none, one is made with this key; a person decides about approvals. A
/// chat keeps its agent.
pub(crate) async fn find_or_create(
    app: &App,
    gateway: &Gateway,
    id: &str,
    new: NewChat,
) -> Result<SessionId, Problem> {
    if id.is_empty() {
        return Err(Problem::new(Kind::BadBody, "the id of the chat is empty"));
    }
    if let Some(session) = find(gateway, id)? {
        let ours = gateway.session(&session)?.session.agent;
        return match new.agent.filter(|agent| *agent != ours) {
            None => Ok(session),
            Some(agent) => {
                let detail =
                    format!("the agent of this chat is {ours}, not {agent}; use another id for a new chat");
                Err(Problem::new(Kind::KeyReused, detail))
            }
        };
    }
    if is_session_id(id) {
        return Err(RequestError::UnknownSession(SessionId::from(id)).into());
    }
    let agent = agent(app, new.agent)?;
    let cwd = cwd(app, new.cwd)?;
    let (permissions, key) = (Some(Permissions::Ask), Some(id.to_owned()));
    let new = NewSession { agent, cwd, model: new.model, permissions, key, ..NewSession::default() };
    let made = gateway.create(new).await?.session.id;
    made.ok_or_else(|| Problem::new(Kind::Internal, "the new session has no id"))
}

/// The agent that was named, that of `[chat]`, the default one, or the first that can be used.
fn agent(app: &App, named: Option<String>) -> Result<String, Problem> {
    let usual = || app.options.chat.agent.clone().or_else(|| app.options.default_agent.clone());
    let first = || {
        let agents = app.gateway.agents();
        agents.into_iter().find(|(_, about)| about.problem.is_none()).map(|(name, _)| name)
    };
    named.or_else(usual).or_else(first).ok_or_else(|| {
        let detail = "the gateway has no agent that can be used; add one to its configuration";
        Problem::new(Kind::UnknownAgent, detail)
    })
}

/// The directory that was named, that of `[chat]`, or the first root.
fn cwd(app: &App, named: Option<PathBuf>) -> Result<PathBuf, Problem> {
    let usual = || app.options.chat.cwd.clone().or_else(|| app.gateway.roots().first().cloned());
    named.or_else(usual).ok_or_else(|| {
        let detail = "the gateway has no directory for chats; name one with `cwd`, or set it in [chat]";
        Problem::new(Kind::NoDirectory, detail)
    })
}
