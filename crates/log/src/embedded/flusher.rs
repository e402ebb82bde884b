//! The thread that owns the database: it flushes committed events from segments into SQLite, and records
//! owners.

use super::claims::Claim;
use super::erase::Eraser;
use super::flush_queue::{FlushQueue, FlushWork};
use super::full_disk;
use super::index_backlog::{BacklogTask, IndexBacklog};
use super::leases::Leases;
use super::reserve::Reserve;
use super::segment::{Pace, SegmentPool};
use super::sqlite::{Chunks, Database, FlushBatch, Readers, TurnRow};
use crate::batch::Group;
use crate::diagnostics::{DamagedFolds, Retried, answer};
use crate::error::{ClaimError, RemoveError, StoreFault, is_disk_full};
use crate::log::StoreReports;
use crate::projection::{FoldWrite, Projection};
use crate::session::Session;
use crate::store::{Cut, StoreError};
use crate::writer::{CLOSING, SLOWEST_RETRY};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tracing::{debug, info, warn};
use turnstream_model::Chain;
use turnstream_model::fold::Applied;

/// Folds of inactive sessions per transaction. The others wait for the next one, so that a thousand sessions
/// do not cause a burst.
const FOLDS_AT_ONCE: usize = 32;
/// How often to look for folds that are due without new events.
const SWEEP: Duration = Duration::from_millis(100);
/// The longest wait without work, for housekeeping.
const TICK: Duration = Duration::from_millis(100);
/// The same while a pass of the eraser is running: it works half of the time.
const ERASING: Duration = Duration::from_millis(20);
/// The size of SQLite's write-ahead log above which it is truncated, and how often to look. In its largest
/// steps SQLite needs an eighth of that.
const LARGE_LOG: u64 = 64 << 20;
const LOOK_AT_LOG: Duration = Duration::from_secs(2);
/// The pause after a transaction, as a multiple of its duration.
const REST: u32 = 4;
/// The nice value of the thread. On Linux it applies to the thread and not to the process.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;
/// A stored fold that was not used for this long is dropped from memory.
const IDLE: Duration = Duration::from_secs(60);
/// The same beyond [`MANY`] folds. A session that is in use says something more often.
const IDLE_OF_MANY: Duration = Duration::from_secs(5);
const MANY: usize = 1_000;

/// A command to the flusher.
pub(crate) enum FlusherCommand {
    Claim(Claim),
    /// Delete a session.
    Delete(Arc<Session>, oneshot::Sender<Result<(), RemoveError>>),
    /// Remove the beginning of a session.
    Trim(Arc<Session>, Box<Cut>, oneshot::Sender<Result<bool, RemoveError>>),
    /// Answer when everything that was removed is erased from every file.
    Erase(oneshot::Sender<()>),
}

/// The state of the flusher thread.
pub(crate) struct Flusher {
    pub(crate) database: Database,
    pub(crate) readers: Arc<Readers>,
    pub(crate) pool: Arc<SegmentPool>,
    /// How long the stored fold of an active session may lag behind.
    pub(crate) debounce: Duration,
    pub(crate) projections: HashMap<i64, Projection>,
    pub(crate) queue: Arc<FlushQueue>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) index_backlog: Arc<IndexBacklog>,
    /// Imports that are published as soon as they are flushed.
    pub(crate) unpublished_imports: Vec<Claim>,
    pub(crate) reports: Arc<StoreReports>,
    pub(crate) eraser: Eraser,
    pub(crate) damaged_folds: Arc<DamagedFolds>,
    pub(crate) checkpoints: Retried,
    pub(crate) segment_files: Retried,
    pub(crate) reserve: Reserve,
    pub(crate) reserve_file: Retried,
    /// A delete is being recorded, which may use the reserve.
    pub(crate) is_removing: bool,
    /// How many deletes were recorded.
    pub(crate) deletes: Arc<AtomicU64>,
}

/// Whether a batch was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flushed {
    Done,
    /// A session was deleted first.
    Outdated,
}

