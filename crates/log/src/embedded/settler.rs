//! The thread that has the database: it settles what is durable in segments, many commits at a time, and records owners.

use super::catch_up::{CatchUp, Left};
use super::erase::Eraser;
use super::leases::{Lease, Leases};
use super::segment::{Pace, Spares};
use super::sqlite::{self, Chunks, Database, FIRST_EPOCH, Readers, Seen, Settlement, TurnRow};
use super::unsettled::{Unsettled, Work};
use crate::batch::Group;
use crate::error::{ClaimError, RemoveError};
use crate::log::Reports;
use crate::projection::{Flush, Projection};
use crate::session::Session;
use crate::store::{Cut, Known, StoreError, Take};
use crate::writer::{CLOSING, SLOWEST_RETRY};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::fold::{Applied, State};
use turnstream_model::id::SessionId;

/// Folds of silent sessions written in one transaction; the others wait for the next one, so that a thousand sessions do
/// not make a burst.
const FOLDS_AT_ONCE: usize = 32;
/// How often folds are looked for that are due although nothing new came.
const SWEEP: Duration = Duration::from_millis(100);
/// Without work, how long until it is woken for housekeeping.
const TICK: Duration = Duration::from_millis(100);
/// The same while something is taken out of the files: it works for half of the time.
const ERASING: Duration = Duration::from_millis(20);
/// Bytes of SQLite's own log that are too many: in its largest steps it has an eighth of that. How often it is looked for.
const LARGE_LOG: u64 = 64 << 20;
const LOOK_AT_LOG: Duration = Duration::from_secs(2);
/// How many times as long as a transaction it rests after one.
const REST: u32 = 4;
/// On Linux this is of the thread, not of the process.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;
/// A fold that is stored and not used for so long leaves memory.
const IDLE: Duration = Duration::from_secs(60);

/// What the settler is asked to do beside its work.
pub(crate) enum Order {
    Claim(Claim),
    /// Nobody shall find that session any more.
    Delete(Arc<Session>, oneshot::Sender<Result<(), RemoveError>>),
    /// That session shall begin later.
    Trim(Arc<Session>, Box<Cut>, oneshot::Sender<Result<bool, RemoveError>>),
    /// To be told when everything that was removed is out of all files.
    Erase(oneshot::Sender<()>),
}

/// A change of ownership, durable before anyone acts on it.
pub(crate) struct Claim {
    pub(super) wanted: Wanted,
    pub(super) done: oneshot::Sender<Result<Lease, ClaimError>>,
}

/// What is claimed.
pub(super) enum Wanted {
    /// A new session.
    New(SessionId),
    /// A new session that nobody sees yet, with what it was before its first event.
    Import(SessionId, Box<State>),
    /// That such a session is seen, when it is settled.
    Reveal(Arc<Session>, Option<String>),
    /// That such a session is forgotten.
    GiveUp(Arc<Session>),
    /// The next epoch of one that is there.
    Next(Arc<Session>, Take),
}

/// Everything the settling thread has.
pub(crate) struct Settler {
    pub(crate) database: Database,
    pub(crate) readers: Arc<Readers>,
    pub(crate) spares: Arc<Spares>,
    /// How long a stored fold may be behind while its session talks.
    pub(crate) debounce: Duration,
    pub(crate) projections: HashMap<i64, Projection>,
    pub(crate) unsettled: Arc<Unsettled>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) catch_up: Arc<CatchUp>,
    /// Imports that are to be seen as soon as they are settled.
    pub(crate) unrevealed: Vec<Claim>,
    pub(crate) reports: Arc<Reports>,
    pub(crate) eraser: Eraser,
}

