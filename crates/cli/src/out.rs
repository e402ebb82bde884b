//! Standard output and standard error. This is the only file that writes to them, so that only safe text is
//! printed; `clippy.toml` keeps it so.
#![allow(clippy::disallowed_methods, reason = "this is where they are used")]

use crate::escape::{Safe, safe};
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

/// Whether standard output is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether standard error is a terminal.
pub(crate) fn errors_are_terminal() -> bool {
    io::stderr().is_terminal()
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

/// Bytes as they are, for a program that reads standard output.
pub(crate) fn exact(bytes: &[u8]) -> io::Result<()> {
    io::stdout().write_all(bytes)
}

/// Writes what standard output still holds back.
pub(crate) fn flush() -> io::Result<()> {
    io::stdout().flush()
}

/// Prints to standard error.
pub(crate) fn print_error(text: &Safe) -> io::Result<()> {
    io::stderr().write_all(text.as_bytes())
}

/// A line on standard error. Where nobody reads it, nothing is lost.
pub(crate) fn note(line: Safe) {
    let _ = print_error(&safe![line, "\n"]);
}

/// Standard output for many lines: written in large pieces.
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
