//! The responses format (OpenAI).
//!
//! Events are numbered, and every item is sent complete once more. Deltas are only for display. What counts
//! is `output_item.done`, or `response.completed` if that was lost. Calls are committed at the end of the
//! step.

mod calls;
mod output;

use crate::attempt::{
    AnomalyKind, FinishMeaning, Item, Repair, SpliceEvidence, Transport, WithheldCall, WithheldReason,
};
use crate::decode::attempt::{Attempt, Over};
use crate::decode::calls::is_sound;
use crate::decode::sequence::{Numbered, Numbers};
use crate::decode::{Place, Relation, Wire};
use crate::profile::{Constancy, Sequence};
use crate::wire::responses::{self as wire, Event, Response, text_of};
use crate::wire::{Str, error, filled, quick, take_filled, usage};
use output::{Loss, OutputItem, Shown, Source, State, call_kind, is_damaged, read, whole_item};
use std::ops::Range;
use turnstream_json::Seam;

/// The state of one response.
#[derive(Debug, Default)]
pub(crate) struct Responses {
    numbers: Numbers,
    /// By `output_index`.
    items: Vec<OutputItem>,
    /// Whether something was lost that the protocol may repeat.
    lossy: bool,
    /// Whether the terminal event is unreadable, so that it is unknown whether the calls may run.
    bad_end: bool,
}

/// How an event names its item.
enum Naming {
    /// By the known id.
    Ours,
    /// The event is the first one for an item at this index.
    New,
    /// By another id than the known one at this index.
    Wrong,
    /// It names no item.
    Nothing,
}

impl Wire for Responses {
    type Event<'a> = Event<'a>;

