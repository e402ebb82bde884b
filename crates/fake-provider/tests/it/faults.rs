//! Each fault behaves on the wire exactly as its script says.

use crate::client::{ClientEnd, Response, provider, rendered, stream};
use serde_json::json;
use std::time::{Duration, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use turnstream_fake_provider::{
    Asked, Bytes, Completion, CutBy, Delivery, Ended, ErrorBody, Fault, Framing, Identity, Provider, Raw,
    Refusal, RetryAfter, Step, Usage, WireFormat, render,
};

const SOON: Duration = Duration::from_secs(300);
const SENTENCE: &str = "A sentence that is long enough to be cut in the middle of an event.";

/// The answer to a stream, and what the same step without its faults would have been.
async fn with_fault(step: Step, format: WireFormat) -> (Provider, Response, Vec<u8>) {
    let clean = Step { faults: Vec::new(), ..step.clone() };
    let provider = provider([step]).await;
    let response = stream(&provider, format).await;
    let calls = provider.wait_for_ends(1, SOON).await.unwrap();
    let unbroken = rendered(&clean, 0, &calls[0]);
    (provider, response, unbroken)
}

fn framed(framing: Framing) -> Delivery {
    Delivery { framing, ..Delivery::default() }
}

#[tokio::test]
async fn a_reset_after_byte_n_reaches_the_client_as_a_connection_reset() {
    for framing in [Framing::Chunked, Framing::ContentLength, Framing::CloseDelimited] {
        for format in WireFormat::ALL {
            let cut = Fault::Cut { after: 333, by: CutBy::Rst };
            let step = Step::text(SENTENCE).delivered(framed(framing)).fault(cut);
            let (provider, response, unbroken) = with_fault(step, format).await;
            assert_eq!(response.end, ClientEnd::Reset);
            assert_eq!(response.body, unbroken[..333]);
            let call = &provider.calls()[0];
            assert_eq!((call.written, call.ended), (333, Ended::Cut(CutBy::Rst)));
        }
    }
}

#[tokio::test]
async fn a_fin_after_byte_n_reaches_the_client_as_an_end_of_file() {
    for framing in [Framing::Chunked, Framing::ContentLength, Framing::CloseDelimited] {
        for format in WireFormat::ALL {
            let cut = Fault::Cut { after: 333, by: CutBy::Fin };
            let step = Step::text(SENTENCE).delivered(framed(framing)).fault(cut);
            let (provider, response, unbroken) = with_fault(step, format).await;
            assert_eq!(response.end, ClientEnd::EndOfFile);
            assert_eq!(response.body, unbroken[..333]);
            let call = &provider.calls()[0];
            assert_eq!((call.written, call.ended), (333, Ended::Cut(CutBy::Fin)));
        }
    }
}

#[tokio::test]
async fn a_cut_is_possible_after_every_byte_of_the_body() {
    let provider = provider([Step::text("Hi").always()]).await;
    let length = stream(&provider, WireFormat::Chat).await.body.len();
    for after in 0..=length {
        let cut = Step::text("Hi").fault(Fault::Cut { after, by: CutBy::Fin });
        let (_, response, unbroken) = with_fault(cut, WireFormat::Chat).await;
        assert_eq!((response.end, response.body.len()), (ClientEnd::EndOfFile, after));
        assert_eq!(response.body, unbroken[..after]);
    }
}

#[tokio::test]
async fn a_cut_body_with_a_content_length_announces_what_it_would_have_been() {
    let cut = Fault::Cut { after: 100, by: CutBy::Fin };
    let step = Step::text(SENTENCE).delivered(framed(Framing::ContentLength)).fault(cut);
    let (_, response, unbroken) = with_fault(step, WireFormat::Chat).await;
    assert_eq!(response.header("content-length"), Some(unbroken.len().to_string().as_str()));
    assert_eq!(response.body.len(), 100);
}

#[tokio::test]
async fn a_splice_is_the_first_completion_up_to_byte_n_and_a_second_one_from_its_start() {
    for format in WireFormat::ALL {
        let splice = Fault::Splice { after: 333, second: Completion::text("Another answer.") };
        let (provider, response, unbroken) = with_fault(Step::text(SENTENCE).fault(splice), format).await;
        assert_eq!(response.end, ClientEnd::Complete);
        assert_eq!(response.body[..333], unbroken[..333]);
        let second = std::str::from_utf8(&response.body[333..]).unwrap();
        let first = std::str::from_utf8(&unbroken).unwrap();
        let opening = |text: &str| text.lines().find(|line| line.starts_with("data: ")).unwrap().to_owned();
        let id = |text: &str| {
            let data: serde_json::Value = serde_json::from_str(&opening(text)[6..]).unwrap();
            [&data["id"], &data["response"]["id"], &data["message"]["id"]]
                .iter()
                .find_map(|id| id.as_str())
                .unwrap()
                .to_owned()
        };
        assert_ne!(id(first), id(second), "two completions have two ids");
        let (start, terminal) = match format {
            WireFormat::Chat => ("data: {\"id\":", "data: [DONE]\n\n"),
            WireFormat::Responses => ("event: response.created\n", "event: response.completed\n"),
            WireFormat::Messages => ("event: message_start\n", "event: message_stop\n"),
        };
        assert!(second.starts_with(start) && second.contains(terminal), "it is whole: {second}");
        assert_eq!(provider.calls().len(), 1);
    }
}

#[tokio::test]
async fn a_stall_keeps_the_connection_silent_for_its_time_and_then_goes_on() {
    let stall = Fault::Stall { after: 200, lasts_ms: Some(300), comment_every_ms: None };
    let (_, response, unbroken) = with_fault(Step::text(SENTENCE).fault(stall), WireFormat::Messages).await;
    assert!(response.took >= Duration::from_millis(300), "{:?}", response.took);
    assert_eq!(response.body, unbroken);
}

#[tokio::test]
async fn a_stall_with_comments_sends_nothing_else() {
    let stall = Fault::Stall { after: 0, lasts_ms: Some(300), comment_every_ms: Some(50) };
    let (_, response, unbroken) = with_fault(Step::text(SENTENCE).fault(stall), WireFormat::Chat).await;
    let text = response.text();
    let comments = text.matches(": keepalive\n\n").count();
    assert!((1..=6).contains(&comments), "{comments} comments in 300 ms");
    assert_eq!(text.trim_start_matches(": keepalive\n\n").as_bytes(), unbroken);
}

#[tokio::test]
async fn an_endless_stall_ends_when_the_client_leaves_and_the_log_says_so() {
    let stall = Fault::Stall { after: 150, lasts_ms: None, comment_every_ms: None };
    let provider = provider([Step::text(SENTENCE).fault(stall)]).await;
    let mut socket = TcpStream::connect(provider.address()).await.unwrap();
    let body = json!({"model": "m", "stream": true, "messages": []}).to_string();
    let head = format!("POST /v1/messages HTTP/1.1\r\ncontent-length: {}\r\n\r\n", body.len());
    socket.write_all((head + &body).as_bytes()).await.unwrap();
    let mut received = vec![0; 200];
    socket.read_exact(&mut received).await.unwrap();
    let silence = tokio::time::timeout(Duration::from_millis(300), async {
        let mut rest = Vec::new();
        while rest.len() < 200 {
            socket.read_buf(&mut rest).await.unwrap();
        }
    });
    assert!(silence.await.is_err(), "nothing but the rest of 150 bytes and the head comes");
    assert_eq!(provider.calls()[0].ended, Ended::Open);
    drop(socket);
    let calls = provider.wait_for_ends(1, SOON).await.unwrap();
    assert_eq!((calls[0].ended, calls[0].written), (Ended::ClientLeft, 150));
}

#[tokio::test]
async fn a_refusal_says_in_three_ways_when_to_come_back() {
    let refuse = |when| Step::new(Refusal::new(429, "rate_limit_error", "Slow down").retry_after(when));
    let steps = [RetryAfter::Seconds(7), RetryAfter::Date(90), RetryAfter::Millis(1500)].map(refuse);
    let provider = provider(steps).await;

    let seconds = stream(&provider, WireFormat::Chat).await;
    assert_eq!((seconds.status, seconds.header("retry-after")), (429, Some("7")));
    let error = json!({"message": "Slow down", "type": "rate_limit_error", "param": null, "code": null});
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&seconds.body).unwrap()["error"], error);

    let date = stream(&provider, WireFormat::Messages).await;
    let at = httpdate::parse_http_date(date.header("retry-after").unwrap()).unwrap();
    let asked = provider.calls()[1].at.duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert_eq!(at.duration_since(UNIX_EPOCH).unwrap().as_secs(), asked + 90);
    let body: serde_json::Value = serde_json::from_slice(&date.body).unwrap();
    assert_eq!(body["type"], "error");
    assert_eq!(body["error"], json!({"type": "rate_limit_error", "message": "Slow down"}));

    let millis = stream(&provider, WireFormat::Responses).await;
    assert_eq!(millis.header("retry-after-ms"), Some("1500"));
    assert_eq!(millis.header("retry-after"), None);
}

