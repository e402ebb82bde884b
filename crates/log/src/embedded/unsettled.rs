//! What is durable in segments and not yet in the database, session by session.
//!
//! A session is settled whole, about once a second: its events become one row, its fold is written with them, and a
//! transaction touches only the pages of a few sessions. Settling all of a thousand sessions at each tick wrote a page of
//! the index for every one of them, and its syncs were what made the slowest commits slow.

use super::settler::Order;
use crate::batch::{Group, Source, TurnChange};
use crate::session::Session;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use turnstream_model::cursor::Seq;

/// So much goes into one transaction: a sync of little holds up the commits beside it little.
const AT_ONCE_BYTES: usize = 128 * 1024;
/// In a hurry the whole matters more than its parts.
const HURRY_BYTES: usize = 4 << 20;
/// A session with so much is settled without waiting: it fills a row.
const FULL_BYTES: usize = 64 * 1024;

/// Commits that wait for the database, and orders.
pub(crate) struct Unsettled {
    state: Mutex<State>,
    changed: Condvar,
    /// How long events may be in segments only. This is also how far the sqlite3 shell is behind.
    lag: Duration,
    /// With more than this waiting, the oldest is settled without waiting for the lag.
    pressure: usize,
}

#[derive(Default)]
struct State {
    sessions: HashMap<i64, Waiting>,
    /// In the order in which their oldest event came. An entry is void when the session was settled since.
    by_age: VecDeque<(i64, u64)>,
    /// Those that are settled at the next opportunity. An entry may be void too.
    ready: VecDeque<i64>,
    /// What the events that wait took of the log's budget.
    permits: usize,
    /// The segment of the last commit.
    serial: u64,
    next_ticket: u64,
    orders: Vec<Order>,
    /// Those who wait until something is settled.
    hasty: Vec<Haste>,
    /// The settler is to look at once.
    poked: bool,
    ended: bool,
}

/// Somebody waits until these sessions are settled up to these events, and all is filed.
pub(crate) struct Haste {
    pub(crate) sessions: Vec<(Arc<Session>, Seq)>,
    /// Dropped unanswered when it will never be.
    pub(crate) done: oneshot::Sender<()>,
}

/// The commits of one session.
struct Waiting {
    ticket: u64,
    since: Instant,
    /// The segment of its oldest commit.
    serial: u64,
    bytes: usize,
    ready: bool,
    permits: usize,
    groups: Vec<Group>,
}

/// What the settler has to do.
pub(crate) struct Work {
    /// Dropped when they are in the database, with what they hold of the budget.
    pub(crate) groups: Vec<Group>,
    pub(crate) orders: Vec<Order>,
    /// When the groups are in the database, every segment up to this one is.
    pub(crate) serial: u64,
    /// More waits than should: large steps now.
    pub(crate) hurry: bool,
    /// The writer is gone, and this is the last there is.
    pub(crate) is_last: bool,
}

