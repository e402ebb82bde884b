//! The routes, and the state that they share.

use crate::access::{self, Access};
use crate::ag_ui::{self, KnownRuns};
use crate::ai;
use crate::closing::Closing;
use crate::limits::{InUse, limit_requests};
use crate::opencode::{self, Digests, Feeds, SessionIds};
use crate::options::Options;
use crate::page;
use crate::problem::{Kind, Problem};
use crate::request_span;
use crate::routes::{
    agents, directories, events, export, gateway, health, history, import, llm, login, metrics, prompts,
    search, sessions, tickets, waits, ws,
};
use crate::stream::{Hubs, OpenStreams};
use axum::extract::Request;
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::routing::{any, delete, get, post};
use axum::{Extension, Router};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;
use turnstream_gateway::Gateway;

/// State shared by the routes.
pub(crate) struct App {
    pub(crate) gateway: Gateway,
    pub(crate) options: Options,
    pub(crate) access: Arc<Access>,
    pub(crate) hubs: Arc<Hubs>,
    pub(crate) feeds: Feeds,
    pub(crate) digests: Digests,
    pub(crate) session_ids: SessionIds,
    pub(crate) known_runs: KnownRuns,
    pub(crate) closing: Closing,
    pub(crate) streams: Arc<OpenStreams>,
    pub(crate) in_use: InUse,
    pub(crate) started: SystemTime,
}

impl App {
    pub(crate) fn new(
        gateway: Gateway,
        options: Options,
        access: Arc<Access>,
        closing: Closing,
    ) -> Arc<Self> {
        let streams = Arc::new(OpenStreams::default());
        let hubs = Hubs::new(gateway.clone(), closing.clone(), streams.clone());
        let feeds = Feeds::new(gateway.clone(), closing.clone());
        let session_ids = SessionIds::new(&gateway);
        let in_use = InUse::new(&options.limits);
        Arc::new(Self {
            gateway,
            options,
            access,
            hubs,
            feeds,
            digests: Digests::default(),
            session_ids,
            known_runs: KnownRuns::default(),
            closing,
            streams,
            in_use,
            started: SystemTime::now(),
        })
    }

    /// Logs what the limits of the server and of the gateway have refused since the last call.
    pub(crate) fn report_refusals(&self) {
        self.in_use.refusals.report();
        self.gateway.report_refusals();
    }

    /// All routes.
    pub(crate) fn router(self: Arc<Self>) -> Router {
        let session = get(sessions::show).patch(sessions::change).delete(sessions::delete);
        let routes = Router::new()
            .route("/v1/health", get(health::alive))
            .route("/v1/ready", get(health::ready))
            .route("/v1/gateway", get(gateway::show))
            .route("/v1/login", post(login::sign_in).delete(login::sign_out))
            .route("/v1/login-codes", post(login::new_code))
            .route("/v1/tickets", post(tickets::add))
            .route("/metrics", get(metrics::show))
            .route("/v1/agents", get(agents::list))
            .route("/v1/directories", get(directories::list))
            .route("/v1/events", get(events::all))
            .route("/v1/ws", get(ws::several))
            .route("/v1/search", get(search::find))
            .route("/v1/import", post(import::add))
            .route("/v1/sessions", get(sessions::list).post(sessions::create))
            .route("/v1/sessions/{session}", session)
            .route("/v1/sessions/{session}/snapshot", get(sessions::snapshot))
            .route("/v1/sessions/{session}/items", get(history::items))
            .route("/v1/sessions/{session}/log", get(history::log))
            .route("/v1/sessions/{session}/export", get(export::one))
            .route("/v1/sessions/{session}/events", get(events::one))
            .route("/v1/sessions/{session}/ws", get(ws::one))
            .route("/v1/sessions/{session}/prompts", post(prompts::add))
            .route("/v1/sessions/{session}/prompts/{prompt}", delete(prompts::withdraw))
            .route("/v1/sessions/{session}/resume", post(sessions::resume))
            .route("/v1/sessions/{session}/budget", post(sessions::budget))
            .route("/v1/sessions/{session}/cancel", post(prompts::cancel))
            .route("/v1/sessions/{session}/wake", post(prompts::wake))
            .route("/v1/sessions/{session}/approvals/{approval}", post(waits::resolve))
            .route("/v1/sessions/{session}/questions/{question}", post(waits::answer))
            .route(llm::ROUTE, any(llm::call))
            .nest("/opencode", opencode::router())
            .fallback(nothing)
            .method_not_allowed_fallback(wrong_method);
        let routes = ag_ui::routes(ai::routes(routes));
        let routes = page::routes().fold(routes, |routes, (path, file)| routes.route(path, file));
        self.guarded(routes, "/opencode/")
    }

    /// The routes of the address for clients of opencode that cannot take a path.
    pub(crate) fn opencode_router(self: Arc<Self>) -> Router {
        self.guarded(opencode::router_with_page(), "/").layer(map_response(opencode::ask_for_password))
    }

    /// The routes of the address at which agents that the gateway starts ask models.
    pub(crate) fn agents_router(self: Arc<Self>) -> Router {
        let routes = Router::new().route(llm::ROUTE, any(llm::call)).fallback(nothing);
        self.guarded(routes, "/opencode/").layer(Extension(access::AgentsAddress))
    }

    /// The routes behind all checks. `opencode` is where clients of opencode's API are.
    fn guarded(self: Arc<Self>, routes: Router<Arc<Self>>, opencode: &'static str) -> Router {
        routes
            .layer(from_fn_with_state(self.clone(), limit_requests))
            .layer(from_fn_with_state(self.clone(), access::check))
            .layer(from_fn_with_state(opencode, access::auth_token))
            .layer(from_fn(access::protect))
            .layer(from_fn(request_span::trace))
            .with_state(self)
    }
}

/// The routes of the address for metrics only, which is this one.
pub(crate) fn metrics_router(app: Arc<App>, address: SocketAddr) -> Router {
    let sites = access::metrics_sites(&app.access, address);
    Router::new()
        .route("/metrics", get(metrics::show))
        .fallback(nothing)
        .layer(from_fn_with_state(sites, access::check_host))
        .layer(from_fn(access::protect))
        .with_state(app)
}

async fn nothing(request: Request) -> Problem {
    let detail = format!("there is nothing at {}", request.uri().path());
    Problem::new(Kind::UnknownRoute, detail).advice("the routes begin with /v1, for example /v1/health")
}

async fn wrong_method(request: Request) -> Problem {
    let detail = format!("{} does not support {}", request.uri().path(), request.method());
    Problem::new(Kind::WrongMethod, detail).advice("the header Allow lists the methods it supports")
}