#[tokio::test]
async fn an_error_in_a_200_is_json_where_a_stream_was_asked_for() {
    let provider = provider([Step::new(Refusal::new(200, "server_error", "quota exceeded"))]).await;
    let response = stream(&provider, WireFormat::Chat).await;
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
    assert!(response.text().starts_with("{\"error\":"), "{}", response.text());
}

#[tokio::test]
async fn a_page_of_html_comes_as_it_is() {
    let page = "<!DOCTYPE html><html><title>502 Bad Gateway</title></html>";
    let raw = Raw { status: 200, content_type: "text/html".into(), body: page.into() };
    let provider = provider([Step::new(raw)]).await;
    let response = stream(&provider, WireFormat::Responses).await;
    assert_eq!((response.status, response.header("content-type")), (200, Some("text/html")));
    assert_eq!(response.text(), page);
}

#[tokio::test]
async fn html_and_bytes_that_are_not_utf8_can_stand_in_mid_stream() {
    let html = Fault::Insert { before_event: 2, bytes: "<html>504</html>\n".into() };
    let binary = Fault::Insert { before_event: 3, bytes: Bytes::Binary(vec![0xff, 0xfe]) };
    let (_, response, unbroken) =
        with_fault(Step::text(SENTENCE).fault(html).fault(binary), WireFormat::Chat).await;
    let first_two: usize = ends_of_events(&unbroken)[1];
    let inserted = b"<html>504</html>\n\xff\xfe";
    assert_eq!(response.body[..first_two], unbroken[..first_two]);
    assert_eq!(&response.body[first_two..first_two + inserted.len()], inserted);
    assert_eq!(response.body[first_two + inserted.len()..], unbroken[first_two..]);
}

