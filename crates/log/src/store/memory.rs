//! A store in memory that several logs share as if they were replicas: the smallest thing that keeps the promises.

use super::{Claiming, Commit, Known, Settling, Stale, Store, StoreError, Take};
use crate::batch::{Group, TurnChange};
use crate::committed::Committed;
use crate::error::{ClaimError, ReadError};
use crate::importer::Imported;
use crate::open::Abandoned;
use crate::search::{Entry, Found, Hit, Place, Search, SearchError, Subject, snippet};
use crate::session::Session;
use crate::sessions::Sessions;
use crate::summary::Summary;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::event::Event;
use turnstream_model::fold::{Fold, State};
use turnstream_model::id::{SessionId, TurnId};

/// How long after a commit the other replicas hear of it.
const NEWS: Duration = Duration::from_millis(3);

/// What all replicas see.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<Data>>);

#[derive(Default)]
struct Data {
    /// By key.
    sessions: Vec<Row>,
    /// Each log, to be told of what the others commit.
    replicas: Vec<Arc<Sessions>>,
    /// What could ever be found, in the order in which it was first seen; a place in it is a place in the results.
    filed: Vec<(usize, Subject)>,
}

struct Row {
    id: SessionId,
    epoch: u64,
    /// The replica that has it, and under which epoch.
    lease: Option<(usize, u64)>,
    events: Vec<Committed>,
    parsed: Vec<Event>,
    open: Vec<(TurnId, u64)>,
    /// How far the stored fold is.
    folded: usize,
    /// It is being imported: nobody finds it.
    hidden: bool,
    imported: Option<Imported>,
}

/// One log's side of the store.
pub(crate) struct Replica {
    shared: Shared,
    number: usize,
}

/// Its writing side.
pub(crate) struct Commits {
    shared: Shared,
    number: usize,
    kept: usize,
}

impl Shared {
    /// The two sides for one more log.
    pub(crate) fn join(&self, sessions: Arc<Sessions>) -> (Commits, Replica) {
        let mut data = self.lock();
        let number = data.replicas.len();
        data.replicas.push(sessions);
        drop(data);
        (Commits { shared: self.clone(), number, kept: 0 }, Replica { shared: self.clone(), number })
    }

    /// Somebody who only reads.
    pub(crate) fn reader(&self) -> Replica {
        Replica { shared: self.clone(), number: usize::MAX }
    }

    /// Makes a session without an owner.
    pub(crate) fn make(&self, id: &SessionId) {
        self.lock().sessions.push(Row::new(id, None));
    }

