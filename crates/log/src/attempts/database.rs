//! Reads and writes the rows of the attempts database.

use super::schema;
use crate::embedded::scrub;
use crate::error::{OpenError, StoreFault};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::cell::Cell;
use std::fs::File;
use std::path::Path;
use tracing::{debug, info};
use turnstream_model::attempts::{
    AgentAttempt, Attempt, AttemptName, Begun, Ended, Evidence, Parked, Unkept,
};
use turnstream_model::id::{SessionId, TurnId};
use turnstream_model::time::Time;
use turnstream_model::{Chain, SharedError};

/// A row that cannot be decoded, or a value that cannot be encoded for one.
#[derive(Debug, thiserror::Error)]
#[error("a row of it is no JSON that this version knows: {0}")]
struct UnreadableRow(#[source] serde_json::Error);

/// The writing connection, used by one thread.
pub(super) struct Database {
    connection: Connection,
    /// The same file, for [`Database::scrub`]. Dropped after the connection: closing a file releases the
    /// POSIX locks that the process holds on it.
    file: File,
    /// Rows were deleted, and SQLite may have left copies of them in the file.
    is_unscrubbed: Cell<bool>,
    /// The id of this run. A row without an end that another run began is orphaned.
    owner: String,
}

impl Database {
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        let connection = schema::open(path)?;
        let orphan = "UPDATE attempt SET owner = NULL, verdict = 'unknown' WHERE ended IS NULL";
        let attempts = connection
            .execute(orphan, [])
            .map_err(|error| OpenError::Store { path: path.to_owned(), problem: StoreFault::new(error) })?;
        if attempts > 0 {
            info!(attempts, "attempts of an earlier run have no end; their outcome is unknown");
        }
        let file = File::options()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|source| OpenError::Directory { path: path.to_owned(), source })?;
        let owner = format!("{:016x}", fastrand::u64(..));
        // The last run may have stopped between a commit and its scrub.
        Ok(Self { connection, file, is_unscrubbed: Cell::new(true), owner })
    }

    /// Begins a transaction, which [`Database::commit`] ends.
    pub(super) fn open_transaction(&self) -> Result<(), Unkept> {
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)
    }

    /// Commits the transaction, all or nothing. A statement that failed inside it does not undo the others.
    pub(super) fn commit(&self) -> Result<(), Unkept> {
        turnstream_failpoint::reach("attempts.commit");
        self.connection.execute_batch("COMMIT").map_err(|error| {
            // Fails only if SQLite has rolled back by itself.
            if let Err(error) = self.connection.execute_batch("ROLLBACK") {
                debug!(error = %Chain(&error), "nothing to roll back");
            }
            failed(error)
        })
    }

    /// Removes deleted rows from the write-ahead log too, and from unused bytes inside pages.
    pub(super) fn scrub(&self) -> Result<(), Unkept> {
        if !self.is_unscrubbed.get() {
            return Ok(());
        }
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        let busy: i64 = self.connection.query_row(checkpoint, [], |row| row.get(0)).map_err(failed)?;
        if busy != 0 {
            let problem = "what was deleted is still in attempts.db-wal, because another process reads the database; \
                           ask again when it has ended";
            return Err(Unkept::Store(SharedError::new(problem)));
        }
        // A cached page would bring the old bytes back at its next write.
        self.connection.execute_batch("PRAGMA shrink_memory").map_err(failed)?;
        let every = scrub::extent(&self.file)
            .and_then(|(_, count)| scrub::pages(&self.file, &(0..count).collect::<Vec<u64>>()));
        every.map_err(|error| Unkept::Store(SharedError::new(error)))?;
        self.is_unscrubbed.set(false);
        Ok(())
    }

    pub(super) fn begin(&self, begun: &Begun) -> Result<(), Unkept> {
        let AttemptName { session, turn, number } = &begun.name;
        let insert = "INSERT OR IGNORE INTO attempt (session, turn, number, started, owner, begun)
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let row =
            params![session.as_str(), turn.as_str(), number, millis(begun.started), self.owner, json(begun)?];
        match self.execute(insert, row)? {
            0 => Err(Unkept::Repeated(begun.name.clone())),
            _ => Ok(()),
        }
    }

    pub(super) fn end(&self, name: &AttemptName, ended: &Ended) -> Result<(), Unkept> {
        let AttemptName { session, turn, number } = name;
        let update = "UPDATE attempt SET ended = ?4, verdict = ?5, finished = ?6, owner = NULL
                      WHERE session = ?1 AND turn = ?2 AND number = ?3 AND ended IS NULL AND owner = ?7";
        let row = params![
            session.as_str(),
            turn.as_str(),
            number,
            millis(ended.ended),
            ended.verdict.as_str(),
            json(ended)?,
            self.owner
        ];
        if self.execute(update, row)? == 0 {
            return Err(match self.attempt(name)? {
                Some(_) => Unkept::Ended(name.clone()),
                None => Unkept::NeverBegan(name.clone()),
            });
        }
        let Some(Evidence { head, omitted, tail }) = &ended.evidence else { return Ok(()) };
        let insert = "INSERT INTO evidence (session, turn, number, head, omitted, tail) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let omitted = i64::try_from(*omitted).unwrap_or(i64::MAX);
        self.execute(insert, params![session.as_str(), turn.as_str(), number, head, omitted, tail])?;
        Ok(())
    }

    /// Links a row to the attempt that an adapter has reported. The first link stays.
    pub(super) fn link(&self, name: &AttemptName, of: &AgentAttempt) -> Result<(), Unkept> {
        let AttemptName { session, turn, number } = name;
        // It stands in the JSON of the row: older versions ignore it there.
        let update = "UPDATE attempt SET begun = json_insert(begun, '$.of', json(?4))
                      WHERE session = ?1 AND turn = ?2 AND number = ?3";
        match self.execute(update, params![session.as_str(), turn.as_str(), number, json(of)?])? {
            0 => Err(Unkept::NeverBegan(name.clone())),
            _ => Ok(()),
        }
    }

    fn attempt(&self, name: &AttemptName) -> Result<Option<Attempt>, Unkept> {
        attempt(&self.connection, name)
    }

    pub(super) fn attempts(&self, session: &SessionId) -> Result<Vec<Attempt>, Unkept> {
        attempts(&self.connection, session)
    }

    pub(super) fn evidence(&self, name: &AttemptName) -> Result<Option<Evidence>, Unkept> {
        evidence(&self.connection, name)
    }

    pub(super) fn park(&self, parked: &Parked) -> Result<(), Unkept> {
        let insert = "INSERT OR REPLACE INTO parked (session, turn, until, body) VALUES (?1, ?2, ?3, ?4)";
        let (session, turn) = (parked.session.as_str(), parked.turn.as_str());
        self.execute(insert, params![session, turn, millis(parked.until), json(parked)?])?;
        Ok(())
    }

    pub(super) fn restate(&self, parked: &Parked) -> Result<bool, Unkept> {
        let update = "UPDATE parked SET until = ?3, body = ?4 WHERE session = ?1 AND turn = ?2";
        let (session, turn) = (parked.session.as_str(), parked.turn.as_str());
        Ok(self.execute(update, params![session, turn, millis(parked.until), json(parked)?])? > 0)
    }

    pub(super) fn unpark(&self, session: &SessionId, turn: &TurnId) -> Result<bool, Unkept> {
        let delete = "DELETE FROM parked WHERE session = ?1 AND turn = ?2";
        Ok(self.execute(delete, params![session.as_str(), turn.as_str()])? > 0)
    }

    pub(super) fn parked(&self) -> Result<Vec<Parked>, Unkept> {
        parked(&self.connection)
    }

    pub(super) fn forget(&self, session: &SessionId) -> Result<u64, Unkept> {
        let session = session.as_str();
        self.is_unscrubbed.set(true);
        self.execute("DELETE FROM evidence WHERE session = ?1", params![session])?;
        self.execute("DELETE FROM parked WHERE session = ?1", params![session])?;
        Ok(self.execute("DELETE FROM attempt WHERE session = ?1", params![session])? as u64)
    }

    pub(super) fn trim(&self, before: Time) -> Result<u64, Unkept> {
        // An attempt without an end is as old as its start.
        let old = "coalesce(ended, CASE WHEN verdict = 'unknown' THEN started END) < ?1";
        let evidence = format!(
            "DELETE FROM evidence WHERE (session, turn, number) IN (SELECT session, turn, number FROM attempt WHERE {old})"
        );
        self.execute(&evidence, params![millis(before)])?;
        let trimmed = self.execute(&format!("DELETE FROM attempt WHERE {old}"), params![millis(before)])?;
        if trimmed > 0 {
            self.is_unscrubbed.set(true);
        }
        Ok(trimmed as u64)
    }

    fn execute(&self, sql: &str, row: impl rusqlite::Params) -> Result<usize, Unkept> {
        let mut statement = self.connection.prepare_cached(sql).map_err(failed)?;
        statement.execute(row).map_err(failed)
    }
}