    fn quick(data: &str) -> Option<Event<'_>> {
        quick::responses(data)
    }

    fn apply(&mut self, event: &mut Event<'_>, place: &Place<'_>, attempt: &mut Attempt) {
        let text = event.delta.as_mut().and_then(|delta| take_filled(&mut delta.0));
        let event = &*event;
        let kind = filled(&event.kind).unwrap_or(place.name);
        if kind == "error" {
            let raw = event.error.map_or(place.data, |raw| raw.get());
            return attempt.fail(error::read(raw, place.data, &attempt.profile), place.range.start);
        }
        if let Relation::Other(evidence) = self.relation(event, attempt) {
            attempt.record_splice(evidence, place.range.start, self.id(event));
            return attempt.end_at(Over::Spliced, place.range.start);
        }
        let late = match self.number(event, place, attempt) {
            Numbered::Next | Numbered::Ahead => false,
            Numbered::Late => true,
            Numbered::Seen => return attempt.repair(Repair::DuplicateEvent),
        };
        if attempt.over().is_some() {
            return;
        }
        let kept = match kind {
            // It has the same id, or it would be a splice. The rest may be the same answer again.
            "response.created" if attempt.opened && !late => Err(AnomalyKind::SecondOpening),
            "response.created" | "response.in_progress" | "response.queued" => {
                if let Some(response) = event.response.as_deref() {
                    self.identify(response, attempt);
                }
                Ok(())
            }
            "response.output_item.added" => self.added(event, attempt),
            "response.output_item.done" => self.done_item(event, place, attempt),
            "response.completed" | "response.incomplete" => {
                let kept = self.terminal(kind, event, place, attempt);
                self.bad_end = attempt.over().is_none();
                kept
            }
            "response.failed" | "response.cancelled" => {
                let error = event.response.as_ref().and_then(|response| response.error);
                let raw = error.map_or(place.data, |raw| raw.get());
                return attempt.fail(error::read(raw, place.data, &attempt.profile), place.range.start);
            }
            // A late delta would be shown in the wrong place. The complete item repeats it.
            _ if late => Ok(()),
            _ => self.delta(kind, text, event, attempt),
        };
        if let Err(kind) = kept {
            self.lost(kind, place.range.clone(), attempt);
        }
    }

    fn relation(&self, event: &Event<'_>, attempt: &Attempt) -> Relation {
        let theirs = event.response.as_ref().and_then(|response| filled(&response.id));
        let is_compared = match attempt.profile.response_id {
            Constancy::Constant | Constancy::WithoutId => true,
            Constancy::Varies => false,
        };
        if let (false, Some(response)) = (is_compared, event.response.as_deref()) {
            return self.relation_by_time(event, response, attempt);
        }
        match (&attempt.identity.id, theirs) {
            (Some(ours), Some(theirs)) if ours != theirs => {
                let evidence = if self.opens(event) { SpliceEvidence::Start } else { SpliceEvidence::Id };
                return Relation::Other(evidence);
            }
            (Some(_), Some(_)) => return Relation::Same,
            (Some(_) | None, _) => {}
        }
        let naming = self.naming(event, attempt);
        let seen = self.checked(event, attempt).map(|number| self.numbers.check(number));
        match (naming, seen) {
            (Naming::Wrong, _) => Relation::Other(SpliceEvidence::Id),
            // An unknown item under a number that was seen before.
            (Naming::New, Some(Numbered::Seen)) => Relation::Other(SpliceEvidence::SequenceReset),
            (Naming::Ours, _) => Relation::Same,
            (Naming::New | Naming::Nothing, _) => Relation::Unknown,
        }
    }

    fn opens(&self, event: &Event<'_>) -> bool {
        event.kind.as_deref() == Some("response.created")
    }

    fn id(&self, event: &Event<'_>) -> Option<String> {
        filled(&event.response.as_ref()?.id).map(str::to_owned)
    }

    /// A loss shows as a missing number, and complete items repeat the content. Without numbers the rest
    /// cannot be trusted.
    fn lost(&mut self, kind: AnomalyKind, range: Range<u64>, attempt: &mut Attempt) {
        let at = range.end;
        let open = self.items.iter().filter(|item| item.state == State::Open).map(|item| item.item);
        attempt.anomaly(kind, range, open);
        self.lossy = true;
        let beyond = match kind {
            AnomalyKind::TooMuch | AnomalyKind::Contradiction => true,
            AnomalyKind::NotSse
            | AnomalyKind::InvalidUtf8
            | AnomalyKind::Oversize
            | AnomalyKind::Truncated
            | AnomalyKind::Glued
            | AnomalyKind::Unparseable
            | AnomalyKind::UnknownShape
            | AnomalyKind::Residue
            | AnomalyKind::NoSuchItem
            | AnomalyKind::OpenedTwice
            | AnomalyKind::Conflict
            | AnomalyKind::LeftOpen
            | AnomalyKind::AfterFinish
            | AnomalyKind::SecondOpening
            | AnomalyKind::OtherChoice
            | AnomalyKind::Gap
            | AnomalyKind::OutOfOrder => false,
        };
        if beyond || !self.numbers.began() || attempt.identity.id.is_none() {
            attempt.end_at(Over::Lost, at);
        }
    }

    /// Some proxies send `[DONE]` here too. It is ignored.
    fn done(&mut self, _: &Place<'_>, _: &mut Attempt) {}

    fn end(&mut self, _: Transport, attempt: &mut Attempt) {
        let open = self.items.iter_mut().filter(|item| item.state == State::Open);
        open.for_each(|item| item.end_half(attempt));
        self.commit_before_cut(attempt);
        let reason = if self.lossy { WithheldReason::Tainted } else { WithheldReason::Open };
        for item in &self.items {
            if let (State::Open, Some(name)) = (&item.state, &item.call) {
                attempt.withheld.push(WithheldCall { item: item.item, name: name.clone(), reason });
            }
        }
        // Items from the terminal event are committed last. They are sorted into their place.
        let place = |committed: &Item| {
            self.items.iter().find(|item| item.item == committed.number()).map_or(u32::MAX, |item| item.index)
        };
        attempt.committed.sort_by_key(place);
    }

    fn ends_with(&self, _: &[u8], _: &Attempt) -> bool {
        false
    }
}

impl Responses {
    /// The relation of an event with a response whose id varies: by its time, and there is one opening.
    fn relation_by_time(&self, event: &Event<'_>, response: &Response<'_>, attempt: &Attempt) -> Relation {
        match (attempt.identity.created, response.created_at.0) {
            _ if self.opens(event) && attempt.opened => Relation::Other(SpliceEvidence::Start),
            (Some(ours), Some(theirs)) if ours != theirs => Relation::Other(SpliceEvidence::Created),
            (Some(_), Some(_)) => Relation::Same,
            (Some(_) | None, _) => Relation::Unknown,
        }
    }

