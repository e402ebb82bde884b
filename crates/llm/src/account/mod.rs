//! Findings about one attempt, for the ledger and for people: what was lost, and what can be trusted.

mod sentences;

pub use sentences::sentences;

use crate::attempt::{Item, ItemNo, Outcome, StreamEnd, StreamEvent};
use std::collections::HashMap;
use turnstream_model::attempts::{Completion, Count, Findings, Loss};

/// How many bytes of content were received, shown or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceivedBytes {
    text: u64,
    reasoning: u64,
    arguments: HashMap<ItemNo, u64>,
}

impl ReceivedBytes {
    /// Counts the content of one event.
    pub fn count(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::Text { text, .. } | StreamEvent::Refusal { text, .. } => {
                self.text += text.len() as u64
            }
            StreamEvent::Reasoning { text, .. } => self.reasoning += text.len() as u64,
            StreamEvent::CallArguments { item, text } => {
                *self.arguments.entry(*item).or_default() += text.len() as u64;
            }
            StreamEvent::Opened { .. }
            | StreamEvent::ReasoningData { .. }
            | StreamEvent::CallStarted { .. }
            | StreamEvent::Committed(_)
            | StreamEvent::Unread { .. }
            | StreamEvent::Usage(_)
            | StreamEvent::Finish(_)
            | StreamEvent::ProviderFailed(_)
            | StreamEvent::KeepAlive
            | StreamEvent::Tainted { .. } => {}
        }
    }

    /// The bytes of all content.
    pub fn total(&self) -> u64 {
        self.text + self.reasoning + self.arguments.values().sum::<u64>()
    }
}

/// The findings about an attempt.
pub fn findings(outcome: &Outcome, received: &ReceivedBytes) -> Findings {
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
    let committed = outcome.runnable().into_iter().map(|call| call.name.clone());
    Findings {
        bytes: outcome.bytes,
        events: outcome.events,
        repairs: repairs.collect(),
        anomalies,
        completions: completions(outcome),
        committed: committed.collect(),
        lost: lost(outcome, received),
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
    let is_whole = outcome.ended == StreamEnd::Complete;
    let each = starts.into_iter().zip(ends).enumerate();
    each.map(|(place, ((from, id), to))| Completion { id, from, to, whole: is_whole && place == 0 }).collect()
}

fn lost(outcome: &Outcome, received: &ReceivedBytes) -> Vec<Loss> {
    let mut lost = Vec::new();
    let is_whole = |wanted: fn(&Item) -> bool| outcome.committed.iter().any(wanted);
    let has_text = is_whole(|item| matches!(item, Item::Message { .. }));
    let has_reasoning = is_whole(|item| matches!(item, Item::Reasoning { .. }));
    for (what, bytes, has) in
        [("text", received.text, has_text), ("reasoning", received.reasoning, has_reasoning)]
    {
        if bytes > 0 && !has {
            lost.push(Loss { what: what.to_owned(), bytes, shown: true });
        }
    }
    for call in &outcome.withheld {
        let bytes = received.arguments.get(&call.item).copied().unwrap_or(0);
        lost.push(Loss { what: call.name.clone(), bytes, shown: false });
    }
    lost
}
