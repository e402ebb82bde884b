//! What the editor wants of a session, as requests to the gateway. They run beside the stream of events.

use super::asks::Reply;
use super::prompts::{Cancel, InFlight, Stage};
use super::settings::DEFAULT;
use super::work::Work;
use super::{Command, Next, Session, successor};
use crate::output::{EditorGone, write_response};
use crate::problem;
use crate::rpc::{INVALID_PARAMS, INVALID_REQUEST};
use agent_client_protocol_schema::v1::{
    Error, PromptResponse, RequestId, SetSessionConfigOptionResponse, StopReason,
};
use serde_json::{Value, json};
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use turnstream_client::{Backoff, CancelTarget, Client, ClientError, new_key};
use turnstream_dialects::acp::Encoder;

/// How long a gateway that cannot take a prompt is asked again. Cancels and answers have no such end.
const SENDING: Duration = Duration::from_secs(120);
/// How long `session/close` waits for the end of the turn that it cancels.
const CLOSE: Duration = Duration::from_secs(10);

/// A request to the gateway has an answer.
#[derive(Debug)]
pub(super) enum Finished {
    Prompt {
        key: String,
        done: Result<Value, ClientError>,
    },
    Cancel {
        key: String,
        stage: Stage,
        done: Result<(), ClientError>,
    },
    /// The model or the mode was changed.
    Changed {
        id: RequestId,
        wanted: Setting,
        done: Result<Value, ClientError>,
    },
    /// Another session takes the place of this one.
    AgentChanged {
        id: RequestId,
        done: Result<Value, ClientError>,
    },
    Deleted {
        id: RequestId,
        done: Result<(), ClientError>,
    },
    /// An ask was answered, or a turn of others was cancelled. Only a failure is of interest.
    Told {
        what: &'static str,
        done: Result<(), ClientError>,
    },
}

/// What an editor changed, and with which method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    Model,
    Mode,
    /// By `session/set_mode`, which has another answer.
    ModeByItself,
}

impl Session {
    pub(super) async fn command(&mut self, command: Command) -> Result<Next, EditorGone> {
        match command {
            Command::Reopen(opening) if self.prompts.waiting_since().is_none() => {
                self.reopen(opening).await?
            }
            Command::Reopen(opening) => {
                let told = "the session is open here, and a prompt of it is not answered yet";
                self.respond_error(opening.request(), Error::new(INVALID_REQUEST, told));
            }
            Command::Prompt { id, content } => self.prompt(id, content),
            Command::Cancel => self.cancel(),
            Command::CancelRequest(id) => {
                self.cancel_prompts(Some(&id));
            }
            Command::SetMode { id, mode } => self.set(id, Setting::ModeByItself, &mode),
            Command::SetOption { id, option, value } => match option.as_str() {
                "agent" => self.set_agent(id, &value),
                "model" => self.set(id, Setting::Model, &value),
                "mode" => self.set(id, Setting::Mode, &value),
                _ => {
                    let told = format!("there is no option {option:?}; there are agent, model and mode");
                    self.respond_error(&id, Error::new(INVALID_PARAMS, told));
                }
            },
            Command::Close { id } => {
                Box::pin(self.close()).await?;
                write_response(&id, &Ok(json!({})), &mut self.lines);
                self.flush().await?;
                return Ok(Next::End);
            }
            Command::Delete { id } => {
                let (client, session) = (self.shared.client.clone(), self.id.clone());
                self.requests.spawn(async move {
                    Finished::Deleted { id, done: successor::delete(&client, &session).await }
                });
            }
            Command::Answered { ask, outcome } => self.answered(&ask, outcome),
        }
        Ok(Next::Stay)
    }

