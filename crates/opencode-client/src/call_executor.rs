//! Executes the calls of a conversation as requests to the server.

use super::client::Client;
use super::conversation::{Answer, Call, PromptAnswer, SessionSnapshot, UnreadPart};
use super::error::ClientError;
use super::info::Status;
use super::prompt::{Model, PartContent, Prompt};
use super::request::Request;
use super::rest::{PermissionReply, SessionRef};
use super::translate::readable;
use super::turn_error::{class_of_status, shorten};
use super::{prompt_content, translate};
use serde_json::{Map, Value, json};
use turnstream_adapter::Counted;
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::id::Key;

/// How many of the newest messages are read when a conversation starts in an older session.
const NEWEST_MESSAGES: u32 = 200;

/// The mode of a shell command, if the session has none: the server wants one.
const USUAL_MODE: &str = "build";

/// Executes calls about one session.
#[derive(Clone)]
pub(super) struct CallExecutor {
    pub(super) client: Client,
    pub(super) session: SessionRef,
}

impl CallExecutor {
    /// Executes a call; `None` for one that needs no answer.
    pub(super) async fn execute(self, call: Call) -> Option<Answer> {
        match call {
            Call::Prompt { message, content, model, mode } => {
                let prompt = prompt_content::prompt(&message, &content, model.as_deref(), mode.as_deref());
                let answer = match prompt {
                    Err(error) => PromptAnswer::Refused(error),
                    Ok(prompt) => self.send(Request::of(&content), prompt).await,
                };
                self.log_prompt(&message, &answer);
                if answer == PromptAnswer::Busy {
                    self.client.counters().count(Counted::PromptConflict);
                }
                Some(Answer::Prompt(message, answer))
            }
            Call::Message { session, message } => {
                Some(Answer::Message(self.message(session, &message).await))
            }
            Call::Snapshot { children } => {
                let snapshot = self.snapshot(&children).await;
                if let Err(error) = &snapshot {
                    self.log_failure("cannot read the session from opencode", error);
                }
                Some(Answer::Snapshot(snapshot.map(Box::new).map_err(|error| turn_error(&error))))
            }
            Call::NewestMessages => Some(Answer::NewestMessages(self.newest_messages().await)),
            Call::Abort => {
                // Whether it had an effect shows in the events; the turn has deadlines of its own.
                if let Err(error) = self.client.abort(&self.session).await {
                    self.log_failure("cannot abort at opencode", &error);
                }
                Some(Answer::Abort)
            }
            Call::Reply { key, reply, message } => {
                let reply = match reply.as_str() {
                    "once" => PermissionReply::Once,
                    "always" => PermissionReply::Always,
                    _ => PermissionReply::Reject,
                };
                self.reply(&key, reply, message.as_deref()).await;
                None
            }
            Call::Answer { key, answers } => {
                self.answer(&key, answers).await;
                None
            }
            Call::Refuse(key) => {
                match key.as_str().starts_with("per") {
                    true => self.reply(&key, PermissionReply::Reject, None).await,
                    false => self.answer(&key, None).await,
                }
                None
            }
            Call::Adopt(_) => None,
        }
    }

    /// Sends what a prompt asks for.
    async fn send(&self, request: Request, prompt: Prompt) -> PromptAnswer {
        let begun = match request {
            Request::Prompt => self.client.prompt_async(&self.session, &prompt).await,
            Request::Command { name, arguments } => match self.has_command(&name).await {
                Ok(true) => {
                    return self.begin("command", command_body(&name, &arguments, &prompt), &prompt).await;
                }
                Ok(false) => self.client.prompt_async(&self.session, &prompt).await,
                Err(error) => Err(error),
            },
            Request::Compact => return self.compact(prompt.model).await,
            Request::Shell(command) => {
                let agent = prompt.agent.as_deref().unwrap_or(USUAL_MODE);
                let body = json!({"messageID": prompt.message_id, "agent": agent, "command": command});
                return self.begin("shell", body, &prompt).await;
            }
        };
        prompt_answer(begun)
    }

    async fn has_command(&self, name: &str) -> Result<bool, ClientError> {
        let within = self.client.timeouts().request;
        let known = self.client.commands(&self.session.directory, within).await?;
        Ok(known.iter().any(|command| command.name == name))
    }

    /// Begins a command. The server would take one that it has already as another one with the same id.
    async fn begin(&self, operation: &str, body: Value, prompt: &Prompt) -> PromptAnswer {
        match self.client.get_message(&self.session, &prompt.message_id).await {
            Ok(_) => {
                let message = "opencode has the command from before, and never began it";
                PromptAnswer::Refused(TurnError::new(ErrorClass::NotStarted, message))
            }
            Err(error) if error.is_not_found() => {
                prompt_answer(self.client.begin(&self.session, operation, body).await)
            }
            Err(error) => prompt_answer(Err(error)),
        }
    }

