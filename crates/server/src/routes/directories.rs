//! `GET /v1/directories`: the directories below the roots, for a client that offers them to choose from.

use super::Answer;
use crate::app::App;
use crate::params::Params;
use crate::problem::Problem;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use turnstream_gateway::RequestError;

/// An answer has no more directories than this.
const MOST: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    path: Option<PathBuf>,
}

#[derive(Serialize)]
struct Roots<'a> {
    roots: &'a [PathBuf],
}

#[derive(Serialize)]
struct Directory {
    /// Its path without links.
    path: PathBuf,
    /// The names of the directories in it.
    directories: Vec<String>,
    /// There are more of them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Params(Asked { path }): Params<Asked>,
) -> Result<Response, Problem> {
    let Some(path) = path else {
        return Ok(Answer(StatusCode::OK, Roots { roots: app.gateway.roots() }).into_response());
    };
    let gateway = app.gateway.clone();
    let read = tokio::task::spawn_blocking(move || gateway.directories(Path::new(&path))).await;
    let (path, mut directories) = read.map_err(RequestError::log)??;
    let more = directories.len() > MOST;
    directories.truncate(MOST);
    Ok(Answer(StatusCode::OK, Directory { path, directories, more }).into_response())
}
