//! The beginning and the end of a turn. A clean end means success to clients, so only a completed turn has
//! one.

use super::chunks::{OURS, bare, put};
use super::messages::message_id;
use super::profile::Profile;
use crate::dialect::FrameSink;
use serde_json::{Map, Value, json};
use turnstream_model::event::{Outcome, StopReason};
use turnstream_model::fold::{State, Turn};

/// The first chunk of a turn. Its message id is always the same, so that a client that gets the turn again
/// replaces it.
pub(super) fn start(out: &mut impl FrameSink, state: &State, turn: &Turn) {
    let session = state.session.id.as_ref().map(turnstream_model::id::SessionId::as_str).unwrap_or_default();
    let ours = json!({"session": session, "turn": turn.turn, "agent": state.session.agent});
    put(
        out,
        &json!({
            "type": "start", "messageId": message_id(session, turn.turn.as_str()), "messageMetadata": {OURS: ours},
        }),
    );
}

/// The end of a turn.
pub(super) fn end(out: &mut impl FrameSink, state: &State, turn: &Turn, profile: Profile) {
    let Some(outcome) = turn.outcome else { return };
    // At the end of a response, version 5 sends the message again if the last step has answered calls of the
    // page, and no others. Newer versions know by `providerExecuted` that the answers have arrived.
    if !profile.has_approvals() && has_asks(state, turn) {
        bare(out, "start-step");
    }
    let metadata = json!({OURS: result(turn, outcome)});
    match outcome {
        Outcome::Completed => finish(out, finish_reason(turn.stop_reason), metadata),
        Outcome::Cancelled => {
            put(out, &json!({"type": "message-metadata", "messageMetadata": metadata}));
            match profile.is_newest() {
                true => put(out, &json!({"type": "abort", "reason": "cancelled"})),
                false => bare(out, "abort"),
            }
        }
        Outcome::Failed => {
            let error = turn.error.as_ref().map(|error| error.message.clone());
            error_end(out, &metadata, &error.unwrap_or_else(|| "the turn failed".to_owned()));
        }
        Outcome::Lost if profile.is_newest() => finish(out, "interrupted", metadata),
        Outcome::Lost => error_end(out, &metadata, "the turn was lost: nobody knows how it ended"),
    }
}

fn has_asks(state: &State, turn: &Turn) -> bool {
    let approvals = state.approvals.iter().map(|asked| asked.turn.as_ref());
    let questions = state.questions.iter().map(|asked| asked.turn.as_ref());
    approvals.chain(questions).any(|of| of == Some(&turn.turn))
}

/// The end of a response whose turn waits for a person.
pub(super) fn pause(out: &mut impl FrameSink) {
    bare(out, "finish-step");
    put(out, &json!({"type": "finish", "finishReason": "tool-calls"}));
}

/// The response to a prompt that was withdrawn before a turn took it.
pub fn withdrawn(out: &mut impl FrameSink) {
    put(out, &json!({"type": "error", "errorText": "the message was withdrawn before the agent got it"}));
}

fn finish(out: &mut impl FrameSink, reason: &str, metadata: Value) {
    bare(out, "finish-step");
    put(out, &json!({"type": "finish", "finishReason": reason, "messageMetadata": metadata}));
}

fn error_end(out: &mut impl FrameSink, metadata: &Value, text: &str) {
    put(out, &json!({"type": "message-metadata", "messageMetadata": metadata}));
    put(out, &json!({"type": "error", "errorText": text}));
}

fn finish_reason(reason: Option<StopReason>) -> &'static str {
    match reason {
        Some(StopReason::EndTurn) | None => "stop",
        Some(StopReason::MaxTokens) => "length",
        Some(StopReason::Refusal) => "content-filter",
        Some(StopReason::MaxTurnRequests | StopReason::Rejected) => "other",
    }
}

fn result(turn: &Turn, outcome: Outcome) -> Map<String, Value> {
    let error = turn.error.as_ref().map(|error| json!({"class": error.class, "message": error.message}));
    let members = [
        ("outcome", Some(json!(outcome))),
        ("stopReason", turn.stop_reason.map(|reason| json!(reason))),
        ("usage", turn.usage.as_ref().map(|usage| json!(usage))),
        ("cost", turn.cost.as_ref().map(|cost| json!(cost))),
        ("error", error),
    ];
    members.into_iter().filter_map(|(member, value)| Some((member.to_owned(), value?))).collect()
}
