//! Passes the frames of an event stream to the format's state machine, and diagnoses broken ones.

use super::attempt::{Attempt, Over};
use super::payload::{self, Diagnosis};
use super::{Place, Relation, Wire};
use crate::attempt::{AnomalyKind, Repair, Residue, SpliceEvidence, Transport};
use crate::wire::{error, object};
use std::ops::Range;
use turnstream_sse::{AnomalyKind as SseAnomaly, Decoder, Event, Frame, Text};

/// Decodes the next bytes of the body.
pub(crate) fn feed<W: Wire>(wire: &mut W, sse: &mut Decoder, bytes: &[u8], attempt: &mut Attempt) {
    let mut frames = sse.feed(bytes);
    while let Some(frame) = frames.next_frame() {
        handle_frame(wire, frame, attempt);
    }
}

/// Handles the end of the body.
pub(crate) fn finish<W: Wire>(wire: &mut W, sse: &mut Decoder, transport: Transport, attempt: &mut Attempt) {
    if let Some(frame) = sse.finish() {
        handle_frame(wire, frame, attempt);
    }
    wire.end(transport, attempt);
}

#[inline]
fn handle_frame<W: Wire>(wire: &mut W, frame: Frame<'_>, attempt: &mut Attempt) {
    match attempt.over() {
        // The rest of the chunk that ended the attempt. Later chunks are not decoded at all.
        Some(Over::Failed | Over::Spliced) => return,
        Some(Over::Done | Over::Lost) | None => {}
    }
    match frame {
        Frame::Event(event) => match event.data {
            Text::Utf8(data) => {
                let place = Place { name: event.event, data, range: event.range };
                attempt.events += 1;
                handle_payload(wire, &place, attempt);
            }
            Text::Broken(data) => handle_broken_text(wire, data, event.range, attempt),
        },
        // A lone field is no loss. An event type without data is.
        Frame::Undispatched(event) => match event.event {
            "message" => {}
            name if is_keepalive(name) => attempt.keep_alive(),
            _ => lost(wire, AnomalyKind::Truncated, event.range, attempt),
        },
        Frame::Comment(_) => attempt.keep_alive(),
        Frame::Anomaly(anomaly) => {
            if let Some(object) = error_line(anomaly.raw).filter(|_| attempt.over().is_none()) {
                let error = error::of_body(object, &attempt.profile);
                let error = error.unwrap_or_else(|| error::read(object, object, &attempt.profile));
                return attempt.fail(error, anomaly.range.start);
            }
            let kind = match anomaly.kind {
                SseAnomaly::NotAField | SseAnomaly::UnknownField => AnomalyKind::NotSse,
                SseAnomaly::Oversize => AnomalyKind::Oversize,
                // `InvalidUtf8` is judged with its event, `Skipped` was reported as oversize, and the
                // formats do not use `id` and `retry`.
                SseAnomaly::InvalidUtf8
                | SseAnomaly::Skipped
                | SseAnomaly::NulInId
                | SseAnomaly::BadRetry => return,
            };
            lost(wire, kind, anomaly.range, attempt);
        }
        Frame::Residue(residue) => handle_residue(wire, &residue.parsed, attempt),
    }
}

/// The object of a line such as `error: {"code":500,…}`: llama.cpp ends a stream with it.
fn error_line(line: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(line).ok()?.strip_prefix("error:")?.trim_ascii();
    object::<serde::de::IgnoredAny>(text).map(|_| text)
}

/// Names of keep-alive events. They need no data.
fn is_keepalive(name: &str) -> bool {
    ["ping", "keepalive", "keep-alive", "heartbeat"].contains(&name)
}

fn lost<W: Wire>(wire: &mut W, kind: AnomalyKind, range: Range<u64>, attempt: &mut Attempt) {
    if attempt.over().is_none() {
        wire.lost(kind, range, attempt);
    }
}

/// Handles one payload, which should be one event.
#[inline]
fn handle_payload<W: Wire>(wire: &mut W, place: &Place<'_>, attempt: &mut Attempt) {
    // Some providers write blanks after the marker.
    if place.data.trim_ascii_end() == payload::DONE {
        if attempt.over().is_none() {
            wire.done(place, attempt);
        }
        return;
    }
    if attempt.over().is_some() {
        return look_for_second_completion(wire, place, attempt);
    }
    let shortcut = if attempt.tries_shortcut() { W::quick(place.data) } else { None };
    attempt.tried_shortcut(shortcut.is_some());
    if let Some(mut event) = shortcut {
        #[cfg(feature = "compare")]
        assert_eq!(
            Some(format!("{event:?}")),
            object::<W::Event<'_>>(place.data).map(|event| format!("{event:?}")),
            "shortcut and parser read the same event"
        );
        return wire.apply(&mut event, place, attempt);
    }
    match object::<W::Event<'_>>(place.data) {
        Some(mut event) => wire.apply(&mut event, place, attempt),
        None => handle_unparsed(wire, place, attempt),
    }
}

