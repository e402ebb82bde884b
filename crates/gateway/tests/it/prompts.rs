//! The prompt queue: durable, one at a time, one outcome each.

use crate::support::*;
use serde_json::json;
use std::time::Duration;
use turnstream_gateway::{NewPrompt, RequestError};
use turnstream_model::fold::PromptStage;
use turnstream_model::id::{PromptId, TurnId};
use turnstream_model::machine::Refusal;

#[tokio::test(flavor = "multi_thread")]
async fn prompts_run_one_after_the_other_in_the_order_of_their_acceptance() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    for number in 0..5 {
        let steps = json!([{"do": "text", "text": format!("answer {number}")}, {"do": "sleep", "ms": 5}]);
        let accepted = gateway.prompt(&id, script(steps)).await.unwrap();
        assert_eq!(accepted.prompt, PromptId::from(format!("p{}", number + 1)));
    }
    let snapshot = settled(&gateway, &id, 5).await;
    assert_eq!(outcomes(&snapshot), vec!["completed end_turn"; 5]);
    assert_eq!(said(&snapshot), ["answer 0", "answer 1", "answer 2", "answer 3", "answer 4"]);
    for (number, turn) in snapshot.state.turns.iter().enumerate() {
        assert_eq!(turn.prompts, [PromptId::from(format!("p{}", number + 1))]);
    }
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_makes_a_prompt_run_once() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    let steps = json!([{"do": "tool", "effect": {"append": {"path": "runs", "text": "one\n"}}}]);
    let first = gateway.prompt(&id, keyed("k", steps.clone())).await.unwrap();
    settled(&gateway, &id, 1).await;
    for _ in 0..3 {
        let again = gateway.prompt(&id, keyed("k", steps.clone())).await.unwrap();
        assert_eq!(again.prompt, first.prompt);
    }
    let other = gateway.prompt(&id, keyed("k", json!([]))).await.unwrap_err();
    assert!(matches!(other, RequestError::KeyReused { .. }), "{other}");
    gateway.close().await;
    let gateway = home.open().await;
    assert_eq!(gateway.prompt(&id, keyed("k", steps)).await.unwrap().prompt, first.prompt);
    settled(&gateway, &id, 1).await;
    assert_eq!(home.lines_of("runs"), ["one"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_prompt_can_be_withdrawn_and_a_running_one_cannot() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    let first = prompt(&gateway, &id, json!([{"do": "text", "text": "x"}, {"do": "stall"}])).await;
    until(&gateway, &id, "the turn", |snapshot| !said(snapshot).is_empty()).await;
    let second = prompt(&gateway, &id, json!([{"do": "text", "text": "never"}])).await;
    gateway.withdraw(&id, &second).await.unwrap();
    for prompt in [&first, &second, &PromptId::from("p99")] {
        let refused = gateway.withdraw(&id, prompt).await.unwrap_err();
        assert!(matches!(refused, RequestError::Refused(Refusal::NotWaiting { .. })), "{refused}");
    }
    gateway.cancel(&id, Cancel::Any).await.unwrap();
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["cancelled"]);
    let withdrawn = snapshot.state.prompts.iter().find(|prompt| prompt.prompt == second).unwrap();
    assert_eq!(withdrawn.state, PromptStage::Withdrawn);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_is_fenced_by_its_turn() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    let no_turn = gateway.cancel(&id, Cancel::Any).await.unwrap_err();
    assert_eq!(no_turn.to_string(), "no turn is open, and no prompt was sent that has no turn yet");
    prompt(&gateway, &id, json!([{"do": "text", "text": "one"}])).await;
    settled(&gateway, &id, 1).await;
    prompt(&gateway, &id, json!([{"do": "text", "text": "two"}, {"do": "stall"}])).await;
    until(&gateway, &id, "the second turn", |snapshot| said(snapshot).len() == 2).await;
    let stale = gateway.cancel(&id, Cancel::Turn(TurnId::from("t1"))).await.unwrap_err();
    assert_eq!(stale.to_string(), "turn t1 is not open; the open turn is t2");
    assert_eq!(gateway.cancel(&id, Cancel::Turn(TurnId::from("t2"))).await.unwrap(), cancelled("t2"));
    let snapshot = settled(&gateway, &id, 2).await;
    assert_eq!(outcomes(&snapshot), ["completed end_turn", "cancelled"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_cannot_be_one_is_refused_by_name() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    let deep = (0..64).fold(json!(1), |inner, _| json!([inner]));
    for (content, problem) in [
        (json!([]), "content is empty"),
        (json!(["text"]), "content[0] is not an object"),
        (json!([{"type": "text"}]), "content[0] is of type text and has no \"text\""),
        (json!([{"type": "other", "deep": deep}]), "content[0] is nested more than 64 deep"),
    ] {
        let content = content.as_array().unwrap().clone();
        let refused = gateway.prompt(&id, NewPrompt::new(content)).await.unwrap_err();
        assert!(refused.to_string().starts_with(problem), "{refused}");
    }
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_nobody_watches_goes_on() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    let steps = json!([{"do": "burst", "count": 500, "bytes": 20}, {"do": "sleep", "ms": 50}]);
    prompt(&gateway, &id, steps).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(said(&snapshot)[0].len(), 10_000);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_of_every_kind_end_once() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    let turns = [
        (json!([]), "completed end_turn"),
        (json!([{"do": "idle"}]), "completed end_turn"),
        (
            json!([{"do": "text", "text": "a b"}, {"do": "idle", "stop_reason": "max_tokens"}]),
            "completed max_tokens",
        ),
        (json!([{"do": "fail", "class": "overloaded", "message": "m"}]), "failed overloaded"),
        (json!([{"do": "refuse", "class": "auth", "message": "m"}]), "failed auth"),
        (
            json!([{"do": "text", "text": "a"}, {"do": "garbage"}, {"do": "text", "text": "b"}]),
            "completed end_turn",
        ),
        (json!([{"do": "text", "text": "a"}, {"do": "duplicate", "count": 3}]), "completed end_turn"),
        (
            json!([{"do": "text", "text": "a"}, {"do": "late", "what": "idle", "at": "next_turn"}]),
            "completed end_turn",
        ),
        (json!([{"do": "tool"}, {"do": "late", "what": "tool"}]), "completed end_turn"),
        (
            json!([{"do": "attempt"}, {"do": "text", "text": "void", "unfinished": true}, {"do": "retry"},
                {"do": "attempt"}, {"do": "text", "text": "good"}, {"do": "attempt_end"}]),
            "completed end_turn",
        ),
        (json!([{"do": "text", "text": "a"}, {"do": "crash"}]), "lost agent_exited"),
        (json!([{"do": "text", "text": "a"}, {"do": "vanish"}]), "lost agent_exited"),
        (json!([{"do": "nonsense"}]), "failed invalid_request"),
        (json!([{"do": "text", "text": "fine again"}]), "completed end_turn"),
    ];
    for (number, (steps, expected)) in turns.iter().enumerate() {
        prompt(&gateway, &id, steps.clone()).await;
        let snapshot = settled(&gateway, &id, number + 1).await;
        assert_eq!(outcomes(&snapshot).last().unwrap(), expected, "{steps}");
    }
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_is_withdrawn_while_it_is_sent_has_one_outcome() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    let mut withdrawn = Vec::new();
    for round in 0..60_u64 {
        let effect = json!({"append": {"path": "runs", "text": format!("{round}\n")}});
        prompt(&gateway, &id, json!([{"do": "text", "text": "x"}])).await;
        let second = prompt(&gateway, &id, json!([{"do": "tool", "effect": effect}])).await;
        // Sometimes it still waits, sometimes it is about to leave, sometimes it runs.
        tokio::time::sleep(Duration::from_micros(round * 100)).await;
        let both = tokio::join!(gateway.withdraw(&id, &second), gateway.withdraw(&id, &second));
        assert!(both.0.is_err() || both.1.is_err(), "it can be withdrawn once");
        if both.0.is_ok() || both.1.is_ok() {
            withdrawn.push(round);
        }
        let snapshot =
            until(&gateway, &id, "the end of both", |snapshot| snapshot.state.queue.is_empty()).await;
        let prompt = snapshot.state.prompts.iter().find(|prompt| prompt.prompt == second).unwrap();
        let is_withdrawn = prompt.state == PromptStage::Withdrawn;
        assert_eq!((is_withdrawn, prompt.turn.is_none()), (withdrawn.contains(&round), is_withdrawn));
    }
    let turns = 120 - withdrawn.len();
    settled(&gateway, &id, turns).await;
    let ran: Vec<String> =
        (0..60_u64).filter(|round| !withdrawn.contains(round)).map(|round| round.to_string()).collect();
    assert_eq!(home.lines_of("runs"), ran);
    home.close(gateway).await;
}
