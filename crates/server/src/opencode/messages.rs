//! Messages of a session, a page at a time.

use super::answer::{Answer, Failure, Json};
use super::lookup::state_of;
use super::request::Asked;
use crate::app::App;
use crate::params::Ids;
use axum::extract::State as Shared;
use serde_json::Value;
use std::sync::Arc;
use turnstream_dialects::opencode::{self, Message};

/// The last `limit` messages, or those before the message `before`.
pub(super) async fn list(Shared(app): Shared<Arc<App>>, Ids(id): Ids<String>, asked: Asked) -> Answer {
    let limit = asked.number("limit")?;
    let mut messages = all(&app, &id).await?;
    if let Some(before) = asked.get("before") {
        messages.retain(|message| message.id.as_str() < before);
    }
    let first = limit.map_or(0, |limit| messages.len().saturating_sub(limit as usize));
    Ok(Json(Value::Array(messages[first..].iter().map(Message::to_json).collect())))
}

pub(super) async fn show(Shared(app): Shared<Arc<App>>, Ids((id, message)): Ids<(String, String)>) -> Answer {
    let messages = all(&app, &id).await?;
    let found = messages.iter().find(|known| known.id == message);
    let missing = || Failure::not_found(format!("Message not found: {message}"));
    Ok(Json(found.ok_or_else(missing)?.to_json()))
}

async fn all(app: &App, id: &str) -> Result<Vec<Message>, Failure> {
    let (state, named) = state_of(app, id).await?;
    let render = move || opencode::messages(&state, &named);
    tokio::task::spawn_blocking(render).await.map_err(super::answer::off_thread)
}
