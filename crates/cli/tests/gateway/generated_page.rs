//! A page of the documentation whose tables are written by tests: a row for each case, a column for each
//! subject.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

const END: &str = "<!-- end of the generated part -->\n";
/// The cell of a case that was never run.
pub(crate) const MISSING: &str = "?";

/// The cells of a page, by column and row.
pub(crate) type Cells = BTreeMap<(String, String), String>;

/// A page, locked: other subjects may be written at the same time, by other processes.
pub(crate) struct Page {
    _lock: File,
    path: PathBuf,
    begin: &'static str,
    before: String,
    pub(crate) generated: String,
    after: String,
}

impl Page {
    /// A page of `docs`, whose generated part begins after this line.
    pub(crate) fn open(name: &str, begin: &'static str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        let lock = File::open(&path).unwrap();
        lock.lock().unwrap();
        let page = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = page.split_once(begin).unwrap();
        let (generated, after) = rest.split_once(END).unwrap();
        let [before, generated, after] = [before, generated, after].map(str::to_owned);
        Self { _lock: lock, path, begin, before, generated, after }
    }

    /// Replaces the generated part.
    pub(crate) fn write(&self, generated: &str) {
        let Self { before, begin, after, .. } = self;
        std::fs::write(&self.path, format!("{before}{begin}{generated}{END}{after}")).unwrap();
    }

    /// Compares the cells of a column, by row, with the page, or writes them to it.
    pub(crate) fn settle(
        &self,
        column: &str,
        seen: &BTreeMap<&str, String>,
        render: impl Fn(&Cells) -> String,
    ) {
        let mut cells = parse(&self.generated);
        if is_update() {
            for (row, cell) in seen {
                cells.insert((column.to_owned(), (*row).to_owned()), cell.clone());
            }
            return self.write(&render(&cells));
        }
        let written: BTreeMap<&str, String> =
            seen.keys().map(|row| (*row, cell(&cells, column, row).to_owned())).collect();
        assert_eq!(
            seen,
            &written,
            "{column}: left what was seen, right {}; TURNSTREAM_UPDATE=1 writes it anew",
            self.path.display()
        );
    }

    /// Checks that the page is what the tests would write, and that every cell was run.
    pub(crate) fn check(&self, render: impl Fn(&Cells) -> String) {
        let cells = parse(&self.generated);
        if is_update() {
            return self.write(&render(&cells));
        }
        assert_eq!(self.generated, render(&cells), "TURNSTREAM_UPDATE=1 writes it anew");
        let missing: Vec<_> = cells.iter().filter(|(_, cell)| *cell == MISSING).collect();
        assert!(missing.is_empty(), "never run: {missing:?}");
    }
}

/// Whether pages are written anew.
pub(crate) fn is_update() -> bool {
    std::env::var_os("TURNSTREAM_UPDATE").is_some()
}

/// A cell of the page.
pub(crate) fn cell<'a>(cells: &'a Cells, column: &str, row: &str) -> &'a str {
    cells.get(&(column.to_owned(), row.to_owned())).map_or(MISSING, String::as_str)
}

/// The cells of the first table, whatever rows and columns it has.
fn parse(generated: &str) -> Cells {
    let table = generated.trim_start().lines().take_while(|line| line.starts_with('|'));
    let mut rows = table.filter(|line| line.starts_with("| ")).map(|line| {
        let cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
        cells.collect::<Vec<String>>()
    });
    let columns = rows.next().unwrap_or_default();
    let cells = rows.flat_map(|row| {
        let name = row.first().cloned().unwrap_or_default();
        let cells = columns.iter().cloned().zip(row).skip(1);
        cells.map(move |(column, cell)| ((column, name.clone()), cell)).collect::<Vec<_>>()
    });
    cells.collect()
}
