//! `/v1/login`: a page exchanges a login code for a token of its own, and ends it; `/v1/login-codes`: new
//! codes, for the owner of the gateway.

use super::Answer;
use crate::access::{CODE_LIFE, Connection, SignedIn};
use crate::app::App;
use crate::body::Small;
use crate::caller::Caller;
use crate::limits::Slot;
use crate::params::{Nothing, Params};
use crate::problem::{Kind, Problem};
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    code: String,
}

pub(crate) async fn sign_in(
    State(app): State<Arc<App>>,
    _: Params<Nothing>,
    from: Option<Extension<Connection>>,
    slot: Option<Extension<Arc<Slot>>>,
    Small(Login { code }): Small<Login>,
) -> Result<impl IntoResponse, Problem> {
    // From here on the connection is kept: the code can be used once, and the answer has to arrive.
    let _active = slot.and_then(|Extension(slot)| slot.begin_request());
    let from = from.map(|Extension(connection)| connection);
    let SignedIn { token, name, expires } = app.access.sign_in(&code, from).await?;
    Ok(Answer(StatusCode::CREATED, json!({"token": token, "name": name, "expires": expires})))
}

pub(crate) async fn sign_out(
    State(app): State<Arc<App>>,
    _: Params<Nothing>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    if app.access.sign_out(&headers).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    let detail =
        "only the token of a page can be ended here; `turnstream token --new` replaces the gateway's own";
    Err(Problem::new(Kind::Forbidden, detail))
}

pub(crate) async fn new_code(
    State(app): State<Arc<App>>,
    _: Params<Nothing>,
    caller: Caller,
) -> Result<impl IntoResponse, Problem> {
    if !caller.is_owner() {
        let detail = "login codes are made with the gateway's own token; `turnstream login` prints one";
        return Err(Problem::new(Kind::Forbidden, detail));
    }
    let url = app.access.login_link().map_err(crate::access::no_randomness)?;
    Ok(Answer(StatusCode::CREATED, json!({"url": url, "expires_in": CODE_LIFE.as_secs()})))
}
