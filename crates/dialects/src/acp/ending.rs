//! The one message that ends a turn: a stop reason, or an error with a code.

use super::event::AcpEvent;
use super::tag::{KEY, entry};
use agent_client_protocol_schema::v1::{
    Error, Meta, PromptResponse, StopReason as AcpStop, Usage as AcpUsage,
};
use serde::ser::{Serialize, SerializeMap, Serializer};
use turnstream_model::event::{Body, Cost, ErrorClass, Outcome, StopReason, TurnError, Usage};
use turnstream_model::id::{PromptId, TurnId};
use turnstream_model::time::Time;

/// Error code: a time limit of Turnstream was reached.
pub const TIMEOUT: i32 = -1;
/// Error code: the agent, or a provider behind it, reported an error.
pub const SESSION_ERROR: i32 = -2;
/// Error code: the agent's output did not arrive, or not completely.
pub const STREAM_ERROR: i32 = -3;

/// Longest message of an error, in characters: it may quote a whole response body.
const MESSAGE: usize = 200;

/// A turn that ended with a stop reason.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// The turn.
    pub turn: TurnId,
    /// The prompts it took: each of their requests gets this answer.
    pub prompts: Vec<PromptId>,
    /// The answer; what ACP has no member for is in `_meta.turnstream`.
    pub response: PromptResponse,
}

/// A turn that ended with an error, or a prompt that never became a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The turn, where one had started.
    pub turn: Option<TurnId>,
    /// The prompts it took: each of their requests gets this answer.
    pub prompts: Vec<PromptId>,
    /// An HTTP status, [`TIMEOUT`], [`SESSION_ERROR`] or [`STREAM_ERROR`].
    pub code: i32,
    /// For a person; at most 200 characters.
    pub message: String,
    /// What kind of error it is.
    pub class: ErrorClass,
    /// The agent's own name of the error.
    pub name: Option<String>,
    /// HTTP status, where there was one.
    pub status: Option<u16>,
    /// The provider's name of the request.
    pub request_id: Option<String>,
    /// When it makes sense to try again.
    pub retry_at: Option<Time>,
    /// `failed` or `lost`.
    pub outcome: Outcome,
    /// Tokens of the turn.
    pub usage: Option<Usage>,
    /// Cost of the turn.
    pub cost: Option<Cost>,
}

impl Fault {
    /// An error without a turn, for callers that run an agent without a gateway.
    pub fn new(error: &TurnError) -> Self {
        let name = error.extra.get("name").and_then(|name| name.as_str()).map(str::to_owned);
        let message = if error.message.is_empty() { error.class.as_str() } else { &error.message };
        Self {
            turn: None,
            prompts: Vec::new(),
            code: code(error),
            message: message.chars().take(MESSAGE).collect(),
            class: error.class,
            name,
            status: error.status,
            request_id: error.request_id.clone(),
            retry_at: error.retry_at,
            outcome: Outcome::Failed,
            usage: None,
            cost: None,
        }
    }

    /// The error as JSON-RPC has it; everything but code and message is in `data`.
    pub fn to_error(&self) -> Error {
        // Strings and numbers: serde_json refuses none of them.
        Error::new(self.code, self.message.clone()).data(serde_json::to_value(ErrorData(self)).ok())
    }
}

/// The code of an error. A status below 400 does not count: providers report failures inside a 200 response.
fn code(error: &TurnError) -> i32 {
    if let Some(status) = error.status.filter(|status| *status >= 400) {
        return status.into();
    }
    match error.class {
        ErrorClass::Stalled | ErrorClass::NotStarted | ErrorClass::Timeout => TIMEOUT,
        ErrorClass::Unreachable
        | ErrorClass::TransportLost
        | ErrorClass::StreamCorrupt
        | ErrorClass::StreamSpliced
        | ErrorClass::Incomplete
        | ErrorClass::NotAStream
        | ErrorClass::AgentExited => STREAM_ERROR,
        ErrorClass::Cancelled
        | ErrorClass::EmptyOutput
        | ErrorClass::RateLimited
        | ErrorClass::QuotaExhausted
        | ErrorClass::Overloaded
        | ErrorClass::ProviderError
        | ErrorClass::ContextOverflow
        | ErrorClass::OutputLimit
        | ErrorClass::Refused
        | ErrorClass::Auth
        | ErrorClass::ModelUnavailable
        | ErrorClass::InvalidRequest
        | ErrorClass::Budget
        | ErrorClass::AgentError
        | ErrorClass::Internal => SESSION_ERROR,
    }
}

/// The terminator of a `turn.ended`; none for any other body.
pub(super) fn terminator(
    turn: &TurnId,
    prompts: Vec<PromptId>,
    finish: Option<&str>,
    body: &Body,
) -> Option<AcpEvent> {
    let Body::TurnEnded { outcome, stop_reason, usage, cost, summed: _, error } = body else { return None };
    let (usage, error) = (usage.as_deref(), error.as_deref());
    let stop = match outcome {
        Outcome::Completed => Some(completed(stop_reason.unwrap_or(StopReason::EndTurn), finish)),
        Outcome::Cancelled => Some(AcpStop::Cancelled),
        Outcome::Failed | Outcome::Lost => error.and_then(|error| stop_of_error(error.class)),
    };
    Some(match stop {
        Some(stop) => {
            let ours = ResponseMeta {
                turn,
                outcome: *outcome,
                stop_reason: *stop_reason,
                finish,
                usage,
                cost,
                error,
            };
            let meta =
                serde_json::to_value(ours).ok().map(|value| Meta::from_iter([(KEY.to_owned(), value)]));
            let response = PromptResponse::new(stop).usage(usage.and_then(tokens)).meta(meta);
            AcpEvent::End(Box::new(End { turn: turn.clone(), prompts, response }))
        }
        None => {
            let unknown =
                TurnError::new(ErrorClass::TransportLost, "it cannot be known any more how the turn ended");
            let fault = Fault::new(error.unwrap_or(&unknown));
            AcpEvent::Error(Box::new(Fault {
                turn: Some(turn.clone()),
                prompts,
                outcome: *outcome,
                usage: usage.cloned(),
                cost: cost.clone(),
                ..fault
            }))
        }
    })
}