    fn checked(&self, event: &Event<'_>, attempt: &Attempt) -> Option<u64> {
        match attempt.profile.sequence {
            Sequence::Checked => event.sequence_number,
            Sequence::Ignored => None,
        }
    }

    /// How an event names its item, compared with the known items.
    fn naming(&self, event: &Event<'_>, attempt: &Attempt) -> Naming {
        let id = filled(&event.item_id).or_else(|| event.item.as_ref().and_then(|item| text_of(&item.id)));
        let (Some(id), Some(index)) = (id, event.output_index) else { return Naming::Nothing };
        let compared = match attempt.profile.item_id {
            Constancy::Constant | Constancy::WithoutId => true,
            Constancy::Varies => false,
        };
        let ours = self.items.iter().find(|item| item.index == index);
        match ours.map(|ours| ours.id.as_deref()) {
            None => Naming::New,
            Some(Some(our)) if our != id && compared => Naming::Wrong,
            Some(Some(_) | None) => Naming::Ours,
        }
    }

    /// Records an event's number, and reports a gap before it.
    fn number(&mut self, event: &Event<'_>, place: &Place<'_>, attempt: &mut Attempt) -> Numbered {
        let Some(number) = self.checked(event, attempt) else { return Numbered::Next };
        let says = self.numbers.check(number);
        let bearable = self.numbers.record(number);
        let kind = match says {
            Numbered::Next | Numbered::Seen => return says,
            Numbered::Ahead => AnomalyKind::Gap,
            Numbered::Late => AnomalyKind::OutOfOrder,
        };
        self.lost(kind, place.range.start..place.range.start, attempt);
        if !bearable {
            attempt.end_at(Over::Lost, place.range.start);
        }
        says
    }

    fn identify(&mut self, response: &Response<'_>, attempt: &mut Attempt) {
        let ours = &mut attempt.identity;
        let owned = |text| filled(text).map(str::to_owned);
        ours.id = ours.id.take().or_else(|| owned(&response.id));
        ours.model = ours.model.take().or_else(|| owned(&response.model));
        ours.created = ours.created.or(response.created_at.0);
        attempt.open();
    }

    fn place(&mut self, index: u32, attempt: &mut Attempt) -> Result<&mut OutputItem, AnomalyKind> {
        if let Some(at) = self.items.iter().position(|item| item.index == index) {
            return Ok(&mut self.items[at]);
        }
        let item = attempt.next_item().ok_or(AnomalyKind::TooMuch)?;
        self.items.push(OutputItem::new(index, item));
        self.items.last_mut().ok_or(AnomalyKind::TooMuch)
    }

    fn added(&mut self, event: &Event<'_>, attempt: &mut Attempt) -> Result<(), AnomalyKind> {
        let (index, item) = whole_item(event)?;
        let (id, call_name) = (text_of(&item.id), text_of(&item.name));
        if !attempt.grow(id.map_or(0, str::len) + call_name.map_or(0, str::len)) {
            return Err(AnomalyKind::TooMuch);
        }
        let place = self.place(index, attempt)?;
        place.remember(id);
        if let (Some(_), None) = (call_kind(item), &place.call) {
            let name = call_name.unwrap_or_default();
            place.call = Some(name.to_owned());
            attempt.call_started(place.item, text_of(&item.call_id), name);
        }
        Ok(())
    }

