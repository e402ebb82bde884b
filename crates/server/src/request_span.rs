//! The span and the id of every request.

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use std::time::Instant;
use tracing::Instrument;
use tracing::field::Empty;

/// The header with the id of a request, in the request and in its answer.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest id that is accepted from a client.
const LONGEST_ID: usize = 64;

/// Handles a request in its span, and sends its id back.
///
/// The span ends with the head of the response: the body of a stream is sent outside it. Its level is the
/// highest, so that lines of every level have it.
pub(crate) async fn trace(request: Request, next: Next) -> Response {
    let id = client_id(request.headers()).unwrap_or_else(new_id);
    // The template and not the path: ids would make every route another one.
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str);
    let span = tracing::error_span!(
        parent: None,
        "request",
        method = %request.method(),
        route,
        status = Empty,
        request = id.to_str().unwrap_or_default(),
    );
    let started = Instant::now();
    let mut response = next.run(request).instrument(span.clone()).await;
    span.record("status", response.status().as_u16());
    let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    span.in_scope(|| tracing::debug!(duration_ms, "request answered"));
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// The client's id of the request, if it is short and can be printed anywhere.
fn client_id(headers: &HeaderMap) -> Option<HeaderValue> {
    let is_harmless = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let id = headers.get(REQUEST_ID)?;
    let length = id.as_bytes().len();
    (1..=LONGEST_ID).contains(&length).then_some(())?;
    id.as_bytes().iter().all(is_harmless).then(|| id.clone())
}

fn new_id() -> HeaderValue {
    // Hexadecimal digits are a valid header value.
    HeaderValue::from_str(&format!("{:016x}", fastrand::u64(..)))
        .unwrap_or_else(|_| HeaderValue::from_static("none"))
}

#[cfg(test)]
mod tests {
    use super::{HeaderMap, HeaderValue, LONGEST_ID, REQUEST_ID, client_id};

    #[test]
    fn only_a_short_and_harmless_id_is_taken_from_a_client() {
        let taken = |id: &[u8]| {
            let value = HeaderValue::from_bytes(id).unwrap();
            client_id(&HeaderMap::from_iter([(REQUEST_ID, value)])).is_some()
        };
        assert!(taken(b"req-1_2.A") && taken(&[b'a'; LONGEST_ID]));
        for refused in [&b""[..], b"a b", b"a\"b", b"\xffa", b"<b>", &[b'a'; LONGEST_ID + 1]] {
            assert!(!taken(refused), "{refused:?}");
        }
        assert_eq!(client_id(&HeaderMap::new()), None);
    }
}
