//! `/v1/search`: finished items of all sessions, by their words.

use super::Answer;
use crate::app::App;
use crate::params::Params;
use crate::problem::Problem;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use turnstream_gateway::{Hit, Page, Part, Query, Subject};
use turnstream_model::event::{ItemKind, Role};
use turnstream_model::id::{ItemId, PromptId, SessionId, TurnId};
use turnstream_model::time::Time;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    q: String,
    session: Option<SessionId>,
    agent: Option<String>,
    role: Option<Role>,
    kind: Option<ItemKind>,
    from: Option<u64>,
    to: Option<u64>,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Serialize)]
struct Found {
    hits: Vec<One>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    indexing: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    incomplete: bool,
}

#[derive(Serialize)]
struct One {
    session: SessionId,
    agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<ItemId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<PromptId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<TurnId>,
    kind: ItemKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<Role>,
    time: Time,
    snippet: Vec<Part>,
}

impl From<Hit> for One {
    fn from(hit: Hit) -> Self {
        let Hit { session, agent, subject, turn, kind, role, time, snippet } = hit;
        let (item, prompt) = match subject {
            Subject::Item(item) => (Some(item), None),
            Subject::Prompt(prompt) => (None, Some(prompt)),
        };
        Self { session, agent, item, prompt, turn, kind, role, time, snippet }
    }
}

pub(crate) async fn find(
    State(app): State<Arc<App>>,
    Params(asked): Params<Asked>,
) -> Result<impl IntoResponse, Problem> {
    let Asked { q: words, session, agent, role, kind, from, to, limit, cursor } = asked;
    let (from, to) = (from.map(Time), to.map(Time));
    let query = Query { words, session, agent, role, kind, from, to, limit, cursor, patience: None };
    let Page { hits, next, is_indexing: indexing, is_incomplete: incomplete } =
        app.gateway.search(query).await?;
    let hits = hits.into_iter().map(One::from).collect();
    Ok(Answer(StatusCode::OK, Found { hits, next, indexing, incomplete }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_so_is_not_said() {
        let found = |next: Option<&str>, incomplete| {
            let next = next.map(str::to_owned);
            serde_json::to_value(Found { hits: vec![], next, indexing: false, incomplete }).unwrap()
        };
        assert_eq!(found(None, false), json!({"hits": []}));
        assert_eq!(found(Some("a-1"), true), json!({"hits": [], "next": "a-1", "incomplete": true}));
    }
}
