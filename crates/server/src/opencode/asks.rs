//! Answers to permissions and questions. Their ids name no session, so the sessions that wait are searched.

use super::answer::{Answer, Failure, Json};
use super::lookup::{find, open_turn_of, waiting};
use super::request::{Asked, Body};
use crate::app::App;
use crate::caller::CallersGateway;
use crate::params::Ids;
use axum::extract::State as Shared;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use turnstream_dialects::opencode::{self, Names};
use turnstream_gateway::{AnswerQuestion, Gateway, ResolveApproval};
use turnstream_model::event::{ApprovalOutcome, OptionKind, QuestionOutcome};
use turnstream_model::fold::{Approval, State};
use turnstream_model::id::{QuestionId, SessionId};

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    Once,
    Always,
    Reject,
}

#[derive(Deserialize)]
pub(super) struct PermissionReply {
    #[serde(alias = "response")]
    reply: Reply,
    message: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct QuestionReply {
    answers: Vec<Vec<String>>,
}

pub(super) async fn permissions(Shared(app): Shared<Arc<App>>, asked: Asked) -> Answer {
    let states = waiting(&app, asked.directory()).await?;
    Ok(Json(Value::Array(states.iter().flat_map(opencode::permissions).collect())))
}

pub(super) async fn questions(Shared(app): Shared<Arc<App>>, asked: Asked) -> Answer {
    let states = waiting(&app, asked.directory()).await?;
    Ok(Json(Value::Array(states.iter().flat_map(opencode::questions).collect())))
}

pub(super) async fn reply(
    Shared(app): Shared<Arc<App>>,
    CallersGateway(gateway): CallersGateway,
    Ids(request): Ids<String>,
    Body(body): Body<PermissionReply>,
) -> Answer {
    let missing = || Failure::not_found(format!("Permission not found: {request}"));
    let states = waiting(&app, None).await?;
    let (session, asked) = states.iter().find_map(|state| approval(state, &request)).ok_or_else(missing)?;
    resolve(&gateway, &session, asked, body).await
}

/// The older route, which names the session.
pub(super) async fn respond(
    Shared(app): Shared<Arc<App>>,
    CallersGateway(gateway): CallersGateway,
    Ids((id, request)): Ids<(String, String)>,
    Body(body): Body<PermissionReply>,
) -> Answer {
    let state = open_turn_of(&app.gateway, &find(&app, &id)?.id).await?;
    let missing = || Failure::not_found(format!("Permission not found: {request}"));
    let (session, asked) = approval(&state, &request).ok_or_else(missing)?;
    resolve(&gateway, &session, asked, body).await
}

fn approval<'a>(state: &'a State, request: &str) -> Option<(SessionId, &'a Approval)> {
    let names = Names::of(&state.session);
    let asked = state.approvals.iter().rev().find(|asked| names.permission(&asked.approval) == request)?;
    Some((state.session.id.clone()?, asked))
}

async fn resolve(
    gateway: &Gateway,
    session: &SessionId,
    asked: &Approval,
    PermissionReply { reply, message }: PermissionReply,
) -> Answer {
    let outcome = match reply {
        Reply::Once => ApprovalOutcome::AllowOnce,
        Reply::Always => ApprovalOutcome::AllowAlways,
        Reply::Reject => ApprovalOutcome::Reject,
    };
    let is_offered = asked.options.iter().any(|option| option.kind == OptionKind::AllowAlways);
    if outcome == ApprovalOutcome::AllowAlways && !is_offered {
        return Err(Failure::bad(
            "the agent does not offer always for this permission; reply once or reject",
        ));
    }
    let answer = ResolveApproval { outcome, option: None, message, stop: false, key: None };
    gateway.resolve(session, &asked.approval, answer).await?;
    Ok(Json(json!(true)))
}

pub(super) async fn answer(
    Shared(app): Shared<Arc<App>>,
    CallersGateway(gateway): CallersGateway,
    Ids(request): Ids<String>,
    Body(QuestionReply { answers }): Body<QuestionReply>,
) -> Answer {
    let (session, question, ids) = question(&app, &request).await?;
    let answers: Map<String, Value> =
        ids.into_iter().zip(answers.into_iter().map(|labels| json!(labels))).collect();
    let answer = AnswerQuestion { outcome: QuestionOutcome::Answered, answers: Some(answers), key: None };
    gateway.answer(&session, &question, answer).await?;
    Ok(Json(json!(true)))
}

pub(super) async fn reject(
    Shared(app): Shared<Arc<App>>,
    CallersGateway(gateway): CallersGateway,
    Ids(request): Ids<String>,
) -> Answer {
    let (session, question, _) = question(&app, &request).await?;
    let answer = AnswerQuestion { outcome: QuestionOutcome::Rejected, answers: None, key: None };
    gateway.answer(&session, &question, answer).await?;
    Ok(Json(json!(true)))
}

/// The question with this id of opencode, and the ids of its questions in their order.
async fn question(app: &App, request: &str) -> Result<(SessionId, QuestionId, Vec<String>), Failure> {
    for state in waiting(app, None).await? {
        let names = Names::of(&state.session);
        let asked = state.questions.iter().rev().find(|asked| names.question(&asked.question) == request);
        if let (Some(asked), Some(session)) = (asked, &state.session.id) {
            let ids = asked.questions.iter().map(|question| question.id.clone()).collect();
            return Ok((session.clone(), asked.question.clone(), ids));
        }
    }
    Err(Failure::not_found(format!("Question not found: {request}")))
}
