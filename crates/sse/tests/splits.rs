//! Captured streams, correct and damaged, decoded in every split.

mod support;

use support::{Seen, captured_streams, decode_whole, expect_same, fixture};
use turnstream_sse::{AnomalyKind, Cut, Decoder};

/// Above this size only some positions are tried: a stride, and all near a line ending. Larger with
/// `TURNSTREAM_FULL=1`.
fn every_position_up_to() -> usize {
    if std::env::var_os("TURNSTREAM_FULL").is_some() { 64 * 1024 } else { 4 * 1024 }
}

fn check_splits(name: &str, input: &[u8]) -> Vec<Seen> {
    let whole = decode_whole(input);
    // An odd stride, since some streams repeat themselves.
    let stride = if input.len() <= every_position_up_to() { 1 } else { (input.len() / 256) | 1 };
    for at in 0..=input.len() {
        if at % stride == 0 || near_line_ending(input, at) {
            let (first, second) = input.split_at(at);
            expect_same(&whole, Decoder::new(), [first, second], format_args!("{name} split at {at}"));
        }
    }
    for length in [1, 2, 3, 7, 64, 1460, 16 * 1024] {
        let pieces = input.chunks(length);
        expect_same(&whole, Decoder::new(), pieces, format_args!("{name} in pieces of {length}"));
    }
    // A linear congruential generator, so that a failure repeats.
    let mut state = input.len();
    for round in 0..200 {
        let mut rest = input;
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let length = (state >> 33) % 700;
            let (piece, tail) = rest.split_at(length.min(rest.len()));
            pieces.push(piece);
            rest = tail;
        }
        expect_same(&whole, Decoder::new(), pieces, format_args!("{name}, random split {round}"));
    }
    whole
}

fn near_line_ending(input: &[u8], at: usize) -> bool {
    input[at.saturating_sub(2)..(at + 2).min(input.len())].contains(&b'\n')
}

/// The data of every event, in order.
fn data(frames: &[Seen]) -> Vec<&[u8]> {
    frames
        .iter()
        .filter_map(|frame| match frame {
            Seen::Event(fields) => Some(fields.data.as_slice()),
            Seen::Undispatched(_) | Seen::Comment { .. } | Seen::Anomaly { .. } | Seen::Residue { .. } => {
                None
            }
        })
        .collect()
}

fn anomalies(frames: &[Seen]) -> Vec<AnomalyKind> {
    frames
        .iter()
        .filter_map(|frame| match frame {
            Seen::Anomaly { kind, .. } => Some(*kind),
            Seen::Event(_) | Seen::Undispatched(_) | Seen::Comment { .. } | Seen::Residue { .. } => None,
        })
        .collect()
}

/// A captured stream of events of one line each.
fn plain() -> Vec<u8> {
    fixture("opencode/b-reasoning.sse")
}

fn replace(input: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = input;
    while let Some(at) = rest.windows(from.len()).position(|window| window == from) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    out.extend_from_slice(rest);
    out
}

#[test]
fn captured_streams_decode_alike_in_every_split() {
    for (name, input) in captured_streams() {
        let frames = check_splits(&name, &input);
        let blocks = String::from_utf8(input).expect("captures are UTF-8");
        let blocks: Vec<&str> = blocks.split_terminator("\n\n").collect();
        assert_eq!(frames.len(), blocks.len(), "{name}");
        for (frame, block) in frames.iter().zip(blocks) {
            match frame {
                Seen::Event(fields) => assert_eq!(fields.raw, block.as_bytes(), "{name}"),
                Seen::Comment { text, .. } => assert_eq!(text, b"heartbeat", "{name}: {block}"),
                other => panic!("{name}: {other}"),
            }
        }
    }
}

#[test]
fn crlf_and_cr_streams_carry_the_same_data_as_lf_ones() {
    let lf = plain();
    let expected = decode_whole(&lf);
    for ending in [&b"\r\n"[..], b"\r"] {
        let converted = replace(&lf, b"\n", ending);
        let frames = check_splits("converted endings", &converted);
        assert_eq!(data(&frames), data(&expected));
        assert_eq!(anomalies(&frames), []);
    }
}

#[test]
fn a_byte_order_mark_only_shifts_the_ranges() {
    let plain = plain();
    let frames = check_splits("with a byte order mark", &[&b"\xEF\xBB\xBF"[..], &plain].concat());
    assert_eq!(data(&frames), data(&decode_whole(&plain)));
    assert_eq!(anomalies(&frames), []);
}

#[test]
fn data_without_the_space_is_the_same_data() {
    let plain = plain();
    let frames = check_splits("without spaces", &replace(&plain, b"data: ", b"data:"));
    assert_eq!(data(&frames), data(&decode_whole(&plain)));
}

