//! Erases deleted and trimmed data from every file, step by step, between flushes.
//!
//! Readers no longer find the data, but its bytes are still in rows, in SQLite's write-ahead log, in
//! segments, and where SQLite left copies of rows. A pass visits these places in an order in which no bytes
//! come back to a place that was already erased. A pass that a crash interrupts starts again at the next
//! start.

use super::segment::SegmentPool;
use super::sqlite::{Database, More, Readers, Separator};
use crate::log::StoreReports;
use crate::store::StoreError;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

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
        }
    }

    /// True while removed data has to be erased.
    pub(crate) fn is_under_way(&self) -> bool {
        match self.stage {
            Stage::Idle | Stage::BackgroundScrub => self.is_requested,
            Stage::Rows | Stage::Separators | Stage::Rotation | Stage::Segments(_) | Stage::Pages => true,
        }
    }

    /// Something was removed.
    pub(crate) fn request_pass(&mut self) {
        self.is_requested = true;
    }

    /// Notifies the caller when everything removed so far is erased.
    pub(crate) fn notify_when_done(&mut self, done: oneshot::Sender<()>) {
        match (self.stage, self.is_requested) {
            // The caller may have stopped waiting.
            (Stage::Idle | Stage::BackgroundScrub, false) => drop(done.send(())),
            (_, true) => self.waiting_for_next.push(done),
            (_, false) => self.waiting.push(done),
        }
    }

    /// Works for one time slice.
    pub(crate) fn work(
        &mut self,
        database: &mut Database,
        readers: &Readers,
        pool: &SegmentPool,
        reports: &StoreReports,
    ) {
        let begin = Instant::now();
        match self.stage {
            Stage::Idle | Stage::BackgroundScrub if self.is_requested => {
                self.is_requested = false;
                self.waiting.append(&mut self.waiting_for_next);
                self.stage = Stage::Rows;
            }
            Stage::Idle if database.unscrubbed().is_some_and(|pages| pages >= BACKGROUND_PAGES) => {
                database.begin_scrub();
                self.stage = Stage::BackgroundScrub;
            }
            _ => {}
        }
        while !matches!(self.stage, Stage::Idle) && begin.elapsed() < SLICE {
            match self.step(database, readers, pool, reports) {
                Ok(Step::Done(stage)) => self.stage = stage,
                Ok(Step::Wait) | Err(_) => return,
            }
        }
    }

    fn step(
        &mut self,
        database: &mut Database,
        readers: &Readers,
        pool: &SegmentPool,
        reports: &StoreReports,
    ) -> Result<Step, StoreError> {
        let passing = |error: std::io::Error| StoreError::Transient(error.to_string());
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
                    pool.erase_one().map_err(passing)?;
                    Stage::Segments(last)
                }
                None => {
                    database.begin_scrub();
                    Stage::Pages
                }
            },
            Stage::Pages => {
                let Some(more) = database.scrub_some(readers)? else {
                    return Ok(Step::Wait);
                };
                turnstream_failpoint::reach("log.erase.pages");
                match more {
                    More::Yes => Stage::Pages,
                    More::No => {
                        self.finish(database, reports)?;
                        Stage::Idle
                    }
                }
            }
            Stage::BackgroundScrub => match database.scrub_some(readers)? {
                None => return Ok(Step::Wait),
                Some(More::Yes) => Stage::BackgroundScrub,
                Some(More::No) => Stage::Idle,
            },
        }))
    }

    fn finish(&mut self, database: &mut Database, reports: &StoreReports) -> Result<(), StoreError> {
        if !self.is_requested {
            database.removed()?;
        }
        reports.erased();
        for done in self.waiting.drain(..) {
            let _ = done.send(());
        }
        Ok(())
    }
}
