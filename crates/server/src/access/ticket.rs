//! Tickets in the query of a stream: browsers cannot send headers with an EventSource or a WebSocket.

use axum::extract::Request;
use axum::http::{Method, Uri};

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
    let query = request.uri().query()?;
    let mut text = None;
    let rest: Vec<&str> = query
        .split('&')
        .filter(|pair| match pair.strip_prefix("ticket=") {
            Some(ticket) => {
                text = Some(ticket.to_owned());
                false
            }
            None => true,
        })
        .collect();
    let text = text?;
    if let Some(uri) = with_query(request.uri(), &rest.join("&")) {
        *request.uri_mut() = uri;
    }
    Some(ShownTicket { text, session })
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

fn with_query(uri: &Uri, query: &str) -> Option<Uri> {
    let mut parts = uri.clone().into_parts();
    let path = uri.path();
    let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    parts.path_and_query = Some(target.parse().ok()?);
    Uri::from_parts(parts).ok()
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
