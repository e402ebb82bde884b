//! Secrets in what people say: the agent is sent what was committed, and a session can be made to hand them
//! over.

use super::secrets;
use crate::puppet::{ask, began, done, says, stage};
use crate::support::*;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use turnstream_agents::Command;
use turnstream_gateway::{Change, Gateway, NewPrompt, NewSession, ResolveApproval};
use turnstream_model::event::ApprovalOutcome;
use turnstream_redact::Rules;
use turnstream_testkit::leaks::{leaks_below, leaks_of};

type Heard = Arc<Mutex<Vec<Command>>>;

/// A gateway whose agent writes down what it is told, asks once, and ends its turn when it is answered.
async fn listening(home: &Home) -> (Gateway, Heard) {
    let heard = Heard::default();
    let noting = heard.clone();
    let gateway = stage(home, false, move |_, mut commands, observer| {
        let heard = noting.clone();
        async move {
            let mut turn = String::new();
            while let Some(command) = commands.recv().await {
                heard.lock().unwrap().push(command.clone());
                match command {
                    Command::Prompt { native_id, .. } => {
                        began(&observer, &native_id, &[&native_id]).await;
                        says(&observer, &format!("m.{native_id}")).await;
                        let _ = observer.signal(ask(&format!("q.{native_id}"))).await;
                        turn = native_id;
                    }
                    Command::Approve { .. } => {
                        let _ = observer.signal(done(&turn)).await;
                    }
                    Command::Cancel
                    | Command::CancelPrompt(_)
                    | Command::Answer { .. }
                    | Command::Change { .. }
                    | Command::Fetch(_) => {}
                }
            }
        }
    })
    .await;
    (gateway, heard)
}

fn prompt_with(secret: &str) -> NewPrompt {
    let content = vec![
        json!({"type": "text", "text": format!("use {secret} for it")}),
        json!({"type": "resource", "resource": {"uri": "file:///env", "text": format!("KEY={secret}\n")}}),
    ];
    NewPrompt { key: Some("k".to_owned()), ..NewPrompt::new(content) }
}

fn prompts(heard: &Heard) -> Vec<Vec<Value>> {
    let heard = heard.lock().unwrap();
    let prompt = |command: &Command| match command {
        Command::Prompt { content, .. } => Some(content.clone()),
        Command::Cancel
        | Command::CancelPrompt(_)
        | Command::Approve { .. }
        | Command::Answer { .. }
        | Command::Change { .. }
        | Command::Fetch(_) => None,
    };
    heard.iter().filter_map(prompt).collect()
}

