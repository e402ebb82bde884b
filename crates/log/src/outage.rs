//! A period in which commits failed, and the sessions that were delayed by it.

use crate::batch::{Batch, DelayedSession, Group, Source};
use crate::error::StoreFault;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use turnstream_model::time::Time;

/// A delay of at most this behind a failed commit needs no notice.
const NOTICEABLE: Duration = Duration::from_millis(100);
/// How long after the end of an outage delayed events may still arrive: they may have waited for the byte
/// budget first.
const LINGERS: Duration = Duration::from_secs(60);

/// The latest outage, and the sessions that have a notice of it.
pub(crate) struct Outage {
    problem: Arc<str>,
    ended: Instant,
    notified: HashSet<i64>,
}

impl Outage {
    /// An outage that ends now.
    pub(crate) fn ended(fault: &StoreFault) -> Self {
        Self { problem: fault.to_string().into(), ended: Instant::now(), notified: HashSet::new() }
    }

    /// True when no delayed events can arrive any more.
    pub(crate) fn is_past(&self) -> bool {
        self.ended.elapsed() > LINGERS
    }

    /// The sessions in the commit that failed. They get a notice regardless of the delay.
    pub(crate) fn in_failed_commit(&mut self, batch: &Batch) -> Vec<DelayedSession> {
        self.not_yet_notified(batch, |_| true)
    }

    /// The sessions in a later commit whose events were noticeably delayed.
    pub(crate) fn delayed_behind(&mut self, batch: &Batch) -> Vec<DelayedSession> {
        let ended = self.ended;
        self.not_yet_notified(batch, |group| group.since < ended && group.since.elapsed() >= NOTICEABLE)
    }

    /// Returns each session once. Imports are left out: a notice would take the seq of an imported event.
    fn not_yet_notified(&mut self, batch: &Batch, is_meant: impl Fn(&Group) -> bool) -> Vec<DelayedSession> {
        let happening = batch.groups.iter().filter(|group| group.source == Source::Session);
        let meant = happening.filter(|group| is_meant(group));
        let new = meant.filter(|group| self.notified.insert(group.session.key));
        new.map(|group| DelayedSession {
            session: group.session.clone(),
            epoch: group.epoch,
            time: group.parsed.last().map_or(Time(0), |event| event.time),
            wait: group.since.elapsed(),
            problem: self.problem.clone(),
        })
        .collect()
    }
}
