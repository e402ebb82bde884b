//! `/v1/import`: a session from a file that `…/export` wrote.

use super::Answer;
use crate::app::App;
use crate::body::discard;
use crate::params::Params;
use crate::problem::{Kind, Problem};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use http_body_util::BodyExt;
use serde::Deserialize;
use std::sync::Arc;
use turnstream_gateway::{ImportAs, Spool};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImportParams {
    /// Gives the session a new id.
    #[serde(default)]
    new_id: bool,
}

pub(crate) async fn add(
    State(app): State<Arc<App>>,
    Params(params): Params<ImportParams>,
    request: Request,
) -> Result<impl IntoResponse, Problem> {
    check_type(request.headers())?;
    let mut body = request.into_body();
    let imports = &app.in_use.imports;
    let received = async {
        let turn = imports.turn().await?;
        Ok::<_, Problem>((imports.in_time(spooled(&app, &mut body)).await?, turn))
    };
    let (spool, _turn) = match received.await {
        Ok(received) => received,
        Err(problem) => {
            // A client that is still sending does not read the answer.
            discard(body).await;
            return Err(problem);
        }
    };
    let under = if params.new_id { ImportAs::New } else { ImportAs::Itself };
    let session = app.gateway.import(spool, under).await?;
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

/// Refuses only the type of a form: `curl -d` sends it, and joins the lines of a file.
fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers.get(header::CONTENT_TYPE).map(|given| given.to_str().unwrap_or_default());
    if given.is_some_and(|given| {
        given.trim().to_ascii_lowercase().starts_with("application/x-www-form-urlencoded")
    }) {
        let detail = "the content type of the body is a form; send the file unchanged as application/x-ndjson \
                      (curl: -H 'Content-Type: application/x-ndjson' --data-binary @FILE)";
        return Err(Problem::new(Kind::NotJson, detail));
    }
    Ok(())
}
