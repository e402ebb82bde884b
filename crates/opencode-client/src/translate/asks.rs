//! Permissions and questions.

use super::{Translated, Translator};
use crate::event::{Event, Kind, PermissionAsk, QuestionAsk};
use serde_json::{Map, Value};
use turnstream_model::event::{
    ApprovalOption, ApprovalOutcome, Choice, OptionKind, Question, QuestionOutcome, Tool,
};
use turnstream_model::id::Key;
use turnstream_model::signal::Signal;

/// The options of a permission. Their ids are the replies that opencode accepts.
fn options(ask: &PermissionAsk) -> Vec<ApprovalOption> {
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

/// The tool call as the permission shows it.
fn shown(ask: &PermissionAsk) -> Tool {
    let title = match ask.patterns.is_empty() {
        true => ask.permission.clone(),
        false => format!("{}: {}", ask.permission, ask.patterns.join(", ")),
    };
    Tool {
        name: Some(ask.permission.clone()),
        kind: Some(crate::tools::kind(&ask.permission)),
        title: Some(title),
        input: (!ask.metadata.is_empty()).then(|| Value::Object(ask.metadata.clone())),
        ..Tool::default()
    }
}

/// The outcome of a reply.
fn outcome(reply: &str) -> ApprovalOutcome {
    match reply {
        "once" => ApprovalOutcome::AllowOnce,
        "always" => ApprovalOutcome::AllowAlways,
        _ => ApprovalOutcome::Reject,
    }
}

/// The questions. Their ids are their indexes.
fn questions(ask: &QuestionAsk) -> Vec<Question> {
    let question = |(place, info): (usize, &crate::event::QuestionInfo)| {
        let mut extra = Map::new();
        if !info.header.is_empty() {
            extra.insert("header".to_owned(), Value::from(info.header.as_str()));
        }
        let choice = |option: &crate::event::QuestionOption| {
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

/// The answers, by the index of their question.
fn by_place(given: &[Vec<String>]) -> Map<String, Value> {
    let answer = |(place, labels): (usize, &Vec<String>)| (place.to_string(), Value::from(labels.clone()));
    given.iter().enumerate().map(answer).collect()
}

impl Translator {
    /// A permission or question was asked or settled.
    pub(super) fn ask(&mut self, event: &Event, child: Option<&str>, out: &mut Translated) {
        match &event.kind {
            Kind::PermissionAsked(ask) => {
                let key = Key::from(ask.id.as_str());
                let item = ask.tool.as_ref().and_then(|tool| self.thread(child)?.call(&tool.call));
                // The snapshot was ahead of the stream: the call is over, so the permission is settled.
                if item
                    .as_ref()
                    .is_some_and(|item| self.thread(child).is_some_and(|thread| thread.is_over(item)))
                {
                    return;
                }
                self.asks.insert(key.clone(), ask.session.clone());
                let (tool, options) = (Some(shown(ask)), options(ask));
                out.signals.push(Signal::Ask { key, item, tool, options });
            }
            Kind::PermissionReplied { request, reply } => {
                let key = Key::from(request.as_str());
                self.asks.remove(&key);
                self.refused |= outcome(reply) == ApprovalOutcome::Reject;
                out.signals.push(Signal::AskClosed { key, outcome: outcome(reply) });
            }
            Kind::QuestionAsked(ask) => {
                let key = Key::from(ask.id.as_str());
                let item = ask.tool.as_ref().and_then(|tool| self.thread(child)?.call(&tool.call));
                self.asks.insert(key.clone(), ask.session.clone());
                out.signals.push(Signal::Question { key, item, questions: questions(ask) });
            }
            Kind::QuestionReplied { request, answers } => {
                let key = Key::from(request.as_str());
                self.asks.remove(&key);
                let (outcome, answers) = (QuestionOutcome::Answered, Some(by_place(answers)));
                out.signals.push(Signal::QuestionClosed { key, outcome, answers });
            }
            Kind::QuestionRejected { request } => {
                let key = Key::from(request.as_str());
                self.asks.remove(&key);
                self.refused = true;
                let outcome = QuestionOutcome::Rejected;
                out.signals.push(Signal::QuestionClosed { key, outcome, answers: None });
            }
            _ => {}
        }
    }
}
