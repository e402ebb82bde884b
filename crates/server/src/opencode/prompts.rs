//! Prompts: sent and awaited, or only sent; and the end of a turn on request.

use super::answer::{Answer, Failure, Json};
use super::choice::{ModelRef, Wanted};
use super::lookup::find_whole;
use super::request::Body;
use crate::app::App;
use crate::caller::CallersGateway;
use crate::chat::{History, has_turn, stop, turn_of};
use crate::params::Ids;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use turnstream_dialects::opencode::{self, Message, Named, Names, is_message};
use turnstream_gateway::{Change, Gateway, NewPrompt, RequestError};
use turnstream_log::Follow;
use turnstream_model::event::Known;
use turnstream_model::fold::State;
use turnstream_model::id::{PromptId, SessionId};

#[derive(Default, Deserialize)]
pub(super) struct Prompt {
    pub(super) parts: Vec<Map<String, Value>>,
    #[serde(rename = "messageID")]
    pub(super) message: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) model: Option<ModelRef>,
    #[serde(rename = "noReply", default)]
    pub(super) no_reply: bool,
    pub(super) system: Option<Value>,
    pub(super) format: Option<Value>,
    pub(super) tools: Option<Value>,
    pub(super) variant: Option<String>,
    /// It is a shell command. A client cannot say that of a prompt.
    #[serde(skip)]
    pub(super) is_shell: bool,
}

/// Sends a prompt and answers at the end of its turn.
pub(super) async fn prompt(
    Shared(app): Shared<Arc<App>>,
    CallersGateway(gateway): CallersGateway,
    Ids(id): Ids<String>,
    Body(body): Body<Prompt>,
) -> Answer {
    let session = find_whole(&app, &id, "session.prompt")?;
    answered(&app, &gateway, &session, body).await
}

/// The answer to a prompt, at the end of its turn.
pub(super) async fn answered(app: &App, gateway: &Gateway, session: &SessionId, body: Prompt) -> Answer {
    let prompt = accept(gateway, session, body).await?;
    let state = tokio::select! {
        state = until_ended(gateway, session, &prompt) => state?,
        () = app.closing.begun() => return Err(RequestError::Closing.into()),
    };
    let missing = || Failure::not_found(format!("the prompt {prompt} was withdrawn before it was sent"));
    Ok(Json(answer_to(&state, &prompt).ok_or_else(missing)?.to_json()))
}

/// Sends a prompt and answers at once.
pub(super) async fn prompt_async(
    Shared(app): Shared<Arc<App>>,
    CallersGateway(gateway): CallersGateway,
    Ids(id): Ids<String>,
    Body(body): Body<Prompt>,
) -> Result<StatusCode, Failure> {
    let session = find_whole(&app, &id, "session.prompt_async")?;
    accept(&gateway, &session, body).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Ends the turn that is open when the request arrives, or the prompt that was sent. It never ends one that
/// begins later. That nothing runs is no error: a client may be late.
pub(super) async fn abort(
    Shared(app): Shared<Arc<App>>,
    CallersGateway(gateway): CallersGateway,
    Ids(id): Ids<String>,
) -> Answer {
    let session = find_whole(&app, &id, "session.abort")?;
    stop(&gateway, &session).await?;
    Ok(Json(json!(true)))
}

/// Adds a prompt to the queue. A client's own id of the message is the key of the prompt, so a repeated
/// request is the same prompt.
async fn accept(gateway: &Gateway, session: &SessionId, body: Prompt) -> Result<PromptId, Failure> {
    let Prompt { parts, message, agent, model, no_reply, system, format, tools, variant, is_shell } = body;
    let unsupported = [
        ("noReply", no_reply),
        ("system", system.is_some_and(|value| !value.is_null())),
        ("format", format.is_some_and(|value| !value.is_null())),
        ("variant", variant.is_some_and(|variant| !variant.is_empty() && variant != "default")),
        ("tools", tools.is_some_and(|value| value.as_object().is_some_and(|tools| !tools.is_empty()))),
    ];
    if let Some((member, _)) = unsupported.iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::not_supported(format!("session.prompt with {member}: agents do not take it")));
    }
    if let Some(message) = message.as_ref().filter(|message| !is_message(message)) {
        return Err(Failure::bad(format!("messageID {message:?} must begin with msg_")));
    }
    let mut content = parts.iter().map(block).collect::<Result<Vec<Value>, Failure>>()?;
    if let Some(first) = content.first_mut().filter(|_| is_shell) {
        first["_meta"] = json!({"shell": true});
    }
    let info = gateway.session(session)?.session;
    let change = Wanted { agent, model }.change(&gateway.agents(), &info)?;
    if change != Change::default() {
        gateway.change(session, change).await?;
    }
    Ok(gateway.prompt(session, NewPrompt { key: message, ..NewPrompt::new(content) }).await?.prompt)
}

