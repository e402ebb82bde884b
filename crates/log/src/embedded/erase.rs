//! Erases deleted and trimmed data from every file, step by step, between flushes.
//!
//! Readers no longer find the data, but its bytes are still in rows, in SQLite's write-ahead log, in
//! segments, and where SQLite left copies of rows. A pass visits these places in an order in which no bytes
//! come back to a place that was already erased. A pass that a crash interrupts starts again at the next
//! start.

use super::segment::SegmentPool;
use super::sqlite::{Database, More, Readers, Separator};
use crate::diagnostics::{Retried, answer};
use crate::log::StoreReports;
use crate::store::StoreError;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tracing::debug;

/// How long a pass works before the flusher continues with other work.
const SLICE: Duration = Duration::from_millis(20);
/// Changed database pages at which a background scrub starts: 64 MiB. A removal then has to scrub no more
/// than these and the pages written meanwhile.
const BACKGROUND_PAGES: usize = 16_384;

/// The stage of a pass.
#[derive(Clone, Copy)]
enum Stage {
    /// No pass is running.
    Idle,
    Rows,
    /// Prefixes of removed words that FTS5 keeps in its page index.
    Separators,
    /// The writer must change to a new segment. A segment that fills up meanwhile does not count: a commit
    /// that began before the removal may still go into the next one.
    Rotation,
    /// Flush and overwrite every segment up to this one.
    Segments(u64),
    /// Scrub unused bytes in database pages.
    Pages,
    /// Background scrub: runs when no removal is pending, so a later removal has few pages left.
    BackgroundScrub,
}

/// The result of a step.
enum Step {
    /// Continue with this stage.
    Done(Stage),
    /// Another thread has to act first.
    Wait,
}

/// Erases deleted and trimmed data from every file.
pub(crate) struct Eraser {
    stage: Stage,
    /// The progress through the page index of FTS5.
    separator: Separator,
    /// Something was removed since the pass began, so another pass is needed.
    is_requested: bool,
    /// Callers that wait for this pass, and for the next one.
    waiting: Vec<oneshot::Sender<()>>,
    waiting_for_next: Vec<oneshot::Sender<()>>,
    /// When the pass began.
    began: Instant,
    steps: Retried,
}

impl Eraser {
    /// `is_requested`: an earlier run stopped before it had erased everything.
    pub(crate) fn new(is_requested: bool) -> Self {
        Self {
            stage: Stage::Idle,
            separator: Separator::default(),
            is_requested,
            waiting: Vec::new(),
            waiting_for_next: Vec::new(),
            began: Instant::now(),
            steps: Retried::new("erasing removed data"),
        }
    }

    /// True while removed data has to be erased.
    pub(crate) fn is_under_way(&self) -> bool {
        match self.stage {
            Stage::Idle | Stage::BackgroundScrub => self.is_requested,
            Stage::Rows | Stage::Separators | Stage::Rotation | Stage::Segments(_) | Stage::Pages => true,
        }
    }

    /// True while rows have to be removed from the database, which needs room on the disk.
    pub(crate) fn needs_room(&self) -> bool {
        match self.stage {
            Stage::Rows | Stage::Separators => true,
            Stage::Idle | Stage::BackgroundScrub => self.is_requested,
            // The writer may need a new file for them.
            Stage::Rotation | Stage::Segments(_) | Stage::Pages => false,
        }
    }

    /// Something was removed.
    pub(crate) fn request_pass(&mut self) {
        self.is_requested = true;
    }

    /// Notifies the caller when everything removed so far is erased.
    pub(crate) fn notify_when_done(&mut self, done: oneshot::Sender<()>) {
        match (self.stage, self.is_requested) {
            (Stage::Idle | Stage::BackgroundScrub, false) => answer(done, ()),
            (_, true) => self.waiting_for_next.push(done),
            (_, false) => self.waiting.push(done),
        }
    }

