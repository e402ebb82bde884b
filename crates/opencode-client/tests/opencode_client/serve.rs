//! The supervisor with programs that only look like opencode, so that they can be made to misbehave.

use crate::fake::{Answer, Fake, SOON};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::net::TcpListener;
use turnstream_opencode_client::{ClientInfo, Launch, ServeError, Server, ServerState, Timeouts};
use turnstream_testkit::crash::{KillPoint, Program, role};
use turnstream_testkit::diagnostics::{Capture, Level};
use turnstream_testkit::leaks::leaks_below;

const PORT: &str = "TURNSTREAM_TEST_PORT";
const FOLDER: &str = "TURNSTREAM_TEST_FOLDER";
const CHATTY: &str = "TURNSTREAM_TEST_CHATTY";
/// A file with the id of the server that answers nothing any more.
const MUTE: &str = "mute";

/// A directory with a program in it.
struct Place {
    folder: TempDir,
}

impl Place {
    /// The program is this script; it notes the ids of its processes.
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("opencode");
        let pids = folder.path().join("pids");
        std::fs::write(&program, format!("#!/bin/sh\necho $$ >> '{}'\n{script}\n", pids.display())).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    /// A server that answers health checks, after this line of its script.
    fn healthy(first: &str) -> Self {
        let exe = std::env::current_exe().unwrap();
        let exe = exe.display();
        // Called as `serve --hostname 127.0.0.1 --port PORT`.
        Self::new(&format!(
            "{first}\nTURNSTREAM_TEST_ROLE=opencode {PORT}=$5 exec '{exe}' serve::looks_like_opencode --exact --nocapture"
        ))
    }

