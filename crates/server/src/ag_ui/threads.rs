//! The two reads of TanStack AI: the messages of a thread, and a run that goes on.

use super::bindings::bind;
use super::input::RunInput;
use super::known_runs::{KnownRun, open_run};
use super::runs::{existing, follow, json_response, whole};
use crate::access::Credential;
use crate::app::App;
use crate::caller::CallersGateway;
use crate::params::{Ids, Params};
use crate::problem::{Kind, Problem};
use axum::Extension;
use axum::extract::State as Shared;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use turnstream_dialects::ag_ui::{history, interrupts, prompt_messages, thread_of};
use turnstream_model::fold::State;

/// `?threadId=` asks for messages, `?offset=-1&runId=` for a run, also with its thread. `limit` and `before`
/// are for long threads, and every thread is sent as a whole.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Query {
    thread_id: Option<String>,
    run_id: Option<String>,
}

pub(super) async fn read(
    Shared(app): Shared<Arc<App>>,
    CallersGateway(gateway): CallersGateway,
    Extension(credential): Extension<Credential>,
    Ids(_agent): Ids<String>,
    Params(Query { thread_id, run_id }): Params<Query>,
) -> Result<Response, Problem> {
    match (thread_id, run_id) {
        (Some(thread), None) => {
            let Some(session) = existing(&gateway, &thread)? else {
                return Ok(json_response(&json!({"messages": [], "activeRun": null, "interrupts": null})));
            };
            let state = whole(&gateway, &session).await?;
            let run = open_run(&state, &session);
            let mut pending = interrupts(&state);
            bind(&mut pending, run.as_deref().unwrap_or_default());
            let (active, waits) = match run {
                Some(run) if pending.is_empty() => (Some(json!({"runId": run})), None),
                Some(run) => (None, Some(json!({"runId": run, "pending": pending}))),
                None => (None, None),
            };
            let thread = json!({"messages": ui_messages(&state), "activeRun": active, "interrupts": waits});
            Ok(json_response(&thread))
        }
        (thread, Some(run)) => {
            let mut found = app.known_runs.find(&gateway, &run).await?;
            if let Some(thread) = thread {
                let session = existing(&gateway, &thread)?;
                found.retain(|known| Some(&known.session) == session.as_ref());
            }
            if found.len() > 1 {
                let detail =
                    format!("{} threads have a run {run:?}; add the one with &threadId=", found.len());
                return Err(Problem::new(Kind::BadQuery, detail));
            }
            let Some(KnownRun { session, wanted }) = found.pop() else {
                let detail = format!(
                    "there is no run {run:?} to join; read the thread with ?threadId=, and join its activeRun"
                );
                return Err(Problem::new(Kind::UnknownSession, detail));
            };
            let state = whole(&gateway, &session).await?;
            let input = RunInput::joined(thread_of(&state.session).to_owned(), run);
            follow(app, credential, session, &state, wanted, input).await
        }
        (None, None) => {
            let detail = "name a thread with ?threadId= or a run with ?offset=-1&runId=";
            Err(Problem::new(Kind::BadQuery, detail))
        }
    }
}

/// The messages of a thread, with parts. What one turn answers is one message. Prompts in the queue are last.
fn ui_messages(state: &State) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    for message in history(state).into_iter().chain(state.queue.iter().flat_map(prompt_messages)) {
        let role = message["role"].as_str().unwrap_or_default();
        let parts = match role {
            "user" => vec![json!({"type": "text", "content": message["content"]})],
            "reasoning" => vec![json!({"type": "thinking", "content": message["content"]})],
            "tool" => {
                let (call, content) = (&message["toolCallId"], &message["content"]);
                let state = if message["metadata"].is_object() { "error" } else { "complete" };
                vec![json!({"type": "tool-result", "toolCallId": call, "content": content, "state": state})]
            }
            "assistant" => match message["toolCalls"][0].as_object() {
                Some(call) => {
                    let (name, arguments) = (&call["function"]["name"], &call["function"]["arguments"]);
                    vec![json!({
                        "type": "tool-call", "id": call["id"], "name": name, "arguments": arguments,
                        "state": "input-complete",
                    })]
                }
                None => vec![json!({"type": "text", "content": message["content"]})],
            },
            _ => continue,
        };
        let role = if role == "user" { "user" } else { "assistant" };
        match messages.last_mut().filter(|last| role == "assistant" && last["role"] == "assistant") {
            Some(last) => {
                if let Some(all) = last["parts"].as_array_mut() {
                    all.extend(parts);
                }
            }
            None => messages.push(json!({"id": message["id"], "role": role, "parts": parts})),
        }
    }
    messages
}
