//! The page at `/`: a browser signs in, and sees the states of all sessions. Its files are in the binary.

use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;

/// Only files of this page, and requests to this gateway.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// The paths of the page. They need no token: they hold nothing, and the page has none when it is loaded.
pub(crate) const PATHS: [&str; 3] = ["/", "/page.css", "/page.js"];

pub(crate) async fn index() -> impl IntoResponse {
    file("text/html; charset=utf-8", include_str!("index.html"))
}

pub(crate) async fn style() -> impl IntoResponse {
    file("text/css; charset=utf-8", include_str!("page.css"))
}

pub(crate) async fn script() -> impl IntoResponse {
    file("text/javascript; charset=utf-8", include_str!("page.js"))
}

fn file(kind: &'static str, text: &'static str) -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    ];
    (headers, text)
}
