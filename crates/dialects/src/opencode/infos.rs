//! Sessions and messages as opencode describes them.

use super::ids::Names;
use super::place::{Place, is_at_work, item_of, turn_of, until_step};
use super::tools::Call;
use crate::said::echoed;
use serde_json::{Map, Value, json};
use turnstream_model::event::{Cost, ErrorClass, Outcome, StopReason, TurnError, Usage};
use turnstream_model::fold::{Attempt, Prompt, Session, State, Turn, UserMessage};
use turnstream_model::id::{ItemId, PromptId, TurnId};
use turnstream_model::time::Time;

/// The version of opencode whose API this is.
pub const VERSION: &str = "1.18.33";
/// The only project: sessions of all directories belong to it, as in opencode outside of a repository.
pub const PROJECT: &str = "global";
/// The model of an agent that does not name one.
pub const DEFAULT_MODEL: &str = "default";

/// What separates an agent from its mode. Names of agents do not have it.
pub const MODE: char = ':';

/// The name of an agent in one of its modes, in the list of agents. The mode `default` is the agent itself.
pub fn agent_name(agent: &str, mode: Option<&str>) -> String {
    match mode {
        None | Some("default") => agent.to_owned(),
        Some(mode) => format!("{agent}{MODE}{mode}"),
    }
}

/// The agent and the model of a turn, as clients name them. What has no turn has those of the session.
fn choice<'a>(turn: Option<&TurnId>, state: &'a State) -> (String, &'a str) {
    let session = &state.session;
    let (mode, model) = match turn.and_then(|id| turn_of(id, state)) {
        Some(turn) => (&turn.mode, &turn.model),
        None => (&session.mode, &session.model),
    };
    (agent_name(&session.agent, mode.as_deref()), model.as_deref().unwrap_or(DEFAULT_MODEL))
}

/// A session.
pub fn session(session: &Session, updated: Time) -> Value {
    let names = Names::of(session);
    let mut info = json!({
        "id": names.session(),
        "slug": names.session(),
        "projectID": PROJECT,
        "directory": session.cwd,
        "path": "",
        "title": session.title.as_deref().unwrap_or("New session"),
        "agent": agent_name(&session.agent, session.mode.as_deref()),
        "model": {"id": session.model.as_deref().unwrap_or(DEFAULT_MODEL), "providerID": session.agent},
        "version": VERSION,
        "cost": amount(session.cost.as_ref()),
        "tokens": tokens(session.usage.as_deref()),
        "time": {"created": session.created, "updated": updated},
    });
    if session.ended.is_some() {
        info["time"]["archived"] = json!(updated);
    }
    info
}

/// The session of a subagent.
pub fn subagent(call: &ItemId, state: &State) -> Value {
    let names = Names::of(&state.session);
    let made_by = item_of(call, state);
    let time = made_by.map(|item| item.time).or(state.session.created);
    let title = made_by.and_then(|item| {
        let call = Call::of(item.tool.as_deref()?, &state.session.cwd);
        Some(call.title)
    });
    let parent = made_by.and_then(|item| item.parent.as_ref());
    json!({
        "id": names.subagent(call),
        "slug": names.subagent(call),
        "projectID": PROJECT,
        "directory": state.session.cwd,
        "path": "",
        "parentID": parent.map_or_else(|| names.session(), |parent| names.subagent(parent)),
        "title": title.unwrap_or_else(|| "Subagent".to_owned()),
        "agent": choice(made_by.and_then(|item| item.turn.as_ref()), state).0,
        "version": VERSION,
        "cost": amount(None),
        "tokens": tokens(None),
        "time": {"created": time, "updated": time},
    })
}

/// The message of a user. One that waits for its turn names what the session has now.
pub(super) fn user(id: &str, in_session: &str, turn: Option<&TurnId>, state: &State, time: Time) -> Value {
    let (agent, model) = choice(turn, state);
    json!({
        "id": id,
        "sessionID": in_session,
        "role": "user",
        "time": {"created": time},
        "agent": agent,
        "model": {"providerID": state.session.agent, "modelID": model},
    })
}

/// The message that a prompt is.
pub(super) fn prompt(prompt: &Prompt, state: &State, names: &Names) -> Value {
    user(&names.prompt(prompt), &names.session(), prompt.turn.as_ref(), state, prompt.time)
}

