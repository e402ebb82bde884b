//! A real server of one's own: started, killed, left behind, ended.

use crate::support::{
    ANSWER, SOON, connected, next, prompt, provider, provider_of, quick, until_idle, within,
};
use serde_json::json;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use turnstream_fake_provider::{Completion, Part, Provider, Step};
use turnstream_opencode_client::{
    BusItem, ClientInfo, Directory, Launch, NoPassword, ServeError, Server, ServerState, Timeouts,
};
use turnstream_testkit::agents::OpencodeHome;
use turnstream_testkit::crash::{KillPoint, Program, role};

/// What the owner that is killed gets told.
const HOME: &str = "TURNSTREAM_TEST_HOME";

pub(crate) struct Place {
    home: OpencodeHome,
    state: PathBuf,
}

impl Place {
    pub(crate) fn new(provider: &Provider) -> Self {
        let home = OpencodeHome::new(&provider.openai_base_url()).unwrap();
        let state = home.work().with_file_name("state");
        Self { home, state }
    }

    fn launch(&self) -> Launch {
        let mut launch = Launch::new(self.home.command().unwrap(), self.home.work(), &self.state);
        launch.env = self.home.environment();
        launch.restarts.first_pause = Duration::from_millis(100);
        launch
    }

    pub(crate) async fn start(&self) -> Server {
        start(self.launch()).await.unwrap()
    }

