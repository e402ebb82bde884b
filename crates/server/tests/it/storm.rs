//! Clients that come and go all the time.

use crate::support::{Rig, Stream};
use serde_json::json;
use turnstream_testkit::lawful::Tail;

const RECONNECTS: usize = 1_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_reconnects_give_every_event_exactly_once() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    // Live all the time: what follows a reconnect is partly in the log, partly shared, partly still to come.
    rig.play(&id, json!([{"do": "burst", "count": 3_000, "bytes": 30, "per_second": 1_500}])).await;
    let mut clients = Vec::new();
    for number in 0..4_usize {
        let (http, url) = (rig.http.clone(), rig.url(&format!("/v1/sessions/{id}/events")));
        clients.push(tokio::spawn(async move {
            let mut cursor = None;
            let mut lines = Vec::new();
            for round in 0..RECONNECTS / 4 {
                let mut request = http.get(&url);
                if let Some(cursor) = &cursor {
                    request = request.header("last-event-id", cursor);
                }
                let mut stream = Stream::of(request).await;
                assert_eq!(stream.next().await.event, "stream");
                for _ in 0..(round + number) % 5 {
                    let seen = stream.next().await;
                    lines.push(seen.data.clone());
                    cursor = seen.id;
                    if seen.event == "turn.ended" {
                        return lines;
                    }
                }
            }
            let mut request = http.get(&url);
            if let Some(cursor) = &cursor {
                request = request.header("last-event-id", cursor);
            }
            let rest = Stream::of(request).await.until("turn.ended").await;
            lines.extend(rest.into_iter().skip(1).map(|seen| seen.data));
            lines
        }));
    }
    let mut unions = Vec::new();
    for client in clients {
        unions.push(client.await.unwrap());
    }
    rig.until(&id, |snapshot| snapshot["session"]["status"] == "idle").await;
    let log = rig.log(&id).await;
    for union in unions {
        let end = union.len();
        assert_eq!(union, log[..end], "every event once and in order");
        assert!(union[end - 1].contains("\"turn.ended\""));
    }
    rig.judge(&id, Tail::Settled).await;
    rig.stop().await;
}
