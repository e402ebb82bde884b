//! Faults of single events, for every framing of HTTP and every line end of SSE.

use super::{Then, body, get, http_proxy};
use turnstream_testkit::proxy::{
    Action, Edit, Ending, EventMatch, Fault, FaultProxy, Point, Rest, Rule, RuleId,
};

const EVENTS: [&str; 4] = [
    "event: start\ndata: {\"n\":1}\n\n",
    ": ping\n\n",
    "event: delta\nid: 7\ndata: {\"n\":2}\ndata: more\n\n",
    "event: stop\ndata: {\"n\":3}\n\n",
];

#[derive(Clone, Copy, Debug)]
enum Framed {
    Length,
    Chunked,
    Close,
}

/// The response to a GET, in pieces of so many bytes.
fn response(framed: Framed, line_end: &str, piece: usize) -> Vec<Vec<u8>> {
    let stream = EVENTS.concat().replace('\n', line_end);
    let (header, body) = match framed {
        Framed::Length => (format!("Content-Length: {}\r\n", stream.len()), stream.into_bytes()),
        Framed::Close => (String::new(), stream.into_bytes()),
        Framed::Chunked => {
            let chunks = stream
                .as_bytes()
                .chunks(piece.max(10))
                .map(|chunk| [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
            let body = chunks.chain([b"0\r\n\r\n".to_vec()]).collect::<Vec<_>>().concat();
            ("Transfer-Encoding: chunked\r\n".to_owned(), body)
        }
    };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{header}\r\n");
    let wire = [head.as_bytes(), &body].concat();
    wire.chunks(piece).map(<[u8]>::to_vec).collect()
}

async fn proxy(framed: Framed, line_end: &str, piece: usize) -> FaultProxy {
    let pieces = response(framed, line_end, piece);
    let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    http_proxy(&pieces, Then::Close).await
}

/// Adds the rule to a fresh proxy in every framing, line end and piece size, and checks the body.
async fn expect(fault: Fault, times: u64, expected: &[&str]) {
    for framed in [Framed::Length, Framed::Chunked, Framed::Close] {
        for line_end in ["\n", "\r\n", "\r"] {
            for piece in [7, 64, 4096] {
                let proxy = proxy(framed, line_end, piece).await;
                let rule: RuleId = proxy.add(Rule::new(fault.clone()).times(times));
                let (bytes, end) = get(&proxy, "/").await;
                let case = format!("{framed:?}, {line_end:?}, pieces of {piece}");
                assert_eq!(body(&bytes), expected.concat().replace('\n', line_end), "{case}");
                end.unwrap();
                assert_eq!(proxy.fired(rule), times, "{case}");
            }
        }
    }
}

#[tokio::test]
async fn without_rules_the_body_is_the_same_byte_for_byte() {
    for framed in [Framed::Length, Framed::Chunked, Framed::Close] {
        for line_end in ["\n", "\r\n", "\r"] {
            for piece in [5, 4096] {
                let proxy = proxy(framed, line_end, piece).await;
                let bytes = get(&proxy, "/").await.0;
                assert_eq!(body(&bytes), EVENTS.concat().replace('\n', line_end));
            }
        }
    }
}

#[tokio::test]
async fn a_dropped_event_is_missing_and_all_others_arrive_unchanged() {
    let drop = Fault::Event(EventMatch::named("delta"), Edit::Drop);
    expect(drop, 1, &[EVENTS[0], EVENTS[1], EVENTS[3]]).await;
}

#[tokio::test]
async fn a_duplicated_event_comes_twice() {
    let twice = Fault::Event(EventMatch::containing("{\"n\":2}\nmore"), Edit::Duplicate);
    expect(twice, 1, &[EVENTS[0], EVENTS[1], EVENTS[2], EVENTS[2], EVENTS[3]]).await;
}

#[tokio::test]
async fn an_event_is_swapped_with_the_next() {
    let swap = Fault::Event(EventMatch::nth(1), Edit::Later(1));
    expect(swap, 1, &[EVENTS[1], EVENTS[0], EVENTS[2], EVENTS[3]]).await;
}

#[tokio::test]
async fn an_event_moves_later_by_several_places_and_at_most_to_the_end() {
    let later = |places| Fault::Event(EventMatch::named("start"), Edit::Later(places));
    expect(later(2), 1, &[EVENTS[1], EVENTS[2], EVENTS[0], EVENTS[3]]).await;
    expect(later(99), 1, &[EVENTS[1], EVENTS[2], EVENTS[3], EVENTS[0]]).await;
}

#[tokio::test]
async fn a_rule_hits_as_many_events_as_it_may_fire() {
    let drop = Fault::Event(EventMatch::new(|event| !event.name().is_empty()), Edit::Drop);
    expect(drop, 2, &[EVENTS[1], EVENTS[3]]).await;
}

#[tokio::test]
async fn a_splice_before_or_after_an_event_is_part_of_the_stream() {
    let splice = |point, rest| Fault::At(point, Action::Splice(b"data: x".to_vec(), rest));
    let before = Point::BeforeEvent(EventMatch::named("delta"));
    expect(splice(before, Rest::Keep), 1, &[EVENTS[0], EVENTS[1], "data: x", EVENTS[2], EVENTS[3]]).await;
    let after = Point::AfterEvent(EventMatch::named("delta"));
    expect(splice(after, Rest::Discard), 1, &[EVENTS[0], EVENTS[1], EVENTS[2], "data: x"]).await;
}

#[tokio::test]
async fn a_cut_at_an_event_ends_before_or_after_it_without_the_end_of_the_body() {
    let before = Point::BeforeEvent(EventMatch::named("delta"));
    let after = Point::AfterEvent(EventMatch::named("delta"));
    for (point, events) in [(before, 2), (after, 3)] {
        let proxy = proxy(Framed::Chunked, "\n", 4096).await;
        let cut = proxy.add(Rule::new(Fault::At(point, Action::Cut(Ending::Fin))));
        let bytes = get(&proxy, "/").await.0;
        assert_eq!(proxy.fired(cut), 1);
        assert!(!bytes.ends_with(b"0\r\n\r\n"), "the client must see that the body is cut");
        assert_eq!(body(&[&bytes, b"0\r\n\r\n".as_slice()].concat()), EVENTS[..events].concat());
    }
}

#[tokio::test]
async fn a_cut_inside_the_body_of_a_chunked_stream_counts_content_and_not_framing() {
    let proxy = proxy(Framed::Chunked, "\n", 4096).await;
    proxy.add(Rule::new(Fault::At(Point::BodyByte(20), Action::Cut(Ending::Fin))));
    let bytes = String::from_utf8(get(&proxy, "/").await.0).unwrap();
    let (_, chunks) = bytes.split_once("\r\n\r\n").unwrap();
    let (size, content) = chunks.split_once("\r\n").unwrap();
    assert_eq!(size, format!("{:x}", EVENTS.concat().len()), "the chunk is the upstream's, cut inside");
    assert_eq!(content, &EVENTS.concat()[..20]);
}

#[tokio::test]
async fn several_rules_work_on_one_stream() {
    let proxy = proxy(Framed::Chunked, "\r\n", 16).await;
    proxy.add(Rule::new(Fault::Event(EventMatch::nth(2), Edit::Drop)));
    proxy.add(Rule::new(Fault::Event(EventMatch::named("start"), Edit::Duplicate)));
    proxy.add(Rule::new(Fault::Event(EventMatch::named("delta"), Edit::Later(1))));
    let expected = [EVENTS[0], EVENTS[0], EVENTS[3], EVENTS[2]].concat().replace('\n', "\r\n");
    assert_eq!(body(&get(&proxy, "/").await.0), expected);
    assert_eq!(proxy.record().fired.len(), 3);
}