    /// A program that is this script.
    fn program(&self, script: &str) -> PathBuf {
        let program = self.home.work().with_file_name("program");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    pub(crate) fn work(&self) -> Directory {
        Directory::new(self.home.work()).unwrap()
    }
}

async fn start(launch: Launch) -> Result<Server, ServeError> {
    Server::start(launch, Timeouts::default(), ClientInfo::default()).await
}

pub(crate) fn pid(server: &Server) -> i32 {
    match server.state() {
        ServerState::Ready { pid: Some(pid), .. } => pid,
        other => panic!("{other:?}"),
    }
}

/// Whether a process runs; a zombie does not.
fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

pub(crate) fn kill(pid: i32) {
    let status = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    assert!(status.unwrap().success());
}

/// The script of a tool that says which process it is, and stays.
fn sleeping_tool() -> [Step; 1] {
    let command = "echo $$ > pid.txt; exec sleep 300";
    let call = Part::tool_call("bash", json!({"command": command, "description": "As scripted"}));
    [Step::new(Completion::of([call]))]
}

/// Has the server start that tool, and returns its process.
async fn run_tool(server: &Server, place: &Place) -> i32 {
    let (client, directory) = (server.client(), place.work());
    let session = client.ensure_session(None, &directory, None).await.unwrap().at;
    client.prompt_async(&session, &prompt(&session, "prm_1", "Sleep")).await.unwrap();
    let file = place.home.work().join("pid.txt");
    within(|| std::fs::read_to_string(&file).ok()?.trim().parse().ok()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_started_and_stopped_with_everything_it_started() {
    let provider = provider_of(sleeping_tool()).await;
    let place = Place::new(&provider);
    let server = place.start().await;
    assert!(!server.was_adopted());
    assert!(server.output().contains("listening on"), "{}", server.output());
    assert_eq!(server.client().health_check().await.unwrap().version, "1.18.33");
    let stranger =
        Server::attach(server.client().base_url(), NoPassword, Timeouts::default(), ClientInfo::default())
            .await;
    assert_eq!(stranger.unwrap_err().to_string().find("opencode refuses the password"), Some(0));
    let (pid, tool) = (pid(&server), run_tool(&server, &place).await);
    assert!(runs(pid) && runs(tool));
    let watch = server.watch().unwrap();
    server.stop().await.unwrap();
    assert!(!runs(pid) && !runs(tool), "the tool has a process group of its own and must end too");
    assert_eq!(*watch.borrow(), ServerState::Stopped);
    assert_eq!(std::fs::read_dir(&place.state).unwrap().count(), 1, "only its output is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_is_started_again_at_the_same_address() {
    let provider = provider_of(sleeping_tool().into_iter().chain([Step::text(ANSWER).always()])).await;
    let place = Place::new(&provider);
    let server = place.start().await;
    let tool = run_tool(&server, &place).await;
    let client = server.client().clone().with_bus_settings(quick());
    let directory = place.work();
    let mut subscription = client.bus(&directory).subscribe("ses_1");
    connected(&mut subscription).await;
    let (before, mut watch) = (pid(&server), server.watch().unwrap());
    kill(before);
    let ready = |state: &ServerState| matches!(state, ServerState::Ready { restarts: 1, .. });
    tokio::time::timeout(SOON, watch.wait_for(ready)).await.unwrap().unwrap();
    assert_ne!(pid(&server), before);
    assert!(!runs(tool), "what the dead one had started was ended");
    let lost = next(&mut subscription).await;
    assert!(matches!(lost, BusItem::Lost { attempt: 1, .. }), "{lost:?}");
    loop {
        match next(&mut subscription).await {
            BusItem::Lost { .. } => {}
            BusItem::Connected { gap } => break assert!(gap),
            // The server took longer than the bus has patience in this test: the next one works.
            BusItem::Closed { .. } => break,
            other => panic!("{other:?}"),
        }
    }
    let session = client.ensure_session(None, &directory, None).await.unwrap().at;
    let mut subscription = client.bus(&directory).subscribe(&session.id);
    connected(&mut subscription).await;
    client.prompt_async(&session, &prompt(&session, "prm_2", "Say hello")).await.unwrap();
    assert_eq!(until_idle(&mut subscription, &session.id).await.1, ANSWER);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_dropped_is_killed() {
    let provider = provider().await;
    let place = Place::new(&provider);
    let server = place.start().await;
    let pid = pid(&server);
    drop(server);
    within(|| (!runs(pid)).then_some(())).await;
    // What it left on record is cleared away by the next one.
    let server = place.start().await;
    assert!(!server.was_adopted());
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_left_is_adopted_with_its_sessions() {
    let provider = provider().await;
    let place = Place::new(&provider);
    let server = place.start().await;
    let (before, url) = (pid(&server), server.client().base_url().to_owned());
    let session = server.client().ensure_session(None, &place.work(), None).await.unwrap().at;
    server.leave().await.unwrap();
    let server = place.start().await;
    assert_eq!((server.was_adopted(), pid(&server), server.client().base_url()), (true, before, &*url));
    assert!(!server.client().ensure_session(Some(&session.id), &place.work(), None).await.unwrap().created);
    // It is watched like one of our own.
    kill(before);
    let mut watch = server.watch().unwrap();
    let ready = |state: &ServerState| matches!(state, ServerState::Ready { restarts: 1, .. });
    tokio::time::timeout(SOON, watch.wait_for(ready)).await.unwrap().unwrap();
    let after = pid(&server);
    server.stop().await.unwrap();
    assert!(!runs(after));
}

/// The part of the owner in the test below.
#[tokio::test(flavor = "multi_thread")]
async fn owner_that_is_killed() {
    if role().as_deref() != Some("own") {
        return;
    }
    let launch: LaunchOf = std::env::var(HOME).unwrap().parse().unwrap();
    let server = start(launch.0).await.unwrap();
    println!("pid {}", pid(&server));
    std::future::pending::<()>().await;
}

/// A launch that fits into a variable: the environment as JSON in a file of the state directory's parent.
struct LaunchOf(Launch);

impl std::str::FromStr for LaunchOf {
    type Err = std::convert::Infallible;

    fn from_str(file: &str) -> Result<Self, Self::Err> {
        let text = std::fs::read_to_string(file).unwrap();
        let [command, work, state, env]: [serde_json::Value; 4] = serde_json::from_str(&text).unwrap();
        let path = |value: &serde_json::Value| PathBuf::from(value.as_str().unwrap());
        let mut launch = Launch::new(path(&command), path(&work), path(&state));
        let env: Vec<(String, String)> = serde_json::from_value(env).unwrap();
        launch.env = env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Ok(Self(launch))
    }
}

fn write_launch(place: &Place, file: &Path) {
    let launch = place.launch();
    let env: Vec<_> = launch.env.iter().map(|(name, value)| (name.to_str(), value.to_str())).collect();
    let text = json!([launch.command, launch.cwd, launch.state, env]).to_string();
    std::fs::write(file, text).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_owner_was_killed_is_adopted() {
    let provider = provider().await;
    let place = Place::new(&provider);
    let file = place.home.work().with_file_name("launch.json");
    write_launch(&place, &file);
    let seen = tokio::task::spawn_blocking(move || {
        let mut owner = Program::this_test("serve::owner_that_is_killed", "own").unwrap().env(HOME, file);
        owner.run(&KillPoint::line("pid ", 1)).unwrap()
    });
    let seen = seen.await.unwrap();
    let left: i32 = seen.lines("pid ")[0].trim_start_matches("pid ").parse().unwrap();
    assert!(runs(left), "it outlives its owner");
    let server = place.start().await;
    assert_eq!((server.was_adopted(), pid(&server)), (true, left));
    server.stop().await.unwrap();
    assert!(!runs(left));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_prints_while_nobody_reads_goes_on_with_its_turns() {
    let provider = provider().await;
    let place = Place::new(&provider);
    // It prints all that it does.
    let mut launch = place.launch();
    let command = launch.command.display().to_string();
    launch.command = place.program(&format!("exec '{command}' \"$@\" --print-logs --log-level DEBUG"));
    let server = start(launch.clone()).await.unwrap();
    let client = server.client().clone().with_bus_settings(quick());
    let left = pid(&server);
    server.leave().await.unwrap();
    let mut pipe = std::fs::OpenOptions::new();
    let mut pipe = pipe.read(true).write(true).open(format!("/proc/{left}/fd/2")).unwrap();
    // It waits in a write whenever there is no room.
    let enough = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&enough);
    let filling =
        std::thread::spawn(
            move || {
                while !until.load(Ordering::SeqCst) && pipe.write_all(b"no room\n").is_ok() {}
            },
        );
    let directory = place.work();
    let session = client.ensure_session(None, &directory, None).await.unwrap().at;
    let mut subscription = client.bus(&directory).subscribe(&session.id);
    connected(&mut subscription).await;
    client.prompt_async(&session, &prompt(&session, "prm_1", "Say hello")).await.unwrap();
    assert_eq!(until_idle(&mut subscription, &session.id).await.1, ANSWER);
    assert!(!filling.is_finished(), "there was no room all the time");
    // Who reads must find the pipe empty once, and on a busy machine one who goes on writing does not let it.
    enough.store(true, Ordering::SeqCst);
    let server = start(launch).await.unwrap();
    assert_eq!((server.was_adopted(), pid(&server)), (true, left));
    within(|| server.output().contains("[output lost]").then_some(())).await;
    server.stop().await.unwrap();
}

/// A server that prints with every request, as a plugin of opencode may, more than any pipe holds. It is
/// called as `serve --hostname 127.0.0.1 --port PORT`.
const CHATTY: &str = r#"
Bun.serve({
  hostname: "127.0.0.1",
  port: Number(process.argv[6]),
  fetch() {
    for (let i = 0; i < 64; i++) {
      console.log("x".repeat(65535));
      console.error("x".repeat(65535));
    }
    return Response.json({ healthy: true, version: "0.0.0" });
  },
});
console.log("listening on " + process.argv[6]);
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_runtime_of_opencode_does_not_wait_for_somebody_who_reads() {
    let provider = provider().await;
    let place = Place::new(&provider);
    let mut launch = place.launch();
    let script = place.home.work().join("chatty.js");
    std::fs::write(&script, CHATTY).unwrap();
    let (command, script) = (launch.command.display().to_string(), script.display().to_string());
    // The program is its own runtime if it is told so.
    launch.command = place.program(&format!("BUN_BE_BUN=1 exec '{command}' '{script}' \"$@\""));
    let server = start(launch.clone()).await.unwrap();
    let (client, left) = (server.client().clone(), pid(&server));
    server.leave().await.unwrap();
    for _ in 0..3 {
        assert_eq!(client.health_check().await.unwrap().version, "0.0.0");
    }
    let server = start(launch).await.unwrap();
    assert_eq!((server.was_adopted(), pid(&server)), (true, left));
    server.stop().await.unwrap();
}
