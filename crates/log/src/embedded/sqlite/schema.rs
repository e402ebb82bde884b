//! The tables of the database, and opening it. An operator can read everything with the sqlite3 shell.
//!
//! One row per event, with a key of (session, seq), was limited to 33,000 rows/s. A `chunk` row holds all
//! events of a session between two flushes, one line of JSON each.

use super::index;
use super::unscrubbed::Unscrubbed;
use super::wal::{self, Wal};
use super::write::Database;
use crate::error::{OpenError, StoreFault};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};
use std::path::Path;
use tracing::info;

const APPLICATION: i64 = 0x7475_726e;
/// Format 2 added the search index and removal.
const FORMAT: i64 = 2;

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

/// The tables that format 2 added: the state before the oldest kept event, and deleted sessions.
pub(super) const TABLES_2: &str = "
CREATE TABLE base (
    session INTEGER PRIMARY KEY,
    seq     INTEGER NOT NULL,
    body    TEXT NOT NULL
) STRICT;
CREATE TABLE tombstone (
    session INTEGER PRIMARY KEY,
    id      TEXT NOT NULL,
    done    INTEGER NOT NULL
) STRICT;
CREATE INDEX tombstone_id ON tombstone (id);
";

/// The result of opening the database.
pub(crate) struct OpenedDatabase {
    pub(crate) database: Database,
    /// `None` for a new database.
    pub(crate) meta: Option<Meta>,
    /// The write-ahead log belonged to a later database and was moved aside.
    pub(crate) had_foreign_log: bool,
}

/// What the database records about its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    /// The boot id of the last run that used it.
    pub(crate) boot: u64,
    /// The number of transactions the log has made.
    pub(crate) revision: u64,
    /// The last segment that the database has completely.
    pub(crate) flushed_segment: u64,
    /// The write-ahead log of the last transaction, if known.
    pub(super) wal: Option<Wal>,
}

/// Opens the database for writing and creates it if needed. A damaged database is never recreated.
pub(crate) fn open(path: &Path) -> Result<OpenedDatabase, OpenError> {
    let failed = |error: rusqlite::Error| describe(path, error);
    let had_foreign_log = wal::set_aside_if_foreign(path)
        .map_err(|source| OpenError::Directory { path: path.to_owned(), source })?;
    let connection = Connection::open(path).map_err(failed)?;
    connection.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
    connection.pragma_update(None, "cache_size", -16_384).map_err(failed)?;
    // Overwrites deleted rows, in pages that stay and in pages that become free.
    connection.pragma_update(None, "secure_delete", "ON").map_err(failed)?;
    stable_plans(&connection).map_err(failed)?;
    let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let (application, format) =
        (number("application_id").map_err(failed)?, number("user_version").map_err(failed)?);
    let is_new = application == 0 && format == 0 && is_empty(&connection).map_err(failed)?;
    if !is_new && application != APPLICATION {
        let problem = StoreFault::new("it is a database of another program");
        return Err(OpenError::Corrupt { path: path.to_owned(), problem });
    }
    if format > FORMAT {
        return Err(OpenError::TooNew { path: path.to_owned(), found: format, known: FORMAT });
    }
    if format < FORMAT || !index::is_current(&connection).map_err(failed)? {
        bring_up_to_date(&connection, format).map_err(failed)?;
        if !is_new {
            info!(path = %path.display(), format, "the database was upgraded; its search index is rebuilt");
        }
    }
    let meta = read_meta(&connection).map_err(failed)?;
    let noted = match &meta {
        Some(meta) => Unscrubbed::noted(&connection, meta.boot).map_err(failed)?,
        None => None,
    };
    let database = Database::new(connection, path, meta.as_ref(), noted);
    Ok(OpenedDatabase { database, meta, had_foreign_log })
}

/// Creates or upgrades the tables, all or nothing: a half-created file would look like another program's.
/// This transaction is not counted (`revision.rs`), because a restore is detected only afterwards.
fn bring_up_to_date(connection: &Connection, format: i64) -> rusqlite::Result<()> {
    let transaction = connection.unchecked_transaction()?;
    match format {
        // A new database has no tables.
        0 => {
            turnstream_failpoint::reach("log.tables");
            transaction.execute_batch(TABLES)?;
            transaction.execute_batch(TABLES_2)?;
        }
        1 => {
            turnstream_failpoint::reach("log.upgrade");
            transaction.execute_batch(TABLES_2)?;
        }
        // Only the index has another version.
        _ => {}
    }
    index::make(&transaction)?;
    Unscrubbed::forget_note(&transaction)?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    turnstream_failpoint::reach("log.up_to_date");
    transaction.commit()
}

/// What a database records about its log. `None` before the first run.
pub(super) fn read_meta(connection: &Connection) -> rusqlite::Result<Option<Meta>> {
    let mut query = connection.prepare("SELECT value FROM meta WHERE name = ?1")?;
    let mut number = |name: &str, radix| {
        let value = query.query_row([name], |row| row.get::<_, String>(0)).optional()?;
        Ok::<_, rusqlite::Error>(value.and_then(|text| u64::from_str_radix(&text, radix).ok()))
    };
    let Some(boot) = number("boot", 16)? else { return Ok(None) };
    let (revision, flushed_segment) =
        (number("revision", 10)?.unwrap_or(0), number("settled", 10)?.unwrap_or(0));
    let wal = number("wal", 16)?.zip(number("base", 10)?).map(|(salt, base)| Wal { salt, base });
    Ok(Some(Meta { boot, revision, flushed_segment, wal }))
}

/// Another reading connection.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    stable_plans(&connection)?;
    Ok(connection)
}

/// Plans statements once instead of for each bound value. SQLite is built with `STAT4` here, and would plan
/// FTS5's internal lookup again for every word, which took a quarter of the time of a removal.
fn stable_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// A random name that no earlier history has used. Counting would repeat names after a restore.
pub(crate) fn fresh_generation() -> String {
    format!("g{:016x}", fastrand::u64(..))
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

fn describe(path: &Path, error: rusqlite::Error) -> OpenError {
    let (path, code) = (path.to_owned(), error.sqlite_error_code());
    let problem = StoreFault::new(error);
    match code {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => OpenError::Corrupt { path, problem },
        _ => OpenError::Store { path, problem },
    }
}