    pub(super) async fn finished(&mut self, finished: Finished) -> Result<Next, EditorGone> {
        match finished {
            Finished::Prompt { key, done } => {
                self.is_sending = false;
                // Otherwise the log names the prompt. It may have done so already.
                if let Err(error) = done {
                    self.refuse_prompt(&key, &error);
                    self.ask_to_cancel();
                }
                self.send_prompt();
            }
            Finished::Cancel { key, stage, done } => {
                // It may have its answer already.
                if let Some(one) = self.prompts.by_key(&key) {
                    match done {
                        Ok(()) => one.cancel = Some(Cancel::Accepted),
                        Err(error) => {
                            tracing::debug!(%error, ?stage, "a cancel came at the wrong time");
                            one.cancel_refused(&stage);
                        }
                    }
                }
                self.ask_to_cancel();
            }
            Finished::Changed { id, wanted, done } => self.changed(&id, wanted, done),
            Finished::AgentChanged { id, done } => self.agent_changed(&id, done).await?,
            Finished::Deleted { id, done } => match done {
                Ok(()) => {
                    write_response(&id, &Ok(json!({})), &mut self.lines);
                    self.fail_prompts("the session was deleted");
                    return Ok(Next::End);
                }
                Err(error) => self.respond_error(&id, problem::error(&error)),
            },
            Finished::Told { what, done } => match done {
                Ok(()) => {}
                // Somebody else was faster, or there is nothing to cancel.
                Err(error) if is_settled(&error) => {}
                Err(error) => tracing::warn!(session = self.gateway_id, %error, "{what} failed"),
            },
        }
        Ok(Next::Stay)
    }

    pub(super) fn respond_error(&mut self, id: &RequestId, error: Error) {
        write_response::<()>(id, &Err(error), &mut self.lines);
    }

    // === prompts ===

    fn prompt(&mut self, id: RequestId, content: Value) {
        let key = new_key("acp");
        // It must be known before the log can name it.
        self.prompts.add(id, key.clone());
        self.unsent.push_back((key, content));
        self.send_prompt();
    }

    /// Sends the next prompt, unless one is under way: they must arrive in their order.
    fn send_prompt(&mut self) {
        if self.is_sending {
            return;
        }
        let Some((key, content)) = self.unsent.pop_front() else { return };
        self.is_sending = true;
        let stopped = self.prompts.send(&key);
        let limit = SENDING.min(self.shared.options.patience);
        let (client, session) = (self.shared.client.clone(), self.gateway_id.clone());
        self.requests.spawn(async move {
            let body = json!({"content": content, "key": key});
            let path = format!("/v1/sessions/{}/prompts", turnstream_client::segment(&session));
            let stop = async { drop(timeout(limit, stopped).await) };
            let done = patiently(stop, || client.post(&path, &body)).await;
            Finished::Prompt { key, done }
        });
    }

    /// Cancels what the editor asked for. Without a prompt of its own, that is the turn which it sees.
    fn cancel(&mut self) {
        if self.cancel_prompts(None) || self.work == Work::default() {
            return;
        }
        let (client, session, work) =
            (self.shared.client.clone(), self.gateway_id.clone(), self.work.clone());
        self.requests.spawn(async move {
            let mut done = Ok(());
            for target in work.targets() {
                done = until_answered(|| client.cancel(&session, target)).await;
                if done.is_ok() {
                    break;
                }
            }
            Finished::Told { what: "a cancel", done }
        });
    }

    /// Cancels all prompts of the editor, or the one of this request. Returns whether there is one.
    fn cancel_prompts(&mut self, request: Option<&RequestId>) -> bool {
        let is_any = self.prompts.cancel(request);
        let unsent = std::mem::take(&mut self.unsent);
        for (key, content) in unsent {
            match self.prompts.take_cancelled(&key) {
                Some(one) => self.respond_cancelled(one),
                None => self.unsent.push_back((key, content)),
            }
        }
        self.ask_to_cancel();
        is_any
    }

    /// Asks the gateway for every cancel that is wanted and possible now.
    pub(super) fn ask_to_cancel(&mut self) {
        for (key, prompt, stage) in self.prompts.take_cancels() {
            let (client, session) = (self.shared.client.clone(), self.gateway_id.clone());
            self.requests.spawn(async move {
                let done = cancel(&client, &session, prompt.as_str(), &stage).await;
                Finished::Cancel { key, stage, done }
            });
        }
    }

