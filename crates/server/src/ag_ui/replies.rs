//! Answers to interrupts.

use super::input::{Resume, ResumeStatus};
use crate::problem::{Kind, Problem};
use serde_json::{Map, Value, json};
use turnstream_gateway::{AnswerQuestion, Gateway, RequestError, ResolveApproval};
use turnstream_model::event::{ApprovalOutcome, QuestionOutcome};
use turnstream_model::fold::{Asked, State};
use turnstream_model::id::{ApprovalId, QuestionId, SessionId, TurnId};
use turnstream_model::machine::Refusal;

/// The turn that these answers are for, also if it has ended meanwhile.
pub(super) fn turn_of(state: &State, answers: &[Resume]) -> Option<TurnId> {
    let approvals = state.approvals.iter().map(|asked| (asked.approval.as_str(), &asked.turn));
    let questions = state.questions.iter().map(|asked| (asked.question.as_str(), &asked.turn));
    let mut asked = approvals.chain(questions);
    asked.find(|(id, _)| answers.iter().any(|answer| answer.interrupt_id == *id))?.1.clone()
}

/// The turn that a run has answered. The key of each answer begins with the id of the run.
pub(super) fn turn_answered_by(state: &State, run: &str) -> Option<TurnId> {
    let approvals = state.approvals.iter().map(|asked| (asked.approval.as_str(), &asked.key, &asked.turn));
    let questions = state.questions.iter().map(|asked| (asked.question.as_str(), &asked.key, &asked.turn));
    let is_its = |(id, key, _): &(&str, &Option<String>, &Option<TurnId>)| {
        key.as_deref().is_some_and(|key| key == key_of(run, id))
    };
    approvals.chain(questions).find(is_its)?.2.clone()
}

/// The key of a run's answer to this interrupt.
fn key_of(run: &str, interrupt: &str) -> String {
    format!("{run}/{interrupt}")
}

/// Passes the answers on. What was answered elsewhere stays as it is: the stream shows it.
pub(super) async fn pass_on(
    gateway: &Gateway,
    session: &SessionId,
    state: &State,
    answers: Vec<Resume>,
    run: &str,
) -> Result<(), Problem> {
    for Resume { interrupt_id, status, payload } in answers {
        let question = state.questions.iter().find(|asked| asked.question.as_str() == interrupt_id);
        let passed = match question {
            Some(asked) => {
                let id = QuestionId::from(interrupt_id.as_str());
                gateway.answer(session, &id, answer(asked, status, &payload, run)).await
            }
            None => {
                let id = ApprovalId::from(interrupt_id.as_str());
                let (outcome, message) = decision(status, &payload)?;
                let key = Some(key_of(run, &interrupt_id));
                let resolve = ResolveApproval { outcome, option: None, message, stop: false, key };
                gateway.resolve(session, &id, resolve).await
            }
        };
        match passed {
            Ok(())
            | Err(RequestError::Refused(Refusal::ApprovalSettled { .. } | Refusal::QuestionSettled { .. })) =>
                {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The decision about an approval: `{"outcome": …}`, one of its words alone, or `{"approved": true}`.
fn decision(status: ResumeStatus, payload: &Value) -> Result<(ApprovalOutcome, Option<String>), Problem> {
    let message = payload["message"].as_str().or(payload["reason"].as_str()).map(str::to_owned);
    if status == ResumeStatus::Cancelled {
        return Ok((ApprovalOutcome::Reject, message));
    }
    let approved = payload.as_bool().or(payload["approved"].as_bool());
    let word = payload.as_str().or(payload["outcome"].as_str());
    let outcome = match (word, approved) {
        (Some("allow_once"), _) | (None, Some(true)) => ApprovalOutcome::AllowOnce,
        (Some("allow_always"), _) => ApprovalOutcome::AllowAlways,
        (Some("reject"), _) | (None, Some(false)) => ApprovalOutcome::Reject,
        (Some(_), _) | (None, None) => {
            let detail = format!(
                r#"the payload {payload} is no decision; send {{"outcome":"allow_once"}}, "allow_always" or "reject""#
            );
            return Err(Problem::new(Kind::BadAnswer, detail));
        }
    };
    Ok((outcome, message))
}

/// The answers to a question, by the ids of its parts. A bare text answers the only one.
fn answer(asked: &Asked, status: ResumeStatus, payload: &Value, run: &str) -> AnswerQuestion {
    let key = Some(key_of(run, asked.question.as_str()));
    if status == ResumeStatus::Cancelled {
        return AnswerQuestion { outcome: QuestionOutcome::Rejected, answers: None, key };
    }
    let list = |value: &Value| match value {
        Value::Array(_) => value.clone(),
        other => json!([other]),
    };
    let given = payload["answers"].as_object().or(payload.as_object());
    let answers: Map<String, Value> = match (given, asked.questions.first()) {
        (Some(given), _) => given.iter().map(|(id, value)| (id.clone(), list(value))).collect(),
        (None, Some(only)) => Map::from_iter([(only.id.clone(), list(payload))]),
        (None, None) => Map::new(),
    };
    AnswerQuestion { outcome: QuestionOutcome::Answered, answers: Some(answers), key }
}

#[cfg(test)]
mod tests {
    use super::{ResumeStatus, decision, turn_answered_by};
    use serde_json::json;
    use turnstream_model::event::ApprovalOutcome::{AllowAlways, AllowOnce, Reject};
    use turnstream_model::event::Event;
    use turnstream_model::fold::Fold;
    use turnstream_model::id::TurnId;

    #[test]
    fn the_log_tells_which_turn_a_run_has_answered() {
        let log = [
            r#"{"seq":1,"time":1,"type":"session.created","session":"ses_1","agent":"demo","cwd":"/srv"}"#,
            r#"{"seq":2,"time":1,"type":"turn.started","turn":"t1","origin":"agent","prompts":[]}"#,
            r#"{"seq":3,"time":1,"type":"approval.requested","turn":"t1","approval":"q1","tool":{},"options":[]}"#,
            r#"{"seq":4,"time":1,"type":"approval.resolved","turn":"t1","approval":"q1","outcome":"allow_once","by":"client","key":"r2/q1"}"#,
        ];
        let log: Vec<Event> = log.iter().map(|line| Event::from_json(line).unwrap()).collect();
        let fold = Fold::of(&log);
        assert_eq!(turn_answered_by(fold.state(), "r2"), Some(TurnId::from("t1")));
        assert_eq!(turn_answered_by(fold.state(), "r"), None);
    }

    #[test]
    fn a_decision_has_several_forms() {
        let resolved = |payload| decision(ResumeStatus::Resolved, &payload).unwrap();
        assert_eq!(resolved(json!({"outcome": "allow_always"})), (AllowAlways, None));
        assert_eq!(resolved(json!("allow_once")), (AllowOnce, None));
        assert_eq!(resolved(json!({"approved": true})), (AllowOnce, None));
        assert_eq!(resolved(json!({"approved": false, "reason": "no"})), (Reject, Some("no".into())));
        assert!(decision(ResumeStatus::Resolved, &json!({})).is_err());
        assert_eq!(decision(ResumeStatus::Cancelled, &json!(null)).unwrap(), (Reject, None));
    }
}
