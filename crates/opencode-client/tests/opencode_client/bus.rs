//! Who is told what.

use crate::fake::{Answer, Fake, directory, line, lines, quiet, sessions, shown, told};
use serde_json::Value;
use std::time::Duration;
use turnstream_opencode_client::{BusSettings, Directory, NoPassword, Subscription};

/// The events of these sessions in a capture.
fn expected(fixture: &str, wanted: &[&str]) -> Vec<String> {
    let of_wanted = |line: String| {
        let event: Value = serde_json::from_str(&line).unwrap();
        let session = event["properties"]["sessionID"].as_str()?;
        wanted.contains(&session).then(|| shown(&line))
    };
    lines(fixture).into_iter().filter_map(of_wanted).collect()
}

async fn told_so_many(subscription: &mut Subscription, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(told(subscription).await);
    }
    all
}

#[tokio::test]
async fn two_sessions_on_one_stream_do_not_leak_into_each_other() {
    let mut fake = Fake::streaming().await;
    let bus = fake.client().bus(&directory());
    let [one, two] = &sessions("l-two-sessions.sse")[..] else { panic!() };
    let mut first = bus.subscribe(one);
    let mut second = bus.subscribe(two);
    let mut stream = fake.stream().await;
    for line in lines("l-two-sessions.sse") {
        stream.say(&line).await;
    }
    for (subscription, session) in [(&mut first, one), (&mut second, two)] {
        assert_eq!(told(subscription).await, "connected, gap false");
        let expected = expected("l-two-sessions.sse", &[session]);
        assert!(expected.len() > 10);
        assert_eq!(told_so_many(subscription, expected.len()).await, expected);
        quiet(subscription).await;
    }
    fake.no_stream().await;
    assert_eq!(fake.lines(), ["GET /event?directory=%2Fworkspace"], "one stream for both");
}

#[tokio::test]
async fn a_subagent_is_heard_by_who_follows_its_parent_and_not_the_other_way_round() {
    let mut fake = Fake::streaming().await;
    let bus = fake.client().bus(&directory());
    let [parent, child] = &sessions("m-subagent.sse")[..] else { panic!() };
    let mut of_parent = bus.subscribe(parent);
    let mut of_child = bus.subscribe(child);
    let mut stream = fake.stream().await;
    for line in lines("m-subagent.sse") {
        stream.say(&line).await;
    }
    let of_both = expected("m-subagent.sse", &[parent, child]);
    let of_one = expected("m-subagent.sse", &[child]);
    for (subscription, expected) in [(&mut of_parent, of_both), (&mut of_child, of_one)] {
        assert_eq!(told(subscription).await, "connected, gap false");
        assert_eq!(told_so_many(subscription, expected.len()).await, expected);
    }
}

#[tokio::test]
async fn a_child_that_was_not_announced_is_heard_once_it_is_adopted() {
    let mut fake = Fake::streaming().await;
    let bus = fake.client().bus(&directory());
    let [parent, child] = &sessions("m-subagent.sse")[..] else { panic!() };
    let mut subscription = bus.subscribe(parent);
    let mut stream = fake.stream().await;
    stream.say_connected().await;
    assert_eq!(told(&mut subscription).await, "connected, gap false");
    let of_child = |line: &String| line.contains(child.as_str()) && line.contains("session.status");
    let busy = lines("m-subagent.sse").into_iter().find(of_child).unwrap();
    stream.say(&busy).await;
    quiet(&mut subscription).await;
    subscription.adopt(child);
    stream.say(&busy).await;
    assert_eq!(told(&mut subscription).await, shown(&busy));
}

#[tokio::test]
async fn an_end_that_does_not_say_whose_it_is_reaches_everybody_and_other_news_nobody() {
    let mut fake = Fake::streaming().await;
    let bus = fake.client().bus(&directory());
    let mut subscriptions = [bus.subscribe("ses_1"), bus.subscribe("ses_2")];
    let mut stream = fake.stream().await;
    stream.say_connected().await;
    // The captured error, without its session: opencode declares that it may be missing.
    let mut error: Value = serde_json::from_str(&line("i2-error-in-200.sse", "session.error", 0)).unwrap();
    error["properties"].as_object_mut().unwrap().remove("sessionID").unwrap();
    stream.say(&line("v-instance-dispose.sse", "server.instance.disposed", 0)).await;
    stream.say(&error.to_string()).await;
    for subscription in &mut subscriptions {
        assert_eq!(told(subscription).await, "connected, gap false");
        assert_eq!(told(subscription).await, shown(&error.to_string()));
        quiet(subscription).await;
    }
}

#[tokio::test]
async fn connected_is_told_when_the_server_says_so_and_not_before() {
    let mut fake = Fake::streaming().await;
    let bus = fake.client().bus(&directory());
    let mut early = bus.subscribe("ses_1");
    let mut stream = fake.stream().await;
    quiet(&mut early).await;
    stream.say_connected().await;
    assert_eq!(told(&mut early).await, "connected, gap false");
    // Who comes later is told at once.
    assert_eq!(told(&mut bus.subscribe("ses_2")).await, "connected, gap false");
}

#[tokio::test]
async fn two_directories_have_two_streams() {
    let mut fake = Fake::streaming().await;
    let client = fake.client();
    let other = Directory::new("/home/user").unwrap();
    let mut here = client.bus(&directory()).subscribe("ses_1");
    let mut stream = fake.stream().await;
    let mut there = client.bus(&other).subscribe("ses_1");
    let mut other_stream = fake.stream().await;
    assert_eq!(
        [&stream.asked.target, &other_stream.asked.target],
        ["/event?directory=%2Fworkspace", "/event?directory=%2Fhome%2Fuser"]
    );
    other_stream.say_connected().await;
    assert_eq!(told(&mut there).await, "connected, gap false");
    quiet(&mut here).await;
    stream.say_connected().await;
    assert_eq!(told(&mut here).await, "connected, gap false");
}

