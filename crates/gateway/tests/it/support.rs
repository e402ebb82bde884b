//! A gateway in a temporary directory, and ways to wait for what happens in it.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use turnstream_agents::Agent;
use turnstream_agents::demo::{DemoAgent, DemoConfig};
use turnstream_gateway::{Gateway, NewPrompt, NewSession, ResolveApproval, SessionInfo, Settings};
use turnstream_log::{Follow, Log, Options};
use turnstream_model::cursor::{Cursor, Seq};
use turnstream_model::event::{ApprovalOutcome, Permissions};
use turnstream_model::fold::{Snapshot, Turn};
use turnstream_model::id::{PromptId, SessionId};
pub(crate) use turnstream_model::machine::{Cancel, Cancelled};
use turnstream_testkit::lawful::{Tail, assert_lawful};

/// How long anything may take here before the test fails; nothing should come near it.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a close may take here. Its deadlines add up to less than five seconds (`closing.rs` proves that
/// when it is built), and a machine that has other work to do adds to them. In these tests nothing but a
/// deadline ends what it waits for.
pub(crate) const CLOSED: Duration = Duration::from_secs(60);

/// Whether this is a run with the long matrices.
pub(crate) fn is_full() -> bool {
    std::env::var_os("TURNSTREAM_FULL").is_some()
}

/// Directories of a gateway that can be opened again and again.
pub(crate) struct Home {
    directory: tempfile::TempDir,
    pub(crate) settings: Settings,
}

impl Home {
    pub(crate) fn new() -> Self {
        let directory = laid_out();
        let roots = vec![directory.path().join("work")];
        Self { directory, settings: Settings { roots, erasure: PATIENCE, ..Settings::default() } }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.path("work")
    }

    /// Two agents: one that dies with the gateway, and one that remembers.
    pub(crate) async fn open(&self) -> Gateway {
        open(self.directory.path(), self.settings.clone()).await
    }

    /// What a file in the working directory holds, line by line.
    pub(crate) fn lines_of(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.work().join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Closes the gateway and judges every log.
    pub(crate) async fn close(&self, gateway: Gateway) {
        gateway.close().await;
        self.judge(Tail::Settled).await;
    }

    /// Judges every log. Nothing may have it open.
    pub(crate) async fn judge(&self, tail: Tail) {
        judge(&self.path("data"), tail).await;
    }
}

pub(crate) async fn judge(data: &Path, tail: Tail) {
    let log = Log::open(data, &Options::default()).unwrap().log;
    for id in log.sessions().unwrap() {
        let events = log.read(&id, Seq(0), usize::MAX).unwrap();
        let lines: Vec<String> =
            events.iter().map(|event| String::from_utf8(event.json().to_vec()).unwrap()).collect();
        assert_lawful(lines.iter().map(String::as_str), tail);
    }
    log.close().await;
}

pub(crate) async fn open(home: &Path, settings: Settings) -> Gateway {
    let plain = DemoConfig { pace: Duration::ZERO, ..DemoConfig::default() };
    let remembers = DemoConfig { memory: Some(home.join("memory")), ..plain.clone() };
    let agents: BTreeMap<String, Arc<dyn Agent>> = BTreeMap::from([
        ("scripted".to_owned(), Arc::new(DemoAgent::new(plain)) as Arc<dyn Agent>),
        ("lasting".to_owned(), Arc::new(DemoAgent::new(remembers)) as Arc<dyn Agent>),
    ]);
    Gateway::open(&home.join("data"), settings, agents).await.unwrap()
}

/// A directory for a gateway: its data, where sessions work, what the lasting agent remembers.
pub(crate) fn laid_out() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for name in ["data", "work", "memory"] {
        std::fs::create_dir(directory.path().join(name)).unwrap();
    }
    directory
}

pub(crate) fn new_session(home: &Home, agent: &str) -> NewSession {
    new_session_in(&home.work(), agent)
}

pub(crate) fn new_session_in(cwd: &Path, agent: &str) -> NewSession {
    NewSession { agent: agent.to_owned(), cwd: cwd.to_owned(), ..NewSession::default() }
}

pub(crate) async fn session(gateway: &Gateway, home: &Home, agent: &str) -> SessionId {
    id_of(&gateway.create(new_session(home, agent)).await.unwrap())
}

