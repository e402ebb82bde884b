//! What is kept of an attempt while it is read, the same for every format.

use crate::attempt::{
    Anomaly, AnomalyKind, Delivered, Ended, Evidence, Finding, Finish, Identity, Item, ItemNo, Meaning,
    Outcome, ProviderError, Repair, Repairs, Residue, Said, Transport, Usage, Withheld,
};
use crate::profile::Profile;
use std::borrow::Cow;
use std::ops::Range;

/// Bytes of content that one attempt may bring, all items together. The longest answers of today's models are
/// below 2 MiB; what is above this is not an answer.
const MOST_CONTENT: usize = 32 * 1024 * 1024;
/// Events in a row that the shortcut may fail to read. A provider whose every event has something else in it is left to the
/// parser.
const MOST_MISSES: u32 = 16;
/// Items that one attempt may have.
const MOST_ITEMS: u32 = 4096;

/// The state that all formats share.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) profile: Profile,
    /// What is handed out next.
    pub(crate) said: Vec<Said>,
    pub(crate) identity: Identity,
    pub(crate) opened: bool,
    pub(crate) finish: Option<Finish>,
    pub(crate) committed: Vec<Item>,
    pub(crate) withheld: Vec<Withheld>,
    pub(crate) events: u64,
    pub(crate) residue: Option<Residue>,
    /// Nothing that the completion consists of may be missing any more: the terminal marker came untainted.
    pub(crate) complete: bool,
    over: Option<Over>,
    ignored_from: Option<u64>,
    failure: Option<ProviderError>,
    delivered: Delivered,
    anomalies: Vec<Anomaly>,
    anomaly_count: u32,
    repairs: Repairs,
    usage: Usage,
    items: u32,
    /// Items with a number below this that were open have been told of as tainted.
    tainted_before: u32,
    content: usize,
    call_in_text: bool,
    shortcut_misses: u32,
}

/// Why no more of the body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// The terminal marker came.
    Done,
    /// The provider failed.
    Failed,
    /// A second completion began.
    Spliced,
    /// Something was lost, and what follows might belong to anything.
    Lost,
}

/// Spellings of a tool call that models leak into text.
const CALLS_IN_TEXT: [&str; 4] = ["<tool_call>", "<function=", "<|tool_call", "<function_calls>"];

impl Attempt {
    pub(crate) fn new(profile: Profile) -> Self {
        Self {
            profile,
            said: Vec::new(),
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

    /// The attempt is over from this byte on. A loss may turn out to be a splice; else the first reason stays.
    pub(crate) fn end_at(&mut self, over: Over, at: u64) {
        match (self.over, over) {
            (None, _) => {
                self.over = Some(over);
                // Behind the end of a completion there is usually nothing.
                self.ignored_from = (over != Over::Done).then_some(at);
            }
            (Some(Over::Lost), Over::Spliced) => self.over = Some(over),
            (Some(Over::Done | Over::Failed | Over::Spliced | Over::Lost), _) => {}
        }
    }

    /// An event that is not read begins here.
    pub(crate) fn ignore(&mut self, at: u64) {
        self.ignored_from.get_or_insert(at);
    }

    /// Whether the shortcut of the format is worth a try.
    #[inline]
    pub(crate) fn tries_shortcut(&self) -> bool {
        self.shortcut_misses < MOST_MISSES
    }

    /// Whether it read the event.
    #[inline]
    pub(crate) fn tried_shortcut(&mut self, read: bool) {
        self.shortcut_misses = if read { 0 } else { self.shortcut_misses.saturating_add(1) };
    }

    /// Tells that the completion began, once.
    pub(crate) fn open(&mut self) {
        if !self.opened {
            self.opened = true;
            let (id, model) = (self.identity.id.clone(), self.identity.model.clone());
            self.said.push(Said::Opened { id, model });
        }
    }

    pub(crate) fn repair(&mut self, repair: Repair) {
        self.repairs.count(repair);
    }

    /// Records a loss that taints the items that are open: these. Each is named once, or many items and many losses would be
    /// told as the product of both.
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
        // A contradiction forbids calls to run, so it has a place in the list however long that is.
        if kind == AnomalyKind::Contradiction && self.anomalies.len() == Outcome::MOST_ANOMALIES {
            self.anomalies.pop();
        }
        if self.anomalies.len() < Outcome::MOST_ANOMALIES {
            self.anomalies.push(anomaly.clone());
        }
        self.said.push(Said::Tainted { items, anomaly });
    }

    pub(crate) fn find(&mut self, evidence: Evidence, at: u64, second_id: Option<String>) {
        // One is enough to decide; the others of a long second completion say nothing new.
        if self.identity.findings.len() < 4 {
            self.identity.findings.push(Finding { evidence, at, second_id });
        }
    }

    pub(crate) fn fail(&mut self, error: ProviderError, at: u64) {
        if self.failure.is_none() {
            self.said.push(Said::ProviderFailed(error.clone()));
            self.failure = Some(error);
        }
        self.end_at(Over::Failed, at);
    }

    /// The number of the next item; `None` when there are too many.
    pub(crate) fn number(&mut self) -> Option<ItemNo> {
        let number = self.items;
        self.items += 1;
        (number < MOST_ITEMS).then_some(ItemNo(number))
    }

    /// Counts content that is kept; `false` when there is too much.
    #[inline]
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        self.content = self.content.saturating_add(bytes);
        self.content <= MOST_CONTENT
    }

