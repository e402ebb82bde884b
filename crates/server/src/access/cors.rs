//! CORS answers for the pages of listed origins. Credentials of the browser are never allowed: a page sends
//! its token in a header.

use super::origin::{Origin, Page};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// The request headers that a page may send.
const REQUEST_HEADERS: &str = "authorization, content-type, last-event-id, x-request-id";
/// The response headers that a page may read.
const EXPOSED_HEADERS: &str = "retry-after, x-request-id, www-authenticate";
const METHODS: &str = "GET, HEAD, POST, PATCH, DELETE";
/// Seconds for which a browser may keep the answer to a preflight.
const MAX_AGE: &str = "600";

/// The answer to a preflight of a listed origin. It needs no token, since browsers send none with it.
pub(crate) fn preflight(method: &Method, headers: &HeaderMap, page: Page<'_>) -> Option<Response> {
    let Page::Listed(origin) = page else { return None };
    let asks = headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    (method == Method::OPTIONS && asks).then(|| {
        let mut response = StatusCode::NO_CONTENT.into_response();
        let answer = response.headers_mut();
        answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
        answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(REQUEST_HEADERS));
        answer.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
        allow(&mut response, origin);
        response
    })
}

/// Lets a page of this origin read the response.
pub(crate) fn allow(response: &mut Response, origin: &Origin) {
    let headers = response.headers_mut();
    // An origin was parsed from ASCII without spaces.
    if let Ok(origin) = HeaderValue::from_str(origin.as_str()) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED_HEADERS));
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}
