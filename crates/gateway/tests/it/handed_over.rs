//! Handing a session over: another agent goes on from its finished items, and both logs name each other.

use crate::forgetful::{Forgetful, words};
use crate::puppet::lines;
use crate::support::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use turnstream_agents::Agent;
use turnstream_agents::demo::{DemoAgent, DemoConfig};
use turnstream_gateway::{Actor, Gateway, NewSession, RequestError, Settings};
use turnstream_model::fold::Inherited;
use turnstream_model::id::SessionId;
use turnstream_testkit::crash::{KillPoint, Program, role};
use turnstream_testkit::lawful::Tail;

const HOME: &str = "TURNSTREAM_GATEWAY_TEST_HOME";

/// A gateway with the scripted agent, and with one that writes down what it is given.
async fn open_both(home: &Path, settings: Settings) -> Gateway {
    let settings = Settings { roots: vec![home.join("work")], ..settings };
    let scripted = DemoAgent::new(DemoConfig { pace: Duration::ZERO, ..DemoConfig::default() });
    let agents: BTreeMap<String, Arc<dyn Agent>> = BTreeMap::from([
        ("scripted".to_owned(), Arc::new(scripted) as Arc<dyn Agent>),
        ("forgetful".to_owned(), Arc::new(Forgetful::of(home)) as Arc<dyn Agent>),
    ]);
    Gateway::open(&home.join("data"), settings, agents).await.unwrap()
}

/// A session in which the scripted agent wrote a file.
async fn source(gateway: &Gateway, home: &Home) -> SessionId {
    let id = session_with(gateway, home, "scripted", turnstream_model::event::Permissions::Allow).await;
    let write = json!({"write": {"path": "blue.txt", "text": "blue\n"}});
    let steps = json!([
        {"do": "reasoning", "text": "A thought"},
        {"do": "tool", "name": "write", "title": "Write blue.txt", "effect": write},
        {"do": "text", "text": "Blue is written."},
    ]);
    prompt(gateway, &id, steps).await;
    settled(gateway, &id, 1).await;
    id
}

fn from(home: &Home, source: &SessionId) -> NewSession {
    NewSession { from: Some(source.clone()), ..new_session(home, "forgetful") }
}

/// The contents of the prompts that the second agent got.
fn heard(home: &Home) -> Vec<Value> {
    Forgetful::of(home.directory()).notes("prompt").into_iter().map(|(_, content)| content).collect()
}