    fn launch(&self) -> Launch {
        let path = self.folder.path();
        let mut launch = Launch::new(path.join("opencode"), path, self.state());
        launch.restarts.first_pause = Duration::from_millis(10);
        launch.restarts.attempts = 2;
        launch
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// The processes of the program so far.
    fn pids(&self) -> Vec<i32> {
        let noted = std::fs::read_to_string(self.folder.path().join("pids")).unwrap_or_default();
        noted.lines().map(|line| line.parse().unwrap()).collect()
    }
}

async fn start(launch: Launch) -> Result<Server, ServeError> {
    Server::start(launch, Timeouts::default(), ClientInfo::default()).await
}

/// The letter the system has for what a process does.
fn state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn runs(pid: i32) -> bool {
    state(pid).is_some_and(|state| state != 'Z')
}

fn signal(pid: i32, signal: &str) {
    let status = std::process::Command::new("kill").args([signal, &pid.to_string()]).status();
    assert!(status.unwrap().success());
}

fn kill(pid: i32) {
    signal(pid, "-KILL");
}

async fn until(mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < SOON);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn wait_for(server: &Server, wanted: impl FnMut(&ServerState) -> bool) -> ServerState {
    let mut watch = server.watch().unwrap();
    tokio::time::timeout(SOON, watch.wait_for(wanted)).await.unwrap().unwrap().clone()
}

/// The part of the server.
#[tokio::test]
async fn looks_like_opencode() {
    if role().as_deref() != Some("opencode") {
        return;
    }
    let port: u16 = std::env::var(PORT).unwrap().parse().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    assert!(std::env::var("OPENCODE_SERVER_PASSWORD").unwrap().len() >= 32);
    let is_mute = || std::fs::read_to_string(MUTE).is_ok_and(|id| id == std::process::id().to_string());
    let _fake = Fake::on(listener, move |_| match is_mute() {
        true => Answer::Mute,
        false => Answer::json(200, r#"{"healthy":true,"version":"0.0.0"}"#),
    });
    println!("opencode server listening on http://127.0.0.1:{port}");
    if std::env::var_os(CHATTY).is_some() {
        chat().await;
    }
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let place = Place::new("");
    let mut launch = place.launch();
    launch.command = Path::new("/nowhere/opencode").to_owned();
    let error = start(launch).await.unwrap_err().to_string();
    assert!(
        error.starts_with("cannot start /nowhere/opencode: ") && error.contains("install opencode"),
        "{error}"
    );
}

#[tokio::test]
async fn the_last_words_of_a_program_that_ends_are_shown() {
    let place = Place::new("echo 'no such model' >&2; exit 3");
    let error = start(place.launch()).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "opencode did not become ready: it ended with exit status: 3; its output ends with:\nno such model"
    );
    assert_eq!(place.pids().len(), 1, "nobody has its port, so another one would not help");
    assert!(!place.state().join("opencode.json").exists());
}

#[tokio::test]
async fn a_program_that_does_not_become_ready_is_ended() {
    let place = Place::new("sleep 300 & sleep 300");
    let mut launch = place.launch();
    launch.ready = Duration::from_millis(300);
    let error = start(launch).await.unwrap_err().to_string();
    assert!(error.starts_with("opencode did not become ready: it did not say so within 300ms"), "{error}");
    assert_eq!(place.pids().into_iter().filter(|pid| runs(*pid)).count(), 0);
}

#[tokio::test]
async fn giving_up_the_wait_leaves_nothing_running() {
    let place = Place::new("sleep 300");
    tokio::select! {
        started = start(place.launch()) => panic!("it never says that it is ready: {:?}", started.err()),
        () = until(|| place.pids().len() == 1) => {}
    }
    until(|| !place.pids().into_iter().any(runs)).await;
    assert_eq!(place.pids().len(), 1);
}

#[tokio::test]
async fn a_server_that_dies_again_and_again_is_given_up_with_its_last_words() {
    // The first start goes well, the others do not.
    let place = Place::healthy("test -e died && echo 'disk full' >&2 && exit 1; touch died");
    let server = start(place.launch()).await.unwrap();
    kill(place.pids()[0]);
    let state = wait_for(&server, |state| matches!(state, ServerState::GaveUp { .. })).await;
    let ServerState::GaveUp { reason } = state else { panic!() };
    assert!(reason.contains("it ended with exit status: 1") && reason.ends_with("disk full"), "{reason}");
    assert_eq!(place.pids().len(), 3, "one start and two attempts");
    let counts = server.client().counts();
    assert_eq!((counts.server_starts, counts.server_exits), (3, 3));
    server.stop().await.unwrap();
    assert!(!place.state().join("opencode.json").exists());
}

#[tokio::test]
async fn a_server_can_be_stopped_while_it_is_started_again() {
    let place = Place::healthy("test -e died && exec sleep 300; touch died");
    let server = start(place.launch()).await.unwrap();
    kill(place.pids()[0]);
    wait_for(&server, |state| matches!(state, ServerState::Restarting { attempt: 1, .. })).await;
    until(|| place.pids().len() == 2).await;
    server.stop().await.unwrap();
    assert_eq!(place.pids().into_iter().filter(|pid| runs(*pid)).count(), 0);
}

#[tokio::test]
async fn a_left_server_that_does_not_answer_is_ended_and_replaced() {
    let place = Place::healthy("");
    let server = start(place.launch()).await.unwrap();
    let left = place.pids()[0];
    server.leave().await.unwrap();
    std::fs::write(place.folder.path().join(MUTE), left.to_string()).unwrap();
    let timeouts = Timeouts { probe: Duration::from_secs(1), probes: 2, ..Timeouts::default() };
    let server = Server::start(place.launch(), timeouts, ClientInfo::default()).await.unwrap();
    assert!(!server.was_adopted());
    assert!(!runs(left));
    server.stop().await.unwrap();
    assert_eq!(place.pids().into_iter().filter(|pid| runs(*pid)).count(), 0);
}

#[tokio::test]
async fn a_left_server_that_is_stopped_is_continued_and_adopted() {
    let place = Place::healthy("");
    let server = start(place.launch()).await.unwrap();
    let left = place.pids()[0];
    server.leave().await.unwrap();
    signal(left, "-STOP");
    until(|| state(left) == Some('T')).await;
    let server = start(place.launch()).await.unwrap();
    assert_eq!((server.was_adopted(), place.pids().len()), (true, 1));
    assert!(runs(left) && state(left) != Some('T'));
    server.stop().await.unwrap();
    assert!(!runs(left));
}

/// Secrets that the server of the next test prints, made here so that none is in this repository.
fn secrets() -> Vec<String> {
    let mut rng = fastrand::Rng::with_seed(12);
    let mut random = |length: usize| -> String { (0..length).map(|_| rng.alphanumeric()).collect() };
    vec![
        format!("ghp_{}", random(36)),
        format!("sk-ant-api03-{}", random(95)),
        random(40),
        format!("-----BEGIN PRIVATE KEY-----\n{}\n{}\n-----END PRIVATE KEY-----", random(64), random(64)),
    ]
}

/// Prints its secrets again and again, with a pause in each of them.
async fn chat() {
    loop {
        for secret in secrets() {
            let (first, rest) = secret.split_at(secret.len() / 2);
            for piece in [format!("token={first}"), format!("{rest}\nordinary output\n")] {
                // Not by `print!`, which writes whole lines only.
                std::io::stderr().write_all(piece.as_bytes()).unwrap();
                tokio::time::sleep(Duration::from_millis(60)).await;
            }
        }
    }
}

/// The part of the owner in the test below.
#[tokio::test]
async fn owner_of_a_chatty_server() {
    if role().as_deref() != Some("own") {
        return;
    }
    let folder = PathBuf::from(std::env::var(FOLDER).unwrap());
    let launch = Launch::new(folder.join("opencode"), &folder, folder.join("state"));
    let server = start(launch).await.unwrap();
    loop {
        tokio::time::sleep(Duration::from_millis(20)).await;
        println!("LOOK {}", server.output().len());
    }
}

#[tokio::test]
async fn what_a_server_prints_is_kept_without_its_secrets_also_over_a_kill_of_its_owner() {
    let place = Place::healthy(&format!("export {CHATTY}=1"));
    for looks in [1, 9, 23] {
        let folder = place.folder.path().to_owned();
        let seen = tokio::task::spawn_blocking(move || {
            let owner = Program::this_test("serve::owner_of_a_chatty_server", "own").unwrap();
            owner.env(FOLDER, folder).run(&KillPoint::line("LOOK ", looks)).unwrap()
        });
        assert!(!seen.await.unwrap().lines("LOOK ").is_empty());
        assert_eq!(leaks_below(&place.state(), &secrets()), Vec::<String>::new(), "after {looks} looks");
    }
    // The first server was taken over each time, and its output is read on.
    assert_eq!(place.pids().len(), 1);
    let server = start(place.launch()).await.unwrap();
    assert!(server.was_adopted());
    until(|| server.output().matches("ordinary output").count() >= 8).await;
    let output = server.output();
    assert!(output.contains("token=[redacted:github]\nordinary output\n"), "{output}");
    server.stop().await.unwrap();
    assert_eq!(leaks_below(&place.state(), &secrets()), Vec::<String>::new());
    let left: Vec<_> =
        std::fs::read_dir(place.state()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["opencode.log"], "only its output is left");
}

/// Removes the name of the pipe that the server of this place prints to.
fn clear_pipe_away(place: &Place) {
    let record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(place.state().join("opencode.json")).unwrap()).unwrap();
    let mark = record["mark"].as_str().unwrap();
    std::fs::remove_file(std::env::temp_dir().join(format!("turnstream-{mark}"))).unwrap();
}

