//! Retention: trims old turns and deletes old sessions, a little at a time and in the background.
//!
//! Nothing that is open is removed: no open turn, waiting prompt or approval. The log checks that for
//! turns, and the keeper for its session. Ages are counted by [`crate::clock`], not by the wall clock alone.

use crate::clock::{self, ClockEvent, GRACE, RetentionClock};
use crate::error::RequestError;
use crate::gateway::{Gateway, Shared};
use crate::last_activity::last_time;
use crate::session_states::SessionEntry;
use std::collections::HashMap;
use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use turnstream_log::{Keep, Log, ReadError};
use turnstream_model::Chain;
use turnstream_model::cursor::Seq;
use turnstream_model::fold::Activity;
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// Limits of what is kept. `None` means no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Turns that ended longer ago are trimmed.
    pub max_age: Option<Duration>,
    /// Most bytes of one session's events. Its oldest turns are trimmed.
    pub max_bytes: Option<u64>,
    /// Most turns of one session. Its oldest turns are trimmed.
    pub max_turns: Option<u64>,
    /// Sessions without activity for longer are deleted.
    pub session_max_age: Option<Duration>,
    /// Most sessions. Those without activity for longest are deleted.
    pub max_sessions: Option<u64>,
    /// Most bytes of the events of all sessions. Sessions without activity for longest are deleted.
    pub total_bytes: Option<u64>,
    /// Time between two rounds.
    pub every: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            max_age: None,
            max_bytes: None,
            max_turns: None,
            session_max_age: None,
            max_sessions: None,
            total_bytes: None,
            every: Duration::from_secs(60),
        }
    }
}

/// What one round of retention removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Sessions of which something was trimmed.
    pub trimmed: u64,
    /// Turns that were trimmed.
    pub turns: u64,
    /// Events that were trimmed.
    pub events: u64,
    /// Bytes of those events.
    pub bytes: u64,
    /// Sessions that were deleted.
    pub deleted: u64,
    /// Sessions that could not be checked, trimmed or deleted.
    pub failed: u64,
}

/// The last activity of sessions, each with the head at which it was read.
type Activities = HashMap<SessionId, (Seq, Time)>;

/// A session that may be deleted.
struct Candidate {
    id: SessionId,
    bytes: u64,
    active: Time,
}

/// The time between two stores of the clock's anchor.
const STORE_EVERY: Duration = Duration::from_secs(10 * 60);

/// Starts the rounds of retention. They end with the gateway. A fresh data directory has nothing old.
pub(crate) fn start(gateway: &Gateway, is_fresh: bool) {
    let shared = gateway.shared();
    let data = gateway.data().to_owned();
    let source = shared.settings.clock.clone();
    let (mut clock, event) = RetentionClock::resume(clock::load(&data), is_fresh, &source.read());
    // Also without limits: they may be set later.
    store(&data, &clock);
    if !shared.settings.retention.wants_something() {
        return;
    }
    tell(event);
    let (every, shared) = (shared.settings.retention.every, Arc::downgrade(&shared));
    tokio::spawn(async move {
        let mut activities = Activities::new();
        let mut stored = Instant::now();
        loop {
            tokio::time::sleep(every).await;
            let Some(gateway) = awake(&shared) else { return };
            let (now, event) = clock.observe(&source.read());
            tell(event);
            if stored.elapsed() >= STORE_EVERY {
                stored = Instant::now();
                store(&data, &clock);
            }
            let round = gateway.retain(now, &mut activities).await;
            if round != Round::default() {
                gateway.shared().rounds.send_replace(round);
            }
        }
    });
}

fn store(data: &Path, clock: &RetentionClock) {
    if let Err(error) = clock::store(data, clock.anchor()) {
        tracing::warn!(%error, "the time of this run cannot be stored; the next start counts ages anew");
    }
}

