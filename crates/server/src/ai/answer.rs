//! Refusals. The SDK's clients show the body of an error as it is, so it is a sentence and not a document.

use crate::problem::Problem;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use turnstream_gateway::RequestError;

/// A refused request.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    sentence: String,
    retry_after: Option<HeaderValue>,
}

impl Failure {
    /// The request is wrong.
    pub(super) fn bad(sentence: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, sentence: sentence.into(), retry_after: None }
    }

    /// The request is understood, and a session cannot do this.
    pub(super) fn refused(sentence: impl Into<String>) -> Self {
        Self { status: StatusCode::CONFLICT, sentence: sentence.into(), retry_after: None }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let body = problem.body();
        // The part without advice about other routes, if the problem has one.
        let sentence = body["reason"].as_str().or(body["detail"].as_str()).unwrap_or_default().to_owned();
        let response = problem.into_response();
        let retry_after = response.headers().get(header::RETRY_AFTER).cloned();
        Self { status: response.status(), sentence, retry_after }
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        Problem::from(error).into()
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self { status, sentence, retry_after } = self;
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        let mut response = (status, [(header::CONTENT_TYPE, text)], sentence).into_response();
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}
