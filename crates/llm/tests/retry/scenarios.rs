//! Faults between provider and client over real sockets.
//!
//! Each test checks the class, the number of requests, and that no event has to be taken back.

mod diagnostics;

use crate::support::*;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use turnstream_fake_provider::{
    Asked, Bytes, Chunk, Completion, CutBy, ErrorBody, Fault, Finish, Identity, Part, Raw, Refusal,
    RetryAfter, Step, WireFormat, render,
};
use turnstream_llm::client::{CallEvent, CallOutcome, Timeouts, Wait};
use turnstream_llm::retry::Consumer::{AttemptAware, PlainWire};
use turnstream_llm::{Format, ItemNo, Profile, StreamEvent};
use turnstream_model::SharedError;
use turnstream_model::attempts::{
    Answer, Attempt, AttemptName, Begun, Ended, Evidence, Ledger, Tokens, Unkept, Verdict,
};
use turnstream_model::event::ErrorClass;
use turnstream_model::id::SessionId;
use turnstream_testkit::proxy::{Action, Ending as Cut, EventMatch, Fault as Wire, FaultProxy, Point, Rule};

const ANSWER: &str = "The whole answer, in one piece, as it should be.";

fn good() -> Step {
    Step::text(ANSWER)
}

fn is_whole(told: &[CallEvent]) {
    assert!(matches!(ending(told), CallOutcome::Complete(_)), "{:?}", ending(told));
    assert_eq!(text_of(told), ANSWER);
}

fn failed(told: &[CallEvent]) -> ErrorClass {
    match ending(told) {
        CallOutcome::Failed { failure, .. } => failure.class,
        other => panic!("it did not fail: {other:?}"),
    }
}

#[tokio::test]
async fn a_good_answer_is_one_request_and_one_row() {
    for format in Format::ALL {
        let bench = bench([good()]).await;
        let told = bench.run(format, AttemptAware).await;
        is_whole(&told);
        let rows = bench.rows().await;
        assert_eq!(rows.len(), 1);
        let end = rows[0].end.as_ref().unwrap();
        assert_eq!((end.verdict, end.class, end.status), (Verdict::Complete, None, Some(200)));
        assert!(
            matches!(&end.tokens, Tokens::Reported(usage) if usage.output == Some(10)),
            "{:?}",
            end.tokens
        );
        assert!(end.findings.completions.len() == 1 && end.findings.completions[0].whole);
        assert_eq!(rows[0].begun.request.len(), 64);
        assert!(end.request_id.as_ref().is_some_and(|id| id.starts_with("req_")), "{:?}", end.request_id);
        let request = &bench.provider.calls()[0];
        assert_eq!(request.header("accept-encoding"), Some("identity"));
        assert_eq!(request.header("authorization"), Some("Bearer k"));
    }
}

#[tokio::test]
async fn refusals_that_pass_are_tried_again_and_their_delays_kept() {
    let cases = [
        (Refusal::new(500, "api_error", "m"), ErrorClass::ProviderError, 0),
        (Refusal::new(529, "overloaded_error", "m"), ErrorClass::Overloaded, 0),
        (
            Refusal::new(429, "rate_limit_error", "m").retry_after(RetryAfter::Seconds(7)),
            ErrorClass::RateLimited,
            7000,
        ),
        (
            Refusal::new(429, "rate_limit_error", "m").retry_after(RetryAfter::Millis(1500)),
            ErrorClass::RateLimited,
            1500,
        ),
        (
            Refusal::new(429, "rate_limit_error", "Please try again in 11.054s"),
            ErrorClass::RateLimited,
            11_054,
        ),
        (Refusal::new(200, "overloaded_error", "m"), ErrorClass::Overloaded, 0),
    ];
    for (refusal, class, least) in cases {
        for format in Format::ALL {
            let bench = bench([Step::new(refusal.clone()), good()]).await;
            let told = bench.run(format, PlainWire).await;
            is_whole(&told);
            assert_eq!(bench.verdicts().await, [(Verdict::Failed, Some(class)), (Verdict::Complete, None)]);
            let waited = told.iter().find_map(|told| match told {
                CallEvent::Retrying { attempt: 2, reason, until, wait: Wait::Slept, .. }
                    if *reason == class =>
                {
                    Some(until.0 - START.0)
                }
                _ => None,
            });
            let waited = waited.expect("it waited visibly");
            assert!(waited >= least && (least == 0 || waited <= least + 5000), "{class}: {waited} ms");
        }
    }
}