/// One line for a clock that jumped.
fn tell(event: Option<ClockEvent>) {
    let seconds = |by: Duration| by.as_secs();
    match event {
        None => {}
        Some(ClockEvent::Ahead(by)) => tracing::warn!(
            seconds = seconds(by), grace = ?GRACE,
            "the clock is ahead of the time that can be known to have passed; retention removes nothing by this \
             difference until the clock was steady for the grace period"
        ),
        Some(ClockEvent::Behind(by)) => {
            tracing::warn!(
                seconds = seconds(by),
                "the clock was set back; retention removes less until it returns"
            );
        }
        Some(ClockEvent::Believed(by)) => {
            tracing::warn!(
                seconds = seconds(by),
                "the clock was steady since its jump; retention goes by it again"
            );
        }
    }
}

fn awake(shared: &Weak<Shared>) -> Option<Gateway> {
    shared.upgrade().filter(|shared| !shared.is_closing()).map(Gateway::of)
}

impl Retention {
    fn wants_something(&self) -> bool {
        self.trims() || self.deletes()
    }

    fn trims(&self) -> bool {
        self.max_age.is_some() || self.max_bytes.is_some() || self.max_turns.is_some()
    }

    fn deletes(&self) -> bool {
        self.session_max_age.is_some() || self.max_sessions.is_some() || self.total_bytes.is_some()
    }
}

impl Gateway {
    /// One round: first turns, then sessions. Ages are counted from `now`.
    async fn retain(&self, now: Time, activities: &mut Activities) -> Round {
        let retention = self.settings().retention.clone();
        let mut round = Round::default();
        if retention.trims() {
            self.trim_all(&retention, now, &mut round).await;
        }
        if let Some(age) = retention.max_age
            && let Err(error) = self.shared().provider_requests.trim(before(now, age)).await
        {
            tracing::warn!(error = %Chain(&error), "retention of provider requests failed");
            round.failed += 1;
        }
        if retention.deletes() {
            self.delete_some(&retention, now, activities, &mut round).await;
        }
        round
    }

    async fn trim_all(&self, retention: &Retention, now: Time, round: &mut Round) {
        let keep = Keep {
            since: retention.max_age.map(|age| before(now, age)),
            bytes: retention.max_bytes,
            turns: retention.max_turns,
        };
        for SessionEntry { id, .. } in self.states().all() {
            if self.refuse_if_closing().is_err() {
                return;
            }
            match self.log().trim(&id, &keep).await {
                Ok(trimmed) => {
                    round.trimmed += u64::from(trimmed.turns > 0);
                    round.turns += trimmed.turns;
                    round.events += trimmed.events;
                    round.bytes += trimmed.bytes;
                }
                // It was deleted during the round.
                Err(turnstream_log::RemoveError::Unknown(_)) => {}
                Err(error) => {
                    log_failure(&id, &error);
                    round.failed += 1;
                }
            }
        }
    }

    async fn delete_some(
        &self,
        retention: &Retention,
        now: Time,
        activities: &mut Activities,
        round: &mut Round,
    ) {
        let (log, entries) = (self.log().clone(), self.states().all());
        let mut known = std::mem::take(activities);
        let looked = tokio::task::spawn_blocking(move || {
            let found = candidates(&log, entries, &mut known);
            (found, known)
        });
        let (found, known) = match looked.await {
            Ok(looked) => looked,
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "retention could not read the sessions");
                round.failed += 1;
                return;
            }
        };
        *activities = known;
        let (mut all, mut failed) = (found.candidates, found.failed);
        // Those without activity for longest go first.
        all.sort_by(|one, other| (one.active, &one.id).cmp(&(other.active, &other.id)));
        let mut bytes = found.bytes;
        let mut sessions = found.sessions;
        let too_old = retention.session_max_age.map(|age| before(now, age));
        for Candidate { id, bytes: own, active } in all {
            let goes = too_old.is_some_and(|limit| active < limit)
                || retention.max_sessions.is_some_and(|most| sessions > most)
                || retention.total_bytes.is_some_and(|most| bytes > most);
            if !goes || self.refuse_if_closing().is_err() {
                break;
            }
            match self.delete_if_quiet(&id).await {
                Ok(true) => {
                    round.deleted += 1;
                    sessions -= 1;
                    bytes = bytes.saturating_sub(own);
                    activities.remove(&id);
                }
                // The session is in use, or was deleted during the round.
                Ok(false) | Err(RequestError::UnknownSession(_)) => {}
                Err(error) => {
                    log_failure(&id, &error);
                    failed += 1;
                }
            }
        }
        round.failed += failed;
    }
}

