//! The list of sessions, a page at a time.

use crate::support::{Lasting, Rig, options};
use serde_json::{Value, json};

async fn titled(rig: &Rig, title: &str) -> String {
    let made =
        rig.post("/v1/sessions", json!({"agent": "scripted", "cwd": rig.work(), "title": title})).await;
    made.body["id"].as_str().unwrap().to_owned()
}

fn ids(page: &Value) -> Vec<String> {
    let sessions = page["sessions"].as_array().unwrap();
    sessions.iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect()
}

async fn all(rig: &Rig, query: &str) -> Vec<String> {
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let page = rig.get(&format!("/v1/sessions?limit=2&{query}{after}")).await;
        assert_eq!(page.status, 200, "{page:?}");
        seen.extend(ids(&page.body));
        let Some(next) = page.body["next"].as_str() else { return seen };
        after = format!("&after={next}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_come_in_pages_by_last_activity_and_the_plain_list_stays_whole() {
    let rig = Rig::start().await;
    let mut made = Vec::new();
    for title in ["Alpha", "Beta", "Gamma", "Delta", "Epsilon"] {
        made.push(titled(&rig, title).await);
        // Times are in milliseconds.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    rig.played(&made[1], json!([{"do": "text", "text": "x"}])).await;
    let newest_first: Vec<String> = [1, 4, 3, 2, 0].map(|at: usize| made[at].clone()).into();
    assert_eq!(all(&rig, "order=activity").await, newest_first);
    let mut by_id = made.clone();
    by_id.sort();
    assert_eq!(all(&rig, "order=id").await, by_id);
    let plain = rig.get("/v1/sessions").await.body;
    assert_eq!((ids(&plain), plain.get("next")), (by_id, None));
    let page = rig.get("/v1/sessions?limit=1").await.body;
    let session = &page["sessions"][0];
    assert_eq!((&session["id"], &session["title"]), (&json!(made[1]), &json!("Beta")));
    let last: Value = serde_json::from_str(rig.log(&made[1]).await.last().unwrap()).unwrap();
    assert_eq!(session["active"], last["time"]);

    // After a restart the log knows it.
    let home = rig.home();
    rig.stop().await;
    let rig = Rig::open(home, options(), Lasting::There).await;
    assert_eq!(all(&rig, "order=activity").await, newest_first);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_let_through_what_fits_and_bad_ones_are_named() {
    let rig = Rig::start().await;
    let (one, two) = (titled(&rig, "The Parser").await, titled(&rig, "Docs").await);
    let lasting = json!({"agent": "lasting", "cwd": rig.work()});
    let three = rig.post("/v1/sessions", lasting).await.body["id"].as_str().unwrap().to_owned();
    rig.play(&two, json!([{"do": "tool", "ask": true}])).await;
    rig.until(&two, |snapshot| snapshot["session"]["status"] == "waiting").await;
    assert_eq!(all(&rig, "q=pARS").await, [one.as_str()]);
    assert_eq!(all(&rig, "agent=lasting").await, [three.as_str()]);
    assert_eq!(all(&rig, "status=waiting").await, [two.as_str()]);
    assert_eq!(all(&rig, "status=waiting&agent=lasting").await, Vec::<String>::new());
    let active = rig.get("/v1/sessions?q=docs").await.body["sessions"][0]["active"].as_u64().unwrap();
    assert_eq!(all(&rig, &format!("q=docs&from={active}")).await, [two.as_str()]);
    assert!(all(&rig, &format!("q=docs&to={active}")).await.is_empty());
    for (query, kind, said) in [
        ("limit=0", "bad-query", "limit 0"),
        ("status=asleep", "bad-query", "asleep"),
        ("order=size", "bad-query", "order"),
        ("after=nonsense", "bad-cursor", "nonsense"),
        ("colour=red", "bad-query", "colour"),
    ] {
        let refused = rig.get(&format!("/v1/sessions?{query}")).await;
        let detail = refused.body["detail"].as_str().unwrap();
        assert_eq!(refused.body["type"], format!("urn:turnstream:problem:{kind}"), "{query}");
        assert!(refused.status == 400 && detail.contains(said), "{query}: {detail}");
    }
    rig.ask("DELETE", &format!("/v1/sessions/{two}"), None).await;
    assert!(all(&rig, "q=docs").await.is_empty());
    rig.stop().await;
}
