//! Answers in opencode's form. An error is `{"name":…,"data":{"message":…}}` with a status.

use crate::problem::{Kind, Problem};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use turnstream_gateway::RequestError;

/// The answer of a route.
pub(super) type Answer = Result<Json, Failure>;

/// JSON with status 200.
pub(super) struct Json(pub(super) Value);

impl IntoResponse for Json {
    fn into_response(self) -> Response {
        body(StatusCode::OK, &self.0)
    }
}

/// A refused request.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    name: &'static str,
    message: String,
}

impl Failure {
    /// There is no such thing.
    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, name: "NotFoundError", message: message.into() }
    }

    /// The request is wrong.
    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, name: "BadRequest", message: message.into() }
    }

    /// The path has other methods.
    pub(super) fn wrong_method(message: impl Into<String>) -> Self {
        Self { status: StatusCode::METHOD_NOT_ALLOWED, name: "BadRequest", message: message.into() }
    }

    /// It was tried, and failed.
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, name: "UnknownError", message: message.into() }
    }

    /// Another server does not answer.
    pub(super) fn bad_gateway(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_GATEWAY, name: "UnknownError", message: message.into() }
    }

    /// The gateway, or the agent of the session, cannot do it.
    pub(super) fn not_supported(what: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_IMPLEMENTED, name: "NotSupportedError", message: what.into() }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let body = problem.body();
        let status = body["status"].as_u64().and_then(|status| StatusCode::from_u16(status as u16).ok());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let name = match status {
            StatusCode::NOT_FOUND => "NotFoundError",
            StatusCode::CONFLICT => "ConflictError",
            StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailableError",
            status if status.is_client_error() => "BadRequest",
            _ => "UnknownError",
        };
        // The part without advice about other routes, if the problem has one.
        let message = body["reason"].as_str().or(body["detail"].as_str()).unwrap_or_default();
        Self { status, name, message: message.to_owned() }
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        Problem::from(error).into()
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self { status, name, message } = self;
        body(status, &json!({"name": name, "data": {"message": message}}))
    }
}

fn body(status: StatusCode, value: &Value) -> Response {
    let json = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, json)], value.to_string()).into_response()
}

/// Work that failed on another thread.
pub(super) fn off_thread(error: tokio::task::JoinError) -> Failure {
    Problem::new(Kind::Internal, format!("the request failed: {error}")).into()
}
