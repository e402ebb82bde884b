//! A proxy for model providers: `/llm/{route}/…`.
//!
//! It speaks chat completions, responses and messages, streamed or not, and passes on what it read byte by
//! byte. Every answer is also read by [`turnstream_llm::Reader`]:
//!
//! - Nothing leaves before the first content. Until then a failed request is repeated, or sent by another
//!   route.
//! - Tool calls and the end of an answer leave only when the whole answer was read without a loss.
//! - A loss after content was sent ends in the format's own error. An end marker is never made up.
//! - A request whose client is gone goes on for a while. The same request gets its answer.
//!
//! `docs/proxy.md` is for users.

mod attempt;
mod calls;
mod errors;
mod figures;
mod frames;
mod gate;
mod headers;
mod relay;
mod request;
mod run;

pub use calls::{AnsweredCall, SessionCalls};
pub use figures::{Figures, OUTCOMES};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use calls::Call;
use errors::Whole;
use figures::RouteCounters;
use futures_util::stream;
use http_body_util::{BodyExt, LengthLimitError, Limited, StreamBody};
use hyper::body::Frame;
use relay::{Client, End, Head, LeftRelays, Next, Relay, RequestKey};
use request::ClientRequest;
use run::Run;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use turnstream_llm::Format;
use turnstream_llm::client::{ClientError, HttpClient};
use turnstream_llm::wait::SystemClock;
use turnstream_model::attempts::Ledger;
use turnstream_model::id::SessionId;
use turnstream_provider::{Access, AgentSecret, Asker, Route, Routes};
use turnstream_redact::Rules;

/// The shortest secret of a route that passes keys through.
const SHORTEST_SECRET: usize = 32;
/// Until a connection to a provider is open.
const CONNECT: Duration = Duration::from_secs(10);
/// The unit in which memory for requests is counted.
const BLOCK: usize = 64 * 1024;

/// How much clients may use, and when they hear something.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Requests that run at the same time.
    pub open: usize,
    /// The largest body of a request, in bytes.
    pub body: usize,
    /// Memory for the bodies of all requests that run, in bytes.
    pub memory: usize,
    /// How long the body of a request may take.
    pub body_time: Duration,
    /// The longest silence of a stream before it sends a heartbeat.
    pub heartbeat: Duration,
    /// A stream without content begins with a heartbeat after this time. Until then its status is open.
    pub open_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            open: 2000,
            body: 64 << 20,
            memory: 512 << 20,
            body_time: Duration::from_secs(60),
            heartbeat: Duration::from_secs(15),
            open_after: Duration::from_secs(30),
        }
    }
}

/// Agents that the gateway starts and points at routes.
#[derive(Clone, Default)]
pub struct StartedAgents {
    /// What their addresses are made with. `None`: there are none.
    pub secret: Option<AgentSecret>,
    /// Who is told about the requests of sessions.
    pub calls: Option<Arc<dyn SessionCalls>>,
}

/// The proxy. Clones share it.
#[derive(Clone)]
pub struct Proxy(Arc<Shared>);

/// What all requests share.
pub(crate) struct Shared {
    routes: Routes,
    http: HttpClient,
    ledger: Arc<dyn Ledger>,
    redact: Arc<Rules>,
    clock: SystemClock,
    limits: Limits,
    open: Arc<Semaphore>,
    memory: Arc<Semaphore>,
    left: Arc<LeftRelays>,
    counters: BTreeMap<String, Arc<RouteCounters>>,
    agents: StartedAgents,
}

/// Who may use the path of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathAccess {
    /// Whoever has a token of the gateway.
    Token,
    /// Everybody: the path has the secret of the route.
    Open,
    /// An agent that the gateway started, at the address for agents: the path has its part.
    Agent,
    /// Nobody: the path has a wrong secret.
    Wrong,
}