    /// That replica is gone, with no time to say so: whatever holds its leases notices.
    pub(crate) fn lose(&self, number: usize) {
        for row in &mut self.lock().sessions {
            row.lease.take_if(|(holder, _)| *holder == number);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Data> {
        self.0.lock().unwrap()
    }
}

impl Row {
    fn new(id: &SessionId, lease: Option<(usize, u64)>) -> Self {
        let id = id.clone();
        let (events, parsed, open) = (vec![], vec![], vec![]);
        Self { id, epoch: 1, lease, events, parsed, open, folded: 0, hidden: false, imported: None }
    }

    fn known(&self, key: usize) -> Known {
        let generation = Generation::new("memory").unwrap();
        Known { key: key as i64, generation, epoch: self.epoch, head: Seq(self.events.len() as u64) }
    }

    fn append(&mut self, group: &Group) {
        assert_eq!(group.first.0, self.events.len() as u64 + 1, "the log numbers without holes");
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
    /// Everything that can be found now, by its place.
    fn entries(&mut self) -> Vec<(i64, usize, String, Entry)> {
        let mut entries = Vec::new();
        for (key, row) in self.sessions.iter().enumerate() {
            let state = Fold::of(&row.parsed).into_state();
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
            if group.epoch != row.epoch {
                stale.push(Stale { group: place, current: row.epoch });
                continue;
            }
            row.append(group);
            news.push((row.id.clone(), Seq(row.events.len() as u64)));
        }
        let others = data.replicas.iter().enumerate().filter(|(number, _)| *number != self.number);
        let others: Vec<Arc<Sessions>> = others.map(|(_, sessions)| sessions.clone()).collect();
        // News comes late: whoever needs to know at once has to ask.
        std::thread::spawn(move || {
            std::thread::sleep(NEWS);
            for sessions in others {
                news.iter().for_each(|(id, head)| sessions.heard(id, *head));
            }
        });
        Ok(stale)
    }

    fn keep(&mut self, groups: Vec<Group>) {
        self.kept += 1;
        for group in groups {
            // Only now and then, so that what was folded is usually behind.
            if self.kept.is_multiple_of(3) {
                let row = &mut self.shared.lock().sessions[group.session.key as usize];
                row.folded = row.events.len();
            }
            group.settled();
        }
    }
}

impl Store for Replica {
    fn create(&self, id: &SessionId) -> Claiming {
        let (shared, number, id) = (self.shared.clone(), self.number, id.clone());
        Box::pin(async move {
            let mut data = shared.lock();
            if data.sessions.iter().any(|row| row.id == id) {
                return Err(ClaimError::Exists(id.to_string()));
            }
            data.sessions.push(Row::new(&id, Some((number, 1))));
            let key = data.sessions.len() - 1;
            Ok(data.sessions[key].known(key))
        })
    }

    fn import(&self, id: &SessionId) -> Claiming {
        let (shared, made) = (self.shared.clone(), self.create(id));
        Box::pin(async move {
            let known = made.await?;
            shared.lock().sessions[known.key as usize].hidden = true;
            Ok(known)
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

    fn claim(&self, session: Arc<Session>, how: Take) -> Claiming {
        let (shared, number) = (self.shared.clone(), self.number);
        Box::pin(async move {
            let key = session.key as usize;
            let row = &mut shared.lock().sessions[key];
            if how == Take::IfFree && row.lease.is_some() {
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

    fn session(&self, id: &SessionId) -> Result<Option<Known>, ReadError> {
        let data = self.shared.lock();
        let found = data.sessions.iter().enumerate().find(|(_, row)| row.id == *id && !row.hidden);
        Ok(found.map(|(key, row)| row.known(key)))
    }

    fn read(&self, key: i64, from: Seq, max_bytes: usize) -> Result<Vec<Committed>, ReadError> {
        let data = self.shared.lock();
        let mut bytes = 0;
        let rest = data.sessions[key as usize].events.iter().skip(from.0 as usize - 1);
        let fits = |event: &&Committed| {
            let is_first = bytes == 0;
            bytes += event.json().len();
            is_first || bytes <= max_bytes
        };
        Ok(rest.take_while(fits).cloned().collect())
    }

    fn fold(&self, key: i64) -> Result<Fold, ReadError> {
        let row = &self.shared.lock().sessions[key as usize];
        Ok(Fold::of(&row.parsed[..row.folded]))
    }

    fn summaries(&self) -> Result<Vec<Summary>, ReadError> {
        let data = self.shared.lock();
        let summary = |row: &Row| {
            let State { seq, session, queue, degraded, counters, .. } =
                Fold::of(&row.parsed[..row.folded]).into_state();
            let state = State { seq, session, queue, degraded, counters, ..State::default() };
            Summary { id: row.id.clone(), state: Some(state) }
        };
        Ok(data.sessions.iter().filter(|row| !row.hidden).map(summary).collect())
    }

    fn abandoned(&self) -> Result<Vec<Abandoned>, ReadError> {
        let data = self.shared.lock();
        let free = data.sessions.iter().filter(|row| row.lease.is_none() && !row.hidden);
        let turns = free.flat_map(|row| {
            row.open.iter().map(|(turn, epoch)| Abandoned {
                session: row.id.clone(),
                turn: turn.clone(),
                epoch: *epoch,
            })
        });
        Ok(turns.collect())
    }

    fn search(&self, search: &Search) -> Result<Found, SearchError> {
        const INDEX: u64 = 7;
        let Search { terms, session, agent, role, kind, from, to, limit, after } = search;
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
        let last = found.last().map(|(place, ..)| Place { index: INDEX, ordinal: *place });
        let hit = |(_, key, agent, entry): (i64, usize, String, Entry)| {
            let Entry { subject, turn, kind, role, time, text } = entry;
            let (session, snippet) = (data.sessions[key].id.clone(), snippet(&text, &terms.wanted));
            Hit { session, agent, subject, turn, kind, role, time, snippet }
        };
        let hits = found.into_iter().map(hit).collect();
        Ok(Found { hits, next: last.filter(|_| more), is_indexing: false })
    }

    fn settle(&self, _: Vec<(Arc<Session>, Seq)>) -> Settling {
        // What is committed is found.
        Box::pin(std::future::ready(()))
    }

    fn close(&self) {
        self.shared.lose(self.number);
    }
}
