//! Asks and questions, in the words of the model.

use crate::opencode::event::{PermissionAsk, QuestionAsk};
use serde_json::{Map, Value};
use turnstream_model::event::{ApprovalOption, ApprovalOutcome, Choice, OptionKind, Question, Tool};

/// What may be answered to a permission. The ids are what opencode takes as the reply.
pub(super) fn options(ask: &PermissionAsk) -> Vec<ApprovalOption> {
    let option =
        |id: &str, kind, name: String| ApprovalOption { id: id.to_owned(), kind, name, extra: Map::new() };
    let mut options = vec![option("once", OptionKind::AllowOnce, "Allow once".to_owned())];
    if !ask.always.is_empty() {
        let name = format!("Always allow {}", ask.always.join(", "));
        options.push(option("always", OptionKind::AllowAlways, name));
    }
    options.push(option("reject", OptionKind::RejectOnce, "Reject".to_owned()));
    options
}

/// The call as the ask shows it.
pub(super) fn shown(ask: &PermissionAsk) -> Tool {
    let title = match ask.patterns.is_empty() {
        true => ask.permission.clone(),
        false => format!("{}: {}", ask.permission, ask.patterns.join(", ")),
    };
    Tool {
        name: Some(ask.permission.clone()),
        kind: Some(crate::opencode::tools::kind(&ask.permission)),
        title: Some(title),
        input: (!ask.metadata.is_empty()).then(|| Value::Object(ask.metadata.clone())),
        ..Tool::default()
    }
}

/// What a reply means.
pub(super) fn outcome(reply: &str) -> ApprovalOutcome {
    match reply {
        "once" => ApprovalOutcome::AllowOnce,
        "always" => ApprovalOutcome::AllowAlways,
        _ => ApprovalOutcome::Reject,
    }
}

/// The questions; they are answered by their place.
pub(super) fn questions(ask: &QuestionAsk) -> Vec<Question> {
    let question = |(place, info): (usize, &crate::opencode::event::QuestionInfo)| {
        let mut extra = Map::new();
        if !info.header.is_empty() {
            extra.insert("header".to_owned(), Value::from(info.header.as_str()));
        }
        let choice = |option: &crate::opencode::event::QuestionOption| {
            let mut extra = Map::new();
            if !option.description.is_empty() {
                extra.insert("description".to_owned(), Value::from(option.description.as_str()));
            }
            Choice { label: option.label.clone(), extra }
        };
        Question {
            id: place.to_string(),
            text: info.question.clone(),
            options: info.options.iter().map(choice).collect(),
            multiple: info.multiple,
            custom: info.custom.unwrap_or(true),
            extra,
        }
    };
    ask.questions.iter().enumerate().map(question).collect()
}

/// The answers, by the place of their question.
pub(super) fn answers(given: &[Vec<String>]) -> Map<String, Value> {
    let answer = |(place, labels): (usize, &Vec<String>)| (place.to_string(), Value::from(labels.clone()));
    given.iter().enumerate().map(answer).collect()
}