async fn of_type(home: &Home, id: &SessionId, r#type: &str) -> Vec<Value> {
    let events = lines(home, id).await;
    let events = events.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["type"] == r#type).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_agent_gets_the_finished_items_with_its_first_prompt_and_both_logs_say_so() {
    let home = Home::new();
    let gateway = open_both(home.directory(), home.settings.clone()).await;
    let old = source(&gateway, &home).await;
    let carol = gateway.on_behalf_of(Actor::new("carol"));
    let made = carol.create(from(&home, &old)).await.unwrap();
    let new = id_of(&made);
    let inherited = Inherited { session: old.clone(), agent: "scripted".to_owned(), pending: true };
    assert_eq!(made.session.from, Some(inherited.clone()));
    assert_eq!(gateway.session(&old).unwrap().session.handed_over, std::slice::from_ref(&new));
    for (turns, question) in [(1, "And red?"), (2, "And green?")] {
        gateway.prompt(&new, words(question)).await.unwrap();
        let snapshot = settled(&gateway, &new, turns).await;
        assert_eq!(snapshot.state.prompts.last().unwrap().content, words(question).content);
    }
    let session = gateway.session(&new).unwrap().session;
    assert_eq!(session.from, Some(Inherited { pending: false, ..inherited }), "it was handed over");
    home.close(gateway).await;

    let heard = heard(&home);
    assert_eq!(heard[1], json!(words("And green?").content), "only the first prompt carries it");
    assert_eq!(heard[0][1], words("And red?").content[0]);
    let text = heard[0][0]["text"].as_str().unwrap();
    let begins =
        format!("Conversation of another session, handed over by Turnstream: session {old}, agent scripted,");
    assert!(text.starts_with(&begins), "{text}");
    for part in ["Tool call: write", "Assistant:\nBlue is written.", "End of the earlier conversation."] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(
        text.matches("A thought").count(),
        1,
        "it is in the prompt, and reasoning is left out: {text}"
    );
    assert!(text.contains("Files changed in this conversation (1):\nblue.txt"), "{text}");
    let event = of_type(&home, &new, "session.inherited").await.remove(0);
    assert_eq!((event["text"].as_str(), &event["from"]), (Some(text), &json!(old)));
    let event = of_type(&home, &old, "session.handed_over").await.remove(0);
    assert_eq!(
        (&event["to"], &event["agent"], &event["actor"]),
        (&json!(new), &json!("forgetful"), &json!("carol"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_stays_when_the_other_session_goes_on_or_is_deleted() {
    let home = Home::new();
    let gateway = open_both(home.directory(), home.settings.clone()).await;
    let old = source(&gateway, &home).await;
    let new = id_of(&gateway.create(from(&home, &old)).await.unwrap());
    prompt(&gateway, &old, json!([{"do": "text", "text": "Said later"}])).await;
    settled(&gateway, &old, 2).await;
    gateway.delete(&old).await.unwrap();
    gateway.prompt(&new, words("And red?")).await.unwrap();
    settled(&gateway, &new, 1).await;
    let gone = gateway.create(from(&home, &old)).await;
    assert_eq!(gone.map(drop), Err(RequestError::UnknownSession(old)));
    home.close(gateway).await;
    let text = heard(&home)[0][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("Blue is written.") && !text.contains("Said later"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_session_hands_over_what_is_finished_and_goes_on() {
    let home = Home::new();
    let gateway = open_both(home.directory(), home.settings.clone()).await;
    let old = session(&gateway, &home, "scripted").await;
    let steps = json!([{"do": "text", "text": "Finished."}, {"do": "tool", "ask": true}, {"do": "text", "text": "After."}]);
    prompt(&gateway, &old, steps).await;
    let waits = until(&gateway, &old, "the ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
    let new = id_of(&gateway.create(from(&home, &old)).await.unwrap());
    gateway.resolve(&old, &waits.state.approvals[0].approval, allow()).await.unwrap();
    assert_eq!(outcomes(&settled(&gateway, &old, 1).await), ["completed end_turn"]);
    gateway.prompt(&new, words("Go on")).await.unwrap();
    settled(&gateway, &new, 1).await;
    home.close(gateway).await;
    let text = heard(&home)[0][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("Assistant:\nFinished.\n\n(The turn was still running"), "{text}");
    assert_eq!(text.matches("After.").count(), 1, "only in the prompt: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_session_and_one_without_items_can_be_gone_on_from() {
    let home = Home::new();
    let gateway = open_both(home.directory(), home.settings.clone()).await;
    let old = source(&gateway, &home).await;
    gateway.end(&old, "enough").await.unwrap();
    let new = id_of(&gateway.create(from(&home, &old)).await.unwrap());
    assert!(gateway.session(&new).unwrap().session.from.unwrap().pending);
    let empty = session(&gateway, &home, "scripted").await;
    let made = gateway.create(from(&home, &empty)).await.unwrap();
    assert!(!made.session.from.as_ref().unwrap().pending, "there is nothing to hand over");
    gateway.prompt(&id_of(&made), words("Hello")).await.unwrap();
    settled(&gateway, &id_of(&made), 1).await;
    home.close(gateway).await;
    assert_eq!(heard(&home), [json!(words("Hello").content)]);
    assert!(of_type(&home, &old, "session.handed_over").await.is_empty(), "an ended session takes no event");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_that_the_other_session_kept_are_removed() {
    let home = Home::new();
    let gateway = open_both(home.directory(), home.settings.clone()).await;
    let secret = format!("ghp_{}", "A1b2".repeat(9));
    let keeps = NewSession { redact_prompts: Some(false), ..new_session(&home, "scripted") };
    let old = id_of(&gateway.create(keeps).await.unwrap());
    let steps = json!([{"do": "text", "text": "Fine."}]);
    let mut asked = script(steps);
    asked.content.push(json!({"type": "text", "text": format!("My token is {secret}")}));
    gateway.prompt(&old, asked).await.unwrap();
    settled(&gateway, &old, 1).await;
    let kept = gateway.snapshot(&old).await.unwrap().state.prompts[0].content[1].to_string();
    assert!(kept.contains(&secret), "{kept}");
    let new = id_of(&gateway.create(from(&home, &old)).await.unwrap());
    gateway.prompt(&new, words("Go on")).await.unwrap();
    settled(&gateway, &new, 1).await;
    home.close(gateway).await;
    let text = heard(&home)[0][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("My token is") && !text.contains(&secret), "{text}");
    assert!(!lines(&home, &new).await.concat().contains(&secret));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_fails_does_not_use_the_text_up_and_a_resume_sends_it_again() {
    let mut home = Home::new();
    home.settings.start = Duration::from_secs(5);
    let gateway = open_both(home.directory(), home.settings.clone()).await;
    let old = source(&gateway, &home).await;
    let new = id_of(&gateway.create(from(&home, &old)).await.unwrap());
    Forgetful::of(home.directory()).hang_once();
    for turns in [1, 2] {
        gateway.prompt(&new, words("Go on")).await.unwrap();
        settled(&gateway, &new, turns).await;
    }
    let snapshot = gateway.snapshot(&new).await.unwrap();
    assert_eq!(outcomes(&snapshot), ["failed not_started", "completed end_turn"]);
    home.close(gateway).await;
    let gateway = open_both(home.directory(), home.settings.clone()).await;
    Forgetful::of(home.directory()).lose_all();
    gateway.resume(&new, turnstream_model::event::ResumeAs::Transcript).await.unwrap();
    gateway.prompt(&new, words("And now?")).await.unwrap();
    settled(&gateway, &new, 3).await;
    home.close(gateway).await;
    let heard = heard(&home);
    assert_eq!(heard[0], heard[1]);
    assert_eq!(heard[2][0], heard[0][0], "what it took over comes first");
    assert!(heard[2][1]["text"].as_str().unwrap().starts_with("Earlier conversation of this session"));
}

/// A command of the agent's program is told by its first block, and the model does not see it.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_goes_out_alone_and_the_text_waits_for_the_next_prompt() {
    let home = Home::new();
    let gateway = open_both(home.directory(), home.settings.clone()).await;
    let old = source(&gateway, &home).await;
    let new = id_of(&gateway.create(from(&home, &old)).await.unwrap());
    gateway.prompt(&new, words("/compact")).await.unwrap();
    settled(&gateway, &new, 1).await;
    assert!(gateway.session(&new).unwrap().session.from.unwrap().pending);
    home.close(gateway).await;
    let gateway = open_both(home.directory(), home.settings.clone()).await;
    for (turns, question) in [(2, "And red?"), (3, "And green?")] {
        gateway.prompt(&new, words(question)).await.unwrap();
        settled(&gateway, &new, turns).await;
        assert!(!gateway.session(&new).unwrap().session.from.unwrap().pending);
    }
    home.close(gateway).await;
    let heard = heard(&home);
    assert_eq!(heard[0], json!(words("/compact").content));
    assert_eq!(heard[1][1], words("And red?").content[0]);
    assert!(heard[1][0]["text"].as_str().unwrap().contains("Blue is written."));
    assert_eq!(heard[2], json!(words("And green?").content));
    let bare: Vec<Value> =
        of_type(&home, &new, "prompt.sent").await.iter().map(|event| event["bare"].clone()).collect();
    assert_eq!(bare, [json!(true), Value::Null, Value::Null]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_hands_on_what_it_took_over() {
    let home = Home::new();
    let gateway = open_both(home.directory(), home.settings.clone()).await;
    let first = source(&gateway, &home).await;
    let second = id_of(&gateway.create(from(&home, &first)).await.unwrap());
    // It was never prompted.
    let third = id_of(&gateway.create(from(&home, &second)).await.unwrap());
    assert!(gateway.session(&third).unwrap().session.from.unwrap().pending);
    gateway.prompt(&third, words("Question three")).await.unwrap();
    settled(&gateway, &third, 1).await;
    let fourth = id_of(&gateway.create(from(&home, &third)).await.unwrap());
    gateway.prompt(&fourth, words("Question four")).await.unwrap();
    settled(&gateway, &fourth, 1).await;
    home.close(gateway).await;
    let heard = heard(&home);
    let texts: Vec<&str> = heard.iter().map(|content| content[0]["text"].as_str().unwrap()).collect();
    for text in &texts {
        assert!(text.contains(&format!("session {first},")) && text.contains("Blue is written."), "{text}");
    }
    let (older, newer) = texts[1].split_once(&format!("session {third},")).unwrap();
    assert!(older.contains("Blue is written.") && newer.contains("Question three"), "{}", texts[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_is_the_same_session_and_another_source_is_refused() {
    let home = Home::new();
    let gateway = open_both(home.directory(), home.settings.clone()).await;
    let (old, other) = (source(&gateway, &home).await, source(&gateway, &home).await);
    let keyed = |source: &SessionId| NewSession { key: Some("k".to_owned()), ..from(&home, source) };
    let first = id_of(&gateway.create(keyed(&old)).await.unwrap());
    assert_eq!(id_of(&gateway.create(keyed(&old)).await.unwrap()), first);
    let plain = NewSession { from: None, ..keyed(&old) };
    for another in [keyed(&other), plain] {
        let refused = gateway.create(another).await;
        assert!(matches!(refused, Err(RequestError::KeyReused { .. })), "{refused:?}");
    }
    assert_eq!(gateway.session(&old).unwrap().session.handed_over, [first]);
    home.close(gateway).await;
    assert_eq!(of_type(&home, &old, "session.handed_over").await.len(), 1);
}

#[test]
fn child_that_hands_over() {
    if role().as_deref() != Some("hands-over") {
        return;
    }
    let home = std::path::PathBuf::from(std::env::var(HOME).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let gateway = open_both(&home, Settings::default()).await;
        let old = gateway.sessions()[0].session.id.clone().unwrap();
        let new = NewSession { from: Some(old), ..new_session_in(&home.join("work"), "forgetful") };
        gateway.create(new).await.unwrap();
        std::future::pending::<()>().await;
    });
}

#[test]
fn a_kill_between_the_two_logs_is_repaired_at_the_next_start() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let home = Home::new();
    let old = runtime.block_on(async {
        let gateway = open_both(home.directory(), home.settings.clone()).await;
        let old = source(&gateway, &home).await;
        home.close(gateway).await;
        old
    });
    let program = Program::this_test("handed_over::child_that_hands_over", "hands-over").unwrap();
    program.env(HOME, home.directory()).run(&KillPoint::failpoint("gateway.inherited", 1)).unwrap();
    runtime.block_on(async {
        assert!(of_type(&home, &old, "session.handed_over").await.is_empty());
        let gateway = open_both(home.directory(), home.settings.clone()).await;
        let named =
            until(&gateway, &old, "the successor", |snapshot| !snapshot.state.session.handed_over.is_empty());
        let new = named.await.state.session.handed_over[0].clone();
        assert_eq!(gateway.session(&new).unwrap().session.from.unwrap().session, old);
        home.close(gateway).await;
        home.judge(Tail::Settled).await;
    });
}
