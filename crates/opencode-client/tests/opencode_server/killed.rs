//! A server that is killed in the middle of a turn and started again by its supervisor.

use crate::lab::slowly;
use crate::seen::Watch;
use crate::serve::{Place, kill, pid};
use crate::support::{ANSWER, SOON, provider_of};
use std::time::Duration;
use turnstream_fake_provider::Step;
use turnstream_opencode_client::{BusSettings, ServerState, TurnSettings};
use turnstream_testkit::agents::Opencode;

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_whose_server_is_killed_ends_once_and_the_next_message_works() {
    let endless = Step::text(&"And more of it. ".repeat(200)).delivered(slowly(200));
    let provider = provider_of([endless.for_user_text("Run on"), Step::text(ANSWER).always()]).await;
    let place = Place::new(&provider);
    let server = place.start().await;
    // It takes a while until a server is there again, on a slow machine.
    let settings = BusSettings {
        attempts: 1_000,
        first_pause: Duration::from_millis(100),
        longest_pause: Duration::from_millis(500),
        ..BusSettings::default()
    };
    let client = server.client().clone().with_bus_settings(settings);
    let session = client.ensure_session(None, &place.work(), None).await.unwrap().at;
    let mut watch = Watch::new(client.send_message(&session, "Run on", TurnSettings::default()));
    watch.until_text().await;
    watch.until_text().await;
    let mut watched = server.watch().unwrap();
    kill(pid(&server));
    let seen = watch.ended().await;
    let fault = seen.fault();
    assert_eq!(fault.code, -3, "{fault:?}");
    let text = seen.text();
    assert!("And more of it. ".repeat(200).starts_with(&text) && !text.is_empty(), "{text}");

    let ready = |state: &ServerState| matches!(state, ServerState::Ready { restarts: 1, .. });
    tokio::time::timeout(SOON, watched.wait_for(ready)).await.unwrap().unwrap();
    let next = Watch::new(client.send_message(&session, "Say hello", TurnSettings::default()));
    let next = next.ended().await;
    assert_eq!((next.text().as_str(), next.end().as_str()), (ANSWER, "end_turn"), "{:#?}", next.events);
    let calls = provider.calls();
    let calls = calls.iter().filter(|call| call.asked.model == Opencode::MODEL);
    let said: Vec<&str> = calls.map(|call| call.asked.user_text.as_str()).collect();
    assert_eq!(said, ["Run on", "Say hello"], "it was not asked again");
    server.stop().await.unwrap();
}
