//! The routes of runs.

use super::input::{Forwarded, RunInput, Said};
use super::known_runs::KnownRun;
use super::replies;
use super::writer::{Earlier, Run, Writer, earlier, nothing_earlier, write_thread};
use crate::access::Credential;
use crate::app::App;
use crate::body::Strict;
use crate::caller::CallersGateway;
use crate::chat::{
    self, History, NewChat, TurnResponse, Wanted, find, find_or_create, is_session_id, is_waiting,
};
use crate::params::Ids;
use crate::problem::{Kind, Problem};
use crate::stream::{Carrier, Framing, sse_response};
use axum::Extension;
use axum::body::Body;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use turnstream_dialects::ag_ui::interrupts;
use turnstream_gateway::{Gateway, NewPrompt, RequestError};
use turnstream_model::fold::{Prompt, State};
use turnstream_model::id::{PromptId, SessionId};

/// A message of the user, or answers to interrupts. Either way the response is one run.
pub(super) async fn run(
    Shared(app): Shared<Arc<App>>,
    CallersGateway(gateway): CallersGateway,
    Extension(credential): Extension<Credential>,
    Ids(agent): Ids<String>,
    Strict(mut input): Strict<RunInput>,
) -> Result<Response, Problem> {
    input.check()?;
    if input.resume.is_empty() {
        let said = input.said()?;
        let Forwarded { cwd, model } = input.forwarded();
        let new = NewChat { agent: Some(agent), cwd, model };
        let session = find_or_create(&app, &gateway, &input.thread_id, new).await?;
        let prompt = prompt(&gateway, &session, input.run_id.clone(), said).await?;
        let wanted = Wanted::Prompt(prompt.clone());
        let known = KnownRun { session: session.clone(), wanted: wanted.clone() };
        app.known_runs.add(&input.run_id, known);
        let is_current = input.is_current();
        let earlier = Earlier::clients(input.messages, &prompt);
        let run = Run::new(input.thread_id, input.run_id, earlier, is_current);
        let writer = |state: &State| Writer::new(state, run);
        return TurnResponse::open(app, credential, session, wanted, writer).await;
    }
    let session = known(&gateway, &input.thread_id)?;
    let state = whole(&gateway, &session).await?;
    let Some(turn) = replies::turn_of(&state, &input.resume) else {
        let detail = format!("session {session} has asked nothing that `resume` names");
        return Err(Problem::new(Kind::TurnNotOpen, detail));
    };
    let answers = std::mem::take(&mut input.resume);
    replies::pass_on(&gateway, &session, &state, answers, &input.run_id).await?;
    let wanted = Wanted::Turn(turn);
    app.known_runs.add(&input.run_id, KnownRun { session: session.clone(), wanted: wanted.clone() });
    follow(app, credential, session, &state, wanted, input).await
}

/// The whole thread as one run, which goes on while a turn is open.
pub(super) async fn connect(
    Shared(app): Shared<Arc<App>>,
    CallersGateway(gateway): CallersGateway,
    Extension(credential): Extension<Credential>,
    Ids(_agent): Ids<String>,
    Strict(input): Strict<RunInput>,
) -> Result<Response, Problem> {
    input.check()?;
    let Some(session) = existing(&gateway, &input.thread_id)? else { return Ok(nothing()) };
    let state = whole(&gateway, &session).await?;
    let wanted = match (state.open_turn(), state.queue.first()) {
        (Some(turn), _) => Wanted::Turn(turn.turn.clone()),
        (None, Some(queued)) => Wanted::Prompt(queued.prompt.clone()),
        (None, None) => return messages_only(&app, &session, &state, input),
    };
    follow(app, credential, session, &state, wanted, input).await
}

/// One run, with all messages before it.
pub(super) async fn follow(
    app: Arc<App>,
    credential: Credential,
    session: SessionId,
    state: &State,
    wanted: Wanted,
    input: RunInput,
) -> Result<Response, Problem> {
    let is_current = input.is_current();
    let earlier = earlier(state, wanted.turn(state).as_ref(), &input.messages);
    let run = Run::new(input.thread_id, input.run_id, earlier, is_current);
    let writer = |state: &State| Writer::new(state, run);
    TurnResponse::open(app, credential, session, wanted, writer).await
}

