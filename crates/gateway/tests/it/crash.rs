//! Kills at every step: no second end, no accepted prompt lost, none run twice, no number used twice.

use crate::support::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use turnstream_gateway::{Gateway, NewSession, RequestError, ResolveApproval, Settings};
use turnstream_log::{Follow, Log, Options};
use turnstream_model::cursor::{Cursor, Seq};
use turnstream_model::event::Outcome;
use turnstream_model::fold::{ItemStage, Prompt};
use turnstream_model::id::SessionId;
use turnstream_testkit::crash::{KillPoint, Program, Seen, role};
use turnstream_testkit::lawful::Tail;

const HOME: &str = "TURNSTREAM_GATEWAY_TEST_HOME";
const AGENT: &str = "TURNSTREAM_GATEWAY_TEST_AGENT";
const ROUND: &str = "TURNSTREAM_GATEWAY_TEST_ROUND";

/// The keys of prompts whose turns end only by a cancel begin so.
const STALLS: &str = "stalls-";

/// Every failpoint of the keeper, and those of the log that are about one commit. The number is how often
/// a child that finds an open turn passes it at least.
const POINTS: [(&str, u64); 12] = [
    ("keeper.claimed", 1),
    ("keeper.recovering", 1),
    ("keeper.connected", 1),
    ("keeper.caught_up", 1),
    ("keeper.append", 20),
    ("keeper.durable", 6),
    ("keeper.told", 6),
    ("keeper.cancelling", 2),
    ("log.before_sync", 20),
    ("log.after_sync", 20),
    ("log.published", 20),
    ("log.settled", 1),
];

fn settings(home: &Path) -> Settings {
    Settings { roots: vec![home.join("work")], ..Settings::default() }
}

/// The child of the tests below: prompts with keys, one after the other and sometimes two at once, some of
/// them cancelled, until it is killed.
#[test]
fn working_child() {
    if role().as_deref() != Some("work") {
        return;
    }
    let home = PathBuf::from(std::env::var(HOME).unwrap());
    let (agent, round) = (std::env::var(AGENT).unwrap(), std::env::var(ROUND).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let gateway = open(&home, settings(&home)).await;
        let id = the_session(&gateway, &home, &agent).await;
        tokio::spawn(print_frames(gateway.clone(), id.clone()));
        tokio::spawn(allow_everything(gateway.clone(), id.clone()));
        for number in 0..40 {
            let kind = if number % 4 == 1 { STALLS } else { "" };
            let key = format!("{kind}r{round}n{number}");
            accept(&gateway, &id, &key).await;
            println!("ACCEPTED {key}");
            if number % 3 != 0 {
                until(&gateway, &id, "a quiet moment", |snapshot| snapshot.state.queue.is_empty()).await;
            }
        }
        settled(&gateway, &id, 1).await;
        println!("DONE");
        std::future::pending::<()>().await;
    });
}

async fn the_session(gateway: &Gateway, home: &Path, agent: &str) -> SessionId {
    let new = NewSession { key: Some("the one".into()), ..new_session_in(&home.join("work"), agent) };
    id_of(&gateway.create(new).await.unwrap())
}

/// A turn with text, a tool that counts, an ask with another one, and text again.
async fn accept(gateway: &Gateway, id: &SessionId, key: &str) {
    let tool = |name: &str, ask: bool| {
        let effect = json!({"append": {"path": "runs", "text": format!("{key}.{name}\n")}});
        json!({"do": "tool", "ask": ask, "effect": effect})
    };
    let steps = if key.starts_with(STALLS) {
        json!([{"do": "text", "text": "one"}, tool("a", false), {"do": "stall"}])
    } else {
        json!([{"do": "text", "text": "one two three"}, tool("a", false), tool("b", true),
               {"do": "text", "text": "four five"}])
    };
    loop {
        match gateway.prompt(id, keyed(key, steps.clone())).await {
            Ok(_) => return,
            Err(RequestError::Recovering(_)) => tokio::time::sleep(Duration::from_millis(2)).await,
            Err(error) => panic!("{error}"),
        }
    }
}

async fn print_frames(gateway: Gateway, id: SessionId) {
    let mut follower = gateway.follow(&id, &Cursor::default()).unwrap();
    while let Ok(step) = follower.next().await {
        if let Follow::Events(events) = step {
            for event in events {
                println!("FRAME {} {}", event.seq(), String::from_utf8_lossy(event.json()));
            }
        }
    }
}

