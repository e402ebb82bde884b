//! `GET /metrics`: metrics in the text format of Prometheus.

use crate::app::App;
use crate::metrics::page;
use crate::params::{Nothing, Params};
use crate::problem::Problem;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use std::sync::Arc;
use turnstream_gateway::RequestError;

pub(crate) async fn show(
    State(app): State<Arc<App>>,
    _: Params<Nothing>,
) -> Result<impl IntoResponse, Problem> {
    // Blocking: what agents use is read from files.
    let page = tokio::task::spawn_blocking(move || page(&app)).await.map_err(RequestError::log)?;
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, text)], page))
}
