//! Messages of a session, a page at a time. A page reads whole turns from the store, and not the session.

use super::answer::{Answer, Failure, Json, off_thread};
use super::lookup::{self, Found, state_of};
use super::request::Asked;
use crate::app::App;
use crate::params::Ids;
use axum::extract::State as Shared;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashSet;
use std::sync::Arc;
use turnstream_dialects::opencode::{self, Message, Named, Names};
use turnstream_gateway::{ItemsPage, ItemsQuery};
use turnstream_model::fold::{Session, State};
use turnstream_model::id::{ItemId, TurnId};
use turnstream_model::time::Time;

/// The header with the value of `before` for the next page. Absent on the last one.
const NEXT: HeaderName = HeaderName::from_static("x-next-cursor");
/// The fewest and the most items that are read at once.
const FEWEST: usize = 64;
const MOST: usize = 4_096;

/// Where a page ended. Clients get it as one opaque word.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Cursor {
    /// The oldest message of that page.
    message: String,
    /// An item after everything that the next page needs. `None`: the end of the session.
    item: Option<ItemId>,
}

/// The last `limit` messages, or those before the page that ended at `before`.
pub(super) async fn list(
    Shared(app): Shared<Arc<App>>,
    Ids(id): Ids<String>,
    asked: Asked,
) -> Result<Response, Failure> {
    let limit = asked.number("limit")?.filter(|limit| *limit > 0);
    let before = asked.get("before").map(Cursor::read).transpose()?;
    let Found { id: ours, named } = lookup::find(&app, &id)?;
    let limit = match (limit, named) {
        (None, _) if before.is_some() => return Err(Failure::bad("before needs limit")),
        // A subagent has a task and an answer.
        (None, _) | (_, Named::Subagent(_)) => return Ok(answer(all(&app, &id).await?, None)),
        (Some(limit), Named::Session) => usize::try_from(limit).unwrap_or(usize::MAX),
    };
    let session = Session { id: Some(ours.clone()), ..app.gateway.session(&ours)?.session };
    let mut turns = Turns { state: State { session, ..State::default() }, more: None };
    let mut from = before.as_ref().and_then(|before| before.item.clone());
    let mut items = limit.saturating_mul(2).clamp(FEWEST, MOST);
    loop {
        turns.add(app.gateway.items(&ours, ItemsQuery { before: from, limit: items }).await?);
        let render = move || {
            let messages = turns.messages();
            (turns, messages)
        };
        let rendered: (Turns, Vec<Placed>) = tokio::task::spawn_blocking(render).await.map_err(off_thread)?;
        let mut messages = rendered.1;
        turns = rendered.0;
        messages.truncate(end_before(&messages, before.as_ref()));
        if messages.len() >= limit || turns.more.is_none() {
            let page = messages.split_off(messages.len().saturating_sub(limit));
            let oldest = page.first().filter(|_| !messages.is_empty() || turns.more.is_some());
            let next = oldest.map(|oldest| turns.cursor(oldest));
            return Ok(answer(page.into_iter().map(|placed| placed.message).collect(), next.as_ref()));
        }
        (from, items) = (turns.more.clone(), (items * 2).min(MOST));
    }
}

pub(super) async fn show(Shared(app): Shared<Arc<App>>, Ids((id, message)): Ids<(String, String)>) -> Answer {
    let messages = all(&app, &id).await?;
    let found = messages.iter().find(|known| known.id == message);
    let missing = || Failure::not_found(format!("Message not found: {message}"));
    Ok(Json(found.ok_or_else(missing)?.to_json()))
}

async fn all(app: &App, id: &str) -> Result<Vec<Message>, Failure> {
    let (state, named) = state_of(app, id).await?;
    let render = move || opencode::messages(&state, &named);
    tokio::task::spawn_blocking(render).await.map_err(off_thread)
}

