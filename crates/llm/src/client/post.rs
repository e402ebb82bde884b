//! One request on one connection, and its response.

use super::address::Address;
use super::call::ModelCall;
use super::connect::Connector;
use crate::classify::{Failure, Phase, Source, transport};
use crate::delay::Headers;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::task::AbortHandle;
use tracing::{Instrument, debug};
use turnstream_model::Chain;
use turnstream_model::event::ErrorClass;

/// A response whose headers have arrived. Dropping it closes the connection.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: Headers,
    body: Incoming,
    _connection: Connection,
}

/// The task that drives a connection.
struct Connection(AbortHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends the request of a call, once.
pub(super) async fn post(connector: &Connector, call: &ModelCall) -> Result<Response, Failure> {
    let address = Address::parse(&call.route.url)?;
    let request = request(&address, Method::POST, &call.route.headers, call.body.clone())?;
    send(connector, &address, request).await
}

/// Asks for a document, once.
pub(super) async fn get(
    connector: &Connector,
    url: &str,
    headers: &[(String, String)],
) -> Result<Response, Failure> {
    let address = Address::parse(url)?;
    let mut request = request(&address, Method::GET, headers, Bytes::new())?;
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
    send(connector, &address, request).await
}

async fn send(
    connector: &Connector,
    address: &Address,
    request: Request<Full<Bytes>>,
) -> Result<Response, Failure> {
    let socket = connector.open(address).await?;
    let failed = |error: hyper::Error| transport(&error, Phase::Request);
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await.map_err(failed)?;
    let drive = async move {
        // The response reports the same failure; this line has its full chain.
        if let Err(error) = connection.await {
            debug!(error = %Chain(&error), "the connection ended with an error");
        }
    };
    let connection = Connection(tokio::spawn(drive.in_current_span()).abort_handle());
    let answer = sender.send_request(request).await.map_err(failed)?;
    let (head, body) = answer.into_parts();
    let text = |(name, value): (&HeaderName, &HeaderValue)| match value.to_str() {
        Ok(value) => Some((name.as_str().to_owned(), value.to_owned())),
        Err(_) => {
            debug!(header = %name, "ignoring a response header that is not ASCII");
            None
        }
    };
    let headers = Headers(head.headers.iter().filter_map(text).collect());
    Ok(Response { status: head.status.as_u16(), headers, body, _connection: connection })
}

impl Response {
    /// The next bytes of the body; `None` after its end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(transport(&error, Phase::Body)),
                // Trailers are ignored.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) if bytes.is_empty() => {}
                    Ok(bytes) => return Ok(Some(bytes)),
                    Err(_) => {}
                },
            }
        }
    }
}

fn request(
    address: &Address,
    method: Method,
    given: &[(String, String)],
    body: Bytes,
) -> Result<Request<Full<Bytes>>, Failure> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() =
        address.path().parse().map_err(|error| unusable(&format!("the path is invalid: {error}")))?;
    let headers = request.headers_mut();
    for (name, value) in given {
        let wrong =
            || unusable(&format!("{name:?} is not a header name, or its value has invalid characters"));
        let value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        headers.append(HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?, value);
    }
    let host = HeaderValue::from_str(address.authority())
        .map_err(|_| unusable("the host has invalid characters"))?;
    headers.entry(HOST).or_insert(host);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    // Proxies decompress the body and keep the header, or the other way round.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Ok(request)
}

/// The failure of a route that cannot be used. Nothing was sent.
fn unusable(problem: &str) -> Failure {
    let message = format!("the request cannot be made: {problem}; correct the route");
    Failure::new(ErrorClass::InvalidRequest, Source::Ours, message)
}
