//! Log lines about attempts: kinds, places and counts, never text of a model above `debug`.

use super::ModelCall;
use crate::attempt::Outcome;
use crate::classify::{Failure, Source};
use tracing::field::Empty;
use tracing::{Span, debug, info_span, warn};
use turnstream_redact::Rules;

/// The span of one attempt. `status` is recorded when the response begins.
pub(super) fn attempt_span(call: &ModelCall, number: u32) -> Span {
    info_span!(
        "attempt",
        session = %call.session,
        turn = %call.turn,
        attempt = number,
        provider = %call.route.name,
        model = %call.model,
        status = Empty,
        input_tokens = Empty,
        output_tokens = Empty,
    )
}

/// Records the token counts of an attempt in its span.
pub(super) fn record_usage(span: &Span, outcome: &Outcome) {
    let Some(usage) = outcome.usage else { return };
    if let Some(input) = usage.input {
        span.record("input_tokens", input);
    }
    if let Some(output) = usage.output {
        span.record("output_tokens", output);
    }
}

/// Logs what was wrong with a stream: damage, a second completion, withheld calls and repairs.
pub(super) fn log_stream(outcome: &Outcome) {
    if let Some(first) = outcome.anomalies.first() {
        warn!(
            count = outcome.anomaly_count,
            first = first.kind.name(),
            at = first.range.start,
            "the stream is damaged"
        );
    }
    for anomaly in outcome.anomalies.iter().skip(1) {
        debug!(kind = anomaly.kind.name(), at = anomaly.range.start, "the stream is damaged here too");
    }
    if let Some(finding) = outcome.identity.findings.first() {
        warn!(evidence = finding.evidence.name(), at = finding.at, "a second completion is in the stream");
    }
    if let Some(first) = outcome.withheld.first() {
        warn!(count = outcome.withheld.len(), first = ?first.reason, "tool calls are withheld");
    }
    for call in outcome.withheld.iter().skip(1) {
        debug!(item = call.item.0, reason = ?call.reason, "this tool call is withheld too");
    }
    for (repair, count) in outcome.repairs.iter() {
        debug!(repair = repair.name(), count, "the stream was repaired without loss");
    }
}

/// The message of a failure, if none of it can be text of a model or a provider.
///
/// The client's own messages name hosts, certificates, proxies and timeouts. Others are logged at `debug`.
pub(super) fn own_message(failure: &Failure) -> Option<&str> {
    match failure.source {
        Source::Transport | Source::Timeout(_) | Source::Ours => Some(&failure.message),
        Source::Status | Source::Body | Source::Event | Source::Profile | Source::Stream => None,
    }
}

/// Logs the message of a failure at `debug`, redacted.
pub(super) fn log_message(failure: &Failure, rules: &Rules) {
    if own_message(failure).is_none() {
        debug!(message_text = %rules.redact(&failure.message), "what the provider said");
    }
    for secondary in &failure.secondary {
        debug!(class = %secondary.class, error = %rules.redact(&secondary.message), "a later failure");
    }
}
