//! `GET /v1/agents`: the agents, configured or found.

use super::Answer;
use crate::app::App;
use crate::params::{Nothing, Params};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Serialize;
use std::sync::Arc;
use turnstream_adapter::Description;

#[derive(Serialize)]
struct Agents {
    /// The agent for clients that do not name one.
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<String>,
    agents: Vec<Named>,
}

#[derive(Serialize)]
struct Named {
    name: String,
    #[serde(flatten)]
    description: Description,
    /// What it takes in prompts.
    takes: Vec<&'static str>,
}

pub(crate) async fn list(State(app): State<Arc<App>>, _: Params<Nothing>) -> impl IntoResponse {
    let named = |(name, description): (String, Description)| {
        let takes = app.gateway.content_types(&name);
        Named { name, description, takes }
    };
    let agents = app.gateway.probe_agents().await.into_iter().map(named).collect();
    Answer(StatusCode::OK, Agents { default: app.options.default_agent.clone(), agents })
}
