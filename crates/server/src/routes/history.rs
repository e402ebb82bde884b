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
use turnstream_model::time::Time;

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
    approvals: Vec<Approval>,
    questions: Vec<Asked>,
    /// Only on the newest page.
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
    /// A time: the page begins with the first event that is not before it.
    at: Option<Time>,
    limit: Option<usize>,
}

/// When an event happened.
#[derive(Deserialize)]
struct Happened {
    time: Time,
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
    let from = match (from, asked.at) {
        (Some(_), Some(_)) => {
            let detail = "from and at both say where the page begins; give one of them";
            return Err(Problem::new(Kind::BadQuery, detail));
        }
        (None, Some(time)) => Some(cursor_at(&app, &id, time).await?),
        (from, None) => from,
    };
    let query = EventsQuery { from, limit: page_limit(asked.limit)? };
    let page = app.gateway.events(&id, query).await?;
    let json = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, json)], body(&page)).into_response())
}

/// The first event that is not before this time; after the head if there is none. Times never decrease, so
/// a few events are read, however long the log is.
async fn cursor_at(app: &App, id: &SessionId, time: Time) -> Result<Cursor, Problem> {
    let all = app.gateway.events(id, EventsQuery { from: None, limit: 1 }).await?;
    let at = |seq: u64| Cursor { generation: Some(all.generation.clone()), seq: Seq(seq) };
    let (mut low, mut high) = (all.oldest.0, all.head.0 + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let page = app.gateway.events(id, EventsQuery { from: Some(at(middle)), limit: 1 }).await?;
        let event = page.events.first().and_then(|event| serde_json::from_slice(event.json()).ok());
        match event {
            Some(Happened { time: its }) if its < time => low = middle + 1,
            _ => high = middle,
        }
    }
    Ok(at(low))
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
