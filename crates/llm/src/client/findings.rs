//! What the ledger is told of an attempt.

use super::attempt::Tried;
use crate::attempt::{Ended, Item, Meaning, Outcome, Usage};
use crate::classify::Failure;
use crate::evidence::Kind;
use turnstream_model::attempts::{self, Completion, Count, Findings, Loss, Tokens, Verdict};
use turnstream_model::event::{self, ErrorClass};
use turnstream_model::time::Time;
use turnstream_redact::Rules;

/// Bytes of text that make about one token, for those who were told nothing.
const BYTES_PER_TOKEN: u64 = 4;

/// The end of a row.
pub(super) fn ended(
    tried: Tried,
    verdict: Verdict,
    failure: Option<&Failure>,
    now: Time,
    rules: &Rules,
) -> attempts::Ended {
    let Tried { outcome, hold, status, request_id, recorder, .. } = tried;
    let class = failure.map(|failure| failure.class).or_else(|| stopped(outcome.as_ref()));
    let is_stream = outcome.as_ref().is_some_and(|outcome| !matches!(outcome.ended, Ended::NotAStream(_)));
    let kind = if is_stream { Kind::Stream } else { Kind::Document };
    let bytes = outcome.as_ref().map_or(0, |outcome| outcome.bytes);
    let is_kept = failure.is_some() && bytes > 0;
    attempts::Ended {
        verdict,
        class,
        problem: failure.map(|failure| rules.redact(&failure.message).into_owned()),
        status,
        request_id: failure.and_then(|failure| failure.request_id.clone()).or(request_id),
        finish: outcome.as_ref().and_then(|outcome| outcome.finish.as_ref()).map(|finish| finish.raw.clone()),
        tokens: tokens(outcome.as_ref(), hold.content),
        findings: outcome
            .as_ref()
            .map(|outcome| findings(outcome, hold.text, hold.reasoning))
            .unwrap_or_default(),
        ended: now,
        evidence: is_kept.then(|| recorder.evidence(kind, rules)),
    }
}

/// What stopped an answer that is whole.
fn stopped(outcome: Option<&Outcome>) -> Option<ErrorClass> {
    match outcome?.finish.as_ref()?.meaning {
        Meaning::Length => Some(ErrorClass::OutputLimit),
        Meaning::ContentFilter => Some(ErrorClass::Refused),
        Meaning::Stop | Meaning::ToolCalls | Meaning::Paused | Meaning::Failed | Meaning::Unknown => None,
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

/// The words of events: what came from a cache is not part of the input there.
fn reported(usage: Usage) -> event::Usage {
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

/// What was seen in the bytes.
pub(crate) fn findings(outcome: &Outcome, text: u64, reasoning: u64) -> Findings {
    let repairs = outcome.repairs.iter().map(|(repair, times)| Count {
        what: repair.name().to_owned(),
        times: u64::from(times),
        at: None,
    });
    let mut anomalies: Vec<Count> = Vec::new();
    for anomaly in &outcome.anomalies {
        match anomalies.iter_mut().find(|known| known.what == anomaly.kind.name()) {
            Some(known) => known.times += 1,
            None => anomalies.push(Count {
                what: anomaly.kind.name().to_owned(),
                times: 1,
                at: Some(anomaly.range.start),
            }),
        }
    }
    let committed = outcome.committed.iter().filter_map(Item::call).map(|call| call.name.clone());
    Findings {
        bytes: outcome.bytes,
        events: outcome.events,
        repairs: repairs.collect(),
        anomalies,
        completions: completions(outcome),
        committed: committed.collect(),
        lost: lost(outcome, text, reasoning),
    }
}

fn completions(outcome: &Outcome) -> Vec<Completion> {
    if outcome.events == 0 {
        return Vec::new();
    }
    let mut starts: Vec<(u64, Option<String>)> = vec![(0, outcome.identity.id.clone())];
    for finding in &outcome.identity.findings {
        match starts.iter_mut().find(|(at, _)| *at == finding.at) {
            Some((_, id)) if id.is_none() => id.clone_from(&finding.second_id),
            Some(_) => {}
            None => starts.push((finding.at, finding.second_id.clone())),
        }
    }
    let ends: Vec<u64> =
        starts.iter().skip(1).map(|(at, _)| *at).chain(std::iter::once(outcome.bytes)).collect();
    let is_whole = outcome.ended == Ended::Complete;
    let each = starts.into_iter().zip(ends).enumerate();
    each.map(|(place, ((from, id), to))| Completion { id, from, to, whole: is_whole && place == 0 }).collect()
}

fn lost(outcome: &Outcome, text: u64, reasoning: u64) -> Vec<Loss> {
    let mut lost = Vec::new();
    let is_whole = |wanted: fn(&Item) -> bool| outcome.committed.iter().any(wanted);
    let said: [(&str, u64, fn(&Item) -> bool); 2] = [
        ("text", text, |item| matches!(item, Item::Message { .. })),
        ("reasoning", reasoning, |item| matches!(item, Item::Reasoning { .. })),
    ];
    for (what, bytes, wanted) in said {
        if bytes > 0 && !is_whole(wanted) {
            lost.push(Loss { what: what.to_owned(), bytes, shown: true });
        }
    }
    let calls = outcome.withheld.iter().map(|call| Loss { what: call.name.clone(), bytes: 0, shown: false });
    lost.extend(calls);
    lost
}
