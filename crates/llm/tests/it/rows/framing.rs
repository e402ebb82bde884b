//! Bytes: glued, spliced, torn, unusually framed, not UTF-8, too long.

use super::{again, assert_repaired, assert_tainted, event_with, of, payload, plain, read};
use crate::corpus::{Stream, rich, stream};
use crate::reading::{Read, read_pieces, read_stream};
use turnstream_fake_provider::Part;
use turnstream_llm::{
    AnomalyKind, Format, Furthest, Head, Repair, SpliceEvidence, StreamEnd, StreamEvent, Transport,
    WithheldReason,
};

/// Rows 1 and 44: half an event of one completion and the opening of another. As in the published samples
/// there is no space, and the cut is within the id.
#[test]
fn the_glued_chunk_ends_the_attempt_and_names_the_second_completion() {
    for cut in [21, 40, 150] {
        let (first, second) = (plain(Format::Chat), again(Format::Chat));
        let opening =
            String::from_utf8(second.events[0].clone()).expect("text").replacen("data: ", "data:", 1);
        let mut events = first.events[..4].to_vec();
        events.push([&first.events[4][..b"data: ".len() + cut], opening.as_bytes()].concat());
        events.extend_from_slice(&second.events[1..]);
        let glued = Stream { events, ..first };
        let read = read(&glued);
        assert_eq!(read.outcome.ended, StreamEnd::Spliced);
        assert_eq!(read.anomalies(), [AnomalyKind::Glued]);
        assert_eq!(read.evidence(), [SpliceEvidence::Glue]);
        let finding = &read.outcome.identity.findings[0];
        assert_eq!(finding.second_id.as_deref(), payload(&second.events[0])["id"].as_str());
        assert_eq!(finding.at, glued.events[..4].concat().len() as u64);
        assert_eq!(read.outcome.ignored_from, Some(finding.at));
        assert_eq!(read.outcome.committed, []);
        assert_eq!(
            read.outcome.withheld.iter().map(|call| call.reason).collect::<Vec<_>>(),
            [WithheldReason::Tainted]
        );
        assert_eq!(read.outcome.delivered.furthest(), Furthest::OpenCall);
    }
}

#[test]
fn half_an_event_glued_to_the_next_of_the_same_completion_is_a_loss_and_no_splice() {
    let whole = plain(Format::Chat);
    let mut glued = whole.clone();
    glued.events[3] = [&whole.events[3][..60], &whole.events[4]].concat();
    glued.events.remove(4);
    let read = assert_tainted(&glued, AnomalyKind::Glued);
    assert_eq!(read.evidence(), []);
}

/// Row 2.
#[test]
fn a_splice_between_two_events_shows_by_the_name_of_the_completion() {
    for (format, evidence) in [
        (Format::Chat, SpliceEvidence::Id),
        (Format::Responses, SpliceEvidence::Start),
        (Format::Messages, SpliceEvidence::Start),
    ] {
        let mut spliced = plain(format);
        spliced.events.truncate(5);
        spliced.events.extend(again(format).events);
        let read = read(&spliced);
        assert_eq!(
            (read.outcome.ended.clone(), read.evidence()),
            (StreamEnd::Spliced, vec![evidence]),
            "{format:?}"
        );
        assert_eq!(read.anomalies(), []);
        assert_eq!(read.outcome.committed, []);
    }
}

/// Row 3, openclaw #29320: cut in a string, and padded.
#[test]
fn a_truncated_and_padded_line_taints() {
    for format in Format::ALL {
        let mut damaged = plain(format);
        let at = event_with(&damaged, "/tmp/build");
        let event = String::from_utf8(damaged.events[at].clone()).expect("text");
        let cut = event.find("/build").expect("the argument");
        damaged.events[at] = format!("{}            }}\n\n", &event[..cut]).into_bytes();
        match format {
            Format::Chat | Format::Messages => drop(assert_tainted(&damaged, AnomalyKind::Truncated)),
            // The call is sent complete once more.
            Format::Responses => {
                let read = read(&damaged);
                assert_eq!(read.anomalies(), [AnomalyKind::Truncated, AnomalyKind::Gap]);
                assert_eq!(
                    (read.outcome.ended.clone(), read.calls()),
                    (StreamEnd::Complete, read_stream(&plain(format)).calls())
                );
            }
        }
    }
}

/// Row 4.
#[test]
fn a_line_feed_within_a_delta_taints() {
    for format in [Format::Chat, Format::Messages] {
        let mut damaged = plain(format);
        let at = event_with(&damaged, "/tmp/build");
        let event = String::from_utf8(damaged.events[at].clone()).expect("text");
        damaged.events[at] = event.replace("/tmp/build", "/tmp\n/build").into_bytes();
        assert_tainted(&damaged, AnomalyKind::NotSse);
    }
}

/// Row 5.
#[test]
fn a_missing_blank_line_is_repaired() {
    for format in Format::ALL {
        for at in 0..plain(format).events.len() - 1 {
            let mut damaged = plain(format);
            damaged.events[at].pop();
            assert_repaired(&damaged, &plain(format), &[(Repair::MissingBlankLine, 1)]);
        }
    }
}

