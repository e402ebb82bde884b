//! Every route, as it is meant to be used.

use crate::support::Rig;
use serde_json::json;
use turnstream_testkit::lawful::Tail;

#[tokio::test(flavor = "multi_thread")]
async fn a_session_from_its_first_request_to_its_last() {
    let rig = Rig::start().await;
    assert_eq!(
        rig.get("/v1/ready").await.body,
        json!({"status": "sound", "version": env!("CARGO_PKG_VERSION"), "recovering": 0})
    );
    let agents = rig.get("/v1/agents").await.body;
    assert_eq!(agents["agents"][0]["name"], "broken");
    assert_eq!(agents["agents"][0]["problem"], "it is not installed");
    assert_eq!(agents["agents"][2]["name"], "scripted");
    assert_eq!(agents["agents"][2]["scripted"], true);
    assert_eq!(rig.get("/v1/sessions").await.body, json!({"sessions": []}));

    let new = json!({"agent": "scripted", "cwd": rig.work(), "title": "A title", "model": "m",
        "permissions": "allow", "key": "k1"});
    let made = rig.post("/v1/sessions", new.clone()).await;
    assert_eq!(made.status, 201, "{made:?}");
    for (member, value) in [
        ("agent", json!("scripted")),
        ("status", json!("idle")),
        ("title", json!("A title")),
        ("model", json!("m")),
    ] {
        assert_eq!(made.body[member], value, "{made:?}");
    }
    let id = made.body["id"].as_str().unwrap();
    assert_eq!(rig.post("/v1/sessions", new).await.body["id"], id, "the same key is the same session");
    assert_eq!(rig.get("/v1/sessions").await.body["sessions"].as_array().unwrap().len(), 1);

    let path = format!("/v1/sessions/{id}");
    let changed = rig.ask("PATCH", &path, Some(json!({"title": "Another", "mode": "build"}))).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    assert_eq!((&changed.body["title"], &changed.body["mode"]), (&json!("Another"), &json!("build")));
    assert_eq!(rig.get(&path).await.body, changed.body);

    let accepted = rig.play(id, json!([{"do": "text", "text": "Hello there"}])).await;
    assert_eq!((accepted.status, accepted.body), (202, json!({"prompt": "p1", "position": 0})));
    let snapshot = rig.until(id, |snapshot| snapshot["turns"][0]["outcome"] == "completed").await;
    assert_eq!(snapshot["items"][0]["text"], "Hello there");
    assert_eq!(snapshot["generation"], made.body["generation"]);

    rig.judge(id, Tail::Settled).await;
    let gone = rig.ask("DELETE", &path, None).await;
    assert_eq!((gone.status, gone.body), (200, json!({"session": id, "removed": true})));
    assert_eq!(rig.get(&path).await.status, 404);
    assert_eq!(rig.get("/v1/sessions").await.body, json!({"sessions": []}));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_prompt_is_withdrawn_and_an_open_turn_is_cancelled() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    rig.play(&id, json!([{"do": "text", "text": "x"}, {"do": "stall"}])).await;
    rig.until(&id, |snapshot| snapshot["turns"][0]["turn"] == "t1").await;
    let second = rig.play(&id, json!([{"do": "text", "text": "y"}])).await;
    assert_eq!(second.body, json!({"prompt": "p2", "position": 0}));
    let withdrawn = rig.ask("DELETE", &format!("/v1/sessions/{id}/prompts/p2"), None).await;
    assert_eq!(withdrawn.status, 204, "{withdrawn:?}");

    let cancelled = rig.post(&format!("/v1/sessions/{id}/cancel"), json!({"turn": "t1"})).await;
    assert_eq!((cancelled.status, cancelled.body), (202, json!({"turn": "t1"})));
    rig.until(&id, |snapshot| snapshot["turns"][0]["outcome"] == "cancelled").await;

    // Without a body it is whichever turn is open, and there is none.
    let none = rig.ask("POST", &format!("/v1/sessions/{id}/cancel"), None).await;
    assert_eq!(none.status, 409, "{none:?}");
    rig.judge(&id, Tail::Settled).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_answers_one_wins_and_the_other_is_told_which() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    rig.play(&id, json!([{"do": "tool", "title": "Write", "ask": true}])).await;
    rig.until(&id, |snapshot| snapshot["approvals"][0]["approval"] == "q1").await;
    let path = format!("/v1/sessions/{id}/approvals/q1");
    let (allow, reject) = tokio::join!(
        rig.post(&path, json!({"outcome": "allow_once"})),
        rig.post(&path, json!({"outcome": "reject", "message": "no"})),
    );
    let (winner, loser) = if allow.status == 200 { (allow, reject) } else { (reject, allow) };
    assert_eq!((winner.status, loser.status), (200, 409));
    assert_eq!(winner.body["approval"], "q1");
    assert_eq!(loser.body["type"], "urn:turnstream:problem:approval-settled");
    assert_eq!(loser.body["outcome"], winner.body["outcome"]);
    rig.until(&id, |snapshot| snapshot["turns"][0]["outcome"] == "completed").await;

    let question =
        json!([{"do": "question", "questions": [{"id": "0", "text": "DB?", "options": [{"label": "PG"}]}]}]);
    for (body, outcome) in
        [(json!({"answers": {"0": ["PG"]}}), "answered"), (json!({"outcome": "rejected"}), "rejected")]
    {
        rig.play(&id, question.clone()).await;
        let asked = rig.until(&id, |snapshot| snapshot["session"]["status"] == "waiting").await;
        let asked = asked["questions"].as_array().unwrap().last().unwrap()["question"].clone();
        let path = format!("/v1/sessions/{id}/questions/{}", asked.as_str().unwrap());
        let first = rig.post(&path, body.clone()).await;
        assert_eq!((first.status, first.body), (200, json!({"question": asked, "outcome": outcome})));
        let second = rig.post(&path, body).await;
        assert_eq!((second.status, &second.body["outcome"]), (409, &json!(outcome)));
        rig.until(&id, |snapshot| snapshot["session"]["status"] == "idle").await;
    }
    rig.judge(&id, Tail::Settled).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_tells_what_it_does_and_agents_what_they_take() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    rig.played(&id, json!([{"do": "text", "text": "Hi"}])).await;
    let answer = rig.get("/v1/gateway").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let gateway = &answer.body;
    assert_eq!((&gateway["status"], &gateway["recovering"]), (&json!("sound"), &json!(0)));
    assert_eq!(gateway["turns"], json!({"completed": 1}));
    assert_eq!(gateway["streams"], json!({"sse": 0, "websocket": 0, "board": 0}));
    assert!(gateway["events"].as_u64() > Some(5), "{gateway}");
    let disk = |member: &str| gateway["disk"][member].as_u64().unwrap();
    assert!(disk("used") > 0 && disk("free") <= disk("size"), "{gateway}");
    assert_eq!(gateway.get("routes"), None);
    let agents = rig.get("/v1/agents").await.body;
    let takes = ["text", "image", "audio", "resource_link", "resource", "pdf"];
    assert_eq!(agents["agents"][0]["takes"], json!(takes));
    rig.stop().await;
}
