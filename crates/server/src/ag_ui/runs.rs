//! The routes of runs.

use super::input::{Forwarded, RunInput};
use super::replies;
use super::writer::{Earlier, Run, Writer, before, earlier, write_thread};
use crate::access::Credential;
use crate::app::App;
use crate::body::Strict;
use crate::caller::CallersGateway;
use crate::chat::{self, History, NewChat, TurnResponse, Wanted, find, find_or_create, is_waiting};
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
use turnstream_model::id::SessionId;

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
        let content = input.prompt()?;
        let Forwarded { cwd, model } = input.forwarded();
        let new = NewChat { agent: Some(agent), cwd, model };
        let session = find_or_create(&app, &gateway, &input.thread_id, new).await?;
        let key = input.run_id.clone();
        let prompt = prompt(&gateway, &session, key, content).await?;
        let is_current = input.is_current();
        let earlier = Earlier::Clients { messages: input.messages, prompt: prompt.clone() };
        let run = Run::new(input.thread_id, input.run_id, earlier, is_current);
        let writer = |state: &State| Writer::new(state, run);
        return TurnResponse::open(app, credential, session, Wanted::Prompt(prompt), writer).await;
    }
    let session = known(&gateway, &input.thread_id)?;
    let state = whole(&gateway, &session).await?;
    let Some(turn) = replies::turn_of(&state, &input.resume) else {
        let detail = format!("session {session} has asked nothing that `resume` names");
        return Err(Problem::new(Kind::TurnNotOpen, detail));
    };
    let is_current = input.is_current();
    replies::pass_on(&gateway, &session, &state, input.resume, &input.run_id).await?;
    let earlier = earlier(&state, before(&state, &turn), input.messages);
    let run = Run::new(input.thread_id, input.run_id, earlier, is_current);
    let writer = |state: &State| Writer::new(state, run);
    TurnResponse::open(app, credential, session, Wanted::Turn(turn), writer).await
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
    // A thread that a page has just made has no session, and that is no error.
    let Some(session) = find(&gateway, &input.thread_id)? else { return Ok(nothing()) };
    let state = whole(&gateway, &session).await?;
    follow(app, credential, session, &state, input).await
}

/// The run that is open, or that a queued prompt will begin, with all messages before it; or only those.
pub(super) async fn follow(
    app: Arc<App>,
    credential: Credential,
    session: SessionId,
    state: &State,
    input: RunInput,
) -> Result<Response, Problem> {
    let is_current = input.is_current();
    let wanted = match (state.open_turn(), state.queue.first()) {
        (Some(turn), _) => Some((before(state, &turn.turn), Wanted::Turn(turn.turn.clone()))),
        (None, Some(queued)) => Some((&state.turns[..], Wanted::Prompt(queued.prompt.clone()))),
        (None, None) => None,
    };
    if let Some((turns, wanted)) = wanted {
        let earlier = earlier(state, turns, input.messages);
        let run = Run::new(input.thread_id, input.run_id, earlier, is_current);
        let writer = |state: &State| Writer::new(state, run);
        return TurnResponse::open(app, credential, session, wanted, writer).await;
    }
    let generation = app.gateway.session(&session)?.generation;
    let (mut out, mut framing) = (BytesMut::new(), Framing::new(Carrier::Sse, "", &generation));
    // The list has all messages itself.
    let earlier = earlier(state, &[], input.messages);
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
    content: Vec<Value>,
) -> Result<turnstream_model::id::PromptId, Problem> {
    let state = History::newest(gateway, session, 1).await?.state;
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
    Ok(gateway.prompt(session, NewPrompt { key: Some(key), ..NewPrompt::new(content) }).await?.prompt)
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
