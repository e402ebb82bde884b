//! The messages format (Anthropic).
//!
//! Its grammar of blocks shows a missing beginning or end. But no event after `message_start` names the
//! message, so after a loss the rest cannot be attributed, and the attempt is over.

use super::attempt::{Attempt, Over};
use super::calls::{ReceivedCall, commit_calls};
use super::{Place, Relation, Wire};
use crate::attempt::{
    AnomalyKind, Extra, FinishMeaning, Item, ItemNo, ReasoningData, Repair, SpliceEvidence, StreamEvent,
    ToolCall, ToolCallKind, Transport, WithheldCall, WithheldReason,
};
use crate::profile::EmptyArguments;
use crate::wire::messages::{Block, Delta, Event, Message, RawDelta};
use crate::wire::{Str, error, filled, object, quick, take_filled, unread, usage};
use serde_json::Value;
use std::ops::Range;
use turnstream_json::Seam;

/// The state of one message.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    started: bool,
    blocks: Vec<OpenBlock>,
    tainted: bool,
}

#[derive(Debug)]
struct OpenBlock {
    item: ItemNo,
    content: Content,
    /// Joins characters that are split between deltas.
    seam: Seam,
    stopped: bool,
    /// What is not read of it: members of its opening, and deltas of unknown types.
    unread: Vec<String>,
}

#[derive(Debug)]
enum Content {
    Text(String),
    Thinking {
        text: String,
        kept: Vec<ReasoningData>,
    },
    Call {
        id: Option<String>,
        name: String,
        arguments: String,
    },
    /// A block of another kind: as it was opened, with the input that was streamed to it.
    Other {
        kind: String,
        raw: String,
        input: String,
    },
}

impl OpenBlock {
    /// Ends the text. Half a character at its end becomes U+FFFD.
    fn end_half(&mut self, attempt: &mut Attempt) {
        let Some(lost) = self.seam.end() else { return };
        let delta = lost.to_string().into();
        match &mut self.content {
            Content::Text(text) => {
                text.push(lost);
                attempt.text(self.item, delta);
            }
            Content::Thinking { text, .. } => {
                text.push(lost);
                attempt.reasoning(self.item, delta);
            }
            Content::Call { arguments, .. } => {
                arguments.push(lost);
                attempt.arguments(self.item, delta);
            }
            Content::Other { input, .. } => input.push(lost),
        }
    }
}

impl Wire for Messages {
    type Event<'a> = Event<'a>;

    fn quick(data: &str) -> Option<Event<'_>> {
        quick::messages(data)
    }

    fn apply(&mut self, event: &mut Event<'_>, place: &Place<'_>, attempt: &mut Attempt) {
        let kind = filled(&event.kind).unwrap_or(place.name);
        if kind == "error" || (event.error.is_some() && place.name == "error") {
            let raw = event.error.map_or(place.data, |raw| raw.get());
            return attempt.fail(error::read(raw, place.data, &attempt.profile), place.range.start);
        }
        let kept = match kind {
            "content_block_delta" => self.delta(event, place, attempt),
            // The same opening again, with nothing between: nothing can be mixed.
            "message_start" if self.repeats_start(event, attempt) => {
                attempt.repair(Repair::DuplicateEvent);
                Ok(())
            }
            "message_start" if self.started => {
                attempt.record_splice(SpliceEvidence::Start, place.range.start, self.id(event));
                return attempt.end_at(Over::Spliced, place.range.start);
            }
            "message_start" => self.start(event, attempt),
            "content_block_start" => self.start_block(event, attempt),
            "content_block_stop" => self.stop_block(event, attempt),
            "message_delta" => self.finish(event, attempt),
            "message_stop" => return self.stop(place, attempt),
            // `ping`, and unknown types: Anthropic asks clients to ignore them.
            _ => {
                attempt.keep_alive();
                Ok(())
            }
        };
        if let Err(kind) = kept {
            self.lost(kind, place.range.clone(), attempt);
        }
    }

    fn relation(&self, event: &Event<'_>, _: &Attempt) -> Relation {
        match self.opens(event) && self.started {
            true => Relation::Other(SpliceEvidence::Start),
            false => Relation::Unknown,
        }
    }

    fn opens(&self, event: &Event<'_>) -> bool {
        event.kind.as_deref() == Some("message_start")
    }

    fn id(&self, event: &Event<'_>) -> Option<String> {
        filled(&message(event).id).map(str::to_owned)
    }

    fn lost(&mut self, kind: AnomalyKind, range: Range<u64>, attempt: &mut Attempt) {
        let at = range.end;
        attempt.anomaly(kind, range, self.blocks.iter().map(|block| block.item));
        self.tainted = true;
        attempt.end_at(Over::Lost, at);
    }

    /// Some proxies send `[DONE]` here too. It is ignored.
    fn done(&mut self, _: &Place<'_>, _: &mut Attempt) {}

    fn end(&mut self, _: Transport, attempt: &mut Attempt) {
        if attempt.complete {
            return;
        }
        let reason = if self.tainted { WithheldReason::Tainted } else { WithheldReason::Open };
        self.blocks.iter_mut().for_each(|block| block.end_half(attempt));
        for block in self.blocks.drain(..) {
            if let Content::Call { name, .. } = block.content {
                attempt.withheld.push(WithheldCall { item: block.item, name, reason });
            }
        }
    }

    fn ends_with(&self, _: &[u8], _: &Attempt) -> bool {
        false
    }
}