#[test]
fn characters_split_between_reads_stay_whole() {
    let wide = replace(&plain(), b"delta", "\u{90A3}\u{1F980}\u{E9}".as_bytes());
    let frames = check_splits("wide characters", &wide);
    assert_eq!(anomalies(&frames), []);
    assert!(data(&frames).iter().any(|data| String::from_utf8_lossy(data).contains('\u{1F980}')));
}

#[test]
fn invalid_utf8_is_reported_with_its_event_and_loses_no_other() {
    let mut broken = plain();
    let events = data(&decode_whole(&broken)).len();
    let at = broken.windows(5).position(|window| window == b"delta").expect("the capture has a delta");
    broken[at..at + 2].copy_from_slice(b"\xFF\xFE");
    let frames = check_splits("invalid UTF-8", &broken);
    assert_eq!(data(&frames).len(), events);
    assert_eq!(anomalies(&frames), [AnomalyKind::InvalidUtf8]);
    let marked: Vec<_> = frames.iter().filter(|frame| matches!(frame, Seen::Event(f) if !f.utf8)).collect();
    let [Seen::Event(fields)] = marked.as_slice() else { panic!("one event is marked: {marked:?}") };
    assert!(fields.range.contains(&(at as u64)));
    assert!(fields.raw.windows(2).any(|window| window == b"\xFF\xFE"));
}

#[test]
fn a_glued_chunk_stays_one_event_with_all_its_bytes() {
    let plain = plain();
    let whole = decode_whole(&plain);
    let events = data(&whole);
    let glued = [b"data: ", &events[3][..21], b"data:", events[4], b"\n\n"].concat();
    let frames = check_splits("glued", &glued);
    assert_eq!(data(&frames), [[&events[3][..21], b"data:", events[4]].concat()]);
    assert_eq!(anomalies(&frames), []);
}

#[test]
fn a_missing_blank_line_joins_two_payloads_with_a_line_feed() {
    let plain = plain();
    let whole = decode_whole(&plain);
    let events = data(&whole);
    let joined = [b"data: ", events[3], b"\ndata: ", events[4], b"\n\n"].concat();
    let frames = check_splits("missing blank line", &joined);
    assert_eq!(data(&frames), [[events[3], b"\n", events[4]].concat()]);
}

#[test]
fn a_line_feed_inside_a_payload_leaves_a_visible_scar() {
    let plain = plain();
    let at = plain.windows(5).position(|window| window == b"delta").expect("the capture has a delta");
    let torn = [&plain[..at], b"\n", &plain[at..]].concat();
    let frames = check_splits("torn", &torn);
    assert_eq!(anomalies(&frames), [AnomalyKind::UnknownField]);
}

#[test]
fn every_cut_leaves_its_bytes_in_the_residue() {
    let plain = plain();
    let whole = decode_whole(&plain);
    for end in 0..plain.len() {
        let frames = decode_whole(&plain[..end]);
        let complete = frames.iter().take_while(|frame| matches!(frame, Seen::Event(_))).count();
        assert_eq!(frames[..complete], whole[..complete], "cut at {end}");
        let cut_event = match &whole[complete.min(whole.len() - 1)] {
            Seen::Event(fields) => fields,
            other => panic!("the capture has events only: {other}"),
        };
        match &frames[complete..] {
            // Between events, or in the LF of the last blank line.
            [] => assert!(end as u64 <= cut_event.range.start || complete == whole.len(), "cut at {end}"),
            [Seen::Residue { parsed, cut }] => {
                assert_eq!(parsed.range.start, cut_event.range.start, "cut at {end}");
                assert!(cut_event.raw.starts_with(&parsed.raw), "cut at {end}");
                assert!(cut_event.data.starts_with(&parsed.data), "cut at {end}");
                let line_ended = plain[end - 1] == b'\n';
                assert_eq!(*cut, if line_ended { Cut::AfterLine } else { Cut::InLine }, "cut at {end}");
            }
            other => panic!("cut at {end}: {other:?}"),
        }
    }
}

#[test]
fn an_html_page_is_not_a_quiet_stream() {
    let page = b"<!DOCTYPE html>\n<html>\n<head><title>502 Bad Gateway</title></head>\n</html>\n";
    let frames = check_splits("html", page);
    assert_eq!(anomalies(&frames), [AnomalyKind::NotAField; 4]);
    assert_eq!(frames.len(), 4);
}

#[test]
fn a_json_body_is_not_a_quiet_stream() {
    let plain = plain();
    let whole = decode_whole(&plain);
    let body = data(&whole)[2];
    let frames = check_splits("json", body);
    let [Seen::Residue { parsed, cut: Cut::InLine }] = frames.as_slice() else { panic!("{frames:?}") };
    assert_eq!(parsed.raw, body);
    let frames = check_splits("json with a line feed", &[body, b"\n"].concat());
    assert_eq!(anomalies(&frames), [AnomalyKind::UnknownField]);
}
