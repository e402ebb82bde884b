//! The items of a response: their state, and their complete form.

use crate::attempt::{AnomalyKind, Extra, Item, ItemNo, ReasoningData, ToolCall, ToolCallKind};
use crate::decode::attempt::Attempt;
use crate::wire::responses::{self as wire, Event, Part, text_of};
use crate::wire::{ShortList, Str, filled, unread};
use serde_json::value::RawValue;
use std::borrow::Cow;
use turnstream_json::Seam;

/// An item of the response, by its `output_index`.
#[derive(Debug)]
pub(super) struct OutputItem {
    pub(super) index: u32,
    pub(super) item: ItemNo,
    /// The first id that an event gave it.
    pub(super) id: Option<String>,
    /// The name of the tool, if the item is a call.
    pub(super) call: Option<String>,
    pub(super) state: State,
    /// The kind of its last delta.
    pub(super) shown: Shown,
    /// Joins characters that are split between deltas.
    pub(super) seam: Seam,
}

/// The kind of a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Text,
    Refusal,
    Reasoning,
    Arguments,
}

/// The state of an item.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    Open,
    /// Complete and committed.
    Committed(Item),
    /// A complete call. The end of the step decides whether it counts.
    Finished {
        call: ToolCall,
        loss: Loss,
    },
    /// A call that ended and may not run.
    Withheld,
}

/// Whether something was lost before a call was complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// Nothing was lost: the call belongs to this response.
    None,
    /// Something was lost. Only the end of the response can confirm the call.
    Before,
}

/// Where the JSON of an item is, for items that are passed on unread.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// The `item` member of this event.
    Event(&'a str),
    /// The item itself.
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
    /// A new item.
    pub(super) fn new(index: u32, item: ItemNo) -> Self {
        let (shown, seam) = (Shown::Text, Seam::default());
        Self { index, item, id: None, call: None, state: State::Open, shown, seam }
    }

    /// Whether this is a complete call that the list at the end does not contain.
    pub(super) fn is_unlisted_call(&self, listed: &[u32]) -> bool {
        let is_call = match &self.state {
            State::Finished { .. } => true,
            State::Open | State::Committed(_) | State::Withheld => false,
        };
        is_call && !listed.contains(&self.index)
    }

    /// Shows a delta.
    pub(super) fn show(&mut self, shown: Shown, delta: Str<'_>, attempt: &mut Attempt) {
        if self.shown != shown {
            self.end_half(attempt);
            self.shown = shown;
        }
        let text = self.seam.join(delta);
        self.push_event(text, attempt);
    }

    /// Ends a text or a part of it. Half a character at its end becomes U+FFFD.
    pub(super) fn end_half(&mut self, attempt: &mut Attempt) {
        if let Some(lost) = self.seam.end() {
            self.push_event(Cow::Owned(lost.to_string()), attempt);
        }
    }

    fn push_event(&self, text: Cow<'_, str>, attempt: &mut Attempt) {
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

/// The index and item of an event that must have both.
pub(super) fn whole_item<'e, 'a>(event: &'e Event<'a>) -> Result<(u32, &'e wire::Item<'a>), AnomalyKind> {
    match (event.output_index, event.item.as_deref()) {
        (Some(index), Some(item)) => Ok((index, item)),
        (Some(_) | None, _) => Err(AnomalyKind::UnknownShape),
    }
}

/// The kind of a call; `None` if the item is not a call.
pub(super) fn call_kind(item: &wire::Item<'_>) -> Option<ToolCallKind> {
    match &*item.kind {
        "function_call" => Some(ToolCallKind::Function),
        "custom_tool_call" => Some(ToolCallKind::Custom),
        _ => None,
    }
}

/// Whether the arguments of a call have half a character.
pub(super) fn is_damaged(item: &wire::Item<'_>) -> bool {
    let arguments = [&item.arguments, &item.input].into_iter().flatten();
    arguments.filter_map(|loose| loose.0.as_ref()).any(Str::has_halves)
}

/// Reads a complete item.
pub(super) fn read(item: &wire::Item<'_>, number: ItemNo, source: Source<'_>) -> Result<Item, AnomalyKind> {
    let owned = |member| text_of(member).map(str::to_owned);
    let extra = |known: &[&str]| Extra {
        id: owned(&item.id),
        unread: unread_of(item, source.item(), known).into_iter().collect(),
    };
    if let Some(kind) = call_kind(item) {
        let arguments = match kind {
            ToolCallKind::Function => &item.arguments,
            ToolCallKind::Custom => &item.input,
        };
        return Ok(Item::Call(ToolCall {
            item: number,
            id: owned(&item.call_id),
            name: owned(&item.name).unwrap_or_default(),
            arguments: owned(arguments).unwrap_or_default(),
            kind,
            extra: extra(&CALL),
        }));
    }
    match &*item.kind {
        "message" => {
            Ok(Item::Message { item: number, text: texts(item.content, "")?, extra: extra(&MESSAGE) })
        }
        "reasoning" => {
            let summary = texts(item.summary, "\n\n")?;
            let text = if summary.is_empty() { texts(item.content, "")? } else { summary };
            let kept = owned(&item.encrypted_content).map(ReasoningData::Encrypted);
            Ok(Item::Reasoning {
                item: number,
                text,
                kept: kept.into_iter().collect(),
                extra: extra(&REASONING),
            })
        }
        kind => Ok(Item::Other {
            item: number,
            kind: kind.to_owned(),
            raw: source.item().to_owned(),
            extra: Extra { id: owned(&item.id), unread: Vec::new() },
        }),
    }
}

/// The members of an item that are read.
const CALL: [&str; 7] = ["type", "id", "status", "call_id", "name", "arguments", "input"];
const MESSAGE: [&str; 5] = ["type", "id", "status", "role", "content"];
const REASONING: [&str; 6] = ["type", "id", "status", "summary", "content", "encrypted_content"];

/// What is not read of an item: other members, and the content if its parts have other members.
fn unread_of(item: &wire::Item<'_>, raw: &str, known: &[&str]) -> Option<String> {
    let parts: Vec<&RawValue> =
        item.content.and_then(|raw| turnstream_json::from_str(raw.get()).ok()).unwrap_or_default();
    let is_plain = |part: &&RawValue| unread::members(part.get(), &["type", "text", "refusal"]).is_none();
    if parts.iter().all(is_plain) {
        return unread::members(raw, known);
    }
    let known: Vec<&str> = known.iter().copied().filter(|name| *name != "content").collect();
    unread::members(raw, &known)
}

fn texts(raw: Option<&RawValue>, between: &str) -> Result<String, AnomalyKind> {
    let Some(raw) = raw else { return Ok(String::new()) };
    let parts: ShortList<Part<'_>> =
        turnstream_json::from_str(raw.get()).map_err(|_| AnomalyKind::UnknownShape)?;
    let texts =
        parts.as_slice().iter().filter_map(|part| filled(&part.text).or_else(|| filled(&part.refusal)));
    Ok(texts.collect::<Vec<_>>().join(between))
}
