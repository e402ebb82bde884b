//! What the encoder writes, byte for byte, and what it refuses.

use bytes::BytesMut;
use turnstream_sse::encode::{self, Field, Outgoing, Refused};

fn written(outgoing: &Outgoing<'_>) -> String {
    let mut out = BytesMut::new();
    encode::event(outgoing, &mut out).expect("nothing to refuse");
    String::from_utf8(out.to_vec()).expect("UTF-8 in, UTF-8 out")
}

#[test]
fn a_frame_has_its_fields_and_a_blank_line() {
    let full = Outgoing { event: Some("add"), id: Some("g1:7"), retry: Some(u64::MAX), data: "x" };
    assert_eq!(written(&full), "event: add\nid: g1:7\nretry: 18446744073709551615\ndata: x\n\n");
    assert_eq!(written(&Outgoing { data: "x", ..Outgoing::default() }), "data: x\n\n");
    assert_eq!(written(&Outgoing { id: Some(""), ..Outgoing::default() }), "id: \ndata: \n\n");
}

#[test]
fn every_line_ending_in_data_starts_a_new_data_line() {
    let data = "a\nb\r\nc\rid: 1\n\r\n";
    let expected = "data: a\ndata: b\ndata: c\ndata: id: 1\ndata: \ndata: \n\n";
    assert_eq!(written(&Outgoing { data, ..Outgoing::default() }), expected);
}

#[test]
fn an_id_or_type_cannot_inject_a_line() {
    for character in ['\r', '\n', '\0'] {
        let value = format!("a{character}data: injected");
        let mut out = BytesMut::from(&b"before"[..]);
        let id = Outgoing { id: Some(&value), ..Outgoing::default() };
        assert_eq!(encode::event(&id, &mut out), Err(Refused { field: Field::Id, character }));
        let event = Outgoing { event: Some(&value), ..Outgoing::default() };
        assert_eq!(encode::event(&event, &mut out), Err(Refused { field: Field::Event, character }));
        assert_eq!(out, "before", "nothing is written");
    }
    let refused = Refused { field: Field::Id, character: '\n' };
    assert_eq!(refused.to_string(), r"the event id contains '\n'; it must be one line without NUL");
}

#[test]
fn a_comment_cannot_inject_a_line_either() {
    let mut out = BytesMut::new();
    encode::comment("beat\n\ndata: injected\r", &mut out);
    assert_eq!(out, ": beat\n: \n: data: injected\n: \n\n");
}

#[test]
fn a_retry_stands_alone() {
    let mut out = BytesMut::new();
    encode::retry(0, &mut out);
    encode::retry(3000, &mut out);
    assert_eq!(out, "retry: 0\n\nretry: 3000\n\n");
}

#[test]
fn frames_are_written_without_allocating() {
    let mut out = BytesMut::with_capacity(64 * 1024);
    let outgoing = Outgoing { event: Some("add"), id: Some("g1:7"), retry: Some(5), data: "line\nline" };
    let allocated = allocation_counter::measure(|| {
        for _ in 0..100 {
            encode::event(&outgoing, &mut out).expect("nothing to refuse");
            encode::comment("beat", &mut out);
            encode::retry(1, &mut out);
        }
    });
    assert_eq!(allocated.count_total, 0);
}
