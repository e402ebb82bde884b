//! Stored folds: one row for the head, and one row for each member of the lists. No partial row can overwrite
//! the row of a finished item (L8).

use crate::projection::{FoldWrite, Piece, PieceKind};
use crate::stored_fold::StoredFold;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::collections::BTreeMap;
use turnstream_model::fold::State;

/// The pieces of a session in order, for pages. Created when a database of an earlier version is opened.
pub(super) const INDEX: &str = "CREATE INDEX IF NOT EXISTS piece_place ON piece (session, kind);";

/// Writes what changed. Returns the number of rows that were refused because a final row, or one of a newer
/// owner, exists.
pub(super) fn write(transaction: &Transaction<'_>, session: i64, flush: &FoldWrite) -> rusqlite::Result<u64> {
    let FoldWrite { head, seq, epoch, pieces, gone, index_changes: _ } = flush;
    let (seq, epoch) = (seq.0 as i64, *epoch as i64);
    if let Some(head) = head {
        transaction
            .prepare_cached(
                "INSERT INTO fold (session, seq, epoch, body) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (session) DO UPDATE SET seq = excluded.seq, epoch = excluded.epoch, body = excluded.body
                 WHERE fold.seq < excluded.seq AND fold.epoch <= excluded.epoch",
            )?
            .execute(params![session, seq, epoch, head])?;
    }
    let mut refused = 0;
    let mut upsert = transaction.prepare_cached(
        "INSERT INTO piece (session, kind, id, seq, epoch, streaming, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (session, kind, id) DO UPDATE
         SET seq = excluded.seq, epoch = excluded.epoch, streaming = excluded.streaming, body = excluded.body
         WHERE piece.seq <= excluded.seq AND piece.epoch <= excluded.epoch
           AND (piece.streaming OR NOT excluded.streaming)",
    )?;
    for Piece { kind, id, streaming, body } in pieces {
        let written = upsert.execute(params![session, *kind as i64, id, seq, epoch, streaming, body])?;
        refused += u64::from(written == 0);
    }
    let mut delete =
        transaction.prepare_cached("DELETE FROM piece WHERE session = ?1 AND kind = ?2 AND id = ?3")?;
    for item in gone {
        delete.execute(params![session, PieceKind::Item as i64, item.as_str()])?;
    }
    Ok(refused)
}

/// Reads a stored fold and the events after it in one transaction. Rows that are ahead of the fold are left
/// out: they are rebuilt from the events.
pub(super) fn read(connection: &Connection, session: i64) -> rusqlite::Result<StoredFold> {
    let transaction = connection.unchecked_transaction()?;
    let head = transaction
        .prepare_cached("SELECT seq, body FROM fold WHERE session = ?1")?
        .query_row([session], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)))
        .optional()?;
    let (seq, head) = head.map_or((0, None), |(seq, body)| (seq, Some(body)));
    let mut pieces: BTreeMap<PieceKind, Vec<String>> = BTreeMap::new();
    {
        let mut query = transaction.prepare_cached(
            "SELECT kind, body FROM piece WHERE session = ?1 AND seq <= ?2 ORDER BY ordinal",
        )?;
        let mut rows = query.query([session, seq])?;
        while let Some(row) = rows.next()? {
            if let Some(kind) = kind_of(row.get(0)?) {
                pieces.entry(kind).or_default().push(row.get(1)?);
            }
        }
    }
    let tail = tail(&transaction, session, seq)?;
    Ok(StoredFold { head, pieces, tail })
}

/// Rows of events after this one, each with the seq of its first event. The first row may begin earlier.
pub(super) fn tail(connection: &Connection, session: i64, seq: i64) -> rusqlite::Result<Vec<(u64, String)>> {
    let mut query = connection.prepare_cached(
        "SELECT first_seq, data FROM chunk WHERE session = ?1 AND first_seq + count > ?2 + 1
         AND first_seq >= coalesce((SELECT max(first_seq) FROM chunk WHERE session = ?1 AND first_seq <= ?2), 0)
         ORDER BY first_seq",
    )?;
    let rows = query.query_map([session, seq], |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?)))?;
    rows.collect()
}

