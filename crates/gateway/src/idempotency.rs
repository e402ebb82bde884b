//! Repeated requests with the same key. If the first one is in the log, the repeat succeeds, however long
//! ago that was and also while the disk fails.

use crate::error::{RequestError, named};
use crate::gateway::Gateway;
use crate::keeper::option_for;
use crate::request::{AnswerQuestion, NewPrompt, ResolveApproval};
use turnstream_model::event::ApprovalOutcome;
use turnstream_model::fold::{Approval, Asked, State};
use turnstream_model::id::{ApprovalId, QuestionId, SessionId};
use turnstream_model::machine::{Accepted, Refusal};

impl Gateway {
    /// The prompt of the first request, or this error.
    pub(crate) async fn kept_prompt(
        &self,
        id: &SessionId,
        repeat: &NewPrompt,
        error: RequestError,
    ) -> Result<Accepted, RequestError> {
        let (Some(_), true) = (&repeat.key, is_for_the_disk(&error)) else { return Err(error) };
        let Ok(snapshot) = self.snapshot(id).await else { return Err(error) };
        let State { queue, prompts, spent, .. } = snapshot.state;
        if let Some(spent) = spent.iter().find(|spent| Some(&spent.key) == repeat.key.as_ref()) {
            return Ok(Accepted { prompt: spent.prompt.clone(), position: 0 });
        }
        let same = |prompt: &&turnstream_model::fold::Prompt| {
            prompt.key == repeat.key && prompt.content == repeat.content
        };
        let Some(kept) = prompts.iter().chain(&queue).find(same) else { return Err(error) };
        let position = queue.iter().position(|prompt| prompt.prompt == kept.prompt).unwrap_or(0);
        Ok(Accepted { prompt: kept.prompt.clone(), position })
    }

    /// Whether an approval that cannot be answered was decided by this very answer.
    pub(crate) async fn settled_approval(
        &self,
        id: &SessionId,
        approval: &ApprovalId,
        answer: &ResolveApproval,
        error: RequestError,
    ) -> Result<(), RequestError> {
        let may_be_settled = match &error {
            // It may have been decided so long ago that only the log has it.
            RequestError::Refused(Refusal::UnknownApproval(_)) => true,
            RequestError::Refused(Refusal::ApprovalSettled { .. }) => answer.key.is_some(),
            other => answer.key.is_some() && is_for_the_disk(other),
        };
        if !may_be_settled {
            return Err(error);
        }
        let Ok(snapshot) = self.snapshot(id).await else { return Err(error) };
        let state = snapshot.state;
        let Some(ask) = state.approvals.iter().find(|ask| ask.approval == *approval) else {
            return Err(error);
        };
        let Some(outcome) = ask.outcome else { return Err(error) };
        match answer.key.clone().filter(|_| ask.key == answer.key) {
            Some(key) => same_or_reused(key, approval_differs(&state, ask, answer)),
            None => Err(Refusal::ApprovalSettled { approval: approval.clone(), outcome }.into()),
        }
    }

    /// Whether a question that cannot be answered was closed by this very answer.
    pub(crate) async fn settled_question(
        &self,
        id: &SessionId,
        question: &QuestionId,
        answer: &AnswerQuestion,
        error: RequestError,
    ) -> Result<(), RequestError> {
        let may_be_settled = match &error {
            RequestError::Refused(Refusal::UnknownQuestion(_)) => true,
            RequestError::Refused(Refusal::QuestionSettled { .. }) => answer.key.is_some(),
            other => answer.key.is_some() && is_for_the_disk(other),
        };
        if !may_be_settled {
            return Err(error);
        }
        let Ok(snapshot) = self.snapshot(id).await else { return Err(error) };
        let questions = snapshot.state.questions;
        let Some(asked) = questions.iter().find(|asked| asked.question == *question) else {
            return Err(error);
        };
        let Some(outcome) = asked.outcome else { return Err(error) };
        match answer.key.clone().filter(|_| asked.key == answer.key) {
            Some(key) => same_or_reused(key, question_differs(asked, answer)),
            None => Err(Refusal::QuestionSettled { question: question.clone(), outcome }.into()),
        }
    }
}

/// Whether the disk refused the request. An earlier one with the same key may be in the log.
fn is_for_the_disk(error: &RequestError) -> bool {
    matches!(error, RequestError::Degraded(_) | RequestError::NotDurableYet(_))
}

fn same_or_reused(key: String, differs: Option<String>) -> Result<(), RequestError> {
    differs.map_or(Ok(()), |differs| Err(RequestError::KeyReused { key, differs }))
}

/// The first difference to the answer that had this key first.
fn approval_differs(state: &State, first: &Approval, answer: &ResolveApproval) -> Option<String> {
    let ResolveApproval { outcome, option, message, stop, key: _ } = answer;
    let option = option.clone().or_else(|| option_for(&first.options, *outcome));
    let stops = *stop && *outcome == ApprovalOutcome::Reject;
    let turn = state.turns.iter().find(|turn| Some(&turn.turn) == first.turn.as_ref());
    if first.outcome != Some(*outcome) {
        Some(format!("outcome {}", first.outcome.map_or("none", |outcome| outcome.as_str())))
    } else if first.option != option {
        Some(named("option", first.option.as_deref()))
    } else if first.message != *message {
        Some("another message".to_owned())
    } else if stops && turn.is_some_and(|turn| turn.cancelling.is_none()) {
        // The log does not have `stop`, only that the turn was cancelled, perhaps by another request. So a
        // repeat without `stop` counts as the same.
        Some("no stop".to_owned())
    } else {
        None
    }
}

/// The first difference to the answer that had this key first.
fn question_differs(first: &Asked, answer: &AnswerQuestion) -> Option<String> {
    if first.outcome != Some(answer.outcome) {
        Some(format!("outcome {}", first.outcome.map_or("none", |outcome| outcome.as_str())))
    } else if first.answers != answer.answers {
        Some("other answers".to_owned())
    } else {
        None
    }
}
