//! Taking what was removed out of all files, a step at a time, beside the settler's work.
//!
//! Readers do not find what was deleted or trimmed. Its bytes are still there: in rows, in SQLite's own log, in segments that
//! are written, wait or are free, and where SQLite left copies of rows. A pass goes through all of them in this order, so that
//! nothing comes back where it was already looked for. A pass that a crash cuts off is begun anew at the next start.

use super::segment::Spares;
use super::sqlite::{Database, More, Readers, Separator};
use crate::log::Reports;
use crate::store::StoreError;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long a pass works before the settler does something else.
const AT_ONCE: Duration = Duration::from_millis(20);
/// Pages of the database that may wait to be looked at when nothing was removed: 64 MiB. A removal has to look at no more than
/// these and what is written meanwhile.
const UNSCRUBBED: usize = 16_384;

/// What is under way.
#[derive(Clone, Copy)]
enum Stage {
    /// Nothing is wanted.
    Rest,
    Rows,
    /// What the index keeps of words that were in them.
    Separators,
    /// The writer shall leave its segment. One that has filled up meanwhile is not enough: a commit that began before the
    /// removal may be on its way into the next.
    Turn,
    /// Up to this segment, everything shall be settled and overwritten.
    Segments(u64),
    /// Pages of the database.
    Pages,
    /// The same while nothing is wanted, so that few are left when something is.
    Tidy,
}

/// What a step came to.
enum Step {
    /// There is more to do, now.
    Done(Stage),
    /// Somebody else has to do something first.
    Wait,
}

/// Takes what was removed out of all files.
pub(crate) struct Eraser {
    stage: Stage,
    /// How far the index is looked through.
    separator: Separator,
    /// Something was removed since the pass began.
    wanted: bool,
    /// Who is told when the pass has ended, and when the next one has.
    told: Vec<oneshot::Sender<()>>,
    told_next: Vec<oneshot::Sender<()>>,
}

impl Eraser {
    /// `wanted`: the last run of the log left something.
    pub(crate) fn new(wanted: bool) -> Self {
        Self {
            stage: Stage::Rest,
            separator: Separator::default(),
            wanted,
            told: Vec::new(),
            told_next: Vec::new(),
        }
    }

    /// True while there is something to take out of the files.
    pub(crate) fn is_under_way(&self) -> bool {
        match self.stage {
            Stage::Rest | Stage::Tidy => self.wanted,
            Stage::Rows | Stage::Separators | Stage::Turn | Stage::Segments(_) | Stage::Pages => true,
        }
    }

    /// Something was removed.
    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    /// Tells when everything that was removed so far is out of all files.
    pub(crate) fn tell(&mut self, done: oneshot::Sender<()>) {
        match (self.stage, self.wanted) {
            // If nobody waits any more, nobody is told.
            (Stage::Rest | Stage::Tidy, false) => drop(done.send(())),
            (_, true) => self.told_next.push(done),
            (_, false) => self.told.push(done),
        }
    }

    /// Works for a moment.
    pub(crate) fn work(
        &mut self,
        database: &mut Database,
        readers: &Readers,
        spares: &Spares,
        reports: &Reports,
    ) {
        let begin = Instant::now();
        match self.stage {
            Stage::Rest | Stage::Tidy if self.wanted => {
                self.wanted = false;
                self.told.append(&mut self.told_next);
                self.stage = Stage::Rows;
            }
            Stage::Rest if database.unscrubbed().is_some_and(|pages| pages >= UNSCRUBBED) => {
                database.begin_scrub();
                self.stage = Stage::Tidy;
            }
            _ => {}
        }
        while !matches!(self.stage, Stage::Rest) && begin.elapsed() < AT_ONCE {
            match self.step(database, readers, spares, reports) {
                Ok(Step::Done(stage)) => self.stage = stage,
                // An error is tried again: what is removed has been found by nobody since it was.
                Ok(Step::Wait) | Err(_) => return,
            }
        }
    }

    fn step(
        &mut self,
        database: &mut Database,
        readers: &Readers,
        spares: &Spares,
        reports: &Reports,
    ) -> Result<Step, StoreError> {
        let passing = |error: std::io::Error| StoreError::Passing(error.to_string());
        Ok(Step::Done(match self.stage {
            Stage::Rest => return Ok(Step::Wait),
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
                    spares.want_turn();
                    reports.nudge();
                    Stage::Turn
                }
            },
            Stage::Turn if spares.is_turn_wanted() => {
                // It may have failed, and then nobody would try it again.
                reports.nudge();
                return Ok(Step::Wait);
            }
            Stage::Turn => Stage::Segments(spares.current().saturating_sub(1)),
            Stage::Segments(last) if !spares.are_settled(last) => return Ok(Step::Wait),
            Stage::Segments(last) => match spares.stale() {
                Some(serial) => {
                    database.settled(serial)?;
                    spares.erase_one().map_err(passing)?;
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
                        Stage::Rest
                    }
                }
            }
            Stage::Tidy => match database.scrub_some(readers)? {
                None => return Ok(Step::Wait),
                Some(More::Yes) => Stage::Tidy,
                Some(More::No) => Stage::Rest,
            },
        }))
    }

    fn finish(&mut self, database: &mut Database, reports: &Reports) -> Result<(), StoreError> {
        if !self.wanted {
            database.removed()?;
        }
        reports.erased();
        for done in self.told.drain(..) {
            // Whoever waited may have gone away.
            let _ = done.send(());
        }
        Ok(())
    }
}
