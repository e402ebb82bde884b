//! Sessions: list, show, create, rename, delete, and what is known of each.

use super::answer::{Answer, Failure, Json, off_thread};
use super::choice::{Chosen, ModelRef, Wanted};
use super::history::History;
use super::lookup::{self, Extent, find_whole, state_of};
use super::request::{Asked, Body};
use crate::app::App;
use crate::caller::CallersGateway;
use crate::params::Ids;
use axum::extract::State as Shared;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::cmp::Reverse;
use std::path::PathBuf;
use std::sync::Arc;
use turnstream_dialects::opencode::{self, Named, Names};
use turnstream_gateway::{Change, Gateway, ListedSession, Listing, NewSession};
use turnstream_model::fold::{Activity, Session};
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
}

#[derive(Deserialize)]
pub(super) struct Update {
    title: Option<String>,
    #[serde(default)]
    time: Map<String, Value>,
}

pub(super) async fn list(Shared(app): Shared<Arc<App>>, asked: Asked) -> Answer {
    let limit = asked.number("limit")?.unwrap_or(USUAL).clamp(1, 5_000) as usize;
    let (from, title) = (asked.number("start")?.map(Time), asked.get("search").map(str::to_owned));
    // Titles of subagents are not searched.
    let has_subagents = asked.get("roots") != Some("true") && title.is_none();
    let directory = asked.directory().map(str::to_owned);
    let gateway = app.gateway.clone();
    let listing = Listing { title, from, limit: usize::MAX, ..Listing::default() };
    // Blocking: sessions that were not used since the start are read from the database.
    let listed = tokio::task::spawn_blocking(move || gateway.list(&listing)).await.map_err(off_thread)??;
    let is_there = |session: &Session| directory.as_ref().is_none_or(|directory| *directory == session.cwd);
    let shown = listed.sessions.into_iter().filter(|listed| is_there(&listed.info.session)).take(limit);
    let mut infos = Vec::new();
    for ListedSession { info, active } in shown {
        infos.push(opencode::session_info(&info.session, active));
        if has_subagents {
            // One that was deleted meanwhile has none.
            let all = app.subagents.of(&app.gateway, &info).await.unwrap_or_default();
            infos.extend(all.iter().filter(|info| from.is_none_or(|from| updated(info) >= from)).cloned());
        }
    }
    // A subagent is never newer than its session, so none of a session that was left out is missing.
    infos.sort_by_key(|info| Reverse(updated(info)));
    infos.truncate(limit);
    app.subagents.forget_deleted(&app.gateway);
    Ok(Json(Value::Array(infos)))
}

fn updated(info: &Value) -> Time {
    Time(info["time"]["updated"].as_u64().unwrap_or_default())
}

pub(super) async fn show(Shared(app): Shared<Arc<App>>, Ids(id): Ids<String>) -> Answer {
    let (state, named) = state_of(&app, &id, Extent::Outline).await?;
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
    let Create { agent, model, title, parent } = body;
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
    Body(Update { title, time }): Body<Update>,
) -> Answer {
    let ours = find_whole(&app, &id, "session.update")?;
    if time.get("archived").is_some_and(|archived| !archived.is_null()) {
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

pub(super) async fn children(Shared(app): Shared<Arc<App>>, Ids(id): Ids<String>) -> Answer {
    let (state, named) = state_of(&app, &id, Extent::Whole).await?;
    Ok(Json(Value::Array(opencode::children(&state, &named))))
}

pub(super) async fn todo(Shared(app): Shared<Arc<App>>, Ids(id): Ids<String>) -> Answer {
    let (state, named) = state_of(&app, &id, Extent::Whole).await?;
    Ok(Json(match named {
        Named::Session => json!(opencode::todos(&state)),
        Named::Subagent(_) => json!([]),
    }))
}

pub(super) async fn diff(Shared(app): Shared<Arc<App>>, Ids(id): Ids<String>) -> Answer {
    let (state, _) = state_of(&app, &id, Extent::Whole).await?;
    Ok(Json(Value::Array(opencode::diffs(&state))))
}

/// The sessions that are not idle.
pub(super) async fn status(Shared(app): Shared<Arc<App>>, asked: Asked) -> Answer {
    let mut statuses = Map::new();
    for entry in lookup::entries(&app.gateway) {
        let is_there = asked.directory().is_none_or(|directory| entry.session.cwd == directory);
        if !is_there || entry.session.ended.is_some() || entry.session.status == Activity::Idle {
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