#[tokio::test]
async fn the_agent_is_sent_what_was_committed() {
    let home = Home::new();
    let (gateway, heard) = listening(&home).await;
    let planted = secrets(5);
    let new = NewSession { title: Some(format!("about {}", planted[1])), ..new_session(&home, "puppet") };
    let id = id_of(&gateway.create(new).await.unwrap());
    let first = gateway.prompt(&id, prompt_with(&planted[0])).await.unwrap();
    let again = gateway.prompt(&id, prompt_with(&planted[0])).await.unwrap();
    assert_eq!(first.prompt, again.prompt, "a repeat is known by what was kept of it");
    let snapshot = until(&gateway, &id, "an ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
    let message = Some(format!("yes, with {}", planted[2]));
    let answer = ResolveApproval { message, ..answer(ApprovalOutcome::AllowOnce) };
    gateway.resolve(&id, &snapshot.state.approvals[0].approval, answer).await.unwrap();
    let title = Some(planted[3].clone());
    gateway.change(&id, Change { title, ..Change::default() }).await.unwrap();
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(prompts(&heard), [snapshot.state.prompts[0].content.clone()]);
    let text = snapshot.state.prompts[0].content[0]["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("use [redacted:") && text.ends_with("] for it"), "{text}");
    let told = format!("{:?}", heard.lock().unwrap());
    assert_eq!(leaks_of(told.as_bytes(), &planted), Vec::<String>::new());
    home.close(gateway).await;
    assert_eq!(leaks_below(&home.path("data"), &planted), Vec::<String>::new());
}

#[tokio::test]
async fn a_name_that_holds_a_secret_is_refused_and_not_changed() {
    let home = Home::new();
    let (gateway, heard) = listening(&home).await;
    let planted = secrets(7);
    let named = Some(format!("lab/{}", planted[1]));
    let new = NewSession { model: named.clone(), ..new_session(&home, "puppet") };
    let refused = gateway.create(new).await.unwrap_err().to_string();
    assert!(refused.starts_with("the model \"lab/[redacted:"), "{refused}");
    let id = id_of(&gateway.create(new_session(&home, "puppet")).await.unwrap());
    for change in
        [Change { model: named.clone(), ..Change::default() }, Change { mode: named, ..Change::default() }]
    {
        let refused = gateway.change(&id, change).await.unwrap_err().to_string();
        assert!(refused.contains("lab/[redacted:") && refused.contains("choose another"), "{refused}");
    }
    assert_eq!(heard.lock().unwrap().len(), 0);
    home.close(gateway).await;
    assert_eq!(leaks_below(&home.path("data"), &planted), Vec::<String>::new());
}

#[tokio::test]
async fn a_session_can_be_made_to_hand_over_secrets() {
    let home = Home::new();
    let (gateway, heard) = listening(&home).await;
    let planted = secrets(6);
    let new =
        NewSession { redact_prompts: Some(false), key: Some("s".into()), ..new_session(&home, "puppet") };
    let id = id_of(&gateway.create(new.clone()).await.unwrap());
    let other = gateway.create(NewSession { redact_prompts: None, ..new }).await.unwrap_err().to_string();
    assert!(other.contains("redact_prompts false"), "{other}");
    let prompt = prompt_with(&planted[0]);
    gateway.prompt(&id, prompt.clone()).await.unwrap();
    let snapshot = until(&gateway, &id, "an ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
    assert_eq!(snapshot.state.session.redact_prompts, Some(false));
    gateway.resolve(&id, &snapshot.state.approvals[0].approval, allow()).await.unwrap();
    settled(&gateway, &id, 1).await;
    assert_eq!(prompts(&heard), [prompt.content]);
    home.close(gateway).await;
    // What a person chose to hand over is kept, and still so after a restart.
    let (gateway, heard) = listening(&home).await;
    let prompt = NewPrompt { key: None, ..prompt_with(&planted[1]) };
    gateway.prompt(&id, prompt.clone()).await.unwrap();
    until(&gateway, &id, "an ask", |snapshot| snapshot.state.approvals.len() == 2).await;
    assert_eq!(prompts(&heard), [prompt.content]);
    gateway.close().await;
}

#[tokio::test]
async fn a_repeat_with_a_key_is_known_also_by_stricter_rules_than_those_it_was_kept_by() {
    let mut home = Home::new();
    home.settings.redaction = Rules::none();
    let (gateway, _) = listening(&home).await;
    let planted = secrets(12);
    let id = session(&gateway, &home, "puppet").await;
    let first = gateway.prompt(&id, prompt_with(&planted[0])).await.unwrap();
    until(&gateway, &id, "an ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
    gateway.close().await;
    home.settings.redaction = Rules::standard();
    let (gateway, _) = listening(&home).await;
    let again = gateway.prompt(&id, prompt_with(&planted[0])).await.unwrap();
    assert_eq!(first.prompt, again.prompt);
    let other = gateway.prompt(&id, prompt_with("something else")).await.unwrap_err().to_string();
    assert!(other.starts_with("key \"k\" was used before with "), "{other}");
    gateway.close().await;
}

#[tokio::test]
async fn the_agent_is_sent_what_was_committed_also_when_a_secret_is_part_of_a_marker() {
    let mut home = Home::new();
    home.settings.redaction = Rules::builder().literal("weak_password", "password").unwrap().build();
    let (gateway, heard) = listening(&home).await;
    let title = Some("the password".to_owned());
    let new = NewSession { title, key: Some("s".into()), ..new_session(&home, "puppet") };
    let id = id_of(&gateway.create(new.clone()).await.unwrap());
    assert_eq!(id_of(&gateway.create(new).await.unwrap()), id, "a repeat is known by what was kept of it");
    let content = vec![json!({"type": "text", "text": "say password"})];
    gateway.prompt(&id, NewPrompt::new(content)).await.unwrap();
    let snapshot = until(&gateway, &id, "an ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
    gateway.resolve(&id, &snapshot.state.approvals[0].approval, allow()).await.unwrap();
    let snapshot = settled(&gateway, &id, 1).await;
    let kept = snapshot.state.prompts[0].content.clone();
    assert_eq!(kept, [json!({"type": "text", "text": "say [redacted:weak_password]"})]);
    assert_eq!(prompts(&heard), [kept]);
    home.close(gateway).await;
}
