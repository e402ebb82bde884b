//! The routes of a chat.

use super::answer::Failure;
use super::content::blocks;
use super::replies;
use super::request::{Body, Send, Version};
use super::writer::Writer;
use crate::access::Credential;
use crate::app::App;
use crate::caller::CallersGateway;
use crate::chat::{self, History, NewChat, TurnResponse, Wanted, find, find_or_create, is_waiting};
use crate::params::Ids;
use axum::Extension;
use axum::extract::State as Shared;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::Arc;
use turnstream_dialects::ai_sdk::{self, Held, Profile, is_ours};
use turnstream_gateway::{Gateway, NewPrompt, RequestError};
use turnstream_model::fold::{Prompt, State};
use turnstream_model::id::{PromptId, SessionId, TurnId};

/// The header by which the SDK's own servers name their protocol.
const PROTOCOL: &str = "x-vercel-ai-ui-message-stream";

/// A message of the user, or answers of a person in the assistant's message. Either way the response is the
/// turn.
pub(super) async fn send(
    Shared(app): Shared<Arc<App>>,
    CallersGateway(gateway): CallersGateway,
    Extension(credential): Extension<Credential>,
    Version(profile): Version,
    Body(mut body): Body<Send>,
) -> Result<Response, Failure> {
    let last = body.last()?;
    match last["role"].as_str() {
        Some("user") => {
            let content = blocks(&last)?;
            let Send { id, agent, cwd, model, .. } = body;
            let new = NewChat { agent, cwd, model };
            let session = find_or_create(&app, &gateway, &id, new).await?;
            let prompt = prompt(&gateway, &session, &last, content).await?;
            respond(app, credential, session, Wanted::Prompt(prompt), Held::default(), profile).await
        }
        Some("assistant") => {
            let session = find(&gateway, &body.id)?;
            let session = session.ok_or_else(|| RequestError::UnknownSession(SessionId::from(body.id)))?;
            let turn = turn_of_message(&session, &last)?;
            replies::pass_on(&gateway, &session, &last).await?;
            respond(app, credential, session, Wanted::Turn(turn), Held::read(&last), profile).await
        }
        _ => Err(Failure::bad("the last message must be of the role user or assistant")),
    }
}

/// The turn that runs, from its start. 204 if none does, or if it waits for a person.
pub(super) async fn stream(
    Shared(app): Shared<Arc<App>>,
    Extension(credential): Extension<Credential>,
    Ids(id): Ids<String>,
    Version(profile): Version,
) -> Result<Response, Failure> {
    let Some(session) = known(&app.gateway, &id)? else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    let state = History::newest(&app.gateway, &session, 1).await?.state;
    let Some(wanted) = running(&state) else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    respond(app, credential, session, wanted, Held::default(), profile).await
}

/// Ends the turn that runs, or withdraws the prompt that is next.
pub(super) async fn stop(
    CallersGateway(gateway): CallersGateway,
    Ids(id): Ids<String>,
    _: Version,
) -> Result<Response, Failure> {
    let stopped = match known(&gateway, &id)? {
        Some(session) => chat::stop_or_withdraw(&gateway, &session).await?,
        None => false,
    };
    Ok(json_response(&json!({"stopped": stopped})))
}

/// The messages that a page begins with.
pub(super) async fn messages(
    Shared(app): Shared<Arc<App>>,
    Ids(id): Ids<String>,
    Version(profile): Version,
) -> Result<Response, Failure> {
    let Some(session) = known(&app.gateway, &id)? else { return Ok(json_response(&json!([]))) };
    let mut state = app.gateway.snapshot(&session).await?.state;
    // An imported session may have another id in its events.
    state.session.id = Some(session);
    // A long session takes a while.
    let read = tokio::task::spawn_blocking(move || ai_sdk::messages(&state, profile)).await;
    Ok(json_response(&Value::Array(read.map_err(RequestError::log)?)))
}

/// The session of a chat, if it has one. An id that a page has just made has none, and that is no error.
fn known(gateway: &Gateway, id: &str) -> Result<Option<SessionId>, Failure> {
    match find(gateway, id)? {
        None if chat::is_session_id(id) => Err(RequestError::UnknownSession(SessionId::from(id)).into()),
        found => Ok(found),
    }
}

async fn respond(
    app: Arc<App>,
    credential: Credential,
    session: SessionId,
    wanted: Wanted,
    held: Held,
    profile: Profile,
) -> Result<Response, Failure> {
    let writer = |state: &State| Writer::new(state, held, profile);
    let mut response = TurnResponse::open(app, credential, session, wanted, writer).await?;
    response.headers_mut().insert(PROTOCOL, HeaderValue::from_static("v1"));
    Ok(response)
}

/// Adds a prompt. The id of the message is its key, so a repeated request is the same prompt.
async fn prompt(
    gateway: &Gateway,
    session: &SessionId,
    message: &Value,
    content: Vec<Value>,
) -> Result<PromptId, Failure> {
    let id = message["id"].as_str().filter(|id| !id.is_empty());
    if id.is_some_and(|id| is_ours(session.as_str(), id)) {
        return Err(edited());
    }
    let state = History::newest(gateway, session, 1).await?.state;
    let is_repeated = |prompt: &Prompt| prompt.key.is_some() && prompt.key.as_deref() == id;
    let is_known = state.prompts.iter().chain(&state.queue).any(is_repeated);
    // A page cannot answer while its message waits for the turn that waits for the answer.
    if state.open_turn().is_some_and(|turn| is_waiting(&state, &turn.turn)) && !is_known {
        return Err(Failure::refused(
            "The agent waits for an answer. Answer it first, or stop the turn, and send the message again.",
        ));
    }
    let new = NewPrompt { key: id.map(str::to_owned), ..NewPrompt::new(content) };
    match gateway.prompt(session, new).await {
        Ok(accepted) => Ok(accepted.prompt),
        Err(RequestError::KeyReused { .. }) => Err(edited()),
        Err(error) => Err(error.into()),
    }
}

fn edited() -> Failure {
    Failure::refused(
        "A message that was sent cannot be edited: the agent has already read it. Send a new message.",
    )
}

/// The turn whose answer a message is.
fn turn_of_message(session: &SessionId, message: &Value) -> Result<TurnId, Failure> {
    let id = message["id"].as_str().unwrap_or_default();
    let turn = id.strip_prefix(session.as_str()).and_then(|rest| rest.strip_prefix('/'));
    let unknown = || Failure::refused(format!("The message {id:?} is no answer of this chat."));
    turn.map(TurnId::from).ok_or_else(unknown)
}

/// What a client can follow: the open turn, unless it waits, or the turn of a prompt that is to be sent.
fn running(state: &State) -> Option<Wanted> {
    match state.open_turn() {
        Some(turn) if is_waiting(state, &turn.turn) => None,
        Some(turn) => Some(Wanted::Turn(turn.turn.clone())),
        None => state.queue.first().map(|prompt| Wanted::Prompt(prompt.prompt.clone())),
    }
}

fn json_response(value: &Value) -> Response {
    let json = HeaderValue::from_static("application/json");
    (StatusCode::OK, [(header::CONTENT_TYPE, json)], value.to_string()).into_response()
}