#[tokio::test]
async fn what_does_not_pass_is_asked_once() {
    let cases = [
        (Refusal::new(400, "invalid_request_error", "m"), ErrorClass::InvalidRequest),
        (Refusal::new(401, "authentication_error", "m"), ErrorClass::Auth),
        (Refusal::new(401, "ModelError", "m"), ErrorClass::ModelUnavailable),
        (Refusal::new(413, "request_too_large", "m"), ErrorClass::ContextOverflow),
        (Refusal::new(429, "insufficient_quota", "m"), ErrorClass::QuotaExhausted),
    ];
    for (refusal, class) in cases {
        let bench = bench([Step::new(refusal).always()]).await;
        let told = bench.run(Format::Chat, AttemptAware).await;
        assert_eq!(failed(&told), class);
        assert_eq!(bench.verdicts().await, [(Verdict::Failed, Some(class))]);
    }
}

#[tokio::test]
async fn a_provider_that_stays_broken_is_given_up_in_the_end() {
    let bench = bench([Step::new(Refusal::new(500, "api_error", "m")).always()]).await;
    let told = bench.run(Format::Messages, AttemptAware).await;
    assert_eq!(failed(&told), ErrorClass::ProviderError);
    let rows = bench.rows().await;
    assert!((5..40).contains(&rows.len()), "{} requests", rows.len());
}

#[tokio::test]
async fn damage_after_text_is_superseded_for_those_who_know_attempts_and_an_error_for_the_others() {
    let second = Completion::text("Of another completion.");
    let error = ErrorBody::new("overloaded_error", "m");
    let cases = [
        (Fault::Splice { after: 700, second: second.clone() }, ErrorClass::StreamSpliced),
        (Fault::Cut { after: 700, by: CutBy::Rst }, ErrorClass::TransportLost),
        (Fault::Error { at_event: 4, error }, ErrorClass::Overloaded),
        (Fault::Insert { before_event: 4, bytes: "data: {\"id\":\"c\n\n".into() }, ErrorClass::StreamCorrupt),
    ];
    for (fault, class) in cases {
        let bench_of = || async { bench([good().fault(fault.clone()), good()]).await };
        let bench = bench_of().await;
        let told = bench.run(Format::Chat, AttemptAware).await;
        is_whole(&told);
        assert_eq!(
            bench.verdicts().await,
            [(Verdict::Failed, Some(class)), (Verdict::Complete, None)],
            "{fault:?}"
        );
        let superseded = told.iter().any(
            |told| matches!(told, CallEvent::Superseded { attempt: 1, by: 2, items } if *items == [ItemNo(0)]),
        );
        assert!(superseded, "{fault:?}: {told:?}");

        let bench = bench_of().await;
        let told = bench.run(Format::Chat, PlainWire).await;
        assert_eq!(failed(&told), class);
        assert_eq!(bench.verdicts().await, [(Verdict::Failed, Some(class))], "{fault:?}");
    }
}

#[tokio::test]
async fn an_answer_without_an_end_or_without_content_is_tried_again() {
    let missing = Step::new(Completion::text("This lacks its end").finished(Finish::Missing));
    let empty = Step::new(Completion::of([]));
    for (step, class) in [(missing, ErrorClass::Incomplete), (empty, ErrorClass::EmptyOutput)] {
        for format in Format::ALL {
            let bench = bench([step.clone(), good()]).await;
            let told = bench.run(format, AttemptAware).await;
            is_whole(&told);
            let expected = [(Verdict::Failed, Some(class)), (Verdict::Complete, None)];
            assert_eq!(bench.verdicts().await, expected, "{format:?}");
        }
    }
}

