//! The MCP servers of a session reach its agent at every link. Nothing of them but their names is anywhere
//! else.

use crate::forgetful::*;
use crate::support::*;
use crate::transfer::{file, spooled};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;
use turnstream_agents::McpServer;
use turnstream_gateway::{ImportAs, NewSession, RequestError, Settings};
use turnstream_testkit::crash::{KillPoint, Program, role};
use turnstream_testkit::diagnostics::Capture;
use turnstream_testkit::leaks::{leaks_below, leaks_of};

const HOME: &str = "TURNSTREAM_GATEWAY_TEST_HOME";

/// A secret that no rule of redaction knows.
const SECRET: &str = "quite ordinary words 7319";

fn servers() -> Value {
    json!([
        {"type": "stdio", "name": "files", "command": "/bin/mcp", "args": ["--deep"],
         "env": [{"name": "TOKEN", "value": SECRET}]},
        {"type": "http", "name": "docs", "url": format!("http://127.0.0.1/{SECRET}"),
         "headers": [{"name": "Authorization", "value": format!("Bearer {SECRET}")}]},
    ])
}

fn read(list: &Value) -> Vec<McpServer> {
    McpServer::read_list(list.as_array().unwrap()).unwrap()
}

fn with_servers(home: &Home) -> NewSession {
    NewSession { mcp: read(&servers()), key: Some("k".into()), ..new_session(home, "forgetful") }
}

