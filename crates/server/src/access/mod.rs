//! Access control. Whoever can send a request runs commands as the gateway's user. So every request must
//! show a token. Its `Host` and its `Origin` must be names that the gateway knows.
//!
//! | file | check |
//! |---|---|
//! | [`origin`] | the headers `Host` and `Origin` |
//! | [`cors`] | answers for pages of other origins that are listed |
//! | [`token`], [`token_file`] | the gateway's own token |
//! | [`issued`] | tokens of pages, login codes, tickets for streams |
//! | [`query_secret`] | secrets in a query |
//! | [`failures`] | wrong tokens |
//! | [`headers`] | what a browser may do with a response |

mod cors;
mod failures;
mod headers;
mod issued;
mod origin;
mod query_secret;
mod ticket;
mod token;
mod token_file;

pub(crate) use headers::protect;
pub(crate) use issued::{CODE_LIFE, SignedIn, TICKET_FIRST_USE};
pub use origin::{Origin, OriginError};
pub(crate) use query_secret::auth_token;
pub use token::{NoRandomness, Token, TokenError};
pub use token_file::{TokenFile, TokenFileError};

use crate::app::App;
use crate::caller::Caller;
use crate::limits::{Guarded, Slot};
use crate::options::Options;
use crate::page;
use crate::problem::{Kind, Problem};
use crate::routes::llm;
use axum::extract::{MatchedPath, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use failures::Failures;
use issued::{Issued, TicketHolder};
use origin::{HostKind, Page, Sites};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use ticket::ShownTicket;
use token::Fingerprint;
use tokio::sync::Semaphore;
use turnstream_model::Chain;
use turnstream_proxy::{PathAccess, Proxy};

/// Marks requests at the address for agents that the gateway starts. Their parts of paths count only there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AgentsAddress;

/// The name of the gateway's own token.
pub(crate) const OWNER: &str = "owner";

/// How often an open stream checks that it is still allowed.
const RECHECK: Duration = Duration::from_secs(1);

/// Wrong tokens that are answered slowly at the same time. Further ones are answered at once.
const SLOW_REFUSALS: usize = 32;

const HOW_TO_SEND: &str = "send it as `Authorization: Bearer TOKEN`, or as the password of Basic with any user name; \
                           `turnstream token` prints it";

/// Who may use a gateway.
#[derive(Clone, Debug)]
pub enum Auth {
    /// Everybody who reaches it. Only possible on loopback.
    None,
    /// Whoever sends this token.
    Token(Token),
    /// Whoever sends the token in this file.
    File(TokenFile),
}

/// Both ends of the connection that a request came on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
}

/// Decides who is served.
#[derive(Debug)]
pub(crate) struct Access {
    auth: Auth,
    sites: Sites,
    issued: Arc<Issued>,
    failures: Failures,
    slow_refusals: Semaphore,
}

/// Who may pass.
enum Admitted {
    /// The route is open to everybody.
    Anybody,
    /// A client that showed a token or a ticket, or that needs none.
    Client(Caller, Credential),
}

/// What let a request in. A stream ends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    /// No token is needed.
    None,
    /// The gateway's own token, or that of a page.
    Token(Fingerprint),
    Ticket(Fingerprint),
}

// === impl Auth ===

impl Auth {
    /// The token that is right now. `None`: no token is needed.
    pub(crate) fn token(&self) -> Result<Option<Token>, TokenFileError> {
        match self {
            Self::None => Ok(None),
            Self::Token(token) => Ok(Some(token.clone())),
            Self::File(file) => file.token().map(Some),
        }
    }
}

// === impl Access ===

impl Access {
    pub(crate) fn new(options: &Options, listen: SocketAddr) -> Self {
        let Options { auth, public_url, origins, issued, .. } = options;
        let sites = Sites { listen, public_url: public_url.clone(), origins: origins.clone() };
        let issued = Arc::new(Issued::open(issued.clone()));
        Self {
            auth: auth.clone(),
            sites,
            issued,
            failures: Failures::default(),
            slow_refusals: Semaphore::new(SLOW_REFUSALS),
        }
    }

