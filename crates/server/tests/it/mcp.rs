//! `POST /v1/sessions` with `mcp`: what is wrong is named by its member, and nothing but names is answered.

use crate::problems::assert_problem;
use crate::support::{Answer, Rig};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use turnstream_agents::{Agent, Connecting, Description, Link, McpServer, RefusedMcp, Start};

const SECRET: &str = "an ordinary value 7319";

/// An agent that takes servers, and keeps those of its links.
#[derive(Clone, Default)]
struct Takes(Arc<Mutex<Vec<Vec<McpServer>>>>);

impl Agent for Takes {
    fn describe(&self) -> Description {
        Description::new("takes", "Takes MCP servers.")
    }

    fn check_mcp(&self, _: &[McpServer]) -> Result<(), RefusedMcp> {
        Ok(())
    }

    fn connect(&self, start: Start) -> Connecting<'_> {
        self.0.lock().unwrap().push(start.mcp);
        Box::pin(async {
            Ok(Link::spawn(|mut commands, _observer| async move { while commands.recv().await.is_some() {} }))
        })
    }
}

fn servers() -> Value {
    json!([{"name": "files", "command": "/bin/mcp", "env": [{"name": "TOKEN", "value": SECRET}]}])
}

async fn create(rig: &Rig, agent: &str, mcp: Value) -> Answer {
    rig.post("/v1/sessions", json!({"agent": agent, "cwd": rig.work(), "mcp": mcp, "key": "k"})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_given_to_the_agent_and_only_their_names_are_answered() {
    let agent = Takes::default();
    let rig = Rig::start_with_agent("takes", Arc::new(agent.clone())).await;
    let made = create(&rig, "takes", servers()).await;
    assert_eq!((made.status, &made.body["mcp"]), (201, &json!(["files"])), "{made:?}");
    let id = made.body["id"].as_str().unwrap().to_owned();
    assert_eq!(create(&rig, "takes", servers()).await.body["id"], id.as_str());
    let mut other = servers();
    other[0]["env"][0]["value"] = json!("another");
    let refused = create(&rig, "takes", other).await;
    assert_problem(&refused, 409, "key-reused", &["other values in mcp"]);
    let body = json!({"content": [{"type": "text", "text": "Hi"}]});
    assert_eq!(rig.post(&format!("/v1/sessions/{id}/prompts"), body).await.status, 202);
    rig.until(&id, |snapshot| snapshot["queue"][0]["state"] == "sent").await;
    let given: Vec<Value> = agent.0.lock().unwrap()[0].iter().map(McpServer::to_json).collect();
    assert_eq!(given[0]["env"][0]["value"], SECRET);
    for path in ["", "/snapshot", "/items", "/log", "/export"] {
        let path = format!("/v1/sessions/{id}{path}");
        let text = rig.http.get(rig.url(&path)).send().await.unwrap().text().await.unwrap();
        assert!(!text.contains(SECRET) && !text.contains("/bin/mcp"), "{path}: {text}");
    }
    assert!(!made.body.to_string().contains(SECRET) && !refused.body.to_string().contains(SECRET));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_cannot_be_used_are_refused_by_their_member_and_without_a_value() {
    let rig = Rig::start_with_agent("takes", Arc::new(Takes::default())).await;
    let mut bad = servers();
    bad[0]["env"] = json!({"TOKEN": SECRET});
    let refused = create(&rig, "takes", bad).await;
    assert_problem(&refused, 400, "bad-body", &["mcp[0].env", "a list of"]);
    assert_eq!(refused.body["member"], "mcp[0].env");
    assert!(!refused.body.to_string().contains(SECRET), "{refused:?}");
    assert_problem(&create(&rig, "takes", json!({"a": 1})).await, 400, "bad-body", &["mcp:"]);
    let twice = json!([servers()[0], servers()[0]]);
    assert_problem(&create(&rig, "takes", twice).await, 400, "bad-body", &["mcp[1].name", "used twice"]);
    let refused = create(&rig, "scripted", servers()).await;
    assert_problem(&refused, 400, "mcp-refused", &["\"scripted\"", "configure them in the agent itself"]);
    assert_eq!(rig.get("/v1/sessions").await.body["sessions"], json!([]));
    rig.stop().await;
}