impl Proxy {
    /// A proxy for these routes.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if no connection can be made at all.
    pub fn new(
        routes: Routes,
        ledger: Arc<dyn Ledger>,
        redact: Arc<Rules>,
        limits: Limits,
        agents: StartedAgents,
    ) -> Result<Self, ClientError> {
        let counters = routes.iter().map(|route| (route.name.clone(), Arc::default())).collect();
        Ok(Self(Arc::new(Shared {
            routes,
            http: HttpClient::new(CONNECT, None)?,
            ledger,
            redact,
            clock: SystemClock,
            open: Arc::new(Semaphore::new(limits.open)),
            memory: Arc::new(Semaphore::new(limits.memory / BLOCK)),
            limits,
            left: Arc::default(),
            counters,
            agents,
        })))
    }

    /// Who may use a path below `/llm/`: `ROUTE/…`, `ROUTE/SECRET/…`, or `ROUTE/PART/…` of an agent.
    pub fn path_access(&self, path: &str) -> PathAccess {
        let (name, rest) = path.split_once('/').unwrap_or((path, ""));
        let Some(route) = self.0.routes.get(name) else { return PathAccess::Token };
        if self.0.asker(route, rest).is_some() {
            return PathAccess::Agent;
        }
        let Access::PassThrough(source) = &route.access else { return PathAccess::Token };
        let shown = rest.split('/').next().unwrap_or_default();
        let Ok(secret) = source.read() else { return PathAccess::Wrong };
        // Hashes are compared, so that the time says nothing about the secret.
        let is_right = Sha256::digest(shown) == Sha256::digest(secret.expose());
        match is_right && secret.expose().len() >= SHORTEST_SECRET {
            true => PathAccess::Open,
            false => PathAccess::Wrong,
        }
    }

    /// The numbers of each route.
    pub fn figures(&self) -> BTreeMap<String, Figures> {
        figures::all(self.0.counters.iter())
    }

