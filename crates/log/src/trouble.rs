//! A time in which nothing could be made durable, and who had to wait for its end.

use crate::batch::{Batch, Group, Source, Waited};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use turnstream_model::time::Time;

/// Who waited no longer than this behind a commit that failed need not hear of it.
const NOTICEABLE: Duration = Duration::from_millis(100);
/// Events that waited for room before they could wait for the commit may come so long after the end of the trouble.
const LINGERS: Duration = Duration::from_secs(60);

/// The last one, and who has been told.
pub(crate) struct Trouble {
    problem: Arc<str>,
    ended: Instant,
    told: HashSet<i64>,
}

impl Trouble {
    /// It is over now.
    pub(crate) fn ended(problem: &str) -> Self {
        Self { problem: problem.into(), ended: Instant::now(), told: HashSet::new() }
    }

    /// True when nobody comes any more who waited for its end.
    pub(crate) fn is_past(&self) -> bool {
        self.ended.elapsed() > LINGERS
    }

    /// Those in the commit that failed, who are told in any case.
    pub(crate) fn struck(&mut self, batch: &Batch) -> Vec<Waited> {
        self.tell(batch, |_| true)
    }

    /// Those in a later commit whose events waited noticeably behind it.
    pub(crate) fn held_up(&mut self, batch: &Batch) -> Vec<Waited> {
        let ended = self.ended;
        self.tell(batch, |group| group.since < ended && group.since.elapsed() >= NOTICEABLE)
    }

    /// Each session once. Not one that is imported: a notice would stand among events of another time, and in their place.
    fn tell(&mut self, batch: &Batch, is_meant: impl Fn(&Group) -> bool) -> Vec<Waited> {
        let happening = batch.groups.iter().filter(|group| group.source == Source::Session);
        let meant = happening.filter(|group| is_meant(group));
        let new = meant.filter(|group| self.told.insert(group.session.key));
        new.map(|group| Waited {
            session: group.session.clone(),
            epoch: group.epoch,
            time: group.parsed.last().map_or(Time(0), |event| event.time),
            wait: group.since.elapsed(),
            problem: self.problem.clone(),
        })
        .collect()
    }
}
