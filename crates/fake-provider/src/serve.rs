//! What each request gets: a step of the script, or one of the few fixed answers that clients probe for.

use crate::connection::Connection;
use crate::fault::CutBy;
use crate::http::{self, ReadError, Version};
use crate::play::{Next, play, refuse};
use crate::record::{Entry, Record, Request};
use crate::render::{Answer, Chunk, Identity, error_body, render};
use crate::reply::ErrorBody;
use crate::script::{Framing, Script};
use crate::wire::WireFormat;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// The model listed when the script names none.
const DEFAULT_MODEL: &str = "scripted-1";
/// Requests on one connection before it is closed.
const REQUESTS_PER_CONNECTION: usize = 1024;

/// What all connections of a provider share.
#[derive(Debug, Clone)]
pub(crate) struct Desk {
    script: Arc<Script>,
    /// How often each step was used.
    used: Arc<Mutex<Vec<u32>>>,
    record: Record,
}

impl Desk {
    pub(crate) fn new(script: Script, record: Record) -> Self {
        let used = Arc::new(Mutex::new(vec![0; script.steps.len()]));
        Self { script: Arc::new(script), used, record }
    }

    /// Answers the requests of a connection until either side ends it.
    pub(crate) async fn serve(&self, mut connection: Connection) {
        for _ in 0..REQUESTS_PER_CONNECTION {
            let request = match http::read(&mut connection).await {
                Ok(request) => request,
                Err(ReadError::Left | ReadError::Io(_)) => return,
                Err(ReadError::Refused { status, why }) => {
                    let answer = fixed(status, &json!({"error": {"message": why, "type": "bad_request"}}));
                    refuse(&mut connection, &answer).await;
                    return connection.close(CutBy::Fin).await;
                }
            };
            let (version, size) = (request.version, request.body.len());
            let request = Request::new(request);
            let Some(entry) = self.record.add(request.clone(), size) else {
                // A client in a loop must not go on for ever, and what is not recorded gets nothing of the
                // script.
                let why = "scripted provider: its record of requests is full, no more are answered";
                refuse(&mut connection, &fixed(503, &json!({"error": {"message": why, "type": "cap"}})))
                    .await;
                return connection.close(CutBy::Fin).await;
            };
            let (step, mut answer) = self.answer(&request, &entry);
            if version == Version::Http10 && answer.framing == Framing::Chunked {
                answer.framing = Framing::CloseDelimited;
            }
            entry.decided(step, answer.status);
            match play(&mut connection, &answer, &entry).await {
                Next::KeepAlive if !http::wants_close(version, &request.headers) => {}
                Next::KeepAlive => return connection.close(CutBy::Fin).await,
                Next::Close(by) => return connection.close(by).await,
            }
        }
        connection.close(CutBy::Fin).await;
    }

    fn answer(&self, request: &Request, entry: &Entry) -> (Option<usize>, Answer) {
        let Some(format) = request.format else { return (None, self.probe(request)) };
        let since = request.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let created = self.script.created.unwrap_or(since.as_secs());
        let identity = Identity { serial: entry.serial(), created, asked: request.asked.clone() };
        if request.body["model"].as_str().is_none_or(str::is_empty) {
            let why = "scripted provider: the body of this request is not a JSON object with a `model`";
            return (None, refusal(400, format, &identity, why));
        }
        let Some(step) = self.take_step(format, request) else {
            return (None, refusal(400, format, &identity, &self.used_up(format, request)));
        };
        let answer = render(format, &self.script.steps[step], &identity);
        let answer = answer.unwrap_or_else(|error| {
            let message = format!("scripted provider: step {step} cannot be played: {error}");
            refusal(500, format, &identity, &message)
        });
        (Some(step), answer)
    }

    /// The first step that matches and has uses left.
    fn take_step(&self, format: WireFormat, request: &Request) -> Option<usize> {
        // Nothing panics while it is held; were it so, the counts would still be right.
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut steps = self.script.steps.iter().enumerate();
        let (place, _) = steps.find(|(place, step)| {
            step.times.allow(used[*place]) && step.when.matches(format, &request.asked)
        })?;
        used[place] += 1;
        Some(place)
    }

    fn used_up(&self, format: WireFormat, request: &Request) -> String {
        let asked = &request.asked;
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let text: String = asked.user_text.chars().take(200).collect();
        format!(
            "scripted provider: no step is left for this {format:?} request to model {:?} with the last user \
             text {text:?}; the script has {} steps, used {used:?} times",
            asked.model,
            self.script.steps.len()
        )
    }

    /// What clients ask beside completions.
    fn probe(&self, request: &Request) -> Answer {
        match (request.method.as_str(), request.path()) {
            ("HEAD", _) => bodyless(),
            ("POST", path) if path.ends_with("/messages/count_tokens") => {
                fixed(200, &json!({"input_tokens": request.body.to_string().len() / 4}))
            }
            ("GET", path) if path.ends_with("/models") => fixed(200, &self.models()),
            (method, path) => {
                let message = format!(
                    "scripted provider: {method} {path} is not spoken here; it speaks POST …/chat/completions, \
                     …/responses, …/messages, …/messages/count_tokens, GET …/models and HEAD"
                );
                fixed(404, &json!({"error": {"message": message, "type": "not_found_error"}}))
            }
        }
    }

    /// A list that both OpenAI and Anthropic clients read.
    fn models(&self) -> Value {
        let named = &self.script.models;
        let names = if named.is_empty() { vec![DEFAULT_MODEL.to_owned()] } else { named.clone() };
        let models = names.iter().map(|name| {
            json!({"id": name, "object": "model", "type": "model", "created": 0, "owned_by": "scripted",
                "display_name": name, "created_at": "1970-01-01T00:00:00Z"})
        });
        json!({"object": "list", "data": models.collect::<Vec<_>>(), "has_more": false})
    }
}

fn refusal(status: u16, format: WireFormat, identity: &Identity, message: &str) -> Answer {
    let error = ErrorBody::new("invalid_request_error", message);
    fixed(status, &error_body(format, &error, &identity.id("req_", 0)))
}

fn fixed(status: u16, body: &Value) -> Answer {
    let mut answer =
        Answer::new(status, "application/json", vec![Chunk::at_once(body.to_string().into_bytes())]);
    answer.framing = Framing::ContentLength;
    answer
}

fn bodyless() -> Answer {
    let mut answer = Answer::new(200, "application/json", Vec::new());
    answer.framing = Framing::ContentLength;
    answer
}
