//! The state of an attempt while it is read, shared by all formats.

use crate::attempt::{
    Anomaly, AnomalyKind, Delivered, Finish, FinishMeaning, Identity, Item, ItemNo, Outcome, ProviderError,
    Repair, Repairs, Residue, SpliceEvidence, SpliceFinding, StreamEnd, StreamEvent, Transport, Usage,
    WithheldCall,
};
use crate::profile::Profile;
use std::borrow::Cow;
use std::ops::Range;

/// The most content of one attempt, in bytes over all items. The longest answers of models are below 2 MiB.
const MOST_CONTENT: usize = 32 * 1024 * 1024;
/// After this many misses in a row the shortcut is not tried again: the provider's events have unusual
/// members.
const MOST_MISSES: u32 = 16;
/// The most items of one attempt.
const MOST_ITEMS: u32 = 4096;

/// The state that all formats share.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) profile: Profile,
    /// Events that the reader returns next.
    pub(crate) out: Vec<StreamEvent>,
    pub(crate) identity: Identity,
    pub(crate) opened: bool,
    pub(crate) finish: Option<Finish>,
    pub(crate) committed: Vec<Item>,
    pub(crate) withheld: Vec<WithheldCall>,
    pub(crate) events: u64,
    pub(crate) residue: Option<Residue>,
    /// The terminal marker came, and nothing is tainted.
    pub(crate) complete: bool,
    over: Option<Over>,
    ignored_from: Option<u64>,
    failure: Option<ProviderError>,
    delivered: Delivered,
    anomalies: Vec<Anomaly>,
    anomaly_count: u32,
    pub(crate) repairs: Repairs,
    usage: Usage,
    items: u32,
    /// Open items with a lower number have been reported as tainted.
    tainted_before: u32,
    content: usize,
    call_in_text: bool,
    shortcut_misses: u32,
}

/// Why the rest of the body is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// The terminal marker came.
    Done,
    /// The provider failed.
    Failed,
    /// A second completion began.
    Spliced,
    /// Something was lost, and the rest cannot be attributed to a completion.
    Lost,
}

/// Markup of tool calls that models write into their text by mistake.
const CALLS_IN_TEXT: [&str; 4] = ["<tool_call>", "<function=", "<|tool_call", "<function_calls>"];

impl Attempt {
    pub(crate) fn new(profile: Profile) -> Self {
        Self {
            profile,
            out: Vec::new(),
            identity: Identity::default(),
            opened: false,
            finish: None,
            committed: Vec::new(),
            withheld: Vec::new(),
            events: 0,
            residue: None,
            complete: false,
            over: None,
            ignored_from: None,
            failure: None,
            delivered: Delivered::default(),
            anomalies: Vec::new(),
            anomaly_count: 0,
            repairs: Repairs::default(),
            usage: Usage::default(),
            items: 0,
            tainted_before: 0,
            content: 0,
            call_in_text: false,
            shortcut_misses: 0,
        }
    }

    #[inline]
    pub(crate) fn over(&self) -> Option<Over> {
        self.over
    }

    /// Ends the attempt at this byte. The first reason stays, except that a loss may turn out to be a splice.
    pub(crate) fn end_at(&mut self, over: Over, at: u64) {
        match (self.over, over) {
            (None, _) => {
                self.over = Some(over);
                // After the end of a completion there is usually nothing.
                self.ignored_from = (over != Over::Done).then_some(at);
            }
            (Some(Over::Lost), Over::Spliced) => self.over = Some(over),
            (Some(Over::Done | Over::Failed | Over::Spliced | Over::Lost), _) => {}
        }
    }

    /// Records that the event at this byte is not read.
    pub(crate) fn ignore(&mut self, at: u64) {
        self.ignored_from.get_or_insert(at);
    }

    /// Whether an event is not read.
    pub(crate) fn ignores(&self) -> bool {
        self.ignored_from.is_some()
    }

    /// Whether to try the format's shortcut.
    #[inline]
    pub(crate) fn tries_shortcut(&self) -> bool {
        self.shortcut_misses < MOST_MISSES
    }

