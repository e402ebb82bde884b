//! The WHATWG rules as a table, each checked at every split, and what this decoder adds to them.

mod support;

use support::{decode, decode_whole, expect_same};
use turnstream_sse::{Decoder, Frame};

/// Rule, bytes, frames.
const RULES: &[(&str, &[u8], &[&str])] = &[
    ("lines end with LF", b"data: a\ndata: b\n\n", &[r#"event message "a\nb" 0..15"#]),
    ("lines end with CRLF", b"data: a\r\ndata: b\r\n\r\n", &[r#"event message "a\nb" 0..16"#]),
    ("lines end with CR", b"data: a\rdata: b\r\r", &[r#"event message "a\nb" 0..15"#]),
    ("endings may be mixed", b"data: a\r\ndata: b\rdata: c\n\r\n", &[r#"event message "a\nb\nc" 0..24"#]),
    (
        "CRLF is one ending, LF CR two",
        b"data: a\r\ndata: b\n\rdata: c\n\n",
        &[r#"event message "a\nb" 0..16"#, r#"event message "c" 18..25"#],
    ),
    ("a byte order mark is not content", b"\xEF\xBB\xBFdata: a\n\n", &[r#"event message "a" 3..10"#]),
    ("nor before a blank line", b"\xEF\xBB\xBF\ndata: a\n\n", &[r#"event message "a" 4..11"#]),
    (
        "nor before a comment",
        b"\xEF\xBB\xBF: c\ndata: a\n\n",
        &[r#"comment "c" 3..6"#, r#"event message "a" 7..14"#],
    ),
    (
        "only one of them",
        b"\xEF\xBB\xBF\xEF\xBB\xBFdata: a\ndata: b\n\n",
        &["anomaly unknown field 3..13", r#"event message "b" 14..21"#],
    ),
    (
        "and only at the beginning",
        b"data: a\n\n\xEF\xBB\xBFdata: b\n\n",
        &[r#"event message "a" 0..7"#, "anomaly unknown field 9..19"],
    ),
    ("half of one is content", b"\xEF\xBBdata: a\n\n", &["anomaly unknown field 0..9"]),
    (
        "a value starts after one space",
        b"data:a\ndata: b\ndata:  c\n\n",
        &[r#"event message "a\nb\n c" 0..23"#],
    ),
    ("a tab is no space", b"data:\ta\n\n", &[r#"event message "\ta" 0..7"#]),
    ("a value may hold colons", b"data: a: b:c\n\n", &[r#"event message "a: b:c" 0..12"#]),
    ("a field without colon is empty", b"data\n\n", &[r#"event message "" 0..4"#]),
    ("two of them are one LF", b"data\ndata\n\n", &[r#"event message "\n" 0..9"#]),
    ("empty data is dispatched", b"data:\n\n", &[r#"event message "" 0..5"#]),
    ("a last empty line counts", b"data: a\ndata:\n\n", &[r#"event message "a\n" 0..13"#]),
    ("event sets the type", b"event: add\ndata: 1\n\n", &[r#"event add "1" 0..18"#]),
    (
        "for one event",
        b"event: add\ndata\n\ndata\n\n",
        &[r#"event add "" 0..15"#, r#"event message "" 17..21"#],
    ),
    ("the last type counts", b"event: a\nevent: b\ndata\n\n", &[r#"event b "" 0..22"#]),
    ("an empty type is message", b"event: a\nevent\ndata\n\n", &[r#"event message "" 0..19"#]),
    (
        "id stays for later events",
        b"id: 1\ndata: a\n\ndata: b\n\n",
        &[r#"event message "a" id="1" 0..13"#, r#"event message "b" last="1" 15..22"#],
    ),
    (
        "an empty id resets it",
        b"id: 1\ndata\n\nid\ndata\n\ndata\n\n",
        &[
            r#"event message "" id="1" 0..10"#,
            r#"event message "" id="" 12..19"#,
            r#"event message "" 21..25"#,
        ],
    ),
    (
        "an id with NUL is ignored, and told",
        b"id: 1\ndata\n\nid: 2\0\ndata\n\n",
        &[
            r#"event message "" id="1" 0..10"#,
            "anomaly NUL in id 12..18",
            r#"event message "" last="1" 19..23"#,
        ],
    ),
    ("retry is digits", b"retry: 2500\ndata\n\n", &[r#"event message "" retry=2500 0..16"#]),
    (
        "and nothing else",
        b"retry: +5\nretry: 1s\nretry\nretry: 99999999999999999999\ndata\n\n",
        &[
            "anomaly bad retry 0..9",
            "anomaly bad retry 10..19",
            "anomaly bad retry 20..25",
            "anomaly bad retry 26..53",
            r#"event message "" 54..58"#,
        ],
    ),
    ("no data, no event: type", b"event: ping\n\n", &[r#"undispatched ping "" 0..11"#]),
    ("no data, no event: retry", b"retry: 3000\n\n", &[r#"undispatched message "" retry=3000 0..11"#]),
    (
        "no data, no event: yet the id counts",
        b"id: 7\n\ndata: a\n\n",
        &[r#"undispatched message "" id="7" 0..5"#, r#"event message "a" last="7" 7..14"#],
    ),
    ("blank lines alone are nothing", b"\n\r\n\r\n\n", &[]),
    ("a comment starts with a colon", b": heartbeat\n\n", &[r#"comment "heartbeat" 0..11"#]),
    ("and may be empty", b":\n\n", &[r#"comment "" 0..1"#]),
    (
        "or within an event",
        b"data: a\n:b\ndata: c\n\n",
        &[r#"comment "b" 8..10"#, r#"event message "a\nc" 0..18"#],
    ),
    (
        "unknown fields are ignored, and told",
        b"data: a\nfoo: b\n\n",
        &["anomaly unknown field 8..14", r#"event message "a" 0..14"#],
    ),
    ("names are case sensitive", b"Data: a\n\n", &["anomaly unknown field 0..7"]),
    ("names are not trimmed", b" data: a\n\n", &["anomaly unknown field 0..8"]),
    (
        "a line of text is no field",
        b"data: a\ngarbage\n\n",
        &["anomaly not a field 8..15", r#"event message "a" 0..15"#],
    ),
    ("NUL in data is data", b"data: a\0b\n\n", &["event message \"a\\0b\" 0..9"]),
    (
        "invalid UTF-8 marks its event and no other",
        b"data: a\xFF\n\ndata: b\n\n",
        &["anomaly invalid UTF-8 0..8", "event message \"a\u{FFFD}\" 0..8", r#"event message "b" 10..17"#],
    ),
    (
        "an event type or id gets U+FFFD instead",
        b"event: a\xFF\nid: \xC3\ndata\n\n",
        &[
            "anomaly invalid UTF-8 0..9",
            "anomaly invalid UTF-8 10..15",
            "event a\u{FFFD} \"\" id=\"\u{FFFD}\" 0..20",
        ],
    ),
    ("end of input in a line", b"event: x\ndata: a\ndata: b", &[r#"residue InLine x "a\nb" 0..24"#]),
    ("in a character", b"data: a\xE2\x82", &["residue InLine message \"a\u{FFFD}\" 0..9"]),
    ("after a line", b"data: a\n", &[r#"residue AfterLine message "a" 0..7"#]),
    ("after a CR", b"data: a\r", &[r#"residue AfterLine message "a" 0..7"#]),
    ("in a first line", b"{\"error\":1}", &[r#"residue InLine message "" 0..11"#]),
    (
        "in a comment",
        b"data: a\n\n: he",
        &[r#"event message "a" 0..7"#, r#"residue InLine message "" 9..13"#],
    ),
    ("in a field name", b"data: a\ndata", &[r#"residue InLine message "a" 0..12"#]),
    ("in an id, which is then no id", b"data: a\nid: 12", &[r#"residue InLine message "a" 0..14"#]),
    ("in the byte order mark", b"\xEF\xBB", &[r#"residue InLine message "" 0..2"#]),
    ("after the byte order mark", b"\xEF\xBB\xBF", &[]),
    ("after a blank line", b"data: a\n\n", &[r#"event message "a" 0..7"#]),
    ("of nothing", b"", &[]),
];

#[test]
fn the_rules_of_the_specification_hold_at_every_split() {
    for (rule, input, expected) in RULES {
        let whole = decode_whole(input);
        let shown: Vec<String> = whole.iter().map(ToString::to_string).collect();
        assert_eq!(shown, *expected, "{rule}");
        for first in 0..=input.len() {
            for second in first..=input.len() {
                let pieces = [&input[..first], &input[first..second], &input[second..]];
                expect_same(&whole, Decoder::new(), pieces, format!("{rule}, split at {first} and {second}"));
            }
        }
        expect_same(&whole, Decoder::new(), input.chunks(1), format!("{rule}, in bytes"));
    }
}

#[test]
fn a_cr_ends_the_event_without_waiting_for_an_lf() {
    let mut decoder = Decoder::new();
    let mut frames = decoder.feed(b"data: a\r\r");
    assert!(matches!(frames.next_frame(), Some(Frame::Event(_))));
}

#[test]
fn an_lf_in_the_next_read_belongs_to_the_cr_before_it() {
    let mut decoder = Decoder::new();
    drop(decoder.feed(b"data: a\r"));
    let mut frames = decoder.feed(b"\ndata: b\r\n\r\n");
    let Some(Frame::Event(event)) = frames.next_frame() else { panic!("the two lines are one event") };
    assert_eq!(event.data.utf8(), Some("a\nb"));
}

#[test]
fn frames_nobody_asked_for_do_not_disturb_the_following_ones() {
    let mut decoder = Decoder::new();
    drop(decoder.feed(b"id: 1\ndata: a\n\ndata: b\n\nda"));
    let mut frames = decoder.feed(b"ta: c\n\n");
    let Some(Frame::Event(event)) = frames.next_frame() else { panic!("the third event") };
    assert_eq!((event.data.utf8(), event.last_id, event.range), (Some("c"), "1", 24..31));
}

#[test]
fn leaked_frames_lose_their_read_and_nothing_after_it() {
    let streams: [&[u8]; 5] = [
        b"data: a\xFF\n\ndata: b\n\ndata: c",
        b"data: 1\ndata: a\xFF\n\ndata: b\n\n",
        b"data: a\n: comment\ndata: b\n\n: comment\r",
        b"junk\ndata: a\n: comment\n",
        b"data: too long for the cap\ndata: b\n\ndata: c\n\n",
    ];
    for stream in streams {
        for start in [&b""[..], b"\xEF\xBB", b"data: an earlier re", b"data: 1\nid: 2\n"] {
            for taken in 0..4 {
                let mut decoder = Decoder::with_limit(20);
                drop(decoder.feed(start));
                let mut frames = decoder.feed(stream);
                for _ in 0..taken {
                    frames.next_frame();
                }
                std::mem::forget(frames);
                let next = b"rest\n\ndata: whole\n\n";
                let offset = (start.len() + stream.len()) as u64;
                let mut last = None;
                let mut frames = decoder.feed(next);
                while let Some(frame) = frames.next_frame() {
                    last = Some((frame.range().clone(), matches!(frame, Frame::Event(_))));
                }
                drop(frames);
                assert_eq!(last, Some((offset + 6..offset + 17, true)), "{stream:?} after {start:?}");
                let mut frames = decoder.feed(stream);
                for _ in 0..taken {
                    frames.next_frame();
                }
                std::mem::forget(frames);
                decoder.finish();
            }
        }
    }
}

#[test]
fn an_unfinished_event_does_not_move_the_last_event_id() {
    let mut decoder = Decoder::new();
    drop(decoder.feed(b"id: 1\ndata: a\n\nid: 2\ndata: b\n"));
    let Some(Frame::Residue(residue)) = decoder.finish() else { panic!("a residue") };
    assert_eq!((residue.parsed.id, residue.parsed.last_id), (Some("2"), "1"));
    assert_eq!(decoder.last_event_id(), "1");
}

#[test]
fn a_finished_decoder_starts_a_new_stream_and_keeps_the_last_event_id() {
    let mut decoder = Decoder::with_limit(20);
    drop(decoder.feed(b"id: 1\ndata: a\n\ndata: cut"));
    assert!(decoder.finish().is_some());
    assert!(decoder.finish().is_none(), "the end comes once");
    let mut frames = decoder.feed(b"\xEF\xBB\xBFdata: b\n\ndata: longer than the cap of twenty");
    let Some(Frame::Event(event)) = frames.next_frame() else { panic!("an event of the new stream") };
    assert_eq!((event.data.utf8(), event.last_id, event.range), (Some("b"), "1", 3..10));
    assert!(matches!(frames.next_frame(), Some(Frame::Anomaly(_))), "the cap is kept too");
}

#[test]
fn a_byte_order_mark_split_before_a_comment_leaves_nothing_behind() {
    let pieces = [&b"\xEF\xBB"[..], b"\xBF: c\n", b"da", b"ta: a\n\n"];
    let seen = decode(Decoder::new(), pieces);
    assert_eq!(seen, decode_whole(&pieces.concat()));
}
