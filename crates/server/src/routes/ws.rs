//! `…/ws`: the log of one session over a WebSocket, with the same frames as `…/events`; `/v1/ws`: several
//! sessions on one.

use crate::access::Credential;
use crate::app::App;
use crate::params::{Ids, Nothing, Params, StreamParams};
use crate::problem::{Kind, Problem};
use crate::stream::{Carrier, Form, StreamKind, Subscriber, serve_session, serve_sessions};
use axum::Extension;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::HeaderMap;
use axum::response::Response;
use std::sync::Arc;
use turnstream_model::id::SessionId;

/// Bytes that are collected before they are written.
const WRITE_BUFFER: usize = 32 * 1024;
/// Largest message of a client. Clients send only pings, closes and subscriptions.
const READ_BUFFER: usize = 4 * 1024;

pub(crate) async fn one(
    State(app): State<Arc<App>>,
    Ids(id): Ids<SessionId>,
    Params(params): Params<StreamParams>,
    Extension(credential): Extension<Credential>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let cursor = params.cursor(&headers)?;
    let form = Form { dialect: params.dialect()?, carrier: Carrier::Lines };
    let upgrade = upgraded(upgrade)?;
    let follower = app.in_use.followers.join()?;
    let (subscriber, outcome) = Subscriber::open(app.hubs.clone(), id, &cursor, form).await?;
    Ok(upgrade.on_upgrade(async move |socket| {
        let _follower = follower;
        let closing = app.closing.clone();
        tokio::select! {
            () = serve_session(socket, subscriber, outcome, app.options.heartbeat, closing.begun()) => {}
            () = app.access.until_ended(credential) => {}
        }
    }))
}

pub(crate) async fn several(
    State(app): State<Arc<App>>,
    _: Params<Nothing>,
    Extension(credential): Extension<Credential>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let upgrade = upgraded(upgrade)?;
    let follower = app.in_use.followers.join()?;
    Ok(upgrade.on_upgrade(async move |socket| {
        let _follower = follower;
        let (watcher, closing) = (app.gateway.watch(), app.closing.clone());
        let _open = app.streams.open(StreamKind::SessionStates);
        let hubs = app.hubs.clone();
        tokio::select! {
            () = serve_sessions(socket, hubs, watcher, app.options.heartbeat, closing.begun()) => {}
            () = app.access.until_ended(credential) => {}
        }
    }))
}

fn upgraded(
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<WebSocketUpgrade, Problem> {
    let upgrade = upgrade.map_err(|error| {
        let detail =
            format!("{error}; connect with a WebSocket client, or read the same frames by SSE from …/events");
        Problem::new(Kind::NoWebSocket, detail)
    })?;
    Ok(upgrade
        .write_buffer_size(WRITE_BUFFER)
        .read_buffer_size(READ_BUFFER)
        .max_message_size(READ_BUFFER)
        .max_frame_size(READ_BUFFER))
}
