//! AG-UI over the sessions of all agents: `/ag-ui`, for `@ag-ui/client`, CopilotKit and TanStack AI.
//! `docs/ag-ui.md` describes it for those who build a page.
//!
//! | file | what it does |
//! |---|---|
//! | [`bindings`] | what TanStack AI needs to answer an interrupt |
//! | [`input`] | what clients send with a run |
//! | [`runs`] | the routes: a run, a connection to a thread, a stop, the list of agents |
//! | [`threads`] | the two reads of TanStack AI: the messages of a thread, and a run that goes on |
//! | [`known_runs`] | the session and the turn of a run's id |
//! | [`replies`] | answers to interrupts |
//! | [`writer`] | one turn as one run |
//! | [`subagents`] | the work of subagents, between events of its own |

mod bindings;
mod input;
mod known_runs;
mod replies;
mod runs;
mod subagents;
mod threads;
mod writer;

pub(crate) use known_runs::KnownRuns;

use crate::app::App;
use axum::Router;
use axum::routing::{get, post};
use std::sync::Arc;

/// The routes. CopilotKit's base is `/ag-ui`; other clients name the agent in the address.
pub(crate) fn routes(routes: Router<Arc<App>>) -> Router<Arc<App>> {
    routes
        .route("/ag-ui/info", get(runs::info))
        .route("/ag-ui/agent/{agent}/run", post(runs::run))
        .route("/ag-ui/agent/{agent}/connect", post(runs::connect))
        .route("/ag-ui/agent/{agent}/stop/{thread}", post(runs::stop))
        .route("/ag-ui/{agent}", get(threads::read).post(runs::run))
}