#[tokio::test]
async fn a_left_server_whose_output_cannot_be_read_on_is_ended_and_replaced() {
    // Its first process does not print to the pipe itself, so that only the name leads there.
    let exe = std::env::current_exe().unwrap();
    let place = Place::new(&format!(
        "TURNSTREAM_TEST_ROLE=opencode {PORT}=$5 '{}' serve::looks_like_opencode --exact --nocapture &\n\
         exec > /dev/null 2>&1; wait",
        exe.display()
    ));
    let server = start(place.launch()).await.unwrap();
    let left = place.pids()[0];
    server.leave().await.unwrap();
    clear_pipe_away(&place);
    let server = start(place.launch()).await.unwrap();
    assert!(!server.was_adopted() && !runs(left));
    server.stop().await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_left_server_whose_pipe_was_cleared_away_is_adopted_and_its_output_read_on() {
    let place = Place::healthy(&format!("export {CHATTY}=1"));
    let server = start(place.launch()).await.unwrap();
    let left = place.pids()[0];
    server.leave().await.unwrap();
    clear_pipe_away(&place);
    let length = || std::fs::metadata(place.state().join("opencode.log")).unwrap().len();
    let before = length();
    let server = start(place.launch()).await.unwrap();
    assert!(server.was_adopted() && runs(left));
    until(|| server.output().matches("ordinary output").count() >= 8 && length() > before).await;
    server.stop().await.unwrap();
    assert!(!runs(left));
    assert_eq!(leaks_below(&place.state(), &secrets()), Vec::<String>::new());
}

#[tokio::test]
async fn a_record_of_another_process_with_the_same_id_ends_nothing() {
    let place = Place::healthy("");
    let server = start(place.launch()).await.unwrap();
    let left = place.pids()[0];
    server.leave().await.unwrap();
    let file = place.state().join("opencode.json");
    let record: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    kill(left);
    // As if the id had been given to this test since. The two may have started in one tick of the clock.
    let mut forged = record.clone();
    let started = record["process"]["started"].as_str().unwrap();
    forged["process"] = serde_json::json!({"id": std::process::id(), "started": format!("{started}0")});
    std::fs::write(&file, forged.to_string()).unwrap();
    let server = start(place.launch()).await.unwrap();
    assert!(!server.was_adopted());
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_server_whose_process_was_not_yet_on_record_is_found() {
    let place = Place::healthy("");
    let server = start(place.launch()).await.unwrap();
    let left = place.pids()[0];
    server.leave().await.unwrap();
    let file = place.state().join("opencode.json");
    let mut record: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    record["process"] = serde_json::Value::Null;
    std::fs::write(&file, record.to_string()).unwrap();
    let server = start(place.launch()).await.unwrap();
    assert_eq!(
        (server.was_adopted(), server.state()),
        (true, ServerState::Ready { pid: Some(left), restarts: 0 })
    );
    server.stop().await.unwrap();
    assert!(!runs(left));
}

#[tokio::test]
async fn a_server_that_ends_has_a_line_with_its_pid_and_status_and_its_redacted_output_only_at_debug() {
    let capture = Capture::start();
    let secret = format!("ghp_{}", "Ab3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5");
    let place = Place::new(&format!("echo first; echo 'token {secret}'; sleep 0.2; exit 3"));
    let launch = Launch { name: "helper".to_owned(), ..place.launch() };
    Server::start(launch, Timeouts::default(), ClientInfo::default()).await.unwrap_err();
    let ended = capture.until(|line| line.message == "opencode ended; its output is in opencode.log").await;
    assert_eq!(ended.field("agent"), Some("helper"), "{ended}");
    let pid = place.pids()[0].to_string();
    assert!(ended.field("pid").is_some_and(|shown| shown.contains(&pid)), "{ended}");
    assert_eq!(ended.field("status"), Some("exit status: 3"), "{ended}");
    let output = capture.until(|line| line.message == "the last output of opencode").await;
    assert_eq!(output.field("output"), Some("first | token [redacted:github]"), "{output}");
    // Output may be text of a model or a tool.
    let shown = capture.at_least(Level::INFO);
    assert!(shown.iter().all(|line| !line.to_string().contains("first")), "{}", capture.text());
    assert!(!capture.text().contains(&secret), "{}", capture.text());
}
