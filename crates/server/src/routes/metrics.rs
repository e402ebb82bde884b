//! `GET /metrics`: metrics in the text format of Prometheus.

use crate::app::App;
use crate::metrics::page;
use crate::params::{Nothing, Params};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use std::sync::Arc;

pub(crate) async fn show(State(app): State<Arc<App>>, _: Params<Nothing>) -> impl IntoResponse {
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, text)], page(&app))
}
