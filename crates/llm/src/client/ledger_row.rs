//! The ledger row of an attempt.

use crate::account::{ReceivedBytes, findings};
use crate::attempt::{FinishMeaning, Outcome, StreamEnd, Usage};
use crate::classify::Failure;
use crate::evidence::{Kind, Recorder};
use turnstream_model::attempts::{self, Findings, Tokens, Verdict};
use turnstream_model::event::{self, ErrorClass};
use turnstream_model::time::Time;
use turnstream_redact::Rules;

/// Bytes of text per token, for an estimate where the provider reports no usage.
const BYTES_PER_TOKEN: u64 = 4;
/// The longest name that is stored, in bytes. Ids of providers have up to 200.
const NAME: usize = 256;

/// What is known of an attempt at its end.
#[derive(Debug, Default)]
pub struct AttemptReport {
    /// What was read of the answer.
    pub outcome: Option<Outcome>,
    /// The bytes of content that were received.
    pub received: ReceivedBytes,
    /// The HTTP status.
    pub status: Option<u16>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// The headers of the answer that are stored.
    pub headers: Vec<(String, String)>,
    /// The bytes of the answer.
    pub recorder: Recorder,
}

/// The end of the row of an attempt. Texts and evidence are redacted by these rules.
pub fn ended(
    report: AttemptReport,
    verdict: Verdict,
    failure: Option<&Failure>,
    now: Time,
    rules: &Rules,
) -> attempts::Ended {
    let AttemptReport { outcome, received, status, request_id, headers, recorder } = report;
    let class = failure.map(|failure| failure.class).or_else(|| stopped(outcome.as_ref()));
    let is_stream =
        outcome.as_ref().is_some_and(|outcome| !matches!(outcome.ended, StreamEnd::NotAStream(_)));
    let kind = match status {
        _ if is_stream => Kind::Stream,
        Some(200..300) => Kind::Answer,
        Some(_) | None => Kind::Document,
    };
    let bytes = outcome.as_ref().map_or(0, |outcome| outcome.bytes);
    let name = |text: &str| safe_name(text, rules);
    let is_kept = failure.is_some() && bytes > 0;
    attempts::Ended {
        verdict,
        class,
        problem: failure.map(|failure| rules.redact(&failure.message).into_owned()),
        status,
        request_id: failure
            .and_then(|failure| failure.request_id.as_deref())
            .or(request_id.as_deref())
            .map(name),
        headers: headers.into_iter().map(|(header, value)| (header, name(&value))).collect(),
        finish: outcome.as_ref().and_then(|outcome| outcome.finish.as_ref()).map(|finish| name(&finish.raw)),
        tokens: tokens(outcome.as_ref(), received.total()),
        findings: outcome
            .as_ref()
            .map(|outcome| named(findings(outcome, &received), name))
            .unwrap_or_default(),
        ended: now,
        evidence: is_kept.then(|| recorder.evidence(kind, rules)),
    }
}

/// A name that a provider or a model chose, redacted and cut: it may contain a secret, or be a megabyte long.
pub(super) fn safe_name(text: &str, rules: &Rules) -> String {
    let safe = rules.redact(text);
    let cut = safe.floor_char_boundary(NAME);
    if cut < safe.len() { format!("{}…", &safe[..cut]) } else { safe.into_owned() }
}

/// The findings with safe names.
fn named(mut findings: Findings, name: impl Fn(&str) -> String) -> Findings {
    for id in findings.completions.iter_mut().filter_map(|completion| completion.id.as_mut()) {
        *id = name(id);
    }
    let losses = findings.lost.iter_mut().map(|loss| &mut loss.what);
    for what in findings.committed.iter_mut().chain(losses) {
        *what = name(what);
    }
    findings
}

/// The class of a complete answer that was stopped early.
fn stopped(outcome: Option<&Outcome>) -> Option<ErrorClass> {
    match outcome?.finish.as_ref()?.meaning {
        FinishMeaning::Length => Some(ErrorClass::OutputLimit),
        FinishMeaning::ContentFilter => Some(ErrorClass::Refused),
        FinishMeaning::Stop
        | FinishMeaning::ToolCalls
        | FinishMeaning::Paused
        | FinishMeaning::Failed
        | FinishMeaning::Unknown => None,
    }
}

fn tokens(outcome: Option<&Outcome>, content: u64) -> Tokens {
    match outcome.and_then(|outcome| outcome.usage).filter(|usage| !usage.is_unknown()) {
        Some(usage) => Tokens::Reported(reported(usage)),
        None if content > 0 => {
            let output = Some(content.div_ceil(BYTES_PER_TOKEN));
            Tokens::Estimated(event::Usage { output, ..event::Usage::default() })
        }
        None => Tokens::Unknown,
    }
}

/// Usage as events report it. There, cached tokens are not part of the input.
pub(super) fn reported(usage: Usage) -> event::Usage {
    let Usage { input, cached, cache_written, output, reasoning } = usage;
    let cache = cached.unwrap_or(0).saturating_add(cache_written.unwrap_or(0));
    event::Usage {
        input: input.map(|input| input.saturating_sub(cache)),
        output,
        reasoning,
        cache_read: cached,
        cache_write: cache_written,
        extra: serde_json::Map::new(),
    }
}