    #[inline]
    pub(crate) fn text(&mut self, item: ItemNo, text: Cow<'_, str>) {
        // The beginning of a character is nothing to show.
        if text.is_empty() {
            return self.alive();
        }
        self.delivered.text = true;
        self.said.push(Said::Text { item, text: text.into_owned() });
    }

    #[inline]
    pub(crate) fn refusal(&mut self, item: ItemNo, text: Cow<'_, str>) {
        if text.is_empty() {
            return self.alive();
        }
        self.delivered.text = true;
        self.said.push(Said::Refusal { item, text: text.into_owned() });
    }

    #[inline]
    pub(crate) fn reasoning(&mut self, item: ItemNo, text: Cow<'_, str>) {
        if text.is_empty() {
            return self.alive();
        }
        self.delivered.reasoning = true;
        self.said.push(Said::Reasoning { item, text: text.into_owned() });
    }

    pub(crate) fn began(&mut self, item: ItemNo, id: Option<&str>, name: &str) {
        self.delivered.open_calls = self.delivered.open_calls.saturating_add(1);
        self.said.push(Said::CallBegan { item, id: id.map(str::to_owned), name: name.to_owned() });
    }

    #[inline]
    pub(crate) fn arguments(&mut self, item: ItemNo, text: Cow<'_, str>) {
        if text.is_empty() {
            return self.alive();
        }
        self.said.push(Said::CallArguments { item, text: text.into_owned() });
    }

    pub(crate) fn alive(&mut self) {
        self.said.push(Said::Alive);
    }

    pub(crate) fn use_up(&mut self, usage: Usage) {
        if !usage.is_unknown() {
            self.usage.update(usage);
            self.said.push(Said::Usage(self.usage));
        }
    }

    /// The first finish counts. Only one behind it that takes back what the first allowed does, too: a filter may be slower than
    /// the model.
    pub(crate) fn finish(&mut self, raw: &str, meaning: Meaning) {
        let takes_back = match meaning {
            Meaning::Length | Meaning::ContentFilter => true,
            Meaning::Stop | Meaning::ToolCalls | Meaning::Paused | Meaning::Failed | Meaning::Unknown => {
                false
            }
        };
        if let Some(first) = &self.finish
            && !(takes_back && first.meaning.lets_calls_run())
        {
            self.repair(Repair::RepeatedFinish);
            return;
        }
        let finish = Finish { raw: raw.to_owned(), meaning };
        self.said.push(Said::Finish(finish.clone()));
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
        self.said.push(Said::Committed(item));
    }

    pub(crate) fn contradicted(&self) -> bool {
        self.anomalies.iter().any(|anomaly| anomaly.kind == AnomalyKind::Contradiction)
    }

    pub(crate) fn outcome(mut self, transport: Transport, bytes: u64) -> (Outcome, Vec<Said>) {
        let said = std::mem::take(&mut self.said);
        let ended = match (self.failure, self.over) {
            (Some(failure), _) => Ended::Failed(failure),
            (None, _) if self.complete => Ended::Complete,
            (None, Some(Over::Spliced)) => Ended::Spliced,
            // Cut off within an event, and nothing else is wrong.
            (None, _) if self.anomaly_count == 1 && self.residue.is_some() => Ended::Incomplete,
            (None, Some(Over::Lost)) => Ended::Corrupt,
            (None, Some(Over::Done | Over::Failed) | None) if self.anomaly_count > 0 => Ended::Corrupt,
            (None, Some(Over::Done | Over::Failed) | None) => Ended::Incomplete,
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
