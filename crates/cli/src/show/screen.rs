//! The terminal, or what stands for it. Without one there are no colours, no status line and no control characters.

use crate::escape;
use std::io::{self, IsTerminal, Write};

/// How a line stands out, where there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Faint,
    Strong,
    Good,
    Warning,
}

/// Where everything but the answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asides {
    /// To standard error, so that standard output is the answer and nothing else.
    Apart,
    /// To standard output, in their order with the answer.
    Among,
}

/// Standard output and standard error, and where their cursors are.
pub(crate) struct Screen {
    asides: Asides,
    /// Both are one place: a line of one must end before the other writes.
    shared: bool,
    /// A status line can be drawn and taken back.
    status: bool,
    colours: bool,
    answer_open: bool,
    aside_open: bool,
    status_drawn: bool,
}

impl Screen {
    pub(crate) fn new(asides: Asides) -> Self {
        let to_terminal = io::stdout().is_terminal();
        let told = match asides {
            Asides::Apart => io::stderr().is_terminal(),
            Asides::Among => to_terminal,
        };
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self {
            asides,
            shared: asides == Asides::Among || (told && to_terminal),
            status: told && !dumb,
            colours: told && !no_colour && !dumb,
            answer_open: false,
            aside_open: false,
            status_drawn: false,
        }
    }

    /// A piece of the answer.
    pub(crate) fn answer(&mut self, text: &str) -> io::Result<()> {
        self.clear_status()?;
        if self.shared {
            self.end_aside()?;
        }
        let mut out = io::stdout().lock();
        out.write_all(escape::text(text).as_bytes())?;
        out.flush()?;
        self.answer_open = !text.ends_with('\n');
        Ok(())
    }

    /// A piece of text that is not the answer.
    pub(crate) fn aside(&mut self, text: &str) -> io::Result<()> {
        self.clear_status()?;
        if self.shared {
            self.end_answer()?;
        }
        self.tell(Style::Faint, &escape::text(text))?;
        self.aside_open = !text.ends_with('\n');
        Ok(())
    }

    /// A line about what happens. It must be safe to print already.
    pub(crate) fn line(&mut self, style: Style, line: &str) -> io::Result<()> {
        self.clear_status()?;
        if self.shared {
            self.end_answer()?;
        }
        self.end_aside()?;
        self.tell(style, line)?;
        self.write("\n")
    }

    /// Words without a line end, for a person who is to type behind them.
    pub(crate) fn ask(&mut self, words: &str) -> io::Result<()> {
        self.clear_status()?;
        self.end_line()?;
        self.aside_open = true;
        self.tell(Style::Strong, words)
    }

    /// The person typed a line, which ended it.
    pub(crate) fn entered(&mut self) {
        self.aside_open = false;
    }

    /// Ends whatever line is open.
    pub(crate) fn end_line(&mut self) -> io::Result<()> {
        self.end_answer()?;
        self.end_aside()
    }

    /// Draws the status line, if there can be one and nothing else is on its line.
    pub(crate) fn status(&mut self, line: &str) -> io::Result<()> {
        if !self.status || self.aside_open || (self.shared && self.answer_open) {
            return Ok(());
        }
        self.clear_status()?;
        let width =
            terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| usize::from(width.0));
        self.tell(Style::Faint, &escape::preview(line, width.saturating_sub(1)))?;
        self.status_drawn = true;
        Ok(())
    }

    /// Takes the status line back.
    pub(crate) fn clear_status(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.status_drawn) {
            self.write("\r\x1b[K")?;
        }
        Ok(())
    }

    fn end_answer(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.answer_open) {
            let mut out = io::stdout().lock();
            out.write_all(b"\n")?;
            out.flush()?;
        }
        Ok(())
    }

    fn end_aside(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.aside_open) {
            self.write("\n")?;
        }
        Ok(())
    }

    fn tell(&self, style: Style, text: &str) -> io::Result<()> {
        let code = match style {
            Style::Plain => "",
            Style::Faint => "\x1b[2m",
            Style::Strong => "\x1b[1m",
            Style::Good => "\x1b[32m",
            Style::Warning => "\x1b[33m",
        };
        if self.colours && !code.is_empty() {
            self.write(&format!("{code}{text}\x1b[0m"))
        } else {
            self.write(text)
        }
    }

    fn write(&self, text: &str) -> io::Result<()> {
        match self.asides {
            Asides::Apart => io::stderr().write_all(text.as_bytes()),
            Asides::Among => {
                let mut out = io::stdout().lock();
                out.write_all(text.as_bytes())?;
                out.flush()
            }
        }
    }
}