    /// Records whether the shortcut read the event.
    #[inline]
    pub(crate) fn tried_shortcut(&mut self, read: bool) {
        self.shortcut_misses = if read { 0 } else { self.shortcut_misses.saturating_add(1) };
    }

    /// Reports the beginning of the completion, once.
    pub(crate) fn open(&mut self) {
        if !self.opened {
            self.opened = true;
            let (id, model) = (self.identity.id.clone(), self.identity.model.clone());
            self.out.push(StreamEvent::Opened { id, model });
        }
    }

    pub(crate) fn repair(&mut self, repair: Repair) {
        self.repairs.count(repair);
    }

    /// Records a loss, which taints the `open` items.
    ///
    /// Each item is reported once. Otherwise many items and many losses would produce their product.
    pub(crate) fn anomaly(
        &mut self,
        kind: AnomalyKind,
        range: Range<u64>,
        open: impl Iterator<Item = ItemNo>,
    ) {
        self.anomaly_count = self.anomaly_count.saturating_add(1);
        let fresh = self.tainted_before..self.items;
        let items =
            if fresh.is_empty() { Vec::new() } else { open.filter(|item| fresh.contains(&item.0)).collect() };
        self.tainted_before = self.items;
        let anomaly = Anomaly { kind, range };
        // A contradiction forbids all calls, so it is listed even if the list is full.
        if kind == AnomalyKind::Contradiction && self.anomalies.len() == Outcome::MOST_ANOMALIES {
            self.anomalies.pop();
        }
        if self.anomalies.len() < Outcome::MOST_ANOMALIES {
            self.anomalies.push(anomaly.clone());
        }
        self.out.push(StreamEvent::Tainted { items, anomaly });
    }

    pub(crate) fn record_splice(&mut self, evidence: SpliceEvidence, at: u64, second_id: Option<String>) {
        // One finding decides. Later findings of the same second completion add nothing.
        if self.identity.findings.len() < 4 {
            self.identity.findings.push(SpliceFinding { evidence, at, second_id });
        }
    }

    pub(crate) fn fail(&mut self, error: ProviderError, at: u64) {
        if self.failure.is_none() {
            self.out.push(StreamEvent::ProviderFailed(error.clone()));
            self.failure = Some(error);
        }
        self.end_at(Over::Failed, at);
    }

    /// The number of the next item; `None` if there are too many.
    pub(crate) fn next_item(&mut self) -> Option<ItemNo> {
        let number = self.items;
        self.items += 1;
        (number < MOST_ITEMS).then_some(ItemNo(number))
    }