/// An answer of the assistant. `last` is when the last item of the answer started.
pub(super) fn assistant(place: &Place, last: Option<Time>, state: &State, names: &Names) -> Value {
    let session = &state.session;
    let turn = match place {
        Place::Step { turn, .. } => Some(turn),
        Place::Subagent(call) => item_of(call, state).and_then(|item| item.turn.as_ref()),
        Place::Background { .. } => None,
    };
    let (agent, model) = choice(turn, state);
    let mut info = json!({
        "id": place.message(names),
        "sessionID": place.session(names),
        "role": "assistant",
        "mode": agent,
        "agent": agent,
        "path": {"cwd": session.cwd, "root": session.cwd},
        "modelID": model,
        "providerID": session.agent,
        "cost": amount(None),
        "tokens": tokens(None),
    });
    match place {
        Place::Step { turn, after, step } => {
            let turn = turn_of(turn, state);
            info["time"] = json!({"created": after});
            info["parentID"] =
                json!(turn.and_then(|turn| parent(turn, *step, state, names)).unwrap_or_default());
            if let Some(turn) = turn {
                step_of_turn(turn, *step, last.unwrap_or(*after), &mut info);
            }
        }
        Place::Background { item, time } => {
            info["time"] = json!({"created": time});
            info["parentID"] = json!("");
            if item_of(item, state).is_none_or(|item| !item.is_open()) {
                info["time"]["completed"] = json!(time);
            }
        }
        Place::Subagent(call) => {
            let made_by = item_of(call, state);
            let created = made_by.map(|item| item.time).or(session.created);
            info["time"] = json!({"created": created});
            info["parentID"] = json!(names.task(call));
            if !is_at_work(call, state, None) {
                info["time"]["completed"] = json!(last.or(created));
            }
        }
    }
    info
}

/// What is known of one step of a turn.
fn step_of_turn(turn: &Turn, step: u32, last_item: Time, info: &mut Value) {
    let attempts = || turn.attempts.iter().filter(|attempt| attempt.step == step);
    if let Some(attempt) = attempts().next_back() {
        if let Some(model) = &attempt.model {
            info["modelID"] = json!(model);
        }
        if let Some(finish) = &attempt.finish {
            info["finish"] = json!(reason(finish));
        }
        info["tokens"] = tokens(attempt.usage.as_ref());
        info["cost"] = amount(attempt.cost.as_ref());
    }
    if step == 0 && turn.attempts.is_empty() {
        info["tokens"] = tokens(turn.usage.as_ref());
        info["cost"] = amount(turn.cost.as_ref());
        if let Some(finish) = turn.stop_reason {
            info["finish"] = json!(finish_of(finish));
        }
    }
    let last = last_step(turn);
    if step == last
        && let Some(ended) = turn.ended
    {
        info["time"]["completed"] = json!(ended);
        if let Some(error) = error_of(turn) {
            info["error"] = error;
        }
    } else if step < last || turn.ended.is_some() {
        info["time"]["completed"] = json!(last_item);
    }
}

/// The last step of a turn that has a message.
pub(super) fn last_step(turn: &Turn) -> u32 {
    turn.attempts.iter().map(|attempt| attempt.step).max().unwrap_or(0)
}

/// When the last item of an answer started.
pub(super) fn last_time(place: &Place, state: &State) -> Option<Time> {
    let mut items = state.items.iter().enumerate().rev();
    let found = items.find(|(index, _)| Place::at(*index, state).as_ref() == Some(place));
    found.map(|(_, item)| item.time)
}

/// The message that a step of a turn follows. A turn that nobody prompted has none.
fn parent(turn: &Turn, step: u32, state: &State, names: &Names) -> Option<String> {
    let prompt_of = |id: &PromptId| {
        state.prompts.iter().rev().chain(state.queue.iter().rev()).find(|prompt| prompt.prompt == *id)
    };
    let began_with = || prompt_of(turn.prompts.first()?).filter(|prompt| prompt.time <= turn.started);
    let prompt = match until_step(turn, step).last().and_then(|call| call.after.as_ref()) {
        Some(UserMessage::Item { item, time }) => {
            let Some(prompt) = item_of(item, state).and_then(|item| echoed(item, state)) else {
                return Some(names.users_item(item, *time));
            };
            Some(prompt)
        }
        Some(UserMessage::Prompt { prompt, .. }) => prompt_of(prompt),
        None => began_with(),
    };
    prompt.map(|prompt| names.prompt(prompt))
}

