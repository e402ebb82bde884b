//! Cases that broke earlier versions of the keeper. What each expects is said in its message.

use crate::puppet::*;
use crate::support::*;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use turnstream_agents::{Command, Observed, Observer, Start};
use turnstream_gateway::{Change, Gateway, NewSession, OnTimeout, RequestError, ResolveApproval};
use turnstream_log::{Committed, Follow};
use turnstream_model::cursor::Cursor;
use turnstream_model::event::{ApprovalOutcome, ItemKind, ItemState, Origin, Permissions, Role};
use turnstream_model::fold::State;
use turnstream_model::id::{Key, SessionId};
use turnstream_model::signal::{Need, ProbedStatus, Signal};

#[tokio::test(flavor = "multi_thread")]
async fn silence_after_a_retry_whose_time_has_passed_is_noticed() {
    let mut home = Home::new();
    home.settings.inactivity = Duration::from_millis(100);
    home.settings.status_probe = Duration::from_millis(50);
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    prompt(
        &gateway,
        &id,
        json!([{"do": "text", "text": "half"}, {"do": "retry", "wait_ms": 20}, {"do": "stall"}]),
    )
    .await;
    let snapshot =
        within(Duration::from_secs(300), "the end of a stalled turn", settled(&gateway, &id, 1)).await;
    assert_eq!(outcomes(&snapshot), ["failed stalled"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_says_it_is_idle_when_it_is_asked_after_silence_did_not_stall() {
    let mut home = Home::new();
    home.settings.inactivity = Duration::from_secs(1);
    home.settings.status_probe = Duration::from_secs(300);
    let gateway = stage(&home, false, |_, mut commands, observer| async move {
        while let Some(command) = commands.recv().await {
            match command {
                // Its end gets lost on the way.
                Command::Prompt { native_id, .. } => {
                    began(&observer, "n1", &[&native_id]).await;
                    says(&observer, "m1").await;
                }
                Command::Fetch(Need::StatusProbe(turn)) => {
                    let _ = observer.signal(Signal::StatusProbed { turn, status: ProbedStatus::Idle }).await;
                }
                _ => {}
            }
        }
    })
    .await;
    let id = session(&gateway, &home, "puppet").await;
    prompt(&gateway, &id, json!([])).await;
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["completed end_turn"], "the agent said that it had finished");
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_the_agent_calls_over_in_the_recovery_ends() {
    let home = Home::new();
    let play = |start: Start, mut commands: Receiver<Command>, observer: Observer| async move {
        if let Some(left) = start.open_work {
            // As `OpenWork` wants it: the status of the turn, then CaughtUp.
            let turn = left.turn.unwrap();
            let _ = observer.signal(Signal::StatusProbed { turn, status: ProbedStatus::Idle }).await;
            let _ = observer.observed(Observed::CaughtUp).await;
        }
        while let Some(command) = commands.recv().await {
            match command {
                Command::Prompt { native_id, .. } => {
                    began(&observer, "n1", &[&native_id]).await;
                    says(&observer, "m1").await;
                }
                Command::Fetch(Need::StatusProbe(turn)) => {
                    let _ = observer.signal(Signal::StatusProbed { turn, status: ProbedStatus::Idle }).await;
                }
                _ => {}
            }
        }
    };
    let gateway = stage(&home, true, play).await;
    let id = session(&gateway, &home, "puppet").await;
    prompt(&gateway, &id, json!([])).await;
    until(&gateway, &id, "the text", |snapshot| said(snapshot) == ["hello"]).await;
    gateway.close().await;
    let gateway = stage(&home, true, play).await;
    let snapshot =
        within(Duration::from_secs(300), "the end of a turn that is over", settled(&gateway, &id, 1)).await;
    assert_eq!(outcomes(&snapshot).len(), 1);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_with_another_answer_is_refused() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    prompt(&gateway, &id, json!([{"do": "tool", "ask": true}])).await;
    let snapshot = until(&gateway, &id, "the ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
    let ask = snapshot.state.approvals[0].approval.clone();
    let allowed = ResolveApproval { key: Some("k".into()), ..allow() };
    gateway.resolve(&id, &ask, allowed).await.unwrap();
    let rejected = ResolveApproval { key: Some("k".into()), ..answer(ApprovalOutcome::Reject) };
    let second = gateway.resolve(&id, &ask, rejected).await;
    assert!(second.is_err(), "it was allowed; the one who rejected it was told that this was done");
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_answer_that_stops_its_turn_does_not_stop_the_next_one() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    prompt(&gateway, &id, json!([{"do": "tool", "ask": true}])).await;
    let snapshot = until(&gateway, &id, "the ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
    let ask = snapshot.state.approvals[0].approval.clone();
    let stop = ResolveApproval { key: Some("k".into()), stop: true, ..answer(ApprovalOutcome::Reject) };
    gateway.resolve(&id, &ask, stop.clone()).await.unwrap();
    settled(&gateway, &id, 1).await;
    prompt(&gateway, &id, json!([{"do": "text", "text": "two"}, {"do": "sleep", "ms": 300}])).await;
    until(&gateway, &id, "the second turn", |snapshot| said(snapshot).len() == 1).await;
    // The answer to the first request got lost, so the client repeats it.
    gateway.resolve(&id, &ask, stop).await.unwrap();
    let snapshot = settled(&gateway, &id, 2).await;
    assert_eq!(outcomes(&snapshot)[1], "completed end_turn", "nobody asked for this turn to stop");
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_whose_client_went_away_and_came_back_is_one_session() {
    let mut twice = Vec::new();
    let step = if is_full() { 2 } else { 8 };
    for micros in (0..400).step_by(step).map(|number| number * 25) {
        let home = Home::new();
        let gateway = home.open().await;
        let new = NewSession { key: Some("k".into()), ..new_session(&home, "scripted") };
        // What a server does with the handler of a connection that was closed.
        let _ = tokio::time::timeout(Duration::from_micros(micros), gateway.create(new.clone())).await;
        let again = gateway.create(new).await;
        let id = match again {
            Ok(info) => id_of(&info),
            Err(error) => {
                twice.push(format!("{micros} µs: {error}"));
                gateway.close().await;
                continue;
            }
        };
        gateway.close().await;
        let created = lines(&home, &id).await.iter().filter(|line| line.contains("session.created")).count();
        if created != 1 {
            twice.push(format!("{micros} µs: session.created {created} times"));
        }
    }
    assert!(twice.is_empty(), "{twice:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_says_much_at_once_does_not_lose_its_keeper() {
    let home = Home::new();
    // More than an append may have, which is 64 MiB.
    let pieces = if is_full() { 1_500 } else { 600 };
    let gateway = stage(&home, false, move |_, mut commands, observer| async move {
        while let Some(command) = commands.recv().await {
            let Command::Prompt { native_id, .. } = command else { continue };
            began(&observer, &native_id, &[&native_id]).await;
            let key = Key::from("big");
            let field = turnstream_model::event::Field::Text;
            let seen = turnstream_model::signal::ItemSeen {
                key: key.clone(),
                parent: None,
                kind: ItemKind::Message,
                role: Some(Role::Assistant),
                synthetic: false,
            };
            let _ = observer.signal(Signal::ItemSeen(seen)).await;
            for _ in 0..pieces {
                let text = "x".repeat(150_000);
                let _ = observer.signal(Signal::TextDelta { key: key.clone(), field, text }).await;
            }
            let _ =
                observer.signal(Signal::ItemEnded { key, state: ItemState::Completed, reason: None }).await;
            let _ = observer.signal(done(&native_id)).await;
        }
    })
    .await;
    let id = session(&gateway, &home, "puppet").await;
    prompt(&gateway, &id, json!([])).await;
    let state = after_a_while(&gateway, &id).await;
    let outcome = state.turns.first().and_then(|turn| turn.outcome);
    let length = state.items.first().and_then(|item| item.text.as_ref()).map(String::len);
    let expected = pieces * 150_000;
    assert!(
        outcome.is_some(),
        "{} keepers awake, status {}, the turn is open, {length:?} of {expected} bytes",
        gateway.awake(),
        state.session.status
    );
    assert_eq!(length, Some(expected));
    home.close(gateway).await;
}

/// The session when its turn has ended, or as it is after a long time. Its snapshot is read once: it is
/// large.
async fn after_a_while(gateway: &Gateway, id: &SessionId) -> State {
    let mut follower = gateway.follow(id, &Cursor::default()).unwrap();
    let ends = |event: &Committed| {
        let head = &event.json()[..event.json().len().min(100)];
        String::from_utf8_lossy(head).contains("turn.ended")
    };
    let end = async {
        loop {
            match follower.next().await {
                Ok(Follow::Outcome(_)) => {}
                Ok(Follow::Events(events)) if !events.iter().any(ends) => {}
                _ => return,
            }
        }
    };
    // Whoever asked sees what is missing.
    let _ = tokio::time::timeout(Duration::from_secs(550), end).await;
    gateway.snapshot(id).await.unwrap().state
}

#[tokio::test(flavor = "multi_thread")]
async fn one_piece_larger_than_an_append_ends_the_turn() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    prompt(&gateway, &id, json!([{"do": "burst", "count": 1, "bytes": 70_000_000}])).await;
    let state = after_a_while(&gateway, &id).await;
    let ended = state.queue.is_empty() && state.turns.iter().all(|turn| turn.outcome.is_some());
    let (awake, turns, queue) = (gateway.awake(), state.turns.len(), state.queue.len());
    assert!(ended, "{awake} keepers awake, {turns} turns, {queue} prompts without an outcome");
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_asks_again_hears_again_that_its_ask_has_expired() {
    let mut home = Home::new();
    home.settings.approval = Some(Duration::from_millis(50));
    home.settings.on_timeout = OnTimeout::Reject;
    let told = Arc::new(AtomicUsize::new(0));
    let counts = told.clone();
    let play = move |start: Start, mut commands: Receiver<Command>, observer: Observer| {
        let counts = counts.clone();
        async move {
            let again = start.open_work.is_some();
            if let Some(left) = start.open_work {
                let _ = observer.signal(ask("q")).await;
                let turn = left.turn.unwrap();
                let _ = observer.signal(Signal::StatusProbed { turn, status: ProbedStatus::Busy }).await;
                let _ = observer.observed(Observed::CaughtUp).await;
            }
            while let Some(command) = commands.recv().await {
                match command {
                    Command::Prompt { native_id, .. } => {
                        began(&observer, "n1", &[&native_id]).await;
                        let _ = observer.signal(ask("q")).await;
                    }
                    // The first one gets lost in the crash.
                    Command::Approve { .. } => {
                        counts.fetch_add(1, Ordering::SeqCst);
                        if again {
                            let _ = observer.signal(done("n1")).await;
                        }
                    }
                    _ => {}
                }
            }
        }
    };
    let gateway = stage(&home, true, play.clone()).await;
    let id = session(&gateway, &home, "puppet").await;
    prompt(&gateway, &id, json!([])).await;
    until(&gateway, &id, "the expiry", |snapshot| {
        snapshot.state.approvals.iter().any(|ask| ask.outcome == Some(ApprovalOutcome::Expired))
    })
    .await;
    gateway.close().await;
    let gateway = stage(&home, true, play).await;
    let snapshot = within(Duration::from_secs(300), "the end of the turn", settled(&gateway, &id, 1)).await;
    assert_eq!(outcomes(&snapshot), ["completed end_turn"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_behind_a_long_foreign_turn_has_its_whole_time_to_begin() {
    let mut home = Home::new();
    home.settings.start = Duration::from_secs(2);
    let gateway = stage(&home, false, |_, mut commands, observer| async move {
        while let Some(command) = commands.recv().await {
            if let Command::Prompt { native_id, .. } = command {
                // Another client of the agent was a moment faster.
                let prompts = vec!["theirs".to_owned()];
                let foreign =
                    Signal::TurnBegan { origin: Some(Origin::Foreign), prompts, native_id: Some("f".into()) };
                let _ = observer.signal(foreign).await;
                says(&observer, "m0").await;
                tokio::time::sleep(Duration::from_secs(3)).await;
                let _ = observer.signal(done("f")).await;
                tokio::time::sleep(Duration::from_millis(30)).await;
                began(&observer, "n1", &[&native_id]).await;
                says(&observer, "m1").await;
                let _ = observer.signal(done("n1")).await;
            }
        }
    })
    .await;
    let id = session(&gateway, &home, "puppet").await;
    prompt(&gateway, &id, json!([])).await;
    let snapshot = settled(&gateway, &id, 2).await;
    assert_eq!(outcomes(&snapshot), ["completed end_turn", "completed end_turn"]);
    home.close(gateway).await;
}

struct Alive(Arc<AtomicBool>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_an_agent_whose_adapter_is_stuck_lives_on_after_the_close() {
    let home = Home::new();
    let alive = Arc::new(AtomicBool::new(true));
    let shown = alive.clone();
    let gateway = stage(&home, false, move |_, mut commands, observer| {
        let alive = Alive(shown.clone());
        async move {
            let Some(Command::Prompt { native_id, .. }) = commands.recv().await else { return };
            began(&observer, "n1", &[&native_id]).await;
            says(&observer, "m1").await;
            // It reads nothing more.
            std::future::pending::<()>().await;
            drop((alive, commands));
        }
    })
    .await;
    let id = session(&gateway, &home, "puppet").await;
    prompt(&gateway, &id, json!([])).await;
    until(&gateway, &id, "the text", |snapshot| said(snapshot) == ["hello"]).await;
    for number in 0..64 {
        let change = Change { model: Some(number.to_string()), ..Change::default() };
        gateway.change(&id, change).await.unwrap();
    }
    // One more than the link holds.
    let last = gateway.clone();
    let session = id.clone();
    let asking = tokio::spawn(async move {
        last.change(&session, Change { model: Some("last".into()), ..Change::default() }).await
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let began = std::time::Instant::now();
    gateway.close().await;
    let took = began.elapsed();
    drop(asking);
    assert!(took < CLOSED, "{took:?}");
    assert!(!alive.load(Ordering::SeqCst), "the adapter lives on after the close, which took {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_can_be_used_as_soon_as_it_is_shown() {
    let home = Home::new();
    let gateway = home.open().await;
    let sessions = if is_full() { 2_000 } else { 500 };
    let mut watch = gateway.watch();
    let watcher = gateway.clone();
    let watching = tokio::spawn(async move {
        let (mut known, mut wrong) = (std::collections::BTreeSet::new(), Vec::new());
        while known.len() < sessions {
            for entry in watch.next().await {
                if known.insert(entry.id.clone()) {
                    let change = Change { title: Some("seen".into()), ..Change::default() };
                    if let Err(error) = watcher.change(&entry.id, change).await {
                        wrong.push(error.to_string());
                    }
                }
            }
        }
        wrong
    });
    for _ in 0..sessions {
        session(&gateway, &home, "scripted").await;
    }
    let wrong = watching.await.unwrap();
    assert!(wrong.is_empty(), "{} of {sessions}: {}", wrong.len(), wrong[0]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_with_other_permissions_is_refused() {
    let home = Home::new();
    let gateway = home.open().await;
    let careful = NewSession {
        key: Some("k".into()),
        permissions: Some(Permissions::Allow),
        ..new_session(&home, "scripted")
    };
    gateway.create(careful.clone()).await.unwrap();
    let other = gateway.create(NewSession { permissions: Some(Permissions::Deny), ..careful }).await;
    assert!(matches!(other, Err(RequestError::KeyReused { .. })), "asked for deny, got {other:?}");
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_winner_of_an_old_approval_is_still_named() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session_with(&gateway, &home, "scripted", Permissions::Allow).await;
    for _ in 0..4 {
        let steps: Vec<_> = (0..65).map(|_| json!({"do": "tool", "ask": true})).collect();
        prompt(&gateway, &id, json!(steps)).await;
    }
    let snapshot = settled(&gateway, &id, 4).await;
    let first = snapshot.state.approvals[0].approval.clone();
    let refused = gateway.resolve(&id, &first, answer(ApprovalOutcome::Reject)).await.unwrap_err();
    let settled = RequestError::Refused(turnstream_model::machine::Refusal::ApprovalSettled {
        approval: first,
        outcome: ApprovalOutcome::AllowOnce,
    });
    assert_eq!(refused, settled);
    home.close(gateway).await;
}
