//! The tables of the attempts database, and opening it.

use crate::error::{OpenError, StoreFault};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// "tura" in ASCII. The log's database has another id, so the files cannot be confused.
const APPLICATION: i64 = 0x7475_7261;
const FORMAT: i64 = 1;
/// How long a writer waits for a reader in another process.
const BUSY: Duration = Duration::from_secs(5);

const TABLES: &str = "
CREATE TABLE attempt (
    session  TEXT NOT NULL,
    turn     TEXT NOT NULL,
    number   INTEGER NOT NULL,
    started  INTEGER NOT NULL,
    ended    INTEGER,
    owner    TEXT,
    verdict  TEXT,
    begun    TEXT NOT NULL,
    finished TEXT,
    PRIMARY KEY (session, turn, number)
) STRICT;
CREATE INDEX attempt_ended ON attempt (ended);
CREATE TABLE evidence (
    session TEXT NOT NULL,
    turn    TEXT NOT NULL,
    number  INTEGER NOT NULL,
    head    BLOB NOT NULL,
    omitted INTEGER NOT NULL,
    tail    BLOB NOT NULL,
    PRIMARY KEY (session, turn, number)
) STRICT;
CREATE TABLE parked (
    session TEXT NOT NULL,
    turn    TEXT NOT NULL,
    until   INTEGER NOT NULL,
    body    TEXT NOT NULL,
    PRIMARY KEY (session, turn)
) STRICT;
";

/// Opens the database for writing and creates it if needed. A damaged database is never recreated.
pub(super) fn open(path: &Path) -> Result<Connection, OpenError> {
    let failed = |error: rusqlite::Error| describe(path, error);
    let connection = Connection::open(path).map_err(failed)?;
    connection.busy_timeout(BUSY).map_err(failed)?;
    connection.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
    // A row that a power cut loses would be a request that nobody knows of.
    connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
    // Deleted rows are overwritten.
    connection.pragma_update(None, "secure_delete", true).map_err(failed)?;
    if is_new(&connection).map_err(failed)? {
        let marks = format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT};");
        connection.execute_batch(&format!("BEGIN;{TABLES}{marks}COMMIT;")).map_err(failed)?;
    } else {
        check(&connection, path)?;
    }
    Ok(connection)
}

/// Opens the database for reading, even while another process writes it.
pub(super) fn open_reader(path: &Path) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| describe(path, error))?;
    connection.busy_timeout(BUSY).map_err(|error| describe(path, error))?;
    check(&connection, path)?;
    Ok(connection)
}

fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, pragma, |row| row.get(0))
}

fn is_new(connection: &Connection) -> rusqlite::Result<bool> {
    let empty = connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(empty && number(connection, "application_id")? == 0 && number(connection, "user_version")? == 0)
}

fn check(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let failed = |error: rusqlite::Error| describe(path, error);
    if number(connection, "application_id").map_err(failed)? != APPLICATION {
        let problem = StoreFault::new("it is a database of another program");
        return Err(OpenError::Corrupt { path: path.to_owned(), problem });
    }
    let found = number(connection, "user_version").map_err(failed)?;
    if found > FORMAT {
        return Err(OpenError::TooNew { path: path.to_owned(), found, known: FORMAT });
    }
    Ok(())
}

fn describe(path: &Path, error: rusqlite::Error) -> OpenError {
    let (path, code) = (path.to_owned(), error.sqlite_error_code());
    let problem = StoreFault::new(error);
    match code {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => OpenError::Corrupt { path, problem },
        _ => OpenError::Store { path, problem },
    }
}
