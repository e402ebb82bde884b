//! opencode's web page, from an `opencode serve` that runs elsewhere (`opencode_ui`). Nothing of it is
//! embedded.

use super::answer::Failure;
use super::operations::nothing;
use crate::app::App;
use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use turnstream_model::Chain;

/// Until the head of a file of the page is there.
const LIMIT: Duration = Duration::from_secs(10);
/// What the page may load, if its server does not say it.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self' data: blob:; script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval'; \
     style-src 'self' 'unsafe-inline'; frame-ancestors 'none'",
);

/// Why a file cannot be had.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("no connection: {0}")]
    Connect(#[from] std::io::Error),
    #[error("no answer: {0}")]
    Answer(#[from] hyper::Error),
    #[error("the path cannot be passed on: {0}")]
    Path(#[from] axum::http::Error),
    #[error("no answer within {} s", LIMIT.as_secs())]
    Late,
}

/// A file of the page: whatever is no operation of the API.
pub(super) async fn file(Shared(app): Shared<Arc<App>>, request: Request) -> Result<Response, Failure> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let Some(address) = app.options.opencode_ui.filter(|_| is_read) else {
        return Err(nothing(request.method().clone(), request.uri().clone()).await);
    };
    let asked = passed_on_request(address, &request);
    let fetched = tokio::time::timeout(LIMIT, async { fetch(address, asked?).await }).await;
    fetched.unwrap_or(Err(FetchError::Late)).map_err(|error| {
        tracing::debug!(%address, error = %Chain(&error), "opencode's web page cannot be had");
        Failure::bad_gateway(format!(
            "the web page at {address} (opencode_ui) cannot be had: {error}; is opencode serve running there?"
        ))
    })
}

/// Makes a browser ask for the password. Chromium reads only the first scheme of a header.
pub(crate) async fn ask_for_password(mut response: Response) -> Response {
    if response.status() == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Basic realm=\"turnstream\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// The path of a request, and nothing that lets a client in.
fn passed_on_request(address: SocketAddr, request: &Request) -> Result<Request, FetchError> {
    let mut asked = Request::builder().method(request.method()).uri(request.uri().path());
    asked = asked.header(header::HOST, address.to_string());
    if let Some(accept) = request.headers().get(header::ACCEPT) {
        asked = asked.header(header::ACCEPT, accept);
    }
    Ok(asked.body(Body::empty())?)
}

async fn fetch(address: SocketAddr, asked: Request) -> Result<Response, FetchError> {
    let socket = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
    // It ends with the body, or when the client goes away.
    tokio::spawn(connection);
    let (head, body) = sender.send_request(asked).await?.into_parts();
    let mut response = Response::new(Body::new(body));
    *response.status_mut() = head.status;
    *response.headers_mut() = passed_on_headers(&head.headers);
    Ok(response)
}

fn passed_on_headers(headers: &HeaderMap) -> HeaderMap {
    let names = [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::CONTENT_LENGTH];
    let mut passed: HeaderMap =
        names.into_iter().filter_map(|name| Some((name.clone(), headers.get(name)?.clone()))).collect();
    let policy = headers.get(header::CONTENT_SECURITY_POLICY).cloned().unwrap_or(POLICY);
    passed.insert(header::CONTENT_SECURITY_POLICY, policy);
    passed
}
