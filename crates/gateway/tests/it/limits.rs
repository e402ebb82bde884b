//! What is beyond a limit is refused by name. What was accepted is never lost.

use crate::puppet::*;
use crate::support::*;
use crate::transfer::{file, spooled};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use turnstream_agents::{Command, Observed};
use turnstream_gateway::{
    AnswerQuestion, Change, Fault, Gateway, ImportAs, ImportError, Limit, Limits, NewPrompt, NewSession,
    RequestError, ResolveApproval, Settings, TextLengths,
};
use turnstream_model::event::{ApprovalOutcome, QuestionOutcome, SessionPatch};
use turnstream_model::id::{ApprovalId, QuestionId};
use turnstream_model::signal::Signal;

fn limited(limits: Limits) -> Home {
    let mut home = Home::new();
    home.settings = Settings { limits, ..home.settings };
    home
}

fn refusals(gateway: &Gateway, limit: Limit) -> u64 {
    gateway.refusals().into_iter().find(|(known, _)| *known == limit).unwrap().1
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_sessions_are_created_or_imported_than_there_may_be() {
    let home = limited(Limits { sessions: 2, ..Limits::default() });
    let gateway = home.open().await;
    let new = NewSession { key: Some("k".to_owned()), ..new_session(&home, "scripted") };
    let first = id_of(&gateway.create(new.clone()).await.unwrap());
    let exported = file(&gateway, &first).await;
    let spool = spooled(&gateway, &exported).await;
    let second = session(&gateway, &home, "scripted").await;
    let full = RequestError::TooManySessions { most: 2 };
    assert_eq!(gateway.create(new_session(&home, "scripted")).await.unwrap_err(), full);
    let other = NewSession { key: Some("other".to_owned()), ..new.clone() };
    assert_eq!(gateway.create(other).await.unwrap_err(), full);
    assert_eq!(
        gateway.import(spool, ImportAs::New, None).await.unwrap_err(),
        ImportError::Request(full.clone())
    );
    assert_eq!(gateway.spool().await.err(), Some(ImportError::Request(full)));
    assert_eq!(refusals(&gateway, Limit::Sessions), 4);
    assert_eq!(id_of(&gateway.create(new).await.unwrap()), first, "a repeat by key");
    gateway.delete(&second).await.unwrap();
    let spool = spooled(&gateway, &exported).await;
    gateway.import(spool, ImportAs::New, None).await.unwrap();
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_as_many_sessions_are_created_at_once_as_there_may_be() {
    let home = limited(Limits { sessions: 20, ..Limits::default() });
    let gateway = home.open().await;
    let mut clients = Vec::new();
    for _ in 0..30 {
        let (gateway, new) = (gateway.clone(), new_session(&home, "scripted"));
        clients.push(tokio::spawn(async move { gateway.create(new).await.is_ok() }));
    }
    let mut created = 0;
    for client in clients {
        created += usize::from(client.await.unwrap());
    }
    assert_eq!((created, gateway.sessions().len()), (20, 20));
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_agent_makes_room_for_another_and_a_busy_one_does_not() {
    let home = limited(Limits { live_agents: 1, ..Limits::default() });
    let gateway = home.open().await;
    let one = session(&gateway, &home, "scripted").await;
    let other = session(&gateway, &home, "scripted").await;
    let steps = json!([{"do": "text", "text": "x"}]);
    prompt(&gateway, &one, json!([{"do": "text", "text": "x"}, {"do": "stall"}])).await;
    until(&gateway, &one, "the turn", |snapshot| !said(snapshot).is_empty()).await;
    let refused = gateway.prompt(&other, keyed("k", steps.clone())).await.unwrap_err();
    assert_eq!(refused, RequestError::TooManyAgents { most: 1 });
    assert_eq!(refusals(&gateway, Limit::LiveAgents), 1);
    let second = prompt(&gateway, &one, steps.clone()).await;
    gateway.withdraw(&one, &second).await.unwrap();
    gateway.cancel(&one, Cancel::Any).await.unwrap();
    settled(&gateway, &one, 1).await;
    // Its link is up and quiet, and ends long after this test.
    for (turns, id) in [(1, &other), (2, &one), (2, &other)] {
        within(Duration::from_secs(300), "there is room", async {
            // The session may not have noticed that it is quiet.
            while let Err(error) = gateway.prompt(id, script(steps.clone())).await {
                assert_eq!(error, RequestError::TooManyAgents { most: 1 });
                tokio::task::yield_now().await;
            }
        })
        .await;
        settled(&gateway, id, turns).await;
    }
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_prompt_that_was_accepted_gets_an_agent_in_the_end() {
    let home = limited(Limits { live_agents: 2, ..Limits::default() });
    let gateway = home.open().await;
    let mut sessions = Vec::new();
    for _ in 0..10 {
        let id = session(&gateway, &home, "scripted").await;
        let gateway = gateway.clone();
        sessions.push(tokio::spawn(async move {
            let steps = json!([{"do": "text", "text": "x"}, {"do": "sleep", "ms": 1}]);
            let mut accepted = 0;
            while accepted < 2 {
                match gateway.prompt(&id, script(steps.clone())).await {
                    Ok(_) => accepted += 1,
                    Err(RequestError::TooManyAgents { .. }) => {
                        tokio::time::sleep(Duration::from_millis(1)).await
                    }
                    Err(other) => panic!("{other}"),
                }
                assert!(gateway.live_agents().live <= 2);
            }
            outcomes(&settled(&gateway, &id, 2).await)
        }));
    }
    for session in sessions {
        assert_eq!(session.await.unwrap(), ["completed end_turn", "completed end_turn"]);
    }
    assert_eq!(gateway.live_agents().waiting, 0);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_are_recovered_wait_for_each_other() {
    let mut home = Home::new();
    let (told, again) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let plays = |told: Arc<Notify>, again: Arc<Notify>| {
        move |start: turnstream_agents::Start,
              mut commands: tokio::sync::mpsc::Receiver<Command>,
              observer: turnstream_agents::Observer| {
            let (told, again) = (told.clone(), again.clone());
            async move {
                if let Some(native) = start.open_work.and_then(|work| work.turn_native_id) {
                    let _ = observer.observed(Observed::CaughtUp).await;
                    again.notified().await;
                    let _ = observer.signal(done(&native)).await;
                }
                while let Some(command) = commands.recv().await {
                    if let Command::Prompt { native_id, .. } = command {
                        began(&observer, &native_id, &[&native_id]).await;
                        told.notify_one();
                    }
                }
            }
        }
    };
    let gateway = stage(&home, true, plays(told.clone(), again.clone())).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = session(&gateway, &home, "puppet").await;
        prompt(&gateway, &id, json!([])).await;
        told.notified().await;
        until(&gateway, &id, "the turn", |snapshot| snapshot.state.open_turn().is_some()).await;
        ids.push(id);
    }
    gateway.close().await;
    home.settings.limits.live_agents = 1;
    let gateway = stage(&home, true, plays(told, again.clone())).await;
    within(Duration::from_secs(300), "two wait", async {
        while gateway.live_agents().waiting < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    for _ in &ids {
        let waiting = gateway.live_agents().waiting;
        // A permit is kept for one that is not there yet, but only one.
        again.notify_one();
        within(Duration::from_secs(300), "the next one", async {
            while waiting > 0 && gateway.live_agents().waiting == waiting {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
    for id in &ids {
        assert_eq!(outcomes(&settled(&gateway, id, 1).await), ["completed end_turn"]);
    }
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_takes_so_many_prompts_and_so_many_bytes() {
    let home = limited(Limits { queued_prompts: 3, queued_bytes: 10_000, ..Limits::default() });
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    prompt(&gateway, &id, json!([{"do": "text", "text": "x"}, {"do": "stall"}])).await;
    until(&gateway, &id, "the turn", |snapshot| !said(snapshot).is_empty()).await;
    let long = script(json!([{"do": "text", "text": "y".repeat(6_000)}]));
    let first = gateway.prompt(&id, NewPrompt { key: Some("k".to_owned()), ..long.clone() }).await.unwrap();
    let refused = gateway.prompt(&id, long.clone()).await.unwrap_err();
    assert!(matches!(refused, RequestError::QueueTooLarge { most: 10_000, .. }), "{refused}");
    for _ in 0..2 {
        prompt(&gateway, &id, json!([])).await;
    }
    let refused = gateway.prompt(&id, script(json!([]))).await.unwrap_err();
    assert_eq!(refused, RequestError::QueueFull { most: 3 });
    let again = gateway.prompt(&id, NewPrompt { key: Some("k".to_owned()), ..long.clone() }).await.unwrap();
    assert_eq!(again.prompt, first.prompt, "a repeat by key");
    assert_eq!((refusals(&gateway, Limit::QueuedPrompts), refusals(&gateway, Limit::QueuedBytes)), (1, 1));
    gateway.withdraw(&id, &first.prompt).await.unwrap();
    gateway.prompt(&id, long).await.unwrap();
    gateway.cancel(&id, Cancel::Any).await.unwrap();
    settled(&gateway, &id, 4).await;
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_should_be_short_is_refused_when_it_is_long() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    let (new, long) = (new_session(&home, "scripted"), "x".repeat(9 << 20));
    let text = || Some(long.clone());
    let mut refused = Vec::new();
    for new in [
        NewSession { agent: long.clone(), ..new.clone() },
        NewSession { cwd: format!("/{long}").into(), ..new.clone() },
        NewSession { title: text(), ..new.clone() },
        NewSession { model: text(), ..new.clone() },
        NewSession { key: text(), ..new },
    ] {
        refused.push(gateway.create(new).await.unwrap_err());
    }
    let same = Change::default();
    for change in [
        Change { title: text(), ..same.clone() },
        Change { model: text(), ..same.clone() },
        Change { mode: text(), ..same },
    ] {
        refused.push(gateway.change(&id, change).await.unwrap_err());
    }
    refused.push(gateway.prompt(&id, NewPrompt { key: text(), ..script(json!([])) }).await.unwrap_err());
    let answer = answer(ApprovalOutcome::Reject);
    for answer in [
        ResolveApproval { option: text(), ..answer.clone() },
        ResolveApproval { message: text(), ..answer.clone() },
        ResolveApproval { key: text(), ..answer },
    ] {
        refused.push(gateway.resolve(&id, &ApprovalId::from("a1"), answer).await.unwrap_err());
    }
    let answers = json!({"0": [long]}).as_object().cloned();
    let outcome = QuestionOutcome::Answered;
    for answer in [
        AnswerQuestion { outcome, answers, key: None },
        AnswerQuestion { outcome, answers: None, key: text() },
    ] {
        refused.push(gateway.answer(&id, &QuestionId::from("q1"), answer).await.unwrap_err());
    }
    for error in &refused {
        assert!(matches!(error, RequestError::TooLong { .. }), "{error}");
        assert!(error.to_string().len() < 200, "the text is not repeated");
    }
    assert_eq!(refusals(&gateway, Limit::TextLength), refused.len() as u64);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_title_of_a_file_is_refused_and_one_of_an_agent_is_cut() {
    let home = Home::new();
    let gateway = stage(&home, false, |_, mut commands, observer| async move {
        let patch = SessionPatch { title: Some("t".repeat(5_000)), ..SessionPatch::default() };
        let _ = observer.signal(Signal::Session(patch)).await;
        while let Some(command) = commands.recv().await {
            if let Command::Prompt { native_id, .. } = command {
                began(&observer, &native_id, &[&native_id]).await;
                let _ = observer.signal(done(&native_id)).await;
            }
        }
    })
    .await;
    let id = session(&gateway, &home, "puppet").await;
    prompt(&gateway, &id, json!([])).await;
    let snapshot = settled(&gateway, &id, 1).await;
    let title = snapshot.state.session.title.unwrap();
    assert_eq!((title.chars().count(), title.ends_with("t…")), (1_000, true));
    let exported = file(&gateway, &id).await;
    let spool = spooled(&gateway, &exported).await;
    gateway.import(spool, ImportAs::New, None).await.unwrap();
    let spool = spooled(&gateway, &exported.replace("t…", "tt…")).await;
    let ImportError::File(refused) = gateway.import(spool, ImportAs::New, None).await.unwrap_err() else {
        panic!("another error")
    };
    assert_eq!(refused.fault, Fault::TooLong, "{refused}");
    assert_eq!(refusals(&gateway, Limit::TextLength), 1);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_greatest_lengths_of_short_texts_are_those_of_the_settings() {
    let mut home = Home::new();
    home.settings.limits.texts = TextLengths { title: 3, model: 4, mode: 5, agent: 8, key: 6 };
    let gateway = home.open().await;
    let new = |title: &str, key: &str| NewSession {
        title: Some(title.to_owned()),
        key: Some(key.to_owned()),
        ..new_session(&home, "scripted")
    };
    let id = id_of(&gateway.create(new("abc", "keykey")).await.unwrap());
    let too_long = |what, length, most| RequestError::TooLong { what, length, most };
    let refused = gateway.create(new("abcd", "keykey")).await.unwrap_err();
    assert_eq!(refused, too_long("title", 4, 3));
    let refused = gateway.create(new("abc", "keykey7")).await.unwrap_err();
    assert_eq!(refused, too_long("key", 7, 6));
    let refused = gateway.create(new_session(&home, "scripted9")).await.unwrap_err();
    assert_eq!(refused, too_long("agent", 9, 8));
    let change = |model: Option<&str>, mode: Option<&str>| Change {
        model: model.map(str::to_owned),
        mode: mode.map(str::to_owned),
        ..Change::default()
    };
    let refused = gateway.change(&id, change(Some("model"), None)).await.unwrap_err();
    assert_eq!(refused, too_long("model", 5, 4));
    let refused = gateway.change(&id, change(None, Some("a mode"))).await.unwrap_err();
    assert_eq!(refused, too_long("mode", 6, 5));
    gateway.change(&id, change(Some("four"), Some("fives"))).await.unwrap();
    home.close(gateway).await;
}
