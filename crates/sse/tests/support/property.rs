//! What must hold for any bytes in any split. The property tests and the fuzz target run the same body.

use super::{Seen, decode, expect_same};
use std::ops::Range;
use turnstream_sse::{AnomalyKind, Decoder};

/// Decodes `input` whole, in bytes, and in pieces whose lengths come from `lengths` in turn.
pub(crate) fn any_split_gives_the_same_sound_frames(input: &[u8], lengths: &[u8], limit: usize) {
    let whole = decode(Decoder::with_limit(limit), [input]);
    check_ranges(&whole, input, limit);
    expect_same(&whole, Decoder::with_limit(limit), input.chunks(1), "in single bytes");
    expect_same(&whole, Decoder::with_limit(limit), pieces(input, lengths), "in pieces");
    check_memory(input, limit);
}

/// Reads of one byte need the most memory.
fn check_memory(input: &[u8], limit: usize) {
    let line_ending = b"\r\n".len();
    let bound = limit.saturating_add(line_ending).saturating_mul(2);
    let mut decoder = Decoder::with_limit(limit);
    for byte in input.chunks(1) {
        drop(decoder.feed(byte));
        assert!(decoder.held() <= bound, "{} bytes held with a cap of {limit}", decoder.held());
    }
}

/// Pieces of these lengths in turn; zero is an empty read.
fn pieces<'a>(mut input: &'a [u8], lengths: &[u8]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for &length in lengths {
        let (piece, rest) = input.split_at(usize::from(length).min(input.len()));
        pieces.push(piece);
        input = rest;
    }
    pieces.push(input);
    pieces
}

/// Ranges are in bounds, end in order, and are where the raw bytes come from.
fn check_ranges(frames: &[Seen], input: &[u8], limit: usize) {
    let mut last_end = 0;
    for frame in frames {
        let (range, raw) = place(frame);
        assert!(range.start <= range.end, "{frame:?}");
        assert!(range.end >= last_end, "{frame:?} ends before the frame in front of it");
        let there = &input[range.start as usize..range.end as usize];
        if let Some(raw) = raw {
            assert_eq!(raw, there, "{frame:?}");
            assert!(raw.len() <= limit, "{frame:?} is longer than {limit}");
        }
        last_end = range.end;
    }
}

fn place(frame: &Seen) -> (Range<u64>, Option<&[u8]>) {
    match frame {
        Seen::Event(fields) | Seen::Undispatched(fields) | Seen::Residue { parsed: fields, .. } => {
            (fields.range.clone(), Some(&fields.raw))
        }
        Seen::Comment { range, .. } | Seen::Anomaly { kind: AnomalyKind::Skipped, range, .. } => {
            (range.clone(), None)
        }
        Seen::Anomaly { raw, range, .. } => (range.clone(), Some(raw)),
    }
}
