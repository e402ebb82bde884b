//! Makes the calls of a conversation.

use super::client::Client;
use super::conduct::{Answer, Call, Lacking, PromptAnswer, Shelf};
use super::error::ClientError;
use super::fault::{class_of_status, shorten};
use super::info::Status;
use super::rest::{PermissionReply, SessionRef};
use super::{content, translate};
use crate::counts::Counted;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::id::Key;

/// Messages of before a conversation that are looked at when it begins.
const PAST: u32 = 200;

/// What makes calls about one session.
#[derive(Clone)]
pub(super) struct Hands {
    pub(super) client: Client,
    pub(super) at: SessionRef,
}

impl Hands {
    /// Makes a call; `None` for one that needs no answer.
    pub(super) async fn make(self, call: Call) -> Option<Answer> {
        match call {
            Call::Prompt { message, content, model, mode } => {
                let prompt = content::prompt(&message, &content, model.as_deref(), mode.as_deref());
                let answer = match prompt {
                    Err(error) => PromptAnswer::Refused(error),
                    Ok(prompt) => prompt_answer(self.client.prompt_async(&self.at, &prompt).await),
                };
                if answer == PromptAnswer::Busy {
                    self.client.counters().count(Counted::PromptConflict);
                }
                Some(Answer::Prompt(message, answer))
            }
            Call::Message { session, message } => {
                Some(Answer::Message(self.message(session, &message).await))
            }
            Call::Shelf { children } => Some(Answer::Shelf(
                self.shelf(&children).await.map(Box::new).map_err(|error| turn_error(&error)),
            )),
            Call::Past => {
                let newest = self.client.newest_messages(&self.at, PAST).await.unwrap_or_default();
                Some(Answer::Past(newest.into_iter().filter_map(translate::Stored::read).collect()))
            }
            // Whether it helped shows in the events; the turn has deadlines.
            Call::Abort => {
                let _ = self.client.abort(&self.at).await;
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

    /// An ask that is not there any more needs no answer; any other trouble shows as a turn that does not go on.
    async fn reply(&self, key: &Key, reply: PermissionReply, message: Option<&str>) {
        let _ = self.client.reply_permission(&self.at.directory, key.as_str(), reply, message).await;
    }

    async fn answer(&self, key: &Key, answers: Option<Map<String, Value>>) {
        let directory = &self.at.directory;
        let _ = match answers {
            Some(answers) => {
                let answers = in_order(&answers);
                self.client.reply_question(directory, key.as_str(), &answers).await
            }
            None => self.client.reject_question(directory, key.as_str()).await,
        };
    }

    async fn message(&self, session: String, message: &str) -> Option<Box<translate::Stored>> {
        let at = SessionRef::new(session, self.at.directory.clone()).ok()?;
        let stored = self.client.get_message(&at, message).await.ok()?;
        translate::Stored::read(stored).map(Box::new)
    }

    /// The status first: a session that rests by then has all its messages, and one that does not may rest later.
    ///
    /// What cannot be read is left out, and what can be tells how the session stands.
    async fn shelf(&self, children: &[String]) -> Result<Shelf, ClientError> {
        let directory = &self.at.directory;
        let mut lacking = Vec::new();
        let busy = read_or(Lacking::Status, self.is_busy().await, &mut lacking)?;
        let messages = match (self.messages(&self.at).await, busy) {
            (Err(error), None) => return Err(error),
            (messages, _) => read_or(Lacking::Messages, messages, &mut lacking)?.unwrap_or_default(),
        };
        let mut below = Vec::new();
        for child in children {
            let at = SessionRef::new(child.clone(), directory.clone())?;
            let messages = match self.messages(&at).await {
                Err(error) if error.is_not_found() => Some(Vec::new()),
                messages => read_or(Lacking::Subagents, messages, &mut lacking)?,
            };
            below.push(messages.unwrap_or_default());
        }
        let permissions = read_or(Lacking::Asks, self.client.permissions(directory).await, &mut lacking)?;
        let questions = read_or(Lacking::Asks, self.client.questions(directory).await, &mut lacking)?;
        Ok(Shelf {
            busy: busy.unwrap_or_else(|| !rests(&messages)),
            messages,
            children: below,
            permissions: readable(permissions.into_iter().flatten().map(|ask| ask.body)),
            questions: readable(questions.into_iter().flatten().map(|ask| ask.body)),
            lacking,
        })
    }

    pub(super) async fn is_busy(&self) -> Result<bool, ClientError> {
        let status = self.client.status(&self.at.directory).await?;
        Ok(status.get(&self.at.id).is_some_and(|status| *status != Status::Idle))
    }

    async fn messages(&self, at: &SessionRef) -> Result<Vec<translate::Stored>, ClientError> {
        let stored = self.client.list_messages(at).await?;
        Ok(stored.into_iter().filter_map(translate::Stored::read).collect())
    }
}

/// What was answered, or nothing if that cannot be read.
fn read_or<T>(
    part: Lacking,
    answer: Result<T, ClientError>,
    lacking: &mut Vec<(Lacking, String)>,
) -> Result<Option<T>, ClientError> {
    match answer {
        Err(ClientError::Unreadable { request, problem, body: _ }) => {
            lacking.push((part, shorten(&format!("{request}: {problem}"))));
            Ok(None)
        }
        answer => answer.map(Some),
    }
}

/// Whether these are all the messages of a session that does nothing: the last is an answer that is over, and asked for no
/// tool.
fn rests(messages: &[translate::Stored]) -> bool {
    let is_done = |stored: &translate::Stored| {
        let info = &stored.info;
        info.is_assistant() && info.is_over() && info.finish.as_deref() != Some("tool-calls")
    };
    messages.last().is_none_or(is_done)
}

fn readable<T: DeserializeOwned>(values: impl Iterator<Item = Value>) -> Vec<T> {
    values.filter_map(|value| serde_json::from_value(value).ok()).collect()
}

/// The answers by the place of their question, as opencode takes them.
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

/// A failed request, as the log has it.
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
