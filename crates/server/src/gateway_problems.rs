//! Errors of the gateway as problems. Errors that an operator must see are logged here, with their sources.

use crate::problem::{Kind, Problem};
use serde_json::{Value, json};
use turnstream_adapter::BadMcp;
use turnstream_gateway::{ImportError, RequestError};
use turnstream_model::Chain;
use turnstream_model::event::ResumeAs;
use turnstream_model::machine::{PromptState, Refusal};

impl From<RequestError> for Problem {
    fn from(error: RequestError) -> Self {
        let message = error.to_string();
        match error {
            RequestError::UnknownSession(_) => Self::new(Kind::UnknownSession, message)
                .advice("GET /v1/sessions lists sessions, POST /v1/sessions creates one"),
            RequestError::UnknownAgent { asked: _, known } => {
                Self::new(Kind::UnknownAgent, message).with("known", known)
            }
            RequestError::AgentUnusable { .. } => Self::new(Kind::AgentUnusable, message),
            RequestError::UnknownModel { agent: _, problem: _, known } => {
                Self::new(Kind::UnknownModel, message).with("known", known)
            }
            RequestError::AgentForgot { agent: _, session: _, native_id } => {
                let choices: Vec<&str> = ResumeAs::ALL.iter().map(|choice| choice.as_str()).collect();
                let advice = "choose how to go on with POST …/resume {\"as\":\"fresh\"}, or {\"as\":\"transcript\"} to hand \
                              over the conversation from the log";
                Self::new(Kind::AgentForgot, message)
                    .advice(advice)
                    .with("as", choices)
                    .with("forgot", native_id)
            }
            RequestError::NotForgotten { agent: _, session: _, resumed } => {
                Self::new(Kind::NotForgotten, message)
                    .with("resumed", resumed.map(|resumed| resumed.as_str()))
            }
            RequestError::BadMcp(BadMcp { member, problem: _ }) => {
                Self::new(Kind::BadBody, message).with("member", member)
            }
            RequestError::McpRefused { .. } => Self::new(Kind::McpRefused, message),
            RequestError::NoDirectory { .. } => Self::new(Kind::NoDirectory, message),
            RequestError::NoFile { .. } => Self::new(Kind::BadQuery, message),
            RequestError::OutsideRoots { path: _, roots } => {
                let roots: Vec<Value> = roots.iter().map(|root| json!(root.display().to_string())).collect();
                let advice = "choose a directory below a root, or start the gateway with another root";
                Self::new(Kind::OutsideRoots, message).advice(advice).with("roots", roots)
            }
            RequestError::KeyReused { .. } => Self::new(Kind::KeyReused, message),
            RequestError::Refused(refusal) => refused(&refusal, message),
            RequestError::BadPrompt(_) => Self::new(Kind::BadContent, message),
            RequestError::BadBudget { cap } => Self::new(Kind::BadBody, message).with("member", cap),
            RequestError::BadUnattended { member, problem: _ } => {
                Self::new(Kind::BadBody, message).with("member", member)
            }
            RequestError::SecretName { .. } => Self::new(Kind::BadBody, message),
            RequestError::BadAnswer(_) => Self::new(Kind::BadAnswer, message),
            RequestError::BadSearch(_) => Self::new(Kind::BadQuery, message),
            RequestError::SearchBusy { .. } => Self::new(Kind::Busy, message).retry_after(1),
            RequestError::TooLong { what, length: _, most } => {
                Self::new(Kind::TooLong, message).with("member", what).with("limit", most)
            }
            RequestError::TooManySessions { most } => {
                Self::new(Kind::TooManySessions, message).with("limit", most)
            }
            RequestError::TooManyAgents { most } => {
                Self::new(Kind::TooManyAgents, message).with("limit", most).retry_after(5)
            }
            RequestError::QueueFull { most } | RequestError::QueueTooLarge { most, .. } => {
                Self::new(Kind::QueueFull, message).with("limit", most).retry_after(5)
            }
            RequestError::BadCursor(_) => Self::new(Kind::BadCursor, message),
            RequestError::Recovering(_) => Self::new(Kind::Recovering, message).retry_after(1),
            RequestError::Degraded(_) => {
                Self::new(Kind::Degraded, message).with("taken", false).retry_after(5)
            }
            RequestError::NotDurableYet(_) | RequestError::StopNotDurableYet(_) => {
                Self::new(Kind::Degraded, message).with("taken", true).retry_after(5)
            }
            RequestError::NothingSettled { .. } => {
                Self::new(Kind::NothingSettled, message).advice("wait for its end with ?wait=60")
            }
            RequestError::Closing => {
                Self::new(Kind::Closing, format!("{message}; try again when it has restarted")).retry_after(5)
            }
            RequestError::Log(source) => {
                tracing::error!(error = %Chain(&source), "a request failed because of the log");
                Self::new(Kind::LogFailed, message)
            }
        }
    }
}

