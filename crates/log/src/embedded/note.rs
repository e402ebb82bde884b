//! The note beside the database, by which one that was put back from a backup is told from one that goes on.

use std::fmt;

/// A run of the log, and the database it used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) boot: u64,
    /// Tells that file from a copy of it.
    pub(crate) file: String,
    /// The database was at least this far.
    pub(crate) revision: u64,
}

/// The file `boot`. It has one entry, and two while a log is being opened: a crash may leave either boot in the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Note {
    entries: Vec<Entry>,
    /// The database is being made, and has no boot yet.
    is_first: bool,
}

/// The line of a note whose database is being made.
const FIRST: &str = "first";

impl Note {
    pub(crate) fn of(entry: Entry) -> Self {
        Self { entries: vec![entry], is_first: false }
    }

    /// With what the last run noted; without it when there was none.
    pub(crate) fn opening(next: Entry, last: Option<Entry>, is_first: bool) -> Self {
        Self { entries: [Some(next), last].into_iter().flatten().collect(), is_first }
    }

    pub(crate) fn parse(text: &str) -> Self {
        let entry = |line: &str| {
            let mut words = line.split(' ');
            let boot = u64::from_str_radix(words.next()?, 16).ok()?;
            let (file, revision) =
                (words.next()?.to_owned(), words.next().and_then(|word| word.parse().ok()));
            Some(Entry { boot, file, revision: revision.unwrap_or(0) })
        };
        let entries = text.lines().filter_map(entry).collect();
        Self { entries, is_first: text.lines().any(|line| line == FIRST) }
    }

    /// What it says of that run.
    pub(crate) fn entry(&self, boot: u64) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.boot == boot)
    }

    /// True when the directory had a database that was in use.
    pub(crate) fn knows_a_database(&self) -> bool {
        !self.entries.is_empty() && !self.is_first
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Entry { boot, file, revision } in &self.entries {
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
        let entry = |boot| Entry { boot, file: "8:1:2".into(), revision: 7 };
        for note in [
            Note::default(),
            Note::of(entry(1)),
            Note::opening(entry(u64::MAX), Some(entry(1)), false),
            Note::opening(entry(3), None, true),
        ] {
            assert_eq!(Note::parse(&note.to_string()), note);
        }
        assert_eq!(Note::parse("\0\0 \nno note\n"), Note::default());
    }
}
