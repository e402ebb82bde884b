//! The table at the end of the demo.

use super::tally::Tally;
use crate::escape::{Safe, safe};
use crate::show::{Screen, Style};
use std::io;

/// Columns of the first cell and of the number.
const WIDTHS: (usize, usize) = (44, 7);

/// A row: what was measured, and whether it is what was promised.
pub(super) struct Row {
    what: &'static str,
    measured: Safe,
    /// None if nothing was promised.
    pub(super) held: Option<bool>,
}

/// The rows of a tally.
pub(super) fn rows(tally: &Tally) -> Vec<Row> {
    let fact = |what, count: usize| Row { what, measured: safe![count], held: None };
    let zero = |what, count: usize| Row { what, measured: safe![count], held: Some(count == 0) };
    let (fewest, most) = (tally.ends.values().min().copied(), tally.ends.values().max().copied());
    let ends = match (fewest, most) {
        (Some(fewest), Some(most)) if fewest == most => safe![most],
        (Some(fewest), Some(most)) => safe![fewest, " to ", most],
        (None, _) | (_, None) => safe!["none"],
    };
    let received = Row {
        what: "events received by the client",
        measured: safe![tally.received],
        held: Some(tally.received == tally.sent),
    };
    let ends =
        Row { what: "ends of each turn", measured: ends, held: Some((fewest, most) == (Some(1), Some(1))) };
    vec![
        fact("events sent by the gateway", tally.sent),
        received,
        zero("lost", tally.lost),
        zero("duplicated", tally.duplicated),
        zero("changed", tally.changed),
        fact("turns", tally.ends.len()),
        ends,
        fact("model calls", tally.model_calls),
        fact("tool calls run", tally.calls_run),
        zero("wrong tool calls", tally.wrong_calls),
        zero("tool calls not run", tally.calls_not_run),
        zero("files that are not as asked for", tally.wrong_files),
        zero("broken laws in the log (turnstream check)", tally.broken_laws),
        zero("processes and files left behind", tally.left.processes + tally.left.files),
    ]
}

/// Prints the rows.
pub(super) fn print(rows: &[Row], screen: &mut Screen) -> io::Result<()> {
    screen.line(Style::Plain, &safe![""])?;
    screen.line(Style::Strong, &safe!["Measured"])?;
    for Row { what, measured, held } in rows {
        let (style, mark) = match held {
            None => (Style::Plain, ""),
            Some(true) => (Style::Good, "  as promised"),
            Some(false) => (Style::Warning, "  BROKEN"),
        };
        let number = measured.clone().indented(WIDTHS.1);
        screen.line(style, &safe!["   ", safe![*what].padded(WIDTHS.0), number, mark])?;
    }
    screen.line(Style::Plain, &safe![""])
}