impl From<ImportError> for Problem {
    fn from(error: ImportError) -> Self {
        let message = error.to_string();
        match error {
            ImportError::File(file) => {
                Self::new(Kind::BadImport, message).with("line", file.line).with("fault", file.fault.name())
            }
            ImportError::Exists(id) => Self::new(Kind::SessionExists, message)
                .advice("with ?new_id=true")
                .with("session", id.as_str()),
            ImportError::Spool(source) => {
                tracing::warn!(error = %Chain(&source), "an import cannot be stored");
                Self::new(Kind::NoRoom, message)
            }
            ImportError::TooSlow => Self::new(Kind::SlowBody, message),
            ImportError::Request(error) => error.into(),
        }
    }
}

fn refused(refusal: &Refusal, message: String) -> Problem {
    match refusal {
        // No request causes this: a keeper creates a session once.
        Refusal::SessionExists => {
            tracing::error!(error = message, "a session was created twice");
            Problem::new(Kind::Internal, format!("{message}; this is a bug in the gateway, please report it"))
        }
        Refusal::SessionEnded => Problem::new(Kind::SessionEnded, message)
            .advice("its log can still be read; create a new session to continue"),
        Refusal::Capped { cap, used: _, limit: _ } => {
            let advice =
                format!("raise it with POST …/budget {{\"session\":{{\"{cap}\":…}}}}; null lifts it");
            Problem::new(Kind::Budget, message).advice(&advice).with("cap", cap.as_str())
        }
        Refusal::NotWaiting { prompt, state: Some(PromptState::Sent) } => {
            let advice = format!("cancel it with POST …/cancel {{\"prompt\":\"{prompt}\"}}");
            Problem::new(Kind::PromptNotWaiting, message).advice(&advice)
        }
        Refusal::NotWaiting { .. } => Problem::new(Kind::PromptNotWaiting, message),
        Refusal::NotSent { prompt, state: Some(PromptState::Waiting) } => {
            let advice = format!("remove it from the queue with DELETE …/prompts/{prompt}");
            Problem::new(Kind::PromptNotSent, message).advice(&advice)
        }
        Refusal::NotSent { .. } => Problem::new(Kind::PromptNotSent, message).advice(
            "a prompt with a turn ends with it: name the turn, or leave both out to cancel whatever runs",
        ),
        Refusal::NothingRuns => Problem::new(Kind::TurnNotOpen, message)
            .advice("prompts in the queue are removed with DELETE …/prompts/{prompt}")
            .with("open", Value::Null),
        // No request causes this: a keeper sends prompts only when it may.
        Refusal::Parked => Problem::new(Kind::Internal, message),
        Refusal::NotParked => Problem::new(Kind::NotParked, message).advice(
            "a session waits after a limit with on_limit = \"wait\", and after a failure with \
                     on_failure = \"continue\"",
        ),
        Refusal::TurnNotOpen { asked: _, open } => {
            Problem::new(Kind::TurnNotOpen, message).with("open", open.as_ref().map(|turn| turn.as_str()))
        }
        Refusal::ApprovalSettled { approval: _, outcome } => {
            Problem::new(Kind::ApprovalSettled, message).with("outcome", outcome.as_str())
        }
        Refusal::UnknownApproval(_) => Problem::new(Kind::UnknownApproval, message),
        Refusal::QuestionSettled { question: _, outcome } => {
            Problem::new(Kind::QuestionSettled, message).with("outcome", outcome.as_str())
        }
        Refusal::UnknownQuestion(_) => Problem::new(Kind::UnknownQuestion, message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{StatusCode, header};
    use axum::response::IntoResponse;
    use std::time::Duration;

    #[test]
    fn whoever_finds_all_searches_busy_is_told_when_to_come_back() {
        let busy = RequestError::SearchBusy { at_a_time: 4, waited: Duration::from_secs(5) };
        let response = Problem::from(busy).into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }
}