    /// An address for a browser, with a login code. The code is in the fragment, which browsers do not send.
    pub(crate) fn login_link(&self) -> Result<String, NoRandomness> {
        let code = self.issued.new_code()?;
        let base = match &self.sites.public_url {
            Some(url) => url.to_string(),
            None => format!("http://{}", reachable(self.sites.listen)),
        };
        Ok(format!("{base}/#login={code}"))
    }

    /// Exchanges a login code for a page token.
    pub(crate) async fn sign_in(&self, code: &str, from: Option<Connection>) -> Result<SignedIn, Problem> {
        let Some(owner) = self.owner()? else {
            let detail = "the gateway needs no token (auth = \"none\"), so there is nothing to sign in to";
            return Err(Problem::new(Kind::BadBody, detail));
        };
        let code = code.to_owned();
        match self.on_disk(move |issued| issued.sign_in(&code, owner)).await?.map_err(no_randomness)? {
            Some(signed_in) => {
                let address = from.map(|from| tracing::field::display(from.peer.ip()));
                tracing::info!(name = signed_in.name, address, "a page signed in");
                Ok(signed_in)
            }
            None => {
                self.refuse_slowly(from).await;
                let detail = "the login code is wrong, was used before, or is older than 10 minutes";
                Err(Problem::new(Kind::Unauthorized, detail).advice("`turnstream login` prints a new one"))
            }
        }
    }

    /// Ends the token of the page that asks.
    pub(crate) async fn sign_out(&self, headers: &HeaderMap) -> Result<bool, Problem> {
        let Some(shown) = shown_token(headers)? else { return Ok(false) };
        self.on_disk(move |issued| issued.sign_out(Fingerprint::of(&shown))).await
    }

    /// A ticket that opens streams, for whoever sent this request.
    pub(crate) fn new_ticket(
        &self,
        headers: &HeaderMap,
        caller: &Caller,
        session: Option<String>,
    ) -> Result<String, Problem> {
        let shown = shown_token(headers)?.unwrap_or_default();
        let name = caller.0.as_deref().unwrap_or_default().to_owned();
        self.issued.new_ticket(Fingerprint::of(&shown), name, session).map_err(no_randomness)
    }

