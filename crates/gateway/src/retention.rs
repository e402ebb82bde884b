//! Keeping no more than is wanted: old turns are trimmed, old sessions deleted, a little at a time and beside everything else.
//!
//! Nothing that is open is touched: not a turn, not a prompt that waits, not an approval. The log decides that for turns, and
//! the keeper for its session.

use crate::board::Entry;
use crate::error::RequestError;
use crate::gateway::{Gateway, Shared};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use turnstream_log::{Keep, Kept, Log, ReadError};
use turnstream_model::cursor::Seq;
use turnstream_model::fold::Activity;
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// What is kept, and for how long. Where nothing is said, everything is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Turns that ended longer ago are trimmed.
    pub max_age: Option<Duration>,
    /// Of one session's events, in bytes; its oldest turns are trimmed beyond it.
    pub max_bytes: Option<u64>,
    /// Of one session; its oldest ones are trimmed beyond it.
    pub max_turns: Option<u64>,
    /// Sessions in which nothing happened for longer are deleted.
    pub session_max_age: Option<Duration>,
    /// Beyond so many, those in which nothing happened for longest are deleted.
    pub max_sessions: Option<u64>,
    /// Of the events of all sessions, in bytes; beyond it, sessions in which nothing happened for longest are deleted.
    pub total_bytes: Option<u64>,
    /// How often it is looked for what goes.
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
    /// Sessions that could not be looked at.
    pub failed: u64,
}

/// When something last happened in a session, and in which event that stands.
type Activities = HashMap<SessionId, (Seq, Time)>;

/// A session that may go.
struct Candidate {
    id: SessionId,
    bytes: u64,
    active: Time,
}

/// Looks for what goes, again and again, until the gateway is gone.
pub(crate) fn start(gateway: &Gateway) {
    let shared = gateway.shared();
    if !shared.settings.retention.wants_something() {
        return;
    }
    let (every, shared) = (shared.settings.retention.every, Arc::downgrade(&shared));
    tokio::spawn(async move {
        let mut activities = Activities::new();
        loop {
            tokio::time::sleep(every).await;
            let Some(gateway) = awake(&shared) else { return };
            let round = gateway.retain(&mut activities).await;
            if round != Round::default() {
                gateway.shared().rounds.send_replace(round);
            }
        }
    });
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
    /// One round: first turns, then sessions.
    async fn retain(&self, activities: &mut Activities) -> Round {
        let retention = self.settings().retention.clone();
        let mut round = Round::default();
        if retention.trims() {
            self.trim_all(&retention, &mut round).await;
        }
        if let Some(age) = retention.max_age
            && self.shared().ledger.trim(before_now(age)).await.is_err()
        {
            round.failed += 1;
        }
        if retention.deletes() {
            self.delete_some(&retention, activities, &mut round).await;
        }
        round
    }

    async fn trim_all(&self, retention: &Retention, round: &mut Round) {
        let keep = Keep {
            since: retention.max_age.map(before_now),
            bytes: retention.max_bytes,
            turns: retention.max_turns,
        };
        for Entry { id, .. } in self.board().all() {
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
                // It was deleted meanwhile.
                Err(turnstream_log::RemoveError::Unknown(_)) => {}
                Err(_) => round.failed += 1,
            }
        }
    }

    async fn delete_some(&self, retention: &Retention, activities: &mut Activities, round: &mut Round) {
        let (log, entries) = (self.log().clone(), self.board().all());
        let mut known = std::mem::take(activities);
        let looked = tokio::task::spawn_blocking(move || {
            let found = candidates(&log, entries, &mut known);
            (found, known)
        });
        let Ok((found, known)) = looked.await else {
            round.failed += 1;
            return;
        };
        *activities = known;
        let (mut all, mut failed) = (found.candidates, found.failed);
        // Those in which nothing happened for longest go first.
        all.sort_by(|one, other| (one.active, &one.id).cmp(&(other.active, &other.id)));
        let mut bytes = found.bytes;
        let mut sessions = found.sessions;
        let too_old = retention.session_max_age.map(before_now);
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
                // Somebody uses it, or it is gone.
                Ok(false) | Err(RequestError::UnknownSession(_)) => {}
                Err(_) => failed += 1,
            }
        }
        round.failed += failed;
    }
}

/// What was found of all sessions.
struct Found {
    candidates: Vec<Candidate>,
    sessions: u64,
    bytes: u64,
    failed: u64,
}

/// The sessions that nobody uses at the moment, and how much all of them are.
fn candidates(log: &Log, entries: Vec<Entry>, activities: &mut Activities) -> Found {
    let mut found = Found { candidates: Vec::new(), sessions: 0, bytes: 0, failed: 0 };
    let mut seen = Activities::new();
    for Entry { id, session } in entries {
        let kept = match log.kept(&id) {
            Ok(kept) => kept,
            Err(ReadError::Unknown(_)) => continue,
            Err(_) => {
                found.failed += 1;
                continue;
            }
        };
        found.sessions += 1;
        found.bytes += kept.bytes;
        let known = activities.get(&id).filter(|(head, _)| *head == kept.head).map(|(_, time)| *time);
        // Of one that an earlier version has trimmed to its last event, all that is known is when it was made.
        let active = known.or_else(|| last_time(log, &id, &kept)).or(session.created).unwrap_or(Time(0));
        seen.insert(id.clone(), (kept.head, active));
        if session.status == Activity::Idle || session.ended.is_some() {
            found.candidates.push(Candidate { id, bytes: kept.bytes, active });
        }
    }
    *activities = seen;
    found
}

/// The time of the last event, also when it is no longer kept.
fn last_time(log: &Log, id: &SessionId, kept: &Kept) -> Option<Time> {
    if kept.oldest > kept.head {
        return log.base(id).ok()?.trimmed;
    }
    let before = Seq(kept.head.0.checked_sub(1)?);
    let last = log.read(id, before, 1).ok()?.pop()?;
    last.event().ok().map(|event| event.time)
}

/// So long ago.
fn before_now(age: Duration) -> Time {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(now.saturating_sub(age).as_millis()).unwrap_or(u64::MAX))
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
        assert_eq!(last_time(&log, &id, &log.kept(&id).unwrap()), Some(Time(3_000)));
        let all = Keep { turns: Some(0), ..Keep::default() };
        assert_eq!(log.trim(&id, &all).await.unwrap().turns, 1);
        let kept = log.kept(&id).unwrap();
        assert_eq!((kept.oldest, kept.head), (Seq(4), Seq(3)));
        assert_eq!(last_time(&log, &id, &kept), Some(Time(3_000)));
        drop(appender);
        log.close().await;
        let log = Log::open(directory.path(), &Options::default()).unwrap().log;
        assert_eq!(last_time(&log, &id, &log.kept(&id).unwrap()), Some(Time(3_000)), "after a restart too");
    }
}
