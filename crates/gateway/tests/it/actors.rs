//! Events name the client whose request made them.

use crate::puppet::{lines, stage};
use crate::support::*;
use crate::transfer::{file, spooled};
use serde_json::{Map, Value, json};
use turnstream_gateway::{
    Actor, AnswerQuestion, Change, Deleted, Fault, Gateway, ImportAs, ImportError, NewSession,
    ResolveApproval,
};
use turnstream_log::Follow;
use turnstream_model::cursor::Cursor;
use turnstream_model::event::{ApprovalOutcome, QuestionOutcome};

fn by(gateway: &Gateway, name: &str) -> Gateway {
    gateway.on_behalf_of(Some(Actor::new(name).unwrap()))
}

/// The types of the events that name a client, each with the client. A status follows from other events.
fn named(lines: &[impl AsRef<str>]) -> Vec<String> {
    let named = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap();
        let (kind, actor) = (event["type"].as_str().unwrap(), event["actor"].as_str()?);
        (kind != "session.status").then(|| format!("{kind} {actor}"))
    };
    lines.iter().filter_map(|line| named(line.as_ref())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_that_a_request_makes_names_its_client() {
    let home = Home::new();
    let gateway = home.open().await;
    let (alice, bob) = (by(&gateway, "alice"), by(&gateway, "bob"));
    let id = session(&alice, &home, "scripted").await;
    bob.change(&id, Change { title: Some("A title".into()), ..Change::default() }).await.unwrap();

    prompt(&alice, &id, json!([{"do": "tool", "ask": true}, {"do": "stall"}])).await;
    let asks = until(&gateway, &id, "the ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
    let stop = ResolveApproval { stop: true, ..answer(ApprovalOutcome::Reject) };
    bob.resolve(&id, &asks.state.approvals[0].approval, stop).await.unwrap();
    settled(&gateway, &id, 1).await;

    let question = json!({"do": "question", "questions": [{"id": "0", "text": "DB?", "options": []}]});
    prompt(&alice, &id, json!([question])).await;
    let asked = until(&gateway, &id, "the question", |snapshot| !snapshot.state.questions.is_empty()).await;
    let answers = Some(Map::from_iter([("0".to_owned(), json!(["PG"]))]));
    let answer = AnswerQuestion { outcome: QuestionOutcome::Answered, answers, key: None };
    bob.answer(&id, &asked.state.questions[0].question, answer).await.unwrap();
    settled(&gateway, &id, 2).await;

    prompt(&alice, &id, json!([{"do": "text", "text": "half"}, {"do": "stall"}])).await;
    until(&gateway, &id, "the text", |snapshot| !said(snapshot).is_empty()).await;
    let waiting = prompt(&alice, &id, json!([])).await;
    bob.withdraw(&id, &waiting).await.unwrap();
    bob.cancel(&id, Cancel::Any).await.unwrap();
    let snapshot = settled(&gateway, &id, 3).await;
    let sent_by: Vec<_> = snapshot.state.prompts.iter().map(|prompt| prompt.actor.clone()).collect();
    assert_eq!(sent_by, vec![Actor::new("alice"); 4]);
    assert_eq!(snapshot.state.approvals[0].actor, Actor::new("bob"));
    assert_eq!(snapshot.state.questions[0].actor, Actor::new("bob"));

    let half = json!({"do": "text", "text": "half", "unfinished": true});
    prompt(&alice, &id, json!([half, {"do": "stall"}])).await;
    until(&gateway, &id, "the text", |snapshot| said(snapshot).len() == 2).await;
    prompt(&alice, &id, json!([])).await;
    bob.end(&id, "enough").await.unwrap();
    home.close(gateway).await;
    let lines = lines(&home, &id).await;
    assert_eq!(
        named(&lines),
        [
            "session.created alice",
            "session.updated bob",
            "prompt.accepted alice",
            "approval.resolved bob",
            "turn.cancelling bob",
            "prompt.accepted alice",
            "question.answered bob",
            "prompt.accepted alice",
            "prompt.accepted alice",
            "prompt.withdrawn bob",
            "turn.cancelling bob",
            "prompt.accepted alice",
            "prompt.accepted alice",
            "item.ended bob",
            "turn.ended bob",
            "prompt.withdrawn bob",
            "session.ended bob",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_before_the_turn_and_a_delete_name_their_client() {
    let home = Home::new();
    // It never begins.
    let gateway =
        stage(&home, false, |_, mut commands, _| async move { while commands.recv().await.is_some() {} })
            .await;
    let id = session(&gateway, &home, "puppet").await;
    let mut follower = gateway.follow(&id, &Cursor::default()).unwrap();
    prompt(&gateway, &id, json!([])).await;
    until(&gateway, &id, "the prompt at the agent", |snapshot| {
        snapshot.state.queue.iter().any(|prompt| prompt.native_id.is_some())
    })
    .await;
    by(&gateway, "bob").cancel(&id, Cancel::Any).await.unwrap();
    assert_eq!(by(&gateway, "carol").delete(&id).await, Ok(Deleted::Erased));
    let mut seen = Vec::new();
    loop {
        match follower.next().await.unwrap() {
            Follow::Outcome(_) => {}
            Follow::Events(events) => {
                seen.extend(events.iter().map(|event| String::from_utf8(event.json().to_vec()).unwrap()));
            }
            Follow::Closed | Follow::Deleted => break,
        }
    }
    let named = named(&seen);
    assert_eq!(named.first().map(String::as_str), Some("prompt.cancelling bob"), "{named:?}");
    assert_eq!(named.last().map(String::as_str), Some("session.ended carol"), "{named:?}");
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_another_client_repeats_by_its_key_is_the_same() {
    let home = Home::new();
    let gateway = home.open().await;
    let (alice, bob) = (by(&gateway, "alice"), by(&gateway, "bob"));
    let new = NewSession { key: Some("k".into()), ..new_session(&home, "scripted") };
    let id = id_of(&alice.create(new.clone()).await.unwrap());
    assert_eq!(bob.create(new).await.map(|info| id_of(&info)), Ok(id.clone()));
    let steps = json!([{"do": "tool", "ask": true}]);
    let first = alice.prompt(&id, keyed("p", steps.clone())).await.unwrap();
    assert_eq!(bob.prompt(&id, keyed("p", steps)).await.unwrap().prompt, first.prompt);
    let asks = until(&gateway, &id, "the ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
    let approval = &asks.state.approvals[0].approval;
    let answer = ResolveApproval { key: Some("a".into()), ..allow() };
    alice.resolve(&id, approval, answer.clone()).await.unwrap();
    bob.resolve(&id, approval, answer.clone()).await.unwrap();
    settled(&gateway, &id, 1).await;
    home.close(gateway).await;
    let gateway = home.open().await;
    by(&gateway, "bob").resolve(&id, approval, answer).await.unwrap();
    home.close(gateway).await;
    let lines = lines(&home, &id).await;
    assert_eq!(named(&lines), ["session.created alice", "prompt.accepted alice", "approval.resolved alice"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_and_an_import_keep_who_it_was_and_refuse_what_is_no_name() {
    let (home, other) = (Home::new(), Home::new());
    let gateway = home.open().await;
    let alice = by(&gateway, "alice");
    let id = session(&alice, &home, "scripted").await;
    prompt(&alice, &id, json!([{"do": "text", "text": "Hi"}])).await;
    settled(&gateway, &id, 1).await;
    let file = file(&gateway, &id).await;
    let there = other.open().await;
    let bob = by(&there, "bob");
    bob.import(spooled(&there, &file).await, ImportAs::Itself, None).await.unwrap();
    let copy = crate::transfer::file(&there, &id).await;
    let events = |file: &str| file.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(events(&copy), events(&file));
    assert_eq!(named(&events(&copy)), ["session.created alice", "prompt.accepted alice"]);
    assert_eq!(there.snapshot(&id).await.unwrap().state.prompts[0].actor, Actor::new("alice"));

    for wrong in [json!(""), json!("a\u{202e}b"), json!("x".repeat(65)), json!(7)] {
        let odd = file.replacen(r#""actor":"alice""#, &format!(r#""actor":{wrong}"#), 1);
        let refused = bob.import(spooled(&there, &odd).await, ImportAs::New, None).await.unwrap_err();
        let ImportError::File(bad) = &refused else { panic!("{refused:?}") };
        assert_eq!((bad.line, bad.fault), (2, Fault::Unlawful), "{refused}");
        assert!(refused.to_string().contains("printable characters"), "{refused}");
    }
    home.close(gateway).await;
    other.close(there).await;
}
