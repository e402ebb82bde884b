//! A choice that holds a secret: log and wire show a marker, and the agent hears what it had offered.

use super::secrets;
use crate::puppet::{Puppet, began, done, lines, open_with, stage, within};
use crate::support::*;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use turnstream_agents::{Command, Observed, Observer};
use turnstream_gateway::{AnswerQuestion, Gateway, NewPrompt, NewSession};
use turnstream_model::event::{Choice, Question, QuestionOutcome};
use turnstream_model::id::Key;
use turnstream_model::signal::Signal;
use turnstream_testkit::leaks::{leaks_below, leaks_of};

const SEED: u64 = 11;

/// Two choices that differ in their secrets only, and one without.
fn offered() -> Vec<String> {
    let [first, second] =
        [format!("sk-proj-{}", &secrets(SEED)[1][8..]), format!("sk-proj-{}", &secrets(SEED + 1)[1][8..])];
    vec![format!("Use {first}"), format!("Use {second}"), "Ask Bob".to_owned()]
}

async fn asks(observer: &Observer) {
    let option = |label: String| Choice { label, extra: serde_json::Map::new() };
    let question = Question {
        id: "0".into(),
        text: "Which key?".into(),
        options: offered().into_iter().map(option).collect(),
        multiple: true,
        custom: true,
        extra: serde_json::Map::new(),
    };
    let (key, questions) = (Key::from("q"), vec![question]);
    let _ = observer.signal(Signal::Question { key, item: None, questions }).await;
}

type Heard = Arc<Mutex<Vec<Value>>>;

/// Asks in its first life, and again in every further one; ends the turn when it is answered.
async fn open(home: &Home, heard: &Heard, lives: &Arc<AtomicU32>) -> Gateway {
    let (heard, lives) = (heard.clone(), lives.clone());
    let puppet = Puppet::new(move |_, mut commands, observer| {
        let (heard, life) = (heard.clone(), lives.fetch_add(1, Ordering::SeqCst));
        async move {
            if life > 0 {
                asks(&observer).await;
                let _ = observer.observed(Observed::CaughtUp).await;
            }
            while let Some(command) = commands.recv().await {
                match command {
                    Command::Prompt { native_id, .. } => {
                        began(&observer, "n1", &[&native_id]).await;
                        asks(&observer).await;
                    }
                    Command::Answer { answers, .. } => {
                        heard.lock().unwrap().push(json!(answers));
                        let _ = observer.signal(done("n1")).await;
                    }
                    Command::Cancel
                    | Command::CancelPrompt(_)
                    | Command::Approve { .. }
                    | Command::Change { .. }
                    | Command::Fetch(_) => {}
                }
            }
        }
    });
    open_with(home.directory(), home.settings.clone(), puppet.outliving()).await
}

async fn chosen(restarted: bool) {
    let (home, heard, lives) = (Home::new(), Heard::default(), Arc::default());
    let mut gateway = open(&home, &heard, &lives).await;
    let id = session(&gateway, &home, "puppet").await;
    let prompt = NewPrompt::new(vec![json!({"type": "text", "text": "go"})]);
    gateway.prompt(&id, prompt).await.unwrap();
    let snapshot = until(&gateway, &id, "a question", |snapshot| !snapshot.state.questions.is_empty()).await;
    if restarted {
        gateway.close().await;
        gateway = open(&home, &heard, &lives).await;
        // No event says that it is over.
        let recovered = async {
            while lives.load(Ordering::SeqCst) < 2 || gateway.recovering() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        within(Duration::from_secs(300), "recovery", recovered).await;
    }
    let asked = &snapshot.state.questions[0];
    let labels: Vec<&str> = asked.questions[0].options.iter().map(|option| &option.label[..]).collect();
    assert_eq!(labels, ["Use [redacted:openai]", "Use [redacted:openai]+", "Ask Bob"]);
    let answers = json!({"0": [labels[1], labels[2], "or [redacted:openai] itself"]});
    let answer = AnswerQuestion {
        outcome: QuestionOutcome::Answered,
        answers: answers.as_object().cloned(),
        key: None,
    };
    gateway.answer(&id, &asked.question, answer).await.unwrap();
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(json!(snapshot.state.questions[0].answers), answers);
    let told = json!({"0": [offered()[1], offered()[2], "or [redacted:openai] itself"]});
    assert_eq!(*heard.lock().unwrap(), [told]);
    gateway.close().await;
    let sent = lines(&home, &id).await.join("\n");
    for planted in [secrets(SEED), secrets(SEED + 1)] {
        assert_eq!(leaks_of(sent.as_bytes(), &planted), Vec::<String>::new());
        assert_eq!(leaks_below(&home.path("data"), &planted), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_choice_with_a_secret_is_shown_redacted_and_reaches_the_agent_in_its_own_words() {
    chosen(false).await;
}

#[tokio::test]
async fn a_choice_that_is_offered_again_after_a_restart_reaches_the_agent_in_its_own_words() {
    chosen(true).await;
}

#[tokio::test]
async fn a_choice_with_a_secret_that_is_made_elsewhere_is_shown_as_it_was_offered() {
    let home = Home::new();
    let gateway = stage(&home, false, |_, mut commands, observer| async move {
        while let Some(command) = commands.recv().await {
            let Command::Prompt { native_id, .. } = command else { continue };
            began(&observer, "n1", &[&native_id]).await;
            asks(&observer).await;
            let answers = json!({"0": [offered()[1], offered()[2]]}).as_object().cloned();
            let (key, outcome) = (Key::from("q"), QuestionOutcome::Answered);
            let _ = observer.signal(Signal::QuestionClosed { key, outcome, answers }).await;
            let _ = observer.signal(done("n1")).await;
        }
    })
    .await;
    // What people say is kept here. What the agent offered is not.
    let new = NewSession { redact_prompts: Some(false), ..new_session(&home, "puppet") };
    let id = id_of(&gateway.create(new).await.unwrap());
    let prompt = NewPrompt::new(vec![json!({"type": "text", "text": "go"})]);
    gateway.prompt(&id, prompt).await.unwrap();
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(
        json!(snapshot.state.questions[0].answers),
        json!({"0": ["Use [redacted:openai]+", "Ask Bob"]})
    );
    gateway.close().await;
    for planted in [secrets(SEED), secrets(SEED + 1)] {
        assert_eq!(leaks_below(&home.path("data"), &planted), Vec::<String>::new());
    }
}
