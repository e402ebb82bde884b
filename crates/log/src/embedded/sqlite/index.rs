//! The search index: one row per entry, and its words in an FTS5 table.
//!
//! We split the text into words ourselves (`search/words.rs`) and give FTS5 one line of plain tokens. Filters
//! are tokens of the same line; they begin with an underscore, which no word does. The ordinal of a row is
//! its position in the results, so that the newest matches are read first.
//!
//! The FTS5 table has no copy of the text. To remove a line, FTS5 needs exactly the line that was inserted.
//! It is rebuilt from the row by the same version of the same function, which [`is_current`] checks. With
//! `secure-delete`, FTS5 removes the words from its pages at once.

use crate::projection::{IndexChanges, PieceKind};
use crate::search::words::Words;
use crate::search::{Entry, Subject, words};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::fmt::Write;
use turnstream_model::event::{ItemKind, Role};

/// Milliseconds covered by one row of `entry_hour`.
pub(super) const HOUR: i64 = 3_600_000;

const TABLES: &str = "
DROP TABLE IF EXISTS entry;
DROP TABLE IF EXISTS entry_hour;
DROP TABLE IF EXISTS entry_word;
CREATE TABLE entry (
    ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL,
    subject INTEGER NOT NULL,
    id      TEXT NOT NULL,
    time    INTEGER NOT NULL,
    turn    TEXT,
    kind    TEXT NOT NULL,
    role    TEXT,
    agent   TEXT NOT NULL,
    text    TEXT NOT NULL,
    UNIQUE (session, subject, id)
) STRICT;
CREATE TABLE entry_hour (
    hour  INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,
    last  INTEGER NOT NULL
) STRICT;
CREATE VIRTUAL TABLE entry_word USING fts5(
    line, content = '', columnsize = 0, prefix = '2 3 4', tokenize = \"ascii tokenchars '_'\"
);
INSERT INTO entry_word (entry_word, rank) VALUES ('secure-delete', 1);
INSERT INTO sqlite_sequence (name, seq) SELECT 'entry', coalesce(max(ordinal), 0) FROM piece;
INSERT OR REPLACE INTO meta (name, value) SELECT 'unindexed', '0 ' || max(ordinal) FROM piece HAVING count(*) > 0;
";

/// True if there is an index that was built by the current tokenizer.
pub(super) fn is_current(connection: &Connection) -> rusqlite::Result<bool> {
    let mut query = connection.prepare("SELECT value FROM meta WHERE name = 'words'")?;
    let cut: Option<String> = query.query_row([], |row| row.get(0)).optional()?;
    Ok(cut.is_some_and(|cut| cut == words::version()))
}

/// Creates an empty index in place of any existing one, in the caller's transaction. `backfill.rs` fills it
/// afterwards.
pub(super) fn make(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(TABLES)?;
    let mut set = connection.prepare("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)")?;
    set.execute(params!["words", words::version()])?;
    // The name is part of every cursor: ordinals of one index mean nothing in another.
    set.execute(params!["index", format!("{:x}", fastrand::u64(..))])?;
    Ok(())
}

/// Writes changed entries, and removes entries that must not be found any more.
pub(super) fn write(
    transaction: &Transaction<'_>,
    session: i64,
    found: &IndexChanges,
) -> rusqlite::Result<()> {
    let IndexChanges { agent, entries, gone } = found;
    for entry in entries {
        upsert(transaction, session, agent, entry)?;
    }
    gone.iter().try_for_each(|subject| remove(transaction, session, subject))
}

/// Removes an entry if it exists.
pub(super) fn remove(transaction: &Transaction<'_>, session: i64, subject: &Subject) -> rusqlite::Result<()> {
    match stored(transaction, session, subject)? {
        Some((ordinal, old)) => delete_row(transaction, ordinal, session, &old),
        None => Ok(()),
    }
}

