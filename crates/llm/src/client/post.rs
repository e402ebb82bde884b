//! One request on one connection, and its response.

use super::ClientError;
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
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::AbortHandle;
use tracing::{Instrument, debug};
use turnstream_model::Chain;
use turnstream_model::event::ErrorClass;

/// Sends single requests, each on a connection of its own. It repeats, redirects and decompresses nothing.
///
/// [`Client`](super::Client) is for answers of models. This is for programs that pass bytes on.
#[derive(Clone)]
pub struct HttpClient(Arc<Connector>);

/// One request.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// The method.
    pub method: HttpMethod,
    /// The full URL.
    pub url: String,
    /// Its headers. `host` and `content-length` follow from the rest.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Bytes,
}

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpMethod {
    /// `GET`
    Get,
    /// `POST`
    Post,
}

/// A response whose headers have arrived. Dropping it closes the connection.
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// The headers that are ASCII.
    pub headers: Headers,
    body: Incoming,
    _connection: Connection,
}

impl HttpClient {
    /// Creates a client. It opens no connection yet.
    ///
    /// # Errors
    ///
    /// [`ClientError::Authorities`] if the file of certificate authorities cannot be used.
    pub fn new(connect: Duration, authorities: Option<&Path>) -> Result<Self, ClientError> {
        Ok(Self(Arc::new(Connector::new(connect, authorities)?)))
    }

    /// Sends a request, once, and returns its response when the headers have arrived.
    ///
    /// # Errors
    ///
    /// The classified [`Failure`] of the connection.
    pub async fn send(&self, request: &HttpRequest) -> Result<HttpResponse, Failure> {
        send(&self.0, request).await
    }
}

/// The task that drives a connection.
struct Connection(AbortHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends the request of a call, once.
pub(super) async fn post(connector: &Connector, call: &ModelCall) -> Result<HttpResponse, Failure> {
    let mut headers = call.route.headers.clone();
    headers.retain(|(name, _)| {
        ![CONTENT_TYPE, ACCEPT].iter().any(|own| name.eq_ignore_ascii_case(own.as_str()))
    });
    headers.push((CONTENT_TYPE.to_string(), "application/json".to_owned()));
    headers.push((ACCEPT.to_string(), "text/event-stream".to_owned()));
    let url = call.route.url.clone();
    send(connector, &HttpRequest { method: HttpMethod::Post, url, headers, body: call.body.clone() }).await
}

/// Asks for a document, once.
pub(super) async fn get(
    connector: &Connector,
    url: &str,
    headers: &[(String, String)],
) -> Result<HttpResponse, Failure> {
    let mut headers = headers.to_vec();
    headers.retain(|(name, _)| !name.eq_ignore_ascii_case(ACCEPT.as_str()));
    headers.push((ACCEPT.to_string(), "application/json".to_owned()));
    let (method, url, body) = (HttpMethod::Get, url.to_owned(), Bytes::new());
    send(connector, &HttpRequest { method, url, headers, body }).await
}

async fn send(connector: &Connector, request: &HttpRequest) -> Result<HttpResponse, Failure> {
    let address = Address::parse(&request.url)?;
    let request = hyper_request(&address, request)?;
    let socket = connector.open(&address).await?;
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
    Ok(HttpResponse { status: head.status.as_u16(), headers, body, _connection: connection })
}

impl HttpResponse {
    /// The next bytes of the body; `None` after its end.
    ///
    /// # Errors
    ///
    /// The classified [`Failure`] of a connection that broke.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
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

fn hyper_request(address: &Address, asked: &HttpRequest) -> Result<Request<Full<Bytes>>, Failure> {
    let mut request = Request::new(Full::new(asked.body.clone()));
    *request.method_mut() = match asked.method {
        HttpMethod::Get => Method::GET,
        HttpMethod::Post => Method::POST,
    };
    *request.uri_mut() =
        address.path().parse().map_err(|error| unusable(&format!("the path is invalid: {error}")))?;
    let headers = request.headers_mut();
    for (name, value) in &asked.headers {
        let wrong =
            || unusable(&format!("{name:?} is not a header name, or its value has invalid characters"));
        let value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        headers.append(HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?, value);
    }
    let host = HeaderValue::from_str(address.authority())
        .map_err(|_| unusable("the host has invalid characters"))?;
    headers.entry(HOST).or_insert(host);
    // Proxies decompress the body and keep the header, or the other way round.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Ok(request)
}

/// The failure of a route that cannot be used. Nothing was sent.
fn unusable(problem: &str) -> Failure {
    let message = format!("the request cannot be made: {problem}; correct the route");
    Failure::new(ErrorClass::InvalidRequest, Source::Ours, message)
}