    /// Answers a request that was let in. `path` is below `/llm/`.
    pub async fn answer(&self, path: &str, request: Request) -> Response {
        let (name, rest) = path.split_once('/').unwrap_or((path, ""));
        let Some(route) = self.0.routes.get(name).cloned() else {
            let known = self.0.routes.iter().map(|route| route.name.as_str()).collect::<Vec<_>>().join(", ");
            let message = format!("there is no route {name:?} in [llm.routes]; there is {known}");
            return whole(errors::refusal(Format::Chat, 404, "not_found_error", &message));
        };
        let format = route.format;
        match self.0.start(route, rest, request).await {
            Ok((client, is_stream)) => respond(&self.0, client, format, is_stream).await,
            Err(refused) => whole(refused),
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("routes", &self.0.routes).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn counters(&self, route: &str) -> Arc<RouteCounters> {
        self.counters.get(route).cloned().unwrap_or_default()
    }

    /// The started agent whose part of a path this is. That of a session that is gone opens nothing.
    fn asker(&self, route: &Route, rest: &str) -> Option<Asker> {
        let part = rest.split('/').next().unwrap_or_default();
        let asker = self.agents.secret.as_ref()?.asker(&route.name, part)?;
        if let (Asker::Session(session), Some(calls)) = (&asker, &self.agents.calls) {
            calls.head(&SessionId::from(session.as_str()))?;
        }
        Some(asker)
    }

    /// Reads the request, and starts the task that answers it.
    async fn start(
        self: &Arc<Self>,
        route: Arc<Route>,
        rest: &str,
        request: Request,
    ) -> Result<(Client, bool), Whole> {
        let format = route.format;
        let asker = self.asker(&route, rest);
        let path = match (&route.access, &asker) {
            (Access::PassThrough(_), _) | (_, Some(_)) => rest.split_once('/').map_or("", |(_, path)| path),
            (Access::Configured(_) | Access::Keyless, None) => rest,
        };
        let refuse = |status, kind: &str, message: &str| errors::refusal(format, status, kind, message);
        let Some(operation) = request::operation(format, path) else {
            let message = format!(
                "route {:?} speaks {}, and has no such path; see docs/proxy.md for those it has",
                route.name,
                format.name()
            );
            return Err(refuse(404, "not_found_error", &message));
        };
        let is_read = operation == turnstream_provider::Operation::Models;
        if request.method() != if is_read { Method::GET } else { Method::POST } {
            return Err(refuse(405, "invalid_request_error", "this path does not support the method"));
        }
        let encoding = request.headers().get("content-encoding");
        if let Some(encoding) = encoding.filter(|encoding| *encoding != "identity") {
            let message = format!(
                "the body has content-encoding {encoding:?}, and this proxy checks what it sends; send it \
                 uncompressed"
            );
            return Err(refuse(415, "invalid_request_error", &message));
        }
        let busy = |what: &str| {
            let mut busy = refuse(503, "overloaded_error", what);
            busy.headers.push(errors::retry_after(Duration::from_secs(5)));
            busy
        };
        let Ok(place) = self.open.clone().try_acquire_owned() else {
            return Err(busy("too many requests run in the proxy; send it again later"));
        };
        let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
        let headers = headers::of_client(request.headers());
        let Ok(mut memory) = self.memory_for(request.headers()) else {
            return Err(busy("requests use all memory of the proxy; send it again later"));
        };
        let body = self.body(request, format).await?;
        // A body of unknown length took the most.
        drop(memory.split(memory.num_permits().saturating_sub(body.len().div_ceil(BLOCK))));
        let key = request_key(&route, rest, &query, &headers, &body);
        let asked = ClientRequest::new(operation, query, headers, body)
            .map_err(|message| refuse(400, "invalid_request_error", &message))?;
        let is_stream = asked.is_stream;
        let counters = self.counters(&route.name);
        if let Some(client) = self.left.join(&key) {
            counters.reattached();
            return Ok((client, is_stream));
        }
        counters.started();
        let client = Relay::start(key, &route, self.left.clone());
        let session = match asker {
            Some(Asker::Session(session)) => Some(SessionId::from(session)),
            Some(Asker::Agent(_)) | None => None,
        };
        let call = session.as_ref().and_then(|session| Call::begin(self.agents.calls.as_ref()?, session));
        let run = Run {
            shared: self.clone(),
            session,
            call,
            chain: self.routes.chain(&route),
            request: asked,
            relay: client.relay.clone(),
        };
        tokio::spawn(async move {
            run.run().await;
            drop((place, memory));
        });
        Ok((client, is_stream))
    }

    /// Memory for the body of a request. A body of unknown length takes the most.
    fn memory_for(&self, headers: &HeaderMap) -> Result<OwnedSemaphorePermit, tokio::sync::TryAcquireError> {
        let length =
            headers.get("content-length").and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        let is_empty = length.is_none() && !headers.contains_key("transfer-encoding");
        let length = if is_empty { 0 } else { length.unwrap_or(self.limits.body).min(self.limits.body) };
        let blocks = u32::try_from(length.div_ceil(BLOCK)).unwrap_or(u32::MAX);
        self.memory.clone().try_acquire_many_owned(blocks)
    }

    async fn body(&self, request: Request, format: Format) -> Result<Bytes, Whole> {
        let body = Limited::new(request.into_body(), self.limits.body).collect();
        let refuse =
            |status, message: &str| errors::refusal(format, status, "invalid_request_error", message);
        match tokio::time::timeout(self.limits.body_time, body).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                let message =
                    format!("the request has more than {} bytes; send a shorter one", self.limits.body);
                Err(refuse(413, &message))
            }
            Ok(Err(_)) => Err(refuse(400, "the request did not arrive completely")),
            Err(_) => Err(refuse(408, "the body of the request did not arrive in time")),
        }
    }
}

/// Names a request by route, path, credential and body.
fn request_key(
    route: &Route,
    path: &str,
    query: &str,
    headers: &[(String, String)],
    body: &[u8],
) -> RequestKey {
    let mut hash = Sha256::new();
    let keys = headers.iter().filter(|(name, _)| headers::is_key(name));
    let keys = keys.flat_map(|(name, value)| [name.as_str(), value.as_str()]);
    for part in [route.name.as_str(), path, query].into_iter().chain(keys) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.update([0xFF]);
    hash.update(body);
    hash.finalize().into()
}

