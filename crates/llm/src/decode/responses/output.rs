//! The items of a response: as far as they have come, and read from where they came whole.

use crate::attempt::{AnomalyKind, Call, CallKind, Item, ItemNo, Kept};
use crate::decode::attempt::Attempt;
use crate::wire::responses::{self as wire, Event, Part, said};
use crate::wire::{Few, Str, filled};
use serde_json::value::RawValue;
use std::borrow::Cow;
use turnstream_json::Seam;

/// An item of the response, by its `output_index`.
#[derive(Debug)]
pub(super) struct OutputItem {
    pub(super) index: u32,
    pub(super) item: ItemNo,
    /// The id under which it was first spoken of.
    pub(super) id: Option<String>,
    /// A call's tool, for what is told of one that is not committed.
    pub(super) call: Option<String>,
    pub(super) state: State,
    /// What its deltas last were of, and where they meet.
    pub(super) shown: Shown,
    pub(super) seam: Seam,
}

/// What a delta is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Text,
    Refusal,
    Reasoning,
    Arguments,
}

/// How far an item has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    Open,
    /// Whole and committed.
    Committed(Item),
    /// A call that is whole. Whether it counts is known at the end of the step, which may yet be `length`.
    Finished {
        call: Call,
        loss: Loss,
    },
    /// A call that came to its end and may not run.
    Withheld,
}

/// Whether something had been lost when a call came whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// Nothing: the call is certainly of this response.
    None,
    /// Something. Only the end of the response can say that the call is its own.
    Before,
}

/// Where the text of an item is, for those that are kept as they came.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// It is the item of this event.
    Event(&'a str),
    /// This is it.
    Item(&'a str),
}

impl<'a> Source<'a> {
    pub(super) fn text(self) -> &'a str {
        match self {
            Self::Event(text) | Self::Item(text) => text,
        }
    }

    fn item(self) -> &'a str {
        match self {
            Self::Event(text) => {
                let event: Option<wire::RawItem<'a>> = turnstream_json::from_str(text).ok();
                event.and_then(|event| event.item).map_or("", |item| item.get())
            }
            Self::Item(text) => text,
        }
    }
}

impl OutputItem {
    /// One that was just heard of.
    pub(super) fn new(index: u32, item: ItemNo) -> Self {
        let (shown, seam) = (Shown::Text, Seam::default());
        Self { index, item, id: None, call: None, state: State::Open, shown, seam }
    }

    /// A whole call behind the last of so many items in the list at the end: that response did not make it.
    pub(super) fn is_unlisted_call(&self, listed: usize) -> bool {
        let is_call = match &self.state {
            State::Finished { .. } => true,
            State::Open | State::Committed(_) | State::Withheld => false,
        };
        is_call && self.index as usize >= listed
    }

    /// Shows what a delta adds.
    pub(super) fn show(&mut self, shown: Shown, delta: Str<'_>, attempt: &mut Attempt) {
        if self.shown != shown {
            self.end_half(attempt);
            self.shown = shown;
        }
        let text = self.seam.join(delta);
        self.tell(text, attempt);
    }

    /// The text, or a part of it, is over: half a character at its end stays alone.
    pub(super) fn end_half(&mut self, attempt: &mut Attempt) {
        if let Some(lost) = self.seam.end() {
            self.tell(Cow::Owned(lost.to_string()), attempt);
        }
    }

    fn tell(&self, text: Cow<'_, str>, attempt: &mut Attempt) {
        match self.shown {
            Shown::Text => attempt.text(self.item, text),
            Shown::Refusal => attempt.refusal(self.item, text),
            Shown::Reasoning => attempt.reasoning(self.item, text),
            Shown::Arguments => attempt.arguments(self.item, text),
        }
    }

    pub(super) fn remember(&mut self, id: Option<&str>) {
        if self.id.is_none() {
            self.id = id.map(str::to_owned);
        }
    }
}

/// The item of an event that must have one.
pub(super) fn whole_item<'e, 'a>(event: &'e Event<'a>) -> Result<(u32, &'e wire::Item<'a>), AnomalyKind> {
    match (event.output_index, event.item.as_deref()) {
        (Some(index), Some(item)) => Ok((index, item)),
        (Some(_) | None, _) => Err(AnomalyKind::UnknownShape),
    }
}

/// What the arguments are, if the item is a call.
pub(super) fn call_kind(item: &wire::Item<'_>) -> Option<CallKind> {
    match &*item.kind {
        "function_call" => Some(CallKind::Function),
        "custom_tool_call" => Some(CallKind::Custom),
        _ => None,
    }
}

/// Whether half a character is missing in the arguments of a call.
pub(super) fn is_damaged(item: &wire::Item<'_>) -> bool {
    let arguments = [&item.arguments, &item.input].into_iter().flatten();
    arguments.filter_map(|loose| loose.0.as_ref()).any(Str::has_halves)
}

/// An item as it came whole.
pub(super) fn read(item: &wire::Item<'_>, number: ItemNo, source: Source<'_>) -> Result<Item, AnomalyKind> {
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

fn texts(raw: Option<&RawValue>, between: &str) -> Result<String, AnomalyKind> {
    let Some(raw) = raw else { return Ok(String::new()) };
    let parts: Few<Part<'_>> = turnstream_json::from_str(raw.get()).map_err(|_| AnomalyKind::UnknownShape)?;
    let texts =
        parts.as_slice().iter().filter_map(|part| filled(&part.text).or_else(|| filled(&part.refusal)));
    Ok(texts.collect::<Vec<_>>().join(between))
}