    /// Ends what the editor began, as `session/close` wants it. Turns of others go on.
    async fn close(&mut self) -> Result<(), EditorGone> {
        self.cancel_prompts(None);
        let begun = Instant::now();
        // A prompt that is being accepted is cancelled as soon as the log names it.
        while self.prompts.has_open() && begun.elapsed() < CLOSE {
            let next = tokio::select! {
                received = self.events.next() => self.received(received).await?,
                Some(Ok(finished)) = self.requests.join_next(), if !self.requests.is_empty() => {
                    self.finished(finished).await?
                }
                () = sleep(CLOSE.saturating_sub(begun.elapsed())) => Next::End,
            };
            self.flush().await?;
            if next == Next::End {
                break;
            }
        }
        self.prompts.take_all().into_iter().for_each(|one| self.respond_cancelled(one));
        Ok(())
    }

    fn respond_cancelled(&mut self, prompt: InFlight) {
        if let Some(request) = prompt.request {
            let cancelled = PromptResponse::new(StopReason::Cancelled);
            write_response(&request, &Ok(cancelled), &mut self.lines);
        }
    }

    // === asks ===

    fn answered(&mut self, ask: &str, outcome: Result<Value, Value>) {
        // It was settled meanwhile, or is none of ours.
        let Some(open) = self.asks.close(ask) else { return };
        let is_cancelled = self.prompts.is_cancelled();
        let (client, session, ask) = (self.shared.client.clone(), self.gateway_id.clone(), ask.to_owned());
        match open.reply(outcome, is_cancelled) {
            Reply::Approval { outcome, option } => {
                self.requests.spawn(async move {
                    let once = || client.approve(&session, &ask, outcome, option.as_deref());
                    let done = until_answered(once).await;
                    Finished::Told { what: "the answer to an approval", done }
                });
            }
            Reply::Question(answer) => {
                self.requests.spawn(async move {
                    let done = until_answered(|| client.answer(&session, &ask, &answer)).await;
                    Finished::Told { what: "the answer to a question", done }
                });
            }
            Reply::Nothing(why) => tracing::warn!(session, ask, why, "an ask is left to other clients"),
        }
    }

    // === settings ===

    fn set(&mut self, id: RequestId, setting: Setting, value: &str) {
        let (member, current) = match setting {
            Setting::Model => ("model", &self.settings.model),
            Setting::Mode | Setting::ModeByItself => ("mode", &self.settings.mode),
        };
        if current.as_deref().unwrap_or(DEFAULT) == value {
            return self.respond_changed(&id, setting);
        }
        if value == DEFAULT {
            let told = format!("the {member} was chosen, and the agent cannot be told to choose again");
            return self.respond_error(&id, Error::new(INVALID_PARAMS, told));
        }
        let (client, session) = (self.shared.client.clone(), self.gateway_id.clone());
        let changes = json!({member: value});
        self.requests.spawn(async move {
            let done = client.change_session(&session, &changes).await;
            Finished::Changed { id, wanted: setting, done }
        });
    }

    fn changed(&mut self, id: &RequestId, setting: Setting, done: Result<Value, ClientError>) {
        match done {
            Ok(session) => {
                // The answer says it: an update would repeat it.
                if let Some(model) = session["model"].as_str() {
                    self.settings.model = Some(model.to_owned());
                }
                if let Some(mode) = session["mode"].as_str() {
                    self.settings.mode = Some(mode.to_owned());
                }
                self.respond_changed(id, setting);
            }
            Err(error) => self.respond_error(id, problem::error(&error)),
        }
    }

    fn respond_changed(&mut self, id: &RequestId, setting: Setting) {
        match setting {
            Setting::Model | Setting::Mode => {
                let answer = SetSessionConfigOptionResponse::new(self.settings.options());
                write_response(id, &Ok(answer), &mut self.lines);
            }
            Setting::ModeByItself => write_response(id, &Ok(json!({})), &mut self.lines),
        }
    }

