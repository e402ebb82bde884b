//! Sessions that wait for a limit: the routes, and what the metrics count.

use crate::support::Rig;
use serde_json::json;
use turnstream_testkit::lawful::Tail;

#[tokio::test(flavor = "multi_thread")]
async fn waits_are_cancelled_and_woken_and_counted_by_their_ends() {
    let rig = Rig::start().await;
    let script = json!({"script": [{"do": "text", "text": "done"}]}).to_string();
    let new = json!({"agent": "scripted", "cwd": rig.work(), "on_limit": "wait", "continue_with": script});
    let made = rig.post("/v1/sessions", new).await;
    assert_eq!(made.status, 201, "{made:?}");
    let id = made.body["id"].as_str().unwrap().to_owned();
    let limit =
        json!([{"do": "fail", "class": "rate_limited", "message": "later", "retry_in_ms": 3_600_000}]);

    rig.play(&id, limit.clone()).await;
    rig.until(&id, |snapshot| snapshot["session"]["status"] == "retrying").await;
    let cancelled = rig.post(&format!("/v1/sessions/{id}/cancel"), json!({})).await;
    assert_eq!((cancelled.status, &cancelled.body["parked"]), (202, &json!("t1")), "{cancelled:?}");
    rig.until(&id, |snapshot| snapshot["session"]["status"] == "idle").await;

    rig.play(&id, limit).await;
    rig.until(&id, |snapshot| snapshot["session"]["status"] == "retrying").await;
    let woken = rig.post(&format!("/v1/sessions/{id}/wake"), json!({})).await;
    assert_eq!(woken.status, 202, "{woken:?}");
    rig.until(&id, |snapshot| snapshot["turns"].as_array().unwrap().len() == 3).await;
    rig.until(&id, |snapshot| snapshot["session"]["status"] == "idle").await;
    rig.judge(&id, Tail::Settled).await;

    let metrics = rig.http.get(rig.url("/metrics")).send().await.unwrap().text().await.unwrap();
    for line in [
        r#"turnstream_unattended_parked_total{agent="scripted",because="limit"} 2"#,
        r#"turnstream_unattended_released_total{agent="scripted",outcome="cancelled"} 1"#,
        r#"turnstream_unattended_released_total{agent="scripted",outcome="woken"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    rig.stop().await;
}
