//! `POST /v1/tickets`: a ticket that opens event streams, for browsers, which cannot send a token with them.

use super::Answer;
use crate::access::TICKET_FIRST_USE;
use crate::app::App;
use crate::body::Optional;
use crate::caller::Caller;
use crate::params::{Nothing, Params};
use crate::problem::Problem;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use turnstream_model::id::SessionId;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTicket {
    /// The only session whose streams it opens. Without it, the streams of all.
    session: Option<SessionId>,
}

pub(crate) async fn add(
    State(app): State<Arc<App>>,
    _: Params<Nothing>,
    caller: Caller,
    headers: HeaderMap,
    Optional(NewTicket { session }): Optional<NewTicket>,
) -> Result<impl IntoResponse, Problem> {
    if let Some(session) = &session {
        app.gateway.session(session)?;
    }
    let session = session.map(|session| session.to_string());
    let ticket = app.access.new_ticket(&headers, &caller, session)?;
    let body = json!({"ticket": ticket, "first_use_within": TICKET_FIRST_USE.as_secs()});
    Ok(Answer(StatusCode::CREATED, body))
}