const COLUMNS: &str = "begun, finished, verdict = 'unknown' AND ended IS NULL";

pub(super) fn attempt(connection: &Connection, name: &AttemptName) -> Result<Option<Attempt>, Unkept> {
    let query = format!("SELECT {COLUMNS} FROM attempt WHERE session = ?1 AND turn = ?2 AND number = ?3");
    let mut statement = connection.prepare_cached(&query).map_err(failed)?;
    let key = params![name.session.as_str(), name.turn.as_str(), name.number];
    statement.query_row(key, columns).optional().map_err(failed)?.map(read).transpose()
}

pub(super) fn attempts(connection: &Connection, session: &SessionId) -> Result<Vec<Attempt>, Unkept> {
    let query = format!("SELECT {COLUMNS} FROM attempt WHERE session = ?1 ORDER BY rowid");
    let mut statement = connection.prepare_cached(&query).map_err(failed)?;
    let rows = statement.query_map([session.as_str()], columns).map_err(failed)?;
    rows.map(|row| read(row.map_err(failed)?)).collect()
}

pub(super) fn evidence(connection: &Connection, name: &AttemptName) -> Result<Option<Evidence>, Unkept> {
    let query = "SELECT head, omitted, tail FROM evidence WHERE session = ?1 AND turn = ?2 AND number = ?3";
    let mut statement = connection.prepare_cached(query).map_err(failed)?;
    let key = params![name.session.as_str(), name.turn.as_str(), name.number];
    let read = |row: &Row<'_>| {
        let omitted: i64 = row.get(1)?;
        Ok(Evidence { head: row.get(0)?, omitted: omitted.unsigned_abs(), tail: row.get(2)? })
    };
    statement.query_row(key, read).optional().map_err(failed)
}

