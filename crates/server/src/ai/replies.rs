//! Answers of a person. They come in the next message: the assistant's own, with its calls answered.

use super::answer::Failure;
use serde_json::{Map, Value};
use turnstream_dialects::ai_sdk::{APPROVAL_TOOL, QUESTION_TOOL};
use turnstream_gateway::{AnswerQuestion, Gateway, RequestError, ResolveApproval};
use turnstream_model::event::{ApprovalOutcome, QuestionOutcome};
use turnstream_model::id::{ApprovalId, QuestionId, SessionId};
use turnstream_model::machine::Refusal;

/// One answer.
#[derive(Debug, PartialEq)]
enum Reply {
    Approval(ApprovalId, ResolveApproval),
    Question(QuestionId, AnswerQuestion),
}

/// Passes the answers in a message on. What was answered elsewhere stays as it is: the stream shows it.
pub(super) async fn pass_on(gateway: &Gateway, session: &SessionId, message: &Value) -> Result<(), Failure> {
    for part in message["parts"].as_array().into_iter().flatten() {
        let passed = match reply(part) {
            None => continue,
            Some(Reply::Approval(id, answer)) => gateway.resolve(session, &id, answer).await,
            Some(Reply::Question(id, answer)) => gateway.answer(session, &id, answer).await,
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

/// The answer in a part, if it has one.
fn reply(part: &Value) -> Option<Reply> {
    let state = part["state"].as_str()?;
    if state == "approval-responded" {
        let approval = &part["approval"];
        let outcome = outcome(approval["approved"].as_bool()?, &Value::Null);
        return Some(approve(approval["id"].as_str()?, outcome, &approval["reason"]));
    }
    // What was settled here is marked as executed by the agent.
    if part["providerExecuted"] == true {
        return None;
    }
    let (id, output) = (part["toolCallId"].as_str()?, &part["output"]);
    match (part["toolName"].as_str()?, state) {
        (APPROVAL_TOOL, "output-available") => {
            let approved = output.as_bool().or(output["approved"].as_bool()).unwrap_or(false);
            Some(approve(id, outcome(approved, &output["outcome"]), &output["reason"]))
        }
        (APPROVAL_TOOL, "output-error") => Some(approve(id, ApprovalOutcome::Reject, &part["errorText"])),
        (QUESTION_TOOL, "output-available") => {
            let (outcome, answers) = (QuestionOutcome::Answered, Some(answers(part)));
            Some(Reply::Question(QuestionId::from(id), AnswerQuestion { outcome, answers, key: None }))
        }
        (QUESTION_TOOL, "output-error") => {
            let answer = AnswerQuestion { outcome: QuestionOutcome::Rejected, answers: None, key: None };
            Some(Reply::Question(QuestionId::from(id), answer))
        }
        _ => None,
    }
}

fn approve(id: &str, outcome: ApprovalOutcome, reason: &Value) -> Reply {
    let message = reason.as_str().filter(|reason| !reason.is_empty()).map(str::to_owned);
    let answer = ResolveApproval { outcome, option: None, message, stop: false, key: None };
    Reply::Approval(ApprovalId::from(id), answer)
}

fn outcome(approved: bool, named: &Value) -> ApprovalOutcome {
    match (approved, named.as_str()) {
        (true, Some("allow_always")) => ApprovalOutcome::AllowAlways,
        (true, _) => ApprovalOutcome::AllowOnce,
        (false, _) => ApprovalOutcome::Reject,
    }
}

/// The answers by the ids of the questions. A bare text answers the only question.
fn answers(part: &Value) -> Map<String, Value> {
    let output = &part["output"];
    if let Some(answers) = output["answers"].as_object() {
        return answers.clone();
    }
    let first = part["input"]["questions"][0]["id"].as_str().unwrap_or("0");
    let labels = match output {
        Value::Array(labels) => labels.clone(),
        other => vec![other.clone()],
    };
    Map::from_iter([(first.to_owned(), Value::Array(labels))])
}

#[cfg(test)]
mod tests {
    use super::{Reply, reply};
    use serde_json::{Value, json};

    /// What a part answers, in one line.
    fn said(part: Value) -> Option<String> {
        Some(match reply(&part)? {
            Reply::Approval(id, answer) => format!("{id} {} {:?}", answer.outcome.as_str(), answer.message),
            Reply::Question(id, answer) => {
                format!("{id} {} {}", answer.outcome.as_str(), json!(answer.answers))
            }
        })
    }

    #[test]
    fn an_approval_is_answered_at_its_call_or_as_a_call_of_its_own() {
        let at_call = |approved, reason| {
            json!({"type": "dynamic-tool", "toolCallId": "i1", "state": "approval-responded",
                "approval": {"id": "q1", "approved": approved, "reason": reason}})
        };
        assert_eq!(said(at_call(true, Value::Null)).unwrap(), "q1 allow_once None");
        assert_eq!(said(at_call(false, json!("no"))).unwrap(), "q1 reject Some(\"no\")");
        let own = |output: Value| {
            json!({"type": "dynamic-tool", "toolCallId": "q1", "toolName": "approve", "state": "output-available",
                "providerExecuted": false, "output": output})
        };
        assert_eq!(said(own(json!(true))).unwrap(), "q1 allow_once None");
        assert_eq!(said(own(json!({"approved": false}))).unwrap(), "q1 reject None");
        let always = json!({"approved": true, "outcome": "allow_always"});
        assert_eq!(said(own(always)).unwrap(), "q1 allow_always None");
    }

    #[test]
    fn a_question_is_answered_by_ids_or_by_a_bare_text() {
        let part = |state, output: Value| {
            json!({"type": "dynamic-tool", "toolCallId": "q2", "toolName": "ask_user", "state": state,
                "input": {"questions": [{"id": "db"}]}, "output": output})
        };
        let by_id = part("output-available", json!({"answers": {"db": ["PG"]}}));
        assert_eq!(said(by_id).unwrap(), r#"q2 answered {"db":["PG"]}"#);
        assert_eq!(said(part("output-available", json!("PG"))).unwrap(), r#"q2 answered {"db":["PG"]}"#);
        assert_eq!(said(part("output-error", Value::Null)).unwrap(), "q2 rejected null");
    }

    #[test]
    fn what_was_settled_before_or_waits_still_answers_nothing() {
        let waits = json!({"toolCallId": "q2", "toolName": "ask_user", "state": "input-available"});
        let settled = json!({"toolCallId": "q2", "toolName": "ask_user", "state": "output-available",
            "output": {"answers": {}}, "providerExecuted": true});
        let of_agent =
            json!({"toolCallId": "i1", "toolName": "bash", "state": "output-available", "output": 1});
        assert_eq!([waits, settled, of_agent, json!({"type": "text"})].map(said), [None, None, None, None]);
    }
}
