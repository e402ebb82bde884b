//! `…/approvals/{approval}` and `…/questions/{question}`: answers to the agent. The first answer wins.

use super::Answer;
use crate::body::Strict;
use crate::caller::CallersGateway;
use crate::params::{Ids, Nothing, Params};
use crate::problem::{Kind, Problem};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use turnstream_gateway::{AnswerQuestion, ResolveApproval};
use turnstream_model::event::{ApprovalOutcome, QuestionOutcome};
use turnstream_model::id::{ApprovalId, QuestionId, SessionId};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resolve {
    outcome: Decision,
    option: Option<String>,
    message: Option<String>,
    #[serde(default)]
    stop: bool,
    key: Option<String>,
}

/// The outcomes that a client may give.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Decision {
    AllowOnce,
    AllowAlways,
    Reject,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reply {
    outcome: Option<Replied>,
    answers: Option<Map<String, Value>>,
    key: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Replied {
    Answered,
    Rejected,
}

pub(crate) async fn resolve(
    CallersGateway(gateway): CallersGateway,
    Ids((id, approval)): Ids<(SessionId, ApprovalId)>,
    _: Params<Nothing>,
    Strict(body): Strict<Resolve>,
) -> Result<impl IntoResponse, Problem> {
    let Resolve { outcome, option, message, stop, key } = body;
    let outcome = match outcome {
        Decision::AllowOnce => ApprovalOutcome::AllowOnce,
        Decision::AllowAlways => ApprovalOutcome::AllowAlways,
        Decision::Reject => ApprovalOutcome::Reject,
    };
    gateway.resolve(&id, &approval, ResolveApproval { outcome, option, message, stop, key }).await?;
    Ok(Answer(StatusCode::OK, json!({"approval": approval, "outcome": outcome})))
}

pub(crate) async fn answer(
    CallersGateway(gateway): CallersGateway,
    Ids((id, question)): Ids<(SessionId, QuestionId)>,
    _: Params<Nothing>,
    Strict(Reply { outcome, answers, key }): Strict<Reply>,
) -> Result<impl IntoResponse, Problem> {
    let outcome = match (outcome, &answers) {
        (None | Some(Replied::Answered), Some(_)) => QuestionOutcome::Answered,
        (Some(Replied::Rejected), None) => QuestionOutcome::Rejected,
        (None | Some(Replied::Answered), None) => return Err(unclear("`answers` is missing")),
        (Some(Replied::Rejected), Some(_)) => return Err(unclear("a rejected question has no `answers`")),
    };
    gateway.answer(&id, &question, AnswerQuestion { outcome, answers, key }).await?;
    Ok(Answer(StatusCode::OK, json!({"question": question, "outcome": outcome})))
}

fn unclear(wrong: &str) -> Problem {
    let detail = format!(r#"{wrong}; send {{"answers":{{"0":["…"]}}}} or {{"outcome":"rejected"}}"#);
    Problem::new(Kind::BadAnswer, detail)
}
