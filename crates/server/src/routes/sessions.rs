//! `/v1/sessions`: make, list, show, change and delete sessions; `…/snapshot`: what one is at its head.

use super::Answer;
use crate::app::App;
use crate::body::Strict;
use crate::params::{Ids, Nothing, Params};
use crate::problem::Problem;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use turnstream_gateway::{Change, Deleted, NewSession, RequestError, SessionInfo};
use turnstream_model::event::Permissions;
use turnstream_model::id::SessionId;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Create {
    agent: String,
    cwd: PathBuf,
    model: Option<String>,
    title: Option<String>,
    permissions: Option<Permissions>,
    redact_prompts: Option<bool>,
    key: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Patch {
    title: Option<String>,
    model: Option<String>,
    mode: Option<String>,
    permissions: Option<Permissions>,
}

/// What became of a delete.
#[derive(Serialize)]
struct Removal {
    session: SessionId,
    removed: Removed,
}

/// `true` when nothing of it is in any file of the log, and `"pending"` until then.
#[derive(Serialize)]
#[serde(untagged)]
enum Removed {
    Done(bool),
    Pending(&'static str),
}

#[derive(Serialize)]
struct Sessions {
    sessions: Vec<SessionInfo>,
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    _: Params<Nothing>,
    Strict(body): Strict<Create>,
) -> Result<impl IntoResponse, Problem> {
    let Create { agent, cwd, model, title, permissions, redact_prompts, key } = body;
    let new = NewSession { agent, cwd, title, model, permissions, redact_prompts, key };
    let made = app.gateway.create(new).await?;
    Ok(Answer(StatusCode::CREATED, made))
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    _: Params<Nothing>,
) -> Result<impl IntoResponse, Problem> {
    // Sessions that nobody has used since the start are looked up in the database.
    let gateway = app.gateway.clone();
    let listed = tokio::task::spawn_blocking(move || gateway.sessions()).await;
    let sessions = listed.map_err(|error| RequestError::Log(error.to_string()))?;
    Ok(Answer(StatusCode::OK, Sessions { sessions }))
}

pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Ids(id): Ids<SessionId>,
    _: Params<Nothing>,
) -> Result<impl IntoResponse, Problem> {
    Ok(Answer(StatusCode::OK, app.gateway.session(&id)?))
}

pub(crate) async fn change(
    State(app): State<Arc<App>>,
    Ids(id): Ids<SessionId>,
    _: Params<Nothing>,
    Strict(body): Strict<Patch>,
) -> Result<impl IntoResponse, Problem> {
    let Patch { title, model, mode, permissions } = body;
    let changed = app.gateway.change(&id, Change { title, model, mode, permissions }).await?;
    Ok(Answer(StatusCode::OK, changed))
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Ids(id): Ids<SessionId>,
    _: Params<Nothing>,
) -> Result<impl IntoResponse, Problem> {
    let (status, removed) = match app.gateway.delete(&id).await? {
        Deleted::Erased => (StatusCode::OK, Removed::Done(true)),
        Deleted::Pending => (StatusCode::ACCEPTED, Removed::Pending("pending")),
    };
    Ok(Answer(status, Removal { session: id, removed }))
}

pub(crate) async fn snapshot(
    State(app): State<Arc<App>>,
    Ids(id): Ids<SessionId>,
    _: Params<Nothing>,
) -> Result<impl IntoResponse, Problem> {
    Ok(Answer(StatusCode::OK, app.gateway.snapshot(&id).await?))
}
