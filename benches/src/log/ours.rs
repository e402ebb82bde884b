//! The log itself under load.

use super::Cell;
use super::load::{Load, Sent, number, text};
use crate::Latencies;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::mpsc;
use turnstream_log::{Appender, Follow, Log, Merge, Options, Receipt};
use turnstream_model::cursor::Cursor;
use turnstream_model::event::{Body, Draft, Field, ItemKind, Origin, Role};
use turnstream_model::id::{ItemId, SessionId, TurnId};
use turnstream_model::time::Time;

/// The result of a fan-out.
pub(crate) struct FanOut {
    pub(crate) delivered: u64,
    pub(crate) missing: u64,
    pub(crate) twice: u64,
    pub(crate) elapsed: Duration,
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

fn open(path: &Path) -> Log {
    let options = Options { merge: Merge::Nothing, ..Options::default() };
    Log::open(path, &options).unwrap_or_else(|error| panic!("{error}")).log
}

async fn appenders(log: &Log, count: usize) -> Vec<Appender> {
    let mut appenders = Vec::new();
    for index in 0..count {
        let id = SessionId::from(format!("ses_{index}"));
        appenders.push(log.create(&id).await.unwrap_or_else(|error| panic!("{error}")));
    }
    appenders
}

fn delta(number: u64, turn: &TurnId, item: &ItemId) -> Draft {
    let body = Body::ItemDelta { field: Field::Text, text: text(number) };
    Draft { turn: Some(turn.clone()), item: Some(item.clone()), ..Draft::new(body) }
}

/// An open load, with one follower per session.
pub(crate) fn run(load: &Load, path: &Path) -> Cell {
    let runtime = runtime();
    let cell = runtime.block_on(async {
        let log = open(path);
        let mut appenders = appenders(&log, load.sessions).await;
        let total = load.total();
        let sent = Arc::new(Sent::new());
        let times: Arc<Vec<AtomicU64>> = Arc::new((0..total).map(|_| AtomicU64::new(0)).collect());
        let mut followers = Vec::new();
        for appender in &appenders {
            let follower =
                log.follow(appender.session(), &Cursor::default()).unwrap_or_else(|error| panic!("{error}"));
            let mine = (total + load.sessions as u64 - 1 - followers.len() as u64) / load.sessions as u64;
            followers.push(tokio::spawn(follow(follower, mine, times.clone(), sent.clone())));
        }
        let (receipts, collected) = mpsc::unbounded_channel();
        // In its own thread. Otherwise it would measure the scheduling of a thousand followers.
        let collector = std::thread::spawn({
            let (handle, collect) = (Handle::current(), collect(collected, times.clone(), sent.clone()));
            move || handle.block_on(collect)
        });
        let (turn, item) = (TurnId::from("t1"), ItemId::from("i1"));
        let start = Instant::now();
        let mut next = 0;
        while next < total {
            let due = load.due(start.elapsed());
            while next < due {
                times[next as usize].store(sent.micros(), Ordering::Relaxed);
                let appender = &mut appenders[next as usize % load.sessions];
                let drafts = vec![delta(next, &turn, &item)];
                let receipt = appender.append(drafts, Time(1_794_700_000_000)).await;
                receipts
                    .send((next, receipt.unwrap_or_else(|error| panic!("{error}"))))
                    .expect("a collector");
                next += 1;
            }
            tokio::time::sleep(load.rest()).await;
        }
        let elapsed = start.elapsed();
        drop(receipts);
        let durable = tokio::task::block_in_place(|| collector.join().expect("the collector ends"));
        let drain = start.elapsed().saturating_sub(elapsed);
        let mut followed = Vec::new();
        for follower in followers {
            followed.extend(follower.await.expect("a follower ends"));
        }
        assert_eq!(followed.len() as u64, total, "a follower missed events");
        drop(appenders);
        log.close().await;
        Cell {
            sent: next,
            elapsed,
            durable: Latencies::of(durable),
            followed: Some(Latencies::of(followed)),
            drain,
        }
    });
    runtime.shutdown_background();
    cell
}

async fn collect(
    mut receipts: mpsc::UnboundedReceiver<(u64, Receipt)>,
    times: Arc<Vec<AtomicU64>>,
    sent: Arc<Sent>,
) -> Vec<u64> {
    let mut latencies = Vec::new();
    while let Some((number, receipt)) = receipts.recv().await {
        receipt.await.unwrap_or_else(|error| panic!("{error}"));
        latencies.push(sent.micros() - times[number as usize].load(Ordering::Relaxed));
    }
    latencies
}

async fn follow(
    mut follower: turnstream_log::Follower,
    expected: u64,
    times: Arc<Vec<AtomicU64>>,
    sent: Arc<Sent>,
) -> Vec<u64> {
    let mut latencies = Vec::new();
    while (latencies.len() as u64) < expected {
        if let Follow::Events(events) = follower.next().await.unwrap_or_else(|error| panic!("{error}")) {
            let now = sent.micros();
            for event in events {
                latencies.push(now - times[number(event.json()) as usize].load(Ordering::Relaxed));
            }
        }
    }
    latencies
}

/// A closed load: every session always has a few pending deltas.
pub(crate) fn flat_out(length: Duration, path: &Path) -> f64 {
    const UNDER_WAY: usize = 16;
    let runtime = runtime();
    let rate = runtime.block_on(async {
        let log = open(path);
        let count = Arc::new(AtomicU64::new(0));
        let appenders = appenders(&log, 1_000).await;
        let start = Instant::now();
        let mut tasks = Vec::new();
        for mut appender in appenders {
            let count = count.clone();
            tasks.push(tokio::spawn(async move {
                let (turn, item) = (TurnId::from("t1"), ItemId::from("i1"));
                let mut under_way = std::collections::VecDeque::new();
                let mut number = 0;
                while start.elapsed() < length {
                    let receipt =
                        appender.append(vec![delta(number, &turn, &item)], Time(1_794_700_000_000)).await;
                    under_way.push_back(receipt.unwrap_or_else(|error| panic!("{error}")));
                    number += 1;
                    if under_way.len() == UNDER_WAY
                        && let Some(oldest) = under_way.pop_front()
                    {
                        oldest.await.unwrap_or_else(|error| panic!("{error}"));
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }));
        }
        for task in tasks {
            task.await.expect("an appender ends");
        }
        let rate = count.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
        log.close().await;
        rate
    });
    runtime.shutdown_background();
    rate
}

/// The time of a snapshot of a session with this many events: while events arrive, and directly after a
/// restart.
pub(crate) fn snapshots(events: u64, path: &Path) -> (Duration, Duration) {
    let runtime = runtime();
    let times = runtime.block_on(async {
        let log = open(path);
        let mut appender =
            log.create(&SessionId::from("ses_0")).await.unwrap_or_else(|error| panic!("{error}"));
        let turn = TurnId::from("t1");
        let now = Time(1_794_700_000_000);
        let start = Body::TurnStarted { origin: Origin::Agent, prompts: Vec::new(), native_id: None };
        let mut drafts = vec![Draft { turn: Some(turn.clone()), ..Draft::new(start) }];
        for number in 1..events {
            // A thousand deltas per item. The last item stays open.
            let item = ItemId::from(format!("i{}", number / 1_000));
            if number % 1_000 == 1 {
                let (kind, role, text) = (ItemKind::Message, Some(Role::Assistant), Some(String::new()));
                let body =
                    Body::ItemStarted { kind, role, synthetic: false, text, tool: None, native_id: None };
                drafts.push(Draft { turn: Some(turn.clone()), item: Some(item), ..Draft::new(body) });
            } else {
                drafts.push(delta(number, &turn, &item));
            }
            if drafts.len() == 500 {
                let receipt = appender.append(std::mem::take(&mut drafts), now).await;
                receipt
                    .unwrap_or_else(|error| panic!("{error}"))
                    .await
                    .unwrap_or_else(|error| panic!("{error}"));
            }
        }
        let receipt = appender.append(drafts, now).await.unwrap_or_else(|error| panic!("{error}"));
        receipt.await.unwrap_or_else(|error| panic!("{error}"));
        let take = |log: &Log| {
            let start = Instant::now();
            let snapshot = log.snapshot(&SessionId::from("ses_0")).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(snapshot.state.seq.0, events, "the snapshot is stale");
            start.elapsed()
        };
        let warm = (0..10).map(|_| take(&log)).min().unwrap_or_default();
        drop(appender);
        log.close().await;
        let log = open(path);
        let cold = take(&log);
        log.close().await;
        (warm, cold)
    });
    runtime.shutdown_background();
    times
}

/// One session with many followers, at full speed.
pub(crate) fn fan_out(followers: usize, events: u64, path: &Path) -> FanOut {
    fan_out_at(followers, events, None, path)
}

/// One session with many followers, at this rate.
pub(crate) fn paced_fan_out(followers: usize, rate: u64, length: Duration, path: &Path) -> FanOut {
    fan_out_at(followers, (rate as f64 * length.as_secs_f64()) as u64, Some((rate, length)), path)
}

fn fan_out_at(followers: usize, events: u64, pace: Option<(u64, Duration)>, path: &Path) -> FanOut {
    let runtime = runtime();
    let result = runtime.block_on(async {
        let log = open(path);
        let mut appenders = appenders(&log, 1).await;
        let appender = &mut appenders[0];
        let mut tasks = Vec::new();
        for _ in 0..followers {
            let follower =
                log.follow(appender.session(), &Cursor::default()).unwrap_or_else(|error| panic!("{error}"));
            tasks.push(tokio::spawn(count(follower, events)));
        }
        let (turn, item) = (TurnId::from("t1"), ItemId::from("i1"));
        let start = Instant::now();
        let mut next = 0;
        while next < events {
            let due = match pace {
                Some((rate, length)) => Load { sessions: 1, rate, length }.due(start.elapsed()),
                None => (next + 64).min(events),
            };
            let drafts: Vec<Draft> = (next..due).map(|number| delta(number, &turn, &item)).collect();
            next = due;
            if !drafts.is_empty() {
                let receipt = appender.append(drafts, Time(1_794_700_000_000)).await;
                drop(receipt.unwrap_or_else(|error| panic!("{error}")));
            }
            if pace.is_some() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        let mut result = FanOut { delivered: 0, missing: 0, twice: 0, elapsed: Duration::ZERO };
        for task in tasks {
            let (delivered, missing, twice) = task.await.expect("a follower ends");
            result.delivered += delivered;
            result.missing += missing;
            result.twice += twice;
        }
        result.elapsed = start.elapsed();
        drop(appenders);
        log.close().await;
        result
    });
    runtime.shutdown_background();
    result
}

/// Counts delivered, missing and repeated events by their sequence numbers.
async fn count(mut follower: turnstream_log::Follower, events: u64) -> (u64, u64, u64) {
    let (mut delivered, mut missing, mut twice, mut last) = (0, 0, 0, 0);
    while last < events {
        if let Follow::Events(batch) = follower.next().await.unwrap_or_else(|error| panic!("{error}")) {
            for event in batch {
                delivered += 1;
                let seq = event.seq().0;
                missing += seq.saturating_sub(last + 1);
                twice += u64::from(seq <= last);
                last = last.max(seq);
            }
        }
    }
    (delivered, missing, twice)
}
