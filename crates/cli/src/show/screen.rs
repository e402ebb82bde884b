//! Output to the terminal, a file or a pipe. Colours and the status line are used on a terminal only.

use crate::escape::{Safe, Untrusted, preview, safe};
use crate::out;
use std::io;

/// The colour of a line, if there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Faint,
    Strong,
    Good,
    Warning,
}

/// The destination of all output except the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asides {
    /// Standard error: standard output has the answer only.
    Apart,
    /// Standard output, in order with the answer.
    Among,
}

/// Standard output and standard error, and whether a line is open on them.
pub(crate) struct Screen {
    asides: Asides,
    /// Both are the same terminal: a line of one must end before the other writes.
    shared: bool,
    /// A status line can be drawn and erased.
    status: bool,
    colours: bool,
    answer_open: bool,
    aside_open: bool,
    status_drawn: bool,
    /// Nothing is written.
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

    /// A screen that shows nothing.
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

    /// Writes a piece of the answer.
    pub(crate) fn answer(&mut self, text: Untrusted<'_>) -> io::Result<()> {
        self.clear_status()?;
        if self.shared {
            self.end_aside()?;
        }
        self.print(&text.text())?;
        self.answer_open = !text.exact().ends_with('\n');
        Ok(())
    }

    /// Writes a piece of text that is not the answer.
    pub(crate) fn aside(&mut self, text: Untrusted<'_>) -> io::Result<()> {
        self.clear_status()?;
        if self.shared {
            self.end_answer()?;
        }
        self.tell(Style::Faint, &text.text())?;
        self.aside_open = !text.exact().ends_with('\n');
        Ok(())
    }

    /// Writes a line that is not the answer.
    pub(crate) fn line(&mut self, style: Style, line: &Safe) -> io::Result<()> {
        self.clear_status()?;
        if self.shared {
            self.end_answer()?;
        }
        self.end_aside()?;
        self.tell(style, line)?;
        self.write(&safe!["\n"])
    }

    /// Writes the prompt of an ask, without a line end.
    pub(crate) fn ask(&mut self, words: &Safe) -> io::Result<()> {
        self.clear_status()?;
        self.end_line()?;
        self.aside_open = true;
        self.tell(Style::Strong, words)
    }

    /// The person typed a line, which ended the line of the prompt.
    pub(crate) fn entered(&mut self) {
        self.aside_open = false;
    }

    /// Ends the open line, if any.
    pub(crate) fn end_line(&mut self) -> io::Result<()> {
        self.end_answer()?;
        self.end_aside()
    }

    /// Draws the status line, if there can be one and no other line is open.
    pub(crate) fn status(&mut self, line: &Safe) -> io::Result<()> {
        if !self.status || self.aside_open || (self.shared && self.answer_open) {
            return Ok(());
        }
        self.clear_status()?;
        self.tell(Style::Faint, &preview(line.as_str(), self.width().saturating_sub(1)))?;
        self.status_drawn = true;
        Ok(())
    }

    /// Erases the status line.
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

    /// The width of the terminal for asides; 80 without one.
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

    /// Writes to the destination of asides.
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
