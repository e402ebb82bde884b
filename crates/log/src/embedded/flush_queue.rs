//! The committed events that are in segments and not yet in the database, by session.
//!
//! A session is flushed as a whole, about once a second: its events become one row, and its fold is written
//! with them. A transaction touches only the pages of a few sessions. Flushing a thousand sessions at every
//! tick wrote an index page for each of them, and the syncs slowed down the slowest commits.

use super::flusher::FlusherCommand;
use crate::batch::{Group, Source, TurnChange};
use crate::diagnostics::answer;
use crate::session::Session;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use turnstream_model::cursor::Seq;

/// Bytes per transaction. A small sync delays concurrent commits little.
const AT_ONCE_BYTES: usize = 128 * 1024;
/// Bytes per transaction when the queue is under pressure: throughput matters more than latency.
const URGENT_BYTES: usize = 4 << 20;
/// A session with this many bytes is flushed without waiting: it fills a row.
const FULL_BYTES: usize = 64 * 1024;

/// Commits and commands that wait for the flusher.
pub(crate) struct FlushQueue {
    state: Mutex<State>,
    changed: Condvar,
    /// How long events may be only in segments. The sqlite3 shell sees them this much later.
    lag: Duration,
    /// With more reserved bytes than this, the oldest session is flushed without waiting for the lag.
    pressure: usize,
}

#[derive(Default)]
struct State {
    sessions: HashMap<i64, PendingSession>,
    /// Sessions by the age of their oldest event. An entry is stale if the session was flushed since.
    by_age: VecDeque<(i64, u64)>,
    /// Sessions to flush at the next opportunity. Entries may be stale too.
    ready: VecDeque<i64>,
    /// Bytes of the log's budget that the pending events hold.
    permits: usize,
    /// The segment of the last commit.
    serial: u64,
    next_ticket: u64,
    commands: Vec<FlusherCommand>,
    /// Callers that wait for a flush.
    requests: Vec<FlushRequest>,
    /// The flusher should run at once.
    is_wake_requested: bool,
    ended: bool,
}

/// A caller that waits until these sessions are flushed up to these events, and the index backlog is empty.
pub(crate) struct FlushRequest {
    pub(crate) sessions: Vec<(Arc<Session>, Seq)>,
    /// Dropped without an answer if that will never happen.
    pub(crate) done: oneshot::Sender<()>,
}

/// The pending commits of one session.
struct PendingSession {
    ticket: u64,
    since: Instant,
    /// The segment of its oldest commit.
    serial: u64,
    bytes: usize,
    ready: bool,
    permits: usize,
    groups: Vec<Group>,
}

/// One round of work for the flusher.
pub(crate) struct FlushWork {
    /// Dropped when they are in the database, which releases their share of the budget.
    pub(crate) groups: Vec<Group>,
    pub(crate) commands: Vec<FlusherCommand>,
    /// After this flush, the database has every segment up to this one.
    pub(crate) serial: u64,
    /// The queue is under pressure: use large transactions.
    pub(crate) is_urgent: bool,
    /// The writer has ended, and this is the last work.
    pub(crate) is_last: bool,
}

