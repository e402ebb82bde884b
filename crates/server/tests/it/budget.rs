//! `…/budget`, and sessions that go on from another one.

use crate::problems::assert_problem;
use crate::support::Rig;
use serde_json::{Value, json};
use turnstream_testkit::lawful::Tail;

/// A script with so many model calls.
fn calls(count: usize) -> Value {
    let call =
        [json!({"do": "attempt"}), json!({"do": "attempt_end", "finish": "stop", "usage": {"input": 5}})];
    json!(std::iter::repeat_n(call, count).flatten().collect::<Vec<_>>())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_at_its_cap_answers_with_a_conflict_until_it_is_raised() {
    let rig = Rig::start().await;
    let new = json!({
        "agent": "scripted", "cwd": rig.work(),
        "budget": {"turn": {"steps": 9}, "session": {"steps": 2, "cost": 1.5}},
    });
    let made = rig.post("/v1/sessions", new).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.body["budget"]["session"], json!({"steps": 2, "cost": 1.5}));
    let id = made.body["id"].as_str().unwrap().to_owned();
    rig.played(&id, calls(2)).await;

    let refused = rig.play(&id, calls(1)).await;
    let words = ["used 2 steps of 2 steps", "until this cap is raised", "POST …/budget"];
    assert_problem(&refused, 409, "budget", &words);
    assert_eq!(refused.body["cap"], "steps");
    let shown = rig.get(&format!("/v1/sessions/{id}")).await.body;
    assert_eq!(
        (&shown["budget"]["reached"], &shown["budget"]["used"]["steps"]),
        (&json!("steps"), &json!(2))
    );

    let path = format!("/v1/sessions/{id}/budget");
    let raised = rig.post(&path, json!({"session": {"steps": null}, "turn": {"tokens": 5}})).await;
    assert_eq!(raised.status, 200, "{raised:?}");
    assert_eq!(raised.body["budget"]["session"], json!({"cost": 1.5}));
    assert_eq!(raised.body["budget"]["turn"], json!({"steps": 9, "tokens": 5}));
    assert_eq!(raised.body["budget"]["reached"], Value::Null);
    rig.played(&id, calls(1)).await;
    // The second call of this turn comes when its tokens are used up.
    let mut endless = calls(2);
    endless.as_array_mut().unwrap().push(json!({"do": "stall"}));
    rig.played(&id, endless).await;
    let turns = rig.until(&id, |snapshot| snapshot["session"]["status"] == "idle").await["turns"].clone();
    let last = turns.as_array().unwrap().last().unwrap();
    assert_eq!((&last["outcome"], &last["error"]["class"]), (&json!("failed"), &json!("budget")));
    rig.judge(&id, Tail::Settled).await;

    let metrics = rig.http.get(rig.url("/metrics")).send().await.unwrap().text().await.unwrap();
    for (scope, cap) in [("session", "steps"), ("turn", "tokens")] {
        let line =
            format!(r#"turnstream_budget_reached_total{{agent="scripted",scope="{scope}",cap="{cap}"}} 1"#);
        assert!(metrics.contains(&line), "{line}\n{metrics}");
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_cannot_be_used_is_refused_in_words() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    let path = format!("/v1/sessions/{id}/budget");
    for (body, kind, words) in [
        (json!({"session": {"steps": 0}}), "bad-body", &["the cap on steps must be more than 0"][..]),
        (json!({"turn": {"cost": -1}}), "bad-body", &["the cap on cost"]),
        (json!({"turn": {"steps": "many"}}), "bad-body", &["turn.steps:", "many"]),
        (json!({"turn": {"turns": 1}}), "unknown-field", &["`turns`", "`tokens`"]),
        (json!({"steps": 1}), "unknown-field", &["`steps`", "`session`"]),
    ] {
        assert_problem(&rig.post(&path, body).await, 400, kind, words);
    }
    let prompt = json!({"content": [{"type": "text", "text": "Hi"}], "budget": {"tokens": 0}});
    let refused = rig.post(&format!("/v1/sessions/{id}/prompts"), prompt).await;
    assert_problem(&refused, 400, "bad-body", &["the cap on tokens"]);
    let nobody = rig.post("/v1/sessions/nobody/budget", json!({"session": {"steps": 1}})).await;
    assert_problem(&nobody, 404, "unknown-session", &["nobody"]);
    assert_eq!(rig.get(&format!("/v1/sessions/{id}")).await.body["budget"], Value::Null);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_from_another_one_in_its_directory() {
    let rig = Rig::start().await;
    let old = rig.session().await;
    rig.played(&old, json!([{"do": "text", "text": "Blue."}])).await;
    let made = rig.post("/v1/sessions", json!({"agent": "lasting", "from": old})).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.body["from"], json!({"session": old, "agent": "scripted", "pending": true}));
    assert_eq!(made.body["cwd"].as_str().unwrap(), rig.work().canonicalize().unwrap().display().to_string());
    let new = made.body["id"].as_str().unwrap();
    assert_eq!(rig.get(&format!("/v1/sessions/{old}")).await.body["handed_over"], json!([new]));
    let inherited: Value = serde_json::from_str(&rig.log(new).await[1]).unwrap();
    assert_eq!((&inherited["type"], &inherited["entries"]), (&json!("session.inherited"), &json!(2)));
    assert!(inherited["text"].as_str().unwrap().contains("Assistant:\nBlue."), "{inherited}");
    rig.judge(new, Tail::Settled).await;
    rig.judge(&old, Tail::Settled).await;

    let nobody = rig.post("/v1/sessions", json!({"agent": "scripted", "from": "ses_nobody"})).await;
    assert_problem(&nobody, 404, "unknown-session", &["ses_nobody"]);
    let elsewhere = json!({"agent": "scripted", "from": old, "cwd": "/"});
    assert_problem(&rig.post("/v1/sessions", elsewhere).await, 403, "outside-roots", &["/ is not below"]);
    rig.stop().await;
}
