//! The terminal, or what stands for it. Without one there are no colours, no status line and no control characters.

use crate::escape::{Safe, Untrusted, preview, safe};
use crate::out;
use std::io;

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
    /// Nothing is written at all.
    is_unseen: bool,
}

impl Screen {
    pub(crate) fn new(asides: Asides) -> Self {
        let to_terminal = out::is_terminal();
        let told = match asides {
            Asides::Apart => out::errors_are_terminal(),
            Asides::Among => to_terminal,
        };
        Self {
            asides,
            shared: asides == Asides::Among || (told && to_terminal),
            status: told && !out::is_dumb(),
            colours: told && out::colours_are_wanted(),
            answer_open: false,
            aside_open: false,
            status_drawn: false,
            is_unseen: false,
        }
    }

    /// One that shows nothing.
    pub(crate) fn unseen() -> Self {
        Self {
            asides: Asides::Apart,
            shared: false,
            status: false,
            colours: false,
            answer_open: false,
            aside_open: false,
            status_drawn: false,
            is_unseen: true,
        }
    }

    /// A piece of the answer.
    pub(crate) fn answer(&mut self, text: Untrusted<'_>) -> io::Result<()> {
        self.clear_status()?;
        if self.shared {
            self.end_aside()?;
        }
        self.print(&text.text())?;
        self.answer_open = !text.exact().ends_with('\n');
        Ok(())
    }

    /// A piece of text that is not the answer.
    pub(crate) fn aside(&mut self, text: Untrusted<'_>) -> io::Result<()> {
        self.clear_status()?;
        if self.shared {
            self.end_answer()?;
        }
        self.tell(Style::Faint, &text.text())?;
        self.aside_open = !text.exact().ends_with('\n');
        Ok(())
    }

    /// A line about what happens.
    pub(crate) fn line(&mut self, style: Style, line: &Safe) -> io::Result<()> {
        self.clear_status()?;
        if self.shared {
            self.end_answer()?;
        }
        self.end_aside()?;
        self.tell(style, line)?;
        self.write(&safe!["\n"])
    }

    /// Words without a line end, for a person who is to type behind them.
    pub(crate) fn ask(&mut self, words: &Safe) -> io::Result<()> {
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
    pub(crate) fn status(&mut self, line: &Safe) -> io::Result<()> {
        if !self.status || self.aside_open || (self.shared && self.answer_open) {
            return Ok(());
        }
        self.clear_status()?;
        self.tell(Style::Faint, &preview(line.as_str(), self.width().saturating_sub(1)))?;
        self.status_drawn = true;
        Ok(())
    }

    /// Takes the status line back.
    pub(crate) fn clear_status(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.status_drawn) {
            self.write(&safe!["\r\x1b[K"])?;
        }
        Ok(())
    }

    fn end_answer(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.answer_open) {
            self.print(&safe!["\n"])?;
        }
        Ok(())
    }

    fn end_aside(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.aside_open) {
            self.write(&safe!["\n"])?;
        }
        Ok(())
    }

    /// Columns of the terminal that asides go to; without one, those of most.
    pub(crate) fn width(&self) -> usize {
        let width = match self.asides {
            Asides::Apart => out::errors_width(),
            Asides::Among => out::width(),
        };
        width.unwrap_or(80)
    }

    fn tell(&self, style: Style, text: &Safe) -> io::Result<()> {
        let code = match style {
            Style::Plain => "",
            Style::Faint => "\x1b[2m",
            Style::Strong => "\x1b[1m",
            Style::Good => "\x1b[32m",
            Style::Warning => "\x1b[33m",
        };
        if self.colours && !code.is_empty() {
            self.write(&safe![code, text, "\x1b[0m"])
        } else {
            self.write(text)
        }
    }

    /// What is not the answer.
    fn write(&self, text: &Safe) -> io::Result<()> {
        match self.asides {
            Asides::Apart if self.is_unseen => Ok(()),
            Asides::Apart => out::print_error(text),
            Asides::Among => self.print(text),
        }
    }

    fn print(&self, text: &Safe) -> io::Result<()> {
        if self.is_unseen { Ok(()) } else { out::print(text) }
    }
}