impl Settler {
    /// Ends when the writer has ended and everything is settled.
    pub(crate) fn run(mut self) {
        let _farewell = Farewell { unsettled: self.unsettled.clone(), reports: self.reports.clone() };
        // Commits and followers come first: what this thread does can wait a moment, and is bounded by the budget. Where
        // the system refuses, it is only a little slower for them.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::nice(NICE);
        let (mut swept, mut looked, mut rest) = (Instant::now(), Instant::now(), Duration::ZERO);
        loop {
            let within = if self.eraser.is_under_way() { ERASING } else { TICK };
            let mut work = self.unsettled.take(rest, within);
            let (begin, is_last) = (Instant::now(), work.is_last);
            for order in std::mem::take(&mut work.orders) {
                self.carry_out(order);
            }
            let sweep = is_last || swept.elapsed() >= SWEEP;
            if sweep {
                swept = Instant::now();
                self.projections.retain(|_, projection| !projection.is_idle(swept, IDLE));
            }
            self.database.hurry(work.hurry);
            if !self.settle(&work, sweep) {
                // They are in memory and in segments only: whoever reads still has to find them.
                self.unsettled.give_back(work);
                return;
            }
            drop(work);
            for claim in std::mem::take(&mut self.unrevealed) {
                self.claim(claim);
            }
            if is_last {
                break;
            }
            if !self.catch_up() {
                return;
            }
            self.unsettled.answer(self.catch_up.is_done());
            self.erase();
            if looked.elapsed() >= LOOK_AT_LOG {
                looked = Instant::now();
                // What fails is tried again at the next look.
                let _ = self.database.keep_log_below(LARGE_LOG, &self.readers);
            }
            // If this fails now, the file is made when it is needed.
            let _ = self.spares.top_up(Pace::InSteps);
            rest = begin.elapsed() * REST;
        }
        self.database.close();
    }

    /// False when it had to give up; the segments still have it all.
    fn settle(&mut self, work: &Work, sweep: bool) -> bool {
        let Work { groups, serial, is_last, .. } = work;
        let now = Instant::now();
        let mut sessions = HashSet::new();
        // What was still said in a session that is deleted goes with it.
        let (deleted, groups): (Vec<&Group>, Vec<&Group>) =
            groups.iter().partition(|group| group.session.is_deleted());
        deleted.into_iter().for_each(Group::settled);
        for group in &groups {
            self.project(group, now);
            sessions.insert(group.session.key);
        }
        let folds = self.folds(&sessions, sweep, *is_last, now);
        if groups.is_empty() && folds.is_empty() {
            return self.note_settled(*serial);
        }
        let (chunks, turns) = rows(&groups);
        let settlement = Settlement { chunks: &chunks, turns: &turns, folds: &folds, settled: *serial };
        let Ok(refused) = self.persist(|database| database.settle(&settlement)) else { return false };
        turnstream_failpoint::reach("log.settled");
        self.reports.refused(refused);
        for (key, flush) in &folds {
            if let Some(projection) = self.projections.get_mut(key) {
                projection.written(flush, now);
            }
        }
        for group in groups {
            group.settled();
        }
        self.spares.settled(*serial);
        true
    }

    /// Gives free the segments that the database has whole although there was nothing to write. It notes that first: after a
    /// crash a segment that was used again would be missed. False when it had to give up.
    fn note_settled(&mut self, serial: u64) -> bool {
        if self.spares.are_settled(serial) {
            return true;
        }
        let noted = self.persist(|database| database.settled(serial)).is_ok();
        if noted {
            self.spares.settled(serial);
        }
        noted
    }

    /// Files a little of what was stored before and is not in the index. False when it had to give up.
    fn catch_up(&mut self) -> bool {
        let (key, epoch) = match self.catch_up.next() {
            Left::Nothing => return true,
            Left::Rows => {
                let Ok(more) = self.persist(Database::backfill) else { return false };
                self.catch_up.filed(more);
                return true;
            }
            Left::Session { key, epoch } => (key, epoch),
        };
        // One that somebody writes to has been folded since.
        if self.projections.contains_key(&key) {
            return true;
        }
        let now = Instant::now();
        let Some(mut projection) = self.load(key, epoch, now) else { return true };
        let folds = [(key, projection.flush())];
        let (chunks, turns) = (Chunks::default(), Vec::new());
        let settlement = Settlement { chunks: &chunks, turns: &turns, folds: &folds, settled: 0 };
        let Ok(refused) = self.persist(|database| database.settle(&settlement)) else { return false };
        self.reports.refused(refused);
        projection.written(&folds[0].1, now);
        self.projections.insert(key, projection);
        true
    }

