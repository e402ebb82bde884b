//! `/llm/{route}/…`: the proxy for model providers.

use crate::app::App;
use crate::problem::{Kind, Problem};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// The route, as it is declared.
pub(crate) const ROUTE: &str = "/llm/{*path}";
/// How each path begins.
const PREFIX: &str = "/llm/";

pub(crate) async fn call(State(app): State<Arc<App>>, request: Request) -> Response {
    let Some(proxy) = &app.options.proxy else {
        let detail = "there is no route to a model provider";
        return Problem::new(Kind::UnknownRoute, detail)
            .advice("add one to the configuration: [llm.routes.NAME]")
            .into_response();
    };
    let path = below(request.uri().path()).to_owned();
    proxy.answer(&path, request).await
}

/// The part of a path that the proxy reads.
pub(crate) fn below(path: &str) -> &str {
    path.strip_prefix(PREFIX).unwrap_or_default()
}
