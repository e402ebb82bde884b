//! Runs: which one is open, how it ends, and what the agent asks of a person.

use super::frames::object;
use serde_json::{Map, Value, json};
use turnstream_model::event::{ApprovalOption, OptionKind, Outcome, Question, Usage};
use turnstream_model::fold::{Approval, Asked, Session, State, Turn};

/// The thread of a session: the client's own key, else our id.
pub fn thread_of(session: &Session) -> &str {
    let id = session.id.as_ref().map(|id| id.as_str());
    session.key.as_deref().or(id).unwrap_or_default()
}

/// The id of the run that is open, or was last, in this turn. The first run has the key of the turn's first
/// prompt. Each settled ask begins another one.
pub fn run_of(turn: &Turn, state: &State) -> String {
    let approvals = state.approvals.iter().filter(|asked| !asked.is_open()).map(|asked| &asked.turn);
    let questions = state.questions.iter().filter(|asked| !asked.is_open()).map(|asked| &asked.turn);
    let settled = approvals.chain(questions).filter(|asked| asked.as_ref() == Some(&turn.turn)).count();
    if settled > 0 {
        return format!("{}.{settled}", turn.turn);
    }
    let first = turn.prompts.first();
    let known = state.prompts.iter().chain(&state.queue).find(|prompt| Some(&prompt.prompt) == first);
    let key = known.and_then(|prompt| prompt.key.clone());
    key.unwrap_or_else(|| turn.turn.to_string())
}

/// What the open turn waits for, as interrupts. Empty when it waits for nobody.
pub fn interrupts(state: &State) -> Vec<Value> {
    let Some(turn) = state.open_turn() else { return Vec::new() };
    let is_its = |asked: &Option<_>| asked.as_ref() == Some(&turn.turn);
    let approvals = state.approvals.iter().filter(|asked| asked.is_open() && is_its(&asked.turn));
    let questions = state.questions.iter().filter(|asked| asked.is_open() && is_its(&asked.turn));
    approvals.map(of_approval).chain(questions.map(of_question)).collect()
}

fn of_approval(asked: &Approval) -> Value {
    let tool = asked.tool.as_deref();
    let title = tool.and_then(|tool| tool.title.as_deref().or(tool.name.as_deref()));
    let mut outcomes: Vec<&str> = asked.options.iter().map(outcome_of).collect();
    if outcomes.is_empty() {
        outcomes = vec!["allow_once", "reject"];
    }
    outcomes.dedup();
    let input = tool.and_then(|tool| tool.input.clone());
    object(json!({
        "id": asked.approval,
        "reason": "tool_call",
        "message": title,
        "toolCallId": asked.item,
        "responseSchema": {
            "type": "object",
            "properties": {"outcome": {"type": "string", "enum": outcomes}, "message": {"type": "string"}},
            "required": ["outcome"],
        },
        "metadata": object(json!({"options": asked.options, "input": input})),
    }))
}

fn outcome_of(option: &ApprovalOption) -> &'static str {
    match option.kind {
        OptionKind::AllowOnce => "allow_once",
        OptionKind::AllowAlways => "allow_always",
        OptionKind::RejectOnce | OptionKind::RejectAlways => "reject",
    }
}

fn of_question(asked: &Asked) -> Value {
    let text: Vec<&str> = asked.questions.iter().map(|question| question.text.as_str()).collect();
    let answers: Map<String, Value> =
        asked.questions.iter().map(|question| (question.id.clone(), schema(question))).collect();
    let required: Vec<&str> = asked.questions.iter().map(|question| question.id.as_str()).collect();
    object(json!({
        "id": asked.question,
        "reason": "input_required",
        "message": text.join("\n"),
        "toolCallId": asked.item,
        "responseSchema": {"type": "object", "properties": answers, "required": required},
        "metadata": {"questions": asked.questions},
    }))
}

fn schema(question: &Question) -> Value {
    let labels: Vec<&str> = question.options.iter().map(|choice| choice.label.as_str()).collect();
    let mut one = json!({"type": "string"});
    if !labels.is_empty() && !question.custom {
        one["enum"] = json!(labels);
    }
    let mut answer = json!({"type": "array", "items": one, "description": question.text});
    if !question.multiple {
        answer["maxItems"] = json!(1);
    }
    answer
}

/// The event that ends the last run of a turn, and its members besides the ids.
pub(super) fn ending(turn: &Turn) -> (&'static str, Value) {
    let usage = turn.usage.as_ref().map(|usage| json!([tokens(usage, turn)]));
    let stop = turn.stop_reason.map(|reason| json!({"turnstream": {"stop_reason": reason}}));
    match turn.outcome {
        Some(Outcome::Completed) | None => {
            ("RUN_FINISHED", json!({"outcome": {"type": "success"}, "usage": usage, "metadata": stop}))
        }
        Some(Outcome::Cancelled) => {
            ("RUN_FINISHED", json!({"outcome": {"type": "cancelled"}, "usage": usage}))
        }
        Some(outcome @ (Outcome::Failed | Outcome::Lost)) => {
            let error = turn.error.as_ref();
            let message = error.map_or("It is not known how the turn ended", |error| error.message.as_str());
            let code = match outcome {
                Outcome::Lost => "lost",
                Outcome::Completed | Outcome::Cancelled | Outcome::Failed => {
                    error.map_or("failed", |error| error.class.as_str())
                }
            };
            ("RUN_ERROR", json!({"message": message, "code": code, "usage": usage}))
        }
    }
}

fn tokens(usage: &Usage, turn: &Turn) -> Value {
    let last = turn.attempts.iter().rev().find_map(|attempt| attempt.model.as_deref());
    object(json!({
        "model": last.or(turn.model.as_deref()),
        "inputTokens": usage.input,
        "outputTokens": usage.output,
        "reasoningTokens": usage.reasoning,
        "cachedInputTokens": usage.cache_read,
        "cacheWriteInputTokens": usage.cache_write,
    }))
}