/// Hides an entry if it exists. Removing its words is slow and happens later; until then its row belongs to
/// the negated session key.
pub(super) fn hide(transaction: &Transaction<'_>, session: i64, subject: &Subject) -> rusqlite::Result<()> {
    // An entry of the same name may still be hidden.
    remove(transaction, -session, subject)?;
    let (subject, id) = key_of(subject);
    transaction
        .prepare_cached(
            "UPDATE entry SET session = -session WHERE session = ?1 AND subject = ?2 AND id = ?3",
        )?
        .execute(params![session, subject, id])?;
    Ok(())
}

/// A session key under which entries are hidden, if there is one.
pub(super) fn hidden_session(transaction: &Transaction<'_>) -> rusqlite::Result<Option<i64>> {
    let mut query = transaction.prepare_cached("SELECT session FROM entry WHERE session < 0 LIMIT 1")?;
    query.query_row([], |row| row.get(0)).optional()
}

/// Removes entries of a session, or hidden ones, up to this many bytes of text but at least one. Returns
/// their number.
///
/// When none is left, only freed pages may still hold their words; `PRAGMA secure_delete` or `VACUUM` clears
/// those.
pub(super) fn remove_entries(
    transaction: &Transaction<'_>,
    session: i64,
    most: usize,
) -> rusqlite::Result<usize> {
    let mut query = transaction
        .prepare_cached("SELECT ordinal FROM entry WHERE session = ?1 ORDER BY subject, id LIMIT ?2")?;
    let ordinals = query.query_map(params![session, most as i64], |row| row.get(0))?;
    let ordinals: Vec<i64> = ordinals.collect::<Result<_, _>>()?;
    let (mut taken, mut bytes) = (0, 0);
    for ordinal in &ordinals {
        let mut query = transaction.prepare_cached(
            "SELECT ordinal, subject, id, time, turn, kind, role, agent, text FROM entry WHERE ordinal = ?1",
        )?;
        let (ordinal, old) = query.query_row([ordinal], row_of)?;
        delete_row(transaction, ordinal, session, &old)?;
        (taken, bytes) = (taken + 1, bytes + old.text.len());
        if bytes >= most {
            break;
        }
    }
    Ok(taken)
}

/// A row of the `entry` table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EntryRow {
    pub(super) subject: i64,
    pub(super) id: String,
    pub(super) time: i64,
    pub(super) turn: Option<String>,
    pub(super) kind: String,
    pub(super) role: Option<String>,
    pub(super) agent: String,
    pub(super) text: String,
}

impl EntryRow {
    pub(super) fn of(agent: &str, entry: &Entry) -> Self {
        let Entry { subject, turn, kind, role, time, text } = entry;
        let (subject, id) = key_of(subject);
        Self {
            subject,
            id: id.to_owned(),
            time: i64::try_from(time.0).unwrap_or(i64::MAX),
            turn: turn.as_ref().map(|turn| turn.as_str().to_owned()),
            kind: kind.as_str().to_owned(),
            role: role.map(|role| role.as_str().to_owned()),
            agent: agent.to_owned(),
            text: text.clone(),
        }
    }

    /// The line for FTS5: tags, words, and the parts of compound words. No phrase can match across an
    /// underscore.
    fn line(&self, session: i64) -> String {
        // The key of a hidden entry is negative.
        let mut line = format!("_s{} {} _k{}", session.abs(), agent_tag(&self.agent), self.kind);
        if let Some(role) = &self.role {
            line.push_str(" _r");
            line.push_str(role);
        }
        let mut parts = String::new();
        for word in Words::of(&self.text) {
            line.push(' ');
            line.push_str(&word.key);
            if !word.parts.is_empty() {
                parts.push_str(" _");
            }
            for (_, part) in word.parts {
                parts.push(' ');
                parts.push_str(&part);
            }
        }
        line + &parts
    }
}

/// The tokens for these filters.
pub(super) fn tags(
    session: Option<i64>,
    agent: Option<&str>,
    kind: Option<ItemKind>,
    role: Option<Role>,
) -> Vec<String> {
    let tags = [
        session.map(|session| format!("_s{session}")),
        agent.map(agent_tag),
        kind.map(|kind| format!("_k{}", kind.as_str())),
        role.map(|role| format!("_r{}", role.as_str())),
    ];
    tags.into_iter().flatten().collect()
}

