//! Sessions: list, show, create, rename, delete, and what is known of each.

use super::answer::{Answer, Failure, Json, off_thread};
use super::choice::{Chosen, ModelRef, Wanted};
use super::digest::Extent;
use super::lookup::{find, find_whole, outline_of, since_call};
use super::messages::changes_of;
use super::request::{Asked, Body};
use crate::app::App;
use crate::caller::CallersGateway;
use crate::chat::History;
use crate::params::Ids;
use axum::extract::State as Shared;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::cmp::Reverse;
use std::path::PathBuf;
use std::sync::Arc;
use turnstream_dialects::opencode::{self, Named, Names};
use turnstream_gateway::{Change, Gateway, ListedSession, Listing, NewSession};
use turnstream_model::fold::Session;
use turnstream_model::time::Time;

/// The default number of sessions in a list, as in opencode.
const USUAL: u64 = 100;

#[derive(Deserialize)]
pub(super) struct Create {
    agent: Option<String>,
    model: Option<ModelRef>,
    title: Option<String>,
    #[serde(rename = "parentID")]
    parent: Option<String>,
    #[serde(default)]
    permission: Vec<Rule>,
}

/// A rule about what an agent may do.
#[derive(Deserialize)]
struct Rule {
    permission: String,
    action: String,
}

impl Rule {
    /// Whether the rule is one that `opencode run` sends with every session: opencode's own agents ask no
    /// questions and do not change to a plan. It is about no agent of the gateway.
    fn is_of_run(&self) -> bool {
        self.action == "deny" && ["question", "plan_enter", "plan_exit"].contains(&self.permission.as_str())
    }
}

#[derive(Deserialize)]
pub(super) struct Update {
    title: Option<String>,
    #[serde(default)]
    time: Map<String, Value>,
    permission: Option<Value>,
    metadata: Option<Value>,
}

/// Whether a member is there and says something.
fn is_given(value: Option<&Value>) -> bool {
    value.is_some_and(|value| match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    })
}

pub(super) async fn list(Shared(app): Shared<Arc<App>>, asked: Asked) -> Answer {
    let limit = asked.number("limit")?.unwrap_or(USUAL).clamp(1, 5_000) as usize;
    let (from, title) = (asked.number("start")?.map(Time), asked.get("search").map(str::to_owned));
    // Titles of subagents are not searched.
    let has_subagents = asked.get("roots") != Some("true") && title.is_none();
    let cwd = asked.directory().map(str::to_owned);
    let gateway = app.gateway.clone();
    let listing = Listing { cwd, title, from, limit, ..Listing::default() };
    // Blocking: sessions that were not used since the start are read from the database.
    let listed = tokio::task::spawn_blocking(move || gateway.list(&listing)).await.map_err(off_thread)??;
    let mut infos = Vec::new();
    for ListedSession { info, active } in listed.sessions {
        infos.push(opencode::session_info(&info.session, active));
        if let Some(id) = info.session.id.as_ref().filter(|_| has_subagents)
            // One that was deleted meanwhile has none.
            && let Ok(digest) = app.digests.of(&app.gateway, id, Extent::Newest).await
        {
            let is_there = |info: &&Value| from.is_none_or(|from| updated(info) >= from);
            infos.extend(digest.subagents.iter().filter(is_there).cloned());
        }
    }
    // A subagent is never newer than its session, so none of a session that was left out is missing.
    infos.sort_by_key(|info| Reverse(updated(info)));
    infos.truncate(limit);
    Ok(Json(Value::Array(infos)))
}

fn updated(info: &Value) -> Time {
    Time(info["time"]["updated"].as_u64().unwrap_or_default())
}

pub(super) async fn show(Shared(app): Shared<Arc<App>>, Ids(id): Ids<String>) -> Answer {
    let (state, named) = outline_of(&app, &id).await?;
    match named {
        Named::Session => {
            let updated = active(&app.gateway, &state.session).await?;
            Ok(Json(opencode::session_info(&state.session, updated)))
        }
        Named::Subagent(call) => Ok(Json(opencode::subagent_info(&call, &state))),
    }
}

/// The last activity of a session.
async fn active(gateway: &Gateway, session: &Session) -> Result<Time, Failure> {
    let (gateway, id) = (gateway.clone(), session.id.clone());
    let created = session.created.unwrap_or_default();
    let read = tokio::task::spawn_blocking(move || id.map(|id| gateway.last_activity(&id)));
    Ok(read.await.map_err(off_thread)?.unwrap_or(created))
}

