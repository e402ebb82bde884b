//! One request, once, and its response.

use super::ClientError;
use super::address::Address;
use super::call::ModelCall;
use super::connect::Connector;
use super::pool::{Connection, Home, Pool};
use crate::classify::{Failure, Phase, Source, transport};
use crate::delay::Headers;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tracing::{Instrument, debug};
use turnstream_model::Chain;
use turnstream_model::event::ErrorClass;

/// Sends single requests. It repeats, redirects and decompresses nothing. It keeps connections for later
/// requests if the answer on them was read to its end.
///
/// [`Client`](super::Client) is for answers of models. This is for programs that pass bytes on.
#[derive(Clone)]
pub struct HttpClient {
    connector: Arc<Connector>,
    pool: Arc<Pool>,
}

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

/// A response whose headers have arrived. Dropping it before the end of its body closes the connection.
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// The headers that are ASCII.
    pub headers: Headers,
    body: Incoming,
    /// `None` after the end of the body.
    connection: Option<(Connection, Option<Home>)>,
}

impl HttpClient {
    /// Creates a client. It opens no connection yet.
    ///
    /// # Errors
    ///
    /// [`ClientError::Authorities`] if the file of certificate authorities cannot be used.
    pub fn new(connect: Duration, authorities: Option<&Path>) -> Result<Self, ClientError> {
        Ok(Self { connector: Arc::new(Connector::new(connect, authorities)?), pool: Arc::default() })
    }

    /// Sends a request, once, and returns its response when the headers have arrived.
    ///
    /// # Errors
    ///
    /// The classified [`Failure`] of the connection.
    pub async fn send(&self, request: &HttpRequest) -> Result<HttpResponse, Failure> {
        send(&self.connector, Some(&self.pool), request).await
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
    send(connector, None, &HttpRequest { method: HttpMethod::Post, url, headers, body: call.body.clone() })
        .await
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
    send(connector, None, &HttpRequest { method, url, headers, body }).await
}

async fn send(
    connector: &Connector,
    pool: Option<&Arc<Pool>>,
    request: &HttpRequest,
) -> Result<HttpResponse, Failure> {
    let address = Address::parse(&request.url)?;
    let mut request = hyper_request(&address, request)?;
    let home = pool.map(|pool| pool.home(&address));
    let failed = |error: hyper::Error| transport(&error, Phase::Request);
    while let Some(mut kept) = home.as_ref().and_then(Home::take) {
        match kept.sender.try_send_request(request).await {
            Ok(answer) => return Ok(HttpResponse::new(answer, kept, home)),
            Err(mut refused) => match refused.take_message() {
                // No byte of it was written: the provider has closed the connection before.
                Some(unsent) => request = unsent,
                None => return Err(failed(refused.into_error())),
            },
        }
    }
    let socket = connector.open(&address).await?;
    let (sender, connection) = http1::handshake(TokioIo::new(socket)).await.map_err(failed)?;
    let drive = async move {
        // The response reports the same failure; this line has its full chain.
        if let Err(error) = connection.await {
            debug!(error = %Chain(&error), "the connection ended with an error");
        }
    };
    let task = tokio::spawn(drive.in_current_span()).abort_handle();
    let mut connection = Connection::new(sender, task);
    let answer = connection.sender.send_request(request).await.map_err(failed)?;
    Ok(HttpResponse::new(answer, connection, home))
}

impl HttpResponse {
    fn new(answer: Response<Incoming>, connection: Connection, home: Option<Home>) -> Self {
        let (head, body) = answer.into_parts();
        let text = |(name, value): (&HeaderName, &HeaderValue)| match value.to_str() {
            Ok(value) => Some((name.as_str().to_owned(), value.to_owned())),
            Err(_) => {
                debug!(header = %name, "ignoring a response header that is not ASCII");
                None
            }
        };
        let headers = Headers(head.headers.iter().filter_map(text).collect());
        Self { status: head.status.as_u16(), headers, body, connection: Some((connection, home)) }
    }

    /// The next bytes of the body; `None` after its end.
    ///
    /// # Errors
    ///
    /// The classified [`Failure`] of a connection that broke.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            match self.body.frame().await {
                None => {
                    if let Some((connection, Some(home))) = self.connection.take() {
                        home.give_back(connection);
                    }
                    return Ok(None);
                }
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
