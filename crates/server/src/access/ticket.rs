//! Tickets in the query of a stream: browsers cannot send headers with an EventSource or a WebSocket.

use super::query_secret;
use axum::extract::Request;
use axum::http::Method;

/// A ticket that a request shows, and the session whose stream it asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ShownTicket {
    pub(super) text: String,
    /// `None` for the streams over all sessions.
    pub(super) session: Option<String>,
}

/// Takes the ticket out of the query, so that nothing behind the access check sees it. Only streams have one.
pub(super) fn take(request: &mut Request) -> Option<ShownTicket> {
    let session = stream(request.method(), request.uri().path())?.map(str::to_owned);
    Some(ShownTicket { text: query_secret::take(request, "ticket")?, session })
}

/// Whether this is a stream: `Some(None)` over all sessions, `Some(Some(id))` of one.
fn stream<'a>(method: &Method, path: &'a str) -> Option<Option<&'a str>> {
    (method == Method::GET).then_some(())?;
    if matches!(path, "/v1/events" | "/v1/ws") {
        return Some(None);
    }
    let (session, stream) = path.strip_prefix("/v1/sessions/")?.split_once('/')?;
    matches!(stream, "events" | "ws").then_some(Some(session))
}

#[cfg(test)]
mod tests {
    use super::{ShownTicket, take};
    use axum::body::Body;
    use axum::extract::Request;

    #[test]
    fn a_ticket_is_taken_out_of_the_query_of_a_stream_only() {
        let taken = |method: &str, uri: &str| {
            let mut request = Request::builder().method(method).uri(uri).body(Body::empty()).unwrap();
            let ticket = take(&mut request);
            (ticket, request.uri().to_string())
        };
        let shown = |session: Option<&str>| {
            Some(ShownTicket { text: "t-1_x".to_owned(), session: session.map(str::to_owned) })
        };
        assert_eq!(taken("GET", "/v1/events?ticket=t-1_x"), (shown(None), "/v1/events".to_owned()));
        assert_eq!(
            taken("GET", "/v1/sessions/ses_1/ws?after=3&ticket=t-1_x&dialect=acp"),
            (shown(Some("ses_1")), "/v1/sessions/ses_1/ws?after=3&dialect=acp".to_owned())
        );
        for (method, uri) in [
            ("GET", "/v1/events"),
            ("GET", "/v1/sessions?ticket=t-1_x"),
            ("GET", "/v1/sessions/ses_1/export?ticket=t-1_x"),
            ("GET", "/v1/sessions/ses_1/events/more?ticket=t-1_x"),
            ("POST", "/v1/events?ticket=t-1_x"),
        ] {
            assert_eq!(taken(method, uri), (None, uri.to_owned()));
        }
    }
}