    /// Counts content; `false` if there is too much.
    #[inline]
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        self.content = self.content.saturating_add(bytes);
        self.content <= MOST_CONTENT
    }

    #[inline]
    pub(crate) fn text(&mut self, item: ItemNo, text: Cow<'_, str>) {
        // A partial character is not shown yet.
        if text.is_empty() {
            return self.keep_alive();
        }
        self.delivered.text = true;
        self.out.push(StreamEvent::Text { item, text: text.into_owned() });
    }

    #[inline]
    pub(crate) fn refusal(&mut self, item: ItemNo, text: Cow<'_, str>) {
        if text.is_empty() {
            return self.keep_alive();
        }
        self.delivered.text = true;
        self.out.push(StreamEvent::Refusal { item, text: text.into_owned() });
    }

    #[inline]
    pub(crate) fn reasoning(&mut self, item: ItemNo, text: Cow<'_, str>) {
        if text.is_empty() {
            return self.keep_alive();
        }
        self.delivered.reasoning = true;
        self.out.push(StreamEvent::Reasoning { item, text: text.into_owned() });
    }

    pub(crate) fn call_started(&mut self, item: ItemNo, id: Option<&str>, name: &str) {
        self.delivered.open_calls = self.delivered.open_calls.saturating_add(1);
        self.out.push(StreamEvent::CallStarted { item, id: id.map(str::to_owned), name: name.to_owned() });
    }

    #[inline]
    pub(crate) fn arguments(&mut self, item: ItemNo, text: Cow<'_, str>) {
        if text.is_empty() {
            return self.keep_alive();
        }
        self.out.push(StreamEvent::CallArguments { item, text: text.into_owned() });
    }

    pub(crate) fn unread(&mut self, item: ItemNo, raw: &str) {
        self.out.push(StreamEvent::Unread { item, raw: raw.to_owned() });
    }

    pub(crate) fn keep_alive(&mut self) {
        self.out.push(StreamEvent::KeepAlive);
    }

    pub(crate) fn update_usage(&mut self, usage: Usage) {
        if !usage.is_unknown() {
            self.usage.update(usage);
            self.out.push(StreamEvent::Usage(self.usage));
        }
    }

    /// Records a finish. The first one counts, unless a later one forbids the calls that the first allowed:
    /// a content filter may be slower than the model.
    pub(crate) fn finish(&mut self, raw: &str, meaning: FinishMeaning) {
        let takes_back = match meaning {
            FinishMeaning::Length | FinishMeaning::ContentFilter => true,
            FinishMeaning::Stop
            | FinishMeaning::ToolCalls
            | FinishMeaning::Paused
            | FinishMeaning::Failed
            | FinishMeaning::Unknown => false,
        };
        if let Some(first) = &self.finish
            && !(takes_back && first.meaning.lets_calls_run())
        {
            self.repair(Repair::RepeatedFinish);
            return;
        }
        let finish = Finish { raw: raw.to_owned(), meaning };
        self.out.push(StreamEvent::Finish(finish.clone()));
        self.finish = Some(finish);
    }

    pub(crate) fn commit(&mut self, item: Item) {
        match &item {
            Item::Call(_) => {
                self.delivered.committed_calls = self.delivered.committed_calls.saturating_add(1);
                self.delivered.open_calls = self.delivered.open_calls.saturating_sub(1);
            }
            Item::Message { text, .. } => {
                self.call_in_text |= CALLS_IN_TEXT.iter().any(|spelling| text.contains(spelling));
            }
            Item::Reasoning { .. } | Item::Other { .. } => {}
        }
        self.committed.push(item.clone());
        self.out.push(StreamEvent::Committed(item));
    }

    /// Whether nothing was lost so far.
    pub(crate) fn is_sound(&self) -> bool {
        self.anomaly_count == 0
    }

    pub(crate) fn contradicted(&self) -> bool {
        self.anomalies.iter().any(|anomaly| anomaly.kind == AnomalyKind::Contradiction)
    }

    pub(crate) fn outcome(mut self, transport: Transport, bytes: u64) -> (Outcome, Vec<StreamEvent>) {
        let said = std::mem::take(&mut self.out);
        let ended = match (self.failure, self.over) {
            (Some(failure), _) => StreamEnd::Failed(failure),
            (None, _) if self.complete => StreamEnd::Complete,
            (None, Some(Over::Spliced)) => StreamEnd::Spliced,
            // The body was cut within an event, and is otherwise sound.
            (None, _) if self.anomaly_count == 1 && self.residue.is_some() => StreamEnd::Incomplete,
            (None, Some(Over::Lost)) => StreamEnd::Corrupt,
            (None, Some(Over::Done | Over::Failed) | None) if self.anomaly_count > 0 => StreamEnd::Corrupt,
            (None, Some(Over::Done | Over::Failed) | None) => StreamEnd::Incomplete,
        };
        let outcome = Outcome {
            ended,
            transport,
            finish: self.finish,
            committed: self.committed,
            withheld: self.withheld,
            delivered: self.delivered,
            anomalies: self.anomalies,
            anomaly_count: self.anomaly_count,
            repairs: self.repairs,
            identity: self.identity,
            usage: (!self.usage.is_unknown()).then_some(self.usage),
            residue: self.residue,
            call_in_text: self.call_in_text,
            bytes,
            events: self.events,
            ignored_from: self.ignored_from.filter(|from| *from < bytes),
        };
        (outcome, said)
    }
}
