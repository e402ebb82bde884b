//! The reading side of the database: connections that never wait for a commit.

use super::imports::VISIBLE;
use super::schema::open_reader;
use super::search_gate::{ClosedGate, SearchGate};
use super::window::FoldError;
use super::{find, pieces, window};
use crate::open::Abandoned;
use crate::page::{Window, WindowQuery};
use crate::projection::PieceKind;
use crate::search::{FoundPage, Search, SearchError};
use crate::store::{Removal, SessionRecord, Size};
use crate::stored_fold::StoredFold;
use rusqlite::Error::FromSqlConversionFailure;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::id::SessionId;

/// A pool of reading connections.
pub(crate) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    gate: SearchGate,
    /// Dropped after the connections.
    file: OnceLock<File>,
}

/// The number of idle connections to keep.
const KEPT: usize = 4;

/// The last event of a row in `session`, as an expression.
const HEAD: &str = "max(
    coalesce((SELECT first_seq + count - 1 FROM chunk WHERE chunk.session = session.key
              ORDER BY first_seq DESC LIMIT 1), 0),
    coalesce((SELECT seq FROM base WHERE base.session = session.key), 0))";

/// A row of events: the seq of the first, their number, and their JSON lines.
pub(crate) struct ChunkData {
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) data: String,
}

