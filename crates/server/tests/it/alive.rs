//! A stream on which nothing happens says that it is alive.

use crate::support::{Rig, options};
use serde_json::json;
use std::time::Duration;
use turnstream_server::Options;

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_stream_says_that_it_is_alive() {
    let rig = Rig::start_with(Options { heartbeat: Duration::from_millis(40), ..options() }).await;
    let id = rig.session().await;
    let head = rig.head(&id).await;
    for path in
        [format!("/v1/sessions/{id}/events?after={head}&heartbeat=data"), "/v1/events?heartbeat=data".into()]
    {
        let mut stream = rig.stream(&path).await;
        stream.until("stream").await;
        for _ in 0..3 {
            let beat = stream.next().await;
            assert_eq!((beat.event.as_str(), beat.id.as_deref()), ("heartbeat", None));
            assert_eq!(beat.json(), json!({"type": "heartbeat"}));
        }
        assert_eq!(stream.comments, 0);
    }
    // By comment, which only shows once an event comes behind it.
    let mut stream = rig.stream(&format!("/v1/sessions/{id}/events?after={head}")).await;
    stream.until("stream").await;
    let reading = tokio::spawn(async move {
        stream.until("turn.ended").await;
        stream.comments
    });
    // Time for fifty.
    tokio::time::sleep(Duration::from_secs(2)).await;
    rig.play(&id, json!([{"do": "text", "text": "x"}])).await;
    assert!(reading.await.unwrap() >= 3);
    rig.stop().await;
}
