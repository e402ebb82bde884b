//! Secrets in what an agent says: cut anywhere, with any time between, over a restart, in tools and errors.

use super::{grow, item, secrets};
use crate::puppet::{Puppet, began, done, open_with, stage};
use crate::support::*;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use turnstream_agents::{Command, Observed};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{
    ApprovalOption, ApprovalOutcome, Choice, ErrorClass, Field, ItemKind, ItemState, NoticeCode, OptionKind,
    Question, QuestionOutcome, SessionPatch, Tool, ToolStatus, TurnError, Usage,
};
use turnstream_model::id::Key;
use turnstream_model::signal::{Ending, Finality, Signal};
use turnstream_testkit::leaks::{leaks_below, leaks_of};

/// What clients would be sent of a session.
async fn wire(
    home: &Home,
    gateway: turnstream_gateway::Gateway,
    id: &turnstream_model::id::SessionId,
) -> String {
    gateway.close().await;
    crate::puppet::lines(home, id).await.join("\n")
}

fn hello() -> turnstream_gateway::NewPrompt {
    turnstream_gateway::NewPrompt::new(vec![json!({"type": "text", "text": "go"})])
}

/// Says all secrets side by side, each in an item of its own, a character at a time.
async fn say_all(observer: &turnstream_agents::Observer, pause: Option<Duration>) {
    let texts: Vec<Vec<char>> = secrets(1)
        .iter()
        .map(|secret| format!("The key is {secret} and that is all.").chars().collect())
        .collect();
    for index in 0..texts.len() {
        item(observer, &format!("m{index}"), ItemKind::Message).await;
    }
    for place in 0..texts.iter().map(Vec::len).max().unwrap() {
        for (index, text) in texts.iter().enumerate() {
            let Some(character) = text.get(place) else { continue };
            grow(observer, &format!("m{index}"), character.encode_utf8(&mut [0; 4])).await;
        }
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
    }
    for index in 0..texts.len() {
        let key = Key::from(format!("m{index}"));
        let ended = Signal::ItemEnded { key, state: ItemState::Completed, reason: None };
        let _ = observer.signal(ended).await;
    }
}

async fn cut_at_every_character(pause: Option<Duration>) {
    let home = Home::new();
    let gateway = stage(&home, false, move |_, mut commands, observer| async move {
        while let Some(command) = commands.recv().await {
            let Command::Prompt { native_id, .. } = command else { continue };
            began(&observer, "n1", &[&native_id]).await;
            say_all(&observer, pause).await;
            let _ = observer.signal(done("n1")).await;
        }
    })
    .await;
    let id = session(&gateway, &home, "puppet").await;
    gateway.prompt(&id, hello()).await.unwrap();
    let snapshot = settled(&gateway, &id, 1).await;
    for text in said(&snapshot) {
        let shown = text.starts_with("The key is ") && text.ends_with(" and that is all.");
        assert!(shown && text.contains("[redacted:"), "{text}");
    }
    assert_eq!(said(&snapshot).len(), secrets(1).len());
    let sent = wire(&home, gateway, &id).await;
    assert_eq!(leaks_of(sent.as_bytes(), &secrets(1)), Vec::<String>::new());
    assert_eq!(leaks_below(&home.path("data"), &secrets(1)), Vec::<String>::new());
    home.judge(turnstream_testkit::lawful::Tail::Settled).await;
}

#[tokio::test]
async fn a_secret_that_comes_a_character_at_a_time_never_lands() {
    cut_at_every_character(None).await;
}

#[tokio::test]
async fn a_secret_with_time_between_all_its_characters_never_lands() {
    // A little longer than anything is held back by time.
    cut_at_every_character(Some(Duration::from_millis(55))).await;
}

#[tokio::test]
async fn streamed_text_and_its_snapshot_agree_when_both_are_redacted() {
    let home = Home::new();
    let text = Arc::new(format!("before {} after", secrets(2)[0]));
    let given = text.clone();
    let gateway = stage(&home, false, move |_, mut commands, observer| {
        let text = given.clone();
        async move {
            while let Some(command) = commands.recv().await {
                let Command::Prompt { native_id, .. } = command else { continue };
                began(&observer, "n1", &[&native_id]).await;
                item(&observer, "m", ItemKind::Message).await;
                let (first, rest) = text.split_at(30);
                grow(&observer, "m", first).await;
                // An older one, one that is ahead, and the last word.
                for (cut, finality) in
                    [(20, Finality::SoFar), (50, Finality::SoFar), (text.len(), Finality::Final)]
                {
                    let (key, field) = (Key::from("m"), Field::Text);
                    let text = text[..cut].to_owned();
                    let _ = observer.signal(Signal::TextSnapshot { key, field, text, finality }).await;
                }
                assert!(rest.len() > 20);
                let _ = observer.signal(done("n1")).await;
            }
        }
    })
    .await;
    let id = session(&gateway, &home, "puppet").await;
    gateway.prompt(&id, hello()).await.unwrap();
    let snapshot = settled(&gateway, &id, 1).await;
    let said = said(&snapshot);
    assert!(said[0].starts_with("before [redacted:") && said[0].ends_with("] after"), "{said:?}");
    assert_eq!(said[0].matches("[redacted:").count(), 1);
    let sent = wire(&home, gateway, &id).await;
    assert!(!sent.contains("item.replaced"), "what was streamed was right:\n{sent}");
    assert_eq!(leaks_of(sent.as_bytes(), &secrets(2)), Vec::<String>::new());
}