    /// The stored fold with all that is stored after it, if it can be read.
    fn load(&self, key: i64, epoch: u64, now: Instant) -> Option<Projection> {
        let stored = self.readers.stored(key).map_err(|error| error.to_string());
        stored.and_then(|stored| Projection::load(stored, epoch, now)).ok()
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
            let Some(projection) = self.load(key, group.epoch, now) else { return };
            self.projections.insert(key, projection);
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

    fn persist<T>(
        &mut self,
        mut act: impl FnMut(&mut Database) -> Result<T, StoreError>,
    ) -> Result<T, String> {
        let mut pause = Duration::from_millis(10);
        let mut closing: Option<Instant> = None;
        loop {
            match act(&mut self.database) {
                Ok(done) => {
                    self.reports.health.sound();
                    return Ok(done);
                }
                Err(StoreError::Lasting(problem)) => {
                    self.reports.health.failed(&problem);
                    return Err(problem);
                }
                Err(StoreError::Passing(problem)) => {
                    self.reports.health.degraded(&problem);
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

    fn carry_out(&mut self, order: Order) {
        // Whoever asked may have gone away; what was asked is done all the same.
        match order {
            Order::Claim(claim) => self.claim(claim),
            Order::Delete(session, done) => drop(done.send(self.delete(&session))),
            Order::Trim(session, cut, done) => drop(done.send(self.trim(&session, &cut))),
            Order::Erase(done) => self.eraser.tell(done),
        }
    }

    fn delete(&mut self, session: &Session) -> Result<(), RemoveError> {
        let deleted = self.persist(|database| database.delete(session.key)).map_err(RemoveError::Store)?;
        session.delete();
        if !deleted {
            return Err(RemoveError::Unknown(session.id.to_string()));
        }
        self.leave(session);
        turnstream_failpoint::reach("log.deleted");
        Ok(())
    }

    /// Nothing more is done for a session that is gone, but to take it out of all files.
    fn leave(&mut self, session: &Session) {
        self.projections.remove(&session.key);
        self.catch_up.forget(session.key);
        self.eraser.want();
    }

    fn trim(&mut self, session: &Session, cut: &Cut) -> Result<bool, RemoveError> {
        self.store_fold(session).map_err(RemoveError::Store)?;
        let trimmed = self.persist(|database| database.trim(session.key, cut)).map_err(RemoveError::Store)?;
        if trimmed {
            // It is read again with the next events, without what is gone.
            self.projections.remove(&session.key);
            session.trim(cut.base.seq.next());
            self.eraser.want();
            turnstream_failpoint::reach("log.trimmed");
        }
        Ok(trimmed)
    }

    /// Brings the stored fold of a session up to its settled events. It is behind only after a crash: the end of a turn is
    /// stored with its fold.
    fn store_fold(&mut self, session: &Session) -> Result<(), String> {
        let (key, now) = (session.key, Instant::now());
        if self.projections.contains_key(&key) {
            return Ok(());
        }
        let stored = self.readers.stored(key).map_err(|error| error.to_string())?;
        let mut projection = Projection::load(stored, session.epoch(), now)?;
        if let Some(flush) = projection.due(now, Duration::ZERO) {
            let (chunks, folds) = (Chunks::default(), [(key, flush)]);
            let settlement = Settlement { chunks: &chunks, turns: &[], folds: &folds, settled: 0 };
            self.persist(|database| database.settle(&settlement))?;
            let [(_, flush)] = folds;
            projection.written(&flush, now);
        }
        Ok(())
    }

    /// A step of taking what was removed out of all files. What fails is tried again at the next.
    fn erase(&mut self) {
        let Self { eraser, database, readers, spares, reports, .. } = self;
        eraser.work(database, readers, spares, reports);
    }

    /// Claims come one after the other here, so that of two only one finds a session free.
    fn claim(&mut self, claim: Claim) {
        let Claim { wanted, done } = claim;
        let known = match wanted {
            Wanted::Reveal(session, native_id) if !session.is_all_settled() => {
                return self.unrevealed.push(Claim { wanted: Wanted::Reveal(session, native_id), done });
            }
            Wanted::New(id) => self.create(&id, Seen::AtOnce),
            Wanted::Import(id, base) => self.create(&id, Seen::Later { base: &base }),
            Wanted::Reveal(session, native_id) => self.reveal(&session, native_id.as_deref()),
            Wanted::GiveUp(session) => self.give_up(&session),
            Wanted::Next(session, Take::IfFree) if self.leases.is_held(session.key) => {
                Err(ClaimError::Held(session.id.to_string()))
            }
            Wanted::Next(session, Take::IfFree | Take::Over) => self.next_epoch(&session),
        };
        // If whoever asked has gone away, the epoch is taken all the same.
        let _ = done.send(known.map(|known| self.leases.hold(known)));
    }

    fn next_epoch(&mut self, session: &Session) -> Result<Known, ClaimError> {
        let epoch = self.persist(|database| database.next_epoch(session.key)).map_err(failure(session))?;
        let epoch = epoch.ok_or_else(|| ClaimError::Unknown(session.id.to_string()))?;
        session.set_epoch(epoch);
        Ok(known(session))
    }

    fn reveal(&mut self, session: &Session, native_id: Option<&str>) -> Result<Known, ClaimError> {
        self.persist(|database| database.reveal(session.key, native_id)).map_err(failure(session))?;
        Ok(known(session))
    }

    fn give_up(&mut self, session: &Session) -> Result<Known, ClaimError> {
        // Whoever wanted to show it has gone away.
        self.unrevealed.retain(|claim| match &claim.wanted {
            Wanted::Reveal(waiting, _) => waiting.key != session.key,
            Wanted::New(_) | Wanted::Import(..) | Wanted::GiveUp(_) | Wanted::Next(..) => true,
        });
        if self.persist(|database| database.give_up(session.key)).map_err(failure(session))? {
            session.delete();
            self.leave(session);
        }
        Ok(known(session))
    }

    fn create(&mut self, id: &SessionId, seen: Seen<'_>) -> Result<Known, ClaimError> {
        let failed = |problem| ClaimError::Store { session: id.to_string(), problem };
        let name = sqlite::fresh_generation();
        let key = self.persist(|database| database.create(id.as_str(), &name, seen)).map_err(failed)?;
        let key = key.ok_or_else(|| ClaimError::Exists(id.to_string()))?;
        let generation = Generation::new(name).map_err(|error| failed(error.to_string()))?;
        let head = match seen {
            Seen::AtOnce => Seq(0),
            Seen::Later { base } => base.seq,
        };
        Ok(Known { key, generation, epoch: FIRST_EPOCH, oldest: head.next(), head })
    }
}

/// A session as it is known here.
fn known(session: &Session) -> Known {
    let (generation, epoch) = (session.generation.clone(), session.epoch());
    Known { key: session.key, generation, epoch, oldest: session.oldest(), head: session.head() }
}

fn failure(session: &Session) -> impl Fn(String) -> ClaimError {
    |problem| ClaimError::Store { session: session.id.to_string(), problem }
}

/// Answers whoever still waits when the settler ends, however it ends.
struct Farewell {
    unsettled: Arc<Unsettled>,
    reports: Arc<Reports>,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        // Nothing can be settled any more: nothing more may be accepted.
        self.reports.gone();
        for order in self.unsettled.abandon() {
            match order {
                Order::Claim(claim) => drop(claim.done.send(Err(ClaimError::Closed))),
                Order::Delete(_, done) => drop(done.send(Err(RemoveError::Closed))),
                Order::Trim(_, _, done) => drop(done.send(Err(RemoveError::Closed))),
                // Whoever waits hears that nobody will tell.
                Order::Erase(done) => drop(done),
            }
        }
    }
}

/// The rows these commits become: chunks of one session each, and the turns that are open after them.
fn rows(groups: &[&Group]) -> (Chunks, Vec<TurnRow>) {
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
