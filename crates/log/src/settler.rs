//! The thread that has the database: it settles what is durable in segments, many commits at a time, and records owners.

use crate::batch::Group;
use crate::error::ClaimError;
use crate::health::Reporter;
use crate::projection::{Flush, Projection};
use crate::queue::Queue;
use crate::segment::Spares;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::sqlite::{Chunks, Readers, Settlement, Store, StoreError, TurnRow};
use crate::unsettled::{Unsettled, Work};
use crate::writer::{CLOSING, SLOWEST_RETRY};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, oneshot};
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::fold::Applied;
use turnstream_model::id::SessionId;

/// Folds of silent sessions written in one transaction; the others wait for the next one, so that a thousand sessions do
/// not make a burst.
const FOLDS_AT_ONCE: usize = 32;
/// How often folds are looked for that are due although nothing new came.
const SWEEP: Duration = Duration::from_millis(100);
/// How many times as long as a transaction it rests after one.
const REST: u32 = 4;
/// On Linux this is of the thread, not of the process.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;
/// How often sessions that nobody uses leave memory.
const FORGET: Duration = Duration::from_secs(5);
/// A fold that is stored and not used for so long leaves memory.
const IDLE: Duration = Duration::from_secs(60);

/// A change of ownership, durable before anyone acts on it.
pub(crate) struct Claim {
    pub(crate) session: String,
    pub(crate) kind: ClaimKind,
    pub(crate) done: oneshot::Sender<Result<Claimed, ClaimError>>,
}

/// A session and the epoch that was taken of it.
pub(crate) struct Claimed {
    pub(crate) session: Arc<Session>,
    pub(crate) epoch: u64,
}

pub(crate) enum ClaimKind {
    /// A new session.
    Create { generation: String },
    /// The next epoch of one that is there, if nobody has it.
    IfFree { session: Arc<Session> },
    /// The next epoch of one that is there, whoever has it.
    TakeOver { session: Arc<Session> },
}

/// Everything the settling thread has.
pub(crate) struct Settler {
    pub(crate) store: Store,
    pub(crate) readers: Arc<Readers>,
    pub(crate) spares: Arc<Spares>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) budget: Arc<Semaphore>,
    /// How long a stored fold may be behind while its session talks.
    pub(crate) debounce: Duration,
    pub(crate) projections: HashMap<i64, Projection>,
    /// Rows that the database refused because a final one was there.
    pub(crate) refused: Arc<AtomicU64>,
    pub(crate) unsettled: Arc<Unsettled>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) health: Reporter,
}

impl Settler {
    /// Ends when the writer has ended and everything is settled.
    pub(crate) fn run(mut self) {
        let (unsettled, queue, budget) = (self.unsettled.clone(), self.queue.clone(), self.budget.clone());
        let _farewell = Farewell { unsettled, queue, budget };
        // Commits and followers come first: what this thread does can wait a moment, and is bounded by the budget. Where
        // the system refuses, it is only a little slower for them.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::nice(NICE);
        let (mut swept, mut forgot, mut rest) = (Instant::now(), Instant::now(), Duration::ZERO);
        loop {
            let mut work = self.unsettled.take(rest);
            let (begin, is_last) = (Instant::now(), work.is_last);
            for claim in std::mem::take(&mut work.claims) {
                self.claim(claim);
            }
            let sweep = is_last || swept.elapsed() >= SWEEP;
            if sweep {
                swept = Instant::now();
                self.projections.retain(|_, projection| !projection.is_idle(swept, IDLE));
            }
            if forgot.elapsed() >= FORGET {
                forgot = Instant::now();
                self.sessions.sweep();
            }
            self.store.hurry(work.hurry);
            if !self.settle(&work, sweep) {
                return;
            }
            self.unsettled.settled(work.serial);
            drop(work);
            if is_last {
                break;
            }
            // If this fails now, the file is made when it is needed.
            let _ = self.spares.top_up();
            rest = begin.elapsed() * REST;
        }
        self.store.close();
    }

    /// False when it had to give up; the segments still have it all.
    fn settle(&mut self, work: &Work, sweep: bool) -> bool {
        let Work { groups, serial, is_last, .. } = work;
        let now = Instant::now();
        let mut sessions = HashSet::new();
        for group in groups {
            self.project(group, now);
            sessions.insert(group.session.key);
        }
        let folds = self.folds(&sessions, sweep, *is_last, now);
        if groups.is_empty() && folds.is_empty() {
            return true;
        }
        let (chunks, turns) = rows(groups);
        let settlement = Settlement { chunks: &chunks, turns: &turns, folds: &folds, settled: *serial };
        let Ok(refused) = self.persist(|store| store.settle(&settlement)) else { return false };
        turnstream_failpoint::reach("log.settled");
        self.refused.fetch_add(refused, Ordering::Relaxed);
        for (key, flush) in &folds {
            if let Some(projection) = self.projections.get_mut(key) {
                projection.written(flush, now);
            }
        }
        for group in groups {
            group.session.settle(group.events.last().map_or(Seq(0), |event| event.seq()));
        }
        true
    }