#[tokio::test]
async fn an_in_band_error_has_the_form_of_its_format_and_is_the_last_thing() {
    let error = || ErrorBody::new("overloaded_error", "Overloaded");
    for (at_event, events_in_front) in [(0, 0), (3, 3)] {
        let step = || Step::text(SENTENCE).fault(Fault::Error { at_event, error: error() });

        let (_, chat, _) = with_fault(step(), WireFormat::Chat).await;
        assert_eq!((chat.end, chat.data().len()), (ClientEnd::Complete, events_in_front + 1));
        assert_eq!(chat.data()[events_in_front]["error"]["type"], "overloaded_error");
        assert!(!chat.text().contains("[DONE]"));

        let (_, messages, _) = with_fault(step(), WireFormat::Messages).await;
        let last = messages.events().pop().unwrap();
        assert_eq!(last.name.as_deref(), Some("error"));
        assert_eq!(messages.data().len(), events_in_front + 1);
        assert_eq!(messages.data()[events_in_front]["error"]["message"], "Overloaded");

        let (_, responses, _) = with_fault(step(), WireFormat::Responses).await;
        let data = responses.data();
        assert_eq!(data.len(), events_in_front + 2);
        assert_eq!(data[events_in_front]["type"], "error");
        assert_eq!(data[events_in_front]["sequence_number"], events_in_front);
        assert_eq!(data[events_in_front + 1]["type"], "response.failed");
        assert_eq!(data[events_in_front + 1]["response"]["error"]["code"], "overloaded_error");
    }
}

#[tokio::test]
async fn a_missing_blank_line_takes_one_byte_away() {
    let (_, response, unbroken) =
        with_fault(Step::text(SENTENCE).fault(Fault::MissingBlankLine { after_event: 1 }), WireFormat::Chat)
            .await;
    let end = ends_of_events(&unbroken)[1];
    assert_eq!(response.body, [&unbroken[..end - 1], &unbroken[end..]].concat());
    let glued = response.text().split("\n\n").nth(1).unwrap();
    assert_eq!(glued.lines().filter(|line| line.starts_with("data: {")).count(), 2);
}

