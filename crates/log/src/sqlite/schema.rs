//! The tables, and opening them. An operator can read everything with the sqlite3 shell.
//!
//! A key of (session, seq) per event would stop at 33,000 rows/s. A `chunk` holds all events that one session
//! had between two settlements, one line of JSON each.

use crate::error::OpenError;
use rusqlite::{Connection, ErrorCode, OpenFlags, params};
use std::path::Path;

const APPLICATION: i64 = 0x7475_726e;
const FORMAT: i64 = 1;

pub(super) const TABLES: &str = "
CREATE TABLE session (
    key        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    generation TEXT NOT NULL,
    epoch      INTEGER NOT NULL
) STRICT;
CREATE TABLE chunk (
    session   INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    count     INTEGER NOT NULL,
    data      TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX chunk_place ON chunk (session, first_seq);
CREATE TABLE fold (
    session INTEGER PRIMARY KEY,
    seq     INTEGER NOT NULL,
    epoch   INTEGER NOT NULL,
    body    TEXT NOT NULL
) STRICT;
CREATE TABLE piece (
    ordinal   INTEGER PRIMARY KEY,
    session   INTEGER NOT NULL,
    kind      INTEGER NOT NULL,
    id        TEXT NOT NULL,
    seq       INTEGER NOT NULL,
    epoch     INTEGER NOT NULL,
    streaming INTEGER NOT NULL,
    body      TEXT NOT NULL,
    UNIQUE (session, kind, id)
) STRICT;
CREATE TABLE open_turn (
    session INTEGER NOT NULL,
    turn    TEXT NOT NULL,
    epoch   INTEGER NOT NULL,
    PRIMARY KEY (session, turn)
) STRICT;
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
";

/// What was found when the file was opened.
pub(crate) struct Opening {
    pub(crate) connection: Connection,
    /// The boot id inside the file; `None` for a new one.
    pub(crate) boot: Option<String>,
}

/// One row of `session`.
pub(super) struct SessionRow {
    pub(super) key: i64,
    pub(super) generation: String,
    pub(super) epoch: u64,
}

/// Opens the database for writing, making it if there is none. A damaged one is never recreated.
pub(crate) fn open(path: &Path) -> Result<Opening, OpenError> {
    let failed = |error: rusqlite::Error| describe(path, &error);
    let connection = Connection::open(path).map_err(failed)?;
    connection.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
    connection.pragma_update(None, "cache_size", -16_384).map_err(failed)?;
    let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let (application, format) =
        (number("application_id").map_err(failed)?, number("user_version").map_err(failed)?);
    let is_new = application == 0 && format == 0 && is_empty(&connection).map_err(failed)?;
    if is_new {
        // All or none: a file with half of it would be taken for another program's.
        let marks = format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT};");
        connection.execute_batch(&format!("BEGIN;{TABLES}{marks}COMMIT;")).map_err(failed)?;
    } else if application != APPLICATION {
        let problem = "it is a database of another program".to_owned();
        return Err(OpenError::Corrupt { path: path.to_owned(), problem });
    } else if format > FORMAT {
        return Err(OpenError::TooNew { path: path.to_owned(), found: format, known: FORMAT });
    }
    let boot = connection.query_row("SELECT value FROM meta WHERE name = 'boot'", [], |row| row.get(0));
    let boot = match boot {
        Ok(boot) => Some(boot),
        Err(rusqlite::Error::QueryReturnedNoRows) => None,
        Err(error) => return Err(failed(error)),
    };
    Ok(Opening { connection, boot })
}

/// Another connection that only reads.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
}

impl Opening {
    /// Writes the id of this boot, and a new generation for every session if the file was restored.
    pub(crate) fn begin(&mut self, boot: &str, restored: bool) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        if restored {
            let mut rows = transaction.prepare("SELECT key FROM session")?;
            let keys: Vec<i64> = rows.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            let mut update = transaction.prepare("UPDATE session SET generation = ?2 WHERE key = ?1")?;
            for key in keys {
                update.execute(params![key, fresh_generation()])?;
            }
        }
        transaction.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('boot', ?1)", [boot])?;
        transaction.commit()
    }
}

/// A name that no earlier history has used: after a restore, counting on would repeat one.
pub(crate) fn fresh_generation() -> String {
    format!("g{:016x}", fastrand::u64(..))
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

fn describe(path: &Path, error: &rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    let problem = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => OpenError::Corrupt { path, problem },
        _ => OpenError::Store { path, problem },
    }
}
