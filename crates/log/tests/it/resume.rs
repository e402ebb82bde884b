//! L4 as a property: for every S, a snapshot at S plus the events after S is the whole. It holds whatever is
//! written, flushed and read at the same time.

use crate::support::*;
use proptest::prelude::*;
use std::time::Duration;
use turnstream_log::{Appender, Committed, Follow, Log, Merge, Options};
use turnstream_model::cursor::{Cursor, Seq};
use turnstream_model::event::{Body, Draft, ItemState};
use turnstream_model::fold::{Applied, Fold, State};
use turnstream_model::id::{AttemptId, ItemId, TurnId};

/// A step of one writer.
#[derive(Clone, Debug)]
enum Step {
    /// A new item of the open turn.
    Begin,
    /// This many deltas for the newest item, with this text.
    Say(u8, String),
    /// The newest item ends.
    Finish,
    /// The newest item is superseded.
    Supersede,
    /// The turn ends, and another begins.
    NextTurn,
    /// A pause in which folds are written and events leave memory.
    Wait(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Begin),
        6 => (1..20_u8, "[a-z\u{e9}\n\"]{1,40}").prop_map(|(times, word)| Step::Say(times, word)),
        // More at once than a session keeps in memory.
        1 => (1..4_u8).prop_map(|times| Step::Say(times, "x".repeat(40_000))),
        2 => Just(Step::Finish),
        1 => Just(Step::Supersede),
        2 => Just(Step::NextTurn),
        2 => (1..30_u8).prop_map(Step::Wait),
    ]
}

/// The open turn and items of one session.
struct Writer {
    appender: Appender,
    turns: u32,
    items: u32,
    open: bool,
}

impl Writer {
    /// The events of a step.
    fn drafts(&mut self, step: &Step) -> Vec<Draft> {
        let (turn, item) = (format!("t{}", self.turns), format!("i{}", self.items));
        let finish = |open: bool| open.then(|| item_ended(&turn, &item, ItemState::Completed));
        match step {
            Step::Begin => {
                let mut drafts: Vec<Draft> = finish(self.open).into_iter().collect();
                self.items += 1;
                self.open = true;
                drafts.push(item_started(&turn, &format!("i{}", self.items)));
                drafts
            }
            Step::Say(times, word) if self.open => (0..*times).map(|_| delta(&turn, &item, word)).collect(),
            Step::Finish if self.open => {
                self.open = false;
                finish(true).into_iter().collect()
            }
            Step::Supersede if self.open => {
                self.open = false;
                let body =
                    Body::AttemptSuperseded { by: AttemptId::from("b"), items: vec![ItemId::from(item)] };
                let (turn, attempt) = (Some(TurnId::from(turn)), Some(AttemptId::from("a")));
                vec![Draft { turn, attempt, ..Draft::new(body) }]
            }
            Step::NextTurn => {
                let mut drafts: Vec<Draft> = finish(self.open).into_iter().collect();
                self.open = false;
                self.turns += 1;
                drafts.extend([turn_ended(&turn), turn_started(&format!("t{}", self.turns))]);
                drafts
            }
            Step::Say(..) | Step::Finish | Step::Supersede | Step::Wait(_) => Vec::new(),
        }
    }

    /// Executes every step, and takes a snapshot after each.
    async fn run(mut self, log: Log, name: String, steps: Vec<Step>) -> Vec<State> {
        let mut snapshots = Vec::new();
        for step in &steps {
            if let Step::Wait(millis) = step {
                tokio::time::sleep(Duration::from_millis(u64::from(*millis))).await;
            }
            let drafts = self.drafts(step);
            let receipt = self.appender.append(drafts, NOW).await.unwrap();
            if snapshots.len() % 2 == 0 {
                receipt.await.unwrap();
            }
            snapshots.push(log.snapshot(&id(&name)).unwrap().state);
        }
        self.appender.append(Vec::new(), NOW).await.unwrap().await.unwrap();
        snapshots
    }
}

