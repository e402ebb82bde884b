//! Faults applied to a rendered answer.

use super::{
    Answer, Chunk, End, Event, Identity, Origin, RenderError, chat, check_wait, completion_chunks,
    error_body, messages, responses,
};
use crate::fault::{CutBy, Fault, Stall};
use crate::reply::{Completion, ErrorBody};
use crate::script::{Framing, Step};
use crate::wire::WireFormat;
use std::ops::Range;

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
        Fault::Duplicate { event } => duplicate(answer, number, *event),
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
    check_wait("stall", stall.lasts_ms.unwrap_or(0))?;
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
    let place = event_pieces(answer, number, at)?.start;
    answer.chunks.truncate(place);
    let next = next_event(answer);
    let body = error_body(context.format, error, &context.identity.id("req_", 0));
    let events = match context.format {
        WireFormat::Chat => chat::error_events(&body),
        WireFormat::Responses => responses::error_events(error, context.identity, next),
        WireFormat::Messages => messages::error_events(&body),
    };
    let numbered = events.into_iter().zip(next..);
    answer.chunks.extend(numbered.map(|(Event { bytes, .. }, number)| Chunk::event(0, number, bytes)));
    Ok(())
}

fn missing_blank_line(answer: &mut Answer, number: usize, event: usize) -> Result<(), RenderError> {
    let pieces = event_pieces(answer, number, event)?;
    if !joined(&answer.chunks[pieces.clone()]).ends_with(b"\n\n") {
        let why = "that event does not end in a blank line";
        return Err(RenderError::Contradiction { fault: number, why });
    }
    if let Chunk::Write { bytes, .. } = &mut answer.chunks[pieces.end - 1] {
        bytes.pop();
    }
    Ok(())
}

/// The copy comes whole and behind the event, so that a stall inside the event stays at its byte.
fn duplicate(answer: &mut Answer, number: usize, event: usize) -> Result<(), RenderError> {
    let pieces = event_pieces(answer, number, event)?;
    let wait_ms = match answer.chunks[pieces.start] {
        Chunk::Write { wait_ms, .. } => wait_ms,
        Chunk::Stall(_) => 0,
    };
    let bytes = joined(&answer.chunks[pieces.clone()]);
    answer.chunks.insert(pieces.end, Chunk::Write { wait_ms, origin: Origin::Fault, bytes });
    Ok(())
}

fn insert(answer: &mut Answer, number: usize, event: usize, bytes: Vec<u8>) -> Result<(), RenderError> {
    let place = event_pieces(answer, number, event)?.start;
    answer.chunks.insert(place, Chunk::Write { wait_ms: 0, origin: Origin::Fault, bytes });
    Ok(())
}

/// The chunks of event number `event`: its writes, and the stalls between them.
fn event_pieces(answer: &Answer, fault: usize, event: usize) -> Result<Range<usize>, RenderError> {
    let origin = |chunk: &Chunk| match chunk {
        Chunk::Write { origin, .. } => Some(*origin),
        Chunk::Stall(_) => None,
    };
    let begins = |chunk: &Chunk| matches!(origin(chunk), Some(Origin::Event(_) | Origin::Fault));
    let starts: Vec<usize> =
        (0..answer.chunks.len()).filter(|place| begins(&answer.chunks[*place])).collect();
    let Some(start) = starts.get(event).copied() else {
        return Err(RenderError::NoSuchEvent { fault, event, events: starts.len() });
    };
    let next = starts.get(event + 1).copied().unwrap_or(answer.chunks.len());
    let rests = (start + 1..next).rev();
    let last = rests.into_iter().find(|place| origin(&answer.chunks[*place]) == Some(Origin::Rest));
    Ok(start..last.unwrap_or(start) + 1)
}

/// The number of the event that would follow in the stream of the completion, whatever faults put in or
/// doubled.
fn next_event(answer: &Answer) -> usize {
    let last = answer.chunks.iter().rev().find_map(|chunk| match chunk {
        Chunk::Write { origin: Origin::Event(number), .. } => Some(*number),
        Chunk::Write { .. } | Chunk::Stall(_) => None,
    });
    last.map_or(0, |number| number + 1)
}

fn joined(chunks: &[Chunk]) -> Vec<u8> {
    chunks.iter().filter_map(Chunk::bytes).collect::<Vec<_>>().concat()
}

/// Splits the chunks at a byte and returns how many are in front of it. A stall at that byte is in front.
fn byte_place(answer: &mut Answer, fault: usize, byte: usize) -> Result<usize, RenderError> {
    let total = answer.body().len();
    let mut left = byte;
    for place in 0..answer.chunks.len() {
        let Chunk::Write { bytes, .. } = &mut answer.chunks[place] else { continue };
        if left == 0 {
            return Ok(place);
        }
        if left < bytes.len() {
            let rest = bytes.split_off(left);
            answer.chunks.insert(place + 1, Chunk::Write { wait_ms: 0, origin: Origin::Rest, bytes: rest });
            return Ok(place + 1);
        }
        left -= bytes.len();
    }
    if left == 0 {
        return Ok(answer.chunks.len());
    }
    Err(RenderError::NoSuchByte { fault, byte, bytes: total })
}
