//! One POST on one connection, and the head and pieces of its answer.

use super::address::Address;
use super::call::Call;
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
use turnstream_model::event::ErrorClass;

/// An answer that has begun. Dropped, it hangs up.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: Headers,
    body: Incoming,
    _connection: Connection,
}

/// The task that moves the bytes of a connection.
struct Connection(AbortHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends the request of a call, once.
pub(super) async fn post(connector: &Connector, call: &Call) -> Result<Response, Failure> {
    let address = Address::of(&call.route.url)?;
    let request = request(&address, call)?;
    let socket = connector.open(&address).await?;
    let failed = |error: hyper::Error| transport(&error, Phase::Request);
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await.map_err(failed)?;
    // What the connection dies of is told by the answer too.
    let connection = Connection(tokio::spawn(connection).abort_handle());
    let answer = sender.send_request(request).await.map_err(failed)?;
    let (head, body) = answer.into_parts();
    let text = |(name, value): (&HeaderName, &HeaderValue)| {
        Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
    };
    let headers = Headers(head.headers.iter().filter_map(text).collect());
    Ok(Response { status: head.status.as_u16(), headers, body, _connection: connection })
}

impl Response {
    /// The next bytes of the body; none after its end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(transport(&error, Phase::Body)),
                // Trailers say nothing of interest.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) if bytes.is_empty() => {}
                    Ok(bytes) => return Ok(Some(bytes)),
                    Err(_) => {}
                },
            }
        }
    }
}

fn request(address: &Address, call: &Call) -> Result<Request<Full<Bytes>>, Failure> {
    let mut request = Request::new(Full::new(call.body.clone()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = address.path().parse().map_err(|_| unusable("its path is none"))?;
    let headers = request.headers_mut();
    for (name, value) in &call.route.headers {
        let wrong =
            || unusable(&format!("{name:?} is no header, or its value has characters that none can have"));
        let value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        headers.append(HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?, value);
    }
    let host = HeaderValue::from_str(address.authority()).map_err(|_| unusable("its host is none"))?;
    headers.entry(HOST).or_insert(host);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    // Proxies leave the header and unpack the body, or the other way round.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Ok(request)
}

/// The address or a header: nothing was sent, and nothing would be.
fn unusable(problem: &str) -> Failure {
    let message = format!("the request cannot be made: {problem}; correct the route");
    Failure::new(ErrorClass::InvalidRequest, Source::Ours, message)
}
