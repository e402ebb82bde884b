//! Half a character in what a client sends: clients cut strings by UTF-16 units too.

use crate::problems::assert_problem;
use crate::support::{Answer, Rig, answer};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use serde_json::{Value, json};

const SEED: u64 = 0xD83D_DE00;

/// Texts as units of UTF-16.
fn texts(cases: u32, holds: impl Fn(Vec<u16>)) {
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(SEED),
        ..ProptestConfig::default()
    };
    let units = vec![0xD83D_u16, 0xDE00, 0xDBFF, 0xDC00, 0x61, 0x22, 0x5C, 0xFC, 0xFFFD];
    let text = prop::collection::vec(prop::sample::select(units), 0..9);
    let run = |mut units: Vec<u16>| {
        units.insert(0, 0x61);
        holds(units);
        Ok(())
    };
    TestRunner::new(config).run(&text, run).unwrap();
}

fn escaped(units: &[u16]) -> String {
    units.iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

async fn send(rig: &Rig, method: &str, path: &str, body: String) -> Answer {
    let method = method.parse().unwrap();
    answer(rig.http.request(method, rig.url(path)).header("content-type", "application/json").body(body))
        .await
}

#[test]
fn a_body_is_read_with_its_halves_as_lost_characters() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let rig = runtime.block_on(Rig::start());
    let id = runtime.block_on(rig.session());
    let path = format!("/v1/sessions/{id}");
    texts(100, |units| {
        let body = format!(r#"{{"title":"{}"}}"#, escaped(&units));
        let changed = runtime.block_on(send(&rig, "PATCH", &path, body));
        assert_eq!((changed.status, &changed.body["title"]), (200, &json!(String::from_utf16_lossy(&units))));
    });
    runtime.block_on(async {
        let body = r#"{"content":[{"type":"text","text":"cut \ud83d here"}]}"#.to_owned();
        let sent = send(&rig, "POST", &format!("{path}/prompts"), body).await;
        assert!((200..300).contains(&sent.status), "{sent:?}");
        let log = rig.log(&id).await;
        assert!(log.iter().any(|line| line.contains("cut \u{FFFD} here")), "{log:?}");
        // What else is wrong is still found, with its place.
        let unknown = send(&rig, "PATCH", &path, r#"{"title":"\ud83d","colour":"red"}"#.to_owned()).await;
        assert_problem(&unknown, 400, "unknown-field", &["`colour`"]);
        let wrong = send(&rig, "PATCH", &path, r#"{"mode":"\ud83d","title":5}"#.to_owned()).await;
        assert_problem(&wrong, 400, "bad-body", &["title:", "a string"]);
        let broken = send(&rig, "PATCH", &path, "{\"title\":\"\\ud83d\",\n oops}".to_owned()).await;
        assert_problem(&broken, 400, "bad-json", &[]);
        rig.stop().await;
    });
}

#[test]
fn a_session_is_imported_with_its_halves_as_lost_characters() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (rig, file) = runtime.block_on(async {
        let rig = Rig::start().await;
        let id = rig.session().await;
        rig.played(&id, json!([{"do": "text", "text": "Says @0@"}])).await;
        let url = rig.url(&format!("/v1/sessions/{id}/export"));
        let file = rig.http.get(url).send().await.unwrap().text().await.unwrap();
        (rig, file)
    });
    texts(30, |units| {
        let file = file.replace("@0@", &escaped(&units));
        runtime.block_on(async {
            let copy = answer(rig.import("?new_id=true", file)).await;
            assert_eq!(copy.status, 201, "{copy:?}");
            let log = rig.log(copy.body["id"].as_str().unwrap()).await;
            let events = log.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let texts: Vec<Value> = events
                .map(|event| event["text"].clone())
                .filter(|text| text.as_str().is_some_and(|text| !text.is_empty()))
                .collect();
            let wanted = format!("Says {}", String::from_utf16_lossy(&units));
            assert_eq!(texts, [json!(wanted)], "{log:?}");
        });
    });
    runtime.block_on(rig.stop());
}