impl Messages {
    fn repeats_start(&self, event: &Event<'_>, attempt: &Attempt) -> bool {
        let id = self.id(event);
        let is_untouched = self.started && self.blocks.is_empty() && attempt.finish.is_none();
        is_untouched && id.is_some() && id == attempt.identity.id
    }

    fn start(&mut self, event: &Event<'_>, attempt: &mut Attempt) -> Result<(), AnomalyKind> {
        if event.message.is_none() {
            return Err(AnomalyKind::UnknownShape);
        }
        self.started = true;
        let message = message(event);
        attempt.identity.id = filled(&message.id).map(str::to_owned);
        attempt.identity.model = filled(&message.model).map(str::to_owned);
        attempt.open();
        if let Some(raw) = message.usage {
            attempt.update_usage(usage::messages(raw));
        }
        Ok(())
    }

    fn start_block(&mut self, event: &Event<'_>, attempt: &mut Attempt) -> Result<(), AnomalyKind> {
        if !self.started {
            return Err(AnomalyKind::NoSuchItem);
        }
        if attempt.finish.is_some() {
            return Err(AnomalyKind::AfterFinish);
        }
        // Blocks are numbered without gaps, so a lost block is noticed.
        if event.index.map(|index| index as usize) != Some(self.blocks.len()) {
            return Err(AnomalyKind::OpenedTwice);
        }
        let raw = event.content_block.ok_or(AnomalyKind::UnknownShape)?.get();
        let mut block: Block<'_> = object(raw).ok_or(AnomalyKind::UnknownShape)?;
        let item = attempt.next_item().ok_or(AnomalyKind::TooMuch)?;
        let owned = |text: &Option<_>| filled(text).map(str::to_owned);
        let content = match &*block.kind {
            "text" => Content::Text(String::new()),
            "thinking" => Content::Thinking { text: String::new(), kept: Vec::new() },
            "redacted_thinking" => {
                let kept = ReasoningData::Redacted(owned(&block.data).unwrap_or_default());
                attempt.out.push(StreamEvent::ReasoningData { item, kept: kept.clone() });
                Content::Thinking { text: String::new(), kept: vec![kept] }
            }
            "tool_use" => {
                let name = owned(&block.name).ok_or(AnomalyKind::UnknownShape)?;
                attempt.call_started(item, filled(&block.id), &name);
                // Some providers give the whole input here and stream nothing. Others open with `{}`.
                let whole = block.input.map(|input| input.get()).filter(|input| !is_empty_object(input));
                let arguments = whole.unwrap_or_default().to_owned();
                Content::Call { id: owned(&block.id), name, arguments }
            }
            kind => Content::Other { kind: kind.to_owned(), raw: raw.to_owned(), input: String::new() },
        };
        let known: &[&str] = match &content {
            Content::Text(_) => &["type", "text"],
            Content::Thinking { .. } => &["type", "thinking", "signature", "data"],
            Content::Call { .. } => &["type", "id", "name", "input"],
            // Kept as a whole.
            Content::Other { .. } => &[],
        };
        let unread = if known.is_empty() { None } else { unread::members(raw, known) };
        let unread = unread.into_iter().collect();
        self.blocks.push(OpenBlock { item, content, seam: Seam::default(), stopped: false, unread });
        if let Some(text) = take_filled(&mut block.text).or_else(|| take_filled(&mut block.thinking)) {
            self.write(self.blocks.len() - 1, text, attempt)?;
        }
        if let Some(signature) = filled(&block.signature) {
            self.sign(self.blocks.len() - 1, signature, attempt)?;
        }
        if attempt.grow(raw.len()) { Ok(()) } else { Err(AnomalyKind::TooMuch) }
    }