/// Takes snapshots at any moment until it is told to stop.
async fn look(log: Log, name: String, stop: tokio::sync::watch::Receiver<bool>) -> Vec<State> {
    let mut snapshots = Vec::new();
    while !*stop.borrow() {
        snapshots.push(log.snapshot(&id(&name)).unwrap().state);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    snapshots
}

/// Asserts that for every S, the state at S plus the rest is the whole.
fn assert_whole(all: &[Committed], snapshots: Vec<State>) {
    let events: Vec<_> = all.iter().map(|event| event.event().unwrap()).collect();
    assert_eq!(seqs(all), (1..=all.len() as u64).collect::<Vec<u64>>());
    let whole = Fold::of(&events).into_state();
    let mut snapshots = snapshots;
    snapshots.sort_by_key(|state| state.seq);
    snapshots.dedup_by_key(|state| state.seq);
    let (mut fold, mut next) = (Fold::new(), events.iter());
    for state in snapshots {
        while fold.state().seq < state.seq {
            assert_eq!(fold.apply(next.next().unwrap()), Applied::Yes);
        }
        assert_eq!(&state, fold.state(), "at {}", state.seq);
        let after = state.seq.0 as usize;
        let mut continued = Fold::from(state);
        for event in &events[after..] {
            assert_eq!(continued.apply(event), Applied::Yes);
        }
        assert_eq!(continued.state(), &whole, "from {after} on");
    }
}

/// Asserts that a follower from every S gets exactly the events after it.
async fn assert_resumes(log: &Log, name: &str, all: &[Committed]) {
    for after in 0..all.len() {
        let cursor = Cursor { generation: None, seq: Seq(after as u64) };
        let mut follower = log.follow(&id(name), &cursor).unwrap();
        assert!(matches!(follower.next().await.unwrap(), Follow::Outcome(_)));
        // The first batch is enough in most cases: the next one begins where it ends.
        let Follow::Events(first) = follower.next().await.unwrap() else { panic!("no events after {after}") };
        assert_eq!(first, all[after..after + first.len()], "after {after}");
    }
}

async fn run(debounce: Duration, merge: Merge, scripts: Vec<Vec<Step>>) {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { debounce, merge, ..options() };
    let log = Log::open(directory.path(), &options).unwrap().log;
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let (mut writers, mut readers) = (Vec::new(), Vec::new());
    for (number, steps) in scripts.into_iter().enumerate() {
        let name = format!("s{number}");
        let writer = Writer { appender: talking(&log, &name).await, turns: 1, items: 1, open: true };
        writers.push(tokio::spawn(writer.run(log.clone(), name.clone(), steps)));
        readers.push(tokio::spawn(look(log.clone(), name, stopped.clone())));
    }
    let mut taken = Vec::new();
    for writer in writers {
        taken.push(writer.await.unwrap());
    }
    stop.send(true).unwrap();
    for (snapshots, reader) in taken.iter_mut().zip(readers) {
        snapshots.extend(reader.await.unwrap());
    }
    let mut histories = Vec::new();
    for (number, snapshots) in taken.into_iter().enumerate() {
        let name = format!("s{number}");
        let all = log.read(&id(&name), Seq(0), usize::MAX).unwrap();
        assert_whole(&all, snapshots);
        assert_resumes(&log, &name, &all).await;
        histories.push(all);
    }
    log.close().await;
    // Once more, from disk.
    let log = Log::open(directory.path(), &options).unwrap().log;
    for (number, before) in histories.into_iter().enumerate() {
        let name = format!("s{number}");
        assert_eq!(log.read(&id(&name), Seq(0), usize::MAX).unwrap(), before);
        assert_whole(&before, vec![log.snapshot(&id(&name)).unwrap().state]);
        assert_resumes(&log, &name, &before).await;
    }
    log.close().await;
}

fn cases() -> u32 {
    if std::env::var_os("TURNSTREAM_FULL").is_some() { 300 } else { 12 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_snapshot_and_the_events_after_it_are_the_whole_at_every_s(
        debounce in prop_oneof![Just(0_u64), Just(15), Just(3_600_000)],
        merge in prop_oneof![Just(Merge::Nothing), Just(Merge::AdjacentDeltas)],
        scripts in prop::collection::vec(prop::collection::vec(step(), 1..40), 1..4),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(run(Duration::from_millis(debounce), merge, scripts));
    }
}
