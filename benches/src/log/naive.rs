//! The naive implementation: one SQLite transaction per delta.

use super::load::text;
use std::path::Path;
use std::time::{Duration, Instant};

/// Deltas per second.
pub(crate) fn run(length: Duration, path: &Path) -> f64 {
    let connection = rusqlite::Connection::open(path).expect("a database in the bench directory");
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE event (session TEXT, seq INTEGER, data TEXT, PRIMARY KEY (session, seq)) WITHOUT ROWID;",
        )
        .expect("a table");
    let mut insert = connection
        .prepare("INSERT INTO event (session, seq, data) VALUES (?1, ?2, ?3)")
        .expect("a statement");
    let start = Instant::now();
    let mut count = 0_u64;
    while start.elapsed() < length {
        let session = format!("ses_{}", count % 1_000);
        insert.execute((session, count as i64, text(count))).expect("a commit");
        count += 1;
    }
    count as f64 / start.elapsed().as_secs_f64()
}
