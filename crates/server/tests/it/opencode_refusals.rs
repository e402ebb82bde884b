//! opencode's API: what is refused because it would have no effect, and answers that have opencode's forms.

use super::opencode::{ASKING, SHORT, prompt, session, until};
use super::support::{Answer, Rig};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use turnstream_adapter::Choice;
use turnstream_agents::demo::{DemoAgent, DemoConfig, DemoScript};
use turnstream_agents::{Agent, Connecting, Description, Link, Observed, Start};
use turnstream_model::event::OptionKind;
use turnstream_model::signal::Signal;

#[tokio::test(flavor = "multi_thread")]
async fn what_would_be_ignored_is_refused_and_a_wrong_method_names_what_was_asked() {
    let rig = Rig::start().await;
    let id = session(&rig).await;
    let path = format!("/opencode/session/{id}");
    let message = |answer: &Answer| answer.body["data"]["message"].as_str().unwrap().to_owned();
    let wrong = rig.ask("PUT", &path, None).await;
    assert_eq!((wrong.status, message(&wrong).starts_with("PUT /session/")), (405, true), "{wrong:?}");
    for member in ["permission", "metadata"] {
        let refused = rig.ask("PATCH", &path, Some(json!({member: {"a": "b"}}))).await;
        assert_eq!((refused.status, message(&refused).contains(member)), (501, true), "{refused:?}");
    }
    // 0 is no time of an archive: the session goes on.
    for archived in [json!(0), json!(null)] {
        let kept = rig.ask("PATCH", &path, Some(json!({"time": {"archived": archived}}))).await;
        assert_eq!((kept.status, &kept.body["time"]["archived"]), (200, &Value::Null), "{kept:?}");
    }
    let mut body = prompt(SHORT);
    body["variant"] = json!("high");
    assert_eq!(rig.post(&format!("{path}/message"), body).await.status, 501);
    let create = format!("/opencode/session?directory={}", rig.work().display());
    let rule =
        |permission: &str, action: &str| json!({"permission": permission, "action": action, "pattern": "*"});
    // What `opencode run` sends with every session.
    let of_run = ["question", "plan_enter", "plan_exit"].map(|permission| rule(permission, "deny"));
    assert_eq!(rig.post(&create, json!({"agent": "scripted", "permission": of_run})).await.status, 200);
    let other = json!({"agent": "scripted", "permission": [rule("bash", "deny")]});
    assert_eq!(rig.post(&create, other).await.status, 501);
    for newer in ["agent", "model", "provider"] {
        assert_eq!(rig.get(&format!("/opencode/api/{newer}")).await.status, 501, "{newer}");
    }
    assert_eq!(rig.get("/opencode/vcs").await.body, json!({}));
    let directories = rig.get("/opencode/project/global/directories").await.body;
    assert_eq!(directories, json!([{"directory": rig.work()}]));
    let mut all = rig.stream("/opencode/global/event").await;
    until(&mut all, &id, "session.status idle").await;
    assert_eq!(rig.ask("DELETE", &path, None).await.status, 200);
    let (_, gone) = until(&mut all, &id, "session.deleted").await;
    for member in ["id", "slug", "projectID", "directory", "title", "version", "time"] {
        assert!(!gone["info"][member].is_null(), "{member}: {gone}");
    }
    rig.stop().await;
}

/// The demo agent, without the option to allow a tool always.
struct AsksEachTime(DemoAgent);

impl Agent for AsksEachTime {
    fn describe(&self) -> Description {
        self.0.describe()
    }

    fn connect(&self, start: Start) -> Connecting<'_> {
        Box::pin(async {
            let mut demo = self.0.connect(start).await?;
            Ok(Link::spawn(|mut commands, observer| async move {
                loop {
                    let is_up = tokio::select! {
                        command = commands.recv() => match command {
                            Some(command) => demo.tell(command).await,
                            None => false,
                        },
                        observed = demo.observe() => match observed.map(without_always) {
                            Some(observed) => observer.observed(observed).await.is_ok(),
                            None => false,
                        },
                    };
                    if !is_up {
                        return;
                    }
                }
            }))
        })
    }
}