/// Hexadecimal, because the name of an agent may have any characters.
fn agent_tag(agent: &str) -> String {
    agent.bytes().fold("_a".to_owned(), |mut tag, byte| {
        // Writing to a `String` does not fail.
        let _ = write!(tag, "{byte:02x}");
        tag
    })
}

/// Inserts an entry or replaces the existing one.
fn upsert(transaction: &Transaction<'_>, session: i64, agent: &str, entry: &Entry) -> rusqlite::Result<()> {
    let row = EntryRow::of(agent, entry);
    match stored(transaction, session, &entry.subject)? {
        Some((_, old)) if old == row => Ok(()),
        Some((ordinal, old)) => {
            delete_row(transaction, ordinal, session, &old)?;
            insert(transaction, Some(ordinal), session, &row)
        }
        None => insert(transaction, None, session, &row),
    }
}

/// Inserts a row with this ordinal, or with the next one.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    ordinal: Option<i64>,
    session: i64,
    row: &EntryRow,
) -> rusqlite::Result<()> {
    let EntryRow { subject, id, time, turn, kind, role, agent, text } = row;
    transaction
        .prepare_cached(
            "INSERT INTO entry (ordinal, session, subject, id, time, turn, kind, role, agent, text)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![ordinal, session, subject, id, time, turn, kind, role, agent, text])?;
    let ordinal = ordinal.unwrap_or_else(|| transaction.last_insert_rowid());
    transaction
        .prepare_cached(
            "INSERT INTO entry_hour (hour, first, last) VALUES (?1, ?2, ?2) ON CONFLICT (hour) DO UPDATE
             SET first = min(first, excluded.first), last = max(last, excluded.last)",
        )?
        .execute(params![time / HOUR, ordinal])?;
    transaction
        .prepare_cached("INSERT INTO entry_word (rowid, line) VALUES (?1, ?2)")?
        .execute(params![ordinal, row.line(session)])?;
    Ok(())
}

fn delete_row(
    transaction: &Transaction<'_>,
    ordinal: i64,
    session: i64,
    old: &EntryRow,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("INSERT INTO entry_word (entry_word, rowid, line) VALUES ('delete', ?1, ?2)")?
        .execute(params![ordinal, old.line(session)])?;
    transaction.prepare_cached("DELETE FROM entry WHERE ordinal = ?1")?.execute([ordinal])?;
    Ok(())
}

fn stored(
    transaction: &Transaction<'_>,
    session: i64,
    subject: &Subject,
) -> rusqlite::Result<Option<(i64, EntryRow)>> {
    let (subject, id) = key_of(subject);
    let mut query = transaction.prepare_cached(
        "SELECT ordinal, subject, id, time, turn, kind, role, agent, text FROM entry
         WHERE session = ?1 AND subject = ?2 AND id = ?3",
    )?;
    query.query_row(params![session, subject, id], row_of).optional()
}

fn row_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<(i64, EntryRow)> {
    let found = EntryRow {
        subject: row.get(1)?,
        id: row.get(2)?,
        time: row.get(3)?,
        turn: row.get(4)?,
        kind: row.get(5)?,
        role: row.get(6)?,
        agent: row.get(7)?,
        text: row.get(8)?,
    };
    Ok((row.get(0)?, found))
}

/// The key of a subject, the same as of its row in `piece`.
fn key_of(subject: &Subject) -> (i64, &str) {
    match subject {
        Subject::Item(id) => (PieceKind::Item as i64, id.as_str()),
        Subject::Prompt(id) => (PieceKind::Prompt as i64, id.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::remove::More;
    use super::super::separators::{Separator, renew_some};
    use super::*;
    use std::path::Path;
    use turnstream_model::id::ItemId;
    use turnstream_model::time::Time;

    fn database(path: &Path) -> Connection {
        let connection = Connection::open(path).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection.execute_batch(super::super::schema::TABLES).unwrap();
        make(&connection).unwrap();
        connection
    }

    fn file(connection: &mut Connection, session: i64, item: &str, text: String) {
        let transaction = connection.transaction().unwrap();
        let (subject, kind) = (Subject::Item(ItemId::from(item)), ItemKind::Message);
        let entry = Entry { subject, turn: None, kind, role: None, time: Time(1), text };
        upsert(&transaction, session, "agent", &entry).unwrap();
        transaction.commit().unwrap();
    }

    /// A random word that shares no prefix with any other.
    fn secret(number: u64) -> String {
        let mut random = fastrand::Rng::with_seed(number);
        std::iter::repeat_with(|| random.lowercase()).take(16).collect()
    }

    fn bytes_beside(path: &Path) -> Vec<u8> {
        let entries = std::fs::read_dir(path.parent().unwrap()).unwrap();
        entries.flat_map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect()
    }

    fn secrets_in(bytes: &[u8]) -> Vec<String> {
        let text = String::from_utf8_lossy(bytes);
        (0..600).map(secret).filter(|secret| text.contains(&secret[..12])).collect()
    }

    #[test]
    fn of_a_session_that_is_forgotten_no_byte_stays_and_the_others_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.db");
        let mut connection = database(&path);
        connection.pragma_update(None, "secure_delete", true).unwrap();
        for number in 0..600 {
            let text = format!("some words that all have and {} of {number}", secret(number));
            file(&mut connection, 1, &format!("i{number}"), text);
            file(&mut connection, 2, &format!("i{number}"), format!("words of the other {number}"));
        }
        let mut forgotten = 0;
        loop {
            let transaction = connection.transaction().unwrap();
            let some = remove_entries(&transaction, 1, 100).unwrap();
            transaction.commit().unwrap();
            forgotten += some;
            if some == 0 {
                break;
            }
        }
        assert_eq!(forgotten, 600);
        connection.execute_batch("INSERT INTO entry_word (entry_word) VALUES ('integrity-check')").unwrap();
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        assert_eq!(secrets_in(&bytes_beside(&path)), [""; 0]);
        let count = |words: &str| -> i64 {
            let query = "SELECT count(*) FROM entry_word WHERE entry_word MATCH ?1";
            connection.query_row(query, [words], |row| row.get(0)).unwrap()
        };
        assert_eq!((count("words"), count("_s1"), count("have"), count("\"other 599\"")), (600, 0, 0, 1));
    }

    /// Words with a common prefix are neighbours in the index, and its page index holds prefixes of some.
    #[test]
    fn of_words_that_begin_alike_no_byte_stays_either() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.db");
        let mut connection = database(&path);
        connection.pragma_update(None, "secure_delete", true).unwrap();
        let mut random = fastrand::Rng::with_seed(5);
        for number in 0..300 {
            let words = |beginning: &str, random: &mut fastrand::Rng| -> String {
                (0..40).map(|_| format!("{beginning}{:06} ", random.u32(..1_000_000))).collect()
            };
            file(&mut connection, 1, &format!("i{number}"), words("projectnightingale", &mut random));
            file(&mut connection, 2, &format!("i{number}"), words("projectnight", &mut random));
            file(&mut connection, 2, &format!("j{number}"), words("projectnightz", &mut random));
        }
        loop {
            let transaction = connection.transaction().unwrap();
            let some = remove_entries(&transaction, 1, 100).unwrap();
            transaction.commit().unwrap();
            if some == 0 {
                break;
            }
        }
        let mut after = Separator::default();
        loop {
            let transaction = connection.transaction().unwrap();
            let more = renew_some(&transaction, &mut after).unwrap();
            transaction.commit().unwrap();
            if more == More::No {
                break;
            }
        }
        connection.execute_batch("INSERT INTO entry_word (entry_word) VALUES ('integrity-check')").unwrap();
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        let bytes = bytes_beside(&path);
        let left = bytes.windows(13).filter(|window| window == b"projectnighti").count();
        assert_eq!(left, 0);
        let count: i64 = connection
            .query_row("SELECT count(*) FROM entry_word WHERE entry_word MATCH 'projectnight*'", [], |row| {
                row.get(0)
            })
            .unwrap();
        assert_eq!(count, 600, "the others are found");
        let texts: Vec<String> = {
            let mut query = connection.prepare("SELECT text FROM entry ORDER BY ordinal").unwrap();
            query.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
        };
        let found = |word: &str| -> i64 {
            let query = "SELECT count(*) FROM entry_word WHERE entry_word MATCH ?1";
            connection.query_row(query, [word], |row| row.get(0)).unwrap()
        };
        let words = texts.iter().flat_map(|text| text.split_whitespace());
        assert_eq!(words.filter(|word| found(word) == 0).collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn what_is_hidden_is_of_no_session_until_its_words_go() {
        let directory = tempfile::tempdir().unwrap();
        let mut connection = database(&directory.path().join("log.db"));
        let subject = Subject::Item(ItemId::from("i1"));
        // Twice, as if an agent had reused an id before the words of the first entry were removed.
        for text in ["first words", "second words"] {
            file(&mut connection, 1, "i1", text.to_owned());
            let transaction = connection.transaction().unwrap();
            hide(&transaction, 1, &subject).unwrap();
            assert_eq!(stored(&transaction, 1, &subject).unwrap(), None);
            transaction.commit().unwrap();
        }
        file(&mut connection, 1, "i1", "third words".to_owned());
        let found = |connection: &Connection, words: &str| -> i64 {
            let query = "SELECT count(*) FROM entry_word WHERE entry_word MATCH ?1";
            connection.query_row(query, [words], |row| row.get(0)).unwrap()
        };
        let transaction = connection.transaction().unwrap();
        assert_eq!((found(&transaction, "first"), found(&transaction, "second")), (0, 1));
        assert_eq!(hidden_session(&transaction).unwrap(), Some(-1));
        assert_eq!(remove_entries(&transaction, -1, 1).unwrap(), 1);
        assert_eq!(hidden_session(&transaction).unwrap(), None);
        transaction.commit().unwrap();
        let left = ["second", "_s1", "third"].map(|words| found(&connection, words));
        assert_eq!(left, [0, 1, 1]);
        connection.execute_batch("INSERT INTO entry_word (entry_word) VALUES ('integrity-check')").unwrap();
    }

    #[test]
    fn without_secure_delete_the_bytes_are_gone_after_a_vacuum() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.db");
        let mut connection = database(&path);
        for number in 0..600 {
            file(&mut connection, 1 + i64::from(number % 2 == 0), &format!("i{number}"), secret(number));
        }
        let transaction = connection.transaction().unwrap();
        assert_eq!(remove_entries(&transaction, 1, usize::MAX >> 1).unwrap(), 300);
        transaction.commit().unwrap();
        connection.execute_batch("VACUUM").unwrap();
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        let left = secrets_in(&bytes_beside(&path));
        assert_eq!(left, (0..600).filter(|number| number % 2 == 0).map(secret).collect::<Vec<_>>());
    }

    #[test]
    fn an_entry_that_changes_keeps_its_number_and_loses_its_old_words() {
        let directory = tempfile::tempdir().unwrap();
        let mut connection = database(&directory.path().join("log.db"));
        for (item, text) in [("i1", "old fooBar"), ("i2", "other"), ("i1", "new"), ("i1", "new")] {
            file(&mut connection, 1, item, text.to_owned());
        }
        let numbers = |words: &str| -> Vec<i64> {
            let mut query =
                connection.prepare("SELECT rowid FROM entry_word WHERE entry_word MATCH ?1").unwrap();
            query.query_map([words], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
        };
        assert_eq!((numbers("new"), numbers("other")), (vec![1], vec![2]));
        assert_eq!((numbers("old"), numbers("bar"), numbers("foobar")), (vec![], vec![], vec![]));
    }
}
