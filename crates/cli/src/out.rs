//! Standard output and standard error. Only this file writes to them, so only safe text is printed;
//! `clippy.toml` enforces it.
#![allow(clippy::disallowed_methods, reason = "this is where they are used")]

use crate::escape::{self, Safe, safe};
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

/// Whether standard output is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether standard error is a terminal.
pub(crate) fn errors_are_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Whether colours may be used: `NO_COLOR` is not set, and the terminal knows them.
pub(crate) fn colours_are_wanted() -> bool {
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !no_colour && !is_dumb()
}

/// Whether the terminal can only print lines.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term == "dumb")
}

/// Columns of the terminal behind standard output.
pub(crate) fn width() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0))
}

/// Columns of the terminal behind standard error.
pub(crate) fn errors_width() -> Option<usize> {
    terminal_size::terminal_size_of(io::stderr()).map(|(width, _)| usize::from(width.0))
}

/// Prints to standard output at once.
pub(crate) fn print(text: &Safe) -> io::Result<()> {
    exact(text.as_bytes())?;
    io::stdout().flush()
}

/// Writes exact bytes, for a program that reads standard output.
pub(crate) fn exact(bytes: &[u8]) -> io::Result<()> {
    io::stdout().write_all(bytes)
}

/// Flushes standard output.
pub(crate) fn flush() -> io::Result<()> {
    io::stdout().flush()
}

/// Prints to standard error.
pub(crate) fn print_error(text: &Safe) -> io::Result<()> {
    io::stderr().write_all(text.as_bytes())
}

/// A line on standard error. A command does not fail because nobody reads its notes.
pub(crate) fn note(line: Safe) {
    drop(print_error(&safe![line, "\n"]));
}

/// Standard error for log lines, which come as whole lines.
#[derive(Clone, Copy)]
pub(crate) enum LogLines {
    /// Every value in them was escaped before colours were added.
    Human,
    /// JSON, which is escaped here.
    Json,
}

impl Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Human => io::stderr().write_all(bytes)?,
            Self::Json => {
                let text = String::from_utf8_lossy(bytes);
                let lines = text.lines().map(|line| safe![escape::json(line), "\n"]);
                print_error(&lines.collect())?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Buffered standard output, for many lines.
pub(crate) struct Lines(BufWriter<Stdout>);

impl Lines {
    pub(crate) fn new() -> Self {
        Self(BufWriter::new(io::stdout()))
    }

    pub(crate) fn line(&mut self, line: &Safe) -> io::Result<()> {
        self.0.write_all(line.as_bytes())?;
        self.0.write_all(b"\n")
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
