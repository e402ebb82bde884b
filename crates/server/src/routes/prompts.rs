//! `…/prompts` and `…/cancel`: what a person wants of the agent.

use super::Answer;
use crate::app::App;
use crate::body::{Optional, Strict};
use crate::params::{Ids, Nothing, Params};
use crate::problem::Problem;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use turnstream_gateway::NewPrompt;
use turnstream_model::id::{PromptId, SessionId, TurnId};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Add {
    content: Vec<Value>,
    key: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cancel {
    turn: Option<TurnId>,
}

pub(crate) async fn add(
    State(app): State<Arc<App>>,
    Ids(id): Ids<SessionId>,
    _: Params<Nothing>,
    Strict(Add { content, key }): Strict<Add>,
) -> Result<impl IntoResponse, Problem> {
    let accepted = app.gateway.prompt(&id, NewPrompt { content, key }).await?;
    let answer = json!({"prompt": accepted.prompt, "position": accepted.position});
    Ok(Answer(StatusCode::ACCEPTED, answer))
}

pub(crate) async fn withdraw(
    State(app): State<Arc<App>>,
    Ids((id, prompt)): Ids<(SessionId, PromptId)>,
    _: Params<Nothing>,
) -> Result<impl IntoResponse, Problem> {
    app.gateway.withdraw(&id, &prompt).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    Ids(id): Ids<SessionId>,
    _: Params<Nothing>,
    Optional(Cancel { turn }): Optional<Cancel>,
) -> Result<impl IntoResponse, Problem> {
    let turn = app.gateway.cancel(&id, turn).await?;
    Ok(Answer(StatusCode::ACCEPTED, json!({"turn": turn})))
}
