//! `GET /v1/health`: whether the gateway is alive, for everybody; `GET /v1/ready`: whether it can be used,
//! and why not. Both answer at once, whatever the sessions do.

use super::Answer;
use crate::app::App;
use crate::params::{Nothing, Params};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::json;
use std::sync::Arc;
use turnstream_log::Health;

/// Needs no token, so it says one word.
pub(crate) async fn alive(State(app): State<Arc<App>>, _: Params<Nothing>) -> impl IntoResponse {
    let status = match app.gateway.health() {
        Health::Sound => "alive",
        Health::Degraded { .. } | Health::Failed { .. } => "degraded",
    };
    Answer(StatusCode::OK, json!({"status": status}))
}

pub(crate) async fn ready(State(app): State<Arc<App>>, _: Params<Nothing>) -> impl IntoResponse {
    let (code, status, problem) = match app.gateway.health() {
        Health::Sound => (StatusCode::OK, "sound", None),
        Health::Degraded { since: _, problem } => {
            (StatusCode::SERVICE_UNAVAILABLE, "degraded", Some(problem))
        }
        Health::Failed { problem } => (StatusCode::SERVICE_UNAVAILABLE, "failed", Some(problem)),
    };
    let mut ready = json!({
        "status": status,
        "version": env!("CARGO_PKG_VERSION"),
        "recovering": app.gateway.recovering(),
    });
    if let Some(problem) = problem {
        ready["problem"] = json!(problem.to_string());
    }
    Answer(code, ready)
}