/// The servers that the agent got with each link.
fn given(home: &Home) -> Vec<Value> {
    Forgetful::of(home.directory()).notes("mcp").into_iter().map(|(_, servers)| servers).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_link_gets_the_servers_and_everybody_else_their_names() {
    let home = Home::new();
    let capture = Capture::start();
    let gateway = open_forgetful(home.directory(), home.settings.clone()).await;
    let info = gateway.create(with_servers(&home)).await.unwrap();
    let id = id_of(&info);
    assert_eq!(info.session.mcp, ["files", "docs"]);
    let own = home.path("data/mcp").join(format!("{id}.json"));
    assert_eq!(std::fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(home.path("data/mcp")).unwrap().permissions().mode() & 0o777, 0o700);
    gateway.prompt(&id, words("What is blue?")).await.unwrap();
    settled(&gateway, &id, 1).await;
    let gateway = restarted(&home, gateway).await;
    assert_eq!(gateway.session(&id).unwrap().session.mcp, ["files", "docs"]);
    gateway.prompt(&id, words("And red?")).await.unwrap();
    let snapshot = settled(&gateway, &id, 2).await;
    assert_eq!(given(&home), [servers(), servers()]);

    let mut export = gateway.export(&id, Duration::ZERO).await.unwrap();
    let mut shown = vec![export.header().to_json(), format!("{:?}", with_servers(&home))];
    while let Some(events) = export.next().await.unwrap() {
        shown.extend(events.iter().map(|event| String::from_utf8(event.json().to_vec()).unwrap()));
    }
    shown.push(serde_json::to_string(&snapshot).unwrap());
    shown.push(serde_json::to_string(&gateway.sessions()).unwrap());
    shown.push(capture.text());
    let secrets = [SECRET.to_owned()];
    for text in &shown {
        assert_eq!(leaks_of(text.as_bytes(), &secrets), [] as [String; 0], "{text}");
    }
    home.close(gateway).await;
    let leaks = leaks_below(&home.path("data"), &secrets);
    let own = own.display().to_string();
    assert!(leaks.iter().any(|leak| leak.starts_with(&own)), "the test can find it: {leaks:?}");
    let others: Vec<&String> = leaks.iter().filter(|leak| !leak.starts_with(&own)).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_with_the_same_servers_is_the_same_session() {
    let home = Home::new();
    let gateway = open_forgetful(home.directory(), home.settings.clone()).await;
    let first = gateway.create(with_servers(&home)).await.unwrap();
    assert_eq!(gateway.create(with_servers(&home)).await.unwrap(), first);
    let differs = |list: Value| {
        let new = NewSession { mcp: read(&list), ..with_servers(&home) };
        let gateway = gateway.clone();
        async move { gateway.create(new).await.unwrap_err().to_string() }
    };
    assert!(differs(json!([])).await.contains("used before with mcp of files, docs"));
    let mut other = servers();
    other[0]["env"][0]["value"] = json!("another");
    let refused = differs(other).await;
    assert!(refused.contains("used before with other values in mcp"), "{refused}");
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_takes_none_refuses_them_and_a_secret_is_no_name() {
    let home = Home::new();
    let gateway = home.open().await;
    let new = NewSession { mcp: read(&servers()), ..new_session(&home, "scripted") };
    let refused = gateway.create(new).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "agent \"scripted\" cannot use the MCP servers: it takes no MCP servers from a session; configure them in the agent \
         itself"
    );
    let named = json!([{"name": format!("ghp_{}", "a1B2".repeat(9)), "command": "c"}]);
    let new = NewSession { mcp: read(&named), ..new_session(&home, "scripted") };
    let refused = gateway.create(new).await.unwrap_err();
    assert!(matches!(refused, RequestError::SecretName { .. }), "{refused}");
    assert!(gateway.sessions().is_empty() && !home.path("data/mcp").exists());
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_removes_the_file_and_a_start_removes_what_belongs_to_nobody() {
    let home = Home::new();
    let gateway = open_forgetful(home.directory(), home.settings.clone()).await;
    let kept = id_of(&gateway.create(with_servers(&home)).await.unwrap());
    let deleted = NewSession { key: None, ..with_servers(&home) };
    let deleted = id_of(&gateway.create(deleted).await.unwrap());
    gateway.delete(&deleted).await.unwrap();
    let folder = home.path("data/mcp");
    let files = || -> Vec<String> {
        let entries = std::fs::read_dir(&folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert_eq!(files(), [format!("{kept}.json")]);
    for leftover in ["ses_nobody.json", "ses_1.new"] {
        std::fs::write(folder.join(leftover), SECRET).unwrap();
    }
    let gateway = restarted(&home, gateway).await;
    assert_eq!(files(), [format!("{kept}.json")]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_file_a_session_does_not_run_and_says_why() {
    let home = Home::new();
    let gateway = open_forgetful(home.directory(), home.settings.clone()).await;
    let id = id_of(&gateway.create(with_servers(&home)).await.unwrap());
    std::fs::remove_file(home.path("data/mcp").join(format!("{id}.json"))).unwrap();
    gateway.prompt(&id, words("What is blue?")).await.unwrap();
    let failed = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&failed), ["failed unreachable"]);
    let message = failed.state.turns[0].error.clone().unwrap().message;
    assert!(message.contains("the file of the session's MCP servers cannot be read"), "{message}");
    assert_eq!(given(&home), [] as [Value; 0]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_imported_session_has_no_servers() {
    let home = Home::new();
    let gateway = open_forgetful(home.directory(), home.settings.clone()).await;
    let id = id_of(&gateway.create(with_servers(&home)).await.unwrap());
    gateway.prompt(&id, words("What is blue?")).await.unwrap();
    settled(&gateway, &id, 1).await;
    let spool = spooled(&gateway, &file(&gateway, &id).await).await;
    let imported = id_of(&gateway.import(spool, ImportAs::New, None).await.unwrap().info);
    assert_eq!(gateway.session(&imported).unwrap().session.mcp, [] as [String; 0]);
    gateway.prompt(&imported, words("And red?")).await.unwrap();
    settled(&gateway, &imported, 2).await;
    assert_eq!(given(&home), [servers(), json!([])]);
    home.close(gateway).await;
}

// === kills ===

/// The child of the test below: creates the session with its servers, and prompts.
#[test]
fn child_with_servers() {
    if role().as_deref() != Some("servers") {
        return;
    }
    let home = PathBuf::from(std::env::var(HOME).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let gateway = open_forgetful(&home, Settings::default()).await;
        let new = new_session_in(&home.join("work"), "forgetful");
        let new = NewSession { mcp: read(&servers()), key: Some("k".into()), ..new };
        let id = id_of(&gateway.create(new).await.unwrap());
        println!("CREATED");
        gateway.prompt(&id, words("What is blue?")).await.unwrap();
        settled(&gateway, &id, 1).await;
        println!("DONE");
        std::future::pending::<()>().await;
    });
}

#[test]
fn a_kill_during_the_creation_leaves_no_session_without_its_servers() {
    let points = [
        (KillPoint::failpoint("gateway.mcp_stored", 1), false),
        (KillPoint::failpoint("keeper.created", 1), true),
        (KillPoint::line("CREATED", 1), true),
    ];
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for (point, is_there) in points {
        let home = Home::new();
        let run = |point: &KillPoint| {
            let program = Program::this_test("mcp::child_with_servers", "servers").unwrap();
            program.env(HOME, home.directory()).run(point).unwrap()
        };
        run(&point);
        runtime.block_on(async {
            let gateway = open_forgetful(home.directory(), home.settings.clone()).await;
            assert_eq!(gateway.sessions().len(), usize::from(is_there), "{point:?}");
            let files = std::fs::read_dir(home.path("data/mcp")).unwrap().count();
            assert_eq!(files, usize::from(is_there), "{point:?}");
            gateway.close().await;
        });
        run(&KillPoint::line("DONE", 1));
        // The first child may come to a link before it is killed.
        let given = given(&home);
        assert!(!given.is_empty() && given.iter().all(|given| *given == servers()), "{point:?}: {given:?}");
    }
}
