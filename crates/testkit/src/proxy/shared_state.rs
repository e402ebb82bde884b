//! The rules and the record of a running proxy, shared by all its connections.

use super::rules::{Ending, Fault, RequestHead, Rule, RuleId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The most recorded connections and faults. Further ones work, but are not recorded.
const RECORD_CAP: usize = 10_000;

/// Everything that happened so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Connections in order; at most 10,000.
    pub connections: Vec<ConnectionRecord>,
    /// Fired rules in order; at most 10,000.
    pub fired: Vec<Fired>,
}

/// What happened on one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionRecord {
    /// Method and target of each request, in order.
    pub requests: Vec<String>,
    /// Bytes from the client to the upstream.
    pub bytes_up: u64,
    /// Bytes to the client.
    pub bytes_down: u64,
    /// Whether it has ended.
    pub ended: bool,
    /// Why the upstream could not be reached.
    pub upstream_error: Option<String>,
}

/// One firing of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fired {
    /// The rule.
    pub rule: RuleId,
    /// The connection, counted from 1.
    pub connection: u64,
}

/// An active rule.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) id: RuleId,
    pub(super) rule: Rule,
    fired: AtomicU64,
}

/// Shared by the handle and all connections.
#[derive(Debug)]
pub(super) struct SharedState {
    state: Mutex<State>,
    requests: AtomicU64,
    /// Changes when a rule fires.
    pub(super) firings: watch::Sender<u64>,
    /// Changes when stalls are released.
    pub(super) releases: watch::Sender<u64>,
    /// Changes when all connections are to be cut.
    pub(super) cuts: watch::Sender<Option<Ending>>,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Arc<Live>>,
    /// Counts per rule, also of removed rules.
    counts: BTreeMap<RuleId, u64>,
    record: Record,
}

// === impl Live ===

impl Live {
    pub(super) fn fault(&self) -> &Fault {
        &self.rule.fault
    }
}

// === impl SharedState ===

impl SharedState {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::default(),
            requests: AtomicU64::new(0),
            firings: watch::Sender::new(0),
            releases: watch::Sender::new(0),
            cuts: watch::Sender::new(None),
        }
    }

    pub(super) fn add(&self, rule: Rule) -> RuleId {
        let mut state = self.lock();
        let id = RuleId(state.counts.len() as u64 + 1);
        state.counts.insert(id, 0);
        state.rules.push(Arc::new(Live { id, rule, fired: AtomicU64::new(0) }));
        id
    }

    pub(super) fn remove(&self, keep: impl Fn(RuleId) -> bool) {
        self.lock().rules.retain(|live| keep(live.id));
    }

    pub(super) fn fired(&self, id: RuleId) -> u64 {
        self.lock().counts.get(&id).copied().unwrap_or(0)
    }

    pub(super) fn record(&self) -> Record {
        self.lock().record.clone()
    }

    pub(super) fn next_request(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The active rules that may still fire.
    pub(super) fn matching(&self, connection: u64, request: Option<&RequestHead>) -> Vec<Arc<Live>> {
        let rules = self.lock().rules.clone();
        rules
            .into_iter()
            .filter(|live| live.fired.load(Ordering::Relaxed) < live.rule.times)
            .filter(|live| live.rule.which.matches(connection, request))
            .collect()
    }

    /// Claims one firing of a rule; `false` if another connection claimed the last one.
    pub(super) fn claim(&self, live: &Live, connection: u64) -> bool {
        let more = |fired| (fired < live.rule.times).then_some(fired + 1);
        if live.fired.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return false;
        }
        let mut state = self.lock();
        *state.counts.entry(live.id).or_default() += 1;
        if state.record.fired.len() < RECORD_CAP {
            state.record.fired.push(Fired { rule: live.id, connection });
        }
        drop(state);
        self.firings.send_modify(|count| *count += 1);
        true
    }

    pub(super) fn note_connection(&self) {
        let mut state = self.lock();
        if state.record.connections.len() < RECORD_CAP {
            state.record.connections.push(ConnectionRecord::default());
        }
    }

    /// Updates the record of a connection, counted from 1.
    pub(super) fn note(&self, connection: u64, change: impl FnOnce(&mut ConnectionRecord)) {
        let index = usize::try_from(connection - 1).unwrap_or(usize::MAX);
        if let Some(record) = self.lock().record.connections.get_mut(index) {
            change(record);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