    /// Shortens the conversation, with this model or that of the last answer.
    async fn compact(&self, model: Option<Model>) -> PromptAnswer {
        let model = match model {
            Some(model) => Some(model),
            None => self.newest_messages().await.into_iter().rev().find_map(|stored| {
                Some(Model { provider: stored.info.provider?, model: stored.info.model? })
            }),
        };
        let Some(Model { provider, model }) = model else {
            let message = "there is nothing to shorten: the session has no answer yet";
            return PromptAnswer::Refused(TurnError::new(ErrorClass::InvalidRequest, message));
        };
        let body = json!({"providerID": provider, "modelID": model});
        prompt_answer(self.client.begin(&self.session, "summarize", body).await)
    }

    /// A failed reply leaves the turn waiting until its deadline; a permission that is gone (404) needs no
    /// reply.
    async fn reply(&self, key: &Key, reply: PermissionReply, message: Option<&str>) {
        let directory = &self.session.directory;
        let replied = self.client.reply_permission(directory, key.as_str(), reply, message).await;
        self.log_reply("permission", key, replied);
    }

    async fn answer(&self, key: &Key, answers: Option<Map<String, Value>>) {
        let directory = &self.session.directory;
        let replied = match answers {
            Some(answers) => {
                let answers = in_order(&answers);
                self.client.reply_question(directory, key.as_str(), &answers).await
            }
            None => self.client.reject_question(directory, key.as_str()).await,
        };
        self.log_reply("question", key, replied);
    }

    async fn message(&self, session: String, message: &str) -> Option<Box<translate::Stored>> {
        let fetched = match SessionRef::new(session, self.session.directory.clone()) {
            Ok(session) => self.client.get_message(&session, message).await,
            Err(error) => Err(error),
        };
        match fetched {
            Ok(stored) => translate::Stored::read(stored).map(Box::new),
            Err(error) => {
                self.log_failure("cannot read a message from opencode", &error);
                None
            }
        }
    }

    async fn newest_messages(&self) -> Vec<translate::Stored> {
        match self.client.newest_messages(&self.session, NEWEST_MESSAGES).await {
            Ok(newest) => newest.into_iter().filter_map(translate::Stored::read).collect(),
            Err(error) => {
                self.log_failure("cannot read the newest messages from opencode", &error);
                Vec::new()
            }
        }
    }

    /// Reads the status first: if the session is idle by then, the messages that follow are complete.
    ///
    /// A part that cannot be read is left out and listed in `unread_parts`.
    async fn snapshot(&self, children: &[String]) -> Result<SessionSnapshot, ClientError> {
        let directory = &self.session.directory;
        let mut unread_parts = Vec::new();
        let busy = read_or(UnreadPart::Status, self.is_busy().await, &mut unread_parts)?;
        let messages = match (self.messages(&self.session).await, busy) {
            (Err(error), None) => return Err(error),
            (messages, _) => read_or(UnreadPart::Messages, messages, &mut unread_parts)?.unwrap_or_default(),
        };
        let mut of_children = Vec::new();
        for child in children {
            let child = SessionRef::new(child.clone(), directory.clone())?;
            let messages = match self.messages(&child).await {
                Err(error) if error.is_not_found() => Some(Vec::new()),
                messages => read_or(UnreadPart::Subagents, messages, &mut unread_parts)?,
            };
            of_children.push(messages.unwrap_or_default());
        }
        let permissions = self.client.permissions(directory).await;
        let permissions = read_or(UnreadPart::Asks, permissions, &mut unread_parts)?;
        let questions = self.client.questions(directory).await;
        let questions = read_or(UnreadPart::Asks, questions, &mut unread_parts)?;
        Ok(SessionSnapshot {
            busy: busy.unwrap_or_else(|| !is_at_rest(&messages)),
            messages,
            children: of_children,
            permissions: permissions.into_iter().flatten().filter_map(|ask| readable(ask.body)).collect(),
            questions: questions.into_iter().flatten().filter_map(|ask| readable(ask.body)).collect(),
            unread_parts,
        })
    }

    pub(super) async fn is_busy(&self) -> Result<bool, ClientError> {
        let status = self.client.status(&self.session.directory).await?;
        Ok(status.get(&self.session.id).is_some_and(|status| *status != Status::Idle))
    }

    async fn messages(&self, session: &SessionRef) -> Result<Vec<translate::Stored>, ClientError> {
        let stored = self.client.list_messages(session).await?;
        Ok(stored.into_iter().filter_map(translate::Stored::read).collect())
    }

    // === log lines ===

    fn log_failure(&self, message: &'static str, error: &ClientError) {
        let session = &self.session.id;
        tracing::warn!(native_session = %session, error = %error.for_log(), "{message}");
    }

    fn log_reply(&self, kind: &'static str, key: &Key, replied: Result<(), ClientError>) {
        let session = &self.session.id;
        match replied {
            Ok(()) => {
                tracing::debug!(
                    native_session = %session, kind, ask = key.as_str(),
                    "replied to opencode"
                )
            }
            Err(error) if error.is_not_found() => {
                tracing::debug!(
                    native_session = %session, kind, ask = key.as_str(),
                    "opencode no longer waits for a reply"
                );
            }
            Err(error) => {
                let error = error.for_log();
                tracing::warn!(
                    native_session = %session, kind, ask = key.as_str(), %error,
                    "cannot reply to opencode"
                );
            }
        }
    }

