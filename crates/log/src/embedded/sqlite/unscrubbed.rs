//! The database pages that need scrubbing: those that SQLite has written since their last scrub. Reading a
//! whole large database for every removal would take minutes.
//!
//! SQLite copies rows only into pages that it writes, and every written page is first in its write-ahead log.
//! So the page numbers are read from there after each transaction. On close the remaining ones are recorded
//! in the database for the next run. Without that record, after a crash, the first removal scrubs the whole
//! file.

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The largest number of pages to track. With more, all pages count as unscrubbed.
const MOST: usize = 1 << 20;
/// The largest number of pages to record for the next run.
const NOTED: usize = 1 << 16;

/// Page numbers, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unscrubbed {
    /// All pages from this one on are unscrubbed.
    rest: Option<u64>,
    /// The pages that the current pass has left.
    due: BTreeSet<u64>,
    /// The pages that were written since the current pass began.
    written: BTreeSet<u64>,
}

impl Unscrubbed {
    /// For an empty file.
    pub(crate) fn nothing() -> Self {
        Self { rest: None, due: BTreeSet::new(), written: BTreeSet::new() }
    }

    /// For a file with unknown content.
    pub(crate) fn everything() -> Self {
        Self { rest: Some(0), ..Self::nothing() }
    }

    /// Adds a page that was written.
    pub(crate) fn add(&mut self, page: u64) {
        self.written.insert(page);
        if self.written.len() > MOST {
            *self = Self::everything();
        }
    }

    /// The number of pages written since the last pass began. `None` if all pages count as unscrubbed.
    pub(crate) fn written(&self) -> Option<usize> {
        self.rest.is_none().then_some(self.written.len())
    }

    /// Begins a pass. Pages that are written from now on are for the next one.
    pub(crate) fn begin_pass(&mut self) {
        match self.rest {
            // The pass covers all pages of the file.
            Some(_) => *self = Self::everything(),
            None => self.due.append(&mut self.written),
        }
    }

    /// The next pages of the pass, in a file of `count` pages. Empty at its end.
    pub(crate) fn next(&self, most: usize, count: u64) -> Vec<u64> {
        match self.rest {
            Some(first) => (first..count).take(most).collect(),
            None => self.due.iter().take(most).copied().collect(),
        }
    }

    /// These pages, from [`Unscrubbed::next`], are scrubbed.
    pub(crate) fn scrubbed(&mut self, pages: &[u64], count: u64) {
        for page in pages {
            self.due.remove(page);
        }
        if self.rest.is_some() {
            self.rest = pages.last().map(|last| last + 1).filter(|next| *next < count);
        }
    }

    /// All pages as ranges. `None` if they are unknown or too many.
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

    /// The pages that the run with this boot id recorded on close. `None` if there is no record, or if other
    /// runs followed.
    pub(super) fn noted(connection: &Connection, boot: u64) -> rusqlite::Result<Option<Self>> {
        let mut query = connection.prepare("SELECT value FROM meta WHERE name = 'unscrubbed'")?;
        let noted: Option<String> = query.query_row([], |row| row.get(0)).optional()?;
        let noted = noted.as_deref().and_then(|note| note.split_once(' '));
        let of_now = of_run(connection, boot)?;
        Ok(noted.filter(|(of, _)| *of == of_now).and_then(|(_, text)| Self::from_text(text)))
    }

    /// Records the pages for the next run, if possible.
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

    /// Deletes the record, which is valid only until the next transaction.
    pub(super) fn forget_note(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        transaction.execute("DELETE FROM meta WHERE name = 'unscrubbed'", []).map(drop)
    }

    /// True at the end of a pass.
    pub(crate) fn is_passed(&self) -> bool {
        self.rest.is_none() && self.due.is_empty()
    }
}

/// Identifies the run and the file layout of a record. After a `VACUUM` by an operator all rows are on other
/// pages; SQLite counts it as a schema change.
fn of_run(connection: &Connection, boot: u64) -> rusqlite::Result<String> {
    let schema = connection.pragma_query_value(None, "schema_version", |row| row.get::<_, i64>(0))?;
    Ok(format!("{boot:016x}.{schema}"))
}

#[cfg(test)]
mod tests {
    use super::Unscrubbed;

    /// All pages of a pass, read three at a time.
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
