//! Requests about sessions. Those that change something can be repeated: by their key, or by their nature.

use crate::{Client, ClientError, segment, with_retries};
use serde_json::{Map, Value, json};

/// How an approval is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Allow this call.
    AllowOnce,
    /// Allow this call, and those like it.
    AllowAlways,
    /// Refuse it.
    Reject,
    /// Refuse it, and cancel the turn.
    RejectAndStop,
}

/// What is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelTarget<'a> {
    /// The open turn, and a prompt that was sent and has no turn yet.
    Everything,
    /// This turn.
    Turn(&'a str),
    /// This prompt, which was sent and has no turn yet.
    Prompt(&'a str),
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// By the id of each part of the question: the chosen labels, or free text.
    Given(Map<String, Value>),
    /// No answer.
    Rejected,
}

impl Client {
    /// The session.
    pub async fn session(&self, session: &str) -> Result<Value, ClientError> {
        self.get(&path(session, "")).await
    }

    /// The state of the session after its last event.
    pub async fn snapshot(&self, session: &str) -> Result<Value, ClientError> {
        self.get(&path(session, "/snapshot")).await
    }

    /// Creates a session. With a `key` in the body the request is repeated while that can help.
    pub async fn create_session(&self, body: &Value) -> Result<Value, ClientError> {
        if body["key"].is_string() {
            return with_retries(|| self.post("/v1/sessions", body)).await;
        }
        self.post("/v1/sessions", body).await
    }

    /// Changes the title, the model, the mode or the permissions of a session.
    pub async fn change_session(&self, session: &str, changes: &Value) -> Result<Value, ClientError> {
        let path = path(session, "");
        with_retries(|| self.patch(&path, changes)).await
    }

    /// Deletes a session for good.
    pub async fn delete_session(&self, session: &str) -> Result<Value, ClientError> {
        self.delete(&path(session, "")).await
    }

    /// Queues a prompt, and returns its id. It is durable then, and runs at most once, whatever is repeated.
    pub async fn prompt(&self, session: &str, content: &Value, key: &str) -> Result<String, ClientError> {
        let accepted = self.queue_prompt(session, &json!({"content": content, "key": key})).await?;
        Ok(accepted["prompt"].as_str().unwrap_or_default().to_owned())
    }

    /// The same with all members of the request. The body must have a `key`.
    pub async fn queue_prompt(&self, session: &str, body: &Value) -> Result<Value, ClientError> {
        let path = path(session, "/prompts");
        with_retries(|| self.post(&path, body)).await
    }

    /// Takes back a prompt that waits in the queue.
    pub async fn withdraw(&self, session: &str, prompt: &str) -> Result<(), ClientError> {
        self.delete(&path(session, &format!("/prompts/{}", segment(prompt)))).await.map(drop)
    }

    /// Cancels work. The end of the turn comes as an event.
    pub async fn cancel(&self, session: &str, target: CancelTarget<'_>) -> Result<(), ClientError> {
        let body = match target {
            CancelTarget::Everything => json!({}),
            CancelTarget::Turn(turn) => json!({"turn": turn}),
            CancelTarget::Prompt(prompt) => json!({"prompt": prompt}),
        };
        self.post(&path(session, "/cancel"), &body).await.map(drop)
    }

    /// Answers an approval. `option` is one of those that the agent offered.
    pub async fn approve(
        &self,
        session: &str,
        approval: &str,
        outcome: Outcome,
        option: Option<&str>,
    ) -> Result<(), ClientError> {
        let mut body = json!({"outcome": outcome.as_str()});
        if let Some(option) = option {
            body["option"] = option.into();
        }
        if outcome == Outcome::RejectAndStop {
            body["stop"] = true.into();
        }
        let path = path(session, &format!("/approvals/{}", segment(approval)));
        with_retries(|| self.post(&path, &body)).await.map(drop)
    }

    /// Answers a question.
    pub async fn answer(&self, session: &str, question: &str, answer: &Answer) -> Result<(), ClientError> {
        let body = match answer {
            Answer::Given(answers) => json!({"answers": answers}),
            Answer::Rejected => json!({"outcome": "rejected"}),
        };
        let path = path(session, &format!("/questions/{}", segment(question)));
        with_retries(|| self.post(&path, &body)).await.map(drop)
    }

    /// A ticket for the event streams of a session, for a browser.
    pub async fn ticket(&self, session: &str) -> Result<String, ClientError> {
        let made = self.post("/v1/tickets", &json!({"session": session})).await?;
        Ok(made["ticket"].as_str().unwrap_or_default().to_owned())
    }
}

impl Outcome {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AllowOnce => "allow_once",
            Self::AllowAlways => "allow_always",
            Self::Reject | Self::RejectAndStop => "reject",
        }
    }
}

fn path(session: &str, below: &str) -> String {
    format!("/v1/sessions/{}{below}", segment(session))
}