/// Answers what waits, and cancels what would never end.
async fn allow_everything(gateway: Gateway, id: SessionId) {
    loop {
        let snapshot = gateway.snapshot(&id).await.unwrap();
        for ask in snapshot.state.approvals.iter().filter(|ask| ask.outcome.is_none()) {
            let key = Some(format!("answer to {}", ask.approval));
            // Somebody settled it in between: the end of its turn.
            let _ = gateway.resolve(&id, &ask.approval, ResolveApproval { key, ..allow() }).await;
        }
        let state = &snapshot.state;
        if let Some(turn) = state.turns.last().filter(|turn| turn.outcome.is_none()) {
            let stalls = |prompt: &Prompt| prompt.key.as_ref().is_some_and(|key| key.starts_with(STALLS));
            if state.prompts.iter().any(|prompt| prompt.turn.as_ref() == Some(&turn.turn) && stalls(prompt)) {
                // It may end for another reason first.
                let _ = gateway.cancel(&id, Cancel::Turn(turn.turn.clone())).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// What was seen of all children so far.
#[derive(Default)]
struct Witness {
    frames: BTreeMap<u64, String>,
    accepted: BTreeSet<String>,
    /// Kills that hit an open turn.
    hits: u32,
}

impl Witness {
    fn take_in(&mut self, seen: &Seen, point: &str) {
        for frame in seen.lines("FRAME ") {
            // A line that the kill cut is none.
            let Some((seq, line)) = frame.split_once(' ').filter(|(_, line)| line.ends_with('}')) else {
                continue;
            };
            let Ok(seq) = seq.parse() else { continue };
            if let Some(before) = self.frames.insert(seq, line.to_owned()) {
                assert_eq!(before, line, "{point}: number {seq} was used twice");
            }
        }
        self.accepted.extend(seen.lines("ACCEPTED "));
    }

    /// The log as the kill left it: lawful so far, with every frame that was delivered.
    async fn look(&mut self, data: &Path, point: &str) {
        let log = Log::open(data, &Options::default()).unwrap().log;
        for id in log.sessions().unwrap() {
            let events = log.read(&id, Seq(0), usize::MAX).unwrap();
            for (seq, line) in &self.frames {
                let kept = events.get(*seq as usize - 1).map(|event| String::from_utf8_lossy(event.json()));
                assert_eq!(kept.as_deref(), Some(line.as_str()), "{point}: a delivered event is gone");
            }
            let state = log.snapshot(&id).unwrap().state;
            self.hits += u32::from(state.turns.iter().any(|turn| turn.outcome.is_none()));
        }
        log.close().await;
        judge(data, Tail::Live).await;
    }

    /// Nothing is open in the end; every accepted prompt has one turn; no tool ran twice, and those that
    /// are said to have run did.
    async fn judge(&self, home: &Path, agent: &str) {
        let gateway = open(home, settings(home)).await;
        let id = the_session(&gateway, home, agent).await;
        let allowing = tokio::spawn(allow_everything(gateway.clone(), id.clone()));
        let snapshot = settled(&gateway, &id, 1).await;
        allowing.abort();
        let _ = allowing.await;
        gateway.close().await;
        judge(&home.join("data"), Tail::Settled).await;

        let text = std::fs::read_to_string(home.join("work/runs")).unwrap_or_default();
        let mut runs: BTreeMap<&str, u32> = BTreeMap::new();
        for line in text.lines() {
            *runs.entry(line).or_default() += 1;
        }
        let twice: Vec<_> = runs.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty(), "ran twice: {twice:?}");
        let mut completed = 0;
        for key in &self.accepted {
            let prompts: Vec<_> =
                snapshot.state.prompts.iter().filter(|prompt| prompt.key.as_ref() == Some(key)).collect();
            assert_eq!(prompts.len(), 1, "{key}");
            let turn = snapshot.state.turns.iter().find(|turn| Some(&turn.turn) == prompts[0].turn.as_ref());
            let outcome = turn.unwrap_or_else(|| panic!("{key} has no turn")).outcome.unwrap();
            let wanted = if key.starts_with(STALLS) { Outcome::Cancelled } else { Outcome::Completed };
            if outcome == wanted {
                completed += 1;
            } else {
                assert_eq!(outcome, Outcome::Lost, "{key}");
            }
        }
        println!("{} accepted, {completed} completed, {} effects", self.accepted.len(), runs.len());
        assert!(completed > 0, "nothing was ever completed");
        if agent == "lasting" {
            assert_eq!(completed, self.accepted.len(), "an agent that outlives the gateway loses nothing");
        }
    }
}

fn child(home: &Path, agent: &str, round: u32) -> Program {
    let program = Program::this_test("crash::working_child", "work").unwrap();
    program.env(HOME, home).env(AGENT, agent).env(ROUND, round.to_string())
}

fn kill_again_and_again(agent: &str, wanted: u32) {
    let home = laid_out();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut rng = fastrand::Rng::with_seed(7);
    let mut witness = Witness::default();
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    // Only the first child makes the session.
    let mut first = Some(("keeper.created", 1));
    let mut round = 0;
    while witness.hits < wanted {
        assert!(round < 3 * wanted + 50, "only {} of {round} kills hit an open turn", witness.hits);
        let (name, times) = first.take().unwrap_or(POINTS[round as usize / 2 % POINTS.len()]);
        // Every other round in the middle of what a follower sees; the others at a step that has a name.
        let (point, label) = if round % 2 == 0 && name != "keeper.created" {
            (KillPoint::line("FRAME ", witness.frames.len() as u64 + rng.u64(1..60)), "a frame")
        } else {
            (KillPoint::failpoint(name, rng.u64(1..=times)), name)
        };
        let mut program = child(home.path(), agent, round).deadline(Duration::from_secs(4));
        // A failpoint that is not reached this time is a kill like any other.
        let seen = match program.run(&point) {
            Ok(seen) => {
                reached.insert(label);
                seen
            }
            Err(turnstream_testkit::crash::CrashError::Deadline { seen, .. }) => *seen,
            Err(error) => panic!("{label}: {error}"),
        };
        witness.take_in(&seen, label);
        runtime.block_on(witness.look(&home.path().join("data"), label));
        round += 1;
    }
    runtime.block_on(witness.judge(home.path(), agent));
    let missed: Vec<_> = POINTS.iter().filter(|(point, _)| !reached.contains(point)).collect();
    println!("{round} kills, {} hit an open turn; not reached: {missed:?}", witness.hits);
    if wanted >= 100 {
        assert!(missed.is_empty(), "never reached: {missed:?}");
    }
}

fn kills(quick: u32, full: u32) -> u32 {
    if is_full() { full } else { quick }
}

#[test]
fn an_agent_that_outlives_the_gateway_completes_every_turn_over_many_kills() {
    kill_again_and_again("lasting", kills(15, 200));
}

#[test]
fn an_agent_that_dies_with_the_gateway_loses_turns_once_and_repeats_nothing() {
    kill_again_and_again("scripted", kills(15, 200));
}

/// The child of the test below: one prompt with a key, sent again and again until it is killed.
#[test]
fn child_that_repeats() {
    if role().as_deref() != Some("repeats") {
        return;
    }
    let home = PathBuf::from(std::env::var(HOME).unwrap());
    let round = std::env::var(ROUND).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let gateway = open(&home, settings(&home)).await;
        let id = the_session(&gateway, &home, "lasting").await;
        let key = format!("k{round}");
        tokio::spawn(allow_everything(gateway.clone(), id.clone()));
        for _ in 0..3 {
            accept(&gateway, &id, &key).await;
        }
        settled(&gateway, &id, 1).await;
        println!("DONE");
        std::future::pending::<()>().await;
    });
}

#[test]
fn what_is_repeated_with_its_key_after_a_kill_happens_once() {
    let home = laid_out();
    let points = [
        "keeper.append",
        "log.before_sync",
        "log.after_sync",
        "log.published",
        "keeper.durable",
        "keeper.told",
    ];
    for (round, (point, times)) in
        points.iter().flat_map(|point| (1..=2).map(move |times| (point, times))).enumerate()
    {
        let round = round.to_string();
        let run = |point: &KillPoint| {
            let program = Program::this_test("crash::child_that_repeats", "repeats").unwrap();
            program.env(HOME, home.path()).env(ROUND, &round).run(point).unwrap()
        };
        // Killed somewhere; then the client, which does not know how far it came, says the same again.
        run(&KillPoint::failpoint(*point, times));
        run(&KillPoint::line("DONE", 1));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let unknown = runtime.block_on(async {
        let gateway = open(home.path(), settings(home.path())).await;
        assert_eq!(gateway.sessions().len(), 1);
        let id = the_session(&gateway, home.path(), "lasting").await;
        let snapshot = settled(&gateway, &id, 12).await;
        assert_eq!(outcomes(&snapshot), vec!["completed end_turn"; 12]);
        let keys: Vec<_> = snapshot.state.prompts.iter().map(|prompt| prompt.key.clone().unwrap()).collect();
        assert_eq!(keys, (0..12).map(|round| format!("k{round}")).collect::<Vec<_>>());
        gateway.close().await;
        let calls = snapshot.state.items.iter().filter(|item| item.state == ItemStage::Unknown);
        calls.map(|item| serde_json::to_string(&item.tool).unwrap()).collect::<Vec<String>>()
    });
    let runs = std::fs::read_to_string(home.path().join("work/runs")).unwrap();
    let runs: Vec<&str> = runs.lines().collect();
    // A kill between the beginning of a call and its effect leaves a call of which nobody knows whether it
    // ran. The agent writes down that it begins before it runs the command, so both are possible. Calls run
    // one after the other, so a kill leaves one such call at most. Every other call ran exactly once.
    let is_unknown = |run: &str| unknown.iter().any(|call| call.contains(&format!("{run}\\n")));
    for round in 0..12 {
        let both = is_unknown(&format!("k{round}.a")) && is_unknown(&format!("k{round}.b"));
        assert!(!both, "one kill, and two calls of round {round} are unknown: {unknown:?}");
    }
    let wanted = (0..12).flat_map(|round| [format!("k{round}.a"), format!("k{round}.b")]);
    let wanted: Vec<String> = wanted.filter(|run| runs.contains(&run.as_str()) || !is_unknown(run)).collect();
    assert_eq!(runs, wanted, "every tool ran once");
    runtime.block_on(judge(&home.path().join("data"), Tail::Settled));
}