impl Flusher {
    /// Runs until the writer has ended and everything is flushed.
    pub(crate) fn run(mut self) {
        let _answer = AnswerOnExit { queue: self.queue.clone(), reports: self.reports.clone() };
        // Commits and followers have priority. The delay of this thread is bounded by the budget.
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::nice(NICE) {
            debug!(error = %Chain(&error), "the flusher runs at normal priority");
        }
        let (mut swept, mut looked, mut rest) = (Instant::now(), Instant::now(), Duration::ZERO);
        self.keep_reserve();
        loop {
            let within = if self.eraser.is_under_way() { ERASING } else { TICK };
            let mut work = self.queue.next_work(rest, within);
            let (begin, is_last) = (Instant::now(), work.is_last);
            for command in std::mem::take(&mut work.commands) {
                self.execute(command);
            }
            let sweep = is_last || swept.elapsed() >= SWEEP;
            if sweep {
                swept = Instant::now();
                self.drop_idle_folds(swept);
            }
            self.remove_rows_first();
            self.database.set_urgent(work.is_urgent && !self.reserve.is_released());
            if !self.flush(&work, sweep) {
                // The events are only in memory and in segments, and readers must still find them.
                self.queue.push_back(work);
                return self.stopped_early();
            }
            drop(work);
            for claim in std::mem::take(&mut self.unpublished_imports) {
                self.claim(claim);
            }
            if is_last {
                break;
            }
            if !self.index_backlog_step() {
                return self.stopped_early();
            }
            self.queue.answer_requests(self.index_backlog.is_done());
            self.erase();
            if looked.elapsed() >= LOOK_AT_LOG {
                looked = Instant::now();
                let truncated = self.database.keep_log_below(LARGE_LOG, &self.readers);
                self.checkpoints.note(truncated);
                self.keep_reserve();
            }
            if self.reserve.leaves_room_for(self.pool.ready_bytes()) {
                let topped_up = self.pool.top_up(Pace::InSteps);
                self.segment_files.note(topped_up);
            }
            rest = begin.elapsed() * REST;
        }
        let Self { database, projections, .. } = self;
        database.close();
        free_in_background(projections);
    }

    /// Drops folds that are stored and were not used for long; of many, those that were not used for longest.
    fn drop_idle_folds(&mut self, now: Instant) {
        self.projections.retain(|_, projection| !projection.is_idle(now, IDLE));
        let Some(too_many) = self.projections.len().checked_sub(MANY).filter(|too_many| *too_many > 0) else {
            return;
        };
        let idle = self.projections.iter().filter(|(_, projection)| projection.is_idle(now, IDLE_OF_MANY));
        let mut idle: Vec<(Instant, i64)> =
            idle.map(|(key, projection)| (projection.touched(), *key)).collect();
        idle.sort_unstable();
        for (_, key) in idle.into_iter().take(too_many) {
            self.projections.remove(&key);
        }
    }

    fn stopped_early(&self) {
        warn!("the flusher stopped; the next start reads the remaining events from the segments");
    }

    /// Flushes a round of work. False if it had to give up; the segments still have everything.
    fn flush(&mut self, work: &FlushWork, sweep: bool) -> bool {
        if !self.reserve.is_tight() {
            return self.flush_piece(&work.groups, work.serial, sweep, work.is_last);
        }
        let mut pieces = full_disk::pieces(&work.groups);
        let last = pieces.pop().unwrap_or_default();
        pieces.into_iter().all(|piece| self.flush_piece(piece, 0, false, false))
            && self.flush_piece(last, work.serial, sweep, work.is_last)
    }

