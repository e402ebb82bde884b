//! Limits as a client sees them: a problem with a name, and a count in the metrics.

use crate::support::{Answer, Rig, options};
use serde_json::{Value, json};
use turnstream_gateway::{Limits, Settings};

/// Checks a refusal, and returns its header `Retry-After`.
fn refused(answer: &Answer, status: u16, name: &str, limit: u64) -> Option<String> {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.body["type"], format!("urn:turnstream:problem:{name}"), "{answer:?}");
    assert_eq!(answer.body["limit"], limit, "{answer:?}");
    answer.headers.get("retry-after").map(|value| value.to_str().unwrap().to_owned())
}

/// A text prompt of about so many bytes.
fn text(bytes: usize) -> Value {
    json!({"content": [{"type": "text", "text": "x".repeat(bytes)}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_beyond_a_limit_is_refused_by_name_and_counted() {
    let limits =
        Limits { sessions: 2, live_agents: 1, queued_prompts: 2, queued_bytes: 5 << 20, ..Limits::default() };
    let settings = Settings { limits, ..Settings::default() };
    let rig = Rig::start_retaining(options(), settings).await;
    let new = json!({"agent": "scripted", "cwd": rig.work()});
    let mut long = new.clone();
    long["title"] = "t".repeat(9 << 20).into();
    let answer = rig.post("/v1/sessions", long).await;
    refused(&answer, 400, "too-long", 1_000);
    assert_eq!(answer.body["member"], "title");
    assert!(answer.body.to_string().len() < 1_000, "the title is not repeated");

    let (busy, other) = (rig.session().await, rig.session().await);
    assert_eq!(refused(&rig.post("/v1/sessions", new).await, 503, "too-many-sessions", 2), None);

    rig.play(&busy, json!([{"do": "text", "text": "x"}, {"do": "stall"}])).await;
    rig.until(&busy, |snapshot| snapshot["session"]["status"] == "busy" && snapshot["queue"] == json!([]))
        .await;
    let answer = rig.play(&other, json!([])).await;
    assert_eq!(refused(&answer, 503, "too-many-agents", 1).as_deref(), Some("5"));

    let prompts = format!("/v1/sessions/{busy}/prompts");
    assert_eq!(rig.post(&prompts, text(4 << 20)).await.status, 202);
    let answer = rig.post(&prompts, text(4 << 20)).await;
    assert_eq!(refused(&answer, 429, "queue-full", 5 << 20).as_deref(), Some("5"));
    assert_eq!(rig.post(&prompts, text(1)).await.status, 202);
    refused(&rig.post(&prompts, text(1)).await, 429, "queue-full", 2);

    let page = reqwest::get(rig.url("/metrics")).await.unwrap().text().await.unwrap();
    for limit in ["sessions", "live_agents", "queued_prompts", "queued_bytes", "text_length"] {
        let sample = format!("turnstream_refused_total{{limit=\"{limit}\"}} 1\n");
        assert!(page.contains(&sample), "{sample} is not in {page}");
    }
    assert!(page.contains("turnstream_agents_live 1\n"), "{page}");
    rig.stop().await;
}