/// Searches events after the end of the attempt for the opening of a second completion.
#[cold]
fn look_for_second_completion<W: Wire>(wire: &W, place: &Place<'_>, attempt: &mut Attempt) {
    attempt.ignore(place.range.start);
    let evidence = match attempt.over() {
        Some(Over::Lost) => SpliceEvidence::Start,
        Some(Over::Done) => SpliceEvidence::AfterEnd,
        Some(Over::Failed | Over::Spliced) | None => return,
    };
    let (values, _) = payload::split(place.data);
    let opens =
        values.iter().any(|value| object::<W::Event<'_>>(value).is_some_and(|event| wire.opens(&event)));
    if opens {
        attempt.record_splice(evidence, place.range.start, None);
        attempt.end_at(Over::Spliced, place.range.start);
    }
}

/// Handles a payload that does not parse as an event.
#[cold]
fn handle_unparsed<W: Wire>(wire: &mut W, place: &Place<'_>, attempt: &mut Attempt) {
    // A keep-alive event may have any data that is not half a payload. Other events may be empty.
    let says_nothing = place.data.trim_ascii().is_empty();
    if (place.name == "message" && says_nothing)
        || (is_keepalive(place.name) && !place.data.contains(['{', '[']))
    {
        return attempt.keep_alive();
    }
    match payload::diagnose(place.data) {
        Diagnosis::Whole(values) => {
            attempt.repair(Repair::MissingBlankLine);
            apply_each(wire, &values, place, attempt);
        }
        Diagnosis::NotANumber(data) => match object::<W::Event<'_>>(&data) {
            Some(mut event) => {
                attempt.repair(Repair::NotANumber);
                let place = Place { data: &data, ..place.clone() };
                wire.apply(&mut event, &place, attempt);
            }
            None => wire.lost(AnomalyKind::UnknownShape, place.range.clone(), attempt),
        },
        Diagnosis::Glued { before, after } => {
            apply_each(wire, &before, place, attempt);
            if attempt.over().is_none() {
                handle_glued(wire, &after, place, attempt);
            }
        }
        Diagnosis::Truncated => wire.lost(AnomalyKind::Truncated, place.range.clone(), attempt),
        Diagnosis::Shape => wire.lost(AnomalyKind::UnknownShape, place.range.clone(), attempt),
        // Some servers send their error as plain text.
        Diagnosis::Unparseable if place.name == "error" => {
            let error = error::read(place.data, place.data, &attempt.profile);
            attempt.fail(error, place.range.start);
        }
        Diagnosis::Unparseable => wire.lost(AnomalyKind::Unparseable, place.range.clone(), attempt),
    }
}

/// Handles several complete payloads, one by one.
fn apply_each<W: Wire>(wire: &mut W, values: &[&str], place: &Place<'_>, attempt: &mut Attempt) {
    for data in values {
        let place = Place { data, ..place.clone() };
        if *data == payload::DONE || attempt.over().is_some() {
            handle_payload(wire, &place, attempt);
            continue;
        }
        match object::<W::Event<'_>>(data) {
            Some(mut event) => wire.apply(&mut event, &place, attempt),
            None => wire.lost(AnomalyKind::UnknownShape, place.range.clone(), attempt),
        }
    }
}

/// Handles half an event that is followed by complete ones.
///
/// If those belong to another completion, the first one was cut here and the rest of the body is the other's.
fn handle_glued<W: Wire>(wire: &mut W, after: &[&str], place: &Place<'_>, attempt: &mut Attempt) {
    let first = after.first().and_then(|data| object::<W::Event<'_>>(data));
    let other = first.as_ref().is_some_and(|event| {
        wire.opens(event) || matches!(wire.relation(event, attempt), Relation::Other(_))
    });
    wire.lost(AnomalyKind::Glued, place.range.clone(), attempt);
    if other {
        let id = first.as_ref().and_then(|event| wire.id(event));
        attempt.record_splice(SpliceEvidence::Glue, place.range.start, id);
        attempt.end_at(Over::Spliced, place.range.start);
        return;
    }
    if attempt.over().is_none() {
        apply_each(wire, after, place, attempt);
    }
}

/// Handles an event that is not UTF-8. A splice within a character looks like this too.
#[cold]
fn handle_broken_text<W: Wire>(wire: &mut W, data: &[u8], range: Range<u64>, attempt: &mut Attempt) {
    attempt.events += 1;
    if attempt.over().is_some() {
        return;
    }
    let lossy = String::from_utf8_lossy(data);
    wire.lost(AnomalyKind::InvalidUtf8, range.clone(), attempt);
    if let Diagnosis::Glued { after, .. } = payload::diagnose(&lossy)
        && after.iter().all(|value| !value.contains(char::REPLACEMENT_CHARACTER))
        && let Some(event) = after.first().and_then(|value| object::<W::Event<'_>>(value))
        && (wire.opens(&event) || matches!(wire.relation(&event, attempt), Relation::Other(_)))
    {
        attempt.record_splice(SpliceEvidence::Glue, range.start, wire.id(&event));
        attempt.end_at(Over::Spliced, range.start);
    }
}

/// Handles a body that ended within an event. A complete payload without its blank line has lost nothing.
fn handle_residue<W: Wire>(wire: &mut W, rest: &Event<'_>, attempt: &mut Attempt) {
    if attempt.over().is_some() {
        return;
    }
    if let Text::Utf8(data) = rest.data {
        let (values, behind) = payload::split(data);
        if !values.is_empty() && behind.is_empty() {
            attempt.repair(Repair::MissingLastLine);
            attempt.events += 1;
            let place = Place { name: rest.event, data, range: rest.range.clone() };
            return apply_each(wire, &values, &place, attempt);
        }
    }
    // A comment, or a partial `[DONE]` after a finish.
    if rest.raw.starts_with(b":") || wire.ends_with(rest.raw, attempt) {
        return;
    }
    let kept = rest.raw.len().min(Residue::LIMIT);
    attempt.residue = Some(Residue { range: rest.range.clone(), bytes: rest.raw[..kept].to_vec() });
    wire.lost(AnomalyKind::Residue, rest.range.clone(), attempt);
}