#[tokio::test]
async fn a_page_where_a_stream_should_be_is_named_and_tried_again() {
    let page = "<!DOCTYPE html><html><head><title>Bad gateway</title></head><body>502</body></html>";
    let raw = |status| Raw { status, content_type: "text/html".to_owned(), body: page.into() };
    for (status, class) in [(200, ErrorClass::NotAStream), (502, ErrorClass::ProviderError)] {
        let bench = bench([Step::new(raw(status)), good()]).await;
        let told = bench.run(Format::Chat, PlainWire).await;
        is_whole(&told);
        assert_eq!(bench.verdicts().await[0], (Verdict::Failed, Some(class)));
        let problem = bench.rows().await[0].end.as_ref().unwrap().problem.clone();
        assert_eq!(problem.as_deref(), Some("Bad gateway"));
    }
}

/// The events of an answer in the chat format, for the first request.
fn events(step: &Step) -> Vec<Vec<u8>> {
    let asked = Asked { model: "m".to_owned(), stream: true, include_usage: true, ..Asked::default() };
    let identity = Identity { serial: 0, created: START.0 / 1000, asked };
    let answer = render(WireFormat::Chat, step, &identity).unwrap();
    let bytes = answer.chunks.into_iter().filter_map(|chunk| match chunk {
        Chunk::Write { bytes, .. } => Some(bytes),
        Chunk::Stall(_) => None,
    });
    bytes.collect()
}

fn rendered(step: &Step) -> String {
    String::from_utf8(events(step).concat()).unwrap()
}

/// The offsets in the body where the first events of a good answer end.
fn after_events(count: usize) -> usize {
    events(&good()).iter().take(count).map(Vec::len).sum()
}

#[tokio::test]
async fn an_error_that_comes_as_an_answer_is_no_answer_for_a_provider_known_for_it() {
    let ended = Completion::of([]).finished(Finish::Other("error_finish".to_owned()));
    // The text is in the delta of the finish itself (qwen-code #1791).
    let body = rendered(&Step::new(ended));
    let told = body.replace("\"delta\":{}", "\"delta\":{\"content\":\"Throttling: TPM(10680324/10000000)\"}");
    assert_ne!(told, body);
    let content_type = "text/event-stream".to_owned();
    let throttled = Raw { status: 200, content_type, body: told.as_str().into() };
    let bench = bench([Step::new(throttled), good()]).await;
    let mut asked = call(&bench.provider.base_url(), Format::Chat, AttemptAware);
    asked.route.profile = Profile::QWEN;
    is_whole(&all(bench.client.start(asked)).await);
    let expected = [(Verdict::Failed, Some(ErrorClass::RateLimited)), (Verdict::Complete, None)];
    assert_eq!(bench.verdicts().await, expected);
}

#[tokio::test]
async fn a_packed_body_is_recognised() {
    let body = Bytes::Binary(b"\x1f\x8b\x08\0\0\0\0\0\0\x03KI,I\x04\0".to_vec());
    let raw = Raw { status: 200, content_type: "text/event-stream".to_owned(), body };
    let bench = bench([Step::new(raw), good()]).await;
    is_whole(&bench.run(Format::Chat, PlainWire).await);
    assert_eq!(bench.verdicts().await[0], (Verdict::Failed, Some(ErrorClass::NotAStream)));
}