#[tokio::test]
async fn tools_titles_errors_and_notices_hold_no_secret() {
    let home = Home::new();
    let gateway = stage(&home, false, move |_, mut commands, observer| async move {
        while let Some(command) = commands.recv().await {
            let Command::Prompt { native_id, .. } = command else { continue };
            began(&observer, "n1", &[&native_id]).await;
            let secrets = secrets(3);
            let tool = |status: ToolStatus, output: Option<serde_json::Value>| Tool {
                name: Some("bash".into()),
                title: Some(format!("export KEY={}", secrets[0])),
                status: Some(status),
                input: Some(json!({"command": format!("curl -H 'x-api-key: {}'", secrets[0]), "n": 1})),
                content: Some(vec![
                    json!({"type": "content", "content": {"type": "text", "text": secrets[6]}}),
                ]),
                output,
                ..Tool::default()
            };
            let key = Key::from("t");
            let seen = tool(ToolStatus::InProgress, None);
            let _ = observer.signal(Signal::ToolSeen { key: key.clone(), parent: None, tool: seen }).await;
            for piece in secrets[2].as_bytes().chunks(3) {
                let text = String::from_utf8(piece.to_vec()).unwrap();
                let delta = Signal::TextDelta { key: key.clone(), field: Field::Output, text };
                let _ = observer.signal(delta).await;
            }
            let over = tool(
                ToolStatus::Completed,
                Some(json!({"stdout": secrets[2], "keys": {secrets[3].clone(): 1}})),
            );
            let _ = observer.signal(Signal::ToolSeen { key, parent: None, tool: over }).await;
            let _ = observer
                .signal(Signal::Notice {
                    code: NoticeCode::Degraded,
                    message: secrets[4].clone(),
                    detail: Some(json!([secrets[5]])),
                })
                .await;
            let key = Key::from("c");
            let model = Some(format!("model-of {}", secrets[0]));
            let _ = observer.signal(Signal::AttemptBegan { key: key.clone(), model }).await;
            let finish = Some(format!("broken at {}", secrets[2]));
            let extra = serde_json::Map::from_iter([("tier".to_owned(), json!(secrets[3]))]);
            let usage = Some(Usage { extra, ..Usage::default() });
            let _ = observer.signal(Signal::AttemptEnded { key, finish, usage, cost: None }).await;
            let (model, mode) = (Some(secrets[4].clone()), Some(secrets[5].clone()));
            let patch = SessionPatch { model, mode, ..SessionPatch::default() };
            let _ = observer.signal(Signal::Session(patch)).await;
            let mut error = TurnError::new(ErrorClass::ProviderError, format!("401 for {}", secrets[1]));
            error.request_id = Some(secrets[0].clone());
            let ending = Ending::failed(error);
            let _ = observer.signal(Signal::TurnDone { native_id: Some("n1".into()), ending }).await;
        }
    })
    .await;
    let id = session(&gateway, &home, "puppet").await;
    gateway.prompt(&id, hello()).await.unwrap();
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["failed provider_error"]);
    let tool = snapshot.state.items[0].tool.clone().unwrap();
    assert_eq!(tool.input.as_ref().unwrap()["n"], 1, "the rest of it stays: {tool:?}");
    let sent = wire(&home, gateway, &id).await;
    assert_eq!(leaks_of(sent.as_bytes(), &secrets(3)), Vec::<String>::new());
    assert_eq!(leaks_below(&home.path("data"), &secrets(3)), Vec::<String>::new());
}