/// Messages in the order of their ids, as clients sort them.
fn answer(mut messages: Vec<Message>, next: Option<&Cursor>) -> Response {
    messages.sort_by(|one, other| one.id.cmp(&other.id));
    let mut response = Json(Value::Array(messages.iter().map(Message::to_json).collect())).into_response();
    if let Some(next) = next.and_then(|next| HeaderValue::try_from(next.word()).ok()) {
        response.headers_mut().insert(NEXT, next);
    }
    response
}

/// How many of these messages come before a page. One that is gone by now is found by its id.
fn end_before(messages: &[Placed], before: Option<&Cursor>) -> usize {
    let Some(Cursor { message, .. }) = before else { return messages.len() };
    let place = messages.iter().position(|placed| placed.message.id == *message);
    place.unwrap_or_else(|| messages.iter().take_while(|placed| placed.message.id < *message).count())
}

impl Cursor {
    fn word(&self) -> String {
        // Fails only for maps with keys that are not strings, which this type does not have.
        BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    fn read(word: &str) -> Result<Self, Failure> {
        let json = BASE64_URL_SAFE_NO_PAD.decode(word).ok();
        let cursor = json.and_then(|json| serde_json::from_slice(&json).ok());
        cursor.ok_or_else(|| Failure::bad(format!("before {word:?} is no cursor of an {NEXT} header")))
    }
}

/// The newest turns of a session, as far as they were read.
struct Turns {
    state: State,
    /// Where to read on. `None`: all was read.
    more: Option<ItemId>,
}

/// A message, and its place in the log.
struct Placed {
    place: usize,
    message: Message,
}

impl Turns {
    /// Adds a page before what was read. A turn may be on both.
    fn add(&mut self, page: ItemsPage) {
        let ItemsPage { items, mut turns, mut prompts, queue, next, .. } = page;
        let state = &mut self.state;
        turns.retain(|turn| state.turns.iter().all(|known| known.turn != turn.turn));
        prompts.retain(|prompt| state.prompts.iter().all(|known| known.prompt != prompt.prompt));
        state.items.splice(..0, items.into_iter().rev());
        state.turns.splice(..0, turns.into_iter().rev());
        state.prompts.splice(..0, prompts.into_iter().rev());
        state.queue.extend(queue);
        self.more = next;
    }

    /// The place of what belongs to a turn, or of what happened at this time without one.
    fn place(&self, turn: Option<&TurnId>, time: Time) -> usize {
        let turns = &self.state.turns;
        let of_turn = turn.and_then(|turn| turns.iter().position(|known| known.turn == *turn));
        of_turn.map_or_else(|| turns.partition_point(|turn| turn.started <= time), |place| place + 1)
    }

    /// The messages in the order of the log, without those of a turn that may have begun earlier.
    fn messages(&self) -> Vec<Placed> {
        let names = Names::of(&self.state.session);
        let waiting: HashSet<String> = self.state.queue.iter().map(|prompt| names.prompt(prompt)).collect();
        let placed = |message: Message| {
            let created = Time(message.info["time"]["created"].as_u64().unwrap_or_default());
            let place = match waiting.contains(&message.id) {
                true => usize::MAX,
                false => self.place(message.turn.as_ref(), created),
            };
            Placed { place, message }
        };
        let mut messages: Vec<Placed> =
            opencode::messages(&self.state, &Named::Session).into_iter().map(placed).collect();
        // The order within a turn is that of the ids.
        messages.sort_by_key(|placed| placed.place);
        if self.more.is_some() {
            messages.retain(|placed| placed.place > 1);
        }
        messages
    }

    /// Where the page that begins with this message ends, for the next one.
    fn cursor(&self, oldest: &Placed) -> Cursor {
        let after =
            self.state.items.iter().find(|item| self.place(item.turn.as_ref(), item.time) > oldest.place);
        Cursor { message: oldest.message.id.clone(), item: after.map(|item| item.id.clone()) }
    }
}