#[tokio::test]
async fn silence_and_keepalives_without_end_are_stalls_by_different_clocks() {
    let clocks = Timeouts {
        silence: Duration::from_millis(2000),
        progress: Duration::from_millis(3000),
        ..Timeouts::default()
    };
    let silent = Fault::Stall { after: 400, lasts_ms: None, comment_every_ms: None };
    let chatty = Fault::Stall { after: after_events(3), lasts_ms: None, comment_every_ms: Some(50) };
    for (fault, clock) in [(silent, "not one byte"), (chatty, "nothing but keep-alives")] {
        let bench =
            bench_with([good().fault(fault), good()], clocks.clone(), Arc::new(QuickClock::new())).await;
        let told = bench.run(Format::Chat, AttemptAware).await;
        is_whole(&told);
        let rows = bench.rows().await;
        let end = rows[0].end.as_ref().unwrap();
        assert_eq!(end.class, Some(ErrorClass::Stalled));
        assert!(end.problem.as_ref().unwrap().starts_with(clock), "{:?}", end.problem);
    }
}

/// A model that is silent for minutes is not asked again.
#[tokio::test]
async fn a_silence_that_ends_in_time_is_waited_for_and_nothing_is_asked_again() {
    let silent = |after| Fault::Stall { after, lasts_ms: Some(600), comment_every_ms: None };
    let chatty = Fault::Stall { after: after_events(3), lasts_ms: Some(600), comment_every_ms: Some(50) };
    let cases = [
        (Format::Chat, chatty),
        (Format::Chat, silent(400)),
        (Format::Responses, silent(400)),
        (Format::Messages, silent(400)),
    ];
    for (format, pause) in cases {
        let bench = bench_with([good().fault(pause)], Timeouts::default(), Arc::new(QuickClock::new())).await;
        is_whole(&bench.run(format, PlainWire).await);
        assert_eq!(bench.verdicts().await, [(Verdict::Complete, None)], "{}", format.name());
    }
}

#[tokio::test]
async fn a_slow_head_is_a_stall_and_a_slow_reader_is_none() {
    let clocks = Timeouts { headers: Duration::from_millis(1500), ..Timeouts::default() };
    let late = turnstream_fake_provider::Delivery { before_headers_ms: 60_000, ..Default::default() };
    let bench = bench_with([good().delivered(late), good()], clocks, Arc::new(QuickClock::new())).await;
    is_whole(&bench.run(Format::Chat, PlainWire).await);
    assert_eq!(bench.verdicts().await[0], (Verdict::Failed, Some(ErrorClass::Stalled)));

    let clocks = Timeouts {
        silence: Duration::from_millis(3000),
        progress: Duration::from_millis(3000),
        lifetime: Duration::from_millis(3000),
        ..Timeouts::default()
    };
    let long = "word ".repeat(2000);
    let bench = bench_with([Step::text(&long)], clocks, Arc::new(QuickClock::new())).await;
    let mut running = bench.client.start(call(&bench.provider.base_url(), Format::Chat, PlainWire));
    let mut told = vec![running.next().await.unwrap()];
    tokio::time::sleep(Duration::from_millis(3500)).await;
    told.extend(all(running).await);
    assert!(matches!(ending(&told), CallOutcome::Complete(_)), "{:?}", ending(&told));
    assert_eq!(text_of(&told), long);
}

fn with_tools() -> Step {
    let calls = [json!({"path": "a.rs"}), json!({"path": "b.rs", "text": "some more text"})];
    Step::new(Completion::of(calls.map(|arguments| Part::tool_call("edit", arguments))))
}

