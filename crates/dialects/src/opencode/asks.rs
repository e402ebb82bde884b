//! Permissions and questions that wait for a person.

use super::changes::{self, Edit};
use super::ids::Names;
use super::parts::call_id;
use super::place::{Place, item_of};
use super::tools::Call;
use serde_json::{Value, json};
use turnstream_model::event::{ApprovalOutcome, OptionKind, Question};
use turnstream_model::fold::{Approval, Asked, State};
use turnstream_model::id::ItemId;

/// The session and the call that an ask belongs to.
fn asked_by(item: Option<&ItemId>, state: &State, names: &Names) -> (String, Option<Value>) {
    let item = item.and_then(|item| item_of(item, state));
    let place = item.and_then(|item| Some((Place::of(item, state)?, item)));
    match place {
        Some((place, item)) => {
            let tool = json!({"messageID": place.message(names), "callID": call_id(item)});
            (place.session(names), Some(tool))
        }
        None => (names.session(), None),
    }
}

/// A permission request.
pub(super) fn permission(approval: &Approval, state: &State, names: &Names) -> Value {
    let item = approval.item.as_ref().and_then(|item| item_of(item, state));
    // The call itself, and what the ask said about it.
    let mut tool = item.and_then(|item| item.tool.as_deref()).cloned().unwrap_or_default();
    if let Some(asked) = &approval.tool {
        tool.merge(asked);
    }
    let call = Call::of(&tool, &state.session.cwd);
    let edits = call.edits(&tool);
    let (permission, patterns) = call.permission(&edits);
    let can_always = approval.options.iter().any(|option| option.kind == OptionKind::AllowAlways);
    let always = if can_always { patterns.clone() } else { Vec::new() };
    let (session, by) = asked_by(approval.item.as_ref(), state, names);
    let mut request = json!({
        "id": names.permission(&approval.approval),
        "sessionID": session,
        "permission": permission,
        "patterns": patterns,
        "metadata": metadata(&call, &edits),
        "always": always,
    });
    if let Some(by) = by {
        request["tool"] = by;
    }
    request
}

/// What a client shows of the call: the arguments, and the changes of an edit.
fn metadata(call: &Call, edits: &[Edit]) -> Value {
    let mut metadata = call.input.clone();
    if let Some(file) = call.input.get("filePath") {
        metadata.insert("filepath".to_owned(), file.clone());
    }
    if edits.len() > 1 {
        let paths: Vec<&str> = edits.iter().map(|edit| edit.path.as_str()).collect();
        metadata.insert("filepath".to_owned(), json!(paths.join(", ")));
        metadata.insert("files".to_owned(), call.files(edits));
    }
    metadata.extend(changes::for_dialog(edits).map(|patch| ("diff".to_owned(), json!(patch))));
    Value::Object(metadata)
}

/// opencode's word for the answer to a permission request.
pub(super) fn reply(outcome: ApprovalOutcome) -> &'static str {
    match outcome {
        ApprovalOutcome::AllowOnce => "once",
        ApprovalOutcome::AllowAlways => "always",
        ApprovalOutcome::Reject
        | ApprovalOutcome::Cancelled
        | ApprovalOutcome::Expired
        | ApprovalOutcome::Lost => "reject",
    }
}

/// A question.
pub(super) fn question(asked: &Asked, state: &State, names: &Names) -> Value {
    let (session, by) = asked_by(asked.item.as_ref(), state, names);
    let questions: Vec<Value> = asked.questions.iter().map(one).collect();
    let mut request =
        json!({"id": names.question(&asked.question), "sessionID": session, "questions": questions});
    if let Some(by) = by {
        request["tool"] = by;
    }
    request
}

fn one(question: &Question) -> Value {
    let header = question.extra.get("header").and_then(Value::as_str).unwrap_or(&question.text);
    let header: String = header.chars().take(30).collect();
    let options = question.options.iter().map(|choice| {
        let description = choice.extra.get("description").and_then(Value::as_str).unwrap_or_default();
        json!({"label": choice.label, "description": description})
    });
    json!({
        "question": question.text,
        "header": header,
        "options": options.collect::<Vec<_>>(),
        "multiple": question.multiple,
        "custom": question.custom,
    })
}

/// The answers in the order of the questions.
pub(super) fn answers(asked: &Asked) -> Vec<Vec<String>> {
    let answers = asked.answers.as_ref();
    let answer = |question: &Question| {
        let given = answers.and_then(|answers| answers.get(&question.id));
        match given {
            Some(Value::Array(labels)) => {
                labels.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            Some(Value::String(label)) => vec![label.clone()],
            None | Some(_) => Vec::new(),
        }
    };
    asked.questions.iter().map(answer).collect()
}
