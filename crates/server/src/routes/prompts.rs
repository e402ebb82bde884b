//! `…/prompts`, `…/cancel` and `…/wake`: adds, withdraws and cancels prompts, cancels turns, and continues a
//! failed turn early.

use super::Answer;
use crate::body::{Optional, Strict};
use crate::caller::CallersGateway;
use crate::params::{Ids, Nothing, Params};
use crate::problem::{Kind, Problem};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::{Value, json};
use turnstream_gateway::{CapsChange, NewPrompt};
use turnstream_model::id::{PromptId, SessionId, TurnId};
use turnstream_model::machine::{Cancel, Cancelled};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Add {
    content: Vec<Value>,
    key: Option<String>,
    budget: Option<CapsChange>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stop {
    turn: Option<TurnId>,
    prompt: Option<PromptId>,
}

pub(crate) async fn add(
    CallersGateway(gateway): CallersGateway,
    Ids(id): Ids<SessionId>,
    _: Params<Nothing>,
    Strict(Add { content, key, budget }): Strict<Add>,
) -> Result<impl IntoResponse, Problem> {
    let budget = budget.unwrap_or_default();
    let accepted = gateway.prompt(&id, NewPrompt { content, key, budget }).await?;
    let answer = json!({"prompt": accepted.prompt, "position": accepted.position});
    Ok(Answer(StatusCode::ACCEPTED, answer))
}

pub(crate) async fn withdraw(
    CallersGateway(gateway): CallersGateway,
    Ids((id, prompt)): Ids<(SessionId, PromptId)>,
    _: Params<Nothing>,
) -> Result<impl IntoResponse, Problem> {
    gateway.withdraw(&id, &prompt).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn cancel(
    CallersGateway(gateway): CallersGateway,
    Ids(id): Ids<SessionId>,
    _: Params<Nothing>,
    Optional(Stop { turn, prompt }): Optional<Stop>,
) -> Result<impl IntoResponse, Problem> {
    let what = match (turn, prompt) {
        (None, None) => Cancel::Any,
        (Some(turn), None) => Cancel::Turn(turn),
        (None, Some(prompt)) => Cancel::Prompt(prompt),
        (Some(turn), Some(prompt)) => {
            let detail = format!("turn {turn} and prompt {prompt} are both named; name one, or neither");
            return Err(Problem::new(Kind::BadBody, detail));
        }
    };
    let Cancelled { turn, prompts, parked } = gateway.cancel(&id, what).await?;
    let named = [
        ("turn", turn.map(|turn| json!(turn))),
        ("prompt", prompts.first().map(|prompt| json!(prompt))),
        ("parked", parked.map(|turn| json!(turn))),
    ];
    let named = named.into_iter().filter_map(|(name, id)| Some((name.to_owned(), id?)));
    Ok(Answer(StatusCode::ACCEPTED, Value::Object(named.collect())))
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wake {}

pub(crate) async fn wake(
    CallersGateway(gateway): CallersGateway,
    Ids(id): Ids<SessionId>,
    _: Params<Nothing>,
    Optional(Wake {}): Optional<Wake>,
) -> Result<impl IntoResponse, Problem> {
    let accepted = gateway.wake_parked(&id).await?;
    Ok(Answer(StatusCode::ACCEPTED, json!({"prompt": accepted.prompt})))
}
