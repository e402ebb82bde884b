//! The cap on event size, the memory it bounds, and time that is linear in the input.

mod support;

use std::time::{Duration, Instant};
use support::{Seen, decode, expect_same, fixture};
use turnstream_sse::{AnomalyKind, Decoder, Frame};

const CAP: usize = 64 * 1024;

/// Decodes at every split with this cap, and returns the frames.
#[track_caller]
fn shown(limit: usize, input: &[u8]) -> Vec<String> {
    let whole = decode(Decoder::with_limit(limit), [input]);
    for at in 0..=input.len() {
        let (first, second) = input.split_at(at);
        expect_same(&whole, Decoder::with_limit(limit), [first, second], format_args!("split at {at}"));
    }
    expect_same(&whole, Decoder::with_limit(limit), input.chunks(1), "in bytes");
    whole.iter().map(Seen::to_string).collect()
}

#[test]
fn an_event_as_long_as_the_cap_passes() {
    assert_eq!(shown(10, b"data: 1234\n\n"), [r#"event message "1234" 0..10"#]);
    assert_eq!(shown(10, b"data: 1234\r\n\r\n"), [r#"event message "1234" 0..10"#]);
}

#[test]
fn a_byte_order_mark_is_not_part_of_what_is_capped() {
    assert_eq!(shown(10, b"\xEF\xBB\xBFdata: 1234\n\n"), [r#"event message "1234" 3..13"#]);
    assert_eq!(shown(1, b"\xEF\xBB\xBF\n"), [""; 0]);
    assert_eq!(shown(1, b"\xEF\xBB"), ["anomaly skipped 0..2"]);
    assert_eq!(shown(1, b"\xEF\xBBx\n\n"), ["anomaly oversize 0..1", "anomaly skipped 1..3"]);
    let longer = ["anomaly oversize 3..13", "anomaly skipped 13..14"];
    assert_eq!(shown(10, b"\xEF\xBB\xBFdata: 12345\n\n"), longer);
}

#[test]
fn a_longer_one_is_discarded_up_to_its_blank_line() {
    assert_eq!(
        shown(10, b"data: 12345\ndata: 6\n\ndata: 7\n\n"),
        ["anomaly oversize 0..10", "anomaly skipped 10..19", r#"event message "7" 21..28"#]
    );
    assert_eq!(
        shown(10, b"data: 1\r\ndata: 2\r\n: c\r\n\r\ndata: 7\r\n\r\n"),
        ["anomaly oversize 0..10", "anomaly skipped 10..21", r#"event message "7" 25..32"#]
    );
}

#[test]
fn the_id_of_a_discarded_event_is_not_taken_over() {
    assert_eq!(
        shown(14, b"id: 1\ndata: a\n\nid: 2\ndata: 12345\n\ndata: b\n\n"),
        [
            r#"event message "a" id="1" 0..13"#,
            "anomaly oversize 15..29",
            "anomaly skipped 29..32",
            r#"event message "b" last="1" 34..41"#
        ]
    );
}

#[test]
fn an_oversize_comment_or_junk_line_is_discarded_too() {
    for line in ["data: 6789 12", ": 3456789 12", "<123456789 12"] {
        let input = format!("{line}\n\ndata: b\n\n");
        let shown = shown(10, input.as_bytes());
        assert_eq!(shown[0], "anomaly oversize 0..10");
        assert!(shown[2].starts_with(r#"event message "b""#), "{shown:?}");
    }
}

#[test]
fn an_oversize_event_without_end_is_skipped_to_the_end_of_input() {
    for end in ["", "\n", "\r", "\r\n"] {
        let input = format!("data: 12345\ndata: 6{end}");
        assert_eq!(shown(10, input.as_bytes()), ["anomaly oversize 0..10", "anomaly skipped 10..19"]);
    }
}

#[test]
fn an_oversize_event_is_reported_before_it_ends() {
    let mut decoder = Decoder::with_limit(10);
    let mut frames = decoder.feed(b"data: 12345");
    let Some(Frame::Anomaly(anomaly)) = frames.next_frame() else { panic!("an anomaly") };
    assert_eq!((anomaly.kind, anomaly.raw), (AnomalyKind::Oversize, &b"data: 1234"[..]));
}

#[test]
fn memory_stays_bounded_whatever_the_stream_does() {
    let forms: &[(&str, &[u8], &[u8])] = &[
        ("one endless line", b"data: ", b"x"),
        ("one endless comment", b": ", b"x"),
        ("one endless line of junk", b"<html", b"x"),
        ("one endless name", b"", b"\xFF"),
        ("one endless event", b"", b"data: x\n"),
        ("endless empty data lines", b"", b"data\n"),
        ("endless comments in an event", b"data: x\n", b": c\n"),
        ("endless ids", b"", b"id: 12345678\n"),
        ("an endless id", b"id: ", b"x"),
        ("an endless type of invalid UTF-8", b"event: ", b"\xFF"),
        ("events just below the cap", b"", &[&b"data: "[..], &[b'x'; CAP - 6], b"\n\n"].concat()),
        ("types just below the cap", b"", &[&b"event: "[..], &[b'\xFF'; CAP - 7], b"\n\n"].concat()),
    ];
    for (name, start, repeated) in forms {
        let repeated = repeated.repeat(1460usize.div_ceil(repeated.len()));
        let used = allocation_counter::measure(|| {
            let mut decoder = Decoder::with_limit(CAP);
            drop(decoder.feed(start));
            for _ in 0..40 * CAP / repeated.len() {
                for piece in repeated.chunks(1460) {
                    drop(decoder.feed(piece));
                }
            }
            decoder.finish();
        });
        assert!(used.bytes_max <= 8 * CAP as u64, "{name}: {} bytes at once", used.bytes_max);
    }
}

#[test]
fn nothing_is_kept_between_events_of_any_size() {
    let mut decoder = Decoder::new();
    let event = [b"data: ", [b'x'; 1024 * 1024].as_slice(), b"\ndata: y\n\n"].concat();
    let used = allocation_counter::measure(|| {
        for piece in event.chunks(1460) {
            drop(decoder.feed(piece));
        }
    });
    assert!(used.bytes_current <= 2 * CAP as i64, "{} bytes", used.bytes_current);
}

#[test]
fn small_events_inside_a_read_are_not_copied() {
    let stream = fixture("opencode/a-plain.sse");
    let mut decoder = Decoder::new();
    let used = allocation_counter::measure(|| {
        let mut frames = decoder.feed(&stream);
        while let Some(frame) = frames.next_frame() {
            assert!(matches!(frame, Frame::Event(_)));
        }
    });
    assert_eq!(used.count_total, 0);
}

#[test]
fn nothing_is_held_once_the_end_was_told_twice() {
    let mut decoder = Decoder::new();
    drop(decoder.feed(b"data: a\ndata: b\ndata: c"));
    assert!(decoder.finish().is_some());
    assert!(decoder.finish().is_none());
    assert_eq!(decoder.held(), 0);
}

/// Decodes an event of that size in small reads.
fn time_for(event: &[u8]) -> Duration {
    let start = Instant::now();
    let mut decoder = Decoder::new();
    let mut events = 0;
    for piece in event.chunks(1460) {
        let mut frames = decoder.feed(piece);
        while frames.next_frame().is_some() {
            events += 1;
        }
    }
    assert_eq!(events, 1);
    start.elapsed()
}

#[test]
fn a_huge_event_in_small_reads_takes_linear_time() {
    let event = |bytes: usize| [b"data: ", vec![b'x'; bytes].as_slice(), b"\n\n"].concat();
    let (small, large) = (event(1024 * 1024), event(15 * 1024 * 1024));
    let first = (0..7).map(|_| time_for(&small)).min().unwrap_or_default();
    let mut shortest = (first, Duration::MAX);
    // Linear time is 15 times as long; a decoder that rescans its buffer needs 225 times. Other load makes
    // runs only longer, so one fast run is enough.
    for _ in 0..50 {
        shortest = (shortest.0.min(time_for(&small)), shortest.1.min(time_for(&large)));
        if shortest.1 < shortest.0 * 75 {
            return;
        }
    }
    panic!("{:?} for 1 MiB, {:?} for 15 MiB", shortest.0, shortest.1);
}
