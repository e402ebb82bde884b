//! Frames of the event stream to a format's state machine, with what is wrong with them sorted out.

use super::attempt::{Attempt, Over};
use super::payload::{self, Diagnosis};
use super::{Place, Relation, Wire};
use crate::attempt::{AnomalyKind, Evidence, Repair, Residue, Transport};
use crate::wire::{error, object};
use std::ops::Range;
use turnstream_sse::{AnomalyKind as SseAnomaly, Decoder, Event, Frame, Text};

/// Takes the next bytes of the body.
pub(crate) fn drive<W: Wire>(wire: &mut W, sse: &mut Decoder, bytes: &[u8], attempt: &mut Attempt) {
    let mut frames = sse.feed(bytes);
    while let Some(frame) = frames.next_frame() {
        take(wire, frame, attempt);
    }
}

/// The body is over.
pub(crate) fn finish<W: Wire>(wire: &mut W, sse: &mut Decoder, transport: Transport, attempt: &mut Attempt) {
    if let Some(frame) = sse.finish() {
        take(wire, frame, attempt);
    }
    wire.end(transport, attempt);
}

#[inline]
fn take<W: Wire>(wire: &mut W, frame: Frame<'_>, attempt: &mut Attempt) {
    match attempt.over() {
        // The rest of the read that decided it; the rest of the body is not even decoded.
        Some(Over::Failed | Over::Spliced) => return,
        Some(Over::Done | Over::Lost) | None => {}
    }
    match frame {
        Frame::Event(event) => match event.data {
            Text::Utf8(data) => {
                let place = Place { name: event.event, data, range: event.range };
                attempt.events += 1;
                payload(wire, &place, attempt);
            }
            Text::Broken(data) => broken_text(wire, data, event.range, attempt),
        },
        // A field of its own is no loss; the type of an event whose data is gone is.
        Frame::Undispatched(event) => match event.event {
            "message" => {}
            name if is_keepalive(name) => attempt.alive(),
            _ => lost(wire, AnomalyKind::Truncated, event.range, attempt),
        },
        Frame::Comment(_) => attempt.alive(),
        Frame::Anomaly(anomaly) => {
            let kind = match anomaly.kind {
                SseAnomaly::NotAField | SseAnomaly::UnknownField => AnomalyKind::NotSse,
                SseAnomaly::Oversize => AnomalyKind::Oversize,
                // Of the event that comes next, and is judged then; of the one that was reported as oversize; and
                // of fields that these formats have no use for.
                SseAnomaly::InvalidUtf8
                | SseAnomaly::Skipped
                | SseAnomaly::NulInId
                | SseAnomaly::BadRetry => return,
            };
            lost(wire, kind, anomaly.range, attempt);
        }
        Frame::Residue(residue) => left_over(wire, &residue.parsed, attempt),
    }
}

/// Names of events that are sent to show that the stream lives. They need no data.
fn is_keepalive(name: &str) -> bool {
    ["ping", "keepalive", "keep-alive", "heartbeat"].contains(&name)
}

fn lost<W: Wire>(wire: &mut W, kind: AnomalyKind, range: Range<u64>, attempt: &mut Attempt) {
    if attempt.over().is_none() {
        wire.lost(kind, range, attempt);
    }
}

/// One payload, which should be one event.
#[inline]
fn payload<W: Wire>(wire: &mut W, place: &Place<'_>, attempt: &mut Attempt) {
    if place.data == payload::DONE {
        if attempt.over().is_none() {
            wire.done(place, attempt);
        }
        return;
    }
    if attempt.over().is_some() {
        return watch(wire, place, attempt);
    }
    let shortcut = if attempt.tries_shortcut() { W::quick(place.data) } else { None };
    attempt.tried_shortcut(shortcut.is_some());
    if let Some(mut event) = shortcut {
        #[cfg(feature = "compare")]
        assert_eq!(
            Some(format!("{event:?}")),
            object::<W::Event<'_>>(place.data).map(|event| format!("{event:?}")),
            "both ways to read an event read the same"
        );
        return wire.apply(&mut event, place, attempt);
    }
    match object::<W::Event<'_>>(place.data) {
        Some(mut event) => wire.apply(&mut event, place, attempt),
        None => broken(wire, place, attempt),
    }
}

