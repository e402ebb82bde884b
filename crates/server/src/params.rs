//! What a path and a query say.

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
                let detail = format!("a part of {} is not UTF-8 when it is decoded", parts.uri.path());
                Err(Problem::new(Kind::BadPath, detail))
            }
        }
    }
}

/// The query of a request; a parameter that is not known is refused.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let pairs = Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let Ok(Query(pairs)) = pairs else {
            let detail = "the query is no list of name=value pairs in UTF-8";
            return Err(Problem::new(Kind::BadQuery, detail));
        };
        query::read(pairs).map(Self).map_err(|error| Problem::new(Kind::BadQuery, error.to_string()))
    }
}

/// The query of a request that has none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// How much is on a page where nothing is said, and at most.
const USUAL_PAGE: usize = 50;
const LARGEST_PAGE: usize = 500;

/// How much a page may hold.
pub(crate) fn page_limit(asked: Option<usize>) -> Result<usize, Problem> {
    match asked.unwrap_or(USUAL_PAGE) {
        limit @ 1..=LARGEST_PAGE => Ok(limit),
        limit => {
            let detail = format!("limit {limit}: a page has 1 to {LARGEST_PAGE}; `next` leads to the rest");
            Err(Problem::new(Kind::BadQuery, detail))
        }
    }
}

/// The query of an event stream.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamParams {
    /// The last event the client has.
    after: Option<String>,
    /// How the stream says that it is alive.
    #[serde(default)]
    pub(crate) heartbeat: Heartbeat,
    /// What the frames look like.
    dialect: Option<String>,
}

/// How a stream says that it is alive.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Heartbeat {
    /// By a comment, which programs do not see.
    #[default]
    Comment,
    /// By an event, for clients that cannot see comments.
    Data,
}

impl StreamParams {
    /// Where the client stands: the header is stronger, because a browser that reconnects sends it with the old address.
    pub(crate) fn cursor(&self, headers: &HeaderMap) -> Result<FrameCursor, Problem> {
        let header = headers.get("last-event-id").map(|value| String::from_utf8_lossy(value.as_bytes()));
        let (place, text) = match (header.filter(|text| !text.is_empty()), &self.after) {
            (Some(text), _) => ("Last-Event-ID", text.into_owned()),
            (None, Some(after)) => ("?after", after.clone()),
            (None, None) => return Ok(FrameCursor::default()),
        };
        text.parse().map_err(|error: CursorError| {
            let problem = Problem::new(Kind::BadCursor, error.to_string());
            problem.advice(&format!("it is from {place}; leave it out to get everything"))
        })
    }

    /// The dialect that is asked for.
    pub(crate) fn dialect(&self) -> Result<&'static Offered, Problem> {
        let asked = self.dialect.as_deref();
        Offered::named(asked).ok_or_else(|| {
            let (asked, known) = (asked.unwrap_or_default(), Offered::names());
            let detail = format!("dialect: {asked:?} is not one of {}", known.join(", "));
            Problem::new(Kind::BadQuery, detail).with("known", known)
        })
    }
}