    /// Wrong tokens and login codes since the start.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.total()
    }

    /// Who sent a request, if it may pass. Removes a ticket from the query.
    async fn admit(&self, request: &mut Request, proxy: Option<&Proxy>) -> Result<Admitted, Problem> {
        let from = request.extensions().get::<Connection>().copied();
        let ticket = ticket::take(request);
        // The route and not the path: the address for opencode's API has none of these.
        let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
        if is_open(request.method(), route) {
            return Ok(Admitted::Anybody);
        }
        let is_llm = route == llm::ROUTE;
        let path_access =
            proxy.filter(|_| is_llm).map(|proxy| proxy.path_access(llm::below(request.uri().path())));
        let is_at_agents = request.extensions().get::<AgentsAddress>().is_some();
        match path_access {
            Some(PathAccess::Agent) if !is_at_agents => {}
            Some(PathAccess::Open | PathAccess::Agent) => {
                return Ok(Admitted::Client(Caller::default(), Credential::None));
            }
            Some(PathAccess::Wrong) => {
                self.refuse_slowly(from).await;
                let detail = "the path needs the secret of its route, and has none or a wrong one";
                let advice = "write it like /llm/ROUTE/SECRET/…; the secret has at least 32 characters";
                return Err(Problem::new(Kind::Unauthorized, detail).advice(advice));
            }
            Some(PathAccess::Token) | None => {}
        }
        let Some(owner) = self.owner()? else {
            return Ok(Admitted::Client(Caller::default(), Credential::None));
        };
        let shown = match shown_token(request.headers())? {
            None if is_llm => {
                text(request.headers(), header::HeaderName::from_static("x-api-key")).map(str::to_owned)
            }
            shown => shown,
        };
        let (name, credential) = match (shown, ticket) {
            (Some(shown), _) => {
                let shown = Fingerprint::of(&shown);
                (self.name_of(shown, owner), Credential::Token(shown))
            }
            (None, Some(ticket)) => {
                let ShownTicket { text, session: asked } = ticket;
                let credential = Credential::Ticket(Fingerprint::of(&text));
                let holder = self.on_disk(move |issued| issued.use_ticket(&text, owner)).await?;
                if let Some(TicketHolder { session: Some(session), .. }) = &holder
                    && asked.as_ref() != Some(session)
                {
                    let detail = format!("the ticket is for the streams of session {session} only");
                    return Err(Problem::new(Kind::Unauthorized, detail));
                }
                (holder.map(|holder| Arc::from(holder.name)), credential)
            }
            (None, None) => {
                let detail = "the gateway requires a token, and none was sent";
                return Err(Problem::new(Kind::Unauthorized, detail).advice(HOW_TO_SEND));
            }
        };
        match name {
            Some(name) => Ok(Admitted::Client(Caller(Some(name)), credential)),
            None => {
                self.refuse_slowly(from).await;
                let detail = "the token or ticket is wrong, or has ended";
                Err(Problem::new(Kind::Unauthorized, detail).advice(HOW_TO_SEND))
            }
        }
    }

    /// The fingerprint of the gateway's own token. `None`: no token is needed.
    fn owner(&self) -> Result<Option<Fingerprint>, Problem> {
        match self.auth.token() {
            Ok(token) => Ok(token.map(|token| token.fingerprint())),
            Err(error) => {
                tracing::error!(%error, "nobody is served: the token cannot be read");
                let detail = "the gateway cannot read its token; its log says why";
                Err(Problem::new(Kind::Internal, detail))
            }
        }
    }

    /// Returns when what let a request in opens nothing any more: it was revoked, or has expired.
    pub(crate) async fn until_ended(&self, credential: Credential) {
        loop {
            tokio::time::sleep(RECHECK).await;
            let is_valid = match (self.auth.token(), credential) {
                (_, Credential::None) => true,
                (Ok(Some(owner)), Credential::Token(shown)) => {
                    self.name_of(shown, owner.fingerprint()).is_some()
                }
                (Ok(Some(owner)), Credential::Ticket(ticket)) => {
                    self.issued.is_ticket_valid(ticket, owner.fingerprint())
                }
                (Ok(None) | Err(_), Credential::Token(_) | Credential::Ticket(_)) => false,
            };
            if !is_valid {
                return;
            }
        }
    }

    fn name_of(&self, shown: Fingerprint, owner: Fingerprint) -> Option<Arc<str>> {
        if shown == owner {
            return Some(Arc::from(OWNER));
        }
        self.issued.page(shown, owner).map(Arc::from)
    }

    /// Runs what may write to the disk without holding up other requests.
    async fn on_disk<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Issued) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let issued = self.issued.clone();
        tokio::task::spawn_blocking(move || act(&issued)).await.map_err(|error| {
            tracing::error!(error = %Chain(&error), "the access check failed");
            Problem::new(Kind::Internal, "the access check failed; the gateway's log says why")
        })
    }

    async fn refuse_slowly(&self, from: Option<Connection>) {
        let address = from.map(|from| one_loopback(from.peer.ip().to_canonical()));
        let delay = self.failures.add(address, Instant::now());
        // Without a bound, clients without a token could hold many connections.
        if let Ok(_waiting) = self.slow_refusals.try_acquire() {
            tokio::time::sleep(delay).await;
        }
    }
}

/// Passes a request on with its [`Caller`], or refuses it.
pub(crate) async fn check(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let access = &app.access;
    let connection = request.extensions().get::<Connection>().copied();
    let host = host(&request).to_owned();
    let page = access.sites.check_host(&host, connection);
    let page = match page.and_then(|kind| access.sites.page(&host, kind, request.headers())) {
        Ok(page) => page,
        Err(problem) => return problem.into_response(),
    };
    if let Some(answer) = cors::preflight(request.method(), request.headers(), page) {
        return answer;
    }
    let mut response = match access.admit(&mut request, app.options.proxy.as_ref()).await {
        Ok(Admitted::Anybody) => next.run(request).await,
        Ok(Admitted::Client(caller, credential)) => {
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(credential);
            run_active(request, next).await
        }
        Err(problem) => problem.into_response(),
    };
    if let Page::Listed(origin) = page {
        cors::allow(&mut response, origin);
    }
    response
}