impl FlushQueue {
    /// `budget` is the log's byte budget.
    pub(crate) fn new(lag: Duration, budget: usize) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), lag, pressure: budget / 2 }
    }

    /// Adds a durable commit.
    pub(crate) fn push(&self, groups: Vec<Group>, serial: u64) {
        let now = Instant::now();
        let mut state = self.lock();
        state.serial = serial;
        for group in groups {
            state.add(group, now);
        }
        let wake = !state.ready.is_empty() || state.is_urgent(self.pressure);
        drop(state);
        if wake {
            self.changed.notify_one();
        }
    }

    /// Returns work that could not be flushed.
    pub(crate) fn push_back(&self, work: FlushWork) {
        let mut state = self.lock();
        for group in work.groups {
            state.add(group, Instant::now());
        }
    }

    /// Adds a command. Returns it if the log is closed.
    pub(crate) fn submit(&self, command: FlusherCommand) -> Result<(), FlusherCommand> {
        let mut state = self.lock();
        if state.ended {
            return Err(command);
        }
        state.commands.push(command);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Flushes without pauses until this request is answered.
    pub(crate) fn request_flush(&self, request: FlushRequest) {
        let mut state = self.lock();
        if !state.ended {
            state.requests.push(request);
            state.is_wake_requested = true;
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Answers the requests that are done. While the index backlog is not empty, none is, and the flusher
    /// continues at once.
    pub(crate) fn answer_requests(&self, is_all_indexed: bool) {
        let mut state = self.lock();
        if !is_all_indexed {
            state.is_wake_requested = !state.requests.is_empty();
            return;
        }
        let is_flushed = |request: &mut FlushRequest| {
            request.sessions.iter().all(|(session, up_to)| session.is_flushed(*up_to))
        };
        let done: Vec<FlushRequest> = state.requests.extract_if(.., is_flushed).collect();
        drop(state);
        for request in done {
            answer(request.done, ());
        }
    }

    pub(crate) fn writer_ended(&self) {
        self.lock().ended = true;
        self.changed.notify_one();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    /// The next commit goes into this segment; earlier ones are full.
    pub(crate) fn segment_changed(&self, serial: u64) {
        self.lock().serial = serial;
    }

    /// Takes the deletes out of the waiting commands.
    pub(crate) fn take_deletes(&self) -> Vec<FlusherCommand> {
        let is_delete = |command: &mut FlusherCommand| matches!(command, FlusherCommand::Delete(..));
        self.lock().commands.extract_if(.., is_delete).collect()
    }

    /// Closes the queue, and returns the commands that will not be executed.
    pub(crate) fn close(&self) -> Vec<FlusherCommand> {
        let mut state = self.lock();
        state.ended = true;
        state.requests.clear();
        std::mem::take(&mut state.commands)
    }

    /// Waits for the next work, `within` at the latest. Unless it is urgent, work comes after a `rest`, so
    /// that a thousand sessions that are due together do not displace commits.
    pub(crate) fn next_work(&self, rest: Duration, within: Duration) -> FlushWork {
        let mut state = self.lock();
        let begin = Instant::now();
        let (rested, deadline) = (begin + rest.min(within), begin + within);
        loop {
            let now = Instant::now();
            if state.ended || state.is_wake_requested || !state.commands.is_empty() || now >= deadline {
                break;
            }
            let is_urgent = state.is_urgent(self.pressure);
            let due = match state.due(self.lag, self.pressure) {
                Some(due) if due <= now && (is_urgent || now >= rested) => break,
                Some(due) if due <= now => rested,
                Some(due) => due.min(deadline),
                None => deadline,
            };
            state = self.changed.wait_timeout(state, due - now).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.is_wake_requested = false;
        state.collect_work(self.lag, self.pressure)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No panic can happen between two related changes.
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
            PendingSession {
                ticket,
                since: now,
                serial,
                bytes: 0,
                ready: false,
                permits: 0,
                groups: Vec::new(),
            }
        });
        waiting.bytes += group.data.len();
        let turn_ended = group.turns.iter().any(|change| matches!(change, TurnChange::Ended(_)));
        // A caller waits until the whole import is flushed.
        let is_awaited = group.source == Source::Import;
        if !waiting.ready && (turn_ended || is_awaited || waiting.bytes >= FULL_BYTES) {
            waiting.ready = true;
            self.ready.push_back(key);
        }
        waiting.groups.push(group);
        waiting.permits += permits;
    }

    /// When the next session is due; in the past if it need not wait.
    fn due(&mut self, lag: Duration, pressure: usize) -> Option<Instant> {
        let oldest = self.oldest()?.1.since;
        let may_wait = self.ready.is_empty() && !self.is_urgent(pressure);
        Some(if may_wait { oldest + lag } else { oldest })
    }

    /// The queue is under pressure, or a caller waits for a flush.
    fn is_urgent(&self, pressure: usize) -> bool {
        self.permits > pressure || !self.requests.is_empty()
    }

    /// The session that has waited longest.
    fn oldest(&mut self) -> Option<(i64, &PendingSession)> {
        while let Some((key, ticket)) = self.by_age.front().copied() {
            if self.sessions.get(&key).is_some_and(|waiting| waiting.ticket == ticket) {
                return self.sessions.get(&key).map(|waiting| (key, waiting));
            }
            self.by_age.pop_front();
        }
        None
    }

    fn collect_work(&mut self, lag: Duration, pressure: usize) -> FlushWork {
        let now = Instant::now();
        let is_urgent = self.ended || self.is_urgent(pressure);
        // Deletes first: on a full disk, another command would wait for the room that they make.
        let is_delete = |command: &FlusherCommand| matches!(command, FlusherCommand::Delete(..));
        let (mut commands, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.commands).into_iter().partition(is_delete);
        commands.extend(others);
        let mut work = FlushWork { groups: Vec::new(), commands, serial: 0, is_urgent, is_last: false };
        let most = if is_urgent { URGENT_BYTES } else { AT_ONCE_BYTES };
        let mut bytes = 0;
        while bytes < most
            && let Some(key) = self.next(now, lag, is_urgent)
        {
            if let Some(waiting) = self.sessions.remove(&key) {
                bytes += waiting.bytes;
                self.permits -= waiting.permits;
                work.groups.extend(waiting.groups);
            }
        }
        work.is_last = self.ended && self.sessions.is_empty();
        // The oldest pending commit is in this segment. If none is pending, the last commit is in the current
        // segment, which is not full yet.
        let last = self.serial;
        let unflushed = self.oldest().map_or(last, |(_, waiting)| waiting.serial);
        work.serial = if work.is_last { last } else { unflushed.saturating_sub(1) };
        work
    }

    /// The next session to flush now.
    fn next(&mut self, now: Instant, lag: Duration, is_urgent: bool) -> Option<i64> {
        while let Some(key) = self.ready.pop_front() {
            if self.sessions.get(&key).is_some_and(|waiting| waiting.ready) {
                return Some(key);
            }
        }
        let (key, oldest) = self.oldest()?;
        (is_urgent || oldest.since + lag <= now).then_some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::{FlushQueue, FlusherCommand};
    use crate::session::Session;
    use crate::store::SessionRecord;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::sync::oneshot;
    use turnstream_model::cursor::{Generation, Seq};
    use turnstream_model::id::SessionId;

    #[test]
    fn a_delete_goes_before_the_commands_that_came_first() {
        let generation = Generation::new("g").unwrap();
        let record = SessionRecord { key: 1, generation, epoch: 1, oldest: Seq(1), head: Seq(0) };
        let session = Arc::new(Session::new(&SessionId::from("s"), &record));
        let queue = FlushQueue::new(Duration::ZERO, 1 << 20);
        assert!(queue.submit(FlusherCommand::Erase(oneshot::channel().0)).is_ok());
        assert!(queue.submit(FlusherCommand::Delete(session, oneshot::channel().0)).is_ok());
        let commands = queue.next_work(Duration::ZERO, Duration::ZERO).commands;
        assert!(matches!(commands[..], [FlusherCommand::Delete(..), FlusherCommand::Erase(_)]));
    }
}