#[tokio::test]
async fn a_duplicate_is_the_same_event_twice_in_a_row() {
    let (_, response, unbroken) =
        with_fault(Step::text(SENTENCE).fault(Fault::Duplicate { event: 2 }), WireFormat::Responses).await;
    let ends = ends_of_events(&unbroken);
    let twice = [&unbroken[..ends[2]], &unbroken[ends[1]..]].concat();
    assert_eq!(response.body, twice);
}

#[tokio::test]
async fn a_stall_comes_before_what_follows_it_at_the_same_byte() {
    let stall = Fault::Stall { after: 100, lasts_ms: Some(200), comment_every_ms: None };
    let cut = Fault::Cut { after: 100, by: CutBy::Fin };
    let splice = Fault::Splice { after: 100, second: Completion::text("Another answer.") };
    for then in [cut, splice] {
        let step = Step::text(SENTENCE).fault(stall.clone()).fault(then);
        let (_, response, unbroken) = with_fault(step, WireFormat::Chat).await;
        assert!(response.took >= Duration::from_millis(200), "{:?}", response.took);
        assert_eq!(response.body[..100], unbroken[..100]);
    }
}

#[tokio::test]
async fn an_event_counts_once_however_it_was_split() {
    // In the middle of event 1, and right in front of its last byte.
    let (_, clean, _) = with_fault(Step::text(SENTENCE), WireFormat::Chat).await;
    let ends = ends_of_events(&clean.body);
    for after in [ends[0] + 10, ends[1] - 1] {
        let stalled = || {
            let stall = Fault::Stall { after, lasts_ms: Some(1), comment_every_ms: None };
            Step::text(SENTENCE).fault(stall)
        };
        let twice = stalled().fault(Fault::Duplicate { event: 1 });
        let (_, response, unbroken) = with_fault(twice, WireFormat::Chat).await;
        assert_eq!(response.body, [&unbroken[..ends[1]], &unbroken[ends[0]..]].concat());

        let comment = Fault::Comment { before_event: 2, text: "x".into() };
        let (_, response, unbroken) = with_fault(stalled().fault(comment), WireFormat::Chat).await;
        assert_eq!(response.body, [&unbroken[..ends[1]], b": x\n\n", &unbroken[ends[1]..]].concat());

        let glued = stalled().fault(Fault::MissingBlankLine { after_event: 1 });
        let (_, response, unbroken) = with_fault(glued, WireFormat::Chat).await;
        assert_eq!(response.body, [&unbroken[..ends[1] - 1], &unbroken[ends[1]..]].concat());
    }
}

#[tokio::test]
async fn an_in_band_error_is_numbered_after_the_events_and_not_after_their_copies() {
    let step = Step::text(SENTENCE)
        .fault(Fault::Duplicate { event: 1 })
        .fault(Fault::Comment { before_event: 0, text: "x".into() })
        .fault(Fault::Error { at_event: 4, error: ErrorBody::new("server_error", "Broken") });
    let (_, response, _) = with_fault(step, WireFormat::Responses).await;
    let numbers: Vec<_> = response.data().iter().map(|data| data["sequence_number"].clone()).collect();
    assert_eq!(numbers, [0, 1, 1, 2, 3]);
}

#[tokio::test]
async fn a_reset_after_much_reaches_a_slow_client_with_every_byte_before_it() {
    let text = "0123456789abcdef".repeat(512 * 1024);
    let raw = Raw { status: 200, content_type: "text/plain".into(), body: text.as_str().into() };
    let after = text.len() - 1;
    let step =
        Step::new(raw).delivered(framed(Framing::CloseDelimited)).fault(Fault::Cut { after, by: CutBy::Rst });
    let provider = provider([step]).await;
    let mut socket = TcpStream::connect(provider.address()).await.unwrap();
    let request = "POST /v1/messages HTTP/1.1\r\ncontent-length: 13\r\n\r\n{\"model\":\"m\"}";
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let end = loop {
        // Slower than any fixed pause at the end, in spite of the large pieces.
        if bytes.len() > text.len() / 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut piece = vec![0; 128 * 1024];
        match socket.read(&mut piece).await {
            Ok(0) => panic!("an ordinary end"),
            Ok(length) => bytes.extend_from_slice(&piece[..length]),
            Err(error) => break error,
        }
    };
    assert_eq!(end.kind(), std::io::ErrorKind::ConnectionReset);
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    assert_eq!(bytes.len() - head, after);
}