/// The attempt is over. What follows is only looked at for the opening of another completion.
#[cold]
fn watch<W: Wire>(wire: &W, place: &Place<'_>, attempt: &mut Attempt) {
    attempt.ignore(place.range.start);
    let evidence = match attempt.over() {
        Some(Over::Lost) => Evidence::Start,
        Some(Over::Done) => Evidence::AfterEnd,
        Some(Over::Failed | Over::Spliced) | None => return,
    };
    let (values, _) = payload::split(place.data);
    let opens =
        values.iter().any(|value| object::<W::Event<'_>>(value).is_some_and(|event| wire.opens(&event)));
    if opens {
        attempt.find(evidence, place.range.start, None);
        attempt.end_at(Over::Spliced, place.range.start);
    }
}

#[cold]
fn broken<W: Wire>(wire: &mut W, place: &Place<'_>, attempt: &mut Attempt) {
    // With a name of a keepalive there may be anything in it but half a payload; without a name, nothing.
    let says_nothing = place.data.trim_ascii().is_empty();
    if (place.name == "message" && says_nothing)
        || (is_keepalive(place.name) && !place.data.contains(['{', '[']))
    {
        return attempt.alive();
    }
    match payload::diagnose(place.data) {
        Diagnosis::Whole(values) => {
            attempt.repair(Repair::MissingBlankLine);
            each(wire, &values, place, attempt);
        }
        Diagnosis::NotANumber(data) => match object::<W::Event<'_>>(&data) {
            Some(mut event) => {
                attempt.repair(Repair::NotANumber);
                let place = Place { name: place.name, data: &data, range: place.range.clone() };
                wire.apply(&mut event, &place, attempt);
            }
            None => wire.lost(AnomalyKind::UnknownShape, place.range.clone(), attempt),
        },
        Diagnosis::Glued { before, after } => {
            each(wire, &before, place, attempt);
            if attempt.over().is_none() {
                glued(wire, &after, place, attempt);
            }
        }
        Diagnosis::Truncated => wire.lost(AnomalyKind::Truncated, place.range.clone(), attempt),
        Diagnosis::Shape => wire.lost(AnomalyKind::UnknownShape, place.range.clone(), attempt),
        // Some servers fail in plain words.
        Diagnosis::Unparseable if place.name == "error" => {
            let error = error::read(place.data, place.data, &attempt.profile);
            attempt.fail(error, place.range.start);
        }
        Diagnosis::Unparseable => wire.lost(AnomalyKind::Unparseable, place.range.clone(), attempt),
    }
}

/// Whole payloads, each for itself.
fn each<W: Wire>(wire: &mut W, values: &[&str], place: &Place<'_>, attempt: &mut Attempt) {
    for data in values {
        let place = Place { name: place.name, data, range: place.range.clone() };
        if *data == payload::DONE || attempt.over().is_some() {
            payload(wire, &place, attempt);
            continue;
        }
        match object::<W::Event<'_>>(data) {
            Some(mut event) => wire.apply(&mut event, &place, attempt),
            None => wire.lost(AnomalyKind::UnknownShape, place.range.clone(), attempt),
        }
    }
}

/// Half an event was lost, and these whole ones came in its place. If they are of another completion the first one
/// ended here by loss of its transport, and everything that follows is the other's.
fn glued<W: Wire>(wire: &mut W, after: &[&str], place: &Place<'_>, attempt: &mut Attempt) {
    let first = after.first().and_then(|data| object::<W::Event<'_>>(data));
    let other = first.as_ref().is_some_and(|event| {
        wire.opens(event) || matches!(wire.relation(event, attempt), Relation::Other(_))
    });
    wire.lost(AnomalyKind::Glued, place.range.clone(), attempt);
    if other {
        let id = first.as_ref().and_then(|event| wire.id(event));
        attempt.find(Evidence::Glue, place.range.start, id);
        attempt.end_at(Over::Spliced, place.range.start);
        return;
    }
    if attempt.over().is_none() {
        each(wire, after, place, attempt);
    }
}

/// An event that is not UTF-8. A splice within a character looks like this, too.
#[cold]
fn broken_text<W: Wire>(wire: &mut W, data: &[u8], range: Range<u64>, attempt: &mut Attempt) {
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
        attempt.find(Evidence::Glue, range.start, wire.id(&event));
        attempt.end_at(Over::Spliced, range.start);
    }
}

/// The body ended within an event. A whole payload without its blank line has lost nothing.
fn left_over<W: Wire>(wire: &mut W, rest: &Event<'_>, attempt: &mut Attempt) {
    if attempt.over().is_some() {
        return;
    }
    if let Text::Utf8(data) = rest.data {
        let (values, behind) = payload::split(data);
        if !values.is_empty() && behind.is_empty() {
            attempt.repair(Repair::MissingLastLine);
            attempt.events += 1;
            let place = Place { name: rest.event, data, range: rest.range.clone() };
            return each(wire, &values, &place, attempt);
        }
    }
    // A comment, or the beginning of the end marker behind a finish.
    if rest.raw.starts_with(b":") || wire.ends_with(rest.raw, attempt) {
        return;
    }
    let kept = rest.raw.len().min(Residue::LIMIT);
    attempt.residue = Some(Residue { range: rest.range.clone(), bytes: rest.raw[..kept].to_vec() });
    wire.lost(AnomalyKind::Residue, rest.range.clone(), attempt);
}
