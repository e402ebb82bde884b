//! `GET /v1/health`: the health of the log. It answers at once, whatever the sessions do.

use super::Answer;
use crate::app::App;
use crate::params::{Nothing, Params};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::json;
use std::sync::Arc;
use turnstream_log::Health;

pub(crate) async fn show(State(app): State<Arc<App>>, _: Params<Nothing>) -> impl IntoResponse {
    let (status, problem) = match app.gateway.health() {
        Health::Sound => ("sound", None),
        Health::Degraded { since: _, problem } => ("degraded", Some(problem)),
        Health::Failed { problem } => ("failed", Some(problem)),
    };
    let mut health = json!({
        "status": status,
        "version": env!("CARGO_PKG_VERSION"),
        "recovering": app.gateway.recovering(),
    });
    if let Some(problem) = problem {
        health["problem"] = json!(problem.to_string());
    }
    Answer(StatusCode::OK, health)
}
