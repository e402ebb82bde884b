//! The history of a session, a page at a time.

use crate::support::Rig;
use serde_json::{Value, json};

fn ids(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["item"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_items_go_from_the_newest_to_the_oldest_with_their_turns_and_prompts() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    for text in ["one", "two", "three", "four", "five"] {
        rig.played(&id, json!([{"do": "text", "text": text}])).await;
    }
    let path = format!("/v1/sessions/{id}/items");
    let snapshot = rig.get(&format!("/v1/sessions/{id}/snapshot")).await.body;
    let whole = rig.get(&path).await;
    assert_eq!(whole.status, 200, "{whole:?}");
    assert_eq!(whole.body["generation"], snapshot["generation"]);
    assert_eq!((&whole.body["head"], &whole.body["oldest"]), (&snapshot["seq"], &json!(1)));
    let mut newest_first = snapshot["items"].as_array().unwrap().clone();
    newest_first.reverse();
    assert_eq!(whole.body["items"], json!(newest_first));
    assert_eq!(whole.body.get("next"), None);
    for member in ["turns", "prompts"] {
        let mut newest_first = snapshot[member].as_array().unwrap().clone();
        newest_first.reverse();
        assert_eq!(whole.body[member], json!(newest_first));
    }

    let first = rig.get(&format!("{path}?limit=2")).await.body;
    assert_eq!(first["items"].as_array().unwrap().len(), 2);
    // What comes meanwhile moves nothing.
    rig.played(&id, json!([{"do": "text", "text": "six"}])).await;
    let mut seen: Vec<String> = ids(&first).into_iter().map(str::to_owned).collect();
    let mut next = first["next"].as_str().map(str::to_owned);
    while let Some(before) = next {
        let page = rig.get(&format!("{path}?before={before}&limit=2")).await.body;
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        next = page["next"].as_str().map(str::to_owned);
    }
    assert_eq!(seen, ids(&whole.body));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_the_log_are_its_events_as_they_are_streamed() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    rig.played(&id, json!([{"do": "text", "text": "one two three"}])).await;
    let log: Vec<Value> = rig.log(&id).await.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let path = format!("/v1/sessions/{id}/log");
    let (mut seen, mut query) = (Vec::new(), "limit=3".to_owned());
    loop {
        let page = rig.get(&format!("{path}?{query}")).await;
        assert_eq!(page.status, 200, "{page:?}");
        assert_eq!((&page.body["oldest"], &page.body["head"]), (&json!(1), &json!(log.len())));
        seen.extend(page.body["events"].as_array().unwrap().clone());
        let Some(next) = page.body["next"].as_str() else { break };
        query = format!("from={next}&limit=3");
    }
    assert_eq!(seen, log);
    assert_eq!(rig.get(&format!("{path}?from=2&limit=1")).await.body["events"], json!([log[1]]));
    let nothing_yet = rig.get(&format!("{path}?from={}", log.len() + 1)).await.body;
    assert_eq!((&nothing_yet["events"], nothing_yet.get("next")), (&json!([]), None));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_place_or_limit_is_refused_by_its_name_and_value() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    let head = rig.head(&id).await;
    for (query, kind, said) in [
        ("items?limit=0".to_owned(), "bad-query", "limit 0"),
        ("items?limit=501".to_owned(), "bad-query", "limit 501"),
        ("items?limit=x".to_owned(), "bad-query", "limit"),
        ("items?before=".to_owned(), "bad-query", "before"),
        ("items?before=i7".to_owned(), "bad-cursor", "i7"),
        ("items?after=i7".to_owned(), "bad-query", "after"),
        ("log?limit=-1".to_owned(), "bad-query", "limit"),
        ("log?from=x".to_owned(), "bad-cursor", "\"x\""),
        ("log?from=another:1".to_owned(), "bad-cursor", "another"),
        (format!("log?from={}", head + 2), "bad-cursor", "beyond"),
    ] {
        let refused = rig.get(&format!("/v1/sessions/{id}/{query}")).await;
        let detail = refused.body["detail"].as_str().unwrap();
        assert_eq!(
            (refused.status, refused.body["type"].as_str()),
            (400, Some(&*format!("urn:turnstream:problem:{kind}"))),
            "{query}: {detail}"
        );
        assert!(detail.contains(said), "{query}: {detail}");
    }
    for route in ["items", "log"] {
        let unknown = rig.get(&format!("/v1/sessions/ses_nobody/{route}")).await;
        assert_eq!(
            (unknown.status, &unknown.body["type"]),
            (404, &json!("urn:turnstream:problem:unknown-session"))
        );
        let method = rig.post(&format!("/v1/sessions/{id}/{route}"), json!({})).await;
        assert_eq!(method.status, 405);
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn older_pages_of_items_have_the_approvals_and_questions_of_their_turns() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    let question = json!({"do": "question", "questions": [{"id": "0", "text": "Which?"}]});
    for turn in 1..=3 {
        rig.play(&id, json!([{"do": "tool", "ask": true}, question])).await;
        let wait = |snapshot: &Value, member: &str| snapshot[member].as_array().map_or(0, Vec::len) == turn;
        rig.until(&id, |snapshot| wait(snapshot, "approvals")).await;
        let allow = json!({"outcome": "allow_once"});
        rig.post(&format!("/v1/sessions/{id}/approvals/q{turn}"), allow).await;
        rig.until(&id, |snapshot| wait(snapshot, "questions")).await;
        let answers = json!({"answers": {"0": ["This"]}});
        rig.post(&format!("/v1/sessions/{id}/questions/u{turn}"), answers).await;
        rig.until(&id, |snapshot| snapshot["session"]["status"] == "idle").await;
    }
    let snapshot = rig.get(&format!("/v1/sessions/{id}/snapshot")).await.body;
    // The turn of the item that a page begins before is on the page too.
    let of_turns = |member: &str, page: &Value| -> Vec<Value> {
        let is_of_page =
            |wait: &&Value| page["turns"].as_array().unwrap().iter().any(|turn| turn["turn"] == wait["turn"]);
        snapshot[member].as_array().unwrap().iter().filter(is_of_page).cloned().collect()
    };
    let mut before = String::new();
    for turn in ["t3", "t2", "t1"] {
        let page = rig.get(&format!("/v1/sessions/{id}/items?limit=1{before}")).await.body;
        assert_eq!(page["items"][0]["turn"], turn);
        for member in ["approvals", "questions"] {
            assert_eq!(page[member], json!(of_turns(member, &page)), "{member} of {turn}");
            assert_eq!(page[member][0]["turn"], turn, "{member} of {turn}");
        }
        // Only the newest page has the queue.
        assert_eq!(page.get("queue").is_some(), before.is_empty());
        before = format!("&before={}", page["next"].as_str().unwrap_or_default());
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_the_log_begins_at_a_time() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    for text in ["one", "two", "three"] {
        rig.played(&id, json!([{"do": "text", "text": text}])).await;
    }
    let log: Vec<Value> = rig.log(&id).await.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let path = format!("/v1/sessions/{id}/log");
    let times = log.iter().map(|event| event["time"].as_u64().unwrap());
    for time in times.flat_map(|time| [time, time + 1]).chain([0]) {
        let expected: Vec<&Value> = log.iter().filter(|event| event["time"].as_u64() >= Some(time)).collect();
        let page = rig.get(&format!("{path}?at={time}&limit=500")).await;
        assert_eq!((page.status, &page.body["events"]), (200, &json!(expected)), "at {time}");
    }
    let both = rig.get(&format!("{path}?at=1&from=1")).await;
    assert_eq!((both.status, &both.body["type"]), (400, &json!("urn:turnstream:problem:bad-query")));
    rig.stop().await;
}
