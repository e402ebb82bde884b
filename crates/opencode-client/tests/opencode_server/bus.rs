//! Event streams of the real server, whole and severed.

use crate::support::{ANSWER, client, connected, next, opencode, prompt, provider, until_idle, work};
use std::time::Duration;
use turnstream_opencode_client::{BusItem, Directory, Loss};
use turnstream_testkit::proxy::{Ending, FaultProxy};

#[tokio::test(flavor = "multi_thread")]
async fn two_sessions_in_parallel_do_not_leak() {
    let provider = provider().await;
    let opencode = opencode(&provider).await;
    let (client, directory) = (client(opencode.base_url()), work(&opencode));
    let bus = client.bus(&directory);
    let mut turns = Vec::new();
    for name in ["prm_1", "prm_2"] {
        let session = client.ensure_session(None, &directory, None).await.unwrap().at;
        let mut subscription = bus.subscribe(&session.id);
        let client = client.clone();
        turns.push(tokio::spawn(async move {
            connected(&mut subscription).await;
            client.prompt_async(&session, &prompt(&session, name, "Say hello")).await.unwrap();
            let (events, text) = until_idle(&mut subscription, &session.id).await;
            assert_eq!(text, ANSWER);
            let others: Vec<_> = events.iter().filter(|(of, _)| *of != session.id).collect();
            assert_eq!(others, Vec::<&(String, String)>::new());
        }));
    }
    for turn in turns {
        turn.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_directories_have_streams_of_their_own() {
    let provider = provider().await;
    let opencode = opencode(&provider).await;
    let client = client(opencode.base_url());
    let here = work(&opencode);
    let there = opencode.work().join("there");
    std::fs::create_dir(&there).unwrap();
    let there = Directory::new(&there).unwrap();
    let session = client.ensure_session(None, &here, None).await.unwrap().at;
    let mut right = client.bus(&here).subscribe(&session.id);
    let mut wrong = client.bus(&there).subscribe(&session.id);
    for subscription in [&mut right, &mut wrong] {
        connected(subscription).await;
    }
    client.prompt_async(&session, &prompt(&session, "prm_1", "Say hello")).await.unwrap();
    assert_eq!(until_idle(&mut right, &session.id).await.1, ANSWER);
    let nothing = tokio::time::timeout(Duration::from_millis(500), wrong.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_severed_stream_comes_back_with_its_gap_told_and_the_next_turn_is_seen() {
    let provider = provider().await;
    let opencode = opencode(&provider).await;
    let upstream = opencode.base_url().trim_start_matches("http://").parse().unwrap();
    let proxy = FaultProxy::http(upstream).await.unwrap();
    let (client, directory) = (client(&proxy.url()), work(&opencode));
    let session = client.ensure_session(None, &directory, None).await.unwrap().at;
    let mut subscription = client.bus(&directory).subscribe(&session.id);
    assert!(!connected(&mut subscription).await);
    for (place, ending) in [Ending::Rst, Ending::Fin].into_iter().enumerate() {
        proxy.cut_all(ending);
        // A title may still come behind the idle.
        let lost = loop {
            match next(&mut subscription).await {
                BusItem::Event(_) => {}
                other => break other,
            }
        };
        assert!(matches!(lost, BusItem::Lost { attempt: 1, .. }), "{lost:?}");
        assert!(connected(&mut subscription).await);
        let prompt = prompt(&session, &format!("prm_{place}"), "Say hello");
        client.prompt_async(&session, &prompt).await.unwrap();
        assert_eq!(until_idle(&mut subscription, &session.id).await.1, ANSWER);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_is_noticed_by_everybody_who_waits() {
    let provider = provider().await;
    let opencode = opencode(&provider).await;
    let (client, directory) = (client(opencode.base_url()), work(&opencode));
    let bus = client.bus(&directory);
    let mut subscriptions = [bus.subscribe("ses_1"), bus.subscribe("ses_2"), bus.subscribe("ses_3")];
    for subscription in &mut subscriptions {
        connected(subscription).await;
    }
    drop(opencode);
    for subscription in &mut subscriptions {
        let lost = next(subscription).await;
        assert!(
            matches!(lost, BusItem::Lost { attempt: 1, reason: Loss::Ended | Loss::Broke(_) }),
            "{lost:?}"
        );
    }
    for subscription in &mut subscriptions {
        let closed = loop {
            match next(subscription).await {
                BusItem::Lost { .. } => {}
                other => break other,
            }
        };
        assert!(matches!(closed, BusItem::Closed { .. }), "{closed:?}");
    }
}