#[test]
fn a_step_that_cannot_be_played_is_an_error_and_not_a_panic() {
    let identity = || Identity { serial: 0, created: 1_800_000_000, asked: Asked::default() };
    let date = Refusal::new(429, "rate_limit_error", "x").retry_after(RetryAfter::Date(300_000_000_000));
    let long = |delivery| Step::text("x").delivered(delivery);
    let stall = Fault::Stall { after: 0, lasts_ms: Some(600_001), comment_every_ms: None };
    for (step, said) in [
        (Step::new(date), "after the year 9999"),
        (
            long(Delivery { before_headers_ms: 600_001, ..Delivery::default() }),
            "before_headers_ms of 600001 ms",
        ),
        (long(Delivery { before_delta_ms: u64::MAX, ..Delivery::default() }), "before_delta_ms of"),
        (Step::text("x").fault(stall), "stall of 600001 ms"),
    ] {
        let error = render(WireFormat::Chat, &step, &identity()).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let usage = Usage { input: u64::MAX, cached: 0, output: 1, reasoning: 0 };
    let step = Step::new(Completion { usage, ..Completion::text("x") });
    for format in WireFormat::ALL {
        render(format, &step, &identity()).unwrap();
    }
}

#[tokio::test]
async fn a_comment_stands_between_two_events() {
    let comment = Fault::Comment { before_event: 1, text: "OPENROUTER PROCESSING".into() };
    let (_, response, unbroken) = with_fault(Step::text(SENTENCE).fault(comment), WireFormat::Chat).await;
    let end = ends_of_events(&unbroken)[0];
    let expected = [&unbroken[..end], b": OPENROUTER PROCESSING\n\n", &unbroken[end..]].concat();
    assert_eq!(response.body, expected);
}

#[tokio::test]
async fn a_fault_that_could_not_happen_is_an_answer_that_says_so() {
    for (fault, place) in [
        (Fault::Cut { after: 1_000_000, by: CutBy::Fin }, "byte 1000000"),
        (Fault::Duplicate { event: 99 }, "event 99"),
    ] {
        let provider = provider([Step::text("Hi").fault(fault)]).await;
        let response = stream(&provider, WireFormat::Chat).await;
        assert_eq!(response.status, 500);
        assert!(response.text().contains("step 0 cannot be played"), "{}", response.text());
        assert!(response.text().contains(place), "{}", response.text());
    }
}

#[tokio::test]
async fn the_call_after_a_cut_gets_the_next_step() {
    let cut = Step::text(SENTENCE).fault(Fault::Cut { after: 50, by: CutBy::Rst });
    let provider = provider([cut, Step::text("Second")]).await;
    assert_eq!(stream(&provider, WireFormat::Chat).await.end, ClientEnd::Reset);
    let second = stream(&provider, WireFormat::Chat).await;
    assert!(second.text().contains("Second"));
    let calls = provider.wait_for_ends(2, SOON).await.unwrap();
    assert_eq!([calls[0].step, calls[1].step], [Some(0), Some(1)]);
}

#[test]
fn every_fault_is_the_same_in_json_and_a_misspelled_one_is_an_error() {
    let faults = [
        Fault::Cut { after: 1, by: CutBy::Rst },
        Fault::Splice { after: 2, second: Completion::text("Another") },
        Fault::Stall { after: 3, lasts_ms: Some(4), comment_every_ms: None },
        Fault::Error { at_event: 5, error: ErrorBody::new("server_error", "Broken") },
        Fault::MissingBlankLine { after_event: 6 },
        Fault::Duplicate { event: 7 },
        Fault::Comment { before_event: 8, text: "keepalive".into() },
        Fault::Insert { before_event: 9, bytes: Bytes::Binary(vec![0xff]) },
    ];
    let json = serde_json::to_string(&faults).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Fault>>(&json).unwrap(), faults);
    assert!(serde_json::from_str::<Vec<Fault>>(&json.replace("\"lasts_ms\"", "\"lasts\"")).is_err());
}

/// Where each event of an unbroken stream ends.
fn ends_of_events(bytes: &[u8]) -> Vec<usize> {
    let blank = bytes.windows(2).enumerate().filter(|(_, window)| *window == b"\n\n");
    blank.map(|(place, _)| place + 2).collect()
}