    fn open_block(&self, event: &Event<'_>) -> Result<usize, AnomalyKind> {
        let index = event.index.ok_or(AnomalyKind::UnknownShape)? as usize;
        let open = self.blocks.get(index).is_some_and(|block| !block.stopped);
        if open { Ok(index) } else { Err(AnomalyKind::NoSuchItem) }
    }

    #[inline]
    fn delta(
        &mut self,
        event: &mut Event<'_>,
        place: &Place<'_>,
        attempt: &mut Attempt,
    ) -> Result<(), AnomalyKind> {
        let index = self.open_block(event)?;
        let delta: &mut Delta<'_> = event.delta.as_mut().ok_or(AnomalyKind::UnknownShape)?;
        match filled(&delta.r#type) {
            None | Some("text_delta" | "thinking_delta" | "signature_delta" | "input_json_delta") => {}
            Some(_) => return self.keep(index, place.data, attempt),
        }
        let has_unread = delta.has_unread();
        // A text wins over a thought.
        let text = take_filled(&mut delta.text).map(|text| ("text", text));
        let text = text.or_else(|| take_filled(&mut delta.thinking).map(|text| ("thinking", text)));
        let read = text.as_ref().map_or("text", |(name, _)| name);
        if let Some((_, text)) = text {
            self.write(index, text, attempt)?;
        }
        if let Some(signature) = filled(&delta.signature) {
            self.sign(index, signature, attempt)?;
        }
        if let Some(piece) = take_filled(&mut delta.partial_json) {
            self.feed(index, piece, attempt)?;
        }
        if has_unread {
            self.keep_members(index, place.data, &["type", read, "signature", "partial_json"], attempt)?;
        }
        Ok(())
    }

    fn write(&mut self, index: usize, more: Str<'_>, attempt: &mut Attempt) -> Result<(), AnomalyKind> {
        let block = &mut self.blocks[index];
        let more = block.seam.join(more);
        let length = more.len();
        match &mut block.content {
            Content::Text(text) => {
                text.push_str(&more);
                attempt.text(block.item, more);
            }
            Content::Thinking { text, .. } => {
                text.push_str(&more);
                attempt.reasoning(block.item, more);
            }
            Content::Call { .. } | Content::Other { .. } => return Err(AnomalyKind::Conflict),
        }
        if attempt.grow(length) { Ok(()) } else { Err(AnomalyKind::TooMuch) }
    }

    /// Keeps a delta of an unknown type, such as `citations_delta`.
    fn keep(&mut self, index: usize, data: &str, attempt: &mut Attempt) -> Result<(), AnomalyKind> {
        let event: RawDelta<'_> = turnstream_json::from_str(data).map_err(|_| AnomalyKind::UnknownShape)?;
        let raw = event.delta.ok_or(AnomalyKind::UnknownShape)?.get();
        self.add_unread(index, raw, attempt)
    }

    /// Keeps the members of a delta that are not read.
    fn keep_members(
        &mut self,
        index: usize,
        data: &str,
        read: &[&str],
        attempt: &mut Attempt,
    ) -> Result<(), AnomalyKind> {
        let event: RawDelta<'_> = turnstream_json::from_str(data).map_err(|_| AnomalyKind::UnknownShape)?;
        match event.delta.and_then(|raw| unread::members(raw.get(), read)) {
            Some(rest) => self.add_unread(index, &rest, attempt),
            None => Ok(()),
        }
    }

    fn add_unread(&mut self, index: usize, raw: &str, attempt: &mut Attempt) -> Result<(), AnomalyKind> {
        let block = &mut self.blocks[index];
        block.unread.push(raw.to_owned());
        attempt.unread(block.item, raw);
        if attempt.grow(raw.len()) { Ok(()) } else { Err(AnomalyKind::TooMuch) }
    }

    /// Adds a signature, which may come in several pieces.
    fn sign(&mut self, index: usize, more: &str, attempt: &mut Attempt) -> Result<(), AnomalyKind> {
        let block = &mut self.blocks[index];
        let Content::Thinking { kept, .. } = &mut block.content else { return Err(AnomalyKind::Conflict) };
        match kept.last_mut() {
            Some(ReasoningData::Signature(signature)) => signature.push_str(more),
            Some(ReasoningData::Redacted(_) | ReasoningData::Encrypted(_) | ReasoningData::Details(_))
            | None => {
                kept.push(ReasoningData::Signature(more.to_owned()));
            }
        }
        let kept = ReasoningData::Signature(more.to_owned());
        attempt.out.push(StreamEvent::ReasoningData { item: block.item, kept });
        if attempt.grow(more.len()) { Ok(()) } else { Err(AnomalyKind::TooMuch) }
    }

