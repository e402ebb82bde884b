//! `…/export`: a session as a file, streamed as it is read.

use crate::app::App;
use crate::params::{Ids, Params};
use crate::problem::{Kind, Problem};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use turnstream_dialects::markdown;
use turnstream_gateway::{Export, RequestError};
use turnstream_model::Chain;
use turnstream_model::fold::{Applied, Fold};
use turnstream_model::id::SessionId;

/// The longest `wait` in seconds.
const LONGEST_WAIT: u64 = 300;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportParams {
    #[serde(default)]
    format: Format,
    /// Seconds to wait for the end of what is open.
    #[serde(default)]
    wait: u64,
}

/// The format of the file.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Format {
    /// A header and the events, for programs.
    #[default]
    Jsonl,
    /// The conversation, for people.
    Markdown,
}

impl Format {
    fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Jsonl => "application/x-ndjson",
            Self::Markdown => "text/markdown; charset=utf-8",
        })
    }

    fn extension(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Markdown => "md",
        }
    }
}

pub(crate) async fn one(
    State(app): State<Arc<App>>,
    Ids(id): Ids<SessionId>,
    Params(params): Params<ExportParams>,
) -> Result<Response, Problem> {
    let ExportParams { format, wait } = params;
    if wait > LONGEST_WAIT {
        let detail =
            format!("wait={wait} is longer than the {LONGEST_WAIT} seconds that one request may wait");
        return Err(Problem::new(Kind::BadQuery, detail));
    }
    let export = app.gateway.export(&id, Duration::from_secs(wait)).await?;
    let (first, left_out) = (export.header().first, export.header().left_out);
    let body = match format {
        Format::Jsonl => lines(export),
        Format::Markdown => Body::from(conversation(export).await?),
    };
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, format.content_type());
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // For programs: a Markdown page does not have these members.
    headers.insert("turnstream-first", HeaderValue::from(first.0));
    headers.insert("turnstream-left-out", HeaderValue::from(left_out));
    let file = format!("attachment; filename=\"{id}.{}\"", format.extension());
    if let Ok(file) = HeaderValue::from_str(&file) {
        headers.insert(header::CONTENT_DISPOSITION, file);
    }
    Ok(response)
}

/// The header, then the events in batches. If the log cannot be read, the connection is cut, and the header
/// shows that the file is incomplete.
fn lines(export: Export) -> Body {
    let header = Bytes::from(export.header().to_json() + "\n");
    let rest = stream::unfold(export, |mut export| async move {
        let events = match export.next().await {
            Ok(events) => events?,
            Err(error) => {
                let session = &export.header().session;
                tracing::warn!(%session, error = %Chain(&error), "an export was cut off");
                return Some((Err(error), export));
            }
        };
        let mut lines = Vec::with_capacity(events.iter().map(|event| event.json().len() + 1).sum());
        for event in &events {
            lines.extend_from_slice(event.json());
            lines.push(b'\n');
        }
        Some((Ok(Bytes::from(lines)), export))
    });
    let first = stream::once(std::future::ready(Ok::<_, RequestError>(header)));
    Body::from_stream(futures_util::StreamExt::chain(first, rest))
}

/// The exported conversation as Markdown.
async fn conversation(mut export: Export) -> Result<String, RequestError> {
    let mut fold = Fold::from(export.header().base.as_deref().cloned().unwrap_or_default());
    while let Some(events) = export.next().await? {
        for event in events {
            let event = event.event().map_err(RequestError::log)?;
            if let Applied::Gap { expected } = fold.apply(&event) {
                return Err(RequestError::log(format!("event {expected} is missing")));
            }
        }
    }
    Ok(markdown::document(fold.state(), export.header()))
}
