//! Which pages of the database file may hold something between their rows: those that SQLite has written since they were
//! last looked at. To read all of a large database for every removal would take minutes.
//!
//! SQLite moves a row only into pages that it writes, and each of them is in its own log first. So after every transaction the
//! numbers of the pages are read there. What is left when the log is closed is noted in the database for the next run. Without
//! such a note, after a crash, nothing is known of the file: the first removal looks at all of it.

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::collections::BTreeSet;
use std::fmt::Write;

/// So many are remembered one by one. Beyond it, nothing is known.
const MOST: usize = 1 << 20;
/// So many are noted for the next run.
const NOTED: usize = 1 << 16;

/// Pages, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unscrubbed {
    /// Nothing is known of the pages from this one on.
    rest: Option<u64>,
    /// Those that the pass that is under way has still to look at.
    due: BTreeSet<u64>,
    /// Those that were written since it began.
    written: BTreeSet<u64>,
}

impl Unscrubbed {
    /// Of a file in which there is nothing yet.
    pub(crate) fn nothing() -> Self {
        Self { rest: None, due: BTreeSet::new(), written: BTreeSet::new() }
    }

    /// Of a file of which nothing is known.
    pub(crate) fn everything() -> Self {
        Self { rest: Some(0), ..Self::nothing() }
    }

    /// This page was written.
    pub(crate) fn add(&mut self, page: u64) {
        self.written.insert(page);
        if self.written.len() > MOST {
            *self = Self::everything();
        }
    }

    /// How many were written since the last pass began; `None` when nothing is known of the file.
    pub(crate) fn written(&self) -> Option<usize> {
        self.rest.is_none().then_some(self.written.len())
    }

    /// A pass begins. What is written from here on is for the next.
    pub(crate) fn begin_pass(&mut self) {
        match self.rest {
            // It looks at all pages that there are.
            Some(_) => *self = Self::everything(),
            None => self.due.append(&mut self.written),
        }
    }

    /// The next pages that a pass has to look at, in a file of so many; none at its end.
    pub(crate) fn next(&self, most: usize, count: u64) -> Vec<u64> {
        match self.rest {
            Some(first) => (first..count).take(most).collect(),
            None => self.due.iter().take(most).copied().collect(),
        }
    }

    /// Nothing is left in these, which [`Unscrubbed::next`] has named, of a file of so many.
    pub(crate) fn scrubbed(&mut self, pages: &[u64], count: u64) {
        for page in pages {
            self.due.remove(page);
        }
        if self.rest.is_some() {
            self.rest = pages.last().map(|last| last + 1).filter(|next| *next < count);
        }
    }

    /// All of them in words, as ranges; `None` when nothing is known, or they are too many.
    fn to_text(&self) -> Option<String> {
        if self.rest.is_some() || self.due.len() + self.written.len() > NOTED {
            return None;
        }
        let mut text = String::new();
        let mut pages = self.due.union(&self.written).copied().peekable();
        while let Some(first) = pages.next() {
            let mut last = first;
            while let Some(next) = pages.next_if_eq(&(last + 1)) {
                last = next;
            }
            // Writing to a `String` does not fail.
            let _ = write!(text, " {first}-{last}");
        }
        Some(text)
    }

    fn from_text(text: &str) -> Option<Self> {
        let mut unscrubbed = Self::nothing();
        for range in text.split_whitespace() {
            let (first, last) = range.split_once('-')?;
            let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
            if last < first || last - first >= NOTED as u64 {
                return None;
            }
            (first..=last).for_each(|page| unscrubbed.add(page));
        }
        Some(unscrubbed)
    }

    /// What the run of that boot id has noted at its end; `None` when there is no note, or other runs came after it.
    pub(super) fn noted(connection: &Connection, boot: u64) -> rusqlite::Result<Option<Self>> {
        let mut query = connection.prepare("SELECT value FROM meta WHERE name = 'unscrubbed'")?;
        let noted: Option<String> = query.query_row([], |row| row.get(0)).optional()?;
        let noted = noted.as_deref().and_then(|note| note.split_once(' '));
        let of_now = of_run(connection, boot)?;
        Ok(noted.filter(|(of, _)| *of == of_now).and_then(|(_, text)| Self::from_text(text)))
    }

