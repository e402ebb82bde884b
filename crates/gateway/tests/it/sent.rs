//! A prompt that was sent and has no turn yet can be cancelled: kept, told to the agent, and its turn ends
//! cancelled once.

use crate::puppet::*;
use crate::support::*;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::Receiver;
use turnstream_agents::{Command, Fate, Observed, Observer, Start};
use turnstream_gateway::{Gateway, RequestError, Settings};
use turnstream_log::{Log, Options};
use turnstream_model::event::{By, ErrorClass, TurnError};
use turnstream_model::fold::{Activity, PromptStage, Snapshot};
use turnstream_model::id::{PromptId, SessionId};
use turnstream_model::machine::{PromptState, Refusal};
use turnstream_model::signal::Signal;
use turnstream_testkit::crash::{KillPoint, Program, role};
use turnstream_testkit::lawful::Tail;

const HOME: &str = "TURNSTREAM_GATEWAY_TEST_HOME";
const AGENT: &str = "TURNSTREAM_GATEWAY_TEST_AGENT";
const ROUND: &str = "TURNSTREAM_GATEWAY_TEST_ROUND";

/// What an agent does with a prompt that is cancelled before it began.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// It says that it will not begin.
    Refuses,
    /// It begins, works and completes all the same.
    Completes,
    /// It never says anything.
    Ignores,
}

/// Never begins by itself. Keeps what it is told.
async fn reluctant(
    start: Start,
    mut commands: Receiver<Command>,
    observer: Observer,
    told: Arc<Mutex<Vec<String>>>,
    manner: Manner,
) {
    if let Some(left) = start.open_work {
        for native_id in left.prompts {
            let _ = observer.observed(Observed::Fate { native_id, fate: Fate::Taken }).await;
        }
        let _ = observer.observed(Observed::CaughtUp).await;
    }
    while let Some(command) = commands.recv().await {
        match command {
            Command::Prompt { native_id, .. } => told.lock().unwrap().push(format!("prompt {native_id}")),
            Command::Cancel => told.lock().unwrap().push("cancel".to_owned()),
            Command::CancelPrompt(native_id) => {
                told.lock().unwrap().push(format!("cancel {native_id}"));
                match manner {
                    Manner::Refuses => {
                        let error = TurnError::new(ErrorClass::Cancelled, "stopped before it began");
                        let _ = observer.signal(Signal::PromptRefused { native_id, error }).await;
                    }
                    Manner::Completes => {
                        began(&observer, "n", &[&native_id]).await;
                        says(&observer, "m").await;
                        let _ = observer.signal(done("n")).await;
                    }
                    Manner::Ignores => {}
                }
            }
            Command::Approve { .. } | Command::Answer { .. } | Command::Change { .. } | Command::Fetch(_) => {
            }
        }
    }
}

type Told = Arc<Mutex<Vec<String>>>;

async fn reluctant_gateway(home: &Home, outlives: bool, manner: Manner) -> (Gateway, Told) {
    let told = Told::default();
    let heard = told.clone();
    let gateway = stage(home, outlives, move |start, commands, observer| {
        reluctant(start, commands, observer, heard.clone(), manner)
    })
    .await;
    (gateway, told)
}