/// The names of the address for metrics, where only the host of a request is checked.
pub(crate) fn metrics_sites(access: &Access, listen: SocketAddr) -> Arc<Sites> {
    Arc::new(Sites { listen, ..access.sites.clone() })
}

/// Passes a request on if its host is one of these names. A page of another name that leads to this machine
/// could read the answer otherwise.
pub(crate) async fn check_host(State(sites): State<Arc<Sites>>, request: Request, next: Next) -> Response {
    let connection = request.extensions().get::<Connection>().copied();
    match sites.check_host(host(&request), connection) {
        Ok(HostKind::Direct | HostKind::Public) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Answers a request whose connection is not idle until the whole answer is sent. Only clients that were let
/// in get that far: the others cannot keep a connection that somebody else needs.
async fn run_active(request: Request, next: Next) -> Response {
    let Some(slot) = request.extensions().get::<Arc<Slot>>().cloned() else { return next.run(request).await };
    let Some(active) = slot.begin_request() else {
        // The connection is being closed, so the request must not be carried out.
        return std::future::pending().await;
    };
    let response = next.run(request).await;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        active.upgraded();
        return response;
    }
    Guarded::response(response, active)
}

/// The address for browsers on this machine: loopback, if the gateway listens on all addresses.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let loopback = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(loopback, listen.port())
}

/// One address for this machine: every user of it has sixteen million of them.
fn one_loopback(address: IpAddr) -> IpAddr {
    if address.is_loopback() { IpAddr::from(Ipv4Addr::LOCALHOST) } else { address }
}

/// The host that a request is for.
fn host(request: &Request) -> &str {
    let authority = request.uri().authority().map(Authority::as_str);
    authority.or_else(|| text(request.headers(), header::HOST)).unwrap_or_default()
}

/// The routes that need no token: whether the gateway is alive, the page, and how it gets its token.
fn is_open(method: &Method, path: &str) -> bool {
    let reads = method == Method::GET || method == Method::HEAD;
    match path {
        "/v1/health" => reads,
        "/v1/login" => method == Method::POST,
        other => reads && page::has(other),
    }
}

/// The token that a request shows.
fn shown_token(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(shown) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let shown = shown.to_str().unwrap_or_default();
    let (scheme, shown) = shown.split_once(' ').unwrap_or((shown, ""));
    let shown = shown.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        Ok(Some(shown.to_owned()))
    } else if scheme.eq_ignore_ascii_case("basic") {
        // Damaged Basic counts as a wrong password.
        Ok(Some(password(shown).unwrap_or_default()))
    } else {
        let detail = format!("the scheme {scheme:?} is not supported");
        Err(Problem::new(Kind::Unauthorized, detail).advice(HOW_TO_SEND))
    }
}

fn password(basic: &str) -> Option<String> {
    let pair = String::from_utf8(BASE64_STANDARD.decode(basic).ok()?).ok()?;
    pair.split_once(':').map(|(_, password)| password.to_owned())
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The problem of a secret that cannot be made.
pub(crate) fn no_randomness(error: NoRandomness) -> Problem {
    tracing::error!(%error, "no secret can be made");
    Problem::new(Kind::Internal, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::shown_token;
    use axum::http::{HeaderMap, HeaderValue, header};

    #[test]
    fn the_token_is_taken_from_bearer_and_basic() {
        let shown = |value: &str| {
            let pair = (header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            shown_token(&HeaderMap::from_iter([pair])).ok().flatten()
        };
        assert_eq!(shown("Bearer t0ken").as_deref(), Some("t0ken"));
        assert_eq!(shown("bearer  t0ken").as_deref(), Some("t0ken"));
        // user:t0ken and :t0ken
        assert_eq!(shown("Basic dXNlcjp0MGtlbg==").as_deref(), Some("t0ken"));
        assert_eq!(shown("Basic OnQwa2Vu").as_deref(), Some("t0ken"));
        for wrong in ["Bearer", "Basic t0ken"] {
            assert_eq!(shown(wrong).as_deref(), Some(""), "{wrong}");
        }
        assert_eq!([shown("Digest t0ken"), shown("")], [None, None]);
        assert_eq!(shown_token(&HeaderMap::new()).unwrap(), None);
    }
}