    fn feed(&mut self, index: usize, piece: Str<'_>, attempt: &mut Attempt) -> Result<(), AnomalyKind> {
        let block = &mut self.blocks[index];
        let piece = block.seam.join(piece);
        let length = piece.len();
        match &mut block.content {
            Content::Call { arguments, .. } => {
                arguments.push_str(&piece);
                attempt.arguments(block.item, piece);
            }
            Content::Other { input, .. } => input.push_str(&piece),
            Content::Text(_) | Content::Thinking { .. } => return Err(AnomalyKind::Conflict),
        }
        if attempt.grow(length) { Ok(()) } else { Err(AnomalyKind::TooMuch) }
    }

    fn stop_block(&mut self, event: &Event<'_>, attempt: &mut Attempt) -> Result<(), AnomalyKind> {
        if attempt.finish.is_some() {
            return Err(AnomalyKind::AfterFinish);
        }
        let index = self.open_block(event)?;
        self.blocks[index].stopped = true;
        self.blocks[index].end_half(attempt);
        Ok(())
    }

    fn finish(&mut self, event: &Event<'_>, attempt: &mut Attempt) -> Result<(), AnomalyKind> {
        if !self.started {
            return Err(AnomalyKind::NoSuchItem);
        }
        if let Some(raw) = event.usage {
            attempt.update_usage(usage::messages(raw));
        }
        let reason = event.delta.as_ref().and_then(|delta| filled(&delta.stop_reason));
        let Some(reason) = reason else { return Ok(()) };
        if self.blocks.iter().any(|block| !block.stopped) {
            return Err(AnomalyKind::LeftOpen);
        }
        attempt.finish(reason, meaning(reason));
        Ok(())
    }

    fn stop(&mut self, place: &Place<'_>, attempt: &mut Attempt) {
        match &attempt.finish {
            // An end without a stop reason does not count.
            None => return self.lost(AnomalyKind::LeftOpen, place.range.clone(), attempt),
            Some(finish) => {
                let calls = |block: &OpenBlock| matches!(block.content, Content::Call { .. });
                if finish.meaning == FinishMeaning::ToolCalls && !self.blocks.iter().any(calls) {
                    return self.lost(AnomalyKind::NoSuchItem, place.range.clone(), attempt);
                }
            }
        }
        attempt.complete = true;
        let mut calls = Vec::new();
        for OpenBlock { item, content, seam, unread, .. } in self.blocks.drain(..) {
            let extra = Extra { id: None, unread };
            match content {
                Content::Text(text) => attempt.commit(Item::Message { item, text, extra }),
                Content::Thinking { text, kept } => {
                    attempt.commit(Item::Reasoning { item, text, kept, extra });
                }
                Content::Call { id, name, arguments } => {
                    let call = ToolCall { item, id, name, arguments, kind: ToolCallKind::Function, extra };
                    calls.push(ReceivedCall { call, is_damaged: seam.has_lost() });
                }
                Content::Other { kind, raw, input } => {
                    let raw = with_input(raw, &input);
                    attempt.commit(Item::Other { item, kind, raw, extra });
                }
            }
        }
        // In this format empty arguments mean `{}`.
        commit_calls(calls, EmptyArguments::NoArguments, attempt);
        attempt.end_at(Over::Done, place.range.end);
    }
}

fn message<'a>(event: &Event<'a>) -> Message<'a> {
    event.message.and_then(|raw| turnstream_json::from_str(raw.get()).ok()).unwrap_or_default()
}

fn is_empty_object(raw: &str) -> bool {
    raw.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).is_some_and(|inner| inner.trim().is_empty())
}

/// The JSON of a block, with the input that was streamed to it.
fn with_input(raw: String, input: &str) -> String {
    match (turnstream_json::from_str::<Value>(&raw), turnstream_json::from_str::<Value>(input)) {
        (Ok(Value::Object(mut block)), Ok(input)) => {
            block.insert("input".to_owned(), input);
            Value::Object(block).to_string()
        }
        (Ok(_) | Err(_), _) => raw,
    }
}

fn meaning(reason: &str) -> FinishMeaning {
    match reason {
        "end_turn" | "stop_sequence" => FinishMeaning::Stop,
        "tool_use" => FinishMeaning::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => FinishMeaning::Length,
        "refusal" => FinishMeaning::ContentFilter,
        "pause_turn" => FinishMeaning::Paused,
        _ => FinishMeaning::Unknown,
    }
}
