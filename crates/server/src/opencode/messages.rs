//! Messages of a session, a page at a time. A page reads whole turns from the store, and not the session.

use super::answer::{Answer, Failure, Json, off_thread};
use super::lookup::{self, Found};
use super::request::Asked;
use crate::app::App;
use crate::chat::{FEWEST, History, MOST, has_turn};
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
use turnstream_dialects::opencode::{self, FileChange, Message, Named, Names};
use turnstream_model::id::{ItemId, SessionId, TurnId};
use turnstream_model::time::Time;

/// The header with the value of `before` for the next page. Absent on the last one.
const NEXT: HeaderName = HeaderName::from_static("x-next-cursor");

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
    let from = before.as_ref().and_then(|before| before.item.clone());
    let mut items = limit.saturating_mul(2).clamp(FEWEST, MOST);
    let mut history = History::before(&app.gateway, &ours, from, items).await?;
    loop {
        let mut messages;
        (history, messages) = rendered(history).await?;
        messages.truncate(end_before(&messages, before.as_ref()));
        items = (items * 2).min(MOST);
        if messages.len() >= limit || !history.read_on(&app.gateway, &ours, items).await? {
            let page = messages.split_off(messages.len().saturating_sub(limit));
            let oldest = page.first().filter(|_| !messages.is_empty() || history.more.is_some());
            let next = oldest.map(|oldest| history.cursor_before(oldest));
            return Ok(answer(page.into_iter().map(|placed| placed.message).collect(), next.as_ref()));
        }
    }
}

/// The messages of a history, which are made off the threads of the server.
async fn rendered(history: History) -> Result<(History, Vec<Placed>), Failure> {
    let render = move || {
        let messages = history.messages();
        (history, messages)
    };
    tokio::task::spawn_blocking(render).await.map_err(off_thread)
}

pub(super) async fn show(Shared(app): Shared<Arc<App>>, Ids((id, message)): Ids<(String, String)>) -> Answer {
    let Found { id: ours, named } = lookup::find(&app, &id)?;
    let found = match named {
        Named::Subagent(_) => all(&app, &id).await?.into_iter().find(|known| known.id == message),
        Named::Session => newest_with(&app, &ours, &message).await?,
    };
    let missing = || Failure::not_found(format!("Message not found: {message}"));
    Ok(Json(found.ok_or_else(missing)?.to_json()))
}

/// The message with this id, from the newest page that has it.
async fn newest_with(app: &App, id: &SessionId, message: &str) -> Result<Option<Message>, Failure> {
    let mut items = FEWEST;
    let mut history = History::newest(&app.gateway, id, items).await?;
    loop {
        let messages;
        (history, messages) = rendered(history).await?;
        let found = messages.into_iter().find(|placed| placed.message.id == message);
        items = (items * 2).min(MOST);
        if found.is_some() || !history.read_on(&app.gateway, id, items).await? {
            return Ok(found.map(|placed| placed.message));
        }
    }
}

/// The changes of files in the turn of a message.
pub(super) async fn changes_of(app: &App, id: &SessionId, message: &str) -> Result<Vec<FileChange>, Failure> {
    let missing = || Failure::not_found(format!("Message not found: {message}"));
    let Some(turn) = newest_with(app, id, message).await?.ok_or_else(missing)?.turn else {
        return Ok(Vec::new());
    };
    let mut state = History::back_to(&app.gateway, id, |state| has_turn(state, &turn)).await?.state;
    state.items.retain(|item| item.turn.as_ref() == Some(&turn));
    Ok(opencode::diffs(&state, &Named::Session))
}

async fn all(app: &App, id: &str) -> Result<Vec<Message>, Failure> {
    let Found { id: ours, named } = lookup::find(app, id)?;
    let state = match &named {
        Named::Session => lookup::state(&app.gateway, &ours).await?,
        Named::Subagent(call) => lookup::since_call(app, id, &ours, call).await?,
    };
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

/// A message, and its place in the log.
struct Placed {
    place: usize,
    message: Message,
}

impl History {
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
    fn cursor_before(&self, oldest: &Placed) -> Cursor {
        let after =
            self.state.items.iter().find(|item| self.place(item.turn.as_ref(), item.time) > oldest.place);
        Cursor { message: oldest.message.id.clone(), item: after.map(|item| item.id.clone()) }
    }
}
