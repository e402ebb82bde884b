//! `…/items` and `…/log`: the history of a session, a page at a time.

use super::Answer;
use crate::app::App;
use crate::params::{Ids, Params, page_limit};
use crate::problem::{Kind, Problem};
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use turnstream_gateway::{EventsPage, EventsQuery, ItemsPage, ItemsQuery};
use turnstream_model::cursor::{Cursor, Generation, Seq};
use turnstream_model::fold::{Approval, Asked, Item, Prompt, Turn};
use turnstream_model::id::{ItemId, SessionId};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ItemsAsked {
    before: Option<ItemId>,
    limit: Option<usize>,
}

#[derive(Serialize)]
struct Items {
    generation: Generation,
    oldest: Seq,
    head: Seq,
    items: Vec<Item>,
    turns: Vec<Turn>,
    prompts: Vec<Prompt>,
    /// Only on the newest page, like the two lists after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    approvals: Option<Vec<Approval>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    questions: Option<Vec<Asked>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<Vec<Prompt>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<ItemId>,
}

pub(crate) async fn items(
    State(app): State<Arc<App>>,
    Ids(id): Ids<SessionId>,
    Params(asked): Params<ItemsAsked>,
) -> Result<impl IntoResponse, Problem> {
    let is_newest = asked.before.is_none();
    let query = ItemsQuery { before: asked.before, limit: page_limit(asked.limit)? };
    let page = app.gateway.items(&id, query).await?;
    let ItemsPage { generation, oldest, head, items, turns, prompts, approvals, questions, queue, .. } = page;
    let approvals = is_newest.then_some(approvals);
    let questions = is_newest.then_some(questions);
    let queue = is_newest.then_some(queue);
    let page = Items {
        generation,
        oldest,
        head,
        items,
        turns,
        prompts,
        approvals,
        questions,
        queue,
        next: page.next,
    };
    Ok(Answer(StatusCode::OK, page))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogAsked {
    from: Option<String>,
    limit: Option<usize>,
}

/// The members of a page of events before its events.
#[derive(Serialize)]
struct Head<'a> {
    generation: &'a Generation,
    oldest: Seq,
    head: Seq,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

pub(crate) async fn log(
    State(app): State<Arc<App>>,
    Ids(id): Ids<SessionId>,
    Params(asked): Params<LogAsked>,
) -> Result<Response, Problem> {
    let from = asked.from.map(|from| from.parse::<Cursor>()).transpose().map_err(|error| {
        let detail = format!("?from: {error}; leave it out to begin with the oldest event");
        Problem::new(Kind::BadCursor, detail)
    })?;
    let query = EventsQuery { from, limit: page_limit(asked.limit)? };
    let page = app.gateway.events(&id, query).await?;
    let json = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, json)], body(&page)).into_response())
}

/// The events are the committed bytes: they are not parsed.
fn body(page: &EventsPage) -> Vec<u8> {
    let EventsPage { generation, oldest, head, events, next } = page;
    let next = next.map(|seq| Cursor { generation: Some(generation.clone()), seq }.to_string());
    let head = Head { generation, oldest: *oldest, head: *head, next };
    // Fails only for maps with keys that are not strings, which this type does not have.
    let mut body = serde_json::to_vec(&head).unwrap_or_default();
    body.pop();
    body.extend_from_slice(b",\"events\":[");
    for (place, event) in events.iter().enumerate() {
        if place > 0 {
            body.push(b',');
        }
        body.extend_from_slice(event.json());
    }
    body.extend_from_slice(b"]}");
    body
}
