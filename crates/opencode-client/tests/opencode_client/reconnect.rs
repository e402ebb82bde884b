//! Streams that are lost.

use crate::fake::{Answer, Fake, directory, line, quiet, told};
use std::time::Duration;
use turnstream_opencode_client::{BusSettings, Client, ClientInfo, NoPassword, Timeouts};

const QUICK: Duration = Duration::from_millis(20);

fn quick() -> BusSettings {
    BusSettings { first_pause: QUICK, ..BusSettings::default() }
}

const ENDED: &str = "the server ended the event stream";

#[tokio::test]
async fn a_stream_that_ends_is_opened_again_and_the_gap_is_told() {
    let mut fake = Fake::streaming().await;
    let bus = fake.client_with(NoPassword, quick()).bus(&directory());
    let mut subscription = bus.subscribe("ses_1");
    let mut stream = fake.stream().await;
    stream.say_connected().await;
    assert_eq!(told(&mut subscription).await, "connected, gap false");
    // As opencode does it when a directory is disposed.
    stream.say(&line("v-instance-dispose.sse", "server.instance.disposed", 0)).await;
    drop(stream);
    assert_eq!(told(&mut subscription).await, format!("lost, attempt 1: {ENDED}"));
    let mut stream = fake.stream().await;
    // Who comes now has missed nothing.
    let mut late = bus.subscribe("ses_1");
    quiet(&mut late).await;
    stream.say_connected().await;
    assert_eq!(told(&mut subscription).await, "connected, gap true");
    assert_eq!(told(&mut late).await, "connected, gap false");
}

#[tokio::test]
async fn healthy_traffic_starts_the_count_again() {
    let mut fake = Fake::streaming().await;
    let bus = fake.client_with(NoPassword, quick()).bus(&directory());
    let mut subscription = bus.subscribe("ses_1");
    for _ in 0..8 {
        let mut stream = fake.stream().await;
        stream.say_connected().await;
        assert!(told(&mut subscription).await.starts_with("connected"));
        stream.say(&line("x-heartbeat.sse", "server.heartbeat", 0)).await;
        drop(stream);
        assert_eq!(told(&mut subscription).await, format!("lost, attempt 1: {ENDED}"));
    }
}

#[tokio::test]
async fn a_server_that_only_greets_is_given_up_and_its_bus_replaced() {
    let mut fake = Fake::streaming().await;
    let client = fake.client_with(NoPassword, quick());
    let bus = client.bus(&directory());
    let mut subscription = bus.subscribe("ses_1");
    for attempt in 1..=4 {
        fake.stream().await.say_connected().await;
        assert!(told(&mut subscription).await.starts_with("connected"));
        let gone = told(&mut subscription).await;
        if attempt <= 3 {
            assert_eq!(gone, format!("lost, attempt {attempt}: {ENDED}"));
        } else {
            assert_eq!(
                gone,
                format!("closed: gave up after 3 attempts to open the event stream again: {ENDED}")
            );
        }
    }
    fake.no_stream().await;
    assert!(bus.is_closed());
    // It stays closed, for whoever still has it.
    assert!(told(&mut subscription).await.starts_with("closed"));
    assert!(told(&mut bus.subscribe("ses_1")).await.starts_with("closed"));
    let mut again = client.bus(&directory()).subscribe("ses_1");
    fake.stream().await.say_connected().await;
    assert_eq!(told(&mut again).await, "connected, gap false");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_given_up() {
    let fake = Fake::streaming().await;
    let client = fake.client_with(NoPassword, quick());
    drop(fake);
    tokio::task::yield_now().await;
    let mut subscription = client.bus(&directory()).subscribe("ses_1");
    for attempt in 1..=3 {
        let lost = told(&mut subscription).await;
        let expected =
            format!("lost, attempt {attempt}: the event stream cannot be opened: cannot connect to opencode");
        assert!(lost.starts_with(&expected), "{lost}");
    }
    let closed = told(&mut subscription).await;
    assert!(closed.starts_with("closed: gave up after 3 attempts"), "{closed}");
}

#[tokio::test]
async fn silence_cuts_a_stream_and_so_does_a_server_that_never_answers() {
    let mut answers = [Answer::Mute, Answer::Stream].into_iter().cycle();
    let mut fake = Fake::start(move |_| answers.next().unwrap()).await;
    let timeouts = Timeouts {
        stream_open: Duration::from_secs(2),
        event_idle: Duration::from_secs(1),
        ..Timeouts::default()
    };
    let client = Client::new(&fake.url(), NoPassword, timeouts, ClientInfo::default()).unwrap();
    let client = client.with_bus_settings(quick());
    let mut subscription = client.bus(&directory()).subscribe("ses_1");
    let silent = |attempt: u32, time: &str| {
        format!("lost, attempt {attempt}: nothing came on the event stream for {time}")
    };
    assert_eq!(told(&mut subscription).await, silent(1, "2s"));
    let mut stream = fake.stream().await;
    stream.say_connected().await;
    assert_eq!(told(&mut subscription).await, "connected, gap false");
    assert_eq!(told(&mut subscription).await, silent(2, "1s"));
    stream.closed_by_client().await;
}

#[tokio::test]
async fn a_web_page_is_not_a_stream() {
    let page = Answer::Say(200, "content-type: text/html\r\n", "<!doctype html>".to_owned());
    let fake = Fake::start(move |_| page.clone()).await;
    let bus = fake.client_with(NoPassword, quick()).bus(&directory());
    let lost = told(&mut bus.subscribe("ses_1")).await;
    assert!(lost.contains("opencode answered GET /event with a web page"), "{lost}");
}

#[test]
fn a_dead_reader_is_noticed_by_whoever_waits() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (readers, waiters) = (runtime(), runtime());
    let mut fake = waiters.block_on(Fake::streaming());
    let client = fake.client();
    let bus = client.bus(&directory());
    let mut subscription = readers.block_on(async { bus.subscribe("ses_1") });
    waiters.block_on(async {
        let mut stream = fake.stream().await;
        stream.say_connected().await;
        assert_eq!(told(&mut subscription).await, "connected, gap false");
        let waiting = tokio::spawn(async move { told(&mut subscription).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        readers.shutdown_background();
        assert_eq!(waiting.await.unwrap(), "closed: the reader of the event stream is gone");
        assert!(bus.is_closed());
        let mut again = client.bus(&directory()).subscribe("ses_1");
        fake.stream().await.say_connected().await;
        assert_eq!(told(&mut again).await, "connected, gap false");
    });
}