    /// Flushes these commits in one transaction. After it, the database has every segment up to `serial`.
    fn flush_piece(&mut self, groups: &[Group], serial: u64, sweep: bool, is_last: bool) -> bool {
        let now = Instant::now();
        let mut groups: Vec<&Group> = groups.iter().collect();
        for group in groups.iter().filter(|group| !group.session.is_deleted()) {
            self.project(group, now);
        }
        loop {
            // Events of deleted sessions are dropped.
            groups.extract_if(.., |group| group.session.is_deleted()).for_each(Group::mark_flushed);
            let sessions: HashSet<i64> = groups.iter().map(|group| group.session.key).collect();
            let folds = self.folds(&sessions, sweep, is_last, now);
            if groups.is_empty() && folds.is_empty() {
                return self.note_flushed(serial);
            }
            let (chunks, turns) = rows(&groups);
            let batch = FlushBatch { chunks: &chunks, turns: &turns, folds: &folds, flushed_segment: serial };
            match self.persist_batch(&batch) {
                Err(_) => return false,
                Ok(Flushed::Outdated) => continue,
                Ok(Flushed::Done) => {}
            }
            turnstream_failpoint::reach("log.settled");
            for (key, flush) in &folds {
                if let Some(projection) = self.projections.get_mut(key) {
                    projection.written(flush, now);
                }
            }
            groups.into_iter().for_each(Group::mark_flushed);
            self.pool.mark_flushed(serial);
            return true;
        }
    }

    /// Writes a batch, unless a session was deleted while it waited for room: it may have rows of that one.
    fn persist_batch(&mut self, batch: &FlushBatch<'_>) -> Result<Flushed, StoreFault> {
        let deletes = self.deletes.clone();
        let before = deletes.load(Ordering::Relaxed);
        let refused = self.persist(|database| {
            let is_current = deletes.load(Ordering::Relaxed) == before;
            is_current.then(|| database.flush(batch)).transpose()
        })?;
        let Some(refused) = refused else { return Ok(Flushed::Outdated) };
        self.reports.refused(refused);
        Ok(Flushed::Done)
    }

    /// Frees the segments that the database has completely, although there was nothing to write. The database
    /// records it first: after a crash, a reused segment would be reported missing. False if it had to give
    /// up.
    fn note_flushed(&mut self, serial: u64) -> bool {
        if self.pool.are_flushed(serial) {
            return true;
        }
        let noted = self.persist(|database| database.mark_flushed(serial)).is_ok();
        if noted {
            self.pool.mark_flushed(serial);
        }
        noted
    }

    /// Indexes a part of the backlog. False if it had to give up.
    fn index_backlog_step(&mut self) -> bool {
        let (key, epoch) = match self.index_backlog.next() {
            BacklogTask::Nothing => return true,
            BacklogTask::Rows => {
                let Ok(more) = self.persist(Database::backfill) else { return false };
                self.index_backlog.rows_indexed(more);
                if !more {
                    info!("the search index has every stored row");
                }
                return true;
            }
            BacklogTask::Session { key, epoch } => (key, epoch),
        };
        // A session with new events has been folded since.
        if self.projections.contains_key(&key) {
            return true;
        }
        let now = Instant::now();
        let loaded = load(&self.readers, &self.damaged_folds, key, epoch, now);
        let Some(mut projection) = loaded else { return true };
        let folds = [(key, projection.full_write())];
        let (chunks, turns) = (Chunks::default(), Vec::new());
        let batch = FlushBatch { chunks: &chunks, turns: &turns, folds: &folds, flushed_segment: 0 };
        match self.persist_batch(&batch) {
            Err(_) => return false,
            // It is found again, unless it was the one.
            Ok(Flushed::Outdated) => return true,
            Ok(Flushed::Done) => {}
        }
        projection.written(&folds[0].1, now);
        self.projections.insert(key, projection);
        true
    }