    /// Works for one time slice. False if the disk is full.
    pub(crate) fn work(
        &mut self,
        database: &mut Database,
        readers: &Readers,
        pool: &SegmentPool,
        reports: &StoreReports,
    ) -> bool {
        let begin = Instant::now();
        match self.stage {
            Stage::Idle | Stage::BackgroundScrub if self.is_requested => {
                self.is_requested = false;
                self.waiting.append(&mut self.waiting_for_next);
                self.stage = Stage::Rows;
                self.began = Instant::now();
                debug!("erasing removed data from every file");
            }
            Stage::Idle if database.unscrubbed().is_some_and(|pages| pages >= BACKGROUND_PAGES) => {
                debug!(pages = database.unscrubbed(), "background scrub begins");
                database.begin_scrub();
                self.stage = Stage::BackgroundScrub;
            }
            _ => {}
        }
        while !matches!(self.stage, Stage::Idle) && begin.elapsed() < SLICE {
            let step = self.step(database, readers, pool, reports);
            let is_full = step.as_ref().err().is_some_and(StoreError::is_disk_full);
            // Until a step succeeds, readers already cannot find the removed data.
            match self.steps.note(step) {
                Some(Step::Done(stage)) => self.stage = stage,
                Some(Step::Wait) | None => return !is_full,
            }
        }
        true
    }

    fn step(
        &mut self,
        database: &mut Database,
        readers: &Readers,
        pool: &SegmentPool,
        reports: &StoreReports,
    ) -> Result<Step, StoreError> {
        Ok(Step::Done(match self.stage {
            Stage::Idle => return Ok(Step::Wait),
            Stage::Rows => match database.remove_some()? {
                More::Yes => Stage::Rows,
                More::No => {
                    self.separator = Separator::default();
                    Stage::Separators
                }
            },
            Stage::Separators => match database.renew_separators(&mut self.separator)? {
                More::Yes => Stage::Separators,
                More::No => {
                    turnstream_failpoint::reach("log.erase.separators");
                    pool.request_rotation();
                    reports.wake_writer();
                    Stage::Rotation
                }
            },
            Stage::Rotation if pool.is_rotation_requested() => {
                // The rotation may have failed, and is retried only when the writer runs.
                reports.wake_writer();
                return Ok(Step::Wait);
            }
            Stage::Rotation => Stage::Segments(pool.current().saturating_sub(1)),
            Stage::Segments(last) if !pool.are_flushed(last) => return Ok(Step::Wait),
            Stage::Segments(last) => match pool.stale() {
                Some(serial) => {
                    database.mark_flushed(serial)?;
                    pool.erase_one()?;
                    Stage::Segments(last)
                }
                None => {
                    database.begin_scrub();
                    Stage::Pages
                }
            },
            Stage::Pages => match self.scrub_step(database, readers, reports)? {
                None => return Ok(Step::Wait),
                Some(stage) => stage,
            },
            Stage::BackgroundScrub => match database.scrub_some(readers)? {
                None => return Ok(Step::Wait),
                Some(More::Yes) => Stage::BackgroundScrub,
                Some(More::No) => Stage::Idle,
            },
        }))
    }

    /// Scrubs some pages, and ends the pass after the last one. `None` while a reader is in the way.
    fn scrub_step(
        &mut self,
        database: &mut Database,
        readers: &Readers,
        reports: &StoreReports,
    ) -> Result<Option<Stage>, StoreError> {
        let Some(more) = database.scrub_some(readers)? else { return Ok(None) };
        turnstream_failpoint::reach("log.erase.pages");
        match more {
            More::Yes => Ok(Some(Stage::Pages)),
            More::No => {
                self.finish(database, reports)?;
                Ok(Some(Stage::Idle))
            }
        }
    }

    fn finish(&mut self, database: &mut Database, reports: &StoreReports) -> Result<(), StoreError> {
        if !self.is_requested {
            database.removed()?;
        }
        reports.erased();
        let millis = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        debug!(millis, "removed data is erased from every file");
        for done in self.waiting.drain(..) {
            answer(done, ());
        }
        Ok(())
    }
}