pub(super) fn parked(connection: &Connection) -> Result<Vec<Parked>, Unkept> {
    let query = "SELECT body FROM parked ORDER BY until, session, turn";
    let mut statement = connection.prepare_cached(query).map_err(failed)?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).map_err(failed)?;
    rows.map(|body| serde_json::from_str(&body.map_err(failed)?).map_err(unreadable)).collect()
}

/// The link in the JSON of a row.
#[derive(serde::Deserialize)]
struct Link {
    #[serde(default)]
    of: Option<AgentAttempt>,
}

type Columns = (String, Option<String>, Option<bool>);

fn columns(row: &Row<'_>) -> rusqlite::Result<Columns> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

fn read((begun, finished, orphaned): Columns) -> Result<Attempt, Unkept> {
    let Link { of } = serde_json::from_str(&begun).map_err(unreadable)?;
    Ok(Attempt {
        begun: serde_json::from_str(&begun).map_err(unreadable)?,
        end: finished.map(|end| serde_json::from_str(&end)).transpose().map_err(unreadable)?,
        orphaned: orphaned.unwrap_or(false),
        of,
    })
}

/// SQLite's integers are signed; no clock shows a later time.
fn millis(time: Time) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

fn json(value: &impl serde::Serialize) -> Result<String, Unkept> {
    serde_json::to_string(value).map_err(unreadable)
}

fn failed(error: rusqlite::Error) -> Unkept {
    Unkept::Store(SharedError::new(error))
}

fn unreadable(error: serde_json::Error) -> Unkept {
    Unkept::Store(SharedError::new(UnreadableRow(error)))
}