#[tokio::test]
async fn asking_for_things_opens_no_stream() {
    let mut fake = Fake::start(|_| Answer::json(200, "{}")).await;
    let client = fake.client();
    let bus = client.bus(&directory());
    client.status(&directory()).await.unwrap();
    fake.no_stream().await;
    assert_eq!(fake.lines(), ["GET /session/status?directory=%2Fworkspace"]);
    assert!(!bus.is_closed());
}

#[tokio::test]
async fn who_does_not_read_is_told_and_keeps_nobody_else_waiting() {
    const TURNS: usize = 20;
    let mut fake = Fake::streaming().await;
    let settings = BusSettings { queue_bytes: 200_000, ..BusSettings::default() };
    let bus = fake.client_with(NoPassword, settings).bus(&directory());
    let [session] = &sessions("o3-long-tool-output.sse")[..] else { panic!() };
    let mut slow = bus.subscribe(session);
    let mut quick = bus.subscribe(session);
    let mut stream = fake.stream().await;
    let events = lines("o3-long-tool-output.sse");
    let expected = expected("o3-long-tool-output.sse", &[session]);
    stream.say_connected().await;
    assert_eq!(told(&mut quick).await, "connected, gap false");
    // Read as they come, because what waits for a quick reader is bounded too.
    for _ in 0..TURNS {
        for event in events.iter().skip(1) {
            stream.say(event).await;
        }
        assert_eq!(told_so_many(&mut quick, expected.len()).await, expected);
    }

    assert_eq!(told(&mut slow).await, "connected, gap false");
    let idle = shown(&line("o3-long-tool-output.sse", "session.idle", 0));
    let is_content = |line: &&String| line.contains("\"type\":\"message.");
    let content: Vec<String> = events.iter().filter(is_content).map(|line| shown(line)).collect();
    let mut before = Vec::new();
    let mark = loop {
        match told(&mut slow).await {
            item if item.contains(session) => before.push(item),
            item => break item,
        }
    };
    assert_eq!(mark, "lagged: Slow");
    assert_eq!(before[..expected.len()], expected, "what fitted was not thrown away");
    // Behind the mark: every state since, and no content.
    let ends = TURNS - before.iter().filter(|item| **item == idle).count();
    let mut behind = Vec::new();
    while behind.iter().filter(|item| **item == idle).count() < ends {
        behind.push(told(&mut slow).await);
    }
    assert_eq!(behind.iter().find(|item| content.contains(item)), None);
    quiet(&mut slow).await;
    // From then on everything again.
    let message = line("o3-long-tool-output.sse", "message.updated", 0);
    stream.say(&message).await;
    assert_eq!(told(&mut slow).await, shown(&message));
}

#[tokio::test]
async fn an_event_that_cannot_be_read_is_not_lost_in_silence() {
    let mut fake = Fake::streaming().await;
    let settings = BusSettings { event_bytes: 10_000, ..BusSettings::default() };
    let bus = fake.client_with(NoPassword, settings).bus(&directory());
    let mut subscription = bus.subscribe("ses_1");
    let mut stream = fake.stream().await;
    stream.say_connected().await;
    assert_eq!(told(&mut subscription).await, "connected, gap false");
    stream.say("{\"type\":").await;
    assert_eq!(told(&mut subscription).await, "lagged: Unreadable");
    stream.say(&format!("{{\"type\":\"{}\"}}", "x".repeat(10_000))).await;
    assert_eq!(told(&mut subscription).await, "lagged: Unreadable");
    quiet(&mut subscription).await;
}

#[tokio::test]
async fn without_a_subscriber_the_stream_is_closed_and_opened_again_for_the_next() {
    let mut fake = Fake::streaming().await;
    let settings = BusSettings { linger: Duration::from_millis(400), ..BusSettings::default() };
    let bus = fake.client_with(NoPassword, settings).bus(&directory());
    let first = bus.subscribe("ses_1");
    let mut stream = fake.stream().await;
    stream.say_connected().await;
    drop(first);
    // Somebody who comes soon finds it open.
    let mut second = bus.subscribe("ses_1");
    assert_eq!(told(&mut second).await, "connected, gap false");
    fake.no_stream().await;
    drop(second);
    stream.closed_by_client().await;
    assert!(!bus.is_closed());
    let mut third = bus.subscribe("ses_1");
    fake.stream().await.say_connected().await;
    assert_eq!(told(&mut third).await, "connected, gap false");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_just_as_the_stream_is_put_away_is_never_left_waiting() {
    let mut fake = Fake::streaming().await;
    let settings = BusSettings { linger: Duration::from_millis(1), ..BusSettings::default() };
    let bus = fake.client_with(NoPassword, settings).bus(&directory());
    let server = tokio::spawn(async move {
        let mut open = Vec::new();
        loop {
            let mut stream = fake.stream().await;
            stream.say_connected().await;
            open.push(stream);
        }
    });
    for round in 0..300 {
        let mut subscription = bus.subscribe("ses_1");
        assert_eq!(told(&mut subscription).await, "connected, gap false");
        drop(subscription);
        tokio::time::sleep(Duration::from_micros(700 + 10 * (round % 60))).await;
    }
    server.abort();
}
