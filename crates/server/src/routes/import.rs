//! `/v1/import`: a session from a file that `…/export` wrote.

use super::Answer;
use crate::app::App;
use crate::body::{check_content_type, discard};
use crate::caller::CallersGateway;
use crate::params::Params;
use crate::problem::{Kind, Problem};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use http_body_util::BodyExt;
use serde::Deserialize;
use std::sync::Arc;
use tracing::Instrument;
use turnstream_gateway::{ImportAs, ImportError, RequestError, Spool};

/// `curl -d` would join the lines of a file.
const WITH_CURL: &str = "curl: -H 'Content-Type: application/x-ndjson' --data-binary @FILE";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImportParams {
    /// Gives the session a new id.
    #[serde(default)]
    new_id: bool,
}

pub(crate) async fn add(
    State(app): State<Arc<App>>,
    CallersGateway(gateway): CallersGateway,
    Params(params): Params<ImportParams>,
    request: Request,
) -> Result<impl IntoResponse, Problem> {
    check_content_type(request.headers(), "application/x-ndjson", WITH_CURL)?;
    let mut body = request.into_body();
    let imports = &app.in_use.imports;
    let received = async {
        let turn = imports.turn().await?;
        let deadline = imports.deadline();
        Ok::<_, Problem>((imports.in_time(deadline, spooled(&app, &mut body)).await?, turn, deadline))
    };
    let (spool, turn, deadline) = match received.await {
        Ok(received) => received,
        Err(problem) => {
            // A client that is still sending does not read the answer.
            discard(body).await;
            return Err(problem);
        }
    };
    let under = if params.new_id { ImportAs::New } else { ImportAs::Itself };
    // A task of its own: the import goes on without its client, and the next one waits for it all the same.
    let import = async move {
        let _turn = turn;
        gateway.import(spool, under, deadline).await
    };
    let imported = tokio::spawn(import.in_current_span()).await.map_err(RequestError::log)?;
    let session = imported.map_err(|error| match error {
        ImportError::TooSlow => imports.too_slow("the session was not stored"),
        other => other.into(),
    })?;
    Ok(Answer(StatusCode::CREATED, session))
}

/// Writes the whole body to a temporary file.
async fn spooled(app: &App, body: &mut Body) -> Result<Spool, Problem> {
    let mut spool = app.gateway.spool().await?;
    let (pause, limit) = (app.options.body, app.options.import);
    let mut bytes: u64 = 0;
    loop {
        let frame = match tokio::time::timeout(pause, body.frame()).await {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => {
                let detail = format!("the body broke off: {error}; send it again");
                return Err(Problem::new(Kind::BadBody, detail));
            }
            Err(_) => {
                let detail = format!("no part of the body arrived for {pause:?}; send it again");
                return Err(Problem::new(Kind::SlowBody, detail));
            }
        };
        let Some(data) = frame.data_ref() else { continue };
        bytes += data.len() as u64;
        if bytes > limit {
            let detail = format!("a file that is imported may have {limit} bytes");
            return Err(Problem::new(Kind::TooLarge, detail).with("limit", limit));
        }
        spool.write(data).await?;
    }
    spool.flush().await?;
    Ok(spool)
}