    /// The folds to write: of these sessions, and in a sweep of some others.
    fn folds(
        &self,
        sessions: &HashSet<i64>,
        sweep: bool,
        is_last: bool,
        now: Instant,
    ) -> Vec<(i64, FoldWrite)> {
        let debounce = if is_last { Duration::ZERO } else { self.debounce };
        let most = if is_last { usize::MAX } else { FOLDS_AT_ONCE };
        let flush = |(key, projection): (&i64, &Projection)| Some((*key, projection.due(now, debounce)?));
        let others = self.projections.iter().filter(|(key, _)| sweep && !sessions.contains(key));
        let ours = sessions.iter().filter_map(|key| self.projections.get_key_value(key));
        ours.filter_map(flush).chain(others.filter_map(flush).take(most)).collect()
    }

    /// Applies new events to the fold of a session. A fold that cannot be read is skipped: readers rebuild it
    /// from the events.
    fn project(&mut self, group: &Group, now: Instant) {
        let key = group.session.key;
        let projection = match self.projections.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let loaded = load(&self.readers, &self.damaged_folds, key, group.epoch, now);
                let Some(projection) = loaded else { return };
                new.insert(projection)
            }
        };
        for (event, committed) in group.parsed.iter().zip(&group.events) {
            let applied = projection.apply(event, committed.json().len(), group.epoch, now);
            if let Applied::Gap { expected } = applied {
                // The fold does not match the events. It is loaded again with the next events.
                debug!(session = %group.session.id, %expected, found = %event.seq, "a fold was dropped");
                self.projections.remove(&key);
                return;
            }
        }
    }

    /// Runs this until it succeeds. Gives up if the store has failed permanently, or if the log is closing.
    pub(super) fn persist<T>(
        &mut self,
        mut act: impl FnMut(&mut Database) -> Result<T, StoreError>,
    ) -> Result<T, StoreFault> {
        let mut pause = Duration::from_millis(10);
        let mut closing: Option<Instant> = None;
        loop {
            let before = self.database.revision().get();
            match act(&mut self.database) {
                Ok(done) => {
                    // Without a transaction, nothing is known about the disk.
                    if self.database.revision().get() != before {
                        self.reports.health.sound();
                    }
                    return Ok(done);
                }
                Err(StoreError::Permanent(fault)) => {
                    self.reports.health.failed(&fault);
                    return Err(fault);
                }
                Err(StoreError::Transient(fault)) => {
                    self.reports.health.degraded(&fault);
                    if is_disk_full(fault.get_ref()) {
                        self.make_room();
                    }
                    if self.queue.has_ended() && closing.get_or_insert_with(Instant::now).elapsed() > CLOSING
                    {
                        return Err(fault);
                    }
                }
            }
            // The eraser makes the room that is missing.
            thread::sleep(if self.eraser.is_under_way() { ERASING.min(pause) } else { pause });
            pause = (pause * 2).min(SLOWEST_RETRY);
        }
    }

    pub(super) fn execute(&mut self, command: FlusherCommand) {
        // The command is executed even if its caller has stopped waiting.
        match command {
            FlusherCommand::Claim(claim) => self.claim(claim),
            FlusherCommand::Delete(session, done) => answer(done, self.delete(&session)),
            FlusherCommand::Trim(session, cut, done) => answer(done, self.trim(&session, &cut)),
            FlusherCommand::Erase(done) => self.eraser.notify_when_done(done),
        }
    }

    fn delete(&mut self, session: &Session) -> Result<(), RemoveError> {
        self.is_removing = true;
        let deleted = self.persist(|database| database.delete(session.key));
        self.is_removing = false;
        self.deletes.fetch_add(1, Ordering::Relaxed);
        let deleted = deleted.map_err(RemoveError::Store)?;
        session.delete();
        if !deleted {
            return Err(RemoveError::Unknown(session.id.to_string()));
        }
        self.forget(session);
        turnstream_failpoint::reach("log.deleted");
        Ok(())
    }

    /// Forgets a session that was deleted, and requests that its bytes are erased.
    pub(super) fn forget(&mut self, session: &Session) {
        self.projections.remove(&session.key);
        self.index_backlog.forget(session.key);
        self.eraser.request_pass();
    }

    fn trim(&mut self, session: &Session, cut: &Cut) -> Result<bool, RemoveError> {
        self.store_fold(session).map_err(RemoveError::Store)?;
        let trimmed = self.persist(|database| database.trim(session.key, cut)).map_err(RemoveError::Store)?;
        if trimmed {
            // Loaded again with the next events, without the trimmed part.
            self.projections.remove(&session.key);
            session.trim(cut.base.seq.next());
            self.eraser.request_pass();
            turnstream_failpoint::reach("log.trimmed");
        }
        Ok(trimmed)
    }

    /// Brings the stored fold of a session up to its flushed events. It lags only after a crash, because the
    /// end of a turn is stored together with its fold.
    fn store_fold(&mut self, session: &Session) -> Result<(), StoreFault> {
        let (key, now) = (session.key, Instant::now());
        if self.projections.contains_key(&key) {
            return Ok(());
        }
        let stored = self.readers.stored(key).map_err(StoreFault::new)?;
        let mut projection = Projection::load(stored, session.epoch(), now).map_err(StoreFault::new)?;
        if let Some(flush) = projection.due(now, Duration::ZERO) {
            let (chunks, folds) = (Chunks::default(), [(key, flush)]);
            let batch = FlushBatch { chunks: &chunks, turns: &[], folds: &folds, flushed_segment: 0 };
            // If a session was deleted meanwhile, the trim finds the fold behind, and changes nothing.
            if self.persist_batch(&batch)? == Flushed::Done {
                let [(_, flush)] = folds;
                projection.written(&flush, now);
            }
        }
        Ok(())
    }
}

