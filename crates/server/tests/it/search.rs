//! `/v1/search`: what is found, page by page, and what is refused.

use crate::support::{Answer, PATIENCE, Rig, answer};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// Asks with these parameters.
async fn search(rig: &Rig, params: &[(&str, &str)]) -> Answer {
    let mut path = "/v1/search?".to_owned();
    for (name, value) in params {
        let encode = |byte: u8| match byte {
            b' ' => "+".to_owned(),
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        };
        let encoded: String = value.bytes().map(encode).collect();
        path.push_str(&format!("{name}={encoded}&"));
    }
    rig.get(path.trim_end_matches('&')).await
}

/// Asks until there are so many hits: what is durable is found a moment later.
async fn found(rig: &Rig, params: &[(&str, &str)], hits: usize) -> Value {
    let looking = async {
        loop {
            let page = search(rig, params).await;
            assert_eq!(page.status, 200, "{page:?}");
            if page.body["hits"].as_array().unwrap().len() == hits {
                return page.body;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking)
        .await
        .unwrap_or_else(|_| panic!("{params:?} never has {hits} hits"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_finished_is_found_with_its_place_and_its_hits_marked() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    rig.played(
        &id,
        json!([
            {"do": "reasoning", "text": "Thinking of zebras."},
            {"do": "text", "text": "A zebra has stripes"},
        ]),
    )
    .await;
    let page = found(&rig, &[("q", "zebra has"), ("kind", "message"), ("role", "assistant")], 1).await;
    let hit = &page["hits"][0];
    assert!(hit["time"].as_u64().unwrap() > 1_600_000_000_000, "{hit}");
    let expected = json!({"session": id, "agent": "scripted", "item": hit["item"], "turn": "t1", "kind": "message",
        "role": "assistant", "time": hit["time"], "snippet": [{"text": "A "}, {"text": "zebra has", "hit": true},
            {"text": " stripes"}]});
    let parts = hit["snippet"].as_array().unwrap();
    let marked: Vec<&Value> = parts.iter().filter(|part| part["hit"] == true).collect();
    assert_eq!(marked.len(), 2, "two words that were not asked for as a phrase: {hit}");
    let text: String = parts.iter().map(|part| part["text"].as_str().unwrap()).collect();
    assert_eq!(text, "A zebra has stripes");
    let phrase = found(&rig, &[("q", "\"zebra has\""), ("role", "assistant")], 1).await;
    assert_eq!(phrase["hits"][0], expected);
    assert_eq!(phrase.get("next"), None);
    // What the user said: the script itself.
    let said = found(&rig, &[("q", "stripes"), ("role", "user")], 1).await;
    assert_eq!((&said["hits"][0]["prompt"], &said["hits"][0]["kind"]), (&json!("p1"), &json!("message")));
    let thought =
        found(&rig, &[("q", "zebr*"), ("kind", "reasoning"), ("session", &id), ("agent", "scripted")], 1)
            .await;
    assert_eq!(thought["hits"][0]["item"], json!("i1"));
    let begun = hit["time"].as_u64().unwrap();
    for (params, hits) in [
        ([("from", begun.to_string()), ("to", (begun + 1).to_string())], 1),
        ([("from", (begun + 1).to_string()), ("to", u64::MAX.to_string())], 0),
    ] {
        let mut params: Vec<(&str, &str)> =
            params.iter().map(|(name, value)| (*name, value.as_str())).collect();
        params.extend([("q", "\"zebra has\""), ("role", "assistant")]);
        found(&rig, &params, hits).await;
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_streams_was_cut_or_was_repeated_is_not_found() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    rig.play(
        &id,
        json!([
            {"do": "attempt", "model": "m"},
            {"do": "text", "text": "void giraffe", "unfinished": true},
            {"do": "retry", "attempt": 2, "reason": "overloaded", "wait_ms": 1},
            {"do": "text", "text": "whole giraffe"},
            {"do": "text", "text": "half a giraffe", "unfinished": true},
            {"do": "stall"},
        ]),
    )
    .await;
    let is_half = |item: &Value| item["text"] == "half a giraffe" && item["state"] == "streaming";
    rig.until(&id, |snapshot| snapshot["items"].as_array().unwrap().iter().any(is_half)).await;
    let of_assistant = [("q", "giraffe"), ("role", "assistant")];
    let page = found(&rig, &of_assistant, 1).await;
    assert_eq!(page["hits"][0]["snippet"][0]["text"], "whole ");
    rig.ask("POST", &format!("/v1/sessions/{id}/cancel"), None).await;
    rig.until(&id, |snapshot| snapshot["turns"][0]["outcome"] == "cancelled").await;
    // A session is settled in order: when the last is found, all before it are settled.
    rig.played(&id, json!([{"do": "text", "text": "last giraffe"}])).await;
    let page = found(&rig, &of_assistant, 2).await;
    let first = |hit: &Value| hit["snippet"][0]["text"].as_str().unwrap().to_owned();
    let texts: Vec<String> = page["hits"].as_array().unwrap().iter().map(first).collect();
    assert_eq!(texts, ["last ", "whole "]);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_are_taken_while_others_write_have_everything_once() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    for number in 0..30 {
        rig.played(&id, json!([{"do": "text", "text": format!("okapi number {number}")}])).await;
    }
    let okapis = [("q", "okapi"), ("role", "assistant"), ("limit", "100")];
    let all = found(&rig, &okapis, 30).await;
    let name = |hit: &Value| hit["item"].as_str().unwrap().to_owned();
    let names = |page: &Value| page["hits"].as_array().unwrap().iter().map(name).collect::<Vec<_>>();
    let expected = names(&all);
    let writing = async {
        let other = rig.session().await;
        for _ in 0..20 {
            rig.played(&other, json!([{"do": "text", "text": "another okapi"}])).await;
        }
    };
    let reading = async {
        let (mut seen, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let mut params = vec![("q", "okapi number"), ("role", "assistant"), ("limit", "7")];
            params.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let page = search(&rig, &params).await;
            assert_eq!(page.status, 200, "{page:?}");
            seen.extend(names(&page.body));
            match page.body["next"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => return seen,
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let ((), seen) = tokio::join!(writing, reading);
    assert_eq!(seen, expected);
    let both = found(&rig, &okapis, 50).await;
    assert_eq!(
        both["hits"]
            .as_array()
            .unwrap()
            .iter()
            .map(|hit| (name(hit), hit["session"].to_string()))
            .collect::<BTreeSet<_>>()
            .len(),
        50
    );
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_odd_query_has_an_answer_or_a_reason() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    rig.played(&id, json!([{"do": "text", "text": "x"}])).await;
    for odd in [
        "\"",
        "a\"b",
        "AND",
        "a OR",
        "NOT a",
        "NEAR(a b)",
        "words:x",
        "a^2",
        "(a",
        "a)",
        "x\0y",
        "🚀",
        "検索",
        "{a b}: c",
        "a + b",
        "'; DROP TABLE entry; --",
        "a -",
        "%00",
        "é*",
    ] {
        let page = search(&rig, &[("q", odd)]).await;
        let is_answered = page.status == 200 && page.body["hits"].is_array();
        let is_refused = page.status == 400 && page.body["type"] == "urn:turnstream:problem:bad-query";
        assert!(is_answered || is_refused, "{odd:?}: {page:?}");
    }
    let long = "word ".repeat(2_048);
    for (params, kind, told) in [
        (&[("q", "")][..], "bad-query", "there is no word in it"),
        (&[("q", " .,;- ")], "bad-query", "there is no word in it"),
        (&[("q", "-x")], "bad-query", "it has only excluded words"),
        (&[("q", "x*")], "bad-query", "at least 2 letters"),
        (&[("q", &long)], "bad-query", "10240 bytes and may have 1024"),
        (&[("q", "x"), ("limit", "0")], "bad-query", "1 to 100"),
        (&[("q", "x"), ("limit", "101")], "bad-query", "1 to 100"),
        (&[("q", "x"), ("limit", "many")], "bad-query", "limit"),
        (&[("q", "x"), ("from", "yesterday")], "bad-query", "from"),
        (&[("q", "x"), ("role", "boss")], "bad-query", "boss"),
        (&[("q", "x"), ("kind", "thing")], "bad-query", "thing"),
        (&[("q", "x"), ("colour", "red")], "bad-query", "colour"),
        (&[("limit", "5")], "bad-query", "the parameter \"q\" is missing"),
        (&[("q", "x"), ("cursor", "g1:5")], "bad-cursor", "search again without one"),
        (&[("q", "x"), ("cursor", "1234-5")], "bad-cursor", "search again without one"),
    ] {
        let refused = search(&rig, params).await;
        assert_eq!(refused.status, 400, "{params:?}: {refused:?}");
        assert_eq!(refused.body["type"], format!("urn:turnstream:problem:{kind}"), "{refused:?}");
        assert!(refused.body["detail"].as_str().unwrap().contains(told), "{told}: {refused:?}");
    }
    let nobody = search(&rig, &[("q", "x"), ("session", "ses_nope")]).await;
    assert_eq!(
        (nobody.status, &nobody.body["type"]),
        (404, &json!("urn:turnstream:problem:unknown-session"))
    );
    let posted = answer(rig.http.post(rig.url("/v1/search"))).await;
    assert_eq!((posted.status, &posted.headers["allow"]), (405, &"GET,HEAD".parse().unwrap()));
    rig.stop().await;
}