pub(super) async fn create(
    Shared(app): Shared<Arc<App>>,
    CallersGateway(gateway): CallersGateway,
    asked: Asked,
    Body(body): Body<Create>,
) -> Answer {
    let Create { agent, model, title, parent, permission } = body;
    if !permission.iter().all(Rule::is_of_run) {
        return Err(Failure::not_supported(
            "session.create with permission: the settings of the gateway decide what is asked",
        ));
    }
    if parent.is_some() {
        return Err(Failure::not_supported(
            "session.create with parentID: agents make their subagents themselves",
        ));
    }
    let Chosen { agent, mode, model } = Wanted { agent, model }.for_new_session(&app)?;
    let cwd = PathBuf::from(asked.directory_or_own());
    let new = NewSession { agent, cwd, title, model, ..NewSession::default() };
    let mut made = gateway.create(new).await?;
    let created = made.session.created.unwrap_or_default();
    if let (Some(mode), Some(id)) = (mode, made.session.id.clone()) {
        made = gateway.change(&id, Change { mode: Some(mode), ..Change::default() }).await?;
    }
    Ok(Json(opencode::session_info(&made.session, created)))
}

pub(super) async fn update(
    Shared(app): Shared<Arc<App>>,
    CallersGateway(gateway): CallersGateway,
    Ids(id): Ids<String>,
    Body(Update { title, time, permission, metadata }): Body<Update>,
) -> Answer {
    let ours = find_whole(&app, &id, "session.update")?;
    let refused = [("permission", &permission), ("metadata", &metadata)];
    if let Some((member, _)) = refused.iter().find(|(_, value)| is_given(value.as_ref())) {
        return Err(Failure::not_supported(format!("session.update with {member}: sessions do not have it")));
    }
    // 0 takes a session out of the archive at opencode. An ended session stays so.
    if time.get("archived").and_then(Value::as_f64).is_some_and(|archived| archived > 0.0) {
        gateway.end(&ours, "archived by a client").await?;
    }
    if title.is_some() {
        gateway.change(&ours, Change { title, ..Change::default() }).await?;
    }
    show(Shared(app), Ids(id)).await
}

pub(super) async fn delete(
    Shared(app): Shared<Arc<App>>,
    CallersGateway(gateway): CallersGateway,
    Ids(id): Ids<String>,
) -> Answer {
    let ours = find_whole(&app, &id, "session.delete")?;
    gateway.delete(&ours).await?;
    Ok(Json(json!(true)))
}

/// The subagents that a session or a subagent made itself.
pub(super) async fn children(Shared(app): Shared<Arc<App>>, Ids(id): Ids<String>) -> Answer {
    let found = find(&app, &id)?;
    let info = app.gateway.session(&found.id)?.session;
    let names = Names::new(found.id.as_str(), info.created.unwrap_or_default());
    let parent = match &found.named {
        Named::Session => names.session(),
        Named::Subagent(call) => names.subagent(call),
    };
    let digest = app.digests.of(&app.gateway, &found.id, Extent::Whole).await?;
    let children = digest.subagents.iter().filter(|info| info["parentID"] == parent);
    Ok(Json(Value::Array(children.cloned().collect())))
}

pub(super) async fn todo(Shared(app): Shared<Arc<App>>, Ids(id): Ids<String>) -> Answer {
    let found = find(&app, &id)?;
    Ok(Json(match found.named {
        Named::Session => json!(app.digests.of(&app.gateway, &found.id, Extent::Whole).await?.todos),
        Named::Subagent(_) => json!([]),
    }))
}

/// The changes of files, of a whole session or of the turn of one message.
pub(super) async fn diff(Shared(app): Shared<Arc<App>>, Ids(id): Ids<String>, asked: Asked) -> Answer {
    let found = find(&app, &id)?;
    Ok(Json(match &found.named {
        Named::Session => match asked.get("messageID") {
            Some(message) => json!(changes_of(&app, &found.id, message).await?),
            None => json!(app.digests.changes(&app.gateway, &found.id).await?),
        },
        Named::Subagent(call) => {
            let state = since_call(&app, &id, &found.id, call).await?;
            json!(opencode::diffs(&state, &found.named))
        }
    }))
}

/// The sessions that are not idle.
pub(super) async fn status(Shared(app): Shared<Arc<App>>, asked: Asked) -> Answer {
    let mut statuses = Map::new();
    for entry in app.gateway.sessions_at_work() {
        let is_there = asked.directory().is_none_or(|directory| entry.session.cwd == directory);
        if !is_there || entry.session.ended.is_some() {
            continue;
        }
        let state = History::newest(&app.gateway, &entry.id, 1).await?.state;
        let status = opencode::status_of(&state);
        if status["type"] != "idle" {
            statuses.insert(Names::of(&state.session).session(), status);
        }
    }
    Ok(Json(Value::Object(statuses)))
}
