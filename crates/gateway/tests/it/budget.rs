//! Budgets: a turn at its cap is stopped, a session at its cap takes no prompt until it is raised, and a
//! restart forgets neither.

use crate::puppet::{began, lines, stage};
use crate::support::*;
use serde_json::{Value, json};
use std::time::Duration;
use turnstream_agents::Command;
use turnstream_gateway::{BudgetChange, CapsChange, Gateway, NewPrompt, NewSession, RequestError};
use turnstream_model::event::{Budget, Cap, Caps, ErrorClass, Outcome};
use turnstream_model::fold::PromptStage;
use turnstream_model::id::SessionId;
use turnstream_model::machine::Refusal;

/// A cap on tokens of each turn or of the session.
fn tokens(count: u64) -> CapsChange {
    CapsChange { tokens: Some(Some(count)), ..CapsChange::default() }
}

fn steps(count: u64) -> CapsChange {
    CapsChange { steps: Some(Some(count)), ..CapsChange::default() }
}

async fn capped(gateway: &Gateway, home: &Home, agent: &str, budget: BudgetChange) -> SessionId {
    let new = NewSession { budget, ..new_session(home, agent) };
    id_of(&gateway.create(new).await.unwrap())
}

/// A script of so many model calls with a tool each. The last call asks for no tool.
fn calls(count: usize, tokens: u64) -> Vec<Value> {
    let mut steps = Vec::new();
    for call in 1..=count {
        let finish = if call == count { "stop" } else { "tool_use" };
        steps.push(json!({"do": "attempt"}));
        steps.push(json!({"do": "attempt_end", "finish": finish, "usage": {"input": tokens}}));
        steps.push(json!({"do": "sleep", "ms": 10}));
    }
    steps
}

/// Model calls that ask for more. After so many the next one never comes.
fn endless(count: usize, tokens: u64) -> Value {
    let mut steps = calls(count + 1, tokens);
    steps.truncate(3 * count);
    steps.push(json!({"do": "stall"}));
    json!(steps)
}

