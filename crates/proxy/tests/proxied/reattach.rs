//! Requests whose client is gone.

use crate::harness::{Gateway, Got, LONG, bytes, client, events, read, request, route};
use std::time::Duration;
use turnstream_fake_provider::{
    Bytes, Completion, CutBy, Delivery, Ended, Fault, Provider, Raw, Reply, Script, Step, WireFormat,
};
use turnstream_llm::Format;
use turnstream_provider::Route;

/// An answer whose pieces come slowly, and a second one.
fn script(before_delta_ms: u64) -> Script {
    let slow = Delivery { before_delta_ms, ..Delivery::default() };
    let text = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen";
    Script::new([Step::new(Completion::text(text)).delivered(slow), Step::text("the second answer").always()])
}

/// Asks, reads the beginning of the answer, and goes away.
async fn leave(gateway: &Gateway) -> Vec<u8> {
    let sent = client().post(gateway.url(Format::Chat)).json(&request(Format::Chat, "go")).send();
    let mut response = sent.await.unwrap();
    response.chunk().await.unwrap().unwrap().to_vec()
}

/// The same, with a first answer that stops in the middle, so that it cannot end before its client is gone.
fn stalled() -> Script {
    let mut script = script(0);
    let middle = events(WireFormat::Chat, &script.steps[0])[..3].iter().map(Vec::len).sum();
    script.steps[0].faults.push(Fault::Stall {
        after: middle,
        lasts_ms: Some(8_000),
        comment_every_ms: None,
    });
    script
}

/// Asks until the answer that was left is taken over. The proxy notices a moment later that a client is gone.
/// Until then the same request is a request of its own.
async fn take_over(gateway: &Gateway) -> Got {
    for _ in 0..3_000 {
        let got = gateway.ask(Format::Chat, &request(Format::Chat, "go")).await;
        if got.text().contains("one two") {
            return got;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the answer cannot be taken over");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_gets_the_answer_from_its_first_byte() {
    let provider = Provider::start(stalled()).await.unwrap();
    let gateway = Gateway::of(Route { reattach: LONG, ..route(Format::Chat, &provider) }).await;
    let beginning = leave(&gateway).await;
    let got = take_over(&gateway).await;
    got.assert_complete(Format::Chat, &[], "reattached");
    assert!(got.body.starts_with(&beginning), "{}", got.text());
    assert_eq!(gateway.proxy.figures()["main"].reattached, 1);
    assert_eq!(provider.calls()[0].ended, Ended::Complete);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_reattach_the_provider_is_left_at_once() {
    let provider = Provider::start(script(60_000)).await.unwrap();
    let gateway = Gateway::start([route(Format::Chat, &provider)], Default::default()).await;
    // No content comes for a minute, so the client leaves before the head.
    let sent = client().post(gateway.url(Format::Chat)).json(&request(Format::Chat, "go")).send();
    let sent = tokio::spawn(sent);
    provider.wait_for_requests(1, LONG).await.unwrap();
    sent.abort();
    let calls = provider.wait_for_ends(1, LONG).await.unwrap();
    assert_eq!(calls[0].ended, Ended::ClientLeft);
    gateway.quiet().await;
    assert_eq!(gateway.proxy.figures()["main"].ended, [0, 0, 0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_nobody_takes_over_is_given_up_after_a_while() {
    let provider = Provider::start(script(60_000)).await.unwrap();
    let quick = Route { reattach: Duration::from_millis(100), ..route(Format::Chat, &provider) };
    let gateway = Gateway::of(quick).await;
    let sent =
        tokio::spawn(client().post(gateway.url(Format::Chat)).json(&request(Format::Chat, "go")).send());
    provider.wait_for_requests(1, LONG).await.unwrap();
    sent.abort();
    let calls = provider.wait_for_ends(1, LONG).await.unwrap();
    assert_eq!(calls[0].ended, Ended::ClientLeft);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_open_requests_are_never_joined_and_a_finished_one_is_not_repeated() {
    let provider = Provider::start(script(20)).await.unwrap();
    let gateway = Gateway::of(Route { reattach: LONG, ..route(Format::Chat, &provider) }).await;
    let body = request(Format::Chat, "go");
    let (one, other) = tokio::join!(gateway.ask(Format::Chat, &body), gateway.ask(Format::Chat, &body));
    assert_ne!(one.body, other.body);
    let third = gateway.ask(Format::Chat, &body).await;
    assert!(third.text().contains("second"), "{}", third.text());
    assert_eq!(provider.calls().len(), 3);
    assert_eq!(gateway.proxy.figures()["main"].reattached, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_broke_without_its_client_is_not_given_to_the_same_request() {
    let mut script = stalled();
    let Fault::Stall { after, .. } = script.steps[0].faults[0] else { panic!("it stalls first") };
    // Applied first, so that the stall is before the cut.
    script.steps[0].faults.insert(0, Fault::Cut { after, by: CutBy::Rst });
    let provider = Provider::start(script).await.unwrap();
    let gateway = Gateway::of(Route { reattach: LONG, ..route(Format::Chat, &provider) }).await;
    leave(&gateway).await;
    gateway.quiet().await;
    assert_eq!(gateway.proxy.figures()["main"].ended, [0, 0, 1, 0]);
    let got = gateway.ask(Format::Chat, &request(Format::Chat, "go")).await;
    got.assert_complete(Format::Chat, &[], "asked again");
    assert!(got.text().contains("second"), "{}", got.text());
    assert_eq!(gateway.proxy.figures()["main"].reattached, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_credential_never_gets_the_answer() {
    let provider = Provider::start(stalled()).await.unwrap();
    let gateway = Gateway::of(Route { reattach: LONG, ..route(Format::Chat, &provider) }).await;
    leave(&gateway).await;
    for _ in 0..5 {
        let sent = client().post(gateway.url(Format::Chat)).json(&request(Format::Chat, "go"));
        let got = read(sent.header("authorization", "Bearer other").send().await.unwrap()).await;
        assert!(got.text().contains("second"), "{}", got.text());
    }
    assert_eq!(gateway.proxy.figures()["main"].reattached, 0);
    // It was there all the time.
    take_over(&gateway).await.assert_complete(Format::Chat, &[], "with the same credential");
    assert_eq!(gateway.proxy.figures()["main"].reattached, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_answer_passes_byte_by_byte() {
    let plain = bytes(&events(WireFormat::Chat, &Step::text("one two three four")));
    // As it is: the provider gives every answer an id and a time of its own otherwise.
    let (content_type, body) = ("text/event-stream".to_owned(), Bytes::Binary(plain.to_vec()));
    let raw = Step::new(Reply::Raw(Raw { status: 200, content_type, body }));
    let provider = Provider::start(Script::new([raw])).await.unwrap();
    let gateway = Gateway::of(route(Format::Chat, &provider)).await;
    let got = gateway.ask(Format::Chat, &request(Format::Chat, "x")).await;
    assert_eq!(got.text(), String::from_utf8_lossy(&plain));
}