pub(super) fn tokens(usage: Option<&Usage>) -> Value {
    let nothing = Usage::default();
    let Usage { input, output, reasoning, cache_read, cache_write, extra: _ } = usage.unwrap_or(&nothing);
    let count = |tokens: &Option<u64>| tokens.unwrap_or(0);
    json!({
        "input": count(input),
        "output": count(output),
        "reasoning": count(reasoning),
        "cache": {"read": count(cache_read), "write": count(cache_write)},
    })
}

pub(super) fn amount(cost: Option<&Cost>) -> Value {
    json!(cost.map_or(0.0, |cost| cost.amount))
}

/// The finish reason of a model call, in opencode's spelling.
pub(super) fn reason(finish: &str) -> String {
    finish.replace('_', "-")
}

fn finish_of(reason: StopReason) -> &'static str {
    match reason {
        StopReason::EndTurn => "stop",
        StopReason::MaxTokens | StopReason::MaxTurnRequests => "length",
        StopReason::Refusal => "content-filter",
        StopReason::Rejected => "tool-calls",
    }
}

/// The part of a step's end.
pub(super) fn step_finish(attempt: &Attempt) -> Map<String, Value> {
    let finish = attempt.finish.as_deref().unwrap_or("unknown");
    Map::from_iter([
        ("type".to_owned(), json!("step-finish")),
        ("reason".to_owned(), json!(reason(finish))),
        ("tokens".to_owned(), tokens(attempt.usage.as_ref())),
        ("cost".to_owned(), amount(attempt.cost.as_ref())),
    ])
}

/// The error of a turn that did not complete.
pub(super) fn error_of(turn: &Turn) -> Option<Value> {
    match turn.outcome? {
        Outcome::Completed if turn.stop_reason == Some(StopReason::Refusal) => {
            let message = "The model refused to answer";
            Some(json!({"name": "ContentFilterError", "data": {"message": message}}))
        }
        Outcome::Completed => None,
        Outcome::Cancelled => Some(json!({"name": "MessageAbortedError", "data": {"message": "Aborted"}})),
        Outcome::Failed => Some(turn.error.as_ref().map_or_else(|| unknown("the turn failed"), failure)),
        Outcome::Lost => {
            let reason = turn.error.as_ref().map_or("nobody knows how it ended", |error| &error.message);
            Some(unknown(&format!("The turn was lost: {reason}")))
        }
    }
}

fn unknown(message: &str) -> Value {
    json!({"name": "UnknownError", "data": {"message": message}})
}

fn failure(error: &TurnError) -> Value {
    let message = &error.message;
    let api = |is_retryable: bool| {
        let mut data = json!({"message": message, "isRetryable": is_retryable});
        if let Some(status) = error.status {
            data["statusCode"] = json!(status);
        }
        json!({"name": "APIError", "data": data})
    };
    match error.class {
        ErrorClass::Cancelled => json!({"name": "MessageAbortedError", "data": {"message": message}}),
        ErrorClass::Auth => match error.status {
            Some(_) => api(false),
            None => json!({"name": "ProviderAuthError", "data": {"providerID": "", "message": message}}),
        },
        ErrorClass::ContextOverflow => json!({"name": "ContextOverflowError", "data": {"message": message}}),
        ErrorClass::OutputLimit => json!({"name": "MessageOutputLengthError", "data": {}}),
        ErrorClass::Refused => json!({"name": "ContentFilterError", "data": {"message": message}}),
        ErrorClass::RateLimited
        | ErrorClass::Overloaded
        | ErrorClass::ProviderError
        | ErrorClass::TransportLost
        | ErrorClass::Stalled => api(true),
        ErrorClass::QuotaExhausted
        | ErrorClass::ModelUnavailable
        | ErrorClass::InvalidRequest
        | ErrorClass::Unreachable
        | ErrorClass::StreamCorrupt
        | ErrorClass::StreamSpliced
        | ErrorClass::Incomplete
        | ErrorClass::EmptyOutput
        | ErrorClass::NotAStream => api(false),
        ErrorClass::Budget
        | ErrorClass::NotStarted
        | ErrorClass::AgentExited
        | ErrorClass::AgentError
        | ErrorClass::Timeout
        | ErrorClass::Internal => unknown(message),
    }
}