    /// The folds to write: of these sessions, and in a sweep some of the others.
    fn folds(&self, sessions: &HashSet<i64>, sweep: bool, is_last: bool, now: Instant) -> Vec<(i64, Flush)> {
        let debounce = if is_last { Duration::ZERO } else { self.debounce };
        let most = if is_last { usize::MAX } else { FOLDS_AT_ONCE };
        let flush = |(key, projection): (&i64, &Projection)| Some((*key, projection.due(now, debounce)?));
        let others = self.projections.iter().filter(|(key, _)| sweep && !sessions.contains(key));
        let ours = sessions.iter().filter_map(|key| self.projections.get_key_value(key));
        ours.filter_map(flush).chain(others.filter_map(flush).take(most)).collect()
    }

    /// Folds new events of a session. A fold that cannot be read is left out, and made by whoever asks for it: it is
    /// only a shorter way to what the events say.
    fn project(&mut self, group: &Group, now: Instant) {
        let key = group.session.key;
        if !self.projections.contains_key(&key) {
            let stored = self.readers.stored(key).map_err(|error| error.to_string());
            match stored.and_then(|stored| Projection::load(stored, group.epoch, now)) {
                Ok(projection) => drop(self.projections.insert(key, projection)),
                Err(_) => return,
            }
        }
        let Some(projection) = self.projections.get_mut(&key) else { return };
        for (event, committed) in group.parsed.iter().zip(&group.events) {
            let applied = projection.apply(event, committed.json().len(), group.epoch, now);
            if let Applied::Gap { .. } = applied {
                // It is not what the events say: it is read again with the next ones.
                self.projections.remove(&key);
                return;
            }
        }
    }

    fn persist<T>(&mut self, mut act: impl FnMut(&mut Store) -> Result<T, StoreError>) -> Result<T, String> {
        let mut pause = Duration::from_millis(10);
        let mut closing: Option<Instant> = None;
        loop {
            match act(&mut self.store) {
                Ok(done) => {
                    self.health.sound();
                    return Ok(done);
                }
                Err(StoreError::Lasting(problem)) => {
                    self.health.failed(&problem);
                    return Err(problem);
                }
                Err(StoreError::Passing(problem)) => {
                    self.health.degraded(&problem);
                    if self.unsettled.has_ended()
                        && closing.get_or_insert_with(Instant::now).elapsed() > CLOSING
                    {
                        return Err(problem);
                    }
                }
            }
            thread::sleep(pause);
            pause = (pause * 2).min(SLOWEST_RETRY);
        }
    }

    fn claim(&mut self, claim: Claim) {
        let Claim { session: id, kind, done } = claim;
        let result = match kind {
            ClaimKind::Create { generation } => self.create(&id, &generation),
            ClaimKind::IfFree { session } if session.is_held() => Err(ClaimError::Held(id)),
            ClaimKind::IfFree { session } | ClaimKind::TakeOver { session } => self.next_epoch(&id, session),
        };
        // Claims come one after the other here, so that of two only one finds the session free.
        if let Ok(claimed) = &result {
            claimed.session.hold(claimed.epoch);
        }
        if let Err(Ok(unwanted)) = done.send(result) {
            // Whoever asked has gone away; the epoch is taken all the same.
            unwanted.session.release(unwanted.epoch);
        }
    }

    fn next_epoch(&mut self, id: &str, session: Arc<Session>) -> Result<Claimed, ClaimError> {
        let failed = |problem| ClaimError::Store { session: id.to_owned(), problem };
        let epoch = self.persist(|store| store.next_epoch(session.key)).map_err(failed)?;
        session.set_epoch(epoch);
        Ok(Claimed { session, epoch })
    }

    fn create(&mut self, id: &str, generation: &str) -> Result<Claimed, ClaimError> {
        let failed = |problem| ClaimError::Store { session: id.to_owned(), problem };
        let key = self.persist(|store| store.create(id, generation)).map_err(failed)?;
        let key = key.ok_or_else(|| ClaimError::Exists(id.to_owned()))?;
        let generation = Generation::new(generation).map_err(|error| failed(error.to_string()))?;
        let session = Session::new(SessionId::from(id), key, generation, 1, Seq(0));
        // A reader may have found the row before us: there must be one of it.
        Ok(Claimed { session: self.sessions.add(session), epoch: 1 })
    }
}

/// Answers whoever still waits when the settler ends, however it ends.
struct Farewell {
    unsettled: Arc<Unsettled>,
    queue: Arc<Queue>,
    budget: Arc<Semaphore>,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        // Nothing can be settled any more: nothing more may be accepted.
        self.queue.close();
        self.budget.close();
        for claim in self.unsettled.abandon() {
            let _ = claim.done.send(Err(ClaimError::Closed));
        }
    }
}

/// The rows these commits become: chunks of one session each, and the turns that are open after them.
fn rows(groups: &[Group]) -> (Chunks, Vec<TurnRow>) {
    let mut chunks = Chunks::default();
    let mut turns = Vec::new();
    for group in groups {
        let key = group.session.key;
        for event in &group.events {
            // Events are JSON, and JSON is UTF-8.
            chunks.push(key, event.seq(), &String::from_utf8_lossy(event.json()));
        }
        turns.extend(group.turns.iter().map(|change| TurnRow::new(key, group.epoch, change)));
    }
    (chunks, turns)
}
