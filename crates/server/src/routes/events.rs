//! `…/events`: the log of one session as server-sent events; `/v1/events`: the states of all sessions.

use crate::app::App;
use crate::limits::Guarded;
use crate::params::{Heartbeat, Ids, Params, StreamParams};
use crate::problem::Problem;
use crate::stream::{Carrier, Form, StreamKind, Subscriber, session_states_body, sse_body, sse_response};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use std::sync::Arc;
use turnstream_model::id::SessionId;

/// The query of `/v1/events`. It has no cursor: the stream begins with the states of all sessions.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AllParams {
    #[serde(default)]
    heartbeat: Heartbeat,
}

pub(crate) async fn one(
    State(app): State<Arc<App>>,
    Ids(id): Ids<SessionId>,
    Params(params): Params<StreamParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let cursor = params.cursor(&headers)?;
    let form = Form { dialect: params.dialect()?, carrier: Carrier::Sse };
    let follower = app.in_use.followers.join()?;
    let (subscriber, outcome) = Subscriber::open(app.hubs.clone(), id, &cursor, form).await?;
    let body = sse_body(subscriber, outcome, params.heartbeat, app.options.heartbeat);
    Ok(Guarded::response(sse_response(body), follower))
}

pub(crate) async fn all(
    State(app): State<Arc<App>>,
    Params(params): Params<AllParams>,
) -> Result<Response, Problem> {
    let follower = app.in_use.followers.join()?;
    let watcher = app.gateway.watch();
    let open = app.streams.open(StreamKind::SessionStates);
    let closing = app.closing.clone();
    let body = session_states_body(watcher, closing, params.heartbeat, app.options.heartbeat, open);
    Ok(Guarded::response(sse_response(body), follower))
}