/// The response for a client, when its head is known.
async fn respond(shared: &Shared, mut client: Client, format: Format, is_stream: bool) -> Response {
    let opens_at = Instant::now() + shared.limits.open_after;
    let heartbeat = shared.limits.heartbeat;
    let head = tokio::select! {
        biased;
        head = client.head() => Some(head),
        () = tokio::time::sleep_until(opens_at), if is_stream => client.open_early(),
    };
    let relay = client.relay.clone();
    let reading = |first: Option<Bytes>, opened_early| Reading {
        client,
        first,
        opened_early,
        has_begun: false,
        is_over: false,
        is_cut: false,
        heartbeat: is_stream.then_some((heartbeat, format)),
    };
    let (status, headers, reading) = match head {
        Some(Head::Stream(headers)) => (200, headers, reading(None, false)),
        Some(Head::Whole(Whole { status, headers, body, .. })) => {
            let mut headers = headers;
            headers.push(("content-length".to_owned(), body.len().to_string()));
            (status, headers, reading(Some(body), false))
        }
        None => {
            let headers = [("content-type", "text/event-stream"), ("cache-control", "no-cache")];
            let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter();
            let told = relay.told(&relay.route);
            (200, headers.chain(told).collect(), reading(Some(errors::heartbeat(format, false)), true))
        }
    };
    let frames = stream::unfold(reading, |mut reading| async {
        let frame = reading.next_frame().await?;
        // The connection breaks, so that nobody takes the end for the end of the answer.
        let cut = || std::io::Error::other("the client read nothing for too long");
        Some((if reading.is_cut { Err(cut()) } else { Ok(frame) }, reading))
    });
    let mut response = Response::new(Body::new(StreamBody::new(frames)));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    add_headers(response.headers_mut(), &headers);
    if !response.headers().contains_key("content-length") {
        let names = "x-turnstream-request, x-turnstream-attempts, x-turnstream-outcome";
        let names = HeaderValue::from_static(names);
        response.headers_mut().insert("trailer", names);
    }
    response
}

/// The body of a response, while it is sent.
struct Reading {
    client: Client,
    /// Bytes before everything else.
    first: Option<Bytes>,
    /// The status was sent before there was an answer.
    opened_early: bool,
    /// A chunk of the answer was sent.
    has_begun: bool,
    is_over: bool,
    /// The answer was given up, although there is a client.
    is_cut: bool,
    heartbeat: Option<(Duration, Format)>,
}

impl Reading {
    async fn next_frame(&mut self) -> Option<Frame<Bytes>> {
        if let Some(first) = self.first.take() {
            if !self.opened_early {
                // A document is one frame, and nothing is asked for after it.
                self.client.done();
            }
            return Some(Frame::data(first));
        }
        if self.is_over {
            return None;
        }
        loop {
            // The order matters: an answer that is no stream has no chunks.
            if self.opened_early
                && let Some(Head::Whole(whole)) = self.client.known_head()
            {
                self.opened_early = false;
                // A document that is no error is refused by the relay.
                return Some(Frame::data(whole.in_band.unwrap_or_default()));
            }
            match self.client.next() {
                Next::Chunk(chunk) => {
                    self.has_begun = true;
                    return Some(Frame::data(chunk));
                }
                Next::End(end) => {
                    self.is_over = true;
                    self.is_cut = end.outcome == "cancelled";
                    self.client.done();
                    return Some(Frame::trailers(trailers(&self.client.relay.id, end)));
                }
                Next::Nothing => {}
            }
            let Some((every, format)) = self.heartbeat else {
                self.client.changed().await;
                continue;
            };
            tokio::select! {
                biased;
                () = self.client.changed() => {}
                () = tokio::time::sleep(every) => {
                    return Some(Frame::data(errors::heartbeat(format, self.has_begun)));
                }
            }
        }
    }
}

fn trailers(request: &str, end: End) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    if let Ok(request) = HeaderValue::from_str(request) {
        trailers.insert("x-turnstream-request", request);
    }
    trailers.insert("x-turnstream-attempts", HeaderValue::from(end.attempts));
    trailers.insert("x-turnstream-outcome", HeaderValue::from_static(end.outcome));
    trailers
}

/// A response that is no stream.
fn whole(answer: Whole) -> Response {
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
    add_headers(response.headers_mut(), &answer.headers);
    response
}

fn add_headers(headers: &mut HeaderMap, added: &[(String, String)]) {
    for (name, value) in added {
        let name = HeaderName::from_bytes(name.as_bytes());
        // Both were headers before.
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.append(name, value);
        }
    }
}
