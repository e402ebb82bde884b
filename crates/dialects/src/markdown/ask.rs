//! Approvals and questions, and how they were settled.

use super::text::inline;
use serde_json::Value;
use turnstream_model::event::{ApprovalOutcome, By, QuestionOutcome};
use turnstream_model::fold::{Approval, Asked};

/// One sentence in a quotation.
pub(super) fn approval(approval: &Approval) -> String {
    let tool = approval.tool.as_ref();
    let title = tool.and_then(|tool| tool.title.as_deref().or(tool.name.as_deref()));
    let title = title.map_or_else(String::new, |title| format!(" for {}", inline(title)));
    let outcome = match approval.outcome {
        None => "nobody has answered",
        Some(ApprovalOutcome::AllowOnce) => "**allowed once**",
        Some(ApprovalOutcome::AllowAlways) => "**allowed from now on**",
        Some(ApprovalOutcome::Reject) => "**refused**",
        Some(ApprovalOutcome::Cancelled) => "cancelled with the turn",
        Some(ApprovalOutcome::Expired) => "nobody answered in time",
        Some(ApprovalOutcome::Lost) => "the answer is not known",
    };
    let by = match approval.by {
        Some(By::Client) => " by a person",
        Some(By::Policy) => " by the session's permissions",
        Some(By::Agent) => " at the agent itself",
        Some(By::Gateway) | None => "",
    };
    let message = approval.message.as_deref().filter(|message| !message.trim().is_empty());
    let message = message.map_or_else(String::new, |message| format!(": “{}”", inline(message)));
    format!("> Permission{title}: {outcome}{by}{message}")
}

/// The questions with their answers, in a quotation.
pub(super) fn question(asked: &Asked) -> String {
    let mut lines = Vec::new();
    for question in &asked.questions {
        lines.push(format!("> **Question:** {}", inline(&question.text)));
        let answers = asked.answers.as_ref().and_then(|answers| answers.get(&question.id)).map(words);
        let answer = match (asked.outcome, answers) {
            (Some(QuestionOutcome::Answered), Some(answers)) => format!("**Answer:** {answers}"),
            (Some(QuestionOutcome::Answered), None) => "*answered, without words*".to_owned(),
            (Some(QuestionOutcome::Rejected), _) => "*not answered: the question was refused*".to_owned(),
            (Some(QuestionOutcome::Cancelled), _) => "*cancelled with the turn*".to_owned(),
            (Some(QuestionOutcome::Expired), _) => "*nobody answered in time*".to_owned(),
            (Some(QuestionOutcome::Lost), _) => "*the answer is not known*".to_owned(),
            (None, _) => "*nobody has answered*".to_owned(),
        };
        lines.push(">".to_owned());
        lines.push(format!("> {answer}"));
        lines.push(">".to_owned());
    }
    lines.pop();
    lines.join("\n")
}

/// The given answers, one or several.
fn words(answers: &Value) -> String {
    let word = |value: &Value| inline(value.as_str().unwrap_or(&value.to_string()));
    match answers {
        Value::Array(answers) => answers.iter().map(word).collect::<Vec<_>>().join(", "),
        one => word(one),
    }
}
