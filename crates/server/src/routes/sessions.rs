//! `/v1/sessions`: creates, lists, shows, changes, resumes and deletes sessions; `…/budget`: sets caps;
//! `…/snapshot`: the fold at the head.

use super::Answer;
use crate::app::App;
use crate::body::Strict;
use crate::caller::CallersGateway;
use crate::params::{Ids, Nothing, Params, page_limit};
use crate::problem::{Kind, Problem};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use turnstream_adapter::McpServer;
use turnstream_gateway::{
    BudgetChange, Change, Deleted, Listed, ListedSession, Listing, NewSession, Order, RequestError,
    SessionInfo, Stage, UnattendedChange,
};
use turnstream_model::event::{OnFailure, OnLimit, Permissions, ResumeAs};
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Create {
    agent: String,
    /// With `from` it may be left out: the directory is that of the other session.
    cwd: Option<PathBuf>,
    from: Option<SessionId>,
    budget: Option<BudgetChange>,
    on_limit: Option<OnLimit>,
    limit_window: Option<u64>,
    on_failure: Option<OnFailure>,
    continue_with: Option<String>,
    model: Option<String>,
    title: Option<String>,
    permissions: Option<Permissions>,
    redact_prompts: Option<bool>,
    mcp: Option<Vec<Value>>,
    key: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resume {
    r#as: ResumeAs,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Patch {
    title: Option<String>,
    model: Option<String>,
    mode: Option<String>,
    permissions: Option<Permissions>,
    on_limit: Option<OnLimit>,
    limit_window: Option<u64>,
    on_failure: Option<OnFailure>,
    continue_with: Option<String>,
}

/// The answer to a delete.
#[derive(Serialize)]
struct Removal {
    session: SessionId,
    removed: Removed,
}

/// `true` when the session is erased from all files of the log, and `"pending"` until then.
#[derive(Serialize)]
#[serde(untagged)]
enum Removed {
    Done(bool),
    Pending(&'static str),
}

/// Every session: the answer to a request without parameters.
#[derive(Serialize)]
struct Sessions {
    sessions: Vec<SessionInfo>,
}

/// The query of a list of sessions.
#[derive(Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct List {
    limit: Option<usize>,
    after: Option<String>,
    agent: Option<String>,
    status: Option<String>,
    q: Option<String>,
    from: Option<u64>,
    to: Option<u64>,
    order: Option<ListOrder>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ListOrder {
    Activity,
    Id,
}

#[derive(Serialize)]
struct Page {
    sessions: Vec<ListedSession>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

pub(crate) async fn create(
    CallersGateway(gateway): CallersGateway,
    _: Params<Nothing>,
    Strict(body): Strict<Create>,
) -> Result<impl IntoResponse, Problem> {
    let Create {
        agent,
        cwd,
        from,
        budget,
        on_limit,
        limit_window,
        on_failure,
        continue_with,
        model,
        title,
        permissions,
        redact_prompts,
        mcp,
        key,
    } = body;
    let unattended = UnattendedChange { on_limit, limit_window, on_failure, continue_with };
    let mcp = McpServer::read_list(&mcp.unwrap_or_default()).map_err(RequestError::from)?;
    let cwd = match (cwd, &from) {
        (Some(cwd), _) => cwd,
        (None, Some(from)) => PathBuf::from(gateway.session(from)?.session.cwd),
        (None, None) => {
            let detail = "the member `cwd` is missing; only a session with `from` can do without";
            return Err(Problem::new(Kind::BadBody, detail));
        }
    };
    let budget = budget.unwrap_or_default();
    let new = NewSession {
        agent,
        cwd,
        title,
        model,
        permissions,
        redact_prompts,
        mcp,
        from,
        budget,
        unattended,
        key,
    };
    let made = gateway.create(new).await?;
    Ok(Answer(StatusCode::CREATED, made))
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Params(asked): Params<List>,
) -> Result<Response, Problem> {
    // Blocking: sessions that were not used since the start are read from the database.
    let gateway = app.gateway.clone();
    let failed = |error: tokio::task::JoinError| RequestError::log(error);
    if asked == List::default() {
        let listed = tokio::task::spawn_blocking(move || gateway.sessions()).await;
        let sessions = listed.map_err(failed)?;
        return Ok(Answer(StatusCode::OK, Sessions { sessions }).into_response());
    }
    let listing = asked.listing()?;
    let listed = tokio::task::spawn_blocking(move || gateway.list(&listing)).await;
    let Listed { sessions, next } = listed.map_err(failed)??;
    Ok(Answer(StatusCode::OK, Page { sessions, next }).into_response())
}

impl List {
    fn listing(self) -> Result<Listing, Problem> {
        let Self { limit, after, agent, status, q: title, from, to, order } = self;
        let stage = status.map(|status| stage_of(&status)).transpose()?;
        let order = match order {
            Some(ListOrder::Id) => Order::Id,
            Some(ListOrder::Activity) | None => Order::Activity,
        };
        let (from, to, limit) = (from.map(Time), to.map(Time), page_limit(limit)?);
        Ok(Listing { agent, stage, cwd: None, title, from, to, order, after, limit })
    }
}

fn stage_of(status: &str) -> Result<Stage, Problem> {
    Stage::all().find(|stage| stage.word() == status).ok_or_else(|| {
        let known: Vec<&str> = Stage::all().map(Stage::word).collect();
        let detail = format!("status {status:?} is not one of {}", known.join(", "));
        Problem::new(Kind::BadQuery, detail)
    })
}

pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Ids(id): Ids<SessionId>,
    _: Params<Nothing>,
) -> Result<impl IntoResponse, Problem> {
    Ok(Answer(StatusCode::OK, app.gateway.session(&id)?))
}

pub(crate) async fn change(
    CallersGateway(gateway): CallersGateway,
    Ids(id): Ids<SessionId>,
    _: Params<Nothing>,
    Strict(body): Strict<Patch>,
) -> Result<impl IntoResponse, Problem> {
    let Patch { title, model, mode, permissions, on_limit, limit_window, on_failure, continue_with } = body;
    let unattended = UnattendedChange { on_limit, limit_window, on_failure, continue_with };
    let change = Change { title, model, mode, permissions, unattended };
    let changed = gateway.change(&id, change).await?;
    Ok(Answer(StatusCode::OK, changed))
}

pub(crate) async fn resume(
    CallersGateway(gateway): CallersGateway,
    Ids(id): Ids<SessionId>,
    _: Params<Nothing>,
    Strict(Resume { r#as }): Strict<Resume>,
) -> Result<impl IntoResponse, Problem> {
    Ok(Answer(StatusCode::OK, gateway.resume(&id, r#as).await?))
}

pub(crate) async fn budget(
    CallersGateway(gateway): CallersGateway,
    Ids(id): Ids<SessionId>,
    _: Params<Nothing>,
    Strict(change): Strict<BudgetChange>,
) -> Result<impl IntoResponse, Problem> {
    Ok(Answer(StatusCode::OK, gateway.set_budget(&id, change).await?))
}

pub(crate) async fn delete(
    CallersGateway(gateway): CallersGateway,
    Ids(id): Ids<SessionId>,
    _: Params<Nothing>,
) -> Result<impl IntoResponse, Problem> {
    let (status, removed) = match gateway.delete(&id).await? {
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