#[tokio::test]
async fn a_secret_that_spans_a_restart_of_the_gateway_never_lands() {
    let home = Home::new();
    let opened = Arc::new(AtomicU32::new(0));
    let open = || async {
        let opened = opened.clone();
        let puppet = Puppet::new(move |_, mut commands, observer| {
            let time = opened.fetch_add(1, Ordering::SeqCst);
            async move {
                let secrets = secrets(4);
                if time == 0 {
                    let Some(Command::Prompt { native_id, .. }) = commands.recv().await else { return };
                    began(&observer, "n1", &[&native_id]).await;
                    for (index, secret) in secrets.iter().enumerate() {
                        let key = format!("m{index}");
                        item(&observer, &key, ItemKind::Message).await;
                        grow(&observer, &key, &format!("The key is {}", &secret[..secret.len() / 2])).await;
                    }
                } else {
                    // It went on while nobody listened.
                    let _ = observer.observed(Observed::CaughtUp).await;
                    for (index, secret) in secrets.iter().enumerate() {
                        let key = format!("m{index}");
                        grow(&observer, &key, &secret[secret.len() / 2..]).await;
                        grow(&observer, &key, " and that is all.").await;
                    }
                    let _ = observer.signal(done("n1")).await;
                }
                while commands.recv().await.is_some() {}
            }
        });
        open_with(home.directory(), home.settings.clone(), puppet.outliving()).await
    };
    let gateway = open().await;
    let id = session(&gateway, &home, "puppet").await;
    gateway.prompt(&id, hello()).await.unwrap();
    until(&gateway, &id, "all items", |snapshot| said(snapshot).len() == secrets(4).len()).await;
    gateway.close().await;
    let gateway = open().await;
    let snapshot = settled(&gateway, &id, 1).await;
    let sent = wire(&home, gateway, &id).await;
    assert_eq!(leaks_of(sent.as_bytes(), &secrets(4)), Vec::<String>::new());
    assert_eq!(leaks_below(&home.path("data"), &secrets(4)), Vec::<String>::new());
    for text in said(&snapshot) {
        assert!(text.ends_with(" and that is all."), "{text}");
    }
}

#[tokio::test]
async fn text_that_only_looks_like_a_beginning_is_shown_as_it_is() {
    let home = Home::new();
    let text = "Use sk- as the prefix; task-3 and risk-free, eyJ is base64 for {\", AKIA is Amazon's. password: ask Bob. s";
    let gateway = stage(&home, false, move |_, mut commands, observer| async move {
        while let Some(command) = commands.recv().await {
            let Command::Prompt { native_id, .. } = command else { continue };
            began(&observer, "n1", &[&native_id]).await;
            item(&observer, "m", ItemKind::Message).await;
            for character in text.chars() {
                grow(&observer, "m", character.encode_utf8(&mut [0; 4])).await;
            }
            let _ = observer.signal(done("n1")).await;
        }
    })
    .await;
    let id = session(&gateway, &home, "puppet").await;
    gateway.prompt(&id, hello()).await.unwrap();
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(said(&snapshot), [text]);
    // And what time released before the end is the same to whoever reads it live.
    let events = crate::puppet::lines(&home, &{
        gateway.close().await;
        id
    })
    .await;
    assert!(events.len() as u64 > Seq(3).0);
}

#[tokio::test]
async fn questions_and_options_hold_no_secret_in_any_member() {
    let home = Home::new();
    let gateway = stage(&home, false, move |_, mut commands, observer| async move {
        while let Some(command) = commands.recv().await {
            let Command::Prompt { native_id, .. } = command else { continue };
            began(&observer, "n1", &[&native_id]).await;
            let secrets = secrets(10);
            let member = |name: &str, secret: &str| {
                serde_json::Map::from_iter([(name.to_owned(), json!(format!("uses {secret} there")))])
            };
            let choice = Choice { label: "Rotate it".into(), extra: member("description", &secrets[0]) };
            let question = Question {
                id: "0".into(),
                text: "What now?".into(),
                options: vec![choice],
                multiple: false,
                custom: true,
                extra: member("header", &secrets[1]),
            };
            let (key, questions) = (Key::from("q"), vec![question]);
            let _ = observer.signal(Signal::Question { key: key.clone(), item: None, questions }).await;
            let answers = Some(member("0", &secrets[2]));
            let outcome = QuestionOutcome::Answered;
            let _ = observer.signal(Signal::QuestionClosed { key, outcome, answers }).await;
            let option = ApprovalOption {
                id: "once".into(),
                kind: OptionKind::AllowOnce,
                name: "Once".into(),
                extra: member("about", &secrets[3]),
            };
            let (key, options) = (Key::from("a"), vec![option]);
            let _ = observer.signal(Signal::Ask { key: key.clone(), item: None, tool: None, options }).await;
            let _ = observer.signal(Signal::AskClosed { key, outcome: ApprovalOutcome::Reject }).await;
            let _ = observer.signal(done("n1")).await;
        }
    })
    .await;
    let id = session(&gateway, &home, "puppet").await;
    gateway.prompt(&id, hello()).await.unwrap();
    settled(&gateway, &id, 1).await;
    let sent = wire(&home, gateway, &id).await;
    assert_eq!(sent.matches("there\"").count(), 4, "all of it is there:\n{sent}");
    assert_eq!(leaks_of(sent.as_bytes(), &secrets(10)), Vec::<String>::new());
    assert_eq!(leaks_below(&home.path("data"), &secrets(10)), Vec::<String>::new());
}
