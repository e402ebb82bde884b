//! `…/events`: the log of one session as server-sent events; `/v1/events`: the states of all sessions.

use crate::access::Credential;
use crate::app::App;
use crate::limits::Guarded;
use crate::params::{Heartbeat, Ids, Params, StreamParams};
use crate::problem::Problem;
use crate::stream::{Carrier, Form, StreamKind, Subscriber, session_states_body, sse_body, sse_response};
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::StreamExt;
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
    Extension(credential): Extension<Credential>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let cursor = params.cursor(&headers)?;
    let form = Form { dialect: params.dialect()?, carrier: Carrier::Sse };
    let follower = app.in_use.followers.join()?;
    let (subscriber, outcome) = Subscriber::open(app.hubs.clone(), id, &cursor, form).await?;
    let body = sse_body(subscriber, outcome, params.heartbeat, app.options.heartbeat);
    let body = while_allowed(app, credential, body);
    Ok(Guarded::response(sse_response(body), follower))
}

pub(crate) async fn all(
    State(app): State<Arc<App>>,
    Params(params): Params<AllParams>,
    Extension(credential): Extension<Credential>,
) -> Result<Response, Problem> {
    let follower = app.in_use.followers.join()?;
    let watcher = app.gateway.watch();
    let open = app.streams.open(StreamKind::SessionStates);
    let closing = app.closing.clone();
    let body = session_states_body(watcher, closing, params.heartbeat, app.options.heartbeat, open);
    let body = while_allowed(app, credential, body);
    Ok(Guarded::response(sse_response(body), follower))
}

/// The stream, which ends when its token or ticket does.
fn while_allowed(app: Arc<App>, credential: Credential, body: Body) -> Body {
    let ended = async move { app.access.until_ended(credential).await };
    Body::from_stream(body.into_data_stream().take_until(Box::pin(ended)))
}
