//! Responses: events are numbered and every item comes whole once more. Deltas are only for showing; what counts is
//! `output_item.done`, and `response.completed` where that was lost.

use super::attempt::{Attempt, Over};
use super::calls::is_sound;
use super::sequence::{Numbered, Numbers};
use super::{Place, Relation, Wire};
use crate::attempt::{
    AnomalyKind, Call, CallKind, Evidence, Item, ItemNo, Kept, Meaning, Repair, Transport, Why, Withheld,
};
use crate::profile::{Constancy, Sequence};
use crate::wire::responses::{self as wire, Event, Part, Response, said};
use crate::wire::{error, filled, usage};
use std::ops::Range;

/// One response as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct Responses {
    numbers: Numbers,
    /// By `output_index`.
    items: Vec<OutputItem>,
    /// Something was lost that the protocol may bring again.
    lossy: bool,
}

#[derive(Debug)]
struct OutputItem {
    index: u32,
    item: ItemNo,
    /// The id under which it was first spoken of.
    id: Option<String>,
    /// A call's tool, for what is told of one that is not committed.
    call: Option<String>,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Open,
    /// Whole and committed, with its place in the list of those.
    Committed(Item),
    /// Whole, and a call that may not run.
    Withheld,
}

/// Where the text of an item is, for those that are kept as they came.
#[derive(Clone, Copy)]
enum Source<'a> {
    /// It is the item of this event.
    Event(&'a str),
    /// This is it.
    Item(&'a str),
}

/// How an event names the item that it speaks of.
enum Naming {
    /// As we know it.
    Ours,
    /// It is the first to speak of an item at this place.
    New,
    /// As another than we know at this place.
    Wrong,
    /// Not at all.
    Nothing,
}

impl Wire for Responses {
    type Event<'a> = Event<'a>;

    fn apply(&mut self, event: &Event<'_>, place: &Place<'_>, attempt: &mut Attempt) {
        let kind = filled(&event.kind).unwrap_or(place.name);
        if kind == "error" {
            let raw = event.error.map_or(place.data, |raw| raw.get());
            return attempt.fail(error::read(raw, place.data, &attempt.profile), place.range.start);
        }
        if let Relation::Other(evidence) = self.relation(event, attempt) {
            attempt.find(evidence, place.range.start, self.id(event));
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
            // Of the same name, or it would be another's by now. What follows may be the same answer again.
            "response.created" if attempt.opened && !late => Err(AnomalyKind::SecondOpening),
            "response.created" | "response.in_progress" | "response.queued" => {
                if let Some(response) = event.response.as_deref() {
                    self.identify(response, attempt);
                }
                Ok(())
            }
            "response.output_item.added" => self.added(event, attempt),
            "response.output_item.done" => self.done_item(event, place, attempt),
            "response.completed" | "response.incomplete" => self.terminal(kind, event, place, attempt),
            "response.failed" | "response.cancelled" => {
                let error = event.response.as_ref().and_then(|response| response.error);
                let raw = error.map_or(place.data, |raw| raw.get());
                return attempt.fail(error::read(raw, place.data, &attempt.profile), place.range.start);
            }
            // Behind a later one it would be shown in the wrong place. The whole item brings it again.
            _ if late => Ok(()),
            _ => self.delta(kind, event, attempt),
        };
        if let Err(kind) = kept {
            self.lost(kind, place.range.clone(), attempt);
        }
    }

    fn relation(&self, event: &Event<'_>, attempt: &Attempt) -> Relation {
        let theirs = event.response.as_ref().and_then(|response| filled(&response.id));
        match (&attempt.identity.id, theirs) {
            (Some(ours), Some(theirs)) if ours != theirs => {
                let evidence = if self.opens(event) { Evidence::Start } else { Evidence::Id };
                return Relation::Other(evidence);
            }
            (Some(_), Some(_)) => return Relation::Same,
            (Some(_) | None, _) => {}
        }
        let naming = self.naming(event, attempt);
        let seen = self.checked(event, attempt).map(|number| self.numbers.look(number));
        match (naming, seen) {
            (Naming::Wrong, _) => Relation::Other(Evidence::Id),
            // It speaks of an item that we do not know, under a number that is taken.
            (Naming::New, Some(Numbered::Seen)) => Relation::Other(Evidence::SequenceReset),
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

    /// What is lost is missed by its number, and comes again in the whole items. Without numbers nobody knows.
    fn lost(&mut self, kind: AnomalyKind, range: Range<u64>, attempt: &mut Attempt) {
        let at = range.end;
        let open = self.items.iter().filter(|item| item.state == State::Open).map(|item| item.item);
        attempt.anomaly(kind, range, open.collect());
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

    /// Some proxies send it here, too. It means nothing.
    fn done(&mut self, _: &Place<'_>, _: &mut Attempt) {}

    fn end(&mut self, _: Transport, attempt: &mut Attempt) {
        let why = if self.lossy { Why::Tainted } else { Why::Open };
        for item in &self.items {
            if let (State::Open, Some(name)) = (&item.state, &item.call) {
                attempt.withheld.push(Withheld { item: item.item, name: name.clone(), why });
            }
        }
        // Healed items are committed last and belong in their place.
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
    fn checked(&self, event: &Event<'_>, attempt: &Attempt) -> Option<u64> {
        match attempt.profile.sequence {
            Sequence::Checked => event.sequence_number,
            Sequence::Ignored => None,
        }
    }

    /// Whether the item that an event speaks of is one of ours.
    fn naming(&self, event: &Event<'_>, attempt: &Attempt) -> Naming {
        let id = filled(&event.item_id).or_else(|| event.item.as_ref().and_then(|item| said(&item.id)));
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

    /// Takes an event's number, and tells of a gap in front of it.
    fn number(&mut self, event: &Event<'_>, place: &Place<'_>, attempt: &mut Attempt) -> Numbered {
        let Some(number) = self.checked(event, attempt) else { return Numbered::Next };
        let says = self.numbers.look(number);
        let bearable = self.numbers.take(number);
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
        let item = attempt.number().ok_or(AnomalyKind::TooMuch)?;
        self.items.push(OutputItem { index, item, id: None, call: None, state: State::Open });
        self.items.last_mut().ok_or(AnomalyKind::TooMuch)
    }

    fn added(&mut self, event: &Event<'_>, attempt: &mut Attempt) -> Result<(), AnomalyKind> {
        let (index, item) = whole_item(event)?;
        let place = self.place(index, attempt)?;
        place.remember(said(&item.id));
        if let (Some(_), None) = (call_kind(item), &place.call) {
            let name = said(&item.name).unwrap_or_default();
            place.call = Some(name.to_owned());
            attempt.began(place.item, said(&item.call_id), name);
        }
        Ok(())
    }

    /// A delta of an item is shown. One that was not announced is missed by its number, or lost with it.
    fn delta(&mut self, kind: &str, event: &Event<'_>, attempt: &mut Attempt) -> Result<(), AnomalyKind> {
        let text = event.delta.as_ref().and_then(|delta| delta.0.as_deref());
        let (Some(index), Some(text)) = (event.output_index, text.filter(|text| !text.is_empty())) else {
            // Parts that begin and end, searches, keepalives, whatever is added.
            attempt.alive();
            return Ok(());
        };
        let found = self.items.iter_mut().find(|item| item.index == index && item.state == State::Open);
        let place = found.ok_or(AnomalyKind::NoSuchItem)?;
        place.remember(filled(&event.item_id));
        let item = place.item;
        match kind {
            "response.output_text.delta" => attempt.text(item, text),
            "response.refusal.delta" => attempt.refusal(item, text),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                attempt.reasoning(item, text);
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                attempt.arguments(item, text);
            }
            _ => attempt.alive(),
        }
        Ok(())
    }

    fn done_item(
        &mut self,
        event: &Event<'_>,
        place: &Place<'_>,
        attempt: &mut Attempt,
    ) -> Result<(), AnomalyKind> {
        let (index, item) = whole_item(event)?;
        self.settle(index, item, Source::Event(place.data), attempt)
    }

    /// Commits an item that came whole, unless it is a call that may not run.
    fn settle(
        &mut self,
        index: u32,
        item: &wire::Item<'_>,
        source: Source<'_>,
        attempt: &mut Attempt,
    ) -> Result<(), AnomalyKind> {
        if !attempt.grow(source.text().len()) {
            return Err(AnomalyKind::TooMuch);
        }
        let place = self.place(index, attempt)?;
        place.remember(said(&item.id));
        let number = place.item;
        let whole = read(item, number, source)?;
        match &place.state {
            State::Open => {}
            State::Committed(before) if *before == whole => {
                attempt.repair(Repair::DuplicateEvent);
                return Ok(());
            }
            State::Committed(_) => return Err(AnomalyKind::Contradiction),
            State::Withheld => return Ok(()),
        }
        if let Some(call) = whole.call() {
            let cut_short = said(&item.status).is_some_and(|status| status != "completed");
            let why =
                if cut_short { Some(Why::Finish) } else { (!is_sound(call)).then_some(Why::BadArguments) };
            place.call = Some(call.name.clone());
            if let Some(why) = why {
                place.state = State::Withheld;
                attempt.withheld.push(Withheld { item: number, name: call.name.clone(), why });
                return Ok(());
            }
        }
        place.state = State::Committed(whole.clone());
        attempt.commit(whole);
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
            attempt.use_up(usage::responses(raw));
        }
        let output = response.output.as_deref().unwrap_or_default();
        for (index, raw) in (0..).zip(output) {
            let item: wire::Item<'_> =
                serde_json::from_str(raw.get()).map_err(|_| AnomalyKind::UnknownShape)?;
            let open = self.items.iter().find(|item| item.index == index);
            if open.is_none_or(|item| item.state == State::Open) {
                attempt.repair(Repair::Healed);
                self.settle(index, &item, Source::Item(raw.get()), attempt)?;
            } else {
                self.compare(index, &item, Source::Item(raw.get()))?;
            }
        }
        if !output.is_empty() && self.items.iter().any(|item| item.is_unlisted_call(output.len())) {
            return Err(AnomalyKind::Contradiction);
        }
        let calls = self.items.iter().any(|item| item.call.is_some());
        match (kind, response.incomplete_details.as_ref().and_then(|details| filled(&details.reason))) {
            ("response.completed", _) if calls => attempt.finish("completed", Meaning::ToolCalls),
            ("response.completed", _) => attempt.finish("completed", Meaning::Stop),
            (_, Some(reason @ "max_output_tokens")) => attempt.finish(reason, Meaning::Length),
            (_, Some(reason @ "content_filter")) => attempt.finish(reason, Meaning::ContentFilter),
            (_, reason) => attempt.finish(reason.unwrap_or("incomplete"), Meaning::Unknown),
        }
        attempt.end_at(Over::Done, place.range.end);
        let left_open = self.items.iter().any(|item| item.state == State::Open);
        // What was lost may have been a whole item, and only the list at the end can say that it was not.
        if left_open || (self.lossy && output.is_empty()) {
            return Err(AnomalyKind::LeftOpen);
        }
        attempt.complete = !attempt.contradicted();
        Ok(())
    }

    /// An item that was committed must be the same in the list at the end.
    fn compare(&self, index: u32, item: &wire::Item<'_>, source: Source<'_>) -> Result<(), AnomalyKind> {
        let Some(ours) = self.items.iter().find(|ours| ours.index == index) else { return Ok(()) };
        let State::Committed(before) = &ours.state else { return Ok(()) };
        match (before.call(), read(item, ours.item, source)?.call()) {
            (Some(before), Some(after)) if before == after => Ok(()),
            // Servers shorten texts here and leave out what was encrypted; only calls are held to it.
            (None, None) => Ok(()),
            (Some(_) | None, _) => Err(AnomalyKind::Contradiction),
        }
    }
}

impl<'a> Source<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Event(text) | Self::Item(text) => text,
        }
    }

    fn item(self) -> &'a str {
        match self {
            Self::Event(text) => {
                let event: Option<wire::RawItem<'a>> = serde_json::from_str(text).ok();
                event.and_then(|event| event.item).map_or("", |item| item.get())
            }
            Self::Item(text) => text,
        }
    }
}

impl OutputItem {
    /// A committed call behind the last of so many items in the list at the end: that response did not make it.
    fn is_unlisted_call(&self, listed: usize) -> bool {
        let is_call = match &self.state {
            State::Committed(item) => item.call().is_some(),
            State::Open | State::Withheld => false,
        };
        is_call && self.index as usize >= listed
    }

    fn remember(&mut self, id: Option<&str>) {
        if self.id.is_none() {
            self.id = id.map(str::to_owned);
        }
    }
}

fn whole_item<'e, 'a>(event: &'e Event<'a>) -> Result<(u32, &'e wire::Item<'a>), AnomalyKind> {
    match (event.output_index, event.item.as_deref()) {
        (Some(index), Some(item)) => Ok((index, item)),
        (Some(_) | None, _) => Err(AnomalyKind::UnknownShape),
    }
}

fn call_kind(item: &wire::Item<'_>) -> Option<CallKind> {
    match &*item.kind {
        "function_call" => Some(CallKind::Function),
        "custom_tool_call" => Some(CallKind::Custom),
        _ => None,
    }
}

/// An item as it came whole.
fn read(item: &wire::Item<'_>, number: ItemNo, source: Source<'_>) -> Result<Item, AnomalyKind> {
    let owned = |member| said(member).map(str::to_owned);
    if let Some(kind) = call_kind(item) {
        let arguments = match kind {
            CallKind::Function => &item.arguments,
            CallKind::Custom => &item.input,
        };
        return Ok(Item::Call(Call {
            item: number,
            id: owned(&item.call_id),
            name: owned(&item.name).unwrap_or_default(),
            arguments: owned(arguments).unwrap_or_default(),
            kind,
        }));
    }
    match &*item.kind {
        "message" => Ok(Item::Message { item: number, text: texts(item.content, "")? }),
        "reasoning" => {
            let summary = texts(item.summary, "\n\n")?;
            let text = if summary.is_empty() { texts(item.content, "")? } else { summary };
            let kept = owned(&item.encrypted_content).map(Kept::Encrypted);
            Ok(Item::Reasoning { item: number, text, kept: kept.into_iter().collect() })
        }
        kind => Ok(Item::Other { item: number, kind: kind.to_owned(), raw: source.item().to_owned() }),
    }
}

fn texts(raw: Option<&serde_json::value::RawValue>, between: &str) -> Result<String, AnomalyKind> {
    let Some(raw) = raw else { return Ok(String::new()) };
    let parts: Vec<Part<'_>> = serde_json::from_str(raw.get()).map_err(|_| AnomalyKind::UnknownShape)?;
    let texts = parts.iter().filter_map(|part| filled(&part.text).or_else(|| filled(&part.refusal)));
    Ok(texts.collect::<Vec<_>>().join(between))
}