    fn log_prompt(&self, native_prompt: &str, answer: &PromptAnswer) {
        let session = &self.session.id;
        match answer {
            PromptAnswer::Accepted => {
                tracing::debug!(native_session = %session, native_prompt, "prompt accepted by opencode")
            }
            PromptAnswer::Busy => {
                tracing::info!(
                    native_session = %session, native_prompt,
                    "prompt refused by opencode: another one runs"
                )
            }
            PromptAnswer::Refused(error) | PromptAnswer::Unsent(error) | PromptAnswer::Unclear(error) => {
                let (class, status) = (error.class.as_str(), error.status);
                tracing::warn!(
                    native_session = %session, native_prompt, class, status,
                    "prompt not accepted by opencode"
                );
            }
        }
    }
}

/// A command with what it is about: further texts are arguments, and files are parts.
fn command_body(name: &str, arguments: &str, prompt: &Prompt) -> Value {
    let mut arguments = arguments.to_owned();
    let mut files = Vec::new();
    for part in prompt.parts.iter().skip(1) {
        match &part.content {
            PartContent::Text(text) => {
                arguments.push('\n');
                arguments.push_str(text);
            }
            PartContent::File { .. } => files.push(part.body()),
        }
    }
    let mut body = json!({"messageID": prompt.message_id, "command": name, "arguments": arguments});
    if !files.is_empty() {
        body["parts"] = Value::Array(files);
    }
    if let Some(agent) = &prompt.agent {
        body["agent"] = json!(agent);
    }
    if let Some(Model { provider, model }) = &prompt.model {
        body["model"] = json!(format!("{provider}/{model}"));
    }
    body
}

/// The answer, or `None` if it came and could not be read; that is noted in `unread_parts`.
fn read_or<T>(
    part: UnreadPart,
    answer: Result<T, ClientError>,
    unread_parts: &mut Vec<(UnreadPart, String)>,
) -> Result<Option<T>, ClientError> {
    match answer {
        Err(ClientError::Unreadable { request, problem, body: _ }) => {
            unread_parts.push((part, shorten(&format!("{request}: {problem}"))));
            Ok(None)
        }
        answer => answer.map(Some),
    }
}

/// True if the messages are those of an idle session: the last one is a finished answer that asked for no
/// tool.
fn is_at_rest(messages: &[translate::Stored]) -> bool {
    let is_done = |stored: &translate::Stored| {
        let info = &stored.info;
        info.is_assistant() && info.is_over() && info.finish.as_deref() != Some("tool-calls")
    };
    messages.last().is_none_or(is_done)
}

/// The answers in the order of their questions, as opencode expects them.
fn in_order(answers: &Map<String, Value>) -> Vec<Vec<String>> {
    let count =
        answers.keys().filter_map(|place| place.parse::<usize>().ok()).max().map_or(0, |last| last + 1);
    let labels = |place: usize| match answers.get(&place.to_string()) {
        Some(Value::Array(labels)) => labels.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::String(label)) => vec![label.clone()],
        _ => Vec::new(),
    };
    (0..count.min(1_000)).map(labels).collect()
}

fn prompt_answer(answer: Result<(), ClientError>) -> PromptAnswer {
    match answer {
        Ok(()) => PromptAnswer::Accepted,
        Err(error) if error.status() == Some(409) => PromptAnswer::Busy,
        Err(error) if error.status().is_some_and(|status| status < 500) => {
            PromptAnswer::Refused(turn_error(&error))
        }
        Err(
            error @ (ClientError::Id { .. }
            | ClientError::Password(_)
            | ClientError::UnknownRequest { .. }
            | ClientError::Directory(_)),
        ) => PromptAnswer::Refused(turn_error(&error)),
        Err(error) if error.is_unsent() => PromptAnswer::Unsent(turn_error(&error)),
        Err(error) => PromptAnswer::Unclear(turn_error(&error)),
    }
}

/// A failed request as the error of a turn.
pub(super) fn turn_error(error: &ClientError) -> TurnError {
    let class = match error {
        ClientError::Connect { .. } => ErrorClass::Unreachable,
        ClientError::Timeout { .. } => ErrorClass::Timeout,
        ClientError::Broken { .. } => ErrorClass::TransportLost,
        ClientError::Unauthorized { .. } | ClientError::Password(_) => ErrorClass::Auth,
        ClientError::Refused(refused) => match class_of_status(refused.status) {
            ErrorClass::ProviderError => ErrorClass::AgentError,
            class => class,
        },
        ClientError::UnknownRequest { .. } | ClientError::Unreadable { .. } => ErrorClass::AgentError,
        ClientError::BaseUrl { .. }
        | ClientError::Setup(_)
        | ClientError::Directory(_)
        | ClientError::Id { .. }
        | ClientError::OtherDirectory { .. } => ErrorClass::InvalidRequest,
    };
    let mut turn_error = TurnError::new(class, shorten(&error.to_string()));
    turn_error.status = error.status();
    turn_error.request_id = error.request_id().map(str::to_owned);
    turn_error
}
