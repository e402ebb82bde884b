//! Parameters in the path and in the query.

use crate::problem::{Kind, Problem};
use crate::query;
use crate::stream::Offered;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use turnstream_model::cursor::{CursorError, FrameCursor};

/// The ids in a path.
pub(crate) struct Ids<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Ids<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(ids)) => Ok(Self(ids)),
            Err(_) => {
                let detail = format!("a part of {} is not UTF-8 after decoding", parts.uri.path());
                Err(Problem::new(Kind::BadPath, detail))
            }
        }
    }
}

/// The query of a request. Unknown parameters are refused.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let pairs = Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let Ok(Query(pairs)) = pairs else {
            let detail = "the query is not a list of name=value pairs in UTF-8";
            return Err(Problem::new(Kind::BadQuery, detail));
        };
        query::read(pairs).map(Self).map_err(|error| Problem::new(Kind::BadQuery, error.to_string()))
    }
}

/// The query of a request that has none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// The default and the largest `limit` of a page.
const USUAL_PAGE: usize = 50;
const LARGEST_PAGE: usize = 500;

/// The checked `limit` of a page.
pub(crate) fn page_limit(asked: Option<usize>) -> Result<usize, Problem> {
    match asked.unwrap_or(USUAL_PAGE) {
        limit @ 1..=LARGEST_PAGE => Ok(limit),
        limit => {
            let detail =
                format!("limit {limit}: a page has 1 to {LARGEST_PAGE} entries; `next` leads to more");
            Err(Problem::new(Kind::BadQuery, detail))
        }
    }
}

/// The query of an event stream.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamParams {
    /// The client's cursor.
    after: Option<String>,
    /// The kind of heartbeat.
    #[serde(default)]
    pub(crate) heartbeat: Heartbeat,
    /// The name of the dialect.
    dialect: Option<String>,
}

/// The kind of heartbeat of a silent stream.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Heartbeat {
    /// An SSE comment, which programs do not see.
    #[default]
    Comment,
    /// An event, for clients that do not see comments.
    Data,
}

impl StreamParams {
    /// The client's cursor. The header wins over the query: a browser that reconnects sends the header with
    /// the original URL.
    pub(crate) fn cursor(&self, headers: &HeaderMap) -> Result<FrameCursor, Problem> {
        let header = headers.get("last-event-id").map(|value| String::from_utf8_lossy(value.as_bytes()));
        let (place, text) = match (header.filter(|text| !text.is_empty()), &self.after) {
            (Some(text), _) => ("Last-Event-ID", text.into_owned()),
            (None, Some(after)) => ("?after", after.clone()),
            (None, None) => return Ok(FrameCursor::default()),
        };
        text.parse().map_err(|error: CursorError| {
            let problem = Problem::new(Kind::BadCursor, error.to_string());
            problem.advice(&format!("it came in {place}; leave it out to get everything"))
        })
    }

    /// The requested dialect.
    pub(crate) fn dialect(&self) -> Result<&'static Offered, Problem> {
        let asked = self.dialect.as_deref();
        Offered::named(asked).ok_or_else(|| {
            let (asked, known) = (asked.unwrap_or_default(), Offered::names());
            let detail = format!("dialect: {asked:?} is not one of {}", known.join(", "));
            Problem::new(Kind::BadQuery, detail).with("known", known)
        })
    }
}