impl Readers {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            idle: Mutex::default(),
            gate: SearchGate::default(),
            file: OnceLock::new(),
        }
    }

    /// Reads rows of events, beginning with the one that holds `seq`, up to about `max_bytes`.
    pub(crate) fn chunks(
        &self,
        session: i64,
        seq: u64,
        max_bytes: usize,
    ) -> rusqlite::Result<Vec<ChunkData>> {
        self.with(|connection| {
            let mut query = connection.prepare_cached(
                "SELECT first_seq, count, data FROM chunk WHERE session = ?1 AND first_seq >= coalesce(
                    (SELECT max(first_seq) FROM chunk WHERE session = ?1 AND first_seq <= ?2), ?2)
                 -- What is being removed is not read any more.
                 AND first_seq > coalesce((SELECT seq FROM base WHERE session = ?1), 0)
                 ORDER BY first_seq",
            )?;
            let mut rows = query.query(params![session, seq as i64])?;
            let (mut chunks, mut bytes) = (Vec::new(), 0);
            while bytes < max_bytes
                && let Some(row) = rows.next()?
            {
                let (first, count): (i64, i64) = (row.get(0)?, row.get(1)?);
                let data: String = row.get(2)?;
                bytes += data.len();
                chunks.push(ChunkData { first: first as u64, count: count as u64, data });
            }
            Ok(chunks)
        })
    }

    /// The session with this id.
    pub(crate) fn session(&self, id: &str) -> rusqlite::Result<Option<SessionRecord>> {
        self.with(|connection| {
            let mut query = connection.prepare_cached(&format!(
                "SELECT key, generation, epoch FROM session WHERE id = ?1 AND {VISIBLE}"
            ))?;
            let found = query.query_row([id], |row| {
                let (key, generation): (i64, String) = (row.get(0)?, row.get(1)?);
                let generation = Generation::new(generation)
                    .map_err(|error| FromSqlConversionFailure(1, Type::Text, Box::new(error)))?;
                let epoch = row.get::<_, i64>(2)? as u64;
                let base = base_seq(connection, key)?;
                let head = Seq(last_row(connection, key)?.max(base));
                Ok(SessionRecord { key, generation, epoch, oldest: Seq(base).next(), head })
            });
            found.optional()
        })
    }

    /// The stored fold of a session and the events after it.
    pub(crate) fn stored(&self, session: i64) -> rusqlite::Result<StoredFold> {
        self.with(|connection| pieces::read(connection, session))
    }

    /// A window of the stored fold and the events after it. The inner error says what is damaged.
    pub(crate) fn window(
        &self,
        session: i64,
        wanted: &WindowQuery,
    ) -> rusqlite::Result<Result<Window, FoldError>> {
        self.with(|connection| Ok(window::read(connection, session, wanted)))
    }

    /// What a person calls the session with this key: its id, or the key if the id cannot be read.
    pub(crate) fn name_of(&self, session: i64) -> String {
        let query = "SELECT id FROM session WHERE key = ?1";
        let id = self.with(|connection| connection.query_row(query, [session], |row| row.get(0)));
        id.unwrap_or_else(|_| format!("key {session}"))
    }

    /// The last event of a session, by key. `None` if there is no such session.
    pub(crate) fn head(&self, session: i64) -> rusqlite::Result<Option<u64>> {
        self.with(|connection| {
            let mut query = connection.prepare_cached("SELECT 1 FROM session WHERE key = ?1")?;
            if !query.exists([session])? {
                return Ok(None);
            }
            Ok(Some(last_row(connection, session)?.max(base_seq(connection, session)?)))
        })
    }

    /// The state of a session before its oldest kept event. `None` if every event is kept.
    pub(crate) fn base(&self, session: i64) -> rusqlite::Result<Option<String>> {
        self.with(|connection| Ok(pieces::base(connection, session)?.map(|(_, body)| body)))
    }

    /// What is kept of a session.
    pub(crate) fn size(&self, session: i64) -> rusqlite::Result<Size> {
        self.with(|connection| {
            let mut query = connection.prepare_cached(
                "SELECT (SELECT coalesce(sum(octet_length(data)), 0) FROM chunk WHERE session = ?1
                         AND first_seq > coalesce((SELECT seq FROM base WHERE session = ?1), 0)),
                        (SELECT count(*) FROM piece WHERE session = ?1 AND kind = ?2)",
            )?;
            query.query_row(params![session, PieceKind::Turn as i64], |row| {
                let (bytes, turns): (i64, i64) = (row.get(0)?, row.get(1)?);
                Ok(Size { bytes: bytes as u64, turns: turns as u64 })
            })
        })
    }

    /// The newest deleted session with this id, and whether its bytes are erased.
    pub(crate) fn removal(&self, id: &str) -> rusqlite::Result<Option<Removal>> {
        self.with(|connection| {
            let mut query = connection
                .prepare_cached("SELECT done FROM tombstone WHERE id = ?1 ORDER BY session DESC LIMIT 1")?;
            let done: Option<bool> = query.query_row([id], |row| row.get(0)).optional()?;
            Ok(done.map(|done| if done { Removal::Done } else { Removal::Pending }))
        })
    }

    /// The database file. It stays open until the last connection is closed: closing a file releases the
    /// POSIX locks of every connection in this process.
    pub(crate) fn file(&self) -> io::Result<&File> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let file = File::options().read(true).write(true).open(&self.path)?;
        Ok(self.file.get_or_init(|| file))
    }

    /// Turns without an end.
    pub(crate) fn open_turns(&self) -> rusqlite::Result<Vec<(i64, Abandoned)>> {
        self.with(|connection| {
            let mut query = connection.prepare(&format!(
                "SELECT session.key, session.id, open_turn.turn, open_turn.epoch
                 FROM open_turn JOIN session ON session.key = open_turn.session WHERE {VISIBLE} ORDER BY session.id"
            ))?;
            let rows = query.query_map([], |row| {
                let (session, turn): (String, String) = (row.get(1)?, row.get(2)?);
                let epoch = row.get::<_, i64>(3)? as u64;
                Ok((row.get(0)?, Abandoned { session: session.into(), turn: turn.into(), epoch }))
            })?;
            rows.collect()
        })
    }

    /// Every session with its last event and the head of its stored fold. One query, because one for each of
    /// 100,000 sessions took seconds.
    pub(crate) fn fold_heads(&self, mut each: impl FnMut(&str, Seq, Option<&str>)) -> rusqlite::Result<()> {
        self.with(|connection| {
            let mut query = connection.prepare(&format!(
                "SELECT session.id, fold.body, {HEAD}
                 FROM session LEFT JOIN fold ON fold.session = session.key
                 WHERE {VISIBLE} ORDER BY session.key"
            ))?;
            let mut rows = query.query([])?;
            while let Some(row) = rows.next()? {
                let head = Seq(row.get::<_, i64>(2)? as u64);
                each(row.get_ref(0)?.as_str()?, head, row.get_ref(1)?.as_str_or_null()?);
            }
            Ok(())
        })
    }

    /// The generation and the last event of every session.
    pub(crate) fn heads(&self) -> rusqlite::Result<HashMap<SessionId, (Generation, Seq)>> {
        self.with(|connection| {
            let mut query = connection.prepare_cached(&format!(
                "SELECT session.id, session.generation, {HEAD} FROM session WHERE {VISIBLE}"
            ))?;
            let heads = query.query_map([], |row| {
                let generation = Generation::new(row.get::<_, String>(1)?)
                    .map_err(|error| FromSqlConversionFailure(1, Type::Text, Box::new(error)))?;
                let head = Seq(row.get::<_, i64>(2)? as u64);
                Ok((SessionId::from(row.get::<_, String>(0)?), (generation, head)))
            })?;
            heads.collect()
        })
    }

    /// One page of search results.
    pub(crate) fn search(&self, search: &Search) -> Result<FoundPage, SearchError> {
        let _inside = self.gate.enter(&search.budget);
        self.with(|connection| Ok(find::find(connection, search)))?
    }

    /// Ends the running searches and admits no new ones until the result is dropped.
    pub(super) fn pause_searches(&self) -> ClosedGate<'_> {
        self.gate.close()
    }

    #[cfg(test)]
    pub(super) fn gate(&self) -> &SearchGate {
        &self.gate
    }

    /// True while rows that are older than the index are not indexed.
    pub(crate) fn is_unindexed(&self) -> rusqlite::Result<bool> {
        let query = "SELECT count(*) > 0 FROM meta WHERE name = 'unindexed'";
        self.with(|connection| connection.query_row(query, [], |row| row.get(0)))
    }

    /// Sessions whose stored fold lags behind their events, with their epochs: after a crash, or if the
    /// change was too small to be written before the log was closed.
    pub(crate) fn behind(&self) -> rusqlite::Result<Vec<(i64, u64)>> {
        self.with(|connection| {
            let mut query = connection.prepare(
                "SELECT key, epoch FROM (
                     SELECT session.key, session.epoch, coalesce(fold.seq, 0) AS folded,
                         (SELECT first_seq + count - 1 FROM chunk WHERE chunk.session = session.key
                          ORDER BY first_seq DESC LIMIT 1) AS head
                     FROM session LEFT JOIN fold ON fold.session = session.key
                 ) WHERE folded < head",
            )?;
            query.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))?.collect()
        })
    }

    pub(super) fn with<T>(
        &self,
        read: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => open_reader(&self.path)?,
        };
        let result = read(&mut connection);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT {
            idle.push(connection);
        }
        result
    }
}

fn base_seq(connection: &Connection, session: i64) -> rusqlite::Result<u64> {
    Ok(pieces::base(connection, session)?.map_or(0, |(seq, _)| seq))
}

/// The last event in a row. 0 if every event was trimmed.
fn last_row(connection: &Connection, session: i64) -> rusqlite::Result<u64> {
    let mut query = connection.prepare_cached(
        "SELECT first_seq + count - 1 FROM chunk WHERE session = ?1 ORDER BY first_seq DESC LIMIT 1",
    )?;
    let last: Option<i64> = query.query_row([session], |row| row.get(0)).optional()?;
    Ok(last.unwrap_or(0) as u64)
}
