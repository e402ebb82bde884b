//! `GET /v1/agents`: what sessions can be made with.

use super::Answer;
use crate::app::App;
use crate::params::{Nothing, Params};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Serialize;
use std::sync::Arc;
use turnstream_agents::Description;

#[derive(Serialize)]
struct Agents {
    agents: Vec<Named>,
}

#[derive(Serialize)]
struct Named {
    name: String,
    #[serde(flatten)]
    description: Description,
}

pub(crate) async fn list(State(app): State<Arc<App>>, _: Params<Nothing>) -> impl IntoResponse {
    let named = |(name, description)| Named { name, description };
    Answer(StatusCode::OK, Agents { agents: app.gateway.agents().into_iter().map(named).collect() })
}