fn without_always(mut observed: Observed) -> Observed {
    if let Observed::Signal(Signal::Ask { options, .. }) = &mut observed {
        options.retain(|option| option.kind != OptionKind::AllowAlways);
    }
    observed
}

#[tokio::test(flavor = "multi_thread")]
async fn always_is_refused_where_it_is_not_offered() {
    let demo = DemoAgent::new(DemoConfig { pace: Duration::ZERO, ..DemoConfig::default() });
    let rig = Rig::start_with_agent("each-time", Arc::new(AsksEachTime(demo))).await;
    let create = format!("/opencode/session?directory={}", rig.work().display());
    let made = rig.post(&create, json!({"agent": "each-time"})).await;
    let id = made.body["id"].as_str().unwrap().to_owned();
    let mut all = rig.stream("/opencode/global/event").await;
    rig.post(&format!("/opencode/session/{id}/prompt_async"), prompt(ASKING)).await;
    let (_, asked) = until(&mut all, &id, "permission.asked").await;
    assert_eq!(asked["always"], json!([]));
    let reply = format!("/opencode/permission/{}/reply", asked["id"].as_str().unwrap());
    let always = rig.post(&reply, json!({"reply": "always"})).await;
    let message = always.body["data"]["message"].as_str().unwrap();
    assert_eq!((always.status, message.contains("does not offer always")), (400, true), "{always:?}");
    // It still waits, and takes another answer.
    assert_eq!(rig.get("/opencode/permission").await.body[0]["id"], asked["id"]);
    assert_eq!(rig.post(&reply, json!({"reply": "once"})).await.status, 200);
    until(&mut all, &id, "session.idle").await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn always_is_accepted_where_it_is_offered() {
    let rig = Rig::start().await;
    let id = session(&rig).await;
    let mut all = rig.stream("/opencode/global/event").await;
    rig.post(&format!("/opencode/session/{id}/prompt_async"), prompt(ASKING)).await;
    let (_, asked) = until(&mut all, &id, "permission.asked").await;
    assert_ne!(asked["always"], json!([]));
    let reply = format!("/opencode/permission/{}/reply", asked["id"].as_str().unwrap());
    assert_eq!(rig.post(&reply, json!({"reply": "always"})).await.status, 200);
    until(&mut all, &id, "session.idle").await;
    rig.stop().await;
}

/// The demo agent, with commands.
struct Commanded(DemoAgent);

impl Agent for Commanded {
    fn describe(&self) -> Description {
        Description { commands: ["compact", "init"].map(Choice::new).to_vec(), ..self.0.describe() }
    }

    fn connect(&self, start: Start) -> Connecting<'_> {
        self.0.connect(start)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_summarize_or_init_is_an_error_that_says_why() {
    let script = r#"[{"do":"fail","class":"provider_error","message":"It broke."}]"#;
    let script = Some(DemoScript::from_json(script).unwrap());
    let demo = DemoAgent::new(DemoConfig { script, pace: Duration::ZERO, ..DemoConfig::default() });
    let rig = Rig::start_with_agent("commanded", Arc::new(Commanded(demo))).await;
    let create = format!("/opencode/session?directory={}", rig.work().display());
    let made = rig.post(&create, json!({"agent": "commanded"})).await;
    let id = made.body["id"].as_str().unwrap();
    for operation in ["summarize", "init"] {
        let failed = rig.post(&format!("/opencode/session/{id}/{operation}"), json!({})).await;
        let message = format!("session.{operation} failed: It broke.");
        assert_eq!((failed.status, &failed.body["data"]["message"]), (500, &json!(message)), "{failed:?}");
    }
    rig.stop().await;
}