impl Unsettled {
    /// `budget` is all that the permits can be.
    pub(crate) fn new(lag: Duration, budget: usize) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), lag, pressure: budget / 2 }
    }

    /// Takes over a durable commit.
    pub(crate) fn put(&self, groups: Vec<Group>, serial: u64) {
        let now = Instant::now();
        let mut state = self.lock();
        state.serial = serial;
        for group in groups {
            state.add(group, now);
        }
        let wanted = !state.ready.is_empty() || state.in_a_hurry(self.pressure);
        drop(state);
        if wanted {
            self.changed.notify_one();
        }
    }

    /// Takes back what could not be settled.
    pub(crate) fn give_back(&self, work: Work) {
        let mut state = self.lock();
        for group in work.groups {
            state.add(group, Instant::now());
        }
    }

    /// Gives it back when the log is closed.
    pub(crate) fn order(&self, order: Order) -> Result<(), Order> {
        let mut state = self.lock();
        if state.ended {
            return Err(order);
        }
        state.orders.push(order);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Settles without waiting until this is done.
    pub(crate) fn hurry_up(&self, haste: Haste) {
        let mut state = self.lock();
        if !state.ended {
            state.hasty.push(haste);
            state.poked = true;
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Answers those who have what they waited for. Where everything is not filed yet, nobody has, and the settler is to
    /// go on at once.
    pub(crate) fn answer(&self, is_all_filed: bool) {
        let mut state = self.lock();
        if !is_all_filed {
            state.poked = !state.hasty.is_empty();
            return;
        }
        let is_settled =
            |haste: &mut Haste| haste.sessions.iter().all(|(session, up_to)| session.is_settled(*up_to));
        let content: Vec<Haste> = state.hasty.extract_if(.., is_settled).collect();
        drop(state);
        for haste in content {
            // Whoever asked may have gone away.
            let _ = haste.done.send(());
        }
    }

    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_one();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    /// The next commit goes into that segment: those before it are full.
    pub(crate) fn turned_over(&self, serial: u64) {
        self.lock().serial = serial;
    }

    /// Ends it, and returns the orders that nobody will look at.
    pub(crate) fn abandon(&self) -> Vec<Order> {
        let mut state = self.lock();
        state.ended = true;
        state.hasty.clear();
        std::mem::take(&mut state.orders)
    }

    /// What there is to do, at the latest after that time. While there is no hurry it comes after a rest, so that a thousand
    /// sessions that are due together are settled beside the commits and not instead of them.
    pub(crate) fn take(&self, rest: Duration, within: Duration) -> Work {
        let mut state = self.lock();
        let begin = Instant::now();
        let (rested, deadline) = (begin + rest.min(within), begin + within);
        loop {
            let now = Instant::now();
            if state.ended || state.poked || !state.orders.is_empty() || now >= deadline {
                break;
            }
            let hurry = state.in_a_hurry(self.pressure);
            let due = match state.due(self.lag, self.pressure) {
                Some(due) if due <= now && (hurry || now >= rested) => break,
                Some(due) if due <= now => rested,
                Some(due) => due.min(deadline),
                None => deadline,
            };
            state = self.changed.wait_timeout(state, due - now).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.poked = false;
        state.take(self.lag, self.pressure)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Pushes and takes: a panic cannot leave one half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, group: Group, now: Instant) {
        let key = group.session.key;
        let permits = group.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        self.permits += permits;
        let serial = self.serial;
        let waiting = self.sessions.entry(key).or_insert_with(|| {
            let ticket = self.next_ticket;
            self.next_ticket += 1;
            self.by_age.push_back((key, ticket));
            Waiting { ticket, since: now, serial, bytes: 0, ready: false, permits: 0, groups: Vec::new() }
        });
        waiting.bytes += group.data.len();
        let turn_ended = group.turns.iter().any(|change| matches!(change, TurnChange::Ended(_)));
        // Somebody waits until all of an import is settled.
        let is_awaited = group.source == Source::Import;
        if !waiting.ready && (turn_ended || is_awaited || waiting.bytes >= FULL_BYTES) {
            waiting.ready = true;
            self.ready.push_back(key);
        }
        waiting.groups.push(group);
        waiting.permits += permits;
    }

    /// When the next session is due; a moment that is over for one that need not wait.
    fn due(&mut self, lag: Duration, pressure: usize) -> Option<Instant> {
        let oldest = self.oldest()?.1.since;
        let may_wait = self.ready.is_empty() && !self.in_a_hurry(pressure);
        Some(if may_wait { oldest + lag } else { oldest })
    }

    /// More waits than should, or somebody waits for it.
    fn in_a_hurry(&self, pressure: usize) -> bool {
        self.permits > pressure || !self.hasty.is_empty()
    }

    /// The session that has waited longest.
    fn oldest(&mut self) -> Option<(i64, &Waiting)> {
        while let Some((key, ticket)) = self.by_age.front().copied() {
            if self.sessions.get(&key).is_some_and(|waiting| waiting.ticket == ticket) {
                return self.sessions.get(&key).map(|waiting| (key, waiting));
            }
            self.by_age.pop_front();
        }
        None
    }

    fn take(&mut self, lag: Duration, pressure: usize) -> Work {
        let now = Instant::now();
        let hurry = self.ended || self.in_a_hurry(pressure);
        let orders = std::mem::take(&mut self.orders);
        let mut work = Work { groups: Vec::new(), orders, serial: 0, hurry, is_last: false };
        let most = if hurry { HURRY_BYTES } else { AT_ONCE_BYTES };
        let mut bytes = 0;
        while bytes < most
            && let Some(key) = self.next(now, lag, hurry)
        {
            if let Some(waiting) = self.sessions.remove(&key) {
                bytes += waiting.bytes;
                self.permits -= waiting.permits;
                work.groups.extend(waiting.groups);
            }
        }
        work.is_last = self.ended && self.sessions.is_empty();
        // The oldest that still waits is in that segment; without one, the last commit is in the middle of its own.
        let last = self.serial;
        let unsettled = self.oldest().map_or(last, |(_, waiting)| waiting.serial);
        work.serial = if work.is_last { last } else { unsettled.saturating_sub(1) };
        work
    }

    /// The next session to settle now.
    fn next(&mut self, now: Instant, lag: Duration, hurry: bool) -> Option<i64> {
        while let Some(key) = self.ready.pop_front() {
            if self.sessions.get(&key).is_some_and(|waiting| waiting.ready) {
                return Some(key);
            }
        }
        let (key, oldest) = self.oldest()?;
        (hurry || oldest.since + lag <= now).then_some(key)
    }
}