/// A part of a prompt as a content block of ACP.
fn block(part: &Map<String, Value>) -> Result<Value, Failure> {
    let text = |member: &str| part.get(member).and_then(Value::as_str);
    match text("type").unwrap_or_default() {
        "text" => Ok(json!({"type": "text", "text": text("text").unwrap_or_default()})),
        "file" => {
            let (mime, url) = (text("mime").unwrap_or("text/plain"), text("url").unwrap_or_default());
            let name = text("filename").unwrap_or_else(|| url.rsplit('/').next().unwrap_or(url));
            match url.strip_prefix("data:").and_then(|data| data.split_once(";base64,")) {
                Some((_, data)) if mime.starts_with("image/") => {
                    Ok(json!({"type": "image", "mimeType": mime, "data": data}))
                }
                Some((_, data)) => {
                    let bytes = BASE64_STANDARD.decode(data).ok();
                    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
                    let text = text.ok_or_else(|| {
                        Failure::bad(format!("{name} ({mime}) is neither text nor an image"))
                    })?;
                    let resource =
                        json!({"uri": format!("attachment:{name}"), "mimeType": mime, "text": text});
                    Ok(json!({"type": "resource", "resource": resource}))
                }
                None => Ok(json!({"type": "resource_link", "uri": url, "name": name, "mimeType": mime})),
            }
        }
        other => Err(Failure::not_supported(format!("session.prompt with a part of type {other:?}"))),
    }
}

/// The state in which the prompt's turn has ended, or the prompt was withdrawn.
async fn until_ended(gateway: &Gateway, session: &SessionId, prompt: &PromptId) -> Result<State, Failure> {
    let is_enough = |state: &State| {
        is_queued(state, prompt) || turn_of(state, prompt).is_some_and(|turn| has_turn(state, &turn))
    };
    let mut history = History::back_to(gateway, session, is_enough).await?;
    let mut follower = gateway.follow(session, &history.cursor())?;
    while !is_over(&history.state, prompt) {
        match follower.next().await.map_err(RequestError::log)? {
            Follow::Events(events) => {
                let ends = |kind: &turnstream_model::event::Kind| {
                    kind.is(Known::TurnEnded) || kind.is(Known::PromptWithdrawn)
                };
                if events.iter().any(|event| ends(event.kind())) {
                    history = History::back_to(gateway, session, is_enough).await?;
                }
            }
            Follow::Outcome(_) => {}
            Follow::Closed => return Err(RequestError::Closing.into()),
            Follow::Deleted => return Err(RequestError::UnknownSession(session.clone()).into()),
        }
    }
    Ok(history.state)
}

fn is_queued(state: &State, prompt: &PromptId) -> bool {
    state.queue.iter().any(|queued| queued.prompt == *prompt)
}

/// Of a prompt that has an outcome, pages know only that a turn took it.
fn is_over(state: &State, prompt: &PromptId) -> bool {
    let is_open = |turn| state.turns.iter().any(|known| known.turn == turn && known.is_open());
    !is_queued(state, prompt) && !turn_of(state, prompt).is_some_and(is_open)
}

/// The last message of the turn that took a prompt.
fn answer_to(state: &State, prompt: &PromptId) -> Option<Message> {
    let taken = turn_of(state, prompt)?;
    let turn = state.turns.iter().rev().find(|turn| turn.turn == taken)?;
    let last = turn.attempts.iter().map(|attempt| attempt.step).max().unwrap_or(0);
    let names = Names::of(&state.session);
    let messages = opencode::messages(state, &Named::Session);
    let of_step = |step: u32| {
        let id = opencode::step_message(turn, step, &names);
        messages.iter().find(|message| message.id == id)
    };
    // Work that was seen outside of all model calls is in a message of its own.
    let is_empty = |message: &Message| {
        let steps = ["step-start", "step-finish"];
        message.info["error"].is_null()
            && message.parts.iter().all(|part| steps.iter().any(|step| part["type"] == *step))
    };
    let answer = of_step(last)?;
    Some(of_step(0).filter(|_| is_empty(answer)).unwrap_or(answer).clone())
}

#[cfg(test)]
mod tests {
    use super::block;
    use serde_json::{Value, json};

    #[test]
    fn parts_become_blocks_that_agents_take() {
        let of = |part: Value| block(part.as_object().unwrap()).unwrap();
        assert_eq!(
            of(json!({"type": "text", "text": "a", "id": "prt_1"})),
            json!({"type": "text", "text": "a"})
        );
        let image = json!({"type": "file", "mime": "image/png", "filename": "a.png", "url": "data:image/png;base64,AAAA"});
        assert_eq!(of(image), json!({"type": "image", "mimeType": "image/png", "data": "AAAA"}));
        let text = json!({"type": "file", "mime": "text/plain", "filename": "a", "url": "data:text/plain;base64,aGk="});
        assert_eq!(of(text)["resource"]["text"], "hi");
        let file = json!({"type": "file", "mime": "text/plain", "url": "file:///srv/a.rs"});
        let link = json!({"type": "resource_link", "uri": "file:///srv/a.rs", "name": "a.rs", "mimeType": "text/plain"});
        assert_eq!(of(file), link);
        assert!(block(json!({"type": "subtask"}).as_object().unwrap()).is_err());
    }
}