/// The sessions that may be deleted, and totals over all sessions.
struct Found {
    candidates: Vec<Candidate>,
    sessions: u64,
    bytes: u64,
    failed: u64,
}

fn log_failure(session: &SessionId, error: &dyn Error) {
    tracing::warn!(%session, error = %Chain(error), "retention failed");
}

/// The sessions that are not in use, and totals over all sessions.
fn candidates(log: &Log, entries: Vec<SessionEntry>, activities: &mut Activities) -> Found {
    let mut found = Found { candidates: Vec::new(), sessions: 0, bytes: 0, failed: 0 };
    let mut seen = Activities::new();
    for SessionEntry { id, session } in entries {
        let kept = match log.kept(&id) {
            Ok(kept) => kept,
            Err(ReadError::Unknown(_)) => continue,
            Err(error) => {
                log_failure(&id, &error);
                found.failed += 1;
                continue;
            }
        };
        found.sessions += 1;
        found.bytes += kept.bytes;
        let known = activities.get(&id).filter(|(head, _)| *head == kept.head).map(|(_, time)| *time);
        let last = match known.map_or_else(|| last_time(log, &id), |known| Ok(Some(known))) {
            Ok(last) => last,
            // Its age is not known, so it is not deleted for its age.
            Err(error) => {
                log_failure(&id, &error);
                found.failed += 1;
                continue;
            }
        };
        // An earlier version may have trimmed all its events. Then only its creation is known.
        let active = last.or(session.created).unwrap_or(Time(0));
        seen.insert(id.clone(), (kept.head, active));
        if session.status == Activity::Idle || session.ended.is_some() {
            found.candidates.push(Candidate { id, bytes: kept.bytes, active });
        }
    }
    *activities = seen;
    found
}

/// The time so long before.
fn before(now: Time, age: Duration) -> Time {
    let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    Time(now.0.saturating_sub(age))
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnstream_log::Options;
    use turnstream_model::event::{Body, Draft, Origin, Outcome};
    use turnstream_model::id::TurnId;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_session_of_which_no_event_is_left_was_used_when_its_last_one_happened() {
        let directory = tempfile::tempdir().unwrap();
        let log = Log::open(directory.path(), &Options::default()).unwrap().log;
        let id = SessionId::from("s");
        let mut appender = log.create(&id).await.unwrap();
        let (agent, cwd) = ("a".to_owned(), "/w".to_owned());
        let created = Body::SessionCreated { session: id.clone(), agent, cwd, title: None, key: None };
        let turn = |body: Body| Draft { turn: Some(TurnId::from("t1")), ..Draft::new(body) };
        let started = Body::TurnStarted { origin: Origin::Agent, prompts: Vec::new(), native_id: None };
        let ended = Body::TurnEnded {
            outcome: Outcome::Completed,
            stop_reason: None,
            usage: None,
            cost: None,
            summed: true,
            error: None,
        };
        for (time, draft) in [(1_000, Draft::new(created)), (2_000, turn(started)), (3_000, turn(ended))] {
            appender.append(vec![draft], Time(time)).await.unwrap().await.unwrap();
        }
        log.flush().await;
        assert_eq!(last_time(&log, &id).unwrap(), Some(Time(3_000)));
        let all = Keep { turns: Some(0), ..Keep::default() };
        assert_eq!(log.trim(&id, &all).await.unwrap().turns, 1);
        let kept = log.kept(&id).unwrap();
        assert_eq!((kept.oldest, kept.head), (Seq(4), Seq(3)));
        assert_eq!(last_time(&log, &id).unwrap(), Some(Time(3_000)));
        drop(appender);
        log.close().await;
        let log = Log::open(directory.path(), &Options::default()).unwrap().log;
        assert_eq!(last_time(&log, &id).unwrap(), Some(Time(3_000)), "after a restart too");
    }
}