/// Waits until the prompt has left and the agent has it.
async fn sent(gateway: &Gateway, id: &SessionId, told: &Told) -> Snapshot {
    let snapshot = until(gateway, id, "the prompt is sent", |snapshot| {
        snapshot.state.queue.first().is_some_and(|prompt| prompt.state == PromptStage::Sent)
    })
    .await;
    within(Duration::from_secs(300), "the agent has it", async {
        while told.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    snapshot
}

fn of_prompt(prompt: &PromptId) -> Cancelled {
    Cancelled { prompts: vec![prompt.clone()], ..Cancelled::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_without_a_turn_is_cancelled_whatever_its_agent_makes_of_it() {
    for manner in [Manner::Refuses, Manner::Completes, Manner::Ignores] {
        let mut home = Home::new();
        home.settings.cancel = Duration::from_millis(300);
        let (gateway, told) = reluctant_gateway(&home, false, manner).await;
        let id = session(&gateway, &home, "puppet").await;
        let prompt = prompt(&gateway, &id, json!([])).await;
        let snapshot = sent(&gateway, &id, &told).await;
        assert_eq!(snapshot.state.session.status, Activity::Busy);
        let waiting = RequestError::Refused(Refusal::NotWaiting {
            prompt: prompt.clone(),
            state: Some(PromptState::Sent),
        });
        assert_eq!(gateway.withdraw(&id, &prompt).await, Err(waiting));
        let cancelled = gateway.cancel(&id, Cancel::Prompt(prompt.clone())).await;
        assert_eq!(cancelled, Ok(of_prompt(&prompt)));
        let snapshot = settled(&gateway, &id, 1).await;
        assert_eq!(outcomes(&snapshot), ["cancelled"]);
        assert_eq!(snapshot.state.turns[0].cancelling, Some(By::Client));
        assert_eq!(snapshot.state.prompts[0].cancelling, Some(By::Client));
        let wanted = [format!("prompt {id}.{prompt}"), format!("cancel {id}.{prompt}")];
        assert_eq!(*told.lock().unwrap(), wanted, "it was told once");
        let late = gateway.cancel(&id, Cancel::Prompt(prompt.clone())).await;
        assert_eq!(late, Err(Refusal::NotSent { prompt, state: None }.into()));
        assert_eq!(gateway.cancel(&id, Cancel::Any).await, Err(Refusal::NothingRuns.into()));
        home.close(gateway).await;
        let types: Vec<String> = lines(&home, &id)
            .await
            .iter()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned())
            .collect();
        let count = |name: &str| types.iter().filter(|kind| *kind == name).count();
        assert_eq!((count("prompt.cancelling"), count("turn.started"), count("turn.ended")), (1, 1, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_of_whatever_runs_stops_the_sent_prompt_and_leaves_the_queue_alone() {
    let home = Home::new();
    let (gateway, told) = reluctant_gateway(&home, false, Manner::Refuses).await;
    let id = session(&gateway, &home, "puppet").await;
    assert_eq!(gateway.cancel(&id, Cancel::Any).await, Err(Refusal::NothingRuns.into()));
    let first = prompt(&gateway, &id, json!([])).await;
    sent(&gateway, &id, &told).await;
    let second = prompt(&gateway, &id, json!([])).await;
    let waits = Refusal::NotSent { prompt: second.clone(), state: Some(PromptState::Waiting) };
    assert_eq!(gateway.cancel(&id, Cancel::Prompt(second.clone())).await, Err(waits.into()));
    assert_eq!(gateway.cancel(&id, Cancel::Any).await, Ok(of_prompt(&first)));
    // Now the second one is at the agent, and nobody cancelled it.
    let snapshot = until(&gateway, &id, "the second is sent", |snapshot| {
        snapshot.state.queue.iter().any(|prompt| prompt.state == PromptStage::Sent && prompt.prompt == second)
    })
    .await;
    assert_eq!((snapshot.state.turns.len(), snapshot.state.queue[0].cancelling), (1, None));
    assert_eq!(gateway.cancel(&id, Cancel::Any).await, Ok(of_prompt(&second)));
    let snapshot = settled(&gateway, &id, 2).await;
    assert_eq!(outcomes(&snapshot), ["cancelled", "cancelled"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn however_many_cancel_a_prompt_it_is_said_and_told_once() {
    let mut home = Home::new();
    home.settings.cancel = Duration::from_secs(3);
    let (gateway, told) = reluctant_gateway(&home, false, Manner::Ignores).await;
    let id = session(&gateway, &home, "puppet").await;
    let prompt = prompt(&gateway, &id, json!([])).await;
    sent(&gateway, &id, &told).await;
    let named = Cancel::Prompt(prompt.clone());
    let all = tokio::join!(
        gateway.cancel(&id, Cancel::Any),
        gateway.cancel(&id, named.clone()),
        gateway.cancel(&id, named),
    );
    let one = Ok(of_prompt(&prompt));
    assert_eq!(all, (one.clone(), one.clone(), one));
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["cancelled"]);
    assert_eq!(told.lock().unwrap().len(), 2, "{told:?}");
    home.close(gateway).await;
    let said = lines(&home, &id).await;
    assert_eq!(said.iter().filter(|line| line.contains("prompt.cancelling")).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_prompt_is_told_of_again_by_the_next_owner() {
    let home = Home::new();
    let (gateway, told) = reluctant_gateway(&home, true, Manner::Ignores).await;
    let id = session(&gateway, &home, "puppet").await;
    let prompt = prompt(&gateway, &id, json!([])).await;
    sent(&gateway, &id, &told).await;
    gateway.cancel(&id, Cancel::Any).await.unwrap();
    gateway.close().await;

    let (gateway, told) = reluctant_gateway(&home, true, Manner::Completes).await;
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["cancelled"]);
    assert_eq!(said(&snapshot), ["hello"], "it had begun by then, and that is in the log");
    assert_eq!(*told.lock().unwrap(), [format!("cancel {id}.{prompt}")], "and the prompt is not sent again");
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_prompt_that_the_agent_never_had_is_not_sent_after_a_restart() {
    let home = Home::new();
    let (gateway, told) = reluctant_gateway(&home, true, Manner::Ignores).await;
    let id = session(&gateway, &home, "puppet").await;
    prompt(&gateway, &id, json!([])).await;
    sent(&gateway, &id, &told).await;
    gateway.cancel(&id, Cancel::Any).await.unwrap();
    gateway.close().await;

    let again = Told::default();
    let heard = again.clone();
    let play = move |start: Start, mut commands: Receiver<Command>, observer: Observer| {
        let heard = heard.clone();
        async move {
            for native_id in start.open_work.into_iter().flat_map(|left| left.prompts) {
                let fate = Fate::NeverSeen;
                let _ = observer.observed(Observed::Fate { native_id, fate }).await;
            }
            let _ = observer.observed(Observed::CaughtUp).await;
            while let Some(command) = commands.recv().await {
                heard.lock().unwrap().push(format!("{command:?}"));
            }
        }
    };
    let gateway = stage(&home, true, play).await;
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["cancelled"]);
    home.close(gateway).await;
    assert!(!again.lock().unwrap().iter().any(|told| told.contains("Prompt {")), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_the_agent_is_lost_with_again_and_again_fails() {
    let home = Home::new();
    let told = Told::default();
    let heard = told.clone();
    // It never notes a prompt, as an agent on a full disk.
    let play = move |start: Start, mut commands: Receiver<Command>, observer: Observer| {
        let heard = heard.clone();
        async move {
            for native_id in start.open_work.into_iter().flat_map(|left| left.prompts) {
                let _ = observer.observed(Observed::Fate { native_id, fate: Fate::NeverSeen }).await;
            }
            let _ = observer.observed(Observed::CaughtUp).await;
            while let Some(command) = commands.recv().await {
                if let Command::Prompt { native_id, .. } = command {
                    heard.lock().unwrap().push(native_id);
                    let error = TurnError::new(ErrorClass::AgentExited, "no room for its memory");
                    let _ = observer.signal(Signal::LinkLost(error)).await;
                }
            }
        }
    };
    let gateway = stage(&home, true, play).await;
    let id = session(&gateway, &home, "puppet").await;
    let prompt = prompt(&gateway, &id, json!([])).await;
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["failed agent_exited"]);
    let error = snapshot.state.turns[0].error.as_ref().unwrap();
    let message = "the agent was lost 3 times before it took the prompt: no room for its memory";
    assert_eq!((error.class, error.message.as_str()), (ErrorClass::AgentExited, message));
    assert_eq!(*told.lock().unwrap(), vec![format!("{id}.{prompt}"); 3]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_lives_on_keeps_its_link_so_that_a_late_beginning_is_stopped() {
    let mut home = Home::new();
    home.settings.cancel = Duration::from_millis(200);
    let (links, ended) = (Arc::new(Mutex::new(0)), Arc::new(Notify::new()));
    let (counted, gone) = (links.clone(), ended.clone());
    let play = move |_: Start, mut commands: Receiver<Command>, observer: Observer| {
        *counted.lock().unwrap() += 1;
        let gone = gone.clone();
        async move {
            while commands.recv().await.is_some() {}
            drop(observer);
            gone.notify_one();
        }
    };
    let gateway = stage(&home, true, play).await;
    let id = session(&gateway, &home, "puppet").await;
    for turns in 1..=2 {
        prompt(&gateway, &id, json!([])).await;
        until(&gateway, &id, "the prompt is sent", |snapshot| {
            snapshot.state.queue.iter().any(|prompt| prompt.state == PromptStage::Sent)
        })
        .await;
        gateway.cancel(&id, Cancel::Any).await.unwrap();
        settled(&gateway, &id, turns).await;
    }
    assert_eq!(*links.lock().unwrap(), 1, "the same link served both");
    home.close(gateway).await;
    within(Duration::from_secs(300), "the link ends with the gateway", ended.notified()).await;
}

// === kills at every step ===

/// The child of the test below: a prompt that begins only after a long while is cancelled, until its turn
/// has ended.
#[test]
fn child_that_cancels_a_sent_prompt() {
    if role().as_deref() != Some("cancels-sent") {
        return;
    }
    let home = PathBuf::from(std::env::var(HOME).unwrap());
    let (agent, round) = (std::env::var(AGENT).unwrap(), std::env::var(ROUND).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let settings = Settings { roots: vec![home.join("work")], ..Settings::default() };
        let gateway = open(&home, settings).await;
        let key = Some("the one".to_owned());
        let new = turnstream_gateway::NewSession { key, ..new_session_in(&home.join("work"), &agent) };
        let id = id_of(&gateway.create(new).await.unwrap());
        let ran = json!({"append": {"path": "runs", "text": "ran\n"}});
        let steps = json!([{"do": "sleep", "ms": 600_000}, {"do": "begin"}, {"do": "tool", "effect": ran}]);
        let prompt = loop {
            match gateway.prompt(&id, keyed(&format!("k{round}"), steps.clone())).await {
                Ok(accepted) => break accepted.prompt,
                Err(RequestError::Recovering(_)) => tokio::time::sleep(Duration::from_millis(2)).await,
                Err(error) => panic!("{error}"),
            }
        };
        loop {
            let state = gateway.snapshot(&id).await.unwrap().state;
            let queued = state.queue.iter().find(|queued| queued.prompt == prompt);
            match queued {
                None => break,
                // One that was answered, or only kept, before the kill needs no second word.
                Some(queued) if queued.cancelling.is_some() => {}
                Some(queued) if queued.state == PromptStage::Sent => {
                    // It may have got its turn in between.
                    if gateway.cancel(&id, Cancel::Prompt(prompt.clone())).await.is_ok() {
                        println!("CANCELLED");
                    }
                }
                Some(_) => {}
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        until(&gateway, &id, "its end", |snapshot| {
            snapshot.state.turns.iter().all(|turn| turn.outcome.is_some())
        })
        .await;
        println!("DONE");
        std::future::pending::<()>().await;
    });
}

fn killed_at_every_step(agent: &str) {
    let home = laid_out();
    let points = [
        ("keeper.append", 3),
        ("log.before_sync", 2),
        ("log.after_sync", 2),
        ("log.published", 2),
        ("keeper.durable", 1),
        ("keeper.told", 1),
        ("keeper.cancelling", 1),
    ];
    let rounds: Vec<(&str, u64)> =
        points.iter().flat_map(|(point, times)| (1..=*times).map(move |nth| (*point, nth))).collect();
    let run = |round: usize, point: &KillPoint| {
        let program = Program::this_test("sent::child_that_cancels_a_sent_prompt", "cancels-sent").unwrap();
        program.env(HOME, home.path()).env(AGENT, agent).env(ROUND, round.to_string()).run(point)
    };
    for (round, (point, nth)) in rounds.iter().enumerate() {
        run(round, &KillPoint::failpoint(*point, *nth)).unwrap();
        run(round, &KillPoint::line("DONE", 1)).unwrap();
    }
    let killed_when_answered = rounds.len();
    run(killed_when_answered, &KillPoint::line("CANCELLED", 1)).unwrap();
    run(killed_when_answered, &KillPoint::line("DONE", 1)).unwrap();

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let log = Log::open(&home.path().join("data"), &Options::default()).unwrap().log;
        let id: SessionId = log.sessions().unwrap().remove(0);
        let state = log.snapshot(&id).unwrap().state;
        log.close().await;
        assert_eq!(state.prompts.len(), rounds.len() + 1);
        for prompt in &state.prompts {
            let turns: Vec<_> =
                state.turns.iter().filter(|turn| turn.prompts.contains(&prompt.prompt)).collect();
            let outcome = turns[0].outcome.unwrap().as_str();
            // An agent that died before anybody wanted it to stop has lost the prompt.
            let is_lost = prompt.cancelling.is_none() && agent == "scripted";
            let wanted = if is_lost { "lost" } else { "cancelled" };
            assert_eq!((turns.len(), outcome), (1, wanted), "{prompt:?}: {turns:?}");
        }
        judge(&home.path().join("data"), Tail::Settled).await;
    });
    assert!(!home.path().join("work/runs").exists(), "none of them ever ran");
}

#[test]
fn a_sent_prompt_that_is_cancelled_ends_once_over_kills_at_every_step() {
    killed_at_every_step("lasting");
}

#[test]
fn also_when_its_agent_dies_with_the_gateway() {
    killed_at_every_step("scripted");
}