/// All messages of a thread in which no turn is open, as a run of the client's.
fn messages_only(
    app: &App,
    session: &SessionId,
    state: &State,
    input: RunInput,
) -> Result<Response, Problem> {
    let generation = app.gateway.session(session)?.generation;
    let (mut out, mut framing) = (BytesMut::new(), Framing::new(Carrier::Sse, "", &generation));
    let is_current = input.is_current();
    let earlier = nothing_earlier(&input.messages);
    let run = Run::new(input.thread_id, input.run_id, earlier, is_current);
    let mut frames = framing.replay(state.seq, &mut out);
    write_thread(state, run, &mut frames);
    frames.finish();
    Ok(sse_response(Body::from(out.freeze())))
}

fn nothing() -> Response {
    sse_response(Body::empty())
}

/// Ends the turn that runs, or withdraws the prompt that is next.
pub(super) async fn stop(
    CallersGateway(gateway): CallersGateway,
    Ids((_agent, thread)): Ids<(String, String)>,
) -> Result<Response, Problem> {
    let stopped = match find(&gateway, &thread)? {
        Some(session) => chat::stop_or_withdraw(&gateway, &session).await?,
        None => false,
    };
    Ok(json_response(&json!({"stopped": stopped})))
}

/// The agents, as CopilotKit asks for them. Those that cannot be used are left out.
pub(super) async fn info(Shared(app): Shared<Arc<App>>) -> Response {
    let usable = app.gateway.agents().into_iter().filter(|(_, about)| about.problem.is_none());
    let agents: Map<String, Value> = usable
        .map(|(name, about)| {
            let description = format!("{} ({})", name, about.kind);
            (name.clone(), json!({"name": name, "description": description, "className": "HttpAgent"}))
        })
        .collect();
    json_response(&json!({"version": env!("CARGO_PKG_VERSION"), "agents": agents, "mode": "sse"}))
}

/// Adds a prompt. The id of the run is its key, so a repeated request is the same prompt.
async fn prompt(
    gateway: &Gateway,
    session: &SessionId,
    key: String,
    said: Said,
) -> Result<PromptId, Problem> {
    let is_decided = |state: &State| said.is_decided_by(state.prompts.iter().chain(&state.queue));
    let mut history = History::newest(gateway, session, 1).await?;
    if !is_decided(&history.state) {
        history = History::back_to(gateway, session, is_decided).await?;
    }
    let state = history.state;
    let is_repeated = |prompt: &Prompt| prompt.key.as_deref() == Some(&key);
    let is_known = state.prompts.iter().chain(&state.queue).any(is_repeated);
    if state.open_turn().is_some_and(|turn| is_waiting(&state, &turn.turn)) && !is_known {
        let waiting: Vec<String> =
            interrupts(&state).iter().map(|interrupt| interrupt["id"].to_string()).collect();
        let detail = format!(
            "the agent waits for an answer; send `resume` with answers for {}, or stop the turn",
            waiting.join(", ")
        );
        return Err(Problem::new(Kind::BadAnswer, detail));
    }
    let content = said.content(&key, state.prompts.iter().chain(&state.queue));
    Ok(gateway.prompt(session, NewPrompt { key: Some(key), ..NewPrompt::new(content) }).await?.prompt)
}

/// The session of a thread, if there is one: a thread that a page has just made has none. An id of ours that
/// is unknown is an error.
pub(super) fn existing(gateway: &Gateway, thread: &str) -> Result<Option<SessionId>, RequestError> {
    match find(gateway, thread)? {
        None if is_session_id(thread) => Err(RequestError::UnknownSession(SessionId::from(thread))),
        found => Ok(found),
    }
}

/// The session of a thread.
fn known(gateway: &Gateway, thread: &str) -> Result<SessionId, Problem> {
    let unknown = || RequestError::UnknownSession(SessionId::from(thread));
    Ok(find(gateway, thread)?.ok_or_else(unknown)?)
}

/// The whole state of a session.
pub(super) async fn whole(gateway: &Gateway, session: &SessionId) -> Result<State, RequestError> {
    let mut state = gateway.snapshot(session).await?.state;
    // An imported session may have another id in its events.
    state.session.id = Some(session.clone());
    Ok(state)
}

pub(super) fn json_response(value: &Value) -> Response {
    let json = axum::http::HeaderValue::from_static("application/json");
    (StatusCode::OK, [(axum::http::header::CONTENT_TYPE, json)], value.to_string()).into_response()
}
