//! Approvals and questions: durable, several at once, one answer wins.

use crate::support::*;
use serde_json::{Map, Value, json};
use std::time::Duration;
use turnstream_gateway::{AnswerQuestion, Change, OnTimeout, RequestError, ResolveApproval};
use turnstream_model::event::{ApprovalOutcome, By, Permissions, QuestionOutcome};
use turnstream_model::fold::Snapshot;
use turnstream_model::id::ApprovalId;
use turnstream_model::machine::Refusal;

fn asks(snapshot: &Snapshot) -> Vec<ApprovalId> {
    let open = snapshot.state.approvals.iter().filter(|ask| ask.outcome.is_none());
    open.map(|ask| ask.approval.clone()).collect()
}

fn effect(name: &str) -> Value {
    json!({"do": "tool", "ask": true, "effect": {"append": {"path": "runs", "text": format!("{name}\n")}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_answers_one_wins_and_the_other_hears_which() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    prompt(&gateway, &id, json!([effect("tool")])).await;
    let ask = asks(&until(&gateway, &id, "the ask", |snapshot| !asks(snapshot).is_empty()).await).remove(0);
    let (allow, reject) = tokio::join!(
        gateway.resolve(&id, &ask, allow()),
        gateway.resolve(&id, &ask, answer(ApprovalOutcome::Reject))
    );
    let snapshot = settled(&gateway, &id, 1).await;
    let winner = snapshot.state.approvals[0].outcome.unwrap();
    let lost = match winner {
        ApprovalOutcome::AllowOnce => {
            allow.unwrap();
            reject.unwrap_err()
        }
        _ => {
            reject.unwrap();
            allow.unwrap_err()
        }
    };
    assert_eq!(
        lost,
        RequestError::Refused(Refusal::ApprovalSettled { approval: ask.clone(), outcome: winner })
    );
    let runs = home.lines_of("runs").len();
    assert_eq!(runs, usize::from(winner == ApprovalOutcome::AllowOnce));
    let unknown = gateway.resolve(&id, &ApprovalId::from("q9"), answer(winner)).await.unwrap_err();
    assert_eq!(unknown.to_string(), "there is no approval q9 waiting in this session");
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_may_be_open_and_be_answered_in_any_order() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    let question = json!({"do": "question",
        "questions": [{"id": "0", "text": "DB?", "options": [{"label": "PG"}], "multiple": false, "custom": true}]});
    let steps = json!([{"do": "at_once", "steps": [effect("a"), effect("b"), question]}]);
    prompt(&gateway, &id, steps).await;
    let snapshot = until(&gateway, &id, "the asks", |snapshot| {
        asks(snapshot).len() == 2 && !snapshot.state.questions.is_empty()
    })
    .await;
    let asked = snapshot.state.questions[0].question.clone();
    let wrong = |answers: Value| AnswerQuestion {
        outcome: QuestionOutcome::Answered,
        answers: answers.as_object().cloned(),
        key: None,
    };
    for (answers, problem) in [
        (json!({"1": ["PG"]}), "there is no question \"1\" here; the questions are 0"),
        (json!({"0": "PG"}), "the answer to \"0\" must be an array of strings"),
        (json!({}), "question \"0\" has no answer"),
    ] {
        let refused = gateway.answer(&id, &asked, wrong(answers)).await.unwrap_err();
        assert_eq!(refused.to_string(), problem);
    }
    gateway.answer(&id, &asked, wrong(json!({"0": ["PG"]}))).await.unwrap();
    for ask in asks(&snapshot).into_iter().rev() {
        gateway.resolve(&id, &ask, allow()).await.unwrap();
    }
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["completed end_turn"]);
    let mut runs = home.lines_of("runs");
    runs.sort();
    assert_eq!(runs, ["a", "b"]);
    assert_eq!(snapshot.state.questions[0].answers, Some(Map::from_iter([("0".into(), json!(["PG"]))])));
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_with_a_key_can_be_repeated() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    prompt(&gateway, &id, json!([effect("tool")])).await;
    let ask = asks(&until(&gateway, &id, "the ask", |snapshot| !asks(snapshot).is_empty()).await).remove(0);
    let keyed = ResolveApproval { key: Some("k".into()), ..allow() };
    gateway.resolve(&id, &ask, keyed.clone()).await.unwrap();
    gateway.resolve(&id, &ask, keyed.clone()).await.unwrap();
    assert!(gateway.resolve(&id, &ask, allow()).await.is_err());
    settled(&gateway, &id, 1).await;
    gateway.close().await;
    let gateway = home.open().await;
    gateway.resolve(&id, &ask, keyed).await.unwrap();
    assert_eq!(home.lines_of("runs"), ["tool"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_answers_where_the_session_has_one() {
    let home = Home::new();
    let gateway = home.open().await;
    for (permissions, outcome, runs) in
        [(Permissions::Allow, ApprovalOutcome::AllowOnce, 1), (Permissions::Deny, ApprovalOutcome::Reject, 1)]
    {
        let id = session_with(&gateway, &home, "scripted", permissions).await;
        prompt(&gateway, &id, json!([effect("tool")])).await;
        let snapshot = settled(&gateway, &id, 1).await;
        let ask = &snapshot.state.approvals[0];
        assert_eq!((ask.outcome, ask.by), (Some(outcome), Some(By::Policy)));
        assert_eq!(home.lines_of("runs").len(), runs);
    }
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_not_offered_is_refused() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    prompt(&gateway, &id, json!([effect("tool")])).await;
    let snapshot = until(&gateway, &id, "the ask", |snapshot| !asks(snapshot).is_empty()).await;
    let ask = asks(&snapshot).remove(0);
    let option = ResolveApproval { option: Some("nothing".into()), ..allow() };
    let refused = gateway.resolve(&id, &ask, option).await.unwrap_err();
    assert!(refused.to_string().starts_with("option \"nothing\" was not offered; offered: "), "{refused}");
    let refused = gateway.resolve(&id, &ask, answer(ApprovalOutcome::Lost)).await.unwrap_err();
    assert_eq!(refused.to_string(), "outcome lost is not an answer; use allow_once, allow_always or reject");
    gateway
        .resolve(&id, &ask, ResolveApproval { stop: true, ..answer(ApprovalOutcome::Reject) })
        .await
        .unwrap();
    settled(&gateway, &id, 1).await;
    assert!(home.lines_of("runs").is_empty());
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_answers_expires_as_configured() {
    // A cancel is to come while the agent works on.
    for (policy, outcome, work) in
        [(OnTimeout::Reject, "completed end_turn", 0), (OnTimeout::Cancel, "cancelled", 600_000)]
    {
        let mut home = Home::new();
        home.settings.approval = Some(Duration::from_millis(50));
        home.settings.on_timeout = policy;
        let gateway = home.open().await;
        let id = session(&gateway, &home, "scripted").await;
        prompt(&gateway, &id, json!([effect("tool"), {"do": "sleep", "ms": work}])).await;
        let snapshot = settled(&gateway, &id, 1).await;
        assert_eq!(outcomes(&snapshot), [outcome]);
        assert_eq!(snapshot.state.approvals[0].outcome, Some(ApprovalOutcome::Expired));
        assert!(home.lines_of("runs").is_empty());
        home.close(gateway).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_an_answer_with_other_answers_is_refused() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    let question = json!({"do": "question",
        "questions": [{"id": "0", "text": "DB?", "options": [{"label": "PG"}], "multiple": false, "custom": true}]});
    prompt(&gateway, &id, json!([question])).await;
    let snapshot =
        until(&gateway, &id, "the question", |snapshot| !snapshot.state.questions.is_empty()).await;
    let asked = snapshot.state.questions[0].question.clone();
    let with = |answers: Value| AnswerQuestion {
        outcome: QuestionOutcome::Answered,
        answers: answers.as_object().cloned(),
        key: Some("k".into()),
    };
    gateway.answer(&id, &asked, with(json!({"0": ["PG"]}))).await.unwrap();
    gateway.answer(&id, &asked, with(json!({"0": ["PG"]}))).await.unwrap();
    let other = gateway.answer(&id, &asked, with(json!({"0": ["MySQL"]}))).await;
    assert!(other.is_err(), "somebody who answered MySQL heard {other:?}, and PG is what the agent was told");
    settled(&gateway, &id, 1).await;
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_an_approval_with_another_answer_is_refused() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    prompt(&gateway, &id, json!([effect("tool")])).await;
    let ask = asks(&until(&gateway, &id, "the ask", |snapshot| !asks(snapshot).is_empty()).await).remove(0);
    let first = ResolveApproval {
        message: Some("not now".into()),
        key: Some("k".into()),
        ..answer(ApprovalOutcome::Reject)
    };
    gateway.resolve(&id, &ask, first.clone()).await.unwrap();
    settled(&gateway, &id, 1).await;
    assert_eq!(gateway.resolve(&id, &ask, first.clone()).await, Ok(()));
    for other in [
        ResolveApproval { outcome: ApprovalOutcome::AllowOnce, ..first.clone() },
        ResolveApproval { option: Some("another".into()), ..first.clone() },
        ResolveApproval { message: None, ..first.clone() },
        ResolveApproval { stop: true, ..first.clone() },
    ] {
        let refused = gateway.resolve(&id, &ask, other.clone()).await.unwrap_err();
        assert!(matches!(refused, RequestError::KeyReused { .. }), "{other:?}: {refused}");
    }
    let settled = Refusal::ApprovalSettled { approval: ask.clone(), outcome: ApprovalOutcome::Reject };
    let another = ResolveApproval { key: Some("other".into()), ..first };
    assert_eq!(gateway.resolve(&id, &ask, another).await, Err(settled.into()));
    home.close(gateway).await;
}

/// docs/http.md: "A request with a `key` can be sent again: it is the same session, prompt or answer".
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_with_a_key_can_be_repeated_however_many_came_after_it() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    prompt(&gateway, &id, json!([{"do": "tool", "ask": true}])).await;
    let ask = asks(&until(&gateway, &id, "the ask", |snapshot| !asks(snapshot).is_empty()).await).remove(0);
    let keyed = ResolveApproval { key: Some("k".into()), ..allow() };
    gateway.resolve(&id, &ask, keyed.clone()).await.unwrap();
    settled(&gateway, &id, 1).await;
    let permissions = Some(Permissions::Allow);
    gateway.change(&id, Change { permissions, ..Change::default() }).await.unwrap();
    let steps: Vec<Value> = (0..300).map(|_| json!({"do": "tool", "ask": true})).collect();
    prompt(&gateway, &id, json!(steps)).await;
    settled(&gateway, &id, 2).await;
    assert_eq!(gateway.resolve(&id, &ask, keyed).await, Ok(()));
    home.close(gateway).await;
}