    fn set_agent(&mut self, id: RequestId, agent: &str) {
        if let Some(why) = self.settings.refuses_agent(agent) {
            return self.respond_error(&id, Error::new(INVALID_PARAMS, why));
        }
        if agent == self.settings.agent {
            return self.respond_changed(&id, Setting::Model);
        }
        if self.prompts.has_open() || self.is_sending {
            let told = "the agent of a session is fixed with its first prompt, and one is on its way";
            return self.respond_error(&id, Error::new(INVALID_PARAMS, told));
        }
        if self.mcp.len() != self.settings.mcp.len() {
            let told = "the session has MCP servers that only its creator knows, so its agent cannot change";
            return self.respond_error(&id, Error::new(INVALID_PARAMS, told));
        }
        let mut body = json!({
            "agent": agent,
            "cwd": self.settings.cwd,
            "from": self.gateway_id,
            "permissions": self.shared.options.permissions,
            "key": successor::new_key(&self.gateway_id),
        });
        if !self.mcp.is_empty() {
            body["mcp"] = self.mcp.clone().into();
        }
        let client = self.shared.client.clone();
        self.is_changing_agent = true;
        self.requests
            .spawn(async move { Finished::AgentChanged { id, done: client.create_session(&body).await } });
    }

    async fn agent_changed(
        &mut self,
        id: &RequestId,
        done: Result<Value, ClientError>,
    ) -> Result<(), EditorGone> {
        self.is_changing_agent = false;
        let read = match done {
            Ok(session) => {
                let new = session["id"].as_str().unwrap_or_default();
                super::open::Current::read(&self.shared.client, new).await
            }
            Err(error) => Err(problem::error(&error)),
        };
        match read {
            Ok(current) => {
                let cursor = current.cursor();
                self.encoder = Encoder::resume(&current.snapshot.state);
                self.work = Work::of(&current.snapshot.state);
                (self.gateway_id, self.settings) = (current.gateway_id, current.settings);
                self.follow(&cursor);
                self.respond_changed(id, Setting::Model);
            }
            Err(error) => self.respond_error(id, error),
        }
        Ok(())
    }
}

/// Cancels a prompt at the stage where it is.
async fn cancel(client: &Client, session: &str, prompt: &str, stage: &Stage) -> Result<(), ClientError> {
    until_answered(|| async {
        match stage {
            Stage::Accepting => Ok(()),
            Stage::Queued => client.withdraw(session, prompt).await,
            Stage::Sent => client.cancel(session, CancelTarget::Prompt(prompt)).await,
            Stage::InTurn(turn) => client.cancel(session, CancelTarget::Turn(turn.as_str())).await,
        }
    })
    .await
}

/// Repeats a request until the gateway answers, however long it is away.
async fn until_answered<T, F: Future<Output = Result<T, ClientError>>>(
    request: impl Fn() -> F,
) -> Result<T, ClientError> {
    patiently(std::future::pending(), request).await
}

/// Repeats a request while the gateway is away, until it must stop.
async fn patiently<T, F: Future<Output = Result<T, ClientError>>>(
    stop: impl Future<Output = ()>,
    request: impl Fn() -> F,
) -> Result<T, ClientError> {
    let mut stop = pin!(stop);
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(3));
    loop {
        let error = match request().await {
            Err(error) if error.may_pass() => error,
            done => return done,
        };
        tokio::select! {
            biased;
            () = &mut stop => return Err(error),
            () = sleep(backoff.pause()) => {}
        }
    }
}

/// Whether the gateway refused something because it is settled or over.
fn is_settled(error: &ClientError) -> bool {
    matches!(
        error.kind(),
        Some("approval-settled" | "question-settled" | "turn-not-open" | "prompt-not-sent")
    )
}

#[cfg(test)]
mod tests {
    use super::{SENDING, patiently, until_answered};
    use std::time::Duration;
    use tokio::time::{Instant, sleep};
    use turnstream_client::{Away, ClientError};

    fn away() -> ClientError {
        ClientError::Unreachable { url: "http://127.0.0.1:1".to_owned(), problem: Away::new("refused") }
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancel_is_repeated_however_long_the_gateway_is_away() {
        let begun = Instant::now();
        let is_back = || begun.elapsed() > Duration::from_secs(24 * 3_600);
        let done = until_answered(|| async { if is_back() { Ok(()) } else { Err(away()) } }).await;
        assert!(done.is_ok());
        // A prompt has an end.
        let begun = Instant::now();
        let done = patiently(sleep(SENDING), || async { Err::<(), _>(away()) }).await;
        assert!(done.is_err() && begun.elapsed() >= SENDING);
    }
}