/// The stop reason for ACP. Agents that only report idle do not report that the model was cut off, so
/// `end_turn` is checked against the finish reason of the last model call.
fn completed(stop_reason: StopReason, finish: Option<&str>) -> AcpStop {
    match stop_reason {
        StopReason::EndTurn => match finish {
            Some("length" | "max_tokens" | "max_output_tokens" | "model_length") => AcpStop::MaxTokens,
            Some("content-filter" | "content_filter" | "refusal" | "safety") => AcpStop::Refusal,
            _ => AcpStop::EndTurn,
        },
        StopReason::MaxTokens => AcpStop::MaxTokens,
        StopReason::MaxTurnRequests => AcpStop::MaxTurnRequests,
        StopReason::Refusal => AcpStop::Refusal,
        // A person refused a permission and the agent stopped: this is no success. ACP's `refusal` is the
        // model's, and makes clients remove the prompt from the history.
        StopReason::Rejected => AcpStop::Cancelled,
    }
}

/// Failures that have a stop reason in ACP. After a cancel ACP allows only `cancelled`.
fn stop_of_error(class: ErrorClass) -> Option<AcpStop> {
    match class {
        ErrorClass::Cancelled => Some(AcpStop::Cancelled),
        ErrorClass::OutputLimit => Some(AcpStop::MaxTokens),
        ErrorClass::Refused => Some(AcpStop::Refusal),
        ErrorClass::Unreachable
        | ErrorClass::TransportLost
        | ErrorClass::Stalled
        | ErrorClass::StreamCorrupt
        | ErrorClass::StreamSpliced
        | ErrorClass::Incomplete
        | ErrorClass::EmptyOutput
        | ErrorClass::NotAStream
        | ErrorClass::RateLimited
        | ErrorClass::QuotaExhausted
        | ErrorClass::Overloaded
        | ErrorClass::ProviderError
        | ErrorClass::ContextOverflow
        | ErrorClass::Auth
        | ErrorClass::ModelUnavailable
        | ErrorClass::InvalidRequest
        | ErrorClass::Budget
        | ErrorClass::NotStarted
        | ErrorClass::AgentExited
        | ErrorClass::AgentError
        | ErrorClass::Timeout
        | ErrorClass::Internal => None,
    }
}

/// ACP's usage needs both input and output tokens. Unknown numbers are not zero, so it is left out if one
/// is missing. `_meta` has the known ones.
fn tokens(usage: &Usage) -> Option<AcpUsage> {
    let (input, output) = (usage.input?, usage.output?);
    let parts = [Some(input), Some(output), usage.reasoning, usage.cache_read, usage.cache_write];
    let total = parts.into_iter().flatten().fold(0, u64::saturating_add);
    let tokens = AcpUsage::new(total, input, output);
    Some(
        tokens
            .thought_tokens(usage.reasoning)
            .cached_read_tokens(usage.cache_read)
            .cached_write_tokens(usage.cache_write),
    )
}

/// `_meta.turnstream` of a response.
struct ResponseMeta<'a> {
    turn: &'a TurnId,
    outcome: Outcome,
    stop_reason: Option<StopReason>,
    finish: Option<&'a str>,
    usage: Option<&'a Usage>,
    cost: &'a Option<Cost>,
    error: Option<&'a TurnError>,
}

impl Serialize for ResponseMeta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("turn", self.turn)?;
        map.serialize_entry("outcome", &self.outcome)?;
        entry(&mut map, "stopReason", &self.stop_reason)?;
        entry(&mut map, "finish", &self.finish)?;
        entry(&mut map, "usage", &self.usage)?;
        entry(&mut map, "cost", self.cost)?;
        let fault = |error| Fault { outcome: self.outcome, ..Fault::new(error) };
        entry(&mut map, "error", &self.error.map(|error| fault(error).to_error()))?;
        map.end()
    }
}

/// `data` of an error.
struct ErrorData<'a>(&'a Fault);

impl Serialize for ErrorData<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Fault {
            turn, prompts: _, code: _, message: _, class, name, status, request_id, retry_at, ..
        } = self.0;
        let Fault { outcome, usage, cost, .. } = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("class", class)?;
        entry(&mut map, "name", name)?;
        entry(&mut map, "status", status)?;
        entry(&mut map, "requestId", request_id)?;
        entry(&mut map, "retryAt", retry_at)?;
        entry(&mut map, "turn", turn)?;
        map.serialize_entry("outcome", outcome)?;
        entry(&mut map, "usage", usage)?;
        entry(&mut map, "cost", cost)?;
        map.end()
    }
}
