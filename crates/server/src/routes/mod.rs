//! The routes of `/v1`, one file per group. Each reads the request, calls the gateway and answers.

pub(crate) mod agents;
pub(crate) mod directories;
pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod gateway;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod import;
pub(crate) mod llm;
pub(crate) mod login;
pub(crate) mod metrics;
pub(crate) mod prompts;
pub(crate) mod search;
pub(crate) mod sessions;
pub(crate) mod tickets;
pub(crate) mod waits;
pub(crate) mod ws;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// A JSON response.
struct Answer<T>(StatusCode, T);

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        // Fails only for maps with keys that are not strings, which these types do not have.
        let body = serde_json::to_vec(&self.1).unwrap_or_default();
        let json = HeaderValue::from_static("application/json");
        (self.0, [(header::CONTENT_TYPE, json)], body).into_response()
    }
}
