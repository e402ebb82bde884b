//! `…/resume`: how a session goes on that its agent has forgotten.

use crate::problems::assert_problem;
use crate::support::Rig;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use turnstream_agents::{
    Agent, Command, ConnectError, Connecting, Description, Link, Observer, Remembering, Start,
};
use turnstream_model::event::{ErrorClass, SessionPatch, StopReason, TurnError};
use turnstream_model::id::SessionId;
use turnstream_model::signal::{Ending, Signal};

/// An agent that ends after every turn, and forgets when it is told to.
#[derive(Clone, Default)]
struct Amnesiac {
    forgot: Arc<AtomicBool>,
    links: Arc<AtomicUsize>,
    heard: Arc<Mutex<Vec<Vec<Value>>>>,
}

impl Amnesiac {
    async fn turn(heard: Arc<Mutex<Vec<Vec<Value>>>>, named: String, command: Command, observer: Observer) {
        let Command::Prompt { native_id, content } = command else { return };
        heard.lock().unwrap().push(content);
        let patch = SessionPatch { native_id: Some(named), ..SessionPatch::default() };
        let ending = Ending::completed(StopReason::EndTurn);
        let (prompts, turn) = (vec![native_id.clone()], Some(native_id));
        for signal in [
            Signal::Session(patch),
            Signal::TurnBegan { origin: None, prompts, native_id: turn.clone() },
            Signal::TurnDone { native_id: turn, ending },
            Signal::LinkLost(TurnError::new(ErrorClass::AgentExited, "it ends after every turn")),
        ] {
            let _ = observer.signal(signal).await;
        }
    }
}

impl Agent for Amnesiac {
    fn describe(&self) -> Description {
        Description::new("amnesiac", "Forgets.")
    }

    fn remembers<'a>(&'a self, _: &'a SessionId, _: &'a str, _: &'a Path) -> Remembering<'a> {
        Box::pin(async { !self.forgot.load(Ordering::SeqCst) })
    }

    fn connect(&self, start: Start) -> Connecting<'_> {
        Box::pin(async move {
            if let Some(native_id) = start.native_id.clone().filter(|_| self.forgot.load(Ordering::SeqCst)) {
                return Err(ConnectError::Forgotten { agent: "amnesiac".to_owned(), native_id });
            }
            let made = self.links.fetch_add(1, Ordering::SeqCst);
            let (named, heard) = (start.native_id.unwrap_or(format!("n{made}")), self.heard.clone());
            self.forgot.store(false, Ordering::SeqCst);
            Ok(Link::spawn(|mut commands, observer| async move {
                if let Some(command) = commands.recv().await {
                    Self::turn(heard, named, command, observer).await;
                }
            }))
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_to_an_agent_that_has_forgotten_is_a_conflict_until_a_choice_is_made() {
    let agent = Amnesiac::default();
    let rig = Rig::start_with_agent("amnesiac", Arc::new(agent.clone())).await;
    let made = rig.post("/v1/sessions", json!({"agent": "amnesiac", "cwd": rig.work()})).await;
    let id = made.body["id"].as_str().unwrap().to_owned();
    let (prompts, resume) = (format!("/v1/sessions/{id}/prompts"), format!("/v1/sessions/{id}/resume"));
    let prompt = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    let ended = |turns: usize| {
        let (rig, id) = (&rig, id.as_str());
        async move {
            rig.until(id, |snapshot| {
                snapshot["turns"].as_array().is_some_and(|all| {
                    all.len() == turns && all.iter().all(|turn| turn["outcome"] == "completed")
                }) && snapshot["session"]["status"] == "idle"
            })
            .await
        }
    };
    assert_eq!(rig.post(&prompts, prompt("What is blue?")).await.status, 202);
    ended(1).await;

    assert_problem(
        &rig.post(&resume, json!({"as": "fresh"})).await,
        409,
        "not-forgotten",
        &["\"amnesiac\" has not forgotten", &id, "send a prompt"],
    );
    agent.forgot.store(true, Ordering::SeqCst);
    // A link that is up proves that the agent remembers.
    let metrics = async || rig.http.get(rig.url("/metrics")).send().await.unwrap().text().await.unwrap();
    while !metrics().await.contains("turnstream_agents_live 0\n") {
        tokio::task::yield_now().await;
    }
    let refused = rig.post(&prompts, prompt("And red?")).await;
    assert_problem(&refused, 409, "agent-forgot", &["no longer has", "(n0)", "POST …/resume"]);
    assert_eq!(
        (&refused.body["as"], &refused.body["forgot"]),
        (&json!(["fresh", "transcript"]), &json!("n0"))
    );
    assert!(!refused.body["reason"].as_str().unwrap().contains("POST"), "{refused:?}");
    for (body, words) in
        [(json!({"as": "before"}), ["as:", "`transcript`"]), (json!({}), ["`as`", "missing"])]
    {
        assert_problem(&rig.post(&resume, body).await, 400, "bad-body", &words);
    }
    let resumed = rig.post(&resume, json!({"as": "transcript"})).await;
    assert_eq!(resumed.status, 200, "{resumed:?}");
    assert_eq!(resumed.body["resumed"]["as"], "transcript");
    assert_eq!(
        (&resumed.body["resumed"]["forgot"], &resumed.body["native_id"]),
        (&json!("n0"), &Value::Null)
    );
    assert_eq!(rig.post(&resume, json!({"as": "transcript"})).await.body, resumed.body, "repeated");
    assert_eq!(rig.get(&format!("/v1/sessions/{id}")).await.body, resumed.body);
    let other = rig.post(&resume, json!({"as": "fresh"})).await;
    assert_problem(&other, 409, "not-forgotten", &["resumed as transcript"]);
    assert_eq!(other.body["resumed"], "transcript");

    assert_eq!(rig.post(&prompts, prompt("And red?")).await.status, 202);
    let after = ended(2).await;
    assert_eq!(after["session"]["native_id"], "n1");
    let heard = agent.heard.lock().unwrap().clone();
    assert_eq!(heard.len(), 2);
    assert!(heard[1][0]["text"].as_str().unwrap().contains("What is blue?"), "{heard:?}");
    assert_eq!(heard[1][1]["text"], "And red?");
    assert_problem(
        &rig.post("/v1/sessions/nobody/resume", json!({"as": "fresh"})).await,
        404,
        "unknown-session",
        &[],
    );
    rig.judge(&id, turnstream_testkit::lawful::Tail::Settled).await;
    rig.stop().await;
}