/// Loads the stored fold of a session with the events after it. `None` if it cannot be read.
fn load(
    readers: &Readers,
    damaged_folds: &DamagedFolds,
    key: i64,
    epoch: u64,
    now: Instant,
) -> Option<Projection> {
    let stored = match readers.stored(key) {
        Ok(stored) => stored,
        Err(error) => {
            debug!(session_key = key, error = %Chain(&error), "a stored fold cannot be read now");
            return None;
        }
    };
    match Projection::load(stored, epoch, now) {
        Ok(projection) => Some(projection),
        Err(error) => {
            damaged_folds.note(key, || readers.name_of(key), &error);
            None
        }
    }
}

/// Whoever closes the log waits for this thread, and a shutdown must not wait until gigabytes are freed.
fn free_in_background(projections: HashMap<i64, Projection>) {
    // If no thread can be started, they are freed here.
    if let Err(error) = thread::Builder::new().name("log-free".into()).spawn(move || drop(projections)) {
        debug!(error = %Chain(&error), "no thread to free memory in");
    }
}

/// Answers the remaining callers when the flusher ends, for whatever reason.
struct AnswerOnExit {
    queue: Arc<FlushQueue>,
    reports: Arc<StoreReports>,
}

impl Drop for AnswerOnExit {
    fn drop(&mut self) {
        // Nothing can be flushed any more, so no appends may be accepted.
        self.reports.store_ended();
        for command in self.queue.close() {
            match command {
                FlusherCommand::Claim(claim) => answer(claim.done, Err(ClaimError::Closed)),
                FlusherCommand::Delete(_, done) => answer(done, Err(RemoveError::Closed)),
                FlusherCommand::Trim(_, _, done) => answer(done, Err(RemoveError::Closed)),
                // The caller sees that its channel was closed.
                FlusherCommand::Erase(done) => drop(done),
            }
        }
    }
}

/// The rows of these commits: chunks of one session each, and changes of the open turns.
fn rows(groups: &[&Group]) -> (Chunks, Vec<TurnRow>) {
    let mut chunks = Chunks::default();
    let mut turns = Vec::new();
    for group in groups {
        let key = group.session.key;
        for event in &group.events {
            // Events are JSON, which is UTF-8.
            chunks.push(key, event.seq(), &String::from_utf8_lossy(event.json()));
        }
        turns.extend(group.turns.iter().map(|change| TurnRow::new(key, group.epoch, change)));
    }
    (chunks, turns)
}
