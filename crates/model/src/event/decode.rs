//! JSON to event. Unknown types and members are kept, a missing or malformed known one is an error by name.

use super::{Body, Draft, Event, Field, Resolution, SessionPatch, Status};
use crate::time::Time;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde_json::{Map, Value};

/// Why a line is not an event.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// It is not a JSON object.
    #[error("not a JSON object: {0}")]
    NotAnObject(String),
    /// A member that this type of event must have is not there.
    #[error("{type}: member \"{member}\" is missing")]
    Missing {
        /// The event's type; empty when that is what is missing.
        r#type: String,
        /// The member's name.
        member: &'static str,
    },
    /// A member is there and cannot be read.
    #[error("{type}: member \"{member}\": {problem}")]
    Malformed {
        /// The event's type.
        r#type: String,
        /// The member's name.
        member: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

impl Event {
    /// Reads one line of a log.
    pub fn from_json(line: &str) -> Result<Self, EventError> {
        let members =
            turnstream_json::from_str(line).map_err(|error| EventError::NotAnObject(error.to_string()))?;
        Self::from_members(members)
    }

    /// Reads an event from an object that was parsed already.
    pub fn from_members(members: Map<String, Value>) -> Result<Self, EventError> {
        let mut members = Members { r#type: String::new(), members };
        members.r#type = members.need("type")?;
        let seq = members.need("seq")?;
        let time: Time = members.need("time")?;
        Ok(members.draft()?.at(seq, time))
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_members(Map::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// The members not yet read; what is left at the end is unknown to this version.
struct Members {
    r#type: String,
    members: Map<String, Value>,
}

impl Members {
    /// A null is as good as absent: both mean unknown.
    fn take<T: DeserializeOwned>(&mut self, member: &'static str) -> Result<Option<T>, EventError> {
        match self.members.remove(member) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value).map(Some).map_err(|error| EventError::Malformed {
                r#type: self.r#type.clone(),
                member,
                problem: error.to_string(),
            }),
        }
    }

    fn need<T: DeserializeOwned>(&mut self, member: &'static str) -> Result<T, EventError> {
        self.take(member)?.ok_or_else(|| EventError::Missing { r#type: self.r#type.clone(), member })
    }

    fn flag(&mut self, member: &'static str) -> Result<bool, EventError> {
        Ok(self.take(member)?.unwrap_or(false))
    }

    /// Fails unless the member is there; for ids that the envelope holds as options.
    fn require(&self, member: &'static str) -> Result<(), EventError> {
        match self.members.get(member) {
            None | Some(Value::Null) => Err(EventError::Missing { r#type: self.r#type.clone(), member }),
            Some(_) => Ok(()),
        }
    }

    fn draft(mut self) -> Result<Draft, EventError> {
        for member in required_ids(&self.r#type) {
            self.require(member)?;
        }
        let body = self.body()?;
        if let Body::Unknown { .. } = body {
            return Ok(Draft { extra: self.members, ..Draft::new(body) });
        }
        Ok(Draft {
            turn: self.take("turn")?,
            attempt: self.take("attempt")?,
            item: self.take("item")?,
            parent: self.take("parent")?,
            native: self.take("native")?,
            body,
            extra: self.members,
        })
    }

    fn body(&mut self) -> Result<Body, EventError> {
        let r#type = self.r#type.clone();
        Ok(match r#type.as_str() {
            "session.created" => Body::SessionCreated {
                session: self.need("session")?,
                agent: self.need("agent")?,
                cwd: self.need("cwd")?,
                title: self.take("title")?,
                key: self.take("key")?,
            },
            "session.updated" => Body::SessionUpdated(Box::new(SessionPatch {
                title: self.take("title")?,
                model: self.take("model")?,
                mode: self.take("mode")?,
                native_id: self.take("native_id")?,
                context: self.take("context")?,
                permissions: self.take("permissions")?,
                redact_prompts: self.take("redact_prompts")?,
            })),
            "session.status" => Body::SessionStatus(self.status()?),
            "prompt.accepted" => Body::PromptAccepted {
                prompt: self.need("prompt")?,
                key: self.take("key")?,
                content: self.need("content")?,
            },
            "prompt.sent" => {
                Body::PromptSent { prompt: self.need("prompt")?, native_id: self.take("native_id")? }
            }
            "prompt.taken" => Body::PromptTaken { prompt: self.need("prompt")? },
            "prompt.withdrawn" => Body::PromptWithdrawn { prompt: self.need("prompt")? },
            "prompt.cancelling" => {
                Body::PromptCancelling { prompt: self.need("prompt")?, by: self.need("by")? }
            }
            "turn.started" => Body::TurnStarted {
                origin: self.need("origin")?,
                prompts: self.take("prompts")?.unwrap_or_default(),
                native_id: self.take("native_id")?,
            },
            "turn.cancelling" => Body::TurnCancelling { by: self.need("by")? },
            "attempt.started" => {
                let (step, model) = (self.need("step")?, self.take("model")?);
                Body::AttemptStarted { step, model, native_id: self.take("native_id")? }
            }
            "item.started" => Body::ItemStarted {
                kind: self.need("kind")?,
                role: self.take("role")?,
                synthetic: self.flag("synthetic")?,
                text: self.take("text")?,
                tool: self.take("tool")?,
                native_id: self.take("native_id")?,
            },
            "item.delta" => Body::ItemDelta { field: self.field()?, text: self.need("text")? },
            "item.replaced" => Body::ItemReplaced { field: self.field()?, text: self.need("text")? },
            "item.updated" => Body::ItemUpdated { tool: self.take("tool")? },
            "item.ended" => Body::ItemEnded {
                state: self.need("state")?,
                reason: self.take("reason")?,
                incomplete: self.flag("incomplete")?,
                caused_by: self.take("caused_by")?,
            },
            "item.revised" => Body::ItemRevised {
                late: self.flag("late")?,
                state: self.take("state")?,
                text: self.take("text")?,
                tool: self.take("tool")?,
            },
            "item.removed" => Body::ItemRemoved,
            "attempt.ended" => Body::AttemptEnded {
                finish: self.take("finish")?,
                usage: self.take("usage")?,
                cost: self.take("cost")?,
            },
            "attempt.superseded" => {
                Body::AttemptSuperseded { by: self.need("by")?, items: self.need("items")? }
            }
            "approval.requested" => Body::ApprovalRequested {
                approval: self.need("approval")?,
                tool: self.take("tool")?,
                options: self.take("options")?.unwrap_or_default(),
                native_id: self.take("native_id")?,
            },
            "approval.resolved" => Body::ApprovalResolved {
                approval: self.need("approval")?,
                resolution: Box::new(Resolution {
                    outcome: self.need("outcome")?,
                    by: self.need("by")?,
                    option: self.take("option")?,
                    message: self.take("message")?,
                    key: self.take("key")?,
                }),
            },
            "question.asked" => Body::QuestionAsked {
                question: self.need("question")?,
                questions: self.need("questions")?,
                native_id: self.take("native_id")?,
            },
            "question.answered" => Body::QuestionAnswered {
                question: self.need("question")?,
                outcome: self.need("outcome")?,
                answers: self.take("answers")?,
                key: self.take("key")?,
            },
            "turn.ended" => Body::TurnEnded {
                outcome: self.need("outcome")?,
                stop_reason: self.take("stop_reason")?,
                usage: self.take("usage")?,
                cost: self.take("cost")?,
                summed: self.flag("summed")?,
                error: self.take("error")?,
            },
            "notice" => Body::Notice {
                code: self.need("code")?,
                message: self.need("message")?,
                detail: self.take("detail")?,
            },
            "session.ended" => Body::SessionEnded { reason: self.need("reason")? },
            _ => Body::Unknown { r#type },
        })
    }

    fn field(&mut self) -> Result<Field, EventError> {
        Ok(self.take("field")?.unwrap_or(Field::Text))
    }

    fn status(&mut self) -> Result<Status, EventError> {
        let word: String = self.need("status")?;
        match word.as_str() {
            "idle" => Ok(Status::Idle),
            "busy" => Ok(Status::Busy),
            "waiting" => Ok(Status::Waiting),
            "recovering" => Ok(Status::Recovering),
            // Here `attempt` is the number of the retry, not the id of a model call.
            "retrying" => Ok(Status::Retrying {
                attempt: self.take("attempt")?,
                reason: self.take("reason")?,
                until: self.take("until")?,
                message: self.take("message")?,
            }),
            _ => Err(EventError::Malformed {
                r#type: self.r#type.clone(),
                member: "status",
                problem: format!("{word:?} is not idle, busy, waiting, recovering or retrying"),
            }),
        }
    }
}

/// Which ids of the envelope an event cannot do without.
fn required_ids(r#type: &str) -> &'static [&'static str] {
    match r#type {
        "prompt.taken" | "turn.started" | "turn.cancelling" | "turn.ended" => &["turn"],
        "attempt.started" | "attempt.ended" | "attempt.superseded" => &["turn", "attempt"],
        "item.started" | "item.delta" | "item.replaced" | "item.updated" | "item.ended" | "item.revised"
        | "item.removed" => &["item"],
        _ => &[],
    }
}
