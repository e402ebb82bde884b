//! A store in memory that several logs share like replicas: the smallest store that keeps the promises.

use super::{
    ClaimMode, Claiming, Commit, Cut, Flushing, Removal, Removing, SessionRecord, Size, Stale, Store,
    StoreError,
};
use crate::batch::{Group, TurnChange};
use crate::committed::Committed;
use crate::error::{ClaimError, ReadError, RemoveError};
use crate::importer::Imported;
use crate::open::Abandoned;
use crate::page::{Window, WindowQuery};
use crate::search::{Entry, FoundPage, Hit, IndexPosition, Search, SearchError, Subject, snippet};
use crate::session::Session;
use crate::sessions::Sessions;
use crate::summary::Summary;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::event::Event;
use turnstream_model::fold::{Fold, State};
use turnstream_model::id::{SessionId, TurnId};

/// The delay after which other replicas learn of a commit.
const NEWS: Duration = Duration::from_millis(3);

/// What all replicas see.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<Data>>);

#[derive(Default)]
struct Data {
    /// By key.
    sessions: Vec<Row>,
    /// The number of sessions created, for generations.
    made: u64,
    /// Every log, to announce the commits of the others.
    replicas: Vec<Arc<Sessions>>,
    /// Everything that was ever searchable, in order of appearance. The index is the position in results.
    filed: Vec<(usize, Subject)>,
}

struct Row {
    id: SessionId,
    generation: Generation,
    /// Deleted: only its id remains.
    is_deleted: bool,
    epoch: u64,
    /// The state before its first event.
    base: State,
    /// The replica that owns it, and its epoch.
    lease: Option<(usize, u64)>,
    events: Vec<Committed>,
    parsed: Vec<Event>,
    open: Vec<(TurnId, u64)>,
    /// The seq of the stored fold.
    folded: Seq,
    /// An unfinished import, which readers do not find.
    hidden: bool,
    imported: Option<Imported>,
}

/// The shared side of one log.
pub(crate) struct Replica {
    shared: Shared,
    number: usize,
}

/// The writing side of one log.
pub(crate) struct Commits {
    shared: Shared,
    number: usize,
    kept: usize,
}

impl Shared {
    /// Adds a log, and returns its two sides.
    pub(crate) fn join(&self, sessions: Arc<Sessions>) -> (Commits, Replica) {
        let mut data = self.lock();
        let number = data.replicas.len();
        data.replicas.push(sessions);
        drop(data);
        (Commits { shared: self.clone(), number, kept: 0 }, Replica { shared: self.clone(), number })
    }

    /// A side that only reads.
    pub(crate) fn reader(&self) -> Replica {
        Replica { shared: self.clone(), number: usize::MAX }
    }

    /// Creates a session without an owner.
    pub(crate) fn make(&self, id: &SessionId) {
        self.lock().push(id, None);
    }