async fn of_type(home: &Home, id: &SessionId, r#type: &str) -> Vec<Value> {
    let events = lines(home, id).await;
    let events = events.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["type"] == r#type).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_goes_on_at_its_cap_is_stopped_and_the_next_one_is_not() {
    let home = Home::new();
    let gateway = home.open().await;
    for turn in [steps(2), tokens(20)] {
        let id = capped(&gateway, &home, "scripted", BudgetChange { turn, ..BudgetChange::default() }).await;
        prompt(&gateway, &id, endless(2, 10)).await;
        prompt(&gateway, &id, json!(calls(1, 10))).await;
        let snapshot = settled(&gateway, &id, 2).await;
        assert_eq!(outcomes(&snapshot), ["failed budget", "completed end_turn"]);
        let used = snapshot.state.session.budget.unwrap().used;
        assert_eq!((used.steps, used.tokens), (Some(3), Some(30)));
    }
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_without_an_end_is_stopped_when_its_time_is_up() {
    let home = Home::new();
    let gateway = home.open().await;
    let turn = CapsChange { time: Some(Some(200)), ..CapsChange::default() };
    let id = capped(&gateway, &home, "scripted", BudgetChange { turn, ..BudgetChange::default() }).await;
    prompt(&gateway, &id, json!([{"do": "text", "text": "half"}, {"do": "stall"}])).await;
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["failed budget"]);
    assert!(snapshot.state.session.budget.unwrap().used.time >= 200);
    home.close(gateway).await;
    let reached = of_type(&home, &id, "budget.reached").await;
    assert_eq!((reached.len(), &reached[0]["cap"], &reached[0]["turn"]), (1, &json!("time"), &json!("t1")));
    let cancelling = of_type(&home, &id, "turn.cancelling").await;
    assert_eq!((cancelling.len(), &cancelling[0]["by"]), (1, &json!("policy")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_does_not_stop_at_its_cap_is_stopped_by_force() {
    let mut home = Home::new();
    home.settings.cancel = Duration::from_millis(100);
    let gateway = stage(&home, false, |_start, mut commands, observer| async move {
        while let Some(command) = commands.recv().await {
            // It hears of the cancel, and does nothing about it.
            if let Command::Prompt { native_id, .. } = command {
                began(&observer, &native_id, &[&native_id]).await;
            }
        }
    })
    .await;
    let turn = CapsChange { time: Some(Some(50)), ..CapsChange::default() };
    let id = capped(&gateway, &home, "puppet", BudgetChange { turn, ..BudgetChange::default() }).await;
    gateway.prompt(&id, script(json!([]))).await.unwrap();
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["failed budget"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_at_its_cap_takes_no_prompt_until_it_is_raised_also_after_a_restart() {
    let home = Home::new();
    let gateway = home.open().await;
    let session = tokens(25);
    let id = capped(&gateway, &home, "scripted", BudgetChange { session, ..BudgetChange::default() }).await;
    prompt(&gateway, &id, json!(calls(1, 10))).await;
    // Accepted while there is room, and not sent when there is none any more.
    prompt(&gateway, &id, json!(calls(2, 10))).await;
    let waiting = prompt(&gateway, &id, json!(calls(1, 10))).await;
    until(&gateway, &id, "the cap", |snapshot| {
        let budget = snapshot.state.session.budget.as_ref().unwrap();
        budget.reached == Some(Cap::Tokens) && snapshot.state.turns.iter().all(|turn| turn.outcome.is_some())
    })
    .await;
    let refused = |used: &str| {
        let (used, limit) = (used.to_owned(), "25 tokens".to_owned());
        Err(RequestError::Refused(Refusal::Capped { cap: Cap::Tokens, used, limit }))
    };
    assert_eq!(gateway.prompt(&id, script(json!([]))).await.map(drop), refused("30 tokens"));
    gateway.close().await;

    let gateway = home.open().await;
    assert_eq!(gateway.prompt(&id, script(json!([]))).await.map(drop), refused("30 tokens"));
    let snapshot = gateway.snapshot(&id).await.unwrap();
    let queued: Vec<_> = snapshot.state.queue.iter().map(|queued| (&queued.prompt, queued.state)).collect();
    assert_eq!(queued, [(&waiting, PromptStage::Waiting)]);
    let raised =
        gateway.set_budget(&id, BudgetChange { session: tokens(100), ..BudgetChange::default() }).await;
    assert_eq!(raised.unwrap().session.budget.unwrap().reached, None);
    let snapshot = settled(&gateway, &id, 3).await;
    assert_eq!(outcomes(&snapshot), ["completed end_turn", "completed end_turn", "completed end_turn"]);
    assert_eq!(snapshot.state.session.budget.unwrap().used.tokens, Some(40));
    home.close(gateway).await;
    let used = of_type(&home, &id, "budget.used").await;
    let totals: Vec<&Value> = used.iter().map(|event| &event["used"]["tokens"]).collect();
    assert_eq!(totals, [10, 30, 40]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_waits_at_its_cap_gives_its_agent_to_another_one() {
    let mut home = Home::new();
    home.settings.limits.live_agents = 1;
    let gateway = home.open().await;
    let budget = BudgetChange { session: steps(1), ..BudgetChange::default() };
    let first = capped(&gateway, &home, "scripted", budget).await;
    prompt(&gateway, &first, json!([calls(1, 1), vec![json!({"do": "sleep", "ms": 300})]].concat())).await;
    until(&gateway, &first, "the turn", |snapshot| !snapshot.state.turns.is_empty()).await;
    // It may be accepted before the cap is reached, and waits from then on.
    let _ = gateway.prompt(&first, script(json!(calls(1, 1)))).await;
    until(&gateway, &first, "the end of the turn", |snapshot| {
        snapshot.state.turns.iter().all(|turn| turn.outcome.is_some())
    })
    .await;
    let second = session(&gateway, &home, "scripted").await;
    let steps = json!([{"do": "text", "text": "There is room"}]);
    // The first session may not have noticed that it is quiet.
    while let Err(error) = gateway.prompt(&second, script(steps.clone())).await {
        assert_eq!(error, RequestError::TooManyAgents { most: 1 });
        tokio::task::yield_now().await;
    }
    assert_eq!(outcomes(&settled(&gateway, &second, 1).await), ["completed end_turn"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caps_of_the_configuration_are_those_of_new_sessions_and_a_request_changes_single_ones() {
    let mut home = Home::new();
    let turn = Caps { steps: Some(5), time: Some(60_000), ..Caps::default() };
    let configured = Budget { turn: turn.clone(), session: Caps { cost: Some(2.0), ..Caps::default() } };
    home.settings.budgets.insert("scripted".to_owned(), configured.clone());
    let gateway = home.open().await;
    let budget_of = |id: &SessionId| gateway.session(id).unwrap().session.budget.map(|meter| meter.budget);
    let plain = session(&gateway, &home, "scripted").await;
    assert_eq!(budget_of(&plain), Some(configured.clone()));
    let changes = CapsChange { steps: Some(None), tokens: Some(Some(9)), ..CapsChange::default() };
    let budget = BudgetChange { turn: changes, ..BudgetChange::default() };
    let changed = capped(&gateway, &home, "scripted", budget).await;
    let turn = Caps { steps: None, tokens: Some(9), ..turn };
    assert_eq!(budget_of(&changed), Some(Budget { turn, ..configured }));
    let other = session(&gateway, &home, "lasting").await;
    assert_eq!(budget_of(&other), None);
    home.close(gateway).await;
    let by = |events: Vec<Value>| events[0]["by"].clone();
    assert_eq!(by(of_type(&home, &plain, "budget.set").await), "policy");
    assert_eq!(by(of_type(&home, &changed, "budget.set").await), "client");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_brings_caps_for_its_own_turn() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    gateway.prompt(&id, NewPrompt { budget: steps(1), ..script(endless(1, 10)) }).await.unwrap();
    prompt(&gateway, &id, json!(calls(3, 10))).await;
    let snapshot = settled(&gateway, &id, 2).await;
    assert_eq!(outcomes(&snapshot), ["failed budget", "completed end_turn"]);
    let none = gateway.prompt(&id, NewPrompt { budget: steps(0), ..script(json!([])) }).await;
    assert_eq!(none.map(drop), Err(RequestError::BadBudget { cap: "steps" }));
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_was_stopped_at_its_cap_fails_for_that_also_after_a_restart() {
    let mut home = Home::new();
    home.settings.cancel = Duration::from_secs(3_600);
    // It outlives the gateway, hears no cancel, and tells the next gateway how its turn ended.
    let gateway = stage(&home, true, |start, mut commands, observer| async move {
        if start.open_work.is_some() {
            let ending = turnstream_model::signal::Ending::cancelled();
            let done = turnstream_model::signal::Signal::TurnDone { native_id: None, ending };
            let _ = observer.signal(done).await;
            let _ = observer.observed(turnstream_agents::Observed::CaughtUp).await;
        }
        while let Some(command) = commands.recv().await {
            if let Command::Prompt { native_id, .. } = command {
                began(&observer, &native_id, &[&native_id]).await;
            }
        }
    })
    .await;
    let turn = CapsChange { time: Some(Some(50)), ..CapsChange::default() };
    let id = capped(&gateway, &home, "puppet", BudgetChange { turn, ..BudgetChange::default() }).await;
    gateway.prompt(&id, script(json!([]))).await.unwrap();
    until(&gateway, &id, "the cancel", |snapshot| {
        snapshot.state.turns.first().is_some_and(|turn| turn.cancelling.is_some())
    })
    .await;
    gateway.close().await;
    let gateway = stage(&home, true, |_start, mut commands, observer| async move {
        let ending = turnstream_model::signal::Ending::cancelled();
        let done = turnstream_model::signal::Signal::TurnDone { native_id: None, ending };
        let _ = observer.signal(done).await;
        let _ = observer.observed(turnstream_agents::Observed::CaughtUp).await;
        while commands.recv().await.is_some() {}
    })
    .await;
    let snapshot = settled(&gateway, &id, 1).await;
    let turn = &snapshot.state.turns[0];
    assert_eq!(turn.outcome, Some(Outcome::Failed));
    let error = turn.error.as_ref().unwrap();
    assert_eq!(error.class, ErrorClass::Budget);
    assert_eq!(error.message, "the turn was stopped: the turn has reached its cap of 0.050 seconds");
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_creation_with_other_caps_is_another_request() {
    let home = Home::new();
    let gateway = home.open().await;
    let new = |turn: CapsChange| NewSession {
        key: Some("k".to_owned()),
        budget: BudgetChange { turn, ..BudgetChange::default() },
        ..new_session(&home, "scripted")
    };
    let first = gateway.create(new(steps(3))).await.unwrap();
    assert_eq!(id_of(&gateway.create(new(steps(3))).await.unwrap()), id_of(&first));
    let other = gateway.create(new(steps(4))).await;
    assert!(matches!(other, Err(RequestError::KeyReused { .. })), "{other:?}");
    home.close(gateway).await;
}
