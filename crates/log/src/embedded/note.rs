//! The `boot` file beside the database. It shows whether the database continues its history or was restored
//! from a backup.

use std::fmt;

/// A run of the log, and the database it used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BootEntry {
    pub(crate) boot: u64,
    /// The identity of the database file, which a copy does not share.
    pub(crate) file: String,
    /// A revision that the database had reached.
    pub(crate) revision: u64,
}

/// The file `boot`. It has one entry, and two while a log is being opened: after a crash, the database may
/// have the boot id of either.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BootNote {
    entries: Vec<BootEntry>,
    /// The database is being created and has no boot id yet.
    is_first: bool,
}

/// Marks a note whose database is being created.
const FIRST: &str = "first";

impl BootNote {
    pub(crate) fn of(entry: BootEntry) -> Self {
        Self { entries: vec![entry], is_first: false }
    }

    /// A note with the new entry and, if there was one, that of the last run.
    pub(crate) fn opening(next: BootEntry, last: Option<BootEntry>, is_first: bool) -> Self {
        Self { entries: [Some(next), last].into_iter().flatten().collect(), is_first }
    }

    pub(crate) fn parse(text: &str) -> Self {
        let entry = |line: &str| {
            let mut words = line.split(' ');
            let boot = u64::from_str_radix(words.next()?, 16).ok()?;
            let (file, revision) =
                (words.next()?.to_owned(), words.next().and_then(|word| word.parse().ok()));
            Some(BootEntry { boot, file, revision: revision.unwrap_or(0) })
        };
        let entries = text.lines().filter_map(entry).collect();
        Self { entries, is_first: text.lines().any(|line| line == FIRST) }
    }

    /// The entry of a run.
    pub(crate) fn entry(&self, boot: u64) -> Option<&BootEntry> {
        self.entries.iter().find(|entry| entry.boot == boot)
    }

    /// True if the directory had a database that was in use.
    pub(crate) fn knows_a_database(&self) -> bool {
        !self.entries.is_empty() && !self.is_first
    }
}

impl fmt::Display for BootNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for BootEntry { boot, file, revision } in &self.entries {
            writeln!(f, "{boot:016x} {file} {revision}")?;
        }
        if self.is_first { writeln!(f, "{FIRST}") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_reads_back_as_it_was_written_and_noise_says_nothing() {
        let entry = |boot| BootEntry { boot, file: "8:1:2".into(), revision: 7 };
        for note in [
            BootNote::default(),
            BootNote::of(entry(1)),
            BootNote::opening(entry(u64::MAX), Some(entry(1)), false),
            BootNote::opening(entry(3), None, true),
        ] {
            assert_eq!(BootNote::parse(&note.to_string()), note);
        }
        assert_eq!(BootNote::parse("\0\0 \nno note\n"), BootNote::default());
    }
}
