//! Faults applied to a rendered answer.

use super::{
    Answer, Chunk, End, Event, Identity, RenderError, chat, completion_chunks, error_body, messages,
    responses,
};
use crate::fault::{CutBy, Fault, Stall};
use crate::reply::{Completion, ErrorBody};
use crate::script::{Framing, Step};
use crate::wire::WireFormat;

/// What a fault that brings bytes of its own renders them from.
pub(super) struct Context<'a> {
    pub(super) format: WireFormat,
    pub(super) step: &'a Step,
    pub(super) identity: &'a Identity,
}

/// Applies the fault at place `number` of its step.
pub(super) fn apply(
    answer: &mut Answer,
    number: usize,
    fault: &Fault,
    context: &Context<'_>,
) -> Result<(), RenderError> {
    match fault {
        Fault::Cut { after, by } => cut(answer, number, *after, *by),
        Fault::Splice { after, second } => splice(answer, number, *after, second, context),
        Fault::Stall { after, lasts_ms, comment_every_ms } => {
            let stall = Stall { lasts_ms: *lasts_ms, comment_every_ms: *comment_every_ms };
            stalled(answer, number, *after, stall)
        }
        Fault::Error { at_event, error } => fail(answer, number, *at_event, error, context),
        Fault::MissingBlankLine { after_event } => missing_blank_line(answer, number, *after_event),
        Fault::Duplicate { event } => {
            let place = event_place(answer, number, *event)?;
            let copy = answer.chunks[place].clone();
            answer.chunks.insert(place, copy);
            Ok(())
        }
        Fault::Comment { before_event, text } => {
            insert(answer, number, *before_event, format!(": {text}\n\n").into_bytes())
        }
        Fault::Insert { before_event, bytes } => {
            insert(answer, number, *before_event, bytes.as_slice().to_vec())
        }
    }
}

fn cut(answer: &mut Answer, number: usize, after: usize, by: CutBy) -> Result<(), RenderError> {
    let place = byte_place(answer, number, after)?;
    answer.lost += answer.body().len() - after;
    answer.chunks.truncate(place);
    answer.end = End::Cut(by);
    Ok(())
}

fn splice(
    answer: &mut Answer,
    number: usize,
    after: usize,
    second: &Completion,
    context: &Context<'_>,
) -> Result<(), RenderError> {
    let place = byte_place(answer, number, after)?;
    answer.chunks.truncate(place);
    let replayed = context.identity.replayed();
    answer.chunks.extend(completion_chunks(context.format, second, context.step, &replayed));
    Ok(())
}

fn stalled(answer: &mut Answer, number: usize, after: usize, stall: Stall) -> Result<(), RenderError> {
    if stall.comment_every_ms == Some(0) {
        let why = "comments every 0 ms would never let the stall pass";
        return Err(RenderError::Contradiction { fault: number, why });
    }
    if stall.comment_every_ms.is_some() && answer.framing == Framing::ContentLength {
        let why = "the comments of a stall have no place in a body with a content-length";
        return Err(RenderError::Contradiction { fault: number, why });
    }
    let place = byte_place(answer, number, after)?;
    answer.chunks.insert(place, Chunk::Stall(stall));
    Ok(())
}

fn fail(
    answer: &mut Answer,
    number: usize,
    at: usize,
    error: &ErrorBody,
    context: &Context<'_>,
) -> Result<(), RenderError> {
    let place = event_place(answer, number, at)?;
    answer.chunks.truncate(place);
    let body = error_body(context.format, error, &context.identity.id("req_", 0));
    let events = match context.format {
        WireFormat::Chat => chat::error_events(&body),
        WireFormat::Responses => responses::error_events(error, context.identity, at),
        WireFormat::Messages => messages::error_events(&body),
    };
    answer.chunks.extend(events.into_iter().map(|Event { bytes, .. }| Chunk::at_once(bytes)));
    Ok(())
}

fn missing_blank_line(answer: &mut Answer, number: usize, event: usize) -> Result<(), RenderError> {
    let place = event_place(answer, number, event)?;
    let end = match &mut answer.chunks[place] {
        Chunk::Write { bytes, .. } if bytes.ends_with(b"\n\n") => bytes.pop(),
        Chunk::Write { .. } | Chunk::Stall(_) => None,
    };
    let why = "that event does not end in a blank line";
    end.map(|_| ()).ok_or(RenderError::Contradiction { fault: number, why })
}

fn insert(answer: &mut Answer, number: usize, event: usize, bytes: Vec<u8>) -> Result<(), RenderError> {
    let place = event_place(answer, number, event)?;
    answer.chunks.insert(place, Chunk::at_once(bytes));
    Ok(())
}

/// Where the write number `event` is.
fn event_place(answer: &Answer, fault: usize, event: usize) -> Result<usize, RenderError> {
    let writes = || answer.chunks.iter().enumerate().filter(|(_, chunk)| chunk.bytes().is_some());
    let place = writes().nth(event).map(|(place, _)| place);
    place.ok_or_else(|| RenderError::NoSuchEvent { fault, event, events: writes().count() })
}

/// Splits the chunks at a byte and returns how many are in front of it.
fn byte_place(answer: &mut Answer, fault: usize, byte: usize) -> Result<usize, RenderError> {
    let total = answer.body().len();
    let mut left = byte;
    for place in 0..answer.chunks.len() {
        if left == 0 {
            return Ok(place);
        }
        let Chunk::Write { wait_ms: _, bytes } = &mut answer.chunks[place] else { continue };
        if left < bytes.len() {
            let rest = bytes.split_off(left);
            answer.chunks.insert(place + 1, Chunk::at_once(rest));
            return Ok(place + 1);
        }
        left -= bytes.len();
    }
    if left == 0 {
        return Ok(answer.chunks.len());
    }
    Err(RenderError::NoSuchByte { fault, byte, bytes: total })
}