    /// Notes them for the next run, if that can be done.
    pub(super) fn note(&self, transaction: &Transaction<'_>, boot: u64) -> rusqlite::Result<()> {
        match self.to_text() {
            None => Self::forget_note(transaction),
            Some(text) => transaction
                .execute(
                    "INSERT OR REPLACE INTO meta (name, value) VALUES ('unscrubbed', ?1)",
                    params![format!("{} {text}", of_run(transaction, boot)?)],
                )
                .map(drop),
        }
    }

    /// A note holds until the next transaction.
    pub(super) fn forget_note(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        transaction.execute("DELETE FROM meta WHERE name = 'unscrubbed'", []).map(drop)
    }

    /// True when a pass is at its end.
    pub(crate) fn is_passed(&self) -> bool {
        self.rest.is_none() && self.due.is_empty()
    }
}

/// Of which run a note is, and of which file: after a `VACUUM` of the operator's everything is in other pages, and SQLite
/// counts that as a change of the schema.
fn of_run(connection: &Connection, boot: u64) -> rusqlite::Result<String> {
    let schema = connection.pragma_query_value(None, "schema_version", |row| row.get::<_, i64>(0))?;
    Ok(format!("{boot:016x}.{schema}"))
}

#[cfg(test)]
mod tests {
    use super::Unscrubbed;

    /// All that a pass looks at, three pages at a time.
    fn pass(unscrubbed: &mut Unscrubbed, count: u64) -> Vec<u64> {
        let mut all = Vec::new();
        while !unscrubbed.is_passed() {
            let some = unscrubbed.next(3, count);
            unscrubbed.scrubbed(&some, count);
            all.extend(some);
        }
        all
    }

    #[test]
    fn a_pass_looks_at_what_was_written_before_it_and_the_next_at_the_rest() {
        let mut unscrubbed = Unscrubbed::nothing();
        [9, 2, 7, 2, 4].into_iter().for_each(|page| unscrubbed.add(page));
        assert_eq!(unscrubbed.written(), Some(4));
        unscrubbed.begin_pass();
        unscrubbed.add(4);
        unscrubbed.add(11);
        assert_eq!(pass(&mut unscrubbed, 20), [2, 4, 7, 9]);
        assert_eq!(unscrubbed.written(), Some(2));
        unscrubbed.begin_pass();
        assert_eq!(pass(&mut unscrubbed, 20), [4, 11]);
        unscrubbed.begin_pass();
        assert_eq!(pass(&mut unscrubbed, 20), [] as [u64; 0]);
    }

    #[test]
    fn of_a_file_of_which_nothing_is_known_all_of_it_is_looked_at_once() {
        let mut unscrubbed = Unscrubbed::everything();
        unscrubbed.add(5);
        assert_eq!(unscrubbed.written(), None);
        unscrubbed.begin_pass();
        assert_eq!(unscrubbed.next(3, 8), [0, 1, 2]);
        unscrubbed.scrubbed(&[0, 1, 2], 8);
        unscrubbed.add(1);
        assert_eq!(pass(&mut unscrubbed, 8), [3, 4, 5, 6, 7]);
        unscrubbed.begin_pass();
        assert_eq!(pass(&mut unscrubbed, 8), [1]);
    }

    #[test]
    fn what_is_noted_comes_back() {
        let mut unscrubbed = Unscrubbed::nothing();
        assert_eq!(unscrubbed.to_text().as_deref(), Some(""));
        [3, 9, 4, 5].into_iter().for_each(|page| unscrubbed.add(page));
        unscrubbed.begin_pass();
        [10, 20].into_iter().for_each(|page| unscrubbed.add(page));
        assert_eq!(unscrubbed.to_text().as_deref(), Some(" 3-5 9-10 20-20"));
        let mut again = Unscrubbed::from_text(" 3-5 9-10 20-20").unwrap();
        again.begin_pass();
        assert_eq!(pass(&mut again, 30), [3, 4, 5, 9, 10, 20]);
        assert_eq!(Unscrubbed::everything().to_text(), None);
        for other in ["5", "5-4", "a-b", "0-99999999", "-"] {
            assert_eq!(Unscrubbed::from_text(other), None, "{other}");
        }
    }

    #[test]
    fn what_cannot_be_remembered_is_not_known() {
        let mut unscrubbed = Unscrubbed::nothing();
        (0..=super::MOST as u64).for_each(|page| unscrubbed.add(page));
        assert_eq!(unscrubbed, Unscrubbed::everything());
    }
}