/// Rows 6 to 9: the SSE decoder handles these.
#[test]
fn other_framings_of_the_same_payloads_are_the_same() {
    for format in Format::ALL {
        let whole = stream(format, "rich", &rich(), false);
        let same = |damaged: &Stream| assert_repaired(damaged, &whole, &[]);
        same(&whole.map("without a space", |event| event.replacen("data: ", "data:", 1)));
        same(&whole.map("in CRLF", |event| event.replace('\n', "\r\n")));
        same(&whole.map("in CR", |event| event.replace('\n', "\r")));
        same(&whole.map("in two data lines", |event| event.replacen(",\"", ",\ndata: \"", 1)));
        let mut marked = whole.clone();
        marked.events.insert(0, b"\xEF\xBB\xBF".to_vec());
        same(&marked);
    }
}

/// Row 11.
#[test]
fn bytes_that_are_not_utf8_taint() {
    for format in [Format::Chat, Format::Messages] {
        let mut damaged = stream(format, "rich", &rich(), false);
        let at = event_with(&damaged, "那");
        let event = &mut damaged.events[at];
        let place = event.windows(3).position(|window| window == "那".as_bytes()).expect("there");
        event[place..place + 2].copy_from_slice(b"\xFF\xFE");
        assert_tainted(&damaged, AnomalyKind::InvalidUtf8);
    }
}

/// Rows 12 and 13.
#[test]
fn comments_and_pings_are_life_and_not_progress() {
    for format in Format::ALL {
        let mut chatty = plain(format);
        for at in (0..chatty.events.len()).rev() {
            chatty.events.insert(at, b": OPENROUTER PROCESSING\n\n".to_vec());
        }
        let read = read(&chatty);
        let alive = |read: &Read| read.said.iter().filter(|said| **said == StreamEvent::KeepAlive).count();
        assert_eq!(alive(&read) - alive(&read_stream(&plain(format))), plain(format).events.len());
        assert!(read.said.iter().all(|said| *said != StreamEvent::KeepAlive || !said.is_progress()));
        assert_eq!((read.outcome.ended.clone(), read.outcome.repairs.total()), (StreamEnd::Complete, 0));
    }
}

/// Row 38.
#[test]
fn numbers_that_are_none_are_null_outside_of_strings() {
    for word in ["NaN", "Infinity", "-Infinity"] {
        let whole = of(Format::Chat, [Part::text("NaN, Infinity and \"-Infinity\" stay.")]);
        let damaged = whole.map(word, |event| {
            event.replace("{\"index\":0,", &format!("{{\"logprobs\":{word},\"index\":0,"))
        });
        let read = read(&damaged);
        assert_eq!(
            (read.outcome.ended.clone(), read.text()),
            (StreamEnd::Complete, read_stream(&whole).text())
        );
        assert_eq!(read.outcome.repairs.of(Repair::NotANumber), whole.events.len() as u32 - 2);
    }
}

/// Row 39.
#[test]
fn an_event_above_the_limit_taints() {
    let mut damaged = plain(Format::Chat);
    let huge = "x".repeat(turnstream_sse::DEFAULT_LIMIT);
    let at = event_with(&damaged, "/tmp/build");
    let event = String::from_utf8(damaged.events[at].clone()).expect("text");
    damaged.events[at] = event.replace("/tmp/build", &huge).into_bytes();
    let read = read_stream(&damaged);
    assert_eq!(
        (read.outcome.ended.clone(), read.anomalies()),
        (StreamEnd::Corrupt, vec![AnomalyKind::Oversize])
    );
    assert_eq!(read.outcome.committed, []);
    // Of 16 million splits only some: around the beginning, the limit and the end of the event, and a few
    // between.
    let bytes = damaged.bytes();
    let begin = damaged.events[..at].concat().len();
    let near = |place: usize| [place - 1, place, place + 1];
    let end = begin + damaged.events[at].len();
    let places = [near(begin), near(begin + turnstream_sse::DEFAULT_LIMIT), near(end)].concat();
    for place in places.into_iter().chain([1 << 20, 5 << 20, 13 << 20]) {
        let (first, second) = bytes.split_at(place);
        let head = Head::stream();
        let split = read_pieces(damaged.format, &damaged.profile, head, Transport::Clean, [first, second]);
        assert!(split == read, "split at {place}");
    }
}

#[test]
fn an_event_with_nothing_in_it_is_a_keepalive() {
    for format in Format::ALL {
        let mut quiet = plain(format);
        quiet.events.insert(3, b"data:\n\n".to_vec());
        assert_repaired(&quiet, &plain(format), &[]);
        // So is an event with such a name, with or without data.
        for ping in ["event: ping\n\n", "event: ping\ndata:\n\n", "event: keepalive\ndata: alive\n\n"] {
            quiet.events[3] = ping.as_bytes().to_vec();
            assert_repaired(&quiet, &plain(format), &[]);
            let alive = |stream: &Stream| read_stream(stream).said.contains(&StreamEvent::KeepAlive);
            assert!(alive(&quiet), "{ping:?}");
        }
        // With another name, the data of an event is missing.
        quiet.events[3] = b"event: content_block_delta\ndata: \n\n".to_vec();
        assert_ne!(read_stream(&quiet).anomalies(), []);
    }
}