    /// Shows a delta of an open item.
    fn delta(
        &mut self,
        kind: &str,
        text: Option<Str<'_>>,
        event: &Event<'_>,
        attempt: &mut Attempt,
    ) -> Result<(), AnomalyKind> {
        let (Some(index), Some(text)) = (event.output_index, text) else {
            // Starts and ends of parts, searches, keep-alives, unknown events.
            attempt.keep_alive();
            let of = self.items.iter_mut().find(|item| Some(item.index) == event.output_index);
            of.into_iter().for_each(|item| item.end_half(attempt));
            return Ok(());
        };
        let found = self.items.iter_mut().find(|item| item.index == index && item.state == State::Open);
        let place = found.ok_or(AnomalyKind::NoSuchItem)?;
        let id = filled(&event.item_id);
        if place.id.is_none() && !attempt.grow(id.map_or(0, str::len)) {
            return Err(AnomalyKind::TooMuch);
        }
        place.remember(id);
        let shown = match kind {
            "response.output_text.delta" => Shown::Text,
            "response.refusal.delta" => Shown::Refusal,
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => Shown::Reasoning,
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                Shown::Arguments
            }
            _ => {
                attempt.keep_alive();
                return Ok(());
            }
        };
        place.show(shown, text, attempt);
        Ok(())
    }

    fn done_item(
        &mut self,
        event: &Event<'_>,
        place: &Place<'_>,
        attempt: &mut Attempt,
    ) -> Result<(), AnomalyKind> {
        let (index, item) = whole_item(event)?;
        self.accept_whole_item(index, item, Source::Event(place.data), attempt)
    }

    /// Accepts a complete item. A call waits for the end of the step; other items are committed.
    fn accept_whole_item(
        &mut self,
        index: u32,
        item: &wire::Item<'_>,
        source: Source<'_>,
        attempt: &mut Attempt,
    ) -> Result<(), AnomalyKind> {
        if !attempt.grow(source.text().len()) {
            return Err(AnomalyKind::TooMuch);
        }
        let loss = if self.lossy { Loss::Before } else { Loss::None };
        let place = self.place(index, attempt)?;
        place.remember(text_of(&item.id));
        // The complete item has the whole text, so a split character does not matter any more.
        place.seam = Seam::default();
        let number = place.item;
        let whole = read(item, number, source)?;
        match &place.state {
            State::Open => {}
            State::Committed(before) if *before == whole => {
                attempt.repair(Repair::DuplicateEvent);
                return Ok(());
            }
            State::Finished { call, .. } if whole.call().is_some_and(|whole| whole.is_same(call)) => {
                attempt.repair(Repair::DuplicateEvent);
                return Ok(());
            }
            State::Committed(_) | State::Finished { .. } => return Err(AnomalyKind::Contradiction),
            State::Withheld => return Ok(()),
        }
        let call = match whole {
            Item::Call(call) => call,
            Item::Message { .. } | Item::Reasoning { .. } | Item::Other { .. } => {
                place.state = State::Committed(whole.clone());
                attempt.commit(whole);
                return Ok(());
            }
        };
        place.call = Some(call.name.clone());
        // Calls of programs are done while the program waits for them. Only the end can confirm them.
        let (cut_short, loss) = match (text_of(&item.status), source) {
            (None | Some("completed"), _) => (false, loss),
            (Some("in_progress"), Source::Event(_)) => (false, Loss::Before),
            (Some(_), _) => (true, loss),
        };
        let is_sound = is_sound(&call) || (call.has_no_arguments() && !call.name.is_empty());
        if cut_short || is_damaged(item) || !is_sound {
            let reason = if cut_short { WithheldReason::Finish } else { WithheldReason::BadArguments };
            place.state = State::Withheld;
            attempt.withheld.push(WithheldCall { item: number, name: call.name, reason });
        } else {
            place.state = State::Finished { call, loss };
        }
        Ok(())
    }

    fn terminal(
        &mut self,
        kind: &str,
        event: &Event<'_>,
        place: &Place<'_>,
        attempt: &mut Attempt,
    ) -> Result<(), AnomalyKind> {
        let response = event.response.as_deref().ok_or(AnomalyKind::UnknownShape)?;
        self.identify(response, attempt);
        if let Some(raw) = response.usage {
            attempt.update_usage(usage::responses(raw));
        }
        let output = response.output.as_deref().unwrap_or_default();
        let mut listed = Vec::new();
        for (position, raw) in (0..).zip(output) {
            let item: wire::Item<'_> =
                turnstream_json::from_str(raw.get()).map_err(|_| AnomalyKind::UnknownShape)?;
            let index = self.listed_at(position, &item, output.len(), &listed, attempt);
            listed.push(index);
            let open = self.items.iter().find(|item| item.index == index);
            if open.is_none_or(|item| item.state == State::Open) {
                attempt.repair(Repair::Healed);
                self.accept_whole_item(index, &item, Source::Item(raw.get()), attempt)?;
            } else {
                self.compare(index, &item, Source::Item(raw.get()))?;
            }
        }
        if !output.is_empty() && self.items.iter().any(|item| item.is_unlisted_call(&listed)) {
            return Err(AnomalyKind::Contradiction);
        }
        let calls = self.items.iter().any(|item| item.call.is_some());
        match (kind, response.incomplete_details.as_ref().and_then(|details| filled(&details.reason))) {
            // A response with `incomplete_details` is incomplete, whatever the event is called.
            ("response.completed", None) if calls => attempt.finish("completed", FinishMeaning::ToolCalls),
            ("response.completed", None) => attempt.finish("completed", FinishMeaning::Stop),
            (_, Some(reason @ "max_output_tokens")) => attempt.finish(reason, FinishMeaning::Length),
            (_, Some(reason @ "content_filter")) => attempt.finish(reason, FinishMeaning::ContentFilter),
            (_, reason) => attempt.finish(reason.unwrap_or("incomplete"), FinishMeaning::Unknown),
        }
        attempt.end_at(Over::Done, place.range.end);
        let left_open = self.items.iter().any(|item| item.state == State::Open);
        // A whole item may have been lost. Only the list at the end can disprove that.
        if left_open || (self.lossy && output.is_empty()) {
            return Err(AnomalyKind::LeftOpen);
        }
        attempt.complete = !attempt.contradicted();
        if attempt.complete {
            self.commit_step(attempt);
        }
        Ok(())
    }

    /// Compares a complete call with the list at the end.
    fn compare(&self, index: u32, item: &wire::Item<'_>, source: Source<'_>) -> Result<(), AnomalyKind> {
        let Some(ours) = self.items.iter().find(|ours| ours.index == index) else { return Ok(()) };
        let before = match &ours.state {
            State::Finished { call, .. } => Some(call),
            State::Committed(_) => None,
            State::Open | State::Withheld => return Ok(()),
        };
        // Servers shorten texts here and omit encrypted data, so only calls are compared.
        match (before, read(item, ours.item, source)?.call()) {
            (None, None) => Ok(()),
            (Some(ours), Some(theirs)) if ours.is_same(theirs) => Ok(()),
            (Some(_) | None, _) => Err(AnomalyKind::Contradiction),
        }
    }

    /// The index of an item in the list at the end. Indexes may have gaps, which the list does not have: so
    /// ids come first, then the order.
    fn listed_at(
        &self,
        position: u32,
        item: &wire::Item<'_>,
        length: usize,
        listed: &[u32],
        attempt: &Attempt,
    ) -> u32 {
        let free = |known: &&OutputItem| !listed.contains(&known.index);
        let ids = match attempt.profile.item_id {
            Constancy::Constant | Constancy::WithoutId => text_of(&item.id),
            Constancy::Varies => None,
        };
        let by_id = |known: &&OutputItem| ids.is_some() && known.id.as_deref() == ids;
        let by_call = |known: &&OutputItem| match (&known.state, text_of(&item.call_id)) {
            (State::Finished { call, .. }, Some(id)) => call.id.as_deref() == Some(id),
            (State::Open | State::Committed(_) | State::Withheld | State::Finished { .. }, _) => false,
        };
        let mut known = self.items.iter().filter(free);
        if let Some(known) = known.clone().find(by_id).or_else(|| known.find(by_call)) {
            return known.index;
        }
        let mut indexes: Vec<u32> = self.items.iter().map(|known| known.index).collect();
        indexes.sort_unstable();
        let by_order = if indexes.len() == length { indexes.get(position as usize).copied() } else { None };
        let index = by_order.unwrap_or(position);
        // An item that only the list has, beside one that took its place.
        let next = indexes.iter().chain(listed).max().map_or(0, |last| last.saturating_add(1));
        if listed.contains(&index) { next } else { index }
    }
}
