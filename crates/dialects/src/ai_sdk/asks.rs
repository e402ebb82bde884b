//! The agent waits for a person. An approval is a request at its call. A question is a call that the page
//! answers with an output, and so is an approval for clients that have no approvals.

use super::calls::{self, Executed, failed_chunk, output_chunk};
use super::chunks::put;
use super::entries::ShownIn;
use super::profile::Profile;
use crate::dialect::FrameSink;
use serde_json::{Value, json};
use turnstream_model::event::{ApprovalOutcome, QuestionOutcome};
use turnstream_model::fold::{Approval, Asked, Item};

/// The name of the call that stands for a question.
pub const QUESTION_TOOL: &str = "ask_user";
/// The name of the call that stands for an approval.
pub const APPROVAL_TOOL: &str = "approve";

/// Asks for the approval of a call that is shown.
pub(super) fn request(
    out: &mut impl FrameSink,
    item: &Item,
    asked: &Approval,
    shown_in: ShownIn,
    profile: Profile,
) {
    match shown_in {
        ShownIn::LastStep => {
            calls::input_available(out, item, asked.tool.as_deref(), Executed::AfterApproval, profile);
        }
        // Its input would make a second part.
        ShownIn::EarlierStep => {}
    }
    request_chunk(out, item.id.as_str(), asked);
}

fn request_chunk(out: &mut impl FrameSink, call: &str, asked: &Approval) {
    put(out, &json!({"type": "tool-approval-request", "approvalId": asked.approval, "toolCallId": call}));
}

/// How an approval at a call was settled. Only the newest clients have a word for it; others see what the
/// call does next.
pub(super) fn response(out: &mut impl FrameSink, asked: &Approval, profile: Profile) {
    let Some(outcome) = asked.outcome.filter(|_| profile.is_newest()) else { return };
    let reason = asked.message.clone().or_else(|| match outcome {
        ApprovalOutcome::AllowOnce | ApprovalOutcome::AllowAlways | ApprovalOutcome::Reject => None,
        ApprovalOutcome::Cancelled | ApprovalOutcome::Expired | ApprovalOutcome::Lost => {
            Some(outcome.as_str().to_owned())
        }
    });
    let mut chunk = json!({
        "type": "tool-approval-response",
        "approvalId": asked.approval,
        "approved": is_allowed(outcome),
    });
    if let Some(reason) = reason {
        chunk["reason"] = json!(reason);
    }
    put(out, &chunk);
}

fn is_allowed(outcome: ApprovalOutcome) -> bool {
    match outcome {
        ApprovalOutcome::AllowOnce | ApprovalOutcome::AllowAlways => true,
        ApprovalOutcome::Reject
        | ApprovalOutcome::Cancelled
        | ApprovalOutcome::Expired
        | ApprovalOutcome::Lost => false,
    }
}

/// An approval as a call of its own, with its outcome if it has one.
pub(super) fn approval(out: &mut impl FrameSink, asked: &Approval, profile: Profile) {
    let id = asked.approval.as_str();
    let tool = asked.tool.as_deref();
    let input = tool.and_then(|tool| tool.input.clone()).unwrap_or_else(|| json!({}));
    if profile.has_approvals() {
        put(out, &client_call(id, &calls::name(tool), &input));
        request_chunk(out, id, asked);
    } else {
        let options = if asked.options.is_empty() { Value::Null } else { json!(asked.options) };
        let title = tool.and_then(|tool| tool.title.clone());
        let input = json!({
            "toolCallId": asked.item, "toolName": calls::name(tool), "title": title, "input": input,
            "options": options,
        });
        put(out, &client_call(id, APPROVAL_TOOL, &input));
    }
    approval_outcome(out, asked, profile);
}

/// The outcome of an approval that is a call of its own.
pub(super) fn approval_outcome(out: &mut impl FrameSink, asked: &Approval, profile: Profile) {
    let Some(outcome) = asked.outcome else { return };
    let id = asked.approval.as_str();
    if profile.has_approvals() {
        response(out, asked, profile);
        if outcome == ApprovalOutcome::Reject {
            put(out, &json!({"type": "tool-output-denied", "toolCallId": id}));
            return;
        }
    }
    let output =
        json!({"approved": is_allowed(outcome), "outcome": outcome.as_str(), "reason": asked.message});
    put(out, &output_chunk(id, output));
}

/// A question, with its answers if it has them.
pub(super) fn question(out: &mut impl FrameSink, asked: &Asked) {
    let input = json!({"questions": asked.questions, "toolCallId": asked.item});
    put(out, &client_call(asked.question.as_str(), QUESTION_TOOL, &input));
    question_outcome(out, asked);
}

/// How a question was settled.
pub(super) fn question_outcome(out: &mut impl FrameSink, asked: &Asked) {
    let Some(outcome) = asked.outcome else { return };
    let id = asked.question.as_str();
    let chunk = match outcome {
        QuestionOutcome::Answered => output_chunk(id, json!({"answers": asked.answers})),
        QuestionOutcome::Rejected
        | QuestionOutcome::Cancelled
        | QuestionOutcome::Expired
        | QuestionOutcome::Lost => failed_chunk(id, &format!("the question was {}", outcome.as_str())),
    };
    put(out, &chunk);
}

/// A call that the page answers.
fn client_call(id: &str, name: &str, input: &Value) -> Value {
    json!({
        "type": "tool-input-available",
        "toolCallId": id,
        "toolName": name,
        "input": input,
        "dynamic": true,
        "providerExecuted": false,
    })
}