pub(crate) async fn session_with(
    gateway: &Gateway,
    home: &Home,
    agent: &str,
    permissions: Permissions,
) -> SessionId {
    let new = NewSession { permissions: Some(permissions), ..new_session(home, agent) };
    id_of(&gateway.create(new).await.unwrap())
}

pub(crate) fn id_of(info: &SessionInfo) -> SessionId {
    info.session.id.clone().unwrap()
}

/// A prompt that is a script.
pub(crate) fn script(steps: Value) -> NewPrompt {
    let text = json!({ "script": steps }).to_string();
    NewPrompt::new(vec![json!({"type": "text", "text": text})])
}

pub(crate) fn keyed(key: &str, steps: Value) -> NewPrompt {
    NewPrompt { key: Some(key.to_owned()), ..script(steps) }
}

pub(crate) async fn prompt(gateway: &Gateway, id: &SessionId, steps: Value) -> PromptId {
    gateway.prompt(id, script(steps)).await.unwrap().prompt
}

pub(crate) fn allow() -> ResolveApproval {
    answer(ApprovalOutcome::AllowOnce)
}

pub(crate) fn answer(outcome: ApprovalOutcome) -> ResolveApproval {
    ResolveApproval { outcome, option: None, message: None, stop: false, key: None }
}

/// Waits until the session's snapshot is like that.
pub(crate) async fn until(
    gateway: &Gateway,
    id: &SessionId,
    what: &str,
    holds: impl Fn(&Snapshot) -> bool,
) -> Snapshot {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut follower = gateway.follow(id, &Cursor::default()).unwrap();
    loop {
        let snapshot = gateway.snapshot(id).await.unwrap();
        if holds(&snapshot) {
            return snapshot;
        }
        match tokio::time::timeout_at(deadline, follower.next()).await {
            Ok(Ok(Follow::Outcome(_) | Follow::Events(_))) => {}
            Ok(other) => panic!("{what}: the log ended: {other:?}"),
            Err(_) => panic!("{what} did not come:\n{snapshot:#?}"),
        }
    }
}

/// Waits until so many turns have ended and nothing is open, in the log and in the list of sessions. The list
/// is a moment behind the log.
pub(crate) async fn settled(gateway: &Gateway, id: &SessionId, turns: usize) -> Snapshot {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut watcher = gateway.watch();
    loop {
        let snapshot = until(gateway, id, "the end of the turns", |snapshot| {
            let state = &snapshot.state;
            state.turns.len() >= turns
                && state.turns.iter().all(|turn| turn.outcome.is_some())
                && state.queue.is_empty()
                && state.session.status == turnstream_model::fold::Activity::Idle
        })
        .await;
        let shown = gateway.session(id).unwrap().session;
        if shown == snapshot.state.session {
            return snapshot;
        }
        if tokio::time::timeout_at(deadline, watcher.next()).await.is_err() {
            panic!("the list never showed the session as its log does: {shown:#?}\n{snapshot:#?}");
        }
    }
}

pub(crate) fn outcomes(snapshot: &Snapshot) -> Vec<String> {
    snapshot.state.turns.iter().map(told).collect()
}

/// How a turn ended, in a word or two.
fn told(turn: &Turn) -> String {
    let outcome = turn.outcome.map_or("open".to_owned(), |outcome| outcome.to_string());
    match (&turn.stop_reason, &turn.error) {
        (Some(reason), _) => format!("{outcome} {reason}"),
        (None, Some(error)) => format!("{outcome} {}", error.class),
        (None, None) => outcome,
    }
}

/// The texts of assistant messages.
pub(crate) fn said(snapshot: &Snapshot) -> Vec<String> {
    let messages = snapshot.state.items.iter().filter(|item| {
        item.kind == turnstream_model::event::ItemKind::Message
            && item.role == Some(turnstream_model::event::Role::Assistant)
    });
    messages.filter_map(|item| item.text.clone()).collect()
}

/// The answer to a cancel of that turn.
pub(crate) fn cancelled(turn: &str) -> Cancelled {
    Cancelled { turn: Some(turn.into()), ..Cancelled::default() }
}