/// The base of a session: its seq and state before the oldest kept event. `None` if every event is kept.
pub(super) fn base(connection: &Connection, session: i64) -> rusqlite::Result<Option<(u64, String)>> {
    let mut query = connection.prepare_cached("SELECT seq, body FROM base WHERE session = ?1")?;
    query.query_row([session], |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?))).optional()
}

/// Sets the base of a session.
pub(super) fn set_base(transaction: &Transaction<'_>, session: i64, base: &State) -> rusqlite::Result<()> {
    transaction
        .execute(
            "INSERT OR REPLACE INTO base (session, seq, body) VALUES (?1, ?2, ?3)",
            params![session, base.seq.0 as i64, json(base)],
        )
        .map(drop)
}

/// A state as JSON for a row.
pub(super) fn json(state: &State) -> String {
    // Model types have string keys and no values that JSON cannot represent.
    serde_json::to_string(state).unwrap_or_default()
}

fn kind_of(number: i64) -> Option<PieceKind> {
    let kinds =
        [PieceKind::Turn, PieceKind::Item, PieceKind::Approval, PieceKind::Question, PieceKind::Prompt];
    kinds.into_iter().find(|kind| *kind as i64 == number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::projection::IndexChanges;
    use turnstream_model::cursor::Seq;
    use turnstream_model::id::ItemId;

    fn item(streaming: bool, body: &str) -> Piece {
        Piece { kind: PieceKind::Item, id: "i1".into(), streaming, body: body.into() }
    }

    fn flush(connection: &mut Connection, seq: u64, epoch: u64, piece: Piece) -> u64 {
        let (head, pieces, gone, index_changes) =
            (Some("{}".into()), vec![piece], Vec::new(), IndexChanges::default());
        let flush = FoldWrite { head, seq: Seq(seq), epoch, pieces, gone, index_changes };
        let transaction = connection.transaction().unwrap();
        let refused = write(&transaction, 1, &flush).unwrap();
        transaction.commit().unwrap();
        refused
    }

    fn stored(connection: &Connection) -> Vec<String> {
        read(connection, 1).unwrap().pieces.remove(&PieceKind::Item).unwrap_or_default()
    }

    fn database() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(super::super::schema::TABLES).unwrap();
        connection.execute_batch(super::super::schema::TABLES_2).unwrap();
        connection.execute_batch(INDEX).unwrap();
        connection
    }

    #[test]
    fn a_delayed_partial_after_the_final_is_refused_and_counted() {
        let mut connection = database();
        assert_eq!(flush(&mut connection, 1, 1, item(true, "par")), 0);
        assert_eq!(flush(&mut connection, 2, 1, item(true, "partial")), 0);
        assert_eq!(flush(&mut connection, 3, 1, item(false, "final")), 0);
        assert_eq!(flush(&mut connection, 4, 1, item(true, "partial")), 1);
        assert_eq!(stored(&connection), ["final"]);
    }

    #[test]
    fn an_old_owners_row_is_refused() {
        let mut connection = database();
        assert_eq!(flush(&mut connection, 5, 2, item(true, "new")), 0);
        assert_eq!(flush(&mut connection, 6, 1, item(true, "old")), 1);
        assert_eq!(flush(&mut connection, 4, 2, item(true, "older")), 1);
        assert_eq!(stored(&connection), ["new"]);
    }

    #[test]
    fn a_superseded_item_has_no_row() {
        let mut connection = database();
        flush(&mut connection, 1, 1, item(true, "void"));
        let gone = FoldWrite {
            head: Some("{}".into()),
            seq: Seq(2),
            epoch: 1,
            pieces: Vec::new(),
            gone: vec![ItemId::from("i1")],
            index_changes: IndexChanges::default(),
        };
        let transaction = connection.transaction().unwrap();
        write(&transaction, 1, &gone).unwrap();
        transaction.commit().unwrap();
        assert!(stored(&connection).is_empty());
    }
}