/// Only in the responses format is a call complete before the answer is.
#[tokio::test]
async fn after_a_whole_call_nothing_is_asked_again() {
    for consumer in [AttemptAware, PlainWire] {
        let bench = bench([with_tools(), good()]).await;
        let proxy = FaultProxy::http(bench.provider.address()).await.unwrap();
        let done = EventMatch::named("response.output_item.done");
        proxy.add(Rule::new(Wire::At(Point::AfterEvent(done), Action::Cut(Cut::Rst))));
        let told = all(bench.client.start(call(&proxy.url(), Format::Responses, consumer))).await;
        match ending(&told) {
            CallOutcome::Truncated { outcome, failure } => {
                let runnable: Vec<_> = outcome.runnable().iter().map(|call| call.arguments.clone()).collect();
                assert_eq!(runnable, [r#"{"path":"a.rs"}"#]);
                assert_eq!(failure.class, ErrorClass::TransportLost);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(bench.verdicts().await, [(Verdict::Truncated, Some(ErrorClass::TransportLost))]);
    }
}

#[tokio::test]
async fn half_arguments_are_held_back_so_that_they_can_be_asked_for_again() {
    for format in Format::ALL {
        let bench = bench([with_tools(), with_tools()]).await;
        let proxy = FaultProxy::http(bench.provider.address()).await.unwrap();
        let inside = Point::AfterEvent(EventMatch::containing("a.r"));
        proxy.add(Rule::new(Wire::At(inside, Action::Cut(Cut::Rst))));
        let told = all(bench.client.start(call(&proxy.url(), format, PlainWire))).await;
        assert!(matches!(ending(&told), CallOutcome::Complete(_)), "{format:?}: {:?}", ending(&told));
        let arguments: Vec<_> = told
            .iter()
            .filter_map(|told| match told {
                CallEvent::Stream { attempt, event: StreamEvent::CallArguments { text, .. } } => {
                    Some((*attempt, text.as_str()))
                }
                _ => None,
            })
            .collect();
        assert_eq!(
            arguments,
            [(2, r#"{"path":"a.rs"}"#), (2, r#"{"path":"b.rs","text":"some more text"}"#)],
            "{format:?}"
        );
        assert_eq!(bench.rows().await.len(), 2);
    }
}

#[tokio::test]
async fn a_closed_door_is_unreachable_and_every_knock_has_its_row() {
    let bench = bench([good()]).await;
    let proxy = FaultProxy::http(bench.provider.address()).await.unwrap();
    proxy.stop_listening().await.unwrap();
    let told = all(bench.client.start(call(&proxy.url(), Format::Chat, PlainWire))).await;
    assert_eq!(failed(&told), ErrorClass::Unreachable);
    let rows = bench.attempts.attempts("ses_1".into()).await.unwrap();
    assert_eq!(rows.len(), 6, "one attempt and five retries");
    assert_eq!(bench.provider.calls().len(), 0);
    assert!(rows.iter().all(|row| row.end.as_ref().is_some_and(|end| end.tokens == Tokens::Unknown)));
}

#[tokio::test]
async fn an_address_that_cannot_be_asked_is_our_mistake_and_not_tried_again() {
    let bench = bench([good()]).await;
    for address in ["ftp://127.0.0.1:1", "no address", "/v1"] {
        let told = all(bench.client.start(call(address, Format::Chat, PlainWire))).await;
        assert_eq!(failed(&told), ErrorClass::InvalidRequest, "{address}");
    }
    assert_eq!(bench.attempts.attempts("ses_1".into()).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_connection_that_dies_between_two_calls_repeats_nothing_by_itself() {
    let bench = bench([good(), good(), good()]).await;
    let proxy = FaultProxy::http(bench.provider.address()).await.unwrap();
    is_whole(&all(bench.client.start(call(&proxy.url(), Format::Chat, PlainWire))).await);
    // The reused connection is dead, and the next request notices that.
    proxy.cut_all(Cut::Rst);
    let mut second = call(&proxy.url(), Format::Chat, PlainWire);
    second.attempts_before = 1;
    second.step = 2;
    is_whole(&all(bench.client.start(second)).await);
    let rows = bench.attempts.attempts("ses_1".into()).await.unwrap();
    assert!(bench.provider.calls().len() <= rows.len());
    assert_eq!(bench.provider.calls().len(), 2);
}

#[tokio::test]
async fn a_request_that_is_cancelled_or_dropped_has_an_end() {
    let stall = Fault::Stall { after: 400, lasts_ms: None, comment_every_ms: None };
    let bench = bench([good().fault(stall).always()]).await;
    let running = bench.client.start(call(&bench.provider.base_url(), Format::Chat, AttemptAware));
    bench.provider.wait_for_requests(1, Duration::from_secs(300)).await.unwrap();
    running.cancel();
    let told = all(running).await;
    assert_eq!(*ending(&told), CallOutcome::Cancelled);

    let mut again = call(&bench.provider.base_url(), Format::Chat, AttemptAware);
    again.attempts_before = 1;
    let running = bench.client.start(again);
    bench.provider.wait_for_requests(2, Duration::from_secs(300)).await.unwrap();
    drop(running);
    bench.provider.wait_for_ends(2, Duration::from_secs(300)).await.unwrap();
    let mut rows = bench.rows().await;
    for _ in 0..15_000 {
        if rows.iter().all(|row| row.end.is_some()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        rows = bench.rows().await;
    }
    assert!(rows.iter().all(|row| row.verdict() == Some(Verdict::Cancelled)), "{rows:?}");
}

/// A ledger on a full disk.
struct FullDisk;

impl Ledger for FullDisk {
    fn begin(&self, _: Begun) -> Answer<()> {
        Box::pin(std::future::ready(Err(Unkept::Store(SharedError::new("the disk is full")))))
    }

    fn end(&self, name: AttemptName, _: Ended) -> Answer<()> {
        Box::pin(std::future::ready(Err(Unkept::NeverBegan(name))))
    }

    fn attempts(&self, _: SessionId) -> Answer<Vec<Attempt>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn evidence(&self, _: AttemptName) -> Answer<Option<Evidence>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

#[tokio::test]
async fn what_cannot_be_written_down_does_not_leave() {
    let bench = bench([good()]).await;
    let environment = turnstream_llm::client::Environment {
        ledger: Arc::new(FullDisk),
        waits: Arc::new(bench.attempts.clone()),
        clock: Arc::new(QuickClock::new()),
        redact: Arc::new(turnstream_redact::Rules::standard()),
    };
    let client = turnstream_llm::client::Client::new(Default::default(), environment).unwrap();
    let told = all(client.start(call(&bench.provider.base_url(), Format::Chat, AttemptAware))).await;
    assert_eq!(*ending(&told), CallOutcome::NotRecorded(Unkept::Store(SharedError::new("the disk is full"))));
    assert_eq!(bench.provider.calls().len(), 0);
}

#[tokio::test]
async fn what_is_kept_of_a_broken_answer_has_no_text_and_no_key_in_it() {
    let secret = "sk-ant-api03-Zm9vYmFyYmF6cXV4MDEyMzQ1Njc4OUFCQ0RFRkdISUpLTE1OT1A";
    let text = format!("The key is {secret}, keep it.");
    let error = ErrorBody::new("server_error", &format!("Incorrect API key provided: {secret}."));
    for format in Format::ALL {
        let broken = Step::text(&text).fault(Fault::Error { at_event: 9, error: error.clone() });
        let bench = bench([broken, good()]).await;
        is_whole(&bench.run(format, AttemptAware).await);
        let rows = bench.rows().await;
        let evidence = bench.attempts.evidence(rows[0].begun.name.clone()).await.unwrap().unwrap();
        let kept = String::from_utf8_lossy(&evidence.head).into_owned();
        assert!(kept.contains("<12>"), "the length of a delta is there: {kept}");
        assert!(kept.contains("server_error"), "the error is there: {kept}");
        bench.attempts.close();
        for part in [secret, &secret[..20], &secret[20..], "keep it"] {
            assert!(is_nowhere(bench.directory.path(), part), "{part:?} was kept: {kept}");
        }
        // The deltas have 12 characters. No piece of the secret is stored either.
        let pieces = (0..text.len() - 12).map(|at| &text[at..at + 8]);
        for piece in pieces.filter(|piece| secret.contains(*piece)) {
            assert!(!kept.contains(piece), "{piece:?} was kept: {kept}");
        }
    }
}