    /// This replica has crashed; its leases expire.
    pub(crate) fn lose(&self, number: usize) {
        for row in &mut self.lock().sessions {
            row.lease.take_if(|(holder, _)| *holder == number);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Data> {
        self.0.lock().unwrap()
    }
}

impl Data {
    fn push(&mut self, id: &SessionId, lease: Option<(usize, u64)>) -> SessionRecord {
        self.made += 1;
        let generation = Generation::new(format!("memory{}", self.made)).unwrap();
        let row = Row {
            id: id.clone(),
            generation,
            is_deleted: false,
            epoch: 1,
            base: State::default(),
            lease,
            events: vec![],
            parsed: vec![],
            open: vec![],
            folded: Seq(0),
            hidden: false,
            imported: None,
        };
        let known = row.known(self.sessions.len());
        self.sessions.push(row);
        known
    }

    /// The sessions that exist, with their keys.
    fn there(&self) -> impl Iterator<Item = (usize, &Row)> {
        self.sessions.iter().enumerate().filter(|(_, row)| !row.is_deleted)
    }

    /// The sessions that readers find.
    fn seen(&self) -> impl Iterator<Item = (usize, &Row)> {
        self.there().filter(|(_, row)| !row.hidden)
    }
}

impl Row {
    fn known(&self, key: usize) -> SessionRecord {
        let (generation, oldest) = (self.generation.clone(), self.base.seq.next());
        SessionRecord { key: key as i64, generation, epoch: self.epoch, oldest, head: self.head() }
    }

    fn head(&self) -> Seq {
        Seq(self.base.seq.0 + self.events.len() as u64)
    }

    fn fold(&self) -> Fold {
        let mut fold = Fold::from(self.base.clone());
        for event in self.parsed.iter().take_while(|event| event.seq <= self.folded) {
            fold.apply(event);
        }
        fold
    }

    /// The fold of all events.
    fn whole(&self) -> Fold {
        let mut fold = Fold::from(self.base.clone());
        for event in &self.parsed {
            fold.apply(event);
        }
        fold
    }

    fn append(&mut self, group: &Group) {
        assert_eq!(group.first, self.head().next(), "the log numbers without holes");
        self.events.extend(group.events.iter().cloned());
        self.parsed.extend(group.parsed.iter().cloned());
        for change in &group.turns {
            match change {
                TurnChange::Started(turn) => self.open.push((turn.clone(), group.epoch)),
                TurnChange::Ended(turn) => self.open.retain(|(open, _)| open != turn),
            }
        }
    }
}

impl Data {
    /// Everything that can be found now, by position.
    fn entries(&mut self) -> Vec<(i64, usize, String, Entry)> {
        let mut entries = Vec::new();
        let states: Vec<(usize, State)> =
            self.seen().map(|(key, row)| (key, row.whole().into_state())).collect();
        for (key, state) in states {
            let items = state.items.iter().filter_map(Entry::of_item);
            let prompts = state.prompts.iter().chain(&state.queue).filter_map(Entry::of_prompt);
            for entry in items.chain(prompts) {
                let named = (key, entry.subject.clone());
                let place = self.filed.iter().position(|filed| *filed == named).unwrap_or_else(|| {
                    self.filed.push(named);
                    self.filed.len() - 1
                });
                entries.push((place as i64, key, state.session.agent.clone(), entry));
            }
        }
        entries.sort_by_key(|(place, ..)| std::cmp::Reverse(*place));
        entries
    }
}

impl Commit for Commits {
    fn commit(&mut self, groups: &[Group]) -> Result<Vec<Stale>, StoreError> {
        let mut data = self.shared.lock();
        let mut stale = Vec::new();
        let mut news = Vec::new();
        for (place, group) in groups.iter().enumerate() {
            let row = &mut data.sessions[group.session.key as usize];
            let current = (!row.is_deleted).then_some(row.epoch);
            if current != Some(group.epoch) {
                stale.push(Stale { group: place, current });
                continue;
            }
            row.append(group);
            news.push((row.id.clone(), row.head()));
        }
        let others = data.replicas.iter().enumerate().filter(|(number, _)| *number != self.number);
        let others: Vec<Arc<Sessions>> = others.map(|(_, sessions)| sessions.clone()).collect();
        // The announcement comes late; whoever needs to know at once has to ask.
        std::thread::spawn(move || {
            std::thread::sleep(NEWS);
            for sessions in others {
                news.iter().for_each(|(id, head)| sessions.advance_head(id, *head));
            }
        });
        Ok(stale)
    }

    fn published(&mut self, groups: Vec<Group>) {
        self.kept += 1;
        for group in groups {
            // Only sometimes, so that the stored fold usually lags.
            if self.kept.is_multiple_of(3) {
                let row = &mut self.shared.lock().sessions[group.session.key as usize];
                row.folded = row.head();
            }
            group.mark_flushed();
        }
    }
}

impl Store for Replica {
    fn create(&self, id: &SessionId) -> Claiming {
        let (shared, number, id) = (self.shared.clone(), self.number, id.clone());
        Box::pin(async move {
            let mut data = shared.lock();
            if data.there().any(|(_, row)| row.id == id) {
                return Err(ClaimError::Exists(id.to_string()));
            }
            Ok(data.push(&id, Some((number, 1))))
        })
    }

    fn import(&self, id: &SessionId, base: State) -> Claiming {
        let (shared, made) = (self.shared.clone(), self.create(id));
        Box::pin(async move {
            let key = made.await?.key as usize;
            let row = &mut shared.lock().sessions[key];
            (row.hidden, row.folded, row.base) = (true, base.seq, base);
            Ok(row.known(key))
        })
    }

    fn reveal(&self, session: Arc<Session>, native_id: Option<String>) -> Claiming {
        let shared = self.shared.clone();
        Box::pin(async move {
            let row = &mut shared.lock().sessions[session.key as usize];
            (row.hidden, row.imported) = (false, Some(Imported { native_id }));
            Ok(row.known(session.key as usize))
        })
    }

    fn give_up(&self, session: Arc<Session>) {
        let row = &mut self.shared.lock().sessions[session.key as usize];
        if row.hidden {
            row.id = SessionId::from(format!("given up, {}", session.key));
        }
    }

    fn imported(&self, id: &SessionId) -> Result<Option<Imported>, ReadError> {
        let data = self.shared.lock();
        Ok(data.sessions.iter().find(|row| row.id == *id).and_then(|row| row.imported.clone()))
    }

    fn claim(&self, session: Arc<Session>, how: ClaimMode) -> Claiming {
        let (shared, number) = (self.shared.clone(), self.number);
        Box::pin(async move {
            let key = session.key as usize;
            let row = &mut shared.lock().sessions[key];
            if row.is_deleted {
                return Err(ClaimError::Unknown(row.id.to_string()));
            }
            if how == ClaimMode::IfFree && row.lease.is_some() {
                return Err(ClaimError::Held(row.id.to_string()));
            }
            row.epoch += 1;
            row.lease = Some((number, row.epoch));
            Ok(row.known(key))
        })
    }

    fn release(&self, key: i64, epoch: u64) {
        let row = &mut self.shared.lock().sessions[key as usize];
        row.lease.take_if(|lease| *lease == (self.number, epoch));
    }

    fn session(&self, id: &SessionId) -> Result<Option<SessionRecord>, ReadError> {
        let data = self.shared.lock();
        let found = data.seen().find(|(_, row)| row.id == *id).map(|(key, row)| row.known(key));
        Ok(found)
    }

    fn read(&self, key: i64, from: Seq, max_bytes: usize) -> Result<Vec<Committed>, ReadError> {
        let data = self.shared.lock();
        let mut bytes = 0;
        let row = &data.sessions[key as usize];
        let Some(skip) = from.0.checked_sub(row.base.seq.0 + 1) else { return Ok(Vec::new()) };
        let rest = row.events.iter().skip(skip as usize);
        let fits = |event: &&Committed| {
            let is_first = bytes == 0;
            bytes += event.json().len();
            is_first || bytes <= max_bytes
        };
        Ok(rest.take_while(fits).cloned().collect())
    }

    fn fold(&self, key: i64) -> Result<Fold, ReadError> {
        Ok(self.shared.lock().sessions[key as usize].fold())
    }

    fn window(&self, key: i64, wanted: &WindowQuery) -> Result<Window, ReadError> {
        Ok(Window::of(self.fold(key)?.into_state(), wanted))
    }

    fn base(&self, key: i64) -> Result<State, ReadError> {
        Ok(self.shared.lock().sessions[key as usize].base.clone())
    }

    fn size(&self, key: i64) -> Result<Size, ReadError> {
        let row = &self.shared.lock().sessions[key as usize];
        let bytes = row.events.iter().map(|event| event.json().len() as u64).sum();
        Ok(Size { bytes, turns: row.whole().state().turns.len() as u64 })
    }

    fn trim(&self, session: Arc<Session>, cut: Cut) -> Removing<bool> {
        let shared = self.shared.clone();
        Box::pin(async move {
            let row = &mut shared.lock().sessions[session.key as usize];
            let Cut { after, base, gone: _ } = cut;
            if row.is_deleted || row.base.seq != after || row.head() < base.seq {
                return Ok(false);
            }
            let goes = (base.seq.0 - after.0) as usize;
            row.events.drain(..goes);
            row.parsed.drain(..goes);
            row.folded = row.folded.max(base.seq);
            row.base = base;
            session.trim(row.base.seq.next());
            Ok(true)
        })
    }

    fn delete(&self, session: Arc<Session>) -> Removing<()> {
        let shared = self.shared.clone();
        Box::pin(async move {
            let row = &mut shared.lock().sessions[session.key as usize];
            session.delete();
            if row.is_deleted {
                return Err(RemoveError::Unknown(row.id.to_string()));
            }
            row.is_deleted = true;
            (row.events, row.parsed, row.open) = (vec![], vec![], vec![]);
            row.base = State::default();
            Ok(())
        })
    }

    fn erase(&self) -> Removing<()> {
        // There are no files.
        Box::pin(async { Ok(()) })
    }

    fn removal(&self, id: &SessionId) -> Result<Option<Removal>, ReadError> {
        let data = self.shared.lock();
        let deleted = data.sessions.iter().any(|row| row.is_deleted && row.id == *id);
        Ok(deleted.then_some(Removal::Done))
    }

    fn summaries(&self) -> Result<Vec<Summary>, ReadError> {
        let data = self.shared.lock();
        let summary = |row: &Row| {
            let State { seq, session, queue, degraded, counters, spent, trimmed, .. } =
                row.fold().into_state();
            let state = State { seq, session, queue, degraded, counters, spent, trimmed, ..State::default() };
            Summary { id: row.id.clone(), state: Some(state).filter(|state| state.seq == row.head()) }
        };
        Ok(data.seen().map(|(_, row)| summary(row)).collect())
    }

    fn heads(&self) -> Result<HashMap<SessionId, (Generation, Seq)>, ReadError> {
        let data = self.shared.lock();
        let head = |(key, row): (usize, &Row)| {
            let SessionRecord { generation, head, .. } = row.known(key);
            (row.id.clone(), (generation, head))
        };
        Ok(data.seen().map(head).collect())
    }

    fn abandoned(&self) -> Result<Vec<Abandoned>, ReadError> {
        let data = self.shared.lock();
        let free = data.seen().map(|(_, row)| row).filter(|row| row.lease.is_none());
        let turns = free.flat_map(|row| {
            row.open.iter().map(|(turn, epoch)| Abandoned {
                session: row.id.clone(),
                turn: turn.clone(),
                epoch: *epoch,
            })
        });
        Ok(turns.collect())
    }

    fn search(&self, search: &Search) -> Result<FoundPage, SearchError> {
        const INDEX: u64 = 7;
        let Search { terms, session, agent, role, kind, from, to, limit, after, budget: _ } = search;
        let newest = match after {
            Some(after) if after.index != INDEX => return Err(search.foreign_cursor()),
            Some(after) => after.ordinal,
            None => i64::MAX,
        };
        let mut data = self.shared.lock();
        let mut found = data.entries();
        found.retain(|(place, key, its_agent, entry)| {
            *place < newest
                && session.is_none_or(|session| session == *key as i64)
                && agent.as_ref().is_none_or(|agent| agent == its_agent)
                && role.is_none_or(|role| entry.role == Some(role))
                && kind.is_none_or(|kind| entry.kind == kind)
                && from.is_none_or(|from| entry.time >= from)
                && to.is_none_or(|to| entry.time < to)
                && terms.fit(&entry.text)
        });
        let more = found.len() > *limit;
        found.truncate(*limit);
        let last = found.last().map(|(place, ..)| IndexPosition { index: INDEX, ordinal: *place });
        let hit = |(_, key, agent, entry): (i64, usize, String, Entry)| {
            let Entry { subject, turn, kind, role, time, text } = entry;
            let (session, snippet) = (data.sessions[key].id.clone(), snippet(&text, &terms.wanted));
            Hit { session, agent, subject, turn, kind, role, time, snippet }
        };
        let hits = found.into_iter().map(hit).collect();
        Ok(FoundPage { hits, next: last.filter(|_| more), is_indexing: false, is_incomplete: false })
    }

    fn flush(&self, _: Vec<(Arc<Session>, Seq)>) -> Flushing {
        // Committed events can be found at once.
        Box::pin(std::future::ready(()))
    }

    fn close(&self) {
        self.shared.lose(self.number);
    }
}
